// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Prints the simulated goodput and latency grid: `cargo run -p arq-sim --bin goodput_grid`.

fn main() {
    print!("{}", arq_sim::grid::render());
}
