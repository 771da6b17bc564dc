// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A server whose client has the keys and keeps no rule.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| arq_sim::harness::secured_server(data));
