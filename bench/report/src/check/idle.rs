// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Do a thousand idle links cost as little as targeted (T10)?

use super::evidence::Evidence;
use super::{Tally, ARQ};
use crate::many_links::{IDLE_LINKS, SCENARIO};
use crate::record::{ManyLinks, SideOfMany};
use crate::summary::{Spread, Summary};

const LINKS: u64 = 1_000;
const KIB_PER_LINK: f64 = 64.0;
/// How long a link waits between two processes of one machine, whatever `keep_alive_ms` says.
const KEEP_ALIVE_S: f64 = 0.4;
/// A keep-alive is a question and its answer: where both sides ask at once, each sends one of both.
const PACKETS_PER_KEEP_ALIVE: f64 = 2.0;
/// The timer that asks, and the datagrams that come. What else wakes a thread belongs to the whole process.
const WAKE_UPS_PER_KEEP_ALIVE: f64 = 3.0;

/// One of the two processes.
type SideOf = fn(&ManyLinks) -> SideOfMany;

/// T10
pub(super) fn idle(evidence: &Evidence<'_>) -> Tally {
    let mut tally = Tally::default();
    let what = format!("{LINKS} idle links");
    let Some(cell) = evidence.ours(&mut tally, SCENARIO, ARQ, &what, has_them) else {
        return tally;
    };
    let runs: Option<Vec<_>> = evidence.runs(cell).map(|run| run.many_links).collect();
    let Some(runs) = runs else {
        tally.is_missing(format!("{SCENARIO}: what the links cost"));
        return tally;
    };
    let sides: [(&str, SideOf); 2] =
        [("listening", |run| run.listening), ("connecting", |run| run.connecting)];
    for (name, side) in sides {
        let mut hold = |what: &str, bound: f64, figure: &dyn Fn(&ManyLinks, SideOfMany) -> f64| {
            let found = runs.iter().map(|run| figure(run, side(run))).collect();
            if let Some(found) = Spread::of(found) {
                // What must never happen may not happen in any run, where a median forgives two of five.
                let found = if bound == 0.0 { found.max() } else { found.median() };
                tally.at_most(&format!("{what}, {name}"), found, bound);
            }
        };
        hold("KiB per idle link", KIB_PER_LINK, &|_, side| side.bytes_per_idle_link / 1_024.0);
        hold("datagrams per keep-alive", PACKETS_PER_KEEP_ALIVE, &|run, side| {
            side.packets_sent as f64 / keep_alives(run)
        });
        hold("wake-ups per keep-alive", WAKE_UPS_PER_KEEP_ALIVE, &|run, side| {
            side.wake_ups as f64 / keep_alives(run)
        });
        hold("probe time-outs and repairs while idle", 0.0, &|_, side| {
            (side.ptos + side.retransmitted) as f64
        });
        hold("links lost", 0.0, &|_, side| side.links_lost as f64);
    }
    tally
}

/// How many intervals all links together rested for.
fn keep_alives(run: &ManyLinks) -> f64 {
    (run.idle_links + run.busy_links) as f64 * run.idle_s / KEEP_ALIVE_S
}

fn has_them(cell: &Summary) -> bool {
    cell.cell.setting.contains(&(IDLE_LINKS.to_owned(), LINKS.to_string()))
}
