// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Changing weather over real sockets: does every reliable message arrive, does any flow ever stand
//! still while the network works, and does the process grow?
//!
//! `ARQ_SOAK_SECONDS=3600` makes it an hour, `ARQ_SEED=n` repeats the weather of a run.
//! `-- --nocapture` shows how it goes.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod census;
mod relay;
mod traffic;
mod weather;

use std::{
    future::Future,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        Arc, Mutex, PoisonError,
    },
    time::{Duration, Instant},
};

use census::Census;
use fastrand::Rng;
use relay::{Relay, Sky};
use tokio::{
    runtime::Builder,
    task::JoinSet,
    time::{interval, timeout, MissedTickBehavior},
};
use traffic::Flow;
use weather::Weather;
use zenoh_link_arq::{statistics, LinkManagerUnicastArq, ARQ_MTU};
use zenoh_link_commons::{LinkManagerUnicastTrait, LinkUnicast};
use zenoh_protocol::core::Priority;

const DEFAULT_SECONDS: u64 = 20;
const LINKS: usize = 2;
/// Each with a sky and a listener of its own, where links come and go.
const PLACES: u64 = 32;
/// Messages each way over a link that comes and goes.
const SHORT_LIFE: u64 = 30;
/// How often progress is looked at. A machine that does not let this process run looks less often,
/// and so does not count as a link that stands still.
const TICK: Duration = Duration::from_millis(100);
/// No direction of a link may stand still for longer while the network works, even at 25 % loss in
/// bursts or behind a blackout. Single flows may: the less urgent wait where the controller has
/// become too careful for all of them.
const LONGEST_STALL: Duration = Duration::from_secs(5);
/// What the process may grow by, first reading to last: less than one connection's send and receive
/// buffers under load.
const MAX_GROWTH_KIB: u64 = 24 << 10;
/// Far above what is needed: only a hang runs into it.
const HANG: Duration = Duration::from_secs(60);

/// What a process holds is counted: a test begins when the runtime of the one before is gone, and makes its own then.
fn alone(test: impl Future<Output = ()>) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test);
}

/// The two ends of a link.
struct Ends {
    near: LinkUnicast,
    far: LinkUnicast,
}

struct Network {
    server: LinkManagerUnicastArq,
    client: LinkManagerUnicastArq,
    accepted: flume::Receiver<LinkUnicast>,
    relay: Relay,
}

impl Network {
    async fn new(seed: u64) -> Self {
        let (sender, accepted) = flume::unbounded();
        let server = LinkManagerUnicastArq::new(sender);
        let locator =
            server.new_listener("arq/127.0.0.1:0#mtu=1200".parse().unwrap()).await.unwrap();
        let relay = Relay::to(locator.address().as_str().parse().unwrap(), seed).await;
        let client = LinkManagerUnicastArq::new(flume::unbounded().0);
        Self { server, client, accepted, relay }
    }

    async fn open(&self) -> Ends {
        let endpoint = format!("arq/{}#mtu=1200", self.relay.address()).parse().unwrap();
        let near = self.client.new_link(endpoint).await.expect("no weather outlasts a handshake");
        let Ok(far) = timeout(HANG, self.accepted.recv_async()).await else {
            println!("{:?}", self.relay.sky.weather());
            show_associations();
            let closed = timeout(TICK, near.read(&mut [0; 9], None)).await;
            panic!("{} was opened and not accepted: {closed:?}", near.get_src());
        };
        Ends { near, far: far.unwrap() }
    }

    async fn end(self) {
        for listener in self.server.get_listeners().await {
            self.server.del_listener(&listener).await.unwrap();
        }
    }
}

fn show_associations() {
    statistics().iter().for_each(|association| println!("{association}"));
}

/// What flows over each link that stays, and whether it leaves from the near end.
fn flows(link: usize) -> Vec<(Arc<Flow>, bool)> {
    let named = |name: &str| format!("link {link}, {name}");
    vec![
        (Flow::new(&named("beacons out"), Priority::RealTime, 10, 200), true),
        (Flow::new(&named("beacons back"), Priority::RealTime, 10, 200), false),
        (Flow::new(&named("data out"), Priority::Data, 50, 40_000), true),
        (Flow::new(&named("data back"), Priority::Data, 100, 10_000), false),
        (Flow::new(&named("bulk out"), Priority::Background, 250, ARQ_MTU.into()), true),
        (Flow::lossy(&named("best effort out"), Priority::DataLow, 20, 3_000), true),
    ]
}

#[test]
fn hours_of_weather_lose_nothing_stall_nothing_and_leak_nothing() {
    alone(hours_of_weather());
}

async fn hours_of_weather() {
    let time = Duration::from_secs(number("ARQ_SOAK_SECONDS").unwrap_or(DEFAULT_SECONDS));
    let seed = number("ARQ_SEED").unwrap_or(1);
    println!("{time:?} of weather; repeat with ARQ_SEED={seed}");
    let network = Network::new(seed).await;
    let idle = Census::take();
    let stop = Arc::new(AtomicBool::new(false));
    let (mut senders, mut readers) = (JoinSet::new(), JoinSet::new());
    let mut all = Vec::new();
    let mut links = Vec::new();
    for index in 0..LINKS {
        let ends = network.open().await;
        for (flow, is_out) in flows(index) {
            let (near, far) = (ends.near.clone(), ends.far.clone());
            let (from, to) = if is_out { (near, far) } else { (far, near) };
            let seed = seed ^ (all.len() as u64) << 32;
            let (sender, reader, stop) = (flow.clone(), flow.clone(), stop.clone());
            senders.spawn(async move { sender.send(&**from, seed, &stop, u64::MAX).await });
            readers.spawn(async move { reader.receive(&**to, u64::MAX).await });
            all.push((2 * index + usize::from(is_out), flow));
        }
        links.push(ends);
    }
    let opened = AtomicU64::new(0);
    let watch = Watch { begin: Instant::now(), time, flows: &all, sky: &network.relay.sky };
    let (outcome, (), ()) = tokio::join!(
        watch.observe(&opened, &stop),
        weather(&network.relay.sky, seed, &stop),
        come_and_go(&network, &opened, &stop),
    );
    let settled = async {
        while all.iter().any(|(_, flow)| !flow.may_lose && flow.outstanding() > 0) {
            assert!(readers.try_join_next().is_none(), "a reader ended");
            tokio::time::sleep(TICK).await;
        }
    };
    while let Some(sender) = timeout(HANG, senders.join_next()).await.expect("senders end") {
        sender.unwrap();
    }
    timeout(HANG, settled).await.expect("everything that was sent arrives");
    watch.report(&outcome, &opened);
    let Outcome { stall, first, last, .. } = outcome;
    assert!(stall < LONGEST_STALL, "ARQ_SEED={seed}: a direction stood still for {stall:?}");
    let grown = last.resident_kib.saturating_sub(first.resident_kib);
    assert!(grown <= MAX_GROWTH_KIB, "ARQ_SEED={seed}: {first:?} became {last:?}");
    // Those that stay, both ends of each, and the one that came last may still linger.
    assert!(last.associations <= 2 * LINKS + 2, "ARQ_SEED={seed}: {last:?}");
    readers.shutdown().await;
    end(network, links, idle).await;
}

/// Links that come and go by the thousand: what goes wrong once in so many does so here.
#[test]
fn of_thousands_of_links_that_come_and_go_none_stands_still() {
    alone(thousands_of_links());
}

async fn thousands_of_links() {
    // The runtimes are there when the first network is.
    Network::new(0).await.end().await;
    let idle = Census::take();
    let time = Duration::from_secs(number("ARQ_SOAK_SECONDS").unwrap_or(DEFAULT_SECONDS));
    let seed = number("ARQ_SEED").unwrap_or(1);
    println!("{time:?} of weather; repeat with ARQ_SEED={seed}");
    let (stop, opened) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut places = JoinSet::new();
    for place in 0..PLACES {
        let (stop, opened) = (stop.clone(), opened.clone());
        places.spawn(async move {
            let seed = seed << 32 | place;
            let network = Network::new(seed).await;
            tokio::join!(
                weather(&network.relay.sky, seed, &stop),
                come_and_go(&network, &opened, &stop),
            );
            network.end().await;
        });
    }
    let begin = Instant::now();
    let mut tenths = interval(time / 10);
    while begin.elapsed() < time {
        tokio::select! {
            _ = tenths.tick() => {}
            Some(ended) = places.join_next() => ended.unwrap(),
        }
        println!(
            "{:6.0} s: {} links came and went",
            begin.elapsed().as_secs_f64(),
            opened.load(Relaxed)
        );
    }
    stop.store(true, Relaxed);
    while let Some(ended) = places.join_next().await {
        ended.unwrap();
    }
    all_is_gone(idle).await;
}

/// Closes everything and waits until nothing of it is left.
async fn end(network: Network, links: Vec<Ends>, idle: Census) {
    for Ends { near, far } in links {
        for link in [&near, &far] {
            link.close().await.unwrap();
        }
    }
    network.end().await;
    all_is_gone(idle).await;
}

/// Waits until there is no association, and no more sockets and timers than before.
async fn all_is_gone(idle: Census) {
    let gone = async {
        let is_idle = |now: Census| now.associations == 0 && now.descriptors <= idle.descriptors;
        while !is_idle(Census::take()) {
            tokio::time::sleep(TICK).await;
        }
    };
    let is_gone = timeout(HANG, gone).await.is_ok();
    assert!(is_gone, "{idle:?} before, {:?} in the end", Census::take());
}

/// Changes the weather until `stop`, then clears the sky.
async fn weather(sky: &Sky, seed: u64, stop: &AtomicBool) {
    let mut rng = Rng::with_seed(seed);
    while !stop.load(Relaxed) {
        let (weather, time) = sky.weather().next(&mut rng);
        sky.change_to(weather);
        let until = Instant::now() + time;
        while !stop.load(Relaxed) && Instant::now() < until {
            tokio::time::sleep(TICK).await;
        }
    }
    sky.change_to(Weather::CLEAR);
}

/// Opens a link, uses it both ways, closes it, and again.
async fn come_and_go(network: &Network, opened: &AtomicU64, stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        let Ends { near, far } = network.open().await;
        let never = AtomicBool::new(false);
        let out = Flow::new("short life, out", Priority::Data, 5, 20_000);
        let back = Flow::new("short life, back", Priority::DataHigh, 5, 2_000);
        let life = async {
            tokio::join!(
                out.send(&**near, 1, &never, SHORT_LIFE),
                out.receive(&**far, SHORT_LIFE),
                back.send(&**far, 2, &never, SHORT_LIFE),
                back.receive(&**near, SHORT_LIFE),
            )
        };
        if timeout(HANG, life).await.is_err() {
            show_associations();
            let (out, back) = (out.outstanding(), back.outstanding());
            let (which, number) = (near.get_src(), opened.load(Relaxed));
            panic!("short life {number}, {which}: {out} messages out and {back} back are missing");
        }
        for link in [&near, &far] {
            timeout(HANG, link.close()).await.expect("closing is bounded").unwrap();
        }
        opened.fetch_add(1, Relaxed);
    }
}

struct Watch<'a> {
    begin: Instant,
    time: Duration,
    /// Each with the number of its direction.
    flows: &'a [(usize, Arc<Flow>)],
    sky: &'a Sky,
}

/// How it went.
#[derive(Default)]
struct Outcome {
    /// The longest time that no reliable flow of a direction moved while the network worked.
    stall: Duration,
    /// The longest time that one of them did not.
    flow_stall: Duration,
    /// Which one, and in what weather.
    stalled: String,
    /// When the warm-up was over.
    first: Census,
    last: Census,
}

impl Watch<'_> {
    /// Looks at everything until the time is over, and then says `stop`.
    async fn observe(&self, opened: &AtomicU64, stop: &AtomicBool) -> Outcome {
        let mut outcome = Outcome::default();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut still = vec![(0, 0_u32); self.flows.len()];
        let mut directions = [0_u32; 2 * LINKS];
        let mut tenth = 1;
        while self.begin.elapsed() < self.time {
            ticks.tick().await;
            let weather = self.sky.weather();
            let (mut waits, mut moves) = ([false; 2 * LINKS], [false; 2 * LINKS]);
            for ((direction, flow), (seen, standing)) in self.flows.iter().zip(&mut still) {
                if flow.may_lose {
                    continue;
                }
                let received = flow.received.load(Relaxed);
                let (waiting, moving) = (flow.outstanding() > 0, received != *seen);
                waits[*direction] |= waiting;
                moves[*direction] |= moving;
                let stands = waiting && !moving && !weather.blackout;
                *standing = if stands { *standing + 1 } else { 0 };
                *seen = received;
                if *standing * TICK > outcome.flow_stall {
                    outcome.flow_stall = *standing * TICK;
                    outcome.stalled = format!("{} at message {seen} in {weather:?}", flow.name);
                }
            }
            for (direction, standing) in directions.iter_mut().enumerate() {
                let stands = waits[direction] && !moves[direction] && !weather.blackout;
                *standing = if stands { *standing + 1 } else { 0 };
                outcome.stall = outcome.stall.max(*standing * TICK);
            }
            if self.begin.elapsed() >= self.time * tenth / 10 {
                outcome.last = Census::take();
                if tenth == 1 {
                    outcome.first = outcome.last;
                }
                self.report(&outcome, opened);
                tenth += 1;
            }
        }
        stop.store(true, Relaxed);
        outcome
    }

    fn report(&self, outcome: &Outcome, opened: &AtomicU64) {
        let sum = |of: fn(&Flow) -> &AtomicU64, lossy: bool| -> u64 {
            let flows = self.flows.iter().filter(|(_, flow)| flow.may_lose == lossy);
            flows.map(|(_, flow)| of(flow).load(Relaxed)).sum()
        };
        let Census { resident_kib, descriptors, associations } = outcome.last;
        println!(
            "{:6.0} s: {resident_kib} KiB resident, {descriptors} descriptors, {associations} \
             associations; {} of {} reliable messages, {} MB, {} of {} best effort; {} links came \
             and went; {} of {} datagrams lost; longest stall {:?}, of a flow {:?}: {}",
            self.begin.elapsed().as_secs_f64(),
            sum(|flow| &flow.received, false),
            sum(|flow| &flow.sent, false),
            sum(|flow| &flow.bytes, false) / 1_000_000,
            sum(|flow| &flow.received, true),
            sum(|flow| &flow.sent, true),
            opened.load(Relaxed),
            self.sky.lost.load(Relaxed),
            self.sky.entered.load(Relaxed),
            outcome.stall,
            outcome.flow_stall,
            outcome.stalled,
        );
    }
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value} is not a number")))
}
