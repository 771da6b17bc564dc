// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Chunks in any order, doubled and of the wrong shape: the message is right or nothing.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| arq_sim::harness::reassembly(data));
