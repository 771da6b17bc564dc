// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A cryptographic handshake under somebody on the path.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| arq_sim::harness::secured(data));
