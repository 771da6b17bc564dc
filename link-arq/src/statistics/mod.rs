// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How do the `arq/` links of this process stand?
//!
//! One snapshot type, [`AssociationStats`], for everybody who wants to know: [`FIGURES`] names each
//! figure for exporters, `Display` writes them for people, [`LOG_TARGET`] is where they are logged.
//! What is normal and what to do when it is not: `docs/statistics.md`.

mod display;
mod figures;
mod handshakes;
pub mod human;
mod log;
mod reasons;
mod totals;

use std::{
    mem::ManuallyDrop,
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc, Weak,
    },
    time::{Duration, SystemTime},
};

use arq_proto::{ConnectionError, Stats};
use arq_tokio::PathInfo;
use parking_lot::Mutex;
use zenoh_protocol::core::Locator;

pub(crate) use display::priority_name;
pub(crate) use figures::PATH_STATES;
pub use figures::{Figure, Read, FIGURES, LANE_FIGURES, PATH_FIGURES, PROCESS_FIGURES};
pub(crate) use handshakes::Tally;
use log::log_end;
pub(crate) use log::log_every;
pub use log::LOG_TARGET;
pub use reasons::Counts;
pub(crate) use reasons::{count_disagreement, count_failed, Farewell};
pub use totals::repairs_sent;
pub(crate) use totals::{totals, Totals};

use crate::link::LinkUnicastArq;

/// The associations of this process, those that have ended included until the next look.
static ASSOCIATIONS: Mutex<Vec<Weak<LinkUnicastArq>>> = Mutex::new(Vec::new());
/// How many there have been.
static OPENED: AtomicU64 = AtomicU64::new(0);
/// A list that is locked for so long at the end of the process is never unlocked: the thread that ends it has the lock.
const GIVES_UP_AFTER: Duration = Duration::from_millis(100);

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
    /// When that was, by the clock of the system.
    pub opened_at: SystemTime,
    /// What protects it: `none`, `tls`, `mtls` where both sides show certificates, or `psk`.
    pub security: &'static str,
    /// The common name in the peer's certificate.
    pub peer: Option<String>,
    /// When the first certificate of the peer's chain expires.
    pub certificate_expires: Option<SystemTime>,
    /// What it has done since it was opened.
    pub stats: Stats,
    /// How its paths stand, where it leads over several interfaces: that of the handshake first.
    pub paths: Vec<PathInfo>,
}

/// How many associations this process has and has had, and how they ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStats {
    /// Those that are open.
    pub links: u64,
    /// All since the process began.
    pub links_opened: u64,
    /// Those that have ended, by reason.
    pub links_closed: Counts,
    /// Attempts that have failed, by reason.
    pub handshakes_failed: Counts,
    /// Handshakes that listeners were asked for, by result.
    pub handshakes: Counts,
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

/// Whether a link still has something to deliver, after waiting for so long. For the end of the process: no lock is waited
/// for, and no link is dropped.
pub(crate) fn any_undelivered(waited: Duration) -> bool {
    let Some(associations) = ASSOCIATIONS.try_lock() else { return waited < GIVES_UP_AFTER };
    associations
        .iter()
        .filter_map(Weak::upgrade)
        .map(ManuallyDrop::new)
        .any(|link| link.is_undelivered(waited))
}

/// An association ends, standing like this; its connection for `reason`, if it ended before.
pub(crate) fn on_end(
    last: &AssociationStats,
    reason: Option<&ConnectionError>,
    farewell: Farewell,
) {
    totals::on_end(last);
    reasons::count_closed(reason, farewell);
    log_end(last);
}

/// The figures of the process, when `links` are open.
pub(crate) fn process_statistics(links: &[AssociationStats]) -> ProcessStats {
    ProcessStats {
        links: links.len() as u64,
        links_opened: OPENED.load(Ordering::Relaxed),
        links_closed: reasons::CLOSED.read(),
        handshakes_failed: reasons::FAILED.read(),
        handshakes: reasons::HANDSHAKES.read(),
    }
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

/// How the only path of a connection stands.
#[cfg(test)]
pub(crate) fn test_path() -> PathInfo {
    use arq_tokio::{Endpoint, ValidConfig};

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut path = runtime.block_on(async {
        let any = "127.0.0.1:0".parse().unwrap();
        let server = Endpoint::server(any, ValidConfig::default()).unwrap();
        let client = Endpoint::client(any).unwrap();
        let connection = client.connect(server.local_addr(), ValidConfig::default()).await.unwrap();
        connection.paths().remove(0)
    });
    path.stats.budget_bytes = Some(7_200_000);
    path
}
