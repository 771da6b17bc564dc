// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Hours of changing weather in virtual time: does every reliable message arrive, does any lane
//! ever stand still while the network works, and does anything pile up?
//!
//! `ARQ_SOAK_HOURS=6` makes it six hours (in a release build a few minutes), `ARQ_SEED=n` takes
//! another weather. `-- --nocapture` shows each calm. Memory is counted by the allocator: one test
//! in a binary of its own, so nobody else allocates meanwhile.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "common/weather.rs"]
mod weather;

use std::{
    fmt,
    time::{Duration, Instant},
};

use arq_proto::{LaneId, Reliability, Stats};
use arq_sim::{lane, AppPlan, ConnId, Flow, Pair, Scenario, Sizes, WireConfig};
use fastrand::Rng;
use peak_alloc::PeakAlloc;
use weather::{clear, weather};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const MS: Duration = Duration::from_millis(1);
const SEC: Duration = Duration::from_secs(1);
/// Reliable lanes in use.
const LANES: usize = 3;
const DEFAULT_HOURS: f64 = 0.5;
/// Weather between two calms, in which everything is delivered and counted.
const SPELL: Duration = Duration::from_secs(300);
/// How often progress is looked at.
const TICK: Duration = Duration::from_millis(50);
/// No direction may stand still for longer while the network works, whatever waits.
const LONGEST_STALL: Duration = Duration::from_secs(5);
/// What two connections at rest, and the simulator beneath them, may have grown by since the first
/// calm. Queues keep the size that the weather before a calm has asked for, so it goes up and down by
/// half of this; a quarter of a byte per packet would be more in six hours.
const MAX_GROWTH_BYTES: usize = 4 << 20;

/// What goes each way: control, data, bulk and best effort, 2.3 Mb/s together, below the slowest
/// bottleneck less its losses.
fn plan() -> AppPlan {
    let endless = u64::MAX;
    let data = Flow { sizes: Sizes::Between(1, 20_000), ..Flow::reliable(5, 1, endless) };
    AppPlan::sends([
        Flow::reliable(0, 200, endless).every(20 * MS),
        data.every(100 * MS),
        Flow::reliable(7, 65_535, endless).every(SEC),
        Flow::best_effort(3, 3_000, endless).every(30 * MS),
    ])
}

fn reliable_lanes() -> impl Iterator<Item = LaneId> {
    [0, 5, 7].into_iter().map(|priority| lane(priority, Reliability::Reliable))
}

/// The pair under the weather, and what was seen of it.
struct Soak {
    pair: Pair,
    rng: Rng,
    /// Which hosts get no processor now and then.
    starved: [bool; 2],
    /// For each side and each of its reliable lanes, what had been read, and for how many looks it
    /// has not moved.
    seen: [[(u64, u32); LANES]; 2],
    /// For how many looks nothing at all has been read by each side.
    still: [u32; 2],
    /// The longest time that a direction stood still, and that one of its lanes did.
    stall: [Duration; 2],
    spells: u32,
}

impl Soak {
    fn new(seed: u64) -> Self {
        let scenario = Scenario::new(seed).wire(clear());
        let scenario = Scenario { client: plan(), server: plan(), ..scenario };
        let mut pair = Pair::new(&scenario);
        pair.run_to_connected(10 * SEC).unwrap();
        Self {
            pair,
            rng: Rng::with_seed(seed),
            starved: [false; 2],
            seen: Default::default(),
            still: [0; 2],
            stall: Default::default(),
            spells: 0,
        }
    }

    fn sides(&self) -> [ConnId; 2] {
        [self.pair.conn, self.pair.accepted().unwrap()]
    }

    fn lay(&mut self, [up, down]: [WireConfig; 2]) {
        let Pair { client, server, .. } = self.pair;
        self.pair.world.lay_wire(client, server, up);
        self.pair.world.lay_wire(server, client, down);
    }

    /// Weather that changes for a while.
    fn spell(&mut self) {
        let end = self.pair.world.now() + SPELL;
        let mut works = true;
        while self.pair.world.now() < end {
            let (wires, time, next_works) = weather(&mut self.rng, works);
            works = next_works;
            let (words, begin) = (format!("{wires:?}"), self.pair.world.now());
            self.lay(wires);
            self.starved = [self.rng.u8(..6) == 0, self.rng.u8(..6) == 0];
            while self.pair.world.now() < (begin + time).min(end) {
                self.starve();
                self.pair.world.run_for(TICK).unwrap_or_else(|halt| panic!("{halt}\n{words}"));
                self.look(works);
                assert!(
                    self.stall[0] < LONGEST_STALL,
                    "nothing moves at {:?}\n{words}\n{:#?}",
                    self.pair.world.now(),
                    self.stats()
                );
            }
            self.spells += 1;
        }
    }

    /// Puts hosts to sleep, half of the time where they are starved.
    fn starve(&mut self) {
        let Pair { client, server, .. } = self.pair;
        for (host, starved) in [client, server].into_iter().zip(self.starved) {
            if starved && self.rng.u8(..4) == 0 {
                self.pair.world.freeze(host, TICK.mul_f64(4.0 * self.rng.f64()));
            }
        }
    }

    /// Counts how long each direction, and each lane of it, stands still with something to deliver.
    fn look(&mut self, works: bool) {
        let sides = self.sides();
        for (side, &id) in sides.iter().enumerate() {
            let sender = &self.pair.world.conn(sides[1 - side]).app;
            let reader = &self.pair.world.conn(id).app;
            let (mut any_waits, mut any_moves) = (false, false);
            for (lane, seen) in reliable_lanes().zip(&mut self.seen[side]) {
                let (sent, read) = (sender.messages_accepted(lane), reader.inbox(lane).messages);
                let (waits, moves) = (read < sent, read > seen.0);
                *seen = (read, if works && waits && !moves { seen.1 + 1 } else { 0 });
                self.stall[1] = self.stall[1].max(TICK * seen.1);
                (any_waits, any_moves) = (any_waits || waits, any_moves || moves);
            }
            let stands = works && any_waits && !any_moves;
            self.still[side] = if stands { self.still[side] + 1 } else { 0 };
            self.stall[0] = self.stall[0].max(TICK * self.still[side]);
        }
        for id in sides {
            // The simulator's own records would grow for ever.
            self.pair.world.with_conn(id, |_, _, app| app.forget_latencies());
        }
    }

    fn stats(&self) -> [Stats; 2] {
        self.sides().map(|id| self.pair.world.conn(id).connection().stats())
    }

    /// Lets everything arrive, counts what is left, and goes on.
    fn calm(&mut self) -> Calm {
        self.lay([clear(), clear()]);
        self.pause(true);
        let settled = |pair: &Pair| {
            let [client, server] = [pair.client_side(), pair.server_side()];
            let has_all = |from: &arq_sim::Conn, to: &arq_sim::Conn| {
                reliable_lanes()
                    .all(|lane| from.app.messages_accepted(lane) == to.app.inbox(lane).messages)
            };
            has_all(client, server) && has_all(server, client)
        };
        self.pair.run(60 * SEC, settled).expect("every reliable message arrives");
        // Stragglers, and what best-effort lanes still wait for: a silent one for 15 s.
        self.pair.world.run_for(20 * SEC).unwrap();
        let calm = Calm {
            at: self.pair.world.now(),
            memory_bytes: ALLOCATOR.current_usage(),
            peak_bytes: ALLOCATOR.peak_usage(),
            stats: self.stats(),
            stall: self.stall,
            spells: self.spells,
        };
        ALLOCATOR.reset_peak_usage();
        for stats in &calm.stats {
            let kept = [stats.in_flight_bytes, stats.send_buffer_bytes, stats.receive_buffer_bytes];
            assert_eq!(kept, [0; 3], "left over at {:?}: {stats:#?}", calm.at);
        }
        self.pause(false);
        calm
    }

    fn pause(&mut self, paused: bool) {
        for id in self.sides() {
            self.pair.world.with_conn(id, |clock, _, app| app.pause(clock.offset(), paused));
        }
    }
}

/// How the pair stood when everything had arrived.
struct Calm {
    at: Duration,
    memory_bytes: usize,
    /// The most since the calm before.
    peak_bytes: usize,
    stats: [Stats; 2],
    stall: [Duration; 2],
    spells: u32,
}

impl fmt::Display for Calm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&Stats) -> u64| -> u64 { self.stats.iter().map(of).sum() };
        let messages = |of: Reliability| -> u64 {
            let lanes = LaneId::all().filter(move |lane| lane.reliability() == of);
            lanes
                .flat_map(|lane| self.stats.iter().map(move |s| &s.lanes[lane.index()]))
                .map(|lane| lane.messages_delivered)
                .sum()
        };
        write!(
            f,
            "{:6.0} s: {} KiB at rest, {} KiB at most; {} spells, longest stall {:?}, of a lane {:?}; {} reliable \
             and {} best-effort messages, {} packets, {} lost, {} of these spuriously, {} chunks \
             again, {} PTOs",
            self.at.as_secs_f64(),
            self.memory_bytes >> 10,
            self.peak_bytes >> 10,
            self.spells,
            self.stall[0],
            self.stall[1],
            messages(Reliability::Reliable),
            messages(Reliability::BestEffort),
            sum(|s| s.packets_sent),
            sum(|s| s.packets_lost),
            sum(|s| s.packets_spuriously_lost),
            sum(|s| s.chunks_retransmitted),
            sum(|s| s.ptos),
        )
    }
}

#[test]
fn hours_of_weather_lose_nothing_stall_nothing_and_pile_nothing_up() {
    let hours = number("ARQ_SOAK_HOURS").unwrap_or(DEFAULT_HOURS);
    let seed = number("ARQ_SEED").map_or(1, |seed| seed as u64);
    let (time, begin) = (Duration::from_secs_f64(hours * 3_600.0), Instant::now());
    println!("{hours} hours; repeat with ARQ_SEED={seed}");
    let mut soak = Soak::new(seed);
    let mut calms = Vec::new();
    while calms.last().is_none_or(|calm: &Calm| calm.at < time) {
        soak.spell();
        calms.push(soak.calm());
        println!("{}", calms.last().unwrap());
    }
    println!("{:.0} s of real time", begin.elapsed().as_secs_f64());
    let first = calms[0].memory_bytes;
    for calm in &calms {
        let grown = calm.memory_bytes.saturating_sub(first);
        assert!(grown <= MAX_GROWTH_BYTES, "ARQ_SEED={seed}: grown by {grown} bytes, {calm}");
    }
}

fn number(variable: &str) -> Option<f64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value} is not a number")))
}
