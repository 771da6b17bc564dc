// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The figures of a link as lines of the log: at its end, and in between when asked for.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    time::{interval_at, Instant, MissedTickBehavior},
};
use tokio_util::task::AbortOnDropHandle;

use super::AssociationStats;
use crate::link::LinkUnicastArq;

/// The target of these lines, which have level `info`: `RUST_LOG=zenoh_link_arq::statistics=info`.
pub const LOG_TARGET: &str = "zenoh_link_arq::statistics";

/// Logs how a link stood when it ended.
pub(crate) fn log_end(stats: &AssociationStats) {
    tracing::info!(target: LOG_TARGET, "ended: {stats}");
}

/// Logs how `association` stands each `period`, until it or the result is dropped.
pub(crate) fn log_every(
    period: Duration,
    association: &Arc<LinkUnicastArq>,
    runtime: &Handle,
) -> AbortOnDropHandle<()> {
    let association = Arc::downgrade(association);
    AbortOnDropHandle::new(runtime.spawn(report(period, association)))
}

async fn report(period: Duration, association: Weak<LinkUnicastArq>) {
    let mut ticks = interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(association) = association.upgrade() else { return };
        tracing::info!(target: LOG_TARGET, "{}", association.snapshot());
    }
}
