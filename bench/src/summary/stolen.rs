// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What is to be said of runs on a machine whose processors had to wait for its host?

use super::{is_void, Spread};
use crate::record::{Outcome, Record};

/// Below it, latencies of a millisecond do not show it.
const WORTH_TELLING_PERCENT: f64 = 1.0;

/// How much of these runs a hypervisor took, in a sentence, where it is worth one.
pub(crate) fn stolen<'a>(records: impl IntoIterator<Item = &'a Record>) -> Option<String> {
    let share = |record: &Record| match &record.outcome {
        Outcome::Measured(run) if !is_void(run) => run.stolen_percent,
        _ => None,
    };
    let shares = Spread::of(records.into_iter().filter_map(share).collect())?;
    let (median, worst) = (shares.median(), shares.max());
    (median >= WORTH_TELLING_PERCENT).then(|| {
        format!(
            "The host of this virtual machine let its processors wait while they had work: for {median:.1} % of the time \
             in the median run and {worst:.1} % in the worst. Latencies have that waiting in them, short ones most."
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::{flat, measured, run};

    #[test]
    fn the_median_decides_whether_it_is_told() {
        let said = |shares: &[Option<f64>]| {
            let record = |share: &Option<f64>| {
                let mut record = run("arq", "0", 0, flat(1.0));
                measured(&mut record).stolen_percent = *share;
                record
            };
            stolen(&shares.iter().map(record).collect::<Vec<_>>())
        };
        let told = said(&[Some(0.0), Some(12.0), Some(43.0)]).unwrap();
        assert!(
            told.contains("12.0 % of the time in the median run and 43.0 % in the worst"),
            "{told}"
        );
        assert_eq!(said(&[Some(0.2), Some(0.4), Some(43.0)]), None);
        // As records without that figure are read.
        assert_eq!(said(&[None, None]), None);
        assert_eq!(said(&[]), None);
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
