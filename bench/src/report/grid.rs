// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What do the records of a scenario hold: which settings, links and flows, and which runs of each?

use std::collections::{BTreeMap, BTreeSet};

use super::axis::Axis;
use super::metric::Metric;
use super::style::{styles, Style};
use super::units::Spread;
use super::{Input, ScenarioInfo};
use crate::record::{FlowResult, Measurement, Outcome, Percentiles, Record};

/// The records of a scenario, sorted.
pub(crate) struct Grid<'a> {
    /// The scenario.
    pub(crate) info: &'a ScenarioInfo,
    /// What varies, in the scenario's order; axes with one value are left out.
    pub(crate) axes: Vec<Axis>,
    /// Every combination that was run, in the order of the axes' values.
    pub(crate) settings: Vec<Setting>,
    /// In the scenario's order.
    pub(crate) links: Vec<Link>,
    /// The names of flows, in the scenario's order.
    pub(crate) flows: Vec<String>,
    runs: BTreeMap<(usize, usize), Runs<'a>>,
}

/// Keys and values as they are written in the scenario.
pub(crate) type Setting = Vec<(String, String)>;

/// A link and how it is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// As the scenario calls it.
    pub(crate) name: String,
    /// Whether it speaks our protocol.
    pub(crate) ours: bool,
    /// Colour and mark.
    pub(crate) style: Style,
}

/// The runs of one link in one setting.
#[derive(Default)]
pub(crate) struct Runs<'a> {
    /// Those that count, by repeat.
    pub(crate) measured: Vec<(&'a Record, &'a Measurement)>,
    /// Those that did not run, and why.
    pub(crate) failed: Vec<(&'a Record, &'a str)>,
    /// Those in which the emulator could not keep up.
    pub(crate) void: Vec<&'a Record>,
}

impl<'a> Grid<'a> {
    pub(crate) fn of(input: &Input<'a>) -> Self {
        let (info, records) = (input.scenario, input.records);
        let axes = Axis::of(records);
        let mut settings: Vec<Setting> = Vec::new();
        for record in records {
            if !settings.contains(&record.cell.setting) {
                settings.push(record.cell.setting.clone());
            }
        }
        settings.sort_by_cached_key(|setting| {
            axes.iter().map(|axis| axis.rank(setting)).collect::<Vec<_>>()
        });
        let links = links(info, records);
        let mut runs: BTreeMap<(usize, usize), Runs<'a>> = BTreeMap::new();
        for record in records {
            let setting = settings.iter().position(|setting| *setting == record.cell.setting);
            let link = links.iter().position(|link| link.name == record.cell.link);
            if let (Some(setting), Some(link)) = (setting, link) {
                runs.entry((setting, link)).or_default().add(record);
            }
        }
        let flows = flows(records);
        Self { info, axes, settings, links, flows, runs }
    }

    /// The runs of a link in a setting; `None` when it was not meant to run there.
    pub(crate) fn runs(&self, setting: usize, link: usize) -> Option<&Runs<'a>> {
        self.runs.get(&(setting, link))
    }

    /// All runs with their setting and link.
    pub(crate) fn all_runs(&self) -> impl Iterator<Item = (usize, usize, &Runs<'a>)> {
        self.runs.iter().map(|((setting, link), runs)| (*setting, *link, runs))
    }

    /// A flow of the runs that count.
    pub(crate) fn flow_results(
        &self,
        setting: usize,
        link: usize,
        flow: &str,
    ) -> impl Iterator<Item = (&'a Measurement, &'a FlowResult)> + use<'a, '_> {
        let flow = flow.to_owned();
        let measured = self.runs(setting, link).map_or(&[][..], |runs| &runs.measured);
        measured.iter().filter_map(move |(_, run)| {
            Some((*run, run.flows.iter().find(|f| f.flow.name == flow)?))
        })
    }

    /// A figure over the repeats.
    pub(crate) fn spread(
        &self,
        setting: usize,
        link: usize,
        flow: &str,
        metric: Metric,
    ) -> Option<Spread> {
        let results = self
            .flow_results(setting, link, flow)
            .filter(|(_, result)| metric.fits(result.flow.pattern));
        Spread::of(results.filter_map(|(run, result)| metric.of(run, result)))
    }

    /// Whether any run has this figure for this flow.
    pub(crate) fn has(&self, flow: &str, metric: Metric) -> bool {
        self.all_runs().any(|(setting, link, _)| self.spread(setting, link, flow, metric).is_some())
    }

    /// The bound that belongs to a figure, over all runs of a setting.
    pub(crate) fn bound(&self, setting: usize, flow: &str, metric: Metric) -> Option<f64> {
        let results = (0..self.links.len()).flat_map(|link| self.flow_results(setting, link, flow));
        let ideals: Vec<_> = results.filter_map(|(_, result)| result.ideal).collect();
        let rank = |ranks: Percentiles| match metric {
            Metric::P50 => ranks.p50,
            Metric::P90 => ranks.p90,
            Metric::P99 => ranks.p99,
            Metric::P999 => ranks.p99_9,
            Metric::Max => ranks.max,
            Metric::Mean => ranks.mean_of_delivered,
            _ => None,
        };
        match metric {
            Metric::Goodput => ideals.iter().find_map(|ideal| ideal.capacity_mbps),
            _ => ideals.iter().find_map(|ideal| rank(ideal.closed_form?)).or_else(|| {
                let of_runs = ideals.iter().filter_map(|ideal| rank(ideal.this_run?));
                Spread::of(of_runs).map(|spread| spread.median)
            }),
        }
    }

    /// A setting in words; only what varies.
    pub(crate) fn describe(&self, setting: usize) -> String {
        let words: Vec<_> =
            self.axes.iter().filter_map(|axis| axis.describe(&self.settings[setting])).collect();
        words.join(", ")
    }

    /// How often cells were repeated: `5` or `3 to 5`.
    pub(crate) fn repeats(&self) -> String {
        let counts: BTreeSet<usize> = self
            .runs
            .values()
            .map(|runs| runs.measured.len() + runs.failed.len() + runs.void.len())
            .collect();
        match (counts.first(), counts.last()) {
            (Some(1), Some(1)) => "1 run of each cell".to_owned(),
            (Some(few), Some(many)) if few == many => format!("{many} repeats"),
            (Some(few), Some(many)) => format!("{few} to {many} repeats"),
            _ => "no repeats".to_owned(),
        }
    }
}

impl<'a> Runs<'a> {
    fn add(&mut self, record: &'a Record) {
        match &record.outcome {
            Outcome::Failed(why) => self.failed.push((record, why)),
            Outcome::Measured(run)
                if run.forward.emulator_overrun + run.backward.emulator_overrun > 0 =>
            {
                self.void.push(record);
            }
            Outcome::Measured(run) => {
                self.measured.push((record, run));
                self.measured.sort_by_key(|(record, _)| record.repeat);
            }
        }
    }
}

/// The scenario's links in its order, then those it does not list.
fn links(info: &ScenarioInfo, records: &[Record]) -> Vec<Link> {
    let ran: BTreeSet<&str> = records.iter().map(|record| record.cell.link.as_str()).collect();
    let listed = info.links.iter().map(|link| link.name.as_str()).filter(|name| ran.contains(name));
    let mut names: Vec<&str> = listed.collect();
    names.extend(ran.iter().filter(|name| !info.links.iter().any(|link| link.name == **name)));
    let styles = styles(&names);
    let ours = |name: &str| match info.links.iter().find(|link| link.name == name) {
        Some(link) => link.ours,
        None => name == "arq" || name.starts_with("arq-"),
    };
    names
        .iter()
        .zip(styles)
        .map(|(name, style)| Link { name: (*name).to_owned(), ours: ours(name), style })
        .collect()
}

fn flows(records: &[Record]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for record in records {
        if let Outcome::Measured(run) = &record.outcome {
            for flow in &run.flows {
                if !names.contains(&flow.flow.name) {
                    names.push(flow.flow.name.clone());
                }
            }
        }
    }
    names
}
