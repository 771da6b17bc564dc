// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Connections that begin on a short cable, and then the weather changes every second or so: does any of them ever
//! stand still? What an estimate has learnt first is wrong at once, and a stream says little from which it could learn.
//!
//! `ARQ_LIVES=20000` lives so many, `ARQ_SEED=n` begins with another. `-- --nocapture` shows how long they took.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "common/weather.rs"]
mod weather;

use std::time::Duration;

use arq_sim::{AppPlan, Flow, Halt, Pair, Scenario, Sizes, WireConfig};
use fastrand::Rng;
use weather::weather;

const MS: Duration = Duration::from_millis(1);
const DEFAULT_LIVES: u64 = 1_000;
/// The weather changes at least so often.
const LONGEST_SPELL: Duration = Duration::from_secs(2);
/// Time in which the network works, until all is delivered. Half of them take a quarter of a second, and the longest of 20,000 took
/// 4.6 s: a blackout's last probe may be a second old when it ends, and there may be several blackouts.
const LONGEST_LIFE: Duration = Duration::from_secs(6);

fn plan(priority: u8, longest: usize) -> AppPlan {
    let sizes = Sizes::Between(9, longest);
    AppPlan::sends([Flow { sizes, ..Flow::reliable(priority, 1, 30) }.every(5 * MS)])
}

/// How long the network had to work until all was delivered.
fn live(seed: u64) -> Duration {
    let mut rng = Rng::with_seed(seed);
    let cable = WireConfig::with_delay(Duration::from_micros(rng.u64(50..150)));
    let scenario = Scenario {
        client: plan(5, 20_000),
        server: plan(4, 2_000),
        timer_lateness: MS.mul_f64(rng.f64()),
        ..Scenario::new(seed).wire(cable)
    };
    let mut pair = Pair::new(&scenario);
    let mut taken = Duration::ZERO;
    let (mut spell, mut works) = (100 * MS.mul_f64(rng.f64()), true);
    loop {
        let begin = pair.world.now();
        let outcome = pair.run(spell, Pair::all_delivered);
        if works {
            taken += pair.world.now() - begin;
        }
        match outcome {
            Ok(_) => return taken,
            Err(Halt::Limit(_)) if taken < LONGEST_LIFE => {}
            Err(halt) => {
                panic!("ARQ_SEED={seed} ARQ_LIVES=1: {halt}, {taken:?}\n{}", pair.describe())
            }
        }
        let ([up, down], time, next_works) = weather(&mut rng, works);
        (spell, works) = (time.min(LONGEST_SPELL), next_works);
        pair.world.lay_wire(pair.client, pair.server, up);
        pair.world.lay_wire(pair.server, pair.client, down);
    }
}

#[test]
fn no_life_is_too_short_for_its_messages() {
    let lives = number("ARQ_LIVES").unwrap_or(DEFAULT_LIVES);
    let first = number("ARQ_SEED").unwrap_or(1);
    let mut times: Vec<_> = (first..first + lives).map(live).collect();
    times.sort_unstable();
    for percent in [50, 90, 99, 100] {
        let at = (times.len() - 1) * percent / 100;
        println!("{percent} % of {lives} lives: {:?}", times[at]);
    }
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value} is not a number")))
}
