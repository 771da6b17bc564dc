// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Any bytes into every decoder: no panic, and what decodes survives being encoded.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| arq_sim::harness::packet_decode(data));
