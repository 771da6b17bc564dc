// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does a test get a lab or an emulated network, and a scenario for them? The former as the tests of `netlab` do.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "each test binary uses its own part of this module"
)]

#[path = "../../netlab/tests/support/mod.rs"]
mod hosts;

pub use hosts::*;

/// The text of a scenario that is over in a moment; `links` is the list as TOML has it.
pub fn moment(links: &str, repeats: u32) -> String {
    format!(
        r#"
title = "A moment"
question = "Do both sides start?"
links = {links}
repeats = {repeats}
network = {{ delay_ms = 1 }}
[[flow]]
name = "data"
payload_bytes = 100
pattern = "periodic"
rate_hz = 50
messages = 10
"#
    )
}
