// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What do the records of a scenario hold: which settings, links and flows, and which runs of each?

use std::collections::{BTreeMap, BTreeSet};

use super::axis::Axis;
use super::metric::{Metric, COSTS};
use super::style::{styles, Style};
use super::{Input, ScenarioInfo};
use crate::oracle;
use crate::record::{FlowResult, Measurement, Outcome, Percentiles, Record};
use crate::summary::{self, FlowSummary, Spread, Summary};

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
    summaries: BTreeMap<(usize, usize), Summary>,
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
        let place = |summary: Summary| {
            let setting = settings.iter().position(|setting| *setting == summary.cell.setting)?;
            Some((
                (setting, links.iter().position(|link| link.name == summary.cell.link)?),
                summary,
            ))
        };
        let summaries = summary::of(records).into_iter().filter_map(place).collect();
        Self { info, axes, settings, links, flows, runs, summaries }
    }

    /// The runs of a link in a setting; `None` when it was not meant to run there.
    pub(crate) fn runs(&self, setting: usize, link: usize) -> Option<&Runs<'a>> {
        self.runs.get(&(setting, link))
    }

    /// The links of the scenario that have no record, for want of something in the kernel or as the run was cut short:
    /// without a word about them the best of the others would pass for the best of all.
    pub(crate) fn unmeasured_links(&self) -> Vec<&'a str> {
        let ran = |name: &str| self.links.iter().any(|link| link.name == name);
        self.info.links.iter().map(|link| link.name.as_str()).filter(|name| !ran(name)).collect()
    }

    /// How many runs of a link in a setting failed: its figures there are of the others alone.
    pub(crate) fn failed(&self, setting: usize, link: usize) -> usize {
        self.runs(setting, link).map_or(0, |runs| runs.failed.len())
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

    /// A figure over the repeats: of the flow, or of the whole run.
    pub(crate) fn spread(
        &self,
        setting: usize,
        link: usize,
        flow: &str,
        metric: Metric,
    ) -> Option<&Spread> {
        let of_flow = self.flow(setting, link, flow).and_then(|flow| flow.figures.get(&metric));
        of_flow.or_else(|| self.summaries.get(&(setting, link))?.figures.get(&metric))
    }

    fn flow(&self, setting: usize, link: usize, flow: &str) -> Option<&FlowSummary> {
        self.summaries.get(&(setting, link))?.flows.iter().find(|known| known.flow.name == flow)
    }

    /// Every cell summed up.
    pub(crate) fn summaries(&self) -> Vec<Summary> {
        self.summaries.values().cloned().collect()
    }

    /// The flows that have this figure; one for all if it belongs to the whole run. A flow with a link of its own says
    /// nothing about the link under test.
    pub(crate) fn flows_of(&self, metric: Metric) -> Vec<&str> {
        let of_run = COSTS.contains(&metric);
        let own_link = |flow: &String| {
            let flows =
                (0..self.settings.len()).flat_map(|s| (0..self.links.len()).map(move |l| (s, l)));
            let mut known = flows.filter_map(|(s, l)| self.flow(s, l, flow));
            known.any(|known| known.flow.link.is_some())
        };
        let flows = self.flows.iter().filter(|flow| self.has(flow, metric) && !own_link(flow));
        flows.map(String::as_str).take(if of_run { 1 } else { usize::MAX }).collect()
    }

    /// Whether any run has this figure for this flow.
    pub(crate) fn has(&self, flow: &str, metric: Metric) -> bool {
        self.all_runs().any(|(setting, link, _)| self.spread(setting, link, flow, metric).is_some())
    }

    /// The bound that belongs to a figure; of bounds through the losses of a run the median over all runs.
    pub(crate) fn bound(&self, setting: usize, flow: &str, metric: Metric) -> Option<f64> {
        let flows = (0..self.links.len()).filter_map(|link| self.flow(setting, link, flow));
        let flows = flows.filter(|flow| !flow.short_ranks.contains_key(&metric));
        let ideals: Vec<_> = flows.map(|flow| flow.ideal).collect();
        let rank = |ranks: Percentiles| match metric {
            Metric::Mean => ranks.mean_of_delivered,
            Metric::P50 => ranks.p50,
            Metric::P90 => ranks.p90,
            Metric::P99 => ranks.p99,
            Metric::P99_9 => ranks.p99_9,
            Metric::Max => ranks.max,
            _ => None,
        };
        match metric {
            Metric::Goodput => ideals.iter().find_map(|ideal| ideal.capacity_mbps),
            _ => ideals.iter().find_map(|ideal| rank(ideal.closed_form?)).or_else(|| {
                let of_runs = ideals.iter().filter_map(|ideal| rank(ideal.this_run?)).collect();
                Spread::of(of_runs).map(|spread| spread.median())
            }),
        }
    }

    /// The distribution of the ideal ARQ's latency, ascending, each with the share, 0 to 1, that has come by then. In
    /// closed form it is steps; else only the ranks are known, through the losses that the runs really had.
    pub(crate) fn ideal_distribution(&self, setting: usize, flow: &str) -> Vec<(f64, f64)> {
        const RANKS: [(Metric, f64); 5] = [
            (Metric::P50, 0.5),
            (Metric::P90, 0.9),
            (Metric::P99, 0.99),
            (Metric::P99_9, 0.999),
            (Metric::Max, 1.0),
        ];
        let mut cells =
            (0..self.links.len()).filter_map(|link| self.summaries.get(&(setting, link)));
        let closed_form = |cell: &Summary| {
            let flow = cell.flows.iter().find(|known| known.flow.name == flow)?;
            oracle::closed_form_steps(&flow.flow, &cell.network)
        };
        let rank = |(metric, share)| Some((self.bound(setting, flow, metric)?, share));
        match cells.find_map(closed_form) {
            Some(steps) => {
                let before = [0.0].into_iter().chain(steps.iter().map(|(_, share)| *share));
                let corners = steps.iter().zip(before);
                corners.flat_map(|((at, share), before)| [(*at, before), (*at, *share)]).collect()
            }
            None => RANKS.into_iter().filter_map(rank).collect(),
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
            Outcome::Measured(run) if summary::is_void(run) => {
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
        None => summary::is_ours(name),
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
