// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A client under a server that answers, refuses, forgets and forges what it likes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| arq_sim::harness::hostile_server(data));
