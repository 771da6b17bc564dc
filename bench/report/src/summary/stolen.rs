// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What is to be said of runs on a machine whose processors had to wait for its host?

use super::{is_void, setting_in_words, Spread};
use crate::record::{Outcome, Record};

/// Below it, latencies of a millisecond do not show it.
const WORTH_TELLING_PERCENT: f64 = 1.0;
/// So many runs are named.
const NAMED: usize = 5;

/// How much of these runs a hypervisor took, in a sentence, where it is worth one: of all of them if most waited, of the
/// worst ones if some did.
pub fn stolen<'a>(records: impl IntoIterator<Item = &'a Record>) -> Option<String> {
    let share = |record: &'a Record| match &record.outcome {
        Outcome::Measured(run) if !is_void(run) => Some((run.stolen_percent?, record)),
        _ => None,
    };
    let runs: Vec<_> = records.into_iter().filter_map(share).collect();
    let shares = Spread::of(runs.iter().map(|(share, _)| *share).collect())?;
    let (median, worst) = (shares.median(), shares.max());
    if median >= WORTH_TELLING_PERCENT {
        return Some(format!(
            "The host of this virtual machine let its processors wait while they had work: for {median:.1} % of the time \
             in the median run and {worst:.1} % in the worst. Latencies have that waiting in them, short ones most."
        ));
    }
    (worst >= WORTH_TELLING_PERCENT).then(|| in_some_runs(runs))
}

/// Of single runs, of which some waited.
fn in_some_runs(mut runs: Vec<(f64, &Record)>) -> String {
    let all = runs.len();
    runs.retain(|(share, _)| *share >= WORTH_TELLING_PERCENT);
    runs.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let named: Vec<_> = runs.iter().take(NAMED).map(|(share, run)| in_words(*share, run)).collect();
    let more = match runs.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!(
        "In {} of {all} runs the host of this virtual machine let its processors wait for {WORTH_TELLING_PERCENT:.0} % of \
         the time or more while they had work, and their latencies have that waiting in them: {}{more}.",
        runs.len(),
        named.join("; "),
    )
}

/// Which run, and how much it waited.
fn in_words(share: f64, record: &Record) -> String {
    let Record { scenario, cell, repeat, .. } = record;
    // A scenario that varies nothing has no words for its setting.
    let which = [scenario.clone(), setting_in_words(&cell.setting), cell.link.clone()];
    let which = which.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ");
    format!("{which}, repeat {repeat}: {share:.1} %")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::{flat, measured, run};

    /// What is said of runs that waited for these shares of the time.
    fn said(shares: &[Option<f64>]) -> Option<String> {
        let record = |(repeat, share): (u32, &Option<f64>)| {
            let mut record = run("arq", "5", repeat, flat(1.0));
            measured(&mut record).stolen_percent = *share;
            record
        };
        stolen(&(0..).zip(shares).map(record).collect::<Vec<_>>())
    }

    #[test]
    fn where_most_runs_waited_the_median_and_the_worst_are_told() {
        let told = said(&[Some(0.0), Some(12.0), Some(43.0)]).unwrap();
        assert!(
            told.contains("12.0 % of the time in the median run and 43.0 % in the worst"),
            "{told}"
        );
        // As records without that figure are read.
        assert_eq!(said(&[None, None]), None);
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[Some(0.0), Some(0.9)]), None);
    }

    #[test]
    fn where_some_did_the_worst_of_them_are_named() {
        let told = said(&[Some(0.2), Some(0.4), Some(2.6), Some(0.0), Some(43.0)]).unwrap();
        assert!(told.starts_with("In 2 of 5 runs "), "{told}");
        assert!(told.contains(", arq, repeat 4: 43.0 %; "), "{told}");
        assert!(told.ends_with(", arq, repeat 2: 2.6 %."), "{told}");
        let shares: Vec<_> = (0..20).map(|run| Some(if run < 7 { 1.5 } else { 0.0 })).collect();
        assert!(said(&shares).unwrap().ends_with("repeat 4: 1.5 %; and 2 more."));
    }

    #[test]
    fn a_scenario_that_varies_nothing_is_named_without_a_setting() {
        let mut quiet = run("arq", "0", 0, flat(1.0));
        measured(&mut quiet).stolen_percent = Some(0.0);
        let mut alone = run("arq", "0", 1, flat(1.0));
        measured(&mut alone).stolen_percent = Some(43.0);
        alone.cell.setting.clear();
        let named = format!(": {}, arq, repeat 1: 43.0 %.", alone.scenario);
        let told = stolen([&quiet, &quiet, &alone]).unwrap();
        assert!(told.ends_with(&named), "{told}");
    }

    #[test]
    fn a_void_run_tells_nothing_of_the_others() {
        let mut void = run("arq", "0", 0, flat(1.0));
        measured(&mut void).stolen_percent = Some(43.0);
        assert!(stolen([&void]).is_some());
        measured(&mut void).forward.emulator_overrun = 1;
        assert_eq!(stolen([&void]), None);
    }
}
