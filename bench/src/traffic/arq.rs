// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What do the `arq/` links of this process tell of themselves?

use zenoh_link_arq::{repairs_sent, statistics};

use super::sampler::Reading;

/// What is in flight on all of them.
pub(super) fn in_flight() -> Option<Reading> {
    let links = statistics();
    (!links.is_empty()).then(|| Reading {
        bytes: links.iter().map(|link| link.stats.in_flight_bytes).sum(),
        window_bytes: Some(links.iter().map(|link| link.stats.window_bytes).sum()),
    })
}

/// Of the bytes that those over several paths have sent, the share that were copies of what arrived anyway, per cent.
pub(super) fn needless_percent() -> Option<f64> {
    let links = statistics();
    let paths = || links.iter().flat_map(|link| &link.paths).map(|path| &path.stats);
    let sent: u64 = paths().map(|path| path.bytes_sent).sum();
    let needless: u64 = paths().map(|path| path.needless_bytes).sum();
    (sent > 0).then(|| 100.0 * needless as f64 / sent as f64)
}

/// What they have sent beyond each chunk once, in packets, those that have ended included: chunks again, and repair
/// symbols, which cost the same.
pub(super) fn repairs() -> u64 {
    repairs_sent()
}
