// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! One run of a cell: who delivers how much, and what does it cost?

use std::time::Duration;

use arq_proto::{Config, CongestionConfig, FecConfig, Reliability};
use arq_sim::{lane, reference::Algorithm, Access, AppPlan, Flow, Shared};
use impairments::{DelayTrace, Fades, Path as Oracle};

use crate::{
    cells::{Cell, Flows},
    paths::{MS, SECOND},
};

const BULK_BYTES: usize = 10_000;
const BEACON_BYTES: usize = 300;
const BEACON_INTERVAL: Duration = Duration::from_millis(50);
/// Of zenoh: RealTime and Data.
const BEACON_PRIORITY: u8 = 1;
const BULK_PRIORITY: u8 = 5;
/// What a short flow sends, and the share of the rate that all of them take.
const SHORT_BYTES: u64 = 200_000;
const SHORT_SHARE: f64 = 0.2;
/// Of IPv4 and UDP: what no protocol saves.
const HEADER_BYTES: u32 = 28;

/// What came of a run. `NAN` where there is nothing to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) goodput: f64,
    pub(crate) queue_ms: f64,
    pub(crate) beacon_ms: f64,
    pub(crate) bound_ms: f64,
    pub(crate) bytes: f64,
    pub(crate) jain: f64,
    pub(crate) least: f64,
    pub(crate) ours: f64,
}

/// A run under way.
struct Run<'a> {
    cell: &'a Cell,
    seed: u64,
    shared: Shared,
    ours: Vec<usize>,
    rival: Option<usize>,
    rng: fastrand::Rng,
    next_short: Duration,
}

/// Runs a cell once.
///
/// # Panics
/// A rule of the protocol was broken, or more was delivered than the path delivers.
pub(crate) fn run(cell: &Cell, seed: u64, congestion: CongestionConfig) -> Outcome {
    let (up, down) = (cell.path.up(seed), cell.path.down(seed, Duration::ZERO));
    let mut shared = Shared::new(seed, up, down);
    shared.world.stop_log();
    let rng = fastrand::Rng::with_seed(seed);
    let mut run =
        Run { cell, seed, shared, ours: Vec::new(), rival: None, rng, next_short: Duration::ZERO };
    run.join_all(congestion);
    let settled = cell.settled().saturating_sub(run.shared.world.now());
    run.advance(settled, None);
    // A radio may be away at first.
    while !run.ours.iter().chain(&run.rival).all(|&member| run.shared.is_accepted(member)) {
        run.advance(SECOND, None);
    }
    run.measure()
}

fn config(congestion: CongestionConfig) -> Config {
    // No lane's credit is the limit on the longest of these paths, and no outage of a recording ends a connection.
    let patience = 120 * SECOND;
    Config {
        congestion,
        lane_window_bytes: 8 << 20,
        idle_timeout: patience,
        handshake_timeout: patience,
        ..Config::default()
    }
}

fn bulk() -> Flow {
    Flow::reliable(BULK_PRIORITY, BULK_BYTES, u64::MAX)
}

impl Run<'_> {
    /// The rival first, then ours, each a second and some milliseconds after the one before.
    fn join_all(&mut self, congestion: CongestionConfig) {
        let flows = self.cell.flows;
        match flows {
            Flows::BesideCubic => {
                let cubic = config(CongestionConfig::Cubic);
                let cubic = Config { fec: FecConfig::Off, ..cubic };
                let (access, plan) = (self.access(0.0), AppPlan::sends([bulk()]));
                self.rival = Some(self.shared.join_from(access, cubic, plan));
            }
            Flows::Beside(algorithm) => {
                self.rival = Some(self.shared.join_other(self.access(0.0), algorithm, u64::MAX));
            }
            Flows::Ours(..) | Flows::BesideShort | Flows::ComeAndGo => {}
        }
        let count = flows.ours();
        let spread = if let Flows::Ours(_, spread) = flows { spread - 1.0 } else { 0.1 };
        for index in 0..count {
            if self.rival.is_some() || index > 0 {
                let gap = SECOND + MS * self.rng.u32(..100);
                self.advance(gap, None);
            }
            let beacon = Flow::reliable(BEACON_PRIORITY, BEACON_BYTES, u64::MAX);
            let beacon = (index == 0).then(|| beacon.every(BEACON_INTERVAL));
            let plan: Vec<_> = beacon.into_iter().chain([bulk()]).collect();
            let access = self.access(spread * index as f64 / (count - 1).max(1) as f64);
            let member = self.shared.join_from(access, config(congestion), AppPlan::sends(plan));
            self.ours.push(member);
        }
    }

    /// A place whose round trip is longer by this share.
    fn access(&self, longer: f64) -> Access {
        let path = &self.cell.path;
        let down = path.down(self.seed, path.round_trip.mul_f64(longer));
        // Where packets come in bunches they are read together.
        let reads_together = path.frame.packets > 1 || !path.clump.is_zero();
        Access { down, reads_together, timer_lateness: MS / 5, has_ecn: false }
    }

    /// Goes on for a while; what the cell does by itself goes on, too: `since` is the time measured so far.
    fn advance(&mut self, time: Duration, since: Option<Duration>) {
        let end = self.shared.world.now() + time;
        while self.shared.world.now() < end {
            self.keep_going(since);
            let left = end - self.shared.world.now();
            let result = self.shared.world.run_for(left.min(20 * MS));
            result
                .unwrap_or_else(|halt| panic!("{}, seed {}: {halt}", self.cell.name(), self.seed));
        }
    }

    fn keep_going(&mut self, since: Option<Duration>) {
        let now = self.shared.world.now();
        if self.cell.flows == Flows::BesideShort && now >= self.next_short && now > Duration::ZERO {
            self.shared.join_other(self.access(0.05), Algorithm::Reno, SHORT_BYTES);
            let mean = SHORT_BYTES as f64 * 8.0 / (self.cell.path.mbps() * 1e6 * SHORT_SHARE);
            let wait = -(1.0 - self.rng.f64()).ln() * mean;
            self.next_short = now + Duration::from_secs_f64(wait);
        }
        if let (Flows::ComeAndGo, Some(since)) = (self.cell.flows, since) {
            // Two seconds with all four, two with two.
            let paused = since.as_secs() % 4 >= 2;
            self.ours[2..].iter().for_each(|&member| self.shared.pause(member, paused));
        }
        let sleep = self.cell.path.sleep;
        if let (false, Some(&first)) = (sleep.is_zero(), self.ours.first()) {
            if self.rng.f64() < 0.4 {
                self.shared.freeze(first, sleep.mul_f64(2.0 * self.rng.f64()));
            }
        }
    }

    fn measure(mut self) -> Outcome {
        let (from, time) = (self.shared.world.now(), self.cell.measured());
        let (before, sent) = (self.arrived(), self.sent());
        let beacon = lane(BEACON_PRIORITY, Reliability::Reliable);
        let first = self.ours[0];
        let beacons = self.shared.server(first).app.inbox(beacon).latencies.len();
        self.shared.bottleneck().unwrap().take_sojourns();
        let mut since = Duration::ZERO;
        while since < time {
            let step = (20 * MS).min(time - since);
            self.advance(step, Some(since));
            since += step;
        }
        let capacity = self.capacity_bytes(from, time);
        self.check_physics(&before, capacity);
        let mut gained = self.arrived();
        for (gained, before) in gained.iter_mut().zip(&before) {
            *gained -= before;
        }
        let all: f64 = gained.iter().sum();
        let ours: Vec<_> = self.ours.iter().map(|&member| gained[member]).collect();
        let our_bytes: f64 = ours.iter().sum();
        let (beacon_ms, bound_ms) = self.beacons(beacons);
        let sojourns = self.shared.bottleneck().unwrap().take_sojourns();
        Outcome {
            goodput: all / capacity,
            queue_ms: percentile_ms(sojourns),
            beacon_ms,
            bound_ms,
            bytes: (self.sent() - sent) as f64 / our_bytes,
            jain: self.jain(&ours),
            least: self.least(&ours, capacity),
            ours: self.rival.map_or(f64::NAN, |rival| our_bytes / (our_bytes + gained[rival])),
        }
    }

    /// Bytes that ours have sent.
    fn sent(&self) -> u64 {
        let sent = |&member: &usize| self.shared.client(member).connection().stats().bytes_sent;
        self.ours.iter().map(sent).sum()
    }

    /// What has come to each member: read, or waiting behind what is missing; of what is begun, all is counted.
    fn arrived(&self) -> Vec<f64> {
        let mut arrived: Vec<_> =
            self.shared.bytes_read().into_iter().map(|bytes| bytes as f64).collect();
        let rival = self.rival.filter(|_| self.cell.flows == Flows::BesideCubic);
        for member in self.ours.iter().copied().chain(rival) {
            let stats = self.shared.server(member).connection().stats();
            arrived[member] += stats.receive_buffer_bytes as f64;
        }
        arrived
    }

    /// What was read came through the path in this time, or had come before.
    fn check_physics(&self, arrived: &[f64], capacity: f64) {
        let had = |member: usize| arrived.get(member).copied().unwrap_or(0.0);
        let read = self.shared.bytes_read();
        let more =
            read.iter().enumerate().map(|(member, &read)| (read as f64 - had(member)).max(0.0));
        let share = more.sum::<f64>() / capacity;
        let name = self.cell.name();
        assert!(share <= 1.0, "{name}, seed {}: {share} of what passes", self.seed);
    }

    /// What the path delivers of what was sent `time` long, bytes.
    fn capacity_bytes(&self, from: Duration, time: Duration) -> f64 {
        let path = &self.cell.path;
        let (rate, one_way) = (path.rate(self.seed), path.round_trip / 2);
        let (from, to) = (from.saturating_sub(one_way), (from + time).saturating_sub(one_way));
        let passes = 1.0 - f64::from(path.loss);
        let mut bytes = rate.capacity_bytes(from, to);
        if let Some(fades) = path.fades(self.seed) {
            let mut spells = Fades::new(fades, 0);
            let steps = (to - from).as_millis() as u32;
            let faded = (0..steps).filter(|&ms| spells.at(from + ms * MS).is_some()).count();
            bytes *= 1.0 - faded as f64 / f64::from(steps) * fades.lost;
        }
        if let Some((begin, end)) = path.blackout {
            let begin = (begin * SECOND).clamp(from, to);
            bytes -= rate.capacity_bytes(begin, (end * SECOND).clamp(begin, to));
        }
        if path.frame.packets > 1 {
            // Full frames of full packets, each after its access.
            let bits = f64::from(path.frame.packets) * 12_000.0;
            let sending = bits / (path.mbps() * 1e6);
            bytes *= sending / (sending + path.frame.access.as_secs_f64());
        }
        let burst = path.policer.map_or(0, |policer| policer.burst_bytes);
        bytes * passes + f64::from(burst)
    }

    /// The 99th percentiles of the beacons' latencies from number `first` on, and of what the oracle needs for them.
    fn beacons(&self, first: usize) -> (f64, f64) {
        let path = &self.cell.path;
        let delay = DelayTrace::constant(path.round_trip / 2);
        let mut oracle = Oracle {
            rate: path.policer.is_none().then(|| path.rate(self.seed)),
            fades: path.fades(self.seed).map(|fades| Fades::new(fades, 0)),
            delay: path.delays(self.seed).unwrap_or(delay),
            payload_bytes: 1_472,
            header_bytes: HEADER_BYTES,
        };
        let began = self.shared.client(self.ours[0]).connected_at.unwrap();
        let lane = lane(BEACON_PRIORITY, Reliability::Reliable);
        let latencies = &self.shared.server(self.ours[0]).app.inbox(lane).latencies[first..];
        let needed = latencies.iter().enumerate().map(|(index, latency)| {
            let sent = began + (first + index) as u32 * BEACON_INTERVAL;
            let blackout = path.blackout.map(|(from, to)| from * SECOND..to * SECOND);
            let begins = blackout.filter(|b| b.contains(&sent)).map_or(sent, |b| b.end);
            let needed = oracle.earliest_arrival(begins, BEACON_BYTES as u32) - sent;
            let (name, seed) = (self.cell.name(), self.seed);
            assert!(*latency + MS / 100 >= needed, "{name}, seed {seed}: {latency:?}, {needed:?}");
            needed
        });
        let needed = needed.collect();
        (percentile_ms(latencies.to_vec()), percentile_ms(needed))
    }

    fn jain(&self, ours: &[f64]) -> f64 {
        if ours.len() < 2 || self.cell.flows == Flows::ComeAndGo {
            return f64::NAN;
        }
        let (sum, squares) = ours.iter().fold((0.0, 0.0), |(sum, sq), x| (sum + x, sq + x * x));
        sum * sum / (ours.len() as f64 * squares)
    }

    /// The least of ours, as a share of an equal one.
    fn least(&self, ours: &[f64], capacity: f64) -> f64 {
        let flows = ours.len() + usize::from(self.rival.is_some());
        if flows < 2 {
            return f64::NAN;
        }
        let least = ours.iter().copied().fold(f64::INFINITY, f64::min);
        least * flows as f64 / capacity
    }
}

fn percentile_ms(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    let index = (times.len() * 99 / 100).min(times.len().saturating_sub(1));
    times.get(index).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}
