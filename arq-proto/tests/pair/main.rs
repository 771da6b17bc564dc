// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Two ends and what lies between them, one question per test. `ARQ_SEED=n` repeats one seed.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../common/mod.rs"]
mod common;

mod addresses;
mod batches;
mod best_effort;
mod chunk_size;
mod closing;
mod default_size;
mod delivery;
mod dropping;
mod handshake;
mod narrow;
mod observing;
mod on_the_wire;
mod path_mtu;
mod peers;
mod pressure;
mod rebinding;
mod reordering;
mod schemes;
mod small_paths;
mod standing;
mod timing;
