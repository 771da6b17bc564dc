// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Has a change moved latency under loss, or what it costs? The tables in git say how it was.

mod common;

#[test]
fn the_table_is_as_it_was() {
    common::assert_snapshot("repair.md", &arq_sim::repair::render());
}

#[test]
fn the_first_two_seconds_are_as_they_were() {
    common::assert_snapshot("cold.md", &arq_sim::cold::render());
}
