// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which values suit a kind of network? Only what differs from the defaults, with the reason.

/// The keys of a preset.
pub(super) fn values(name: &str) -> Vec<(&'static str, String)> {
    let pairs: &[(&str, &str)] = match name {
        // Short round trips: little is in flight, and nothing has to wait long to be told.
        "lan" => &[("linger_ms", "200"), ("queue_age_ms", "50")],
        // The defaults are made for it: delays of tens of ms, loss of what the channel's own retries cannot bring
        // through, and packets as long as the channel carries well.
        "wifi" => &[("mtu", "auto")],
        // Hand-overs are silent for seconds; buffers are deep.
        "cellular" => &[("idle_timeout_ms", "30000"), ("linger_ms", "1000")],
        // Short contacts: a peer that is back must be noticed at once, and stale data is worthless.
        "v2v" => &[
            ("keep_alive_ms", "250"),
            ("queue_age_ms", "50"),
            ("deadline_ms", "100"),
            ("linger_ms", "200"),
        ],
        // 600 ms of round trip: more must be in flight, and every patience is longer.
        "satellite" => &[
            ("lane_window", "8388608"),
            ("rx_window", "33554432"),
            ("queue_bytes", "1048576"),
            ("queue_age_ms", "1000"),
            ("keep_alive_ms", "3000"),
            ("idle_timeout_ms", "30000"),
            ("handshake_timeout_ms", "20000"),
            ("linger_ms", "3000"),
        ],
        _ => &[],
    };
    pairs.iter().map(|(key, value)| (*key, (*value).to_owned())).collect()
}
