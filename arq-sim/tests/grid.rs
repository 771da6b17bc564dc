// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Has a change moved goodput or latency anywhere? The grid in git says how it was.

mod common;

#[test]
fn the_grid_is_as_it_was() {
    common::assert_snapshot("goodput_grid.md", &arq_sim::grid::render());
}
