// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How do the `arq/` links of this process stand?
//!
//! One snapshot type, [`AssociationStats`], for everybody who wants to know: [`FIGURES`] names each
//! figure for exporters, `Display` writes them for people, [`LOG_TARGET`] is where they are logged.
//! What is normal and what to do when it is not: `docs/statistics.md`.

mod display;
mod figures;
pub mod human;
mod log;

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc, Weak,
    },
    time::{Duration, SystemTime},
};

use arq_proto::Stats;
use parking_lot::Mutex;
use zenoh_protocol::core::Locator;

pub(crate) use display::priority_name;
pub use figures::{Figure, Read, FIGURES, LANE_FIGURES, PROCESS_FIGURES};
use log::log_end;
pub(crate) use log::log_every;
pub use log::LOG_TARGET;

use crate::link::LinkUnicastArq;

/// The associations of this process, those that have ended included until the next look.
static ASSOCIATIONS: Mutex<Vec<Weak<LinkUnicastArq>>> = Mutex::new(Vec::new());
/// Chunks sent again and repair symbols of the associations that have ended.
static REPAIRS_OF_ENDED: AtomicU64 = AtomicU64::new(0);
/// How many there have been.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// How an `arq/` association of this process stands: one connection, and zenoh's link over it.
#[derive(Debug, Clone)]
pub struct AssociationStats {
    /// Its number in this process, from 1.
    pub id: u64,
    /// Its local end.
    pub src: Locator,
    /// Its remote end.
    pub dst: Locator,
    /// How long ago it was opened.
    pub age: Duration,
    /// What protects it: `none`, `tls`, `mtls` where both sides show certificates, or `psk`.
    pub security: &'static str,
    /// The common name in the peer's certificate.
    pub peer: Option<String>,
    /// When the first certificate of the peer's chain expires.
    pub certificate_expires: Option<SystemTime>,
    /// What it has done since it was opened.
    pub stats: Stats,
}

/// How many associations this process has and has had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStats {
    /// Those that are open.
    pub links: u64,
    /// All since the process began.
    pub links_opened: u64,
}

/// How the `arq/` associations of this process stand, in the order in which they were opened.
#[must_use]
pub fn statistics() -> Vec<AssociationStats> {
    let mut associations = ASSOCIATIONS.lock();
    associations.retain(|association| association.strong_count() > 0);
    let alive: Vec<_> = associations.iter().filter_map(Weak::upgrade).collect();
    drop(associations);
    alive.iter().map(|association| association.snapshot()).collect()
}

/// Chunks sent again and repair symbols, of all associations that this process has had: unlike their own figures, it
/// never falls.
#[must_use]
pub fn repairs_sent() -> u64 {
    /// Who is about to end is in neither sum for a moment.
    static HIGHEST: AtomicU64 = AtomicU64::new(0);
    let sum = with_ended(&REPAIRS_OF_ENDED, || {
        statistics().iter().map(|association| repairs(&association.stats)).sum()
    });
    HIGHEST.fetch_max(sum, Ordering::Relaxed).max(sum)
}

/// Those of the ended come first: one that ends while the others are counted is not counted in both.
fn with_ended(ended: &AtomicU64, of_alive: impl FnOnce() -> u64) -> u64 {
    let of_ended = ended.load(Ordering::Acquire);
    of_ended + of_alive()
}

fn repairs(stats: &Stats) -> u64 {
    stats.chunks_retransmitted + stats.repair_symbols_sent
}

/// An association ends, standing like this.
pub(crate) fn on_end(last: &AssociationStats) {
    REPAIRS_OF_ENDED.fetch_add(repairs(&last.stats), Ordering::Release);
    log_end(last);
}

/// The figures of the process, when `links` are open.
pub(crate) fn process_statistics(links: &[AssociationStats]) -> ProcessStats {
    ProcessStats { links: links.len() as u64, links_opened: OPENED.load(Ordering::Relaxed) }
}

/// The number of the next association.
pub(crate) fn next_id() -> u64 {
    OPENED.fetch_add(1, Ordering::Relaxed) + 1
}

/// From now on `association` is part of [`statistics`].
pub(crate) fn register(association: &Arc<LinkUnicastArq>) {
    let mut associations = ASSOCIATIONS.lock();
    associations.retain(|association| association.strong_count() > 0);
    associations.push(Arc::downgrade(association));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ends_while_the_others_are_counted_is_counted_once() {
        let ended = AtomicU64::new(7);
        let of_alive = || {
            ended.fetch_add(5, Ordering::Relaxed);
            5
        };
        assert_eq!(with_ended(&ended, of_alive), 7 + 5);
    }
}
