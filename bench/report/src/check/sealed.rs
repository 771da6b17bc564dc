// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Is what is sealed as good as what is sent in clear (E1)?

use super::evidence::{drop_percent, of_first_flow, Evidence};
use super::{latency, throughput, Tally, ARQ, SEALED};
use crate::summary::{Figure, Summary};

const IN_TIME_MS: f64 = 1_000.0;

/// E1
pub(super) fn as_good_as_in_clear(evidence: &Evidence<'_>) -> Tally {
    let mut tally = Tally::default();
    for link in SEALED {
        opens(evidence, &mut tally, link);
        for ground in latency::grounds(&[0.0, 5.0, 10.0, 15.0, 25.0]) {
            let what = format!("{link}, {}, p99, 1.1 x clear", ground.words());
            let p99 = |cell: Option<&Summary>| of_first_flow(cell?, Figure::P99);
            let sealed = p99(evidence.ours_on(&mut tally, latency::DROP_RATE, link, &ground));
            let clear = p99(evidence.ours_on(&mut tally, latency::DROP_RATE, ARQ, &ground));
            match sealed.zip(clear) {
                Some((sealed, clear)) => tally.at_most(&what, sealed, 1.1 * clear),
                None => tally.is_missing(what),
            }
        }
        throughput::sealed_on_loopback(evidence, &mut tally, link);
    }
    tally
}

fn opens(evidence: &Evidence<'_>, tally: &mut Tally, link: &str) {
    let is_it = |cell: &Summary| drop_percent(&cell.network) == Some(25.0);
    let Some(cell) = evidence.ours(tally, "opening", link, "25 %", is_it) else { return };
    let flows = || evidence.runs(cell).filter_map(|run| run.flows.first());
    let offered: u64 = flows().map(|flow| flow.offered).sum();
    let latencies = flows().flat_map(|flow| &flow.messages).filter_map(|(_, latency)| *latency);
    let in_time = latencies.filter(|latency_ms| *latency_ms <= IN_TIME_MS).count() as f64;
    let what = format!("{link}, 25 %, per cent open within 1 s");
    tally.at_least(&what, 100.0 * in_time / offered as f64, 99.0);
}
