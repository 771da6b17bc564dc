// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Associations whose packets are sealed: do they open, deliver, change their keys and end as those in the clear do, and
//! is no number ever sealed twice under one key?
//!
//! The keys are those of a toy: see [`arq_sim::toy`], whose ledger panics where a number is used twice.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../common/mod.rs"]
mod common;

mod doubt;
mod downgrade;
mod handshake;
mod keys;
mod nonces;
mod paths;
mod policy;
mod siblings;
mod storm;
mod twins;
