// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What happens in the random scenario of one seed? Prints the scenario, then how both sides stand
//! and the last datagrams when everything is delivered or the time is up.
//!
//! `cargo run -p arq-sim --example replay -- <seed> [virtual seconds] [datagrams to show]`

use std::time::Duration;

use arq_sim::{Pair, Scenario};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let mut next = |default| numbers.next().map_or(default, |n| n.unwrap_or(default));
    let (seed, seconds, lines) = (next(0), next(600), next(60));
    let scenario = Scenario::random(seed);
    println!("{scenario:#?}");
    let mut pair = Pair::new(&scenario);
    let result = pair.run_to_delivery(Duration::from_secs(seconds));
    let lines = usize::try_from(lines).unwrap_or(usize::MAX);
    println!("{}", pair.world.log().ladder(lines));
    println!("{}", pair.describe());
    match result {
        Ok(time) => {
            println!("everything delivered after {time:?}, {} datagrams", pair.world.log().total())
        }
        Err(halt) => println!("{halt}, {} datagrams", pair.world.log().total()),
    }
}
