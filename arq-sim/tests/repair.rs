// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Has a change moved latency under loss, or what it costs? The table in git says how it was.

mod common;

#[test]
fn the_table_is_as_it_was() {
    common::assert_snapshot("repair.md", &arq_sim::repair::render());
}
