// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A connection with several paths under a peer that opens, uses and describes them as it likes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| arq_sim::harness::hostile_paths(data));
