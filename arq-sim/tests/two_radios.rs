// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Two recorded radios of one vehicle: what is a second one worth to commands at 50 Hz, and what does it cost?
//!
//! Prints a table; `ARQ_SEED=n` begins elsewhere in the recordings.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::Duration;

use arq_proto::{PathStats, Reliability};
use arq_sim::{lane, Bottleneck, Flow, Loss, Pair, Scenario, WireConfig};
use impairments::{
    recording, recording::Recorded, wire::Recording, Discipline, FadeConfig, Fades, Frame, Limit,
    LinkConfig, Rate, RateTrace,
};

const MS: Duration = Duration::from_millis(1);

/// A radio whose way to the vehicle is the recording `file`, 20 ms each way beside that.
fn recorded(file: &str, start_s: u64) -> (WireConfig, WireConfig) {
    let all = recording::opportunities(&recording::text(file).unwrap()).unwrap();
    let link = LinkConfig {
        rate: Rate::Opportunities(all.starting_at(start_s * 1_000)),
        queue: Discipline::DropTail(Limit::Bytes(250_000)),
        frame: Frame::SINGLE,
    };
    let wire = WireConfig::with_delay(20 * MS);
    (wire.clone(), WireConfig { link: Some(link), ..wire })
}

/// Two minutes over these recordings: the latencies of the commands, sorted, and the vehicle's paths as the sender sees them.
fn drive(seed: u64, radios: &[&str]) -> (Vec<Duration>, Vec<PathStats>) {
    let wires = radios.iter().map(|file| recorded(file, 7 + 40 * seed));
    drive_over(seed, wires.collect())
}

/// The same over any radios.
fn drive_over(seed: u64, wires: Vec<(WireConfig, WireConfig)>) -> (Vec<Duration>, Vec<PathStats>) {
    let count = wires.len();
    let mut wires = wires.into_iter();
    let (up, down) = wires.next().unwrap();
    let mut scenario = Scenario { up, down, radios: wires.collect(), ..Scenario::new(seed) };
    scenario.config.paths = if count > 1 { 4 } else { 1 };
    scenario.config.idle_timeout = Duration::from_secs(60);
    let scenario = scenario
        .within(Duration::from_secs(400))
        .server_sends([Flow::reliable(2, 250, 6_000).every(20 * MS)]);
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(scenario.limit).unwrap();
    pair.run_to_delivery(scenario.limit).unwrap();
    let inbox = pair.client_side().app.inbox(lane(2, Reliability::Reliable));
    let mut latencies = inbox.latencies[100..].to_vec();
    latencies.sort_unstable();
    (latencies, pair.server_side().connection().paths().collect())
}

fn percentile(sorted: &[Duration], per_mille: usize) -> Duration {
    sorted[(sorted.len() * per_mille / 1_000).min(sorted.len() - 1)]
}

/// Medians over seeds: the 99th percentile of two radios in seconds, the same as a share of that of the better one alone,
/// and their needless bytes as a share of all.
fn compare(name: &str, radios: [&str; 2]) -> [f64; 3] {
    let seed = std::env::var("ARQ_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or(0..3, |seed: u64| seed..seed + 1);
    let [mut seconds, mut late, mut needless] = [const { Vec::new() }; 3];
    for seed in seeds {
        let alone = radios.map(|radio| drive(seed, &[radio]).0);
        let (both, paths) = drive(seed, &radios);
        let sum = |of: fn(&PathStats) -> u64| paths.iter().map(of).sum::<u64>() as f64;
        needless.push(sum(|path| path.needless_bytes) / sum(|path| path.bytes_sent));
        let [p99, p999] = [990, 999].map(|per_mille| {
            [&alone[0], &alone[1], &both].map(|latencies| percentile(latencies, per_mille))
        });
        println!(
            "{name}, seed {seed}: p99 {p99:.0?}, p99.9 {p999:.0?}, needless {:.1} %",
            100.0 * needless[needless.len() - 1]
        );
        seconds.push(p99[2].as_secs_f64());
        late.push(p99[2].as_secs_f64() / p99[0].min(p99[1]).as_secs_f64());
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    [seconds, late, needless].map(median)
}

// ARQ-MP-5, ARQ-MP-6
#[test]
fn two_recorded_lte_radios_are_far_ahead_of_the_better_one() {
    for (name, radios, most) in [
        ("taxi + bus", ["nyc-lte/taxi.down", "nyc-lte/bus.down"], 0.100),
        ("on foot + taxi", ["nyc-lte/walking.down", "nyc-lte/taxi.down"], 0.080),
    ] {
        let [seconds, late, needless] = compare(name, radios);
        println!("{name}: {seconds} s, {late:.2} of the better one");
        assert!(seconds <= most && late <= 0.31, "{name}: {seconds}, {late}");
        assert!(needless <= 0.12, "{name}: {needless}");
    }
}

// ARQ-MP-6
#[test]
fn a_poor_radio_does_a_good_one_no_harm() {
    for lte in ["taxi", "bus", "walking"] {
        let name = format!("{lte} + Starlink");
        let file = format!("nyc-lte/{lte}.down");
        let [_, late, needless] = compare(&name, [&file, "starlink-leocc/link.mm"]);
        println!("{name}: {late:.2} of the better one");
        // A millisecond of 28: messages arrive at full ones.
        assert!(late <= 1.12 && needless <= 0.12, "{name}: {late}, {needless}");
    }
}

/// The seconds of a cart's laps in which two of its Wi-Fi radios were on: in the others, nobody had asked for anything.
fn both_on(radios: [&str; 2]) -> String {
    let table = recording::text("feup-wifi/links_per_second.csv").unwrap();
    let head = table.lines().next().unwrap().to_owned();
    let place = |title: &str| head.split(',').position(|one| one == title).unwrap();
    let needed = radios.map(|radio| place(&format!("{radio}_on")));
    let needed = [needed[0], needed[1], place("in_lap")];
    let is_on = |line: &&str| {
        let fields: Vec<_> = line.split(',').collect();
        needed.iter().all(|place| fields[*place] == "1")
    };
    let rows = table.lines().skip(1).filter(is_on);
    [head.as_str()].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

/// One of them, with what it carried in each of these seconds, from a second on; 5 ms each way.
fn wifi(rate: &RateTrace) -> (WireConfig, WireConfig) {
    let link = LinkConfig {
        rate: Rate::Trace(rate.clone()),
        queue: Discipline::DropTail(Limit::Bytes(250_000)),
        frame: Frame::SINGLE,
    };
    let wire = WireConfig { link: Some(link), ..WireConfig::with_delay(5 * MS) };
    (wire.clone(), wire)
}

/// The latencies of the commands of [`drive_over`] if each left once, in a packet of its own, on the radio of which one knows
/// that it carries the command sooner, behind those before it.
fn earliest(rates: &[RateTrace; 2]) -> Vec<Duration> {
    // Headers of IP, UDP, packet and frame, and the tag.
    let bits = 8.0 * (250 + 28 + 24) as f64;
    let mut free = [Duration::ZERO; 2];
    let latencies = (0..6_000).map(|n| {
        let sent = n * 20 * MS;
        let done = [0, 1].map(|radio| rates[radio].finish(sent.max(free[radio]), bits));
        let sooner = usize::from(done[1] < done[0]);
        free[sooner] = done[sooner];
        done[sooner] + 5 * MS - sent
    });
    latencies.skip(100).collect()
}

// ARQ-MP-5
#[test]
fn a_cart_with_two_wifi_radios_has_commands_a_second_late_only_where_neither_carries_any() {
    let table = both_on(["ap2", "ap4"]);
    let (mut late, mut p99s) = ([0; 4], Vec::new());
    for seed in 0..8 {
        let start = Duration::from_secs(120 * seed);
        let rates = ["ap2_kbps", "ap4_kbps"]
            .map(|column| recording::rates(&table, column, "in_lap", start).unwrap());
        let [first, second] = rates.each_ref().map(wifi);
        let rides = [vec![first.clone()], vec![second.clone()], vec![first, second]];
        let rides = rides.map(|wires| drive_over(seed, wires).0);
        let all = rides.iter().chain([&earliest(&rates)]).cloned().collect::<Vec<_>>();
        for (sum, latencies) in late.iter_mut().zip(&all) {
            *sum += latencies.iter().filter(|late| **late > Duration::from_secs(1)).count();
        }
        p99s.push(rides.map(|latencies| percentile(&latencies, 990)));
    }
    println!("later than a second, of 47,200: {late:?}; p99 {p99s:.1?}");
    // In 4.2 % of these seconds neither carries anything, in 5.7 % and 10.1 % each alone: who knew all of them would have
    // 0.67 of the late commands of the better one, which expects its stalls.
    assert!(late[2] as f64 <= 0.71 * late[0].min(late[1]) as f64, "{late:?}");
    assert!(late[2] as f64 <= 1.05 * late[3] as f64, "{late:?}");
}

/// A car's radio, of which the round trip of each message was recorded.
fn five_g(run: &str) -> (WireConfig, WireConfig) {
    let table = recording::text(&format!("cicv5g/{run}.csv")).unwrap();
    let delays = recording::half_round_trips(&table, MS).unwrap();
    let wire = WireConfig { delays: Some(delays), ..WireConfig::default() };
    (wire.clone(), wire)
}

// ARQ-MP-5, ARQ-MP-6
#[test]
fn two_bands_of_5g_keep_all_but_one_command_in_a_thousand_below_150_ms() {
    for [n78, n8] in [
        ["urban-n78-30kmh-27hz", "weak-strong-n8-50kmh"],
        ["urban-n78-30kmh-27hz", "rural-n8-0kmh"],
        ["arterial-n78-80kmh", "arterial-n8-50kmh"],
        ["arterial-n78-80kmh", "weak-strong-n8-30kmh"],
    ] {
        let rides = [&[n78][..], &[n8], &[n78, n8]];
        let p999 = rides.map(|runs| {
            let wires = runs.iter().map(|run| five_g(run)).collect();
            percentile(&drive_over(1, wires).0, 999)
        });
        println!("{n78} + {n8}: p99.9 {p999:.0?}");
        let better = p999[0].min(p999[1]);
        // Where one is good by itself, the other does it no harm: an answer takes a millisecond or some.
        assert!(p999[2] <= (150 * MS).max(better + 20 * MS), "{n78} + {n8}: {p999:?}");
    }
}

/// A radio that begins anywhere in its recording, as those of the bench do: of LTE the way of the commands is recorded, of
/// Starlink both ways.
fn anywhere(name: &str, seed: u64) -> (WireConfig, WireConfig) {
    let is_starlink = name.starts_with("starlink");
    let delays = is_starlink.then(|| "starlink-leocc/delay_ms_per_10ms.txt".to_owned());
    let asked = Recording { name: name.to_owned(), delays, start_s: None };
    let Recorded { opportunities, delays } = recording::load(&asked, seed).unwrap();
    let link = LinkConfig {
        rate: Rate::Opportunities(opportunities),
        queue: Discipline::DropTail(Limit::Bytes(250_000)),
        frame: Frame::SINGLE,
    };
    let plain = WireConfig::with_delay(20 * MS);
    let up = WireConfig { link: Some(link), delays, ..plain.clone() };
    let down = if is_starlink { up.clone() } else { plain };
    (up, down)
}

/// What seven seconds of commands over an open session come to.
struct Ride {
    latencies: Vec<Duration>,
    /// Of both sides.
    packets: u64,
}

impl Ride {
    /// The 99th percentile of those that are at most 200 ms later than the median.
    fn without_outages(&self) -> Duration {
        let median = nearest_rank(&self.latencies, 500);
        let usual: Vec<_> =
            self.latencies.iter().copied().filter(|late| *late <= median + 200 * MS).collect();
        nearest_rank(&usual, 990)
    }
}

fn nearest_rank(sorted: &[Duration], per_mille: usize) -> Duration {
    sorted[(sorted.len() * per_mille).div_ceil(1_000) - 1]
}

fn ride(seed: u64, radios: &[&str]) -> Ride {
    let mut wires = radios.iter().map(|name| anywhere(name, seed));
    let (up, down) = wires.next().unwrap();
    let mut scenario = Scenario { up, down, radios: wires.collect(), ..Scenario::new(seed) };
    scenario.config.paths = if radios.len() > 1 { 4 } else { 1 };
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(scenario.limit).unwrap();
    pair.world.run_for(Duration::from_secs(1)).unwrap();
    let packets = |pair: &Pair| {
        let sides = [pair.client_side(), pair.server_side()];
        sides.iter().map(|side| side.connection().stats().packets_sent).sum::<u64>()
    };
    let before = packets(&pair);
    let commands = Flow::reliable(2, 230, 350).every(20 * MS);
    pair.world.with_conn(pair.conn, |clock, _, app| app.add_flow(clock.offset(), commands));
    let lane = lane(2, Reliability::Reliable);
    pair.run(scenario.limit, |pair| pair.server_side().app.inbox(lane).messages == 350).unwrap();
    let mut latencies = pair.server_side().app.inbox(lane).latencies.clone();
    latencies.sort_unstable();
    Ride { latencies, packets: packets(&pair) - before }
}

// ARQ-MP-6
#[test]
fn from_the_first_command_on_two_radios_are_as_good_as_the_better_one() {
    for (name, radios) in [
        ("taxi + Starlink", ["nyc-lte/taxi.down", "starlink-leocc/link.mm"]),
        ("taxi + bus", ["nyc-lte/taxi.down", "nyc-lte/bus.down"]),
    ] {
        // Medians of five, as in the bench.
        for seeds in [0..5, 5..10] {
            let (mut p99s, mut packets) =
                ([(); 3].map(|()| Vec::new()), [(); 3].map(|()| Vec::new()));
            for seed in seeds.clone() {
                let rides =
                    [ride(seed, &radios[..1]), ride(seed, &radios[1..]), ride(seed, &radios)];
                p99s[0].push(rides[0].without_outages());
                p99s[1].push(rides[1].without_outages());
                p99s[2].push(nearest_rank(&rides[2].latencies, 990));
                (0..3).for_each(|n| packets[n].push(rides[n].packets));
                let last = |n: usize| p99s[n][p99s[n].len() - 1];
                println!(
                    "{name}, seed {seed}: p99 {:.0?}, alone {:.0?} and {:.0?}",
                    last(2),
                    last(0),
                    last(1)
                );
            }
            let [p99s, packets] = [
                p99s.map(middle).map(|p99| p99.as_secs_f64()),
                packets.map(middle).map(|n| n as f64),
            ];
            let better = usize::from(p99s[1] < p99s[0]);
            let (late, more) = (p99s[2] / p99s[better], packets[2] / packets[better]);
            println!("{name}: {late:.2} of the better one's p99, {more:.2} of its packets");
            assert!(late <= 1.2 && more <= 1.05, "{name}, seeds {seeds:?}: {late}, {more}");
        }
    }
}

fn middle<T: Ord + Copy>(mut values: Vec<T>) -> T {
    values.sort_unstable();
    values[values.len() / 2]
}

/// One of two access points of a robot, which sends and hears nothing for 200 ms in each two seconds, from `offset` on: so
/// does a radio that looks for others. 1 % of the rest is lost.
fn suspended(offset: Duration) -> WireConfig {
    let times = (0..30).map(|n| offset + n * Duration::from_secs(2));
    WireConfig {
        jitter: 3 * MS,
        jitter_in_order: true,
        loss: Loss::Random(0.01),
        bottleneck: Some(Bottleneck { rate_bps: 15_000_000, queue_bytes: 250_000 }),
        blackouts: times.map(|at| at..at + 200 * MS).collect(),
        ..WireConfig::with_delay(5 * MS)
    }
}

/// The longest time between two commands that reached a robot, with what it publishes beside: odometry, scans, images.
fn longest_silence(robot: u32, radios: usize) -> Duration {
    let offsets = [100, 1_100].map(|ms| (ms + 170 * robot) * MS);
    let scenario = Scenario::new(u64::from(robot)).wire(suspended(offsets[0]));
    let scenario = match radios {
        1 => scenario,
        _ => scenario.radio(suspended(offsets[1])),
    };
    let commands = Flow::reliable(1, 100, 2_500).every(20 * MS);
    let scenario = scenario.server_sends([commands]).client_sends([
        Flow::reliable(2, 700, 2_500).every(20 * MS),
        Flow::best_effort(5, 15_000, 500).every(100 * MS),
        Flow::best_effort(6, 40_000, 750).every(66 * MS),
    ]);
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(scenario.limit).unwrap();
    pair.run_to_delivery(scenario.limit).unwrap();
    let latencies = &pair.client_side().app.inbox(lane(1, Reliability::Reliable)).latencies;
    let arrivals = (0..).zip(latencies).map(|(n, late)| n * 20 * MS + *late);
    let arrivals: Vec<_> = arrivals.skip(50).collect();
    arrivals.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap()
}

// ARQ-MP-5
#[test]
fn robots_whose_radios_are_suspended_hear_their_commands() {
    for robot in 0..3 {
        let [one, two] = [1, 2].map(|radios| longest_silence(robot, radios));
        println!("robot {robot}: {one:.0?} without a command over one radio, {two:.0?} over two");
        assert!(two <= 120 * MS && one > 200 * MS, "robot {robot}: {one:?}, {two:?}");
    }
}

/// Fades of 200 ms that take 5 % of the time of a radio.
fn fades(seed: u64) -> FadeConfig {
    FadeConfig { share: 0.05, mean: 200 * MS, is_regular: false, lost: 1.0, seed }
}

/// Commands of five minutes at 50 Hz, the first second of which does not count.
const COMMANDS: u32 = 15_000;

/// The latencies of who would send always on both radios, sorted.
fn bound(seeds: [u64; 2]) -> Vec<Duration> {
    let mut radios = seeds.map(|seed| Fades::new(fades(seed), seed));
    let mut latencies: Vec<_> = (50..COMMANDS)
        .map(|n| {
            let sent = n * 20 * MS;
            let mut at = sent;
            while let [Some(one), Some(other)] = radios.each_mut().map(|radio| radio.at(at)) {
                at = one.end.min(other.end);
            }
            at - sent + 30 * MS
        })
        .collect();
    latencies.sort_unstable();
    latencies
}

/// Those of the link, which doubles all commands or none.
fn faded(seeds: [u64; 2], is_doubled: bool) -> Vec<Duration> {
    let [first, second] = seeds
        .map(|seed| WireConfig { fades: Some(fades(seed)), ..WireConfig::with_delay(30 * MS) });
    let mut scenario = Scenario::new(seeds[0]).wire(first).radio(second);
    if is_doubled {
        scenario.config.duplicate = Some(2..=2);
        scenario.config.copies_percent = 100;
    }
    let commands = Flow::reliable(2, 250, COMMANDS.into()).every(20 * MS);
    let scenario = scenario.within(Duration::from_secs(600)).client_sends([commands]);
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(scenario.limit).unwrap();
    pair.run_to_delivery(scenario.limit).unwrap();
    let inbox = pair.server_side().app.inbox(lane(2, Reliability::Reliable));
    let mut latencies = inbox.latencies[50..].to_vec();
    latencies.sort_unstable();
    latencies
}

// ARQ-MP-5, ARQ-MP-10
#[test]
fn what_both_radios_would_let_through_is_nearly_reached() {
    for seed in 0..5 {
        let seeds = [2 * seed + 100, 2 * seed + 101];
        let doubled = percentile(&faded(seeds, true), 990);
        let deferred = percentile(&faded(seeds, false), 990);
        let bound = percentile(&bound(seeds), 990);
        println!(
            "seeds {seeds:?}: bound {bound:.0?}, doubled {doubled:.0?}, deferred {deferred:.0?}"
        );
        assert!(doubled.as_secs_f64() <= 1.3 * bound.as_secs_f64(), "{doubled:?}, {bound:?}");
        assert!(deferred <= bound + 90 * MS, "{deferred:?}, {bound:?}");
    }
}
