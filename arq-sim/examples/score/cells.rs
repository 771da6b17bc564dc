// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which paths, and who is on them?

use std::time::Duration;

use arq_sim::{reference::Algorithm, Policer};
use impairments::{recording, DelayTrace, FadeConfig, Frame};

use crate::paths::{Path, Queue, Speed, MS, SECOND};

/// Who shares a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Flows {
    /// So many of ours; the last one's round trip is so many times the path's.
    Ours(usize, f64),
    /// One of ours after an association with CUBIC.
    BesideCubic,
    /// One of ours after one of those.
    Beside(Algorithm),
    /// One of ours, and short ones that take a fifth of the rate.
    BesideShort,
    /// Four of ours, of which two come and go.
    ComeAndGo,
}

impl Flows {
    fn of(code: &str) -> Self {
        match code {
            "c" => Self::BesideCubic,
            "v1" => Self::Beside(Algorithm::Bbr1),
            "v3" => Self::Beside(Algorithm::Bbr3),
            "s" => Self::BesideShort,
            "x" => Self::ComeAndGo,
            code => {
                let spread = if code.ends_with('u') { 2.0 } else { 1.1 };
                Self::Ours(code.trim_end_matches('u').parse().unwrap(), spread)
            }
        }
    }

    /// How many of ours.
    pub(crate) fn ours(self) -> usize {
        match self {
            Self::Ours(count, _) => count,
            Self::ComeAndGo => 4,
            _ => 1,
        }
    }

    /// Whether somebody else is on the path for good.
    pub(crate) fn has_rival(self) -> bool {
        matches!(self, Self::BesideCubic | Self::Beside(_))
    }
}

/// A path and who is on it.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub(crate) path: Path,
    pub(crate) flows: Flows,
    code: &'static str,
}

impl Cell {
    pub(crate) fn name(&self) -> String {
        format!("{} | {}", self.path.name, self.code)
    }

    /// From the first flow until all have found their share.
    pub(crate) fn settled(&self) -> Duration {
        let joined = (self.flows.ours() + usize::from(self.flows.has_rival())) as u32 * SECOND;
        joined + 4 * SECOND + 40 * self.path.round_trip
    }

    /// Long enough for some hundred round trips and for the spells of what changes.
    pub(crate) fn measured(&self) -> Duration {
        match (&self.path.speed, self.path.mbps()) {
            (Speed::Opportunities(_) | Speed::EachSecond(_), _) => 30 * SECOND,
            (Speed::Turns(each, seconds), _) => each.len() as u32 * *seconds * SECOND,
            (_, mbps) if mbps <= 10.0 || !self.path.is_steady() => 20 * SECOND,
            _ => 10 * SECOND,
        }
    }

    /// What a run simulates, about.
    pub(crate) fn packets(&self) -> u64 {
        let seconds = (self.settled() + self.measured()).as_secs_f64();
        (seconds * self.path.mbps() * 1e6 / 10_000.0) as u64
    }
}

/// Every cell of the table.
pub(crate) fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut add = |path: Path, codes: &'static str| {
        cells.extend(codes.split(' ').map(|code| Cell {
            path: path.clone(),
            flows: Flows::of(code),
            code,
        }));
    };
    drop_tail(&mut add);
    lossy(&mut add);
    managed(&mut add);
    traps(&mut add);
    recorded(&mut add);
    cells
}

type Add<'a> = dyn FnMut(Path, &'static str) + 'a;

/// From 2 to 100 Mb/s, 2 to 200 ms, a queue of 0.25, 1 and 4 products.
fn drop_tail(add: &mut Add<'_>) {
    add(Path::new(2.0, 100, 1.0), "1 4 8 c v1");
    add(Path::new(2.0, 200, 4.0), "1");
    add(Path::new(6.0, 5, 4.0), "1 3");
    add(Path::new(6.0, 30, 1.0), "1 3 v3");
    add(Path::new(20.0, 20, 0.25), "1 4 c v1 v3");
    add(Path::new(20.0, 20, 1.0), "1 2 4 8 8u c v1 v3 s x");
    add(Path::new(20.0, 20, 4.0), "1 c v1 v3");
    add(Path::new(20.0, 70, 0.25), "8");
    add(Path::new(20.0, 70, 1.0), "8 x");
    add(Path::new(50.0, 50, 1.0), "1 4u");
    add(Path::new(100.0, 2, 1.0), "1");
    add(Path::new(100.0, 20, 1.0), "1 4");
    add(Path::new(50.0, 200, 1.0), "1 2");
}

/// The medium loses 5 and 15 %, at random or by the clock.
fn lossy(add: &mut Add<'_>) {
    add(Path::new(2.0, 100, 1.0).losing(5), "1 4");
    add(Path::new(6.0, 30, 1.0).losing(5), "1 2 8");
    add(Path::new(6.0, 30, 1.0).losing(15), "1 4");
    add(Path::new(20.0, 20, 0.25).losing(5), "1 4");
    add(Path::new(20.0, 20, 1.0).losing(5), "1 2 4 8 8u c v1 v3 s x");
    add(Path::new(20.0, 20, 1.0).losing(15), "1 4 8 v1");
    add(Path::new(20.0, 70, 1.0).losing(5), "1 4u");
    add(Path::new(100.0, 20, 1.0).losing(5), "1");
    add(Path::new(100.0, 20, 1.0).losing(15), "1");
    let fades = |percent: u8, mean_ms, is_regular, lost| {
        Some(FadeConfig {
            share: f64::from(percent) / 100.0,
            mean: mean_ms * MS,
            is_regular,
            lost,
            seed: 0,
        })
    };
    let fading = |name: &str, path: Path, fades| path.with(name, |path| path.fades = fades);
    let path = || Path::new(6.0, 60, 1.0);
    add(fading("fades 37ms", path(), fades(5, 37, false, 1.0)), "1 2 s");
    add(fading("fades 200ms", path(), fades(5, 200, false, 1.0)), "1 2");
    add(fading("fades 400ms/4s", path(), fades(10, 400, true, 1.0)), "1 4");
    add(fading("fades 60%", Path::new(20.0, 20, 1.0), fades(12, 60, true, 0.6)), "1 2");
}

/// AQM, policers, frames, a thin way back.
fn managed(add: &mut Add<'_>) {
    let queue = |name: &str, queue| Path::new(20.0, 40, 1.0).with(name, |path| path.queue = queue);
    add(queue("codel", Queue::CoDel), "1 2 8 c v1");
    add(queue("codel", Queue::CoDel).losing(5), "1 4");
    add(queue("fq_codel", Queue::FqCoDel), "1 4 c");
    add(queue("fq_codel", Queue::FqCoDel).losing(5), "1");
    let policed = |path: Path| {
        let rate_bps = (path.mbps() * 1e6) as u64;
        let policer = Policer { rate_bps, burst_bytes: 15_000 };
        path.with("policed", |path| path.policer = Some(policer))
    };
    add(policed(Path::new(20.0, 20, 1.0)), "1 4 c");
    add(policed(Path::new(4.0, 2, 1.0).losing(5)), "1");
    add(policed(Path::new(0.25, 40, 1.0)), "1");
    let framed = || {
        let frame = Frame { packets: 64, access: 2 * MS };
        Path::new(50.0, 12, 4.0).with("frames", |path| path.frame = frame)
    };
    add(framed(), "1 4 v1");
    add(framed().losing(5), "1 4 v1");
    add(framed().losing(15), "1 4");
    let clumps = |path: Path| path.with("acks 15ms", |path| path.clump = 15 * MS);
    add(clumps(Path::new(100.0, 20, 1.0)), "1");
    add(clumps(Path::new(20.0, 20, 1.0)).losing(5), "2 4 8");
    for (name, kbps) in [("back 100k", 100.0), ("back 200k", 200.0), ("back 400k", 400.0)] {
        let thin = |path: Path| path.with(name, |path| path.thin_back = Some(kbps * 1e3));
        add(thin(Path::new(20.0, 40, 1.0)), "1");
    }
}

/// Paths that have misled controllers before: `arq-proto/tests/congestion/traps.rs`.
fn traps(add: &mut Add<'_>) {
    add(Path::new(20.0, 20, 1.0).losing(40), "1");
    add(Path::new(20.0, 20, 1.0).with("back 25% lost", |path| path.loss_back = 0.25), "1");
    add(Path::new(0.25, 20, 50.0), "1");
    let jitter = |path: Path| path.with("jitter 7ms", |path| path.jitter = 7 * MS);
    add(jitter(Path::new(6.0, 34, 1.0).losing(5)), "1");
    add(Path::new(20.0, 20, 1.0).with("sleeps", |path| path.sleep = 20 * MS).losing(5), "1");
    let blackout = |path: Path| path.with("blackout 4s", |path| path.blackout = Some((8, 12)));
    add(blackout(Path::new(20.0, 20, 1.0)), "1");
    let turns = |name: &str, mbps| {
        let path = Path { name: "steps".into(), ..Path::new(20.0, 40, 1.0) };
        path.with(name, |path| path.speed = Speed::Turns(mbps, 10))
    };
    add(turns("4 and 40M", &[4.0, 40.0]), "1 2");
    add(turns("4 and 40M", &[4.0, 40.0]).losing(5), "1");
    let steps = [10 * MS, 40 * MS, 5 * MS, 20 * MS];
    let steps = DelayTrace::new(5 * SECOND, steps, Duration::ZERO);
    add(Path::new(20.0, 40, 2.0).with("delay steps", |path| path.delays = steps), "1");
}

/// Radios. Who has no file of a recording is told so.
fn recorded(add: &mut Add<'_>) {
    for (name, file, codes) in [
        ("taxi", "nyc-lte/taxi.down", "1 2 4 c v1 v3"),
        ("bus", "nyc-lte/bus.down", "1 c"),
        ("walking", "nyc-lte/walking.down", "1 c s"),
        ("att down", "att-lte-2016/down.mm", "1"),
        ("att up", "att-lte-2016/up.mm", "1 c"),
    ] {
        match Path::recorded(name, file) {
            Ok(path) => add(path, codes),
            Err(error) => eprintln!("*** SKIPPED {name}: {error}"),
        }
    }
    let delays = recording::text("starlink-leocc/delay_ms_per_10ms.txt").unwrap();
    let delays = recording::delays(&delays, 10 * MS, Duration::ZERO).unwrap();
    let starlink = Path::recorded("starlink", "starlink-leocc/link.mm").unwrap();
    add(Path { delays: Some(delays), round_trip: 24 * MS, ..starlink }, "1 4 c");
    let wifi = recording::text("feup-wifi/links_per_second.csv").unwrap();
    for radio in ["ap2", "ap4"] {
        let speed = Speed::EachSecond(each_second(&wifi, radio));
        let path = Path { name: format!("wifi {radio}"), speed, ..Path::new(1.0, 20, 1.0) };
        add(Path { queue: Queue::Recorded, ..path }, if radio == "ap2" { "1 c" } else { "1" });
    }
    for run in ["urban-n78-30kmh-27hz", "weak-strong-n8-50kmh"] {
        let car = recording::text(&format!("cicv5g/{run}.csv")).unwrap();
        let delays = recording::half_round_trips(&car, MS).ok();
        let path = Path { name: format!("5g {run}"), ..Path::new(20.0, 30, 1.0) };
        add(Path { delays, queue: Queue::Recorded, ..path }, "1");
    }
}

/// Mb/s of a radio in the seconds in which it was on.
fn each_second(table: &str, radio: &str) -> Vec<f64> {
    let rate =
        recording::rates(table, &format!("{radio}_kbps"), &format!("{radio}_on"), Duration::ZERO);
    rate.unwrap().bits_per_second().iter().map(|bps| bps / 1e6).collect()
}
