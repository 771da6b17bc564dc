// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which ranks are left out because a run has too few messages for them?

use std::collections::{BTreeMap, BTreeSet};

use super::{Figure, Summary};

/// Those of `figures`, with the flows that have too few messages somewhere: `p99.9 of data, map`; `None` when nothing
/// is left out.
pub(crate) fn too_few_messages<'s>(
    summaries: impl IntoIterator<Item = &'s Summary>,
    figures: &[Figure],
) -> Option<String> {
    let mut ranks: BTreeMap<Figure, BTreeSet<&str>> = BTreeMap::new();
    for flow in summaries.into_iter().flat_map(|summary| &summary.flows) {
        for figure in flow.short_ranks.keys().filter(|figure| figures.contains(figure)) {
            ranks.entry(*figure).or_default().insert(&flow.flow.name);
        }
    }
    let words = |(figure, flows): (Figure, BTreeSet<&str>)| {
        let flows: Vec<&str> = flows.into_iter().collect();
        format!("{} of {}", figure.name(), flows.join(", "))
    };
    let words: Vec<_> = ranks.into_iter().map(words).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Outcome, Record};
    use crate::summary::tests::{flat, run};
    use crate::summary::{defeats, least_messages, of, table};

    /// Runs of so many messages, ours twice as late as the other's.
    fn runs_of(messages: u64) -> Vec<Record> {
        let mut records = vec![run("arq", "10", 0, flat(4.0)), run("udp", "10", 0, flat(2.0))];
        for record in &mut records {
            if let Outcome::Measured(measurement) = &mut record.outcome {
                measurement.flows[0].offered = messages;
                measurement.flows[0].delivered = messages;
            }
        }
        records
    }

    #[test]
    fn a_rank_needs_one_message_beyond_it() {
        let least = [50.0, 90.0, 99.0, 99.9, 99.99].map(least_messages);
        assert_eq!(least, [2, 10, 100, 1_000, 10_000]);
        assert_eq!(least_messages(100.0), u64::MAX);
    }

    #[test]
    fn a_rank_that_is_the_greatest_is_kept_apart() {
        for (messages, short) in [
            (9, &[Figure::P90, Figure::P99, Figure::P99_9][..]),
            (99, &[Figure::P99, Figure::P99_9]),
            (100, &[Figure::P99_9]),
            (1_000, &[]),
        ] {
            let flow = &of(&runs_of(messages))[0].flows[0];
            let ranks: Vec<_> = flow.short_ranks.keys().copied().collect();
            assert_eq!(ranks, short, "{messages} messages");
            assert!(short.iter().all(|figure| !flow.figures.contains_key(figure)));
            assert!(flow.figures.contains_key(&Figure::Max));
        }
    }

    #[test]
    fn it_is_neither_told_nor_compared_but_said_once() {
        let summaries = of(&runs_of(99));
        let beaten: Vec<_> = defeats(&summaries).iter().map(ToString::to_string).collect();
        assert!(beaten.iter().any(|words| words.contains("in p90")), "{beaten:?}");
        assert!(beaten.iter().all(|words| !words.contains("p99")), "{beaten:?}");
        let shown = table(&summaries);
        assert_eq!(shown.matches("p99").count(), 1, "{shown}");
        assert!(shown.ends_with("too few messages in a run, so not told: p99 of data"), "{shown}");
        assert_eq!(
            too_few_messages(&summaries, &Figure::ALL).unwrap(),
            "p99 of data; p99.9 of data"
        );
        assert_eq!(too_few_messages(&of(&runs_of(1_000)), &Figure::ALL), None);
    }
}
