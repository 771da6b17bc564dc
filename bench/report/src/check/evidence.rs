// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Where is the cell that a target names?

use std::collections::BTreeMap;

use netlab::wire::{Conditions, Loss};

use super::{Tally, ARQ};
use crate::record::{Measurement, Outcome, Record};
use crate::summary::{self, setting_in_words, Figure, FlowSummary, Summary};

/// All results by scenario.
pub(super) struct Evidence<'a> {
    /// How often each cell must have been measured.
    repeats: usize,
    summaries: BTreeMap<&'a str, Vec<Summary>>,
    records: BTreeMap<&'a str, Vec<&'a Record>>,
}

/// The network and the payload of a cell: random loss and delay the same in both directions, nothing else.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground {
    pub(super) drop_percent: f64,
    pub(super) delay_ms: f64,
    pub(super) payload_bytes: usize,
}

impl Ground {
    pub(super) fn words(&self) -> String {
        let Self { drop_percent, delay_ms, payload_bytes } = self;
        format!("{payload_bytes} bytes, {delay_ms} ms, {drop_percent} %")
    }

    fn is_of(&self, summary: &Summary) -> bool {
        let first = summary.flows.first().map(|flow| flow.flow.payload_bytes);
        drop_percent(&summary.network) == Some(self.drop_percent)
            && delay_ms(&summary.network) == Some(self.delay_ms)
            && first.or_else(|| payload_in_setting(summary)) == Some(self.payload_bytes)
    }
}

/// The payload of a cell without a single result, which has no flows to tell it.
fn payload_in_setting(summary: &Summary) -> Option<usize> {
    let mut setting = summary.cell.setting.iter();
    setting.find(|(axis, _)| axis == "payload_bytes")?.1.parse().ok()
}

/// The share lost, per cent, where loss is random and the same both ways, and nothing else disturbs.
pub(super) fn drop_percent(network: &Conditions) -> Option<f64> {
    let percent = |loss: Loss| match loss {
        Loss::None => Some(0.0),
        Loss::Random { percent } => Some(percent),
        Loss::Correlated { .. } | Loss::Gilbert { .. } | Loss::State { .. } => None,
    };
    let wires = [&network.forward, &network.backward];
    let is_plain = network.events.is_empty()
        && network.second.is_none()
        && wires.iter().all(|wire| {
            wire.jitter_ms == 0.0
                && wire.bit_error_rate == 0.0
                && wire.duplicate_percent == 0.0
                && wire.reorder_percent == 0.0
                && wire.policer.is_none()
                && wire.fade.is_none()
                && wire.recording.is_none()
        });
    let [forward, backward] = wires.map(|wire| percent(wire.loss));
    forward.filter(|_| is_plain && forward == backward)
}

/// The delay of both directions, if it is the same.
pub(super) fn delay_ms(network: &Conditions) -> Option<f64> {
    let (forward, backward) = (network.forward.delay_ms, network.backward.delay_ms);
    (forward == backward).then_some(forward)
}

impl<'a> Evidence<'a> {
    pub(super) fn of(results: &'a [(String, Vec<Record>)], repeats: usize) -> Self {
        let mut records: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
        for (scenario, of_scenario) in results {
            records.entry(scenario).or_default().extend(of_scenario);
        }
        let summaries = records.iter().map(|(scenario, records)| {
            let records: Vec<_> = records.iter().map(|record| (*record).clone()).collect();
            (*scenario, summary::of(&records))
        });
        Self { repeats, summaries: summaries.collect(), records }
    }

    /// All cells of a link in a scenario.
    pub(super) fn cells(&self, scenario: &str, link: &str) -> impl Iterator<Item = &Summary> {
        let cells = self.summaries.get(scenario).into_iter().flatten();
        let link = link.to_owned();
        cells.filter(move |summary| summary.cell.link == link)
    }

    /// A cell of ours with enough sound repeats. What is not there is noted as missing, what failed as missed.
    pub(super) fn ours(
        &self,
        tally: &mut Tally,
        scenario: &str,
        link: &str,
        what: &str,
        is_it: impl Fn(&Summary) -> bool,
    ) -> Option<&Summary> {
        let found = self.cells(scenario, link).find(|summary| is_it(summary));
        let name = format!("{scenario}, {link}, {what}");
        if let Some(reason) = found.and_then(|summary| summary.failures.first()) {
            tally.is_missed(format!("{name}: a run failed: {reason}"));
            return None;
        }
        self.sound(tally, found, &name)
    }

    /// The same of a ground.
    pub(super) fn ours_on(
        &self,
        tally: &mut Tally,
        scenario: &str,
        link: &str,
        ground: &Ground,
    ) -> Option<&Summary> {
        self.ours(tally, scenario, link, &ground.words(), |summary| ground.is_of(summary))
    }

    /// Every cell that the shipped scenario has of ours, with its name; as [`ours`](Self::ours).
    pub(super) fn all_ours(&self, tally: &mut Tally, scenario: &str) -> Vec<(String, &Summary)> {
        let Some(shipped) = tally.scenario(scenario) else { return Vec::new() };
        let settings = shipped.cells().into_iter().filter(|setting| setting.cell.link == ARQ);
        let found = settings.filter_map(|setting| {
            let what = setting_in_words(&setting.cell.setting);
            let is_it = |cell: &Summary| cell.cell.setting == setting.cell.setting;
            let cell = self.ours(tally, scenario, ARQ, &what, is_it)?;
            Some((what, cell))
        });
        found.collect()
    }

    /// A cell of a rival that the target names. One that failed was not measured: it may be the bench's fault.
    pub(super) fn rival(
        &self,
        tally: &mut Tally,
        scenario: &str,
        link: &str,
        what: &str,
        is_it: impl Fn(&Summary) -> bool,
    ) -> Option<&Summary> {
        let found = self.cells(scenario, link).find(|summary| is_it(summary));
        self.sound(tally, found, &format!("{scenario}, {link}, {what}"))
    }

    pub(super) fn rival_on(
        &self,
        tally: &mut Tally,
        scenario: &str,
        link: &str,
        ground: &Ground,
    ) -> Option<&Summary> {
        self.rival(tally, scenario, link, &ground.words(), |summary| ground.is_of(summary))
    }

    /// The sound runs of a cell.
    pub(super) fn runs<'b>(&'b self, cell: &'b Summary) -> impl Iterator<Item = &'b Measurement> {
        let records = self.records.get(cell.scenario.as_str()).into_iter().flatten();
        let of_cell = records.filter(|record| record.cell == cell.cell);
        of_cell.filter_map(|record| match &record.outcome {
            Outcome::Measured(measurement) if !summary::is_void(measurement) => {
                Some(measurement.as_ref())
            }
            Outcome::Measured(_) | Outcome::Failed(_) => None,
        })
    }

    fn sound<'b>(
        &self,
        tally: &mut Tally,
        found: Option<&'b Summary>,
        name: &str,
    ) -> Option<&'b Summary> {
        let repeats = found.map_or(0, |summary| summary.repeats);
        if repeats >= self.repeats {
            return found;
        }
        tally.is_missing(match repeats {
            0 => format!("{name}: no result"),
            few => format!("{name}: {few} of {} repeats", self.repeats),
        });
        None
    }
}

/// The median of a figure of the cell's first flow.
pub(super) fn of_first_flow(summary: &Summary, figure: Figure) -> Option<f64> {
    summary.flows.first().and_then(|flow| of_flow(flow, figure))
}

/// The median of a figure of a flow. With too few messages for a rank it is the greatest: what keeps a bound at its worst
/// keeps it at that rank.
pub(super) fn of_flow(flow: &FlowSummary, figure: Figure) -> Option<f64> {
    let spread = flow.figures.get(&figure).or_else(|| flow.short_ranks.get(&figure));
    Some(spread?.median())
}

/// The median of a figure of the whole cell.
pub(super) fn of_cell(summary: &Summary, figure: Figure) -> Option<f64> {
    Some(summary.figures.get(&figure)?.median())
}
