// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Several paths beneath one association, one question per test. `ARQ_SEED=n` repeats one seed.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../common/mod.rs"]
mod common;

mod agreement;
mod bulk;
mod doubled;
mod fades;
mod failover;
mod faults;
mod metered;
