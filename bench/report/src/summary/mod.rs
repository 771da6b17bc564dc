// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What do the repeats of a cell say together?
//!
//! [`of`] gathers records to one [`Summary`] for each cell, with the median and the [`Spread`] of every [`Figure`]
//! over its repeats. A figure of a repeat in which that rank was lost is infinite: later than any. A run that failed
//! or was void has no figures; it is counted and told.

mod defeat;
mod figure;
mod in_short;
pub mod retransmissions;
pub(crate) mod sharing;
pub mod significance;
mod spread;
mod stolen;
mod table;
mod too_few;

use std::collections::BTreeMap;

use netlab::wire::{Conditions, WireCount};

use crate::oracle;
use crate::record::{Cell, FlowResult, Ideal, Measurement, Outcome, Percentiles, Record};
use crate::scenario::flow::Flow;

pub(crate) use defeat::is_beaten;
pub use defeat::{defeats, Defeat, Loss};
pub use figure::least_messages;
pub use figure::Figure;
pub(crate) use figure::LATENCY_NOISE_MS;
pub use in_short::in_short;
pub use spread::Spread;
pub use stolen::stolen;
pub use table::table;
pub(crate) use too_few::too_few_messages;

/// Median and spread of each figure that was measured.
pub type Figures = BTreeMap<Figure, Spread>;

/// All repeats of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The scenario's name.
    pub scenario: String,
    /// The link and its setting.
    pub cell: Cell,
    /// The network as it was set.
    pub network: Conditions,
    /// How many repeats the figures are made of.
    pub repeats: usize,
    /// The seeds of those repeats, in their order.
    pub seeds: Vec<u64>,
    /// Why other repeats failed.
    pub failures: Vec<String>,
    /// How many repeats are void because the emulator could not keep up.
    pub voided: usize,
    /// What belongs to the link as a whole: bytes and packets on the wire, CPU, memory, retransmissions.
    pub figures: Figures,
    /// In the scenario's order.
    pub flows: Vec<FlowSummary>,
}

/// One flow of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSummary {
    /// As the scenario has it.
    pub flow: Flow,
    /// Latency, delivery and goodput, as far as the flow's pattern gives them a meaning.
    pub figures: Figures,
    /// Ranks for which a run has too few messages: they are its greatest under another name, so neither told nor
    /// compared; a target may be judged by them.
    pub short_ranks: Figures,
    /// Copies beyond the first, of all repeats.
    pub duplicates: u64,
    /// Arrivals after a message of a higher number, of all repeats.
    pub out_of_order: u64,
    /// Messages that never came, of all repeats.
    pub undelivered: u64,
    /// The bounds; those of the runs themselves are medians over the repeats.
    pub ideal: Ideal,
}

impl Summary {
    /// Whether the link speaks our protocol.
    pub fn is_ours(&self) -> bool {
        is_ours(&self.cell.link)
    }

    /// The setting in words: `drop_percent 10, payload_bytes 10000`.
    pub fn setting(&self) -> String {
        setting_in_words(&self.cell.setting)
    }
}

/// Whether a link of this name speaks our protocol: `arq` and its presets.
pub fn is_ours(link: &str) -> bool {
    link == "arq" || link.starts_with("arq-")
}

/// `drop_percent 10, payload_bytes 10000`.
pub(crate) fn setting_in_words(setting: &[(String, String)]) -> String {
    let words: Vec<_> = setting.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
    words.join(", ")
}

/// One summary for each cell of each scenario: settings in the order in which they were first measured, ours before
/// the others, links by name.
pub fn of(records: &[Record]) -> Vec<Summary> {
    let mut settings = Vec::new();
    let mut cells: BTreeMap<_, Vec<&Record>> = BTreeMap::new();
    for record in records {
        let setting = (&record.scenario, &record.cell.setting);
        let place = settings.iter().position(|known| *known == setting).unwrap_or(settings.len());
        if place == settings.len() {
            settings.push(setting);
        }
        let link = record.cell.link.as_str();
        cells.entry((place, !is_ours(link), link)).or_default().push(record);
    }
    cells.values().map(|records| of_cell(records)).collect()
}

/// Whether the emulator could not keep up, so that the run says nothing about the link.
pub fn is_void(measurement: &Measurement) -> bool {
    measurement.forward.emulator_overrun + measurement.backward.emulator_overrun > 0
}

/// Whether the emulator let more than 1 % of the packets leave late, so that latencies are higher than the network's.
pub(crate) fn was_held_up(measurement: &Measurement) -> bool {
    let wires = [&measurement.forward, &measurement.backward];
    let total = |count: fn(&WireCount) -> u64| wires.map(count).iter().sum::<u64>();
    100 * total(|wire| wire.late) > total(|wire| wire.left_packets)
}

fn of_cell(records: &[&Record]) -> Summary {
    let mut sound = Vec::new();
    let (mut failures, mut seeds, mut voided) = (Vec::new(), Vec::new(), 0);
    for record in records {
        match &record.outcome {
            Outcome::Failed(reason) => failures.push(reason.clone()),
            Outcome::Measured(measurement) if is_void(measurement) => voided += 1,
            Outcome::Measured(measurement) => {
                sound.push(measurement.as_ref());
                seeds.push(record.seed);
            }
        }
    }
    let first = records[0];
    let flows = sound.first().map_or(0, |measurement| measurement.flows.len());
    Summary {
        scenario: first.scenario.clone(),
        cell: first.cell.clone(),
        network: first.network.clone(),
        repeats: sound.len(),
        seeds,
        failures,
        voided,
        figures: gather(&sound, Figure::of_cell),
        flows: (0..flows).map(|index| of_flow(&sound, index, &first.network)).collect(),
    }
}

fn of_flow(measurements: &[&Measurement], index: usize, network: &Conditions) -> FlowSummary {
    let results: Vec<_> =
        measurements.iter().filter_map(|measurement| measurement.flows.get(index)).collect();
    let flow = results[0].flow.clone();
    let total = |count: fn(&FlowResult) -> u64| results.iter().map(|result| count(result)).sum();
    let ideal = Ideal {
        closed_form: oracle::closed_form(&flow, network),
        this_run: median_of_runs(&results),
        capacity_mbps: oracle::capacity_mbps(network),
    };
    let is_short = |figure: Figure| results.iter().any(|result| figure.is_too_high_for(result));
    let all = gather(&results, |figure, result| figure.of_flow(result));
    let (short_ranks, figures) = all.into_iter().partition(|(figure, _)| is_short(*figure));
    FlowSummary {
        figures,
        short_ranks,
        duplicates: total(|result| result.duplicates),
        out_of_order: total(|result| result.out_of_order),
        undelivered: total(|result| result.offered.saturating_sub(result.delivered)),
        ideal,
        flow,
    }
}

/// The spread of each figure that every one of `runs` has.
fn gather<T>(runs: &[&T], value: impl Fn(Figure, &T) -> Option<f64>) -> Figures {
    let spread = |figure| {
        let values: Option<Vec<_>> = runs.iter().map(|run| value(figure, run)).collect();
        Some((figure, Spread::of(values?)?))
    };
    Figure::ALL.into_iter().filter_map(spread).collect()
}

fn median_of_runs(results: &[&FlowResult]) -> Option<Percentiles> {
    let runs: Option<Vec<_>> = results.iter().map(|result| result.ideal?.this_run).collect();
    let runs = runs?;
    let median = |of: fn(&Percentiles) -> Option<f64>| {
        let values: Option<Vec<_>> = runs.iter().map(of).collect();
        Some(Spread::of(values?)?.median())
    };
    Some(Percentiles {
        mean_of_delivered: median(|run| run.mean_of_delivered),
        p50: median(|run| run.p50),
        p90: median(|run| run.p90),
        p99: median(|run| run.p99),
        p99_9: median(|run| run.p99_9),
        max: median(|run| run.max),
    })
}

#[cfg(test)]
pub(crate) mod tests;
