// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What time is it? The time of day since 1970, which all programs of one world share.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time since 1970.
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Milliseconds, as reports have them.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
