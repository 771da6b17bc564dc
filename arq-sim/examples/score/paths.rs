// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What lies between the flows and their peers?

use std::time::Duration;

use arq_sim::{Loss, Policer, WireConfig};
use impairments::{
    recording, CoDel, DelayTrace, Discipline, FadeConfig, Frame, Limit, LinkConfig, Opportunities,
    Rate, RateTrace,
};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// A recording's queue.
const RECORDED_QUEUE: Limit = Limit::Packets(100);
/// A queue is no shorter, whatever the product.
const LEAST_QUEUE_BYTES: u32 = 12_000;

/// How fast the bottleneck is.
#[derive(Debug, Clone)]
pub(crate) enum Speed {
    /// Mb/s.
    Mbps(f64),
    /// Mb/s in turns of so many seconds each.
    Turns(&'static [f64], u32),
    /// Mahimahi's opportunities.
    Opportunities(Opportunities),
    /// One radio of a table.
    EachSecond(Vec<f64>),
}

/// What waits before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Queue {
    /// Drop-tail, in products of rate and round trip.
    Products(f64),
    /// Drop-tail, 100 packets.
    Recorded,
    CoDel,
    FqCoDel,
}

/// A path. The defaults have no faults.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub(crate) name: String,
    pub(crate) speed: Speed,
    pub(crate) round_trip: Duration,
    pub(crate) queue: Queue,
    pub(crate) loss: f32,
    pub(crate) loss_back: f32,
    pub(crate) fades: Option<FadeConfig>,
    pub(crate) frame: Frame,
    /// What comes back comes in clumps.
    pub(crate) clump: Duration,
    /// b/s of the way back.
    pub(crate) thin_back: Option<f64>,
    /// In place of the bottleneck.
    pub(crate) policer: Option<Policer>,
    pub(crate) jitter: Duration,
    /// One way, in place of half the round trip.
    pub(crate) delays: Option<DelayTrace>,
    pub(crate) blackout: Option<(u32, u32)>,
    /// Hosts sleep so long now and then, two fifths of the time.
    pub(crate) sleep: Duration,
}

impl Path {
    pub(crate) fn new(mbps: f64, round_trip_ms: u32, products: f64) -> Self {
        Self {
            name: format!("{mbps}M {round_trip_ms}ms q{products}"),
            speed: Speed::Mbps(mbps),
            round_trip: round_trip_ms * MS,
            queue: Queue::Products(products),
            loss: 0.0,
            loss_back: 0.0,
            fades: None,
            frame: Frame::SINGLE,
            clump: Duration::ZERO,
            thin_back: None,
            policer: None,
            jitter: Duration::ZERO,
            delays: None,
            blackout: None,
            sleep: Duration::ZERO,
        }
    }

    /// The same path, with something more in its name.
    pub(crate) fn with(mut self, name: &str, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self.name = format!("{} {name}", self.name);
        self
    }

    pub(crate) fn losing(self, percent: u8) -> Self {
        let share = f32::from(percent) / 100.0;
        self.with(&format!("{percent}%"), |path| (path.loss, path.loss_back) = (share, share))
    }

    /// A recording of opportunities; 20 ms each way.
    pub(crate) fn recorded(name: &str, file: &str) -> Result<Self, recording::RecordingError> {
        let opportunities = recording::opportunities(&recording::text(file)?)?;
        let speed = Speed::Opportunities(opportunities);
        let name = name.to_owned();
        Ok(Self { name, speed, queue: Queue::Recorded, ..Self::new(1.0, 40, 1.0) })
    }

    /// Where the run with this seed begins in a recording of this length.
    fn offset(seed: u64, period: Duration) -> Duration {
        // Golden section: far from each other, however many.
        let place = (seed as f64 * 0.618_034).fract();
        Duration::from_millis((place * period.as_secs_f64() * 1e3) as u64)
    }

    pub(crate) fn rate(&self, seed: u64) -> Rate {
        let trace = |step, mbps: &[f64], offset| {
            let bps: Vec<_> = mbps.iter().map(|mbps| mbps * 1e6).collect();
            Rate::Trace(RateTrace::new(step, bps, offset).unwrap())
        };
        match &self.speed {
            Speed::Mbps(mbps) => Rate::fixed(mbps * 1e6),
            Speed::Turns(mbps, seconds) => trace(*seconds * SECOND, mbps, Duration::ZERO),
            Speed::EachSecond(mbps) => {
                let offset = Self::offset(seed, mbps.len() as u32 * SECOND);
                trace(SECOND, mbps, offset)
            }
            Speed::Opportunities(all) => {
                let offset = Self::offset(seed, all.period());
                Rate::Opportunities(all.starting_at(offset.as_millis() as u64))
            }
        }
    }

    /// Mb/s on the mean.
    pub(crate) fn mbps(&self) -> f64 {
        let mean = |mbps: &[f64]| mbps.iter().sum::<f64>() / mbps.len() as f64;
        match &self.speed {
            Speed::Mbps(mbps) => *mbps,
            Speed::Turns(mbps, _) => mean(mbps),
            Speed::EachSecond(mbps) => mean(mbps),
            Speed::Opportunities(all) => {
                let period = all.period();
                let bytes = Rate::Opportunities(all.clone()).capacity_bytes(Duration::ZERO, period);
                bytes * 8.0 / 1e6 / period.as_secs_f64()
            }
        }
    }

    /// Whether the rate is what it is, and no recording.
    pub(crate) fn is_steady(&self) -> bool {
        matches!(self.speed, Speed::Mbps(_)) && self.fades.is_none() && self.blackout.is_none()
    }

    fn discipline(&self) -> Discipline {
        let long = Limit::Packets(1_000);
        match self.queue {
            Queue::Products(products) => {
                let product = self.mbps() * 1e6 / 8.0 * self.round_trip.as_secs_f64();
                Discipline::DropTail(Limit::Bytes(
                    ((product * products) as u32).max(LEAST_QUEUE_BYTES),
                ))
            }
            Queue::Recorded => Discipline::DropTail(RECORDED_QUEUE),
            Queue::CoDel => Discipline::CoDel(CoDel::DROPPING, long),
            Queue::FqCoDel => Discipline::FqCoDel(CoDel::DROPPING, long),
        }
    }

    /// The fades of a run: the same in both directions.
    pub(crate) fn fades(&self, seed: u64) -> Option<FadeConfig> {
        self.fades.map(|fades| FadeConfig { seed, ..fades })
    }

    /// The delay behind the bottleneck where it changes.
    pub(crate) fn delays(&self, seed: u64) -> Option<DelayTrace> {
        self.delays.as_ref().map(|all| all.starting_at(Self::offset(seed, all.period())))
    }

    /// What both directions have.
    fn wire(&self, seed: u64, loss: f32) -> WireConfig {
        let blackouts = self.blackout.map(|(from, to)| from * SECOND..to * SECOND);
        WireConfig {
            loss: if loss > 0.0 { Loss::Random(loss) } else { Loss::None },
            fades: self.fades(seed),
            delays: self.delays(seed),
            jitter: self.jitter,
            jitter_in_order: true,
            blackouts: blackouts.into_iter().collect(),
            ..WireConfig::with_delay(self.round_trip / 2)
        }
    }

    pub(crate) fn up(&self, seed: u64) -> WireConfig {
        let (rate, queue, frame) = (self.rate(seed), self.discipline(), self.frame);
        let link = LinkConfig { rate, queue, frame };
        WireConfig {
            link: self.policer.is_none().then_some(link),
            policer: self.policer,
            ..self.wire(seed, self.loss)
        }
    }

    /// The way back of a flow whose round trip is longer by `more`.
    pub(crate) fn down(&self, seed: u64, more: Duration) -> WireConfig {
        let thin = |bps| LinkConfig {
            rate: Rate::fixed(bps),
            queue: Discipline::DropTail(Limit::Bytes(30_000)),
            frame: Frame::SINGLE,
        };
        let wire = self.wire(seed, self.loss_back);
        WireConfig {
            link: self.thin_back.map(thin),
            clump: self.clump,
            delay: wire.delay + more,
            ..wire
        }
    }
}
