// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A connection under a peer that sends, replays and forges what it likes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| arq_sim::harness::hostile_peer(data));
