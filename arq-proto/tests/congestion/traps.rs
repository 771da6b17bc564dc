// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Paths that have misled controllers before.

use std::cell::RefCell;

use arq_sim::Policer;

use super::*;

const TOLERANT: CongestionConfig = CongestionConfig::Tolerant;

// ARQ-CC-6
#[test]
fn loss_from_the_first_round_does_not_end_start_up() {
    let path = Path { loss: 0.25, ..PATH };
    let mut shared = path.shared();
    shared.join(config(TOLERANT), bulk());
    shared.world.run_until(5 * SECOND, |_| false).unwrap_err();
    let goodput = shared.bytes_read()[0] as f64 * 8.0 / 5e6;
    println!("{goodput:.1} Mb/s");
    assert!(goodput >= 0.75 * path.capacity(), "{goodput:.1} Mb/s over the first 5 s");
}

/// A megabyte at once, every `interval`.
fn bursts(interval: Duration) -> impl Iterator<Item = Flow> {
    (0..16).map(move |_| Flow::reliable(5, 62_500, u64::MAX).every(interval))
}

/// How long the burst takes that comes after `pause`; queue drops show in it.
fn burst_after(pause: Duration, others: impl IntoIterator<Item = Flow>) -> Duration {
    let mut shared = PATH.shared();
    shared.join(config(TOLERANT), plan(bursts(pause).chain(others)));
    // Bursts come at 0, `pause`, 2 x `pause`.
    shared.world.run_for(2 * pause - 100 * MS).unwrap();
    let before = shared.bytes_read()[0];
    shared.world.run_for(100 * MS).unwrap();
    let start = shared.world.now();
    while shared.bytes_read()[0] < before + 1_000_000 {
        shared.world.run_one(SECOND).unwrap();
    }
    shared.world.now() - start
}

// ARQ-CC-8
#[test]
fn minutes_of_silence_then_a_burst() {
    // 84 ms on the wire.
    let after_seconds = burst_after(20 * SECOND, []);
    println!("after 20 s: {after_seconds:?}");
    assert!(after_seconds <= 150 * MS, "the estimate is kept for half a minute: {after_seconds:?}");
    let after_minutes = burst_after(180 * SECOND, []);
    println!("after 180 s: {after_minutes:?}");
    assert!(after_minutes >= 120 * MS, "an old estimate is not trusted: {after_minutes:?}");
    assert!(after_minutes <= 400 * MS, "start-up is quick: {after_minutes:?}");
}

// ARQ-CC-8
#[test]
fn minutes_of_small_messages_then_a_burst() {
    let small = Flow::reliable(6, 10_000, u64::MAX).every(20 * MS);
    let burst = burst_after(120 * SECOND, [small]);
    println!("after small messages: {burst:?}");
    assert!(burst <= 200 * MS, "{burst:?}");
}

// ARQ-CC-6
#[test]
fn a_policer_is_not_fed() {
    let path = Path { mbps: 20, ..PATH };
    let policer = Policer { rate_bps: path.rate_bps(), burst_bytes: 15_000 };
    let up = WireConfig { policer: Some(policer), ..path.down() };
    let (mut sent, mut lost) = (0, 0);
    // A run's share varies by half.
    for seed in 1..=8 {
        let mut shared = Shared::new(seed, up.clone(), path.down());
        let goodput = goodput_alone(&mut shared, TOLERANT, 5 * SECOND);
        let before = shared.client(0).connection().stats();
        shared.world.run_for(20 * SECOND).unwrap();
        let after = shared.client(0).connection().stats();
        sent += after.packets_sent - before.packets_sent;
        lost += after.packets_lost - before.packets_lost;
        println!("seed {seed}: {goodput:.1} Mb/s, {lost} of {sent} dropped so far");
        assert!(goodput >= 16.0, "seed {seed}: {goodput:.1} Mb/s");
    }
    assert!(lost * 12 <= sent, "{lost} of {sent} packets dropped");
}

// ARQ-CC-6
#[test]
fn a_policer_near_by_is_not_fed() {
    // The product of rate and round trip is less than a packet, and one in twenty is lost anyway.
    let path = Path { mbps: 4, round_trip: MS, loss: 0.05, ..PATH };
    let policer = Policer { rate_bps: path.rate_bps(), burst_bytes: 15_000 };
    let up = WireConfig { policer: Some(policer), bottleneck: None, ..path.down() };
    let mut shared = Shared::new(SEED, up, path.down());
    let goodput = goodput_alone(&mut shared, TOLERANT, 5 * SECOND);
    let stats = shared.client(0).connection().stats();
    let (sent, lost) = (stats.packets_sent, stats.packets_lost);
    println!("{goodput:.1} Mb/s, {lost} of {sent} dropped");
    assert!(goodput >= 3.0, "{goodput:.1} Mb/s");
    // A sender that does not learn of it loses 99 of 100; this one sends about twice what passes.
    assert!(lost * 3 <= sent * 2, "{lost} of {sent} packets dropped");
}

// ARQ-CC-6
#[test]
fn a_radio_that_loses_nearly_half_is_not_given_up() {
    for (loss, round_trip, least) in
        [(0.3, 20, 0.8), (0.4, 20, 0.75), (0.5, 2, 0.4), (0.5, 20, 0.25)]
    {
        let path = Path { mbps: 20, round_trip: round_trip * MS, loss, ..PATH };
        let run = |seed| goodput_alone(&mut path.shared_by(seed), TOLERANT, 5 * SECOND);
        let (median, worst) = of_eight(|seed| run(seed) / path.capacity());
        println!(
            "{loss} lost, {round_trip} ms: {median:.2} of what is possible, {worst:.2} at least"
        );
        assert!(median >= least, "{loss} lost, {round_trip} ms: {median:.2} of what is possible");
    }
}

// ARQ-CC-6
#[test]
fn compressed_acknowledgements_are_no_rate() {
    let down = WireConfig { clump: 15 * MS, ..PATH.down() };
    let queues = RefCell::new(Vec::new());
    let (median, worst) = of_eight(|seed| {
        let mut shared = Shared::new(seed, PATH.up(), down.clone());
        let goodput = goodput_alone(&mut shared, TOLERANT, 5 * SECOND);
        queues.borrow_mut().push(PATH.queue_time(shared.queue_percentile(50)));
        goodput
    });
    assert!(median >= 85.0 && worst >= 80.0, "{median:.1} Mb/s, the worst {worst:.1}");
    let mut queues = queues.into_inner();
    queues.sort_unstable();
    println!("queues p50 {queues:?}");
    assert!(queues[4] <= 10 * MS && queues[7] <= 20 * MS, "standing queues of {queues:?}");
}

// ARQ-CC-6
#[test]
fn steps_of_the_round_trip_are_followed() {
    // The least of the four is judged.
    let (median, worst) = of_eight(|seed| {
        let mut pair = arq_sim::Pair::new(
            &arq_sim::Scenario::new(seed)
                .config(Config { lane_window_bytes: 8 << 20, ..config(TOLERANT) })
                .client_sends(bulk().flows),
        );
        let over_steps = [20 * MS, 80 * MS, 10 * MS, 40 * MS].map(|round_trip| {
            let path = Path { round_trip, queue: 2.0, ..PATH };
            pair.world.lay_wire(pair.client, pair.server, path.up());
            pair.world.lay_wire(pair.server, pair.client, path.down());
            pair.world.run_for(4 * SECOND).unwrap();
            let before = pair.server_side().app.bytes_read();
            pair.world.run_for(3 * SECOND).unwrap();
            (pair.server_side().app.bytes_read() - before) as f64 * 8.0 / 3e6
        });
        println!("seed {seed}: {over_steps:.1?} Mb/s");
        over_steps.into_iter().fold(f64::INFINITY, f64::min)
    });
    assert!(median >= 85.0 && worst >= 80.0, "{median:.1} Mb/s, the worst {worst:.1}");
}

/// Mb/s that arrive in each second of `time` over a path that becomes `after` when a connection has got used to `before`.
fn over_a_change(seed: u64, before: Path, after: Path, time: u32) -> Vec<f64> {
    let config = Config { lane_window_bytes: 8 << 20, ..config(TOLERANT) };
    let scenario = arq_sim::Scenario::new(seed).config(config).client_sends(bulk().flows);
    let mut pair = arq_sim::Pair::new(&scenario);
    let mut read = 0;
    let mut run_over = |path: Path, seconds: u32| -> Vec<f64> {
        pair.world.lay_wire(pair.client, pair.server, path.up());
        pair.world.lay_wire(pair.server, pair.client, path.down());
        let each = (0..seconds).map(|_| {
            pair.world.run_for(SECOND).unwrap();
            let bytes = pair.server_side().app.bytes_read();
            (bytes - std::mem::replace(&mut read, bytes)) as f64 * 8.0 / 1e6
        });
        each.collect()
    };
    run_over(before, 4);
    run_over(after, time)
}

// ARQ-CC-6
#[test]
fn a_longer_path_that_loses_more_is_no_queue() {
    for (round_trip, loss) in [(80 * MS, 0.1), (80 * MS, 0.04), (200 * MS, 0.1), (40 * MS, 0.25)] {
        let after = Path { round_trip, loss, queue: 2.0, ..PATH };
        println!("{round_trip:?}, {loss} lost, shares of what is possible");
        let (median, worst) = of_eight(|seed| {
            let goodput = over_a_change(seed, PATH, after, 12);
            goodput[6..].iter().sum::<f64>() / 6.0 / after.capacity()
        });
        let failed = format!("{round_trip:?}, {loss} lost: {median:.2}, the worst {worst:.2}");
        assert!(median >= 0.6 && worst >= 0.5, "{failed}");
    }
}

// ARQ-CC-6
#[test]
fn a_path_that_becomes_ten_times_faster_is_used_within_seconds() {
    for (before, round_trip, loss, second) in [
        (10, 20 * MS, 0.1, 3),
        (10, 60 * MS, 0.0, 4),
        (10, 60 * MS, 0.1, 5),
        (2, 100 * MS, 0.05, 10),
    ] {
        let after = Path { round_trip, loss, ..PATH };
        println!("{before} to {} Mb/s, {round_trip:?}, {loss} lost, shares", after.mbps);
        let (median, worst) = of_eight(|seed| {
            let goodput = over_a_change(seed, Path { mbps: before, ..after }, after, second);
            *goodput.last().unwrap() / after.capacity()
        });
        let failed = format!("{round_trip:?}, {loss} lost: {median:.2}, the worst {worst:.2}");
        assert!(median >= 0.75 && worst >= 0.2, "{failed}");
    }
}

// ARQ-CC-6
#[test]
fn to_see_the_least_round_trip_anew_costs_no_rate() {
    // Of a path that has become longer it must be measured, and a hundred milliseconds are many round trips.
    let before = Path { mbps: 500, round_trip: MS, queue: 4.0, ..PATH };
    let after = Path { round_trip: 4 * MS, ..before };
    // The least of ten seconds, as a share: it is measured each five.
    let (median, worst) = of_eight(|seed| {
        let goodput = over_a_change(seed, before, after, 11);
        goodput[1..].iter().copied().fold(f64::INFINITY, f64::min) / after.capacity()
    });
    assert!(median >= 0.6 && worst >= 0.5, "{median:.2}, the worst {worst:.2}");
}

// ARQ-CC-6
#[test]
fn who_starts_beside_a_flow_that_keeps_the_queue_full_does_not_drain_it_for_ever() {
    for queue in [1.0, 5.0] {
        let path = Path { mbps: 20, queue, ..PATH };
        let mut shared = path.shared();
        shared.join(config(CongestionConfig::Cubic), bulk());
        shared.join(config(TOLERANT), bulk());
        let seconds: Vec<f64> = (0..10).map(|_| shared.goodput(SECOND).unwrap()[1]).collect();
        println!("queue of {queue}: {seconds:.1?} Mb/s");
        let least = seconds[2..].iter().copied().fold(f64::INFINITY, f64::min);
        assert!(least >= 0.1 * path.capacity(), "queue of {queue}: {seconds:.1?} Mb/s");
    }
}

// ARQ-CC-6
#[test]
fn start_up_on_a_thin_path_keeps_to_what_was_measured() {
    // A beacon beside bulk, at 250 kbit/s with a queue of ten seconds.
    let beacon = Flow::reliable(0, 100, u64::MAX).every(100 * MS);
    let scenario = arq_sim::Scenario::new(SEED).config(config(TOLERANT));
    let mut pair = arq_sim::Pair::new(&scenario.client_sends([beacon, bulk().flows.remove(0)]));
    let thin = Bottleneck { rate_bps: 250_000, queue_bytes: 312_500 };
    let up = WireConfig { bottleneck: Some(thin), ..WireConfig::with_delay(10 * MS) };
    pair.world.lay_wire(pair.client, pair.server, up);
    pair.world.lay_wire(pair.server, pair.client, WireConfig::with_delay(10 * MS));
    let lane = arq_sim::lane(0, arq_proto::Reliability::Reliable);
    for second in 1..=12 {
        pair.world.run_for(SECOND).unwrap();
        let latencies = pair.server_side().app.inbox(lane).latencies.clone();
        let server = pair.accepted().unwrap();
        pair.world.with_conn(server, |_, _, app| app.forget_latencies());
        let latest = latencies.iter().max().copied().unwrap_or_default();
        let window = pair.client_side().connection().stats().window_bytes;
        println!("second {second}: latest of {} {latest:?}, window {window}", latencies.len());
        let is_timely = latencies.len() > 5 && latest <= 700 * MS;
        assert!(second < 8 || is_timely, "second {second}: {latest:?}");
    }
}

// ARQ-CC-6
#[test]
fn a_path_that_becomes_ten_times_slower_is_followed_before_its_queue_fills() {
    // A beacon beside bulk, and a queue that holds two seconds of the slow path.
    let beacon = Flow::reliable(0, 100, u64::MAX).every(20 * MS);
    let scenario = arq_sim::Scenario::new(SEED).config(config(TOLERANT));
    let mut pair = arq_sim::Pair::new(&scenario.client_sends([beacon, bulk().flows.remove(0)]));
    let lane = arq_sim::lane(0, arq_proto::Reliability::Reliable);
    for (mbps, queue) in [(100, 10.0), (10, 100.0), (100, 10.0)] {
        let path = Path { mbps, queue, ..PATH };
        pair.world.lay_wire(pair.client, pair.server, path.up());
        pair.world.lay_wire(pair.server, pair.client, path.down());
        for second in 1..=6 {
            pair.world.run_for(SECOND).unwrap();
            let mut latencies = pair.server_side().app.inbox(lane).latencies.clone();
            let server = pair.accepted().unwrap();
            pair.world.with_conn(server, |_, _, app| app.forget_latencies());
            latencies.sort();
            let p90 = latencies[latencies.len() * 9 / 10];
            let window = pair.client_side().connection().stats().window_bytes;
            println!("{mbps} Mb/s, second {second}: p90 {p90:?}, window {window}");
            let most = if second < 4 { 700 * MS } else { 50 * MS };
            assert!(p90 <= most, "{mbps} Mb/s, second {second}: {p90:?}");
        }
    }
}

// ARQ-CC-6
#[test]
fn jitter_that_keeps_the_order_is_no_queue() {
    // Each packet waits for the one before it, so the round trip grows with the rate as if there were a queue, and
    // all that is lost seems lost in it. Some 300 kB/s want to pass.
    for seed in [1, 5, 6, 7] {
        let scenario = arq_sim::Scenario::new(seed).config(config(TOLERANT)).client_sends([
            Flow::reliable(0, 200, u64::MAX).every(20 * MS),
            Flow::reliable(5, 10_000, u64::MAX).every(100 * MS),
            Flow::reliable(7, 65_535, u64::MAX).every(SECOND),
            Flow::best_effort(3, 3_000, u64::MAX).every(30 * MS),
        ]);
        let mut pair = arq_sim::Pair::new(&scenario);
        for loss in [0.02, 0.21, 0.05, 0.12] {
            let path = Path { round_trip: 34 * MS, loss, ..PATH };
            let jittery = || WireConfig { jitter: 7 * MS, jitter_in_order: true, ..path.down() };
            pair.world.lay_wire(pair.client, pair.server, jittery());
            pair.world.lay_wire(pair.server, pair.client, jittery());
            let rates = (0..200).map(|_| {
                pair.world.run_for(100 * MS).unwrap();
                pair.client_side().connection().stats().pacing_bytes_per_sec
            });
            let least = rates.min().unwrap();
            println!("seed {seed}, {loss} lost: at least {least} B/s");
            assert!(least >= 400_000, "seed {seed}, {loss} lost: {least} B/s");
        }
    }
}

// ARQ-CC-6
#[test]
fn a_thin_stream_over_jitter_is_not_slowed_down() {
    // 16 kB/s over a radio that delays and loses at random: to send less would lessen neither.
    for jitter_in_order in [false, true] {
        for seed in 1..=16 {
            let flow = Flow::reliable(5, 400, 1_000).every(25 * MS);
            let scenario =
                arq_sim::Scenario::new(seed).config(config(TOLERANT)).client_sends([flow]);
            let mut pair = arq_sim::Pair::new(&scenario);
            let (jitter, loss) = (60 * MS, Loss::Random(0.167));
            let radio =
                || WireConfig { jitter, jitter_in_order, loss, ..WireConfig::with_delay(20 * MS) };
            pair.world.lay_wire(pair.client, pair.server, radio());
            pair.world.lay_wire(pair.server, pair.client, radio());
            pair.world.run_for(30 * SECOND).unwrap();
            let lane = arq_sim::lane(5, arq_proto::Reliability::Reliable);
            let mut latencies = pair.server_side().app.inbox(lane).latencies.clone();
            assert_eq!(latencies.len(), 1_000, "seed {seed}, in order: {jitter_in_order}");
            latencies.sort();
            let (p50, p99) = (latencies[500], latencies[990]);
            println!("seed {seed}, in order: {jitter_in_order}: p50 {p50:?}, p99 {p99:?}");
            assert!(p50 <= 150 * MS, "seed {seed}, in order: {jitter_in_order}: p50 {p50:?}");
        }
    }
}

// ARQ-CC-6
#[test]
fn thin_streams_keep_their_pace_where_the_path_grows_longer_at_once() {
    // A vehicle leaves its cable: the least round trip is the cable's for seconds, so each round has a queue, and what the
    // step or the radio loses seems lost in it. And no train of such a stream was long enough to show a rate before.
    for (longest, loss) in [(8_000, 0.0), (2_000, 0.1)] {
        for (delay, seed) in
            [1, 2, 30].into_iter().flat_map(|ms| (1..=20).map(move |n| (ms * MS, n)))
        {
            let sizes = arq_sim::Sizes::Between(9, longest);
            let flow = Flow { sizes, ..Flow::reliable(5, 1, 100) }.every(5 * MS);
            let scenario = arq_sim::Scenario::new(seed).config(config(TOLERANT)).both_send([flow]);
            let mut pair = arq_sim::Pair::new(&scenario.wire(WireConfig::with_delay(MS / 10)));
            pair.world.run_for(2 * MS * seed as u32).unwrap();
            let radio = || WireConfig { loss: Loss::Random(loss), ..WireConfig::with_delay(delay) };
            pair.world.lay_wire(pair.client, pair.server, radio());
            pair.world.lay_wire(pair.server, pair.client, radio());
            let case = format!("{delay:?}, {loss} lost, messages of {longest} bytes, seed {seed}");
            let time = pair.run(10 * SECOND, arq_sim::Pair::all_delivered).expect(&case);
            println!("{case}: {time:?}");
            assert!(time <= 2 * SECOND, "{case}: {time:?}");
        }
    }
}

/// The latest message of four streams whose path is a cable for five seconds, and then a radio for ten.
fn latest_off_the_cable(seed: u64, radio: &WireConfig) -> Duration {
    let stream = |priority, longest, interval: Duration| {
        let sizes = arq_sim::Sizes::Between(1, longest);
        let messages = (15 * SECOND).div_duration_f64(interval) as u64;
        Flow { sizes, ..Flow::reliable(priority, 1, messages) }.every(interval)
    };
    let images = Flow::best_effort(3, 3_000, 750).every(20 * MS);
    let streams =
        [stream(1, 200, 10 * MS), images, stream(5, 40_000, 50 * MS), stream(7, 64_000, 250 * MS)];
    let scenario = arq_sim::Scenario::new(seed).config(config(TOLERANT)).both_send(streams);
    let mut pair = arq_sim::Pair::new(&scenario.wire(WireConfig::with_delay(MS / 10)));
    pair.world.run_for(5 * SECOND).unwrap();
    pair.world.lay_wire(pair.client, pair.server, radio.clone());
    pair.world.lay_wire(pair.server, pair.client, radio.clone());
    pair.run(60 * SECOND, arq_sim::Pair::all_delivered).unwrap();
    let app = &pair.server_side().app;
    let latencies = [1, 5, 7].into_iter().flat_map(|priority| {
        &app.inbox(arq_sim::lane(priority, arq_proto::Reliability::Reliable)).latencies
    });
    latencies.max().copied().unwrap()
}

// ARQ-CC-6
#[test]
fn all_streams_of_a_vehicle_that_leaves_its_cable_go_on() {
    // The least round trip stays the cable's, so all looks like a queue: the rate, or the window, sinks below what the
    // streams need, and the least urgent of them wait.
    let radio = |delay, jitter, loss| WireConfig { jitter, loss, ..WireConfig::with_delay(delay) };
    let fades = Loss::Bursts { good_packets: 27.0, bad_packets: 3.0, loss_in_bad: 1.0 };
    for radio in [
        radio(31 * MS, 8 * MS, fades),
        radio(60 * MS, 80 * MS, Loss::Random(0.2)),
        radio(MS, 2 * MS, Loss::Random(0.25)),
    ] {
        for seed in 0..=7 {
            let latest = latest_off_the_cable(seed, &radio);
            println!("{:?} + {:?}, seed {seed}: {latest:?}", radio.delay, radio.jitter);
            assert!(latest <= 2 * SECOND, "{:?}, seed {seed}: {latest:?}", radio.delay);
        }
    }
}

// ARQ-CC-6
#[test]
fn a_product_below_four_packets_is_enough() {
    for loss in [0.0, 0.05, 0.25] {
        let path = Path { mbps: 6, round_trip: 5 * MS, queue: 8.0, loss };
        let mut shared = path.shared();
        let goodput = goodput_alone(&mut shared, TOLERANT, 5 * SECOND);
        println!("loss {loss}: {goodput:.2} Mb/s");
        assert!(goodput >= 0.8 * path.capacity(), "loss {loss}: {goodput:.2} Mb/s");
    }
}

// ARQ-CC-6
#[test]
fn a_quarter_of_the_acknowledgements_may_be_lost() {
    let down = Path { loss: 0.25, ..PATH }.down();
    let mut shared = Shared::new(SEED, PATH.up(), down);
    let goodput = goodput_alone(&mut shared, TOLERANT, 3 * SECOND);
    println!("{goodput:.1} Mb/s");
    assert!(goodput >= 90.0, "{goodput:.1} Mb/s");
}

/// All processes of the machine sleep now and then, while one of them sends 5 MB/s.
struct Starved {
    path: WireConfig,
    /// On the mean; at most twice as long.
    awake: Duration,
    asleep: Duration,
    /// 100 kB each, every 20 ms.
    publications: u64,
}

impl Starved {
    /// Asleep two fifths of the time, over a path that loses 5 %, for ten seconds.
    fn mostly(asleep: Duration, path: WireConfig) -> Self {
        let path = WireConfig { loss: Loss::Random(0.05), ..path };
        Self { path, awake: asleep * 5 / 4, asleep, publications: 500 }
    }

    /// Returns the statistics of the sender, and the latency that 99 % of its messages keep.
    fn run(&self, seed: u64) -> (arq_proto::Stats, Duration) {
        let flow = Flow::reliable(5, 50_000, self.publications).every(20 * MS);
        let scenario =
            arq_sim::Scenario::new(seed).wire(self.path.clone()).config(config(TOLERANT));
        let mut pair = arq_sim::Pair::new(&scenario.client_sends([flow.clone(), flow]));
        pair.run_to_connected(SECOND).unwrap();
        let mut rng = fastrand::Rng::with_seed(seed);
        while !pair.all_delivered() {
            // Of 40 runs each, the slowest takes 23 s in packets of 1,200 bytes and 24 s with the defaults; the mean is
            // 18.0 and 17.6 s.
            assert!(pair.world.now() < 30 * SECOND, "seed {seed}, {:?}: too slow", self.asleep);
            pair.world.run_for(self.awake.mul_f64(2.0 * rng.f64())).unwrap();
            let time = self.asleep.mul_f64(2.0 * rng.f64());
            pair.world.freeze(pair.client, time);
            pair.world.freeze(pair.server, time);
        }
        let lane = arq_sim::lane(5, arq_proto::Reliability::Reliable);
        let mut latencies = pair.server_side().app.inbox(lane).latencies.clone();
        latencies.sort();
        (pair.client_side().connection().stats(), latencies[latencies.len() * 99 / 100])
    }
}

// ARQ-CC-6
#[test]
fn a_peer_that_sleeps_at_first_does_not_end_start_up() {
    let path = WireConfig { loss: Loss::Random(0.25), ..WireConfig::with_delay(10 * MS) };
    let starved = Starved { path, awake: 20 * MS, asleep: 6 * MS, publications: 50 };
    // One of these was 0.9 s late.
    for seed in 0..48 {
        let (_, p99) = starved.run(seed);
        println!("seed {seed}: p99 {p99:?}");
        assert!(p99 <= SECOND / 2, "seed {seed}: p99 {p99:?}");
    }
}

// ARQ-CC-10
#[test]
fn a_host_that_sleeps_most_of_the_time_keeps_its_rate() {
    // Chance decides how late the last hundredth is: single runs lie between 0.1 and 13 s; their median is
    // 1.1 s and 0.3 s.
    for asleep in [20 * MS, 40 * MS] {
        let run = |seed| Starved::mostly(asleep, WireConfig::with_delay(10 * MS)).run(seed).1;
        let mut p99s: Vec<_> = (0..45).map(run).collect();
        p99s.sort_unstable();
        println!("{asleep:?} asleep: p99 {p99s:?}");
        assert!(p99s[22] <= 3 * SECOND / 2, "{asleep:?} asleep: p99 {p99s:?}");
    }
}

// ARQ-CC-10
#[test]
fn a_host_that_sleeps_most_of_the_time_does_not_overrate_the_path() {
    // The path goes on while the host sleeps: what it carries is little more than what is sent.
    let path = Path { mbps: 60, queue: 1.0, ..PATH };
    let starved = Starved::mostly(20 * MS, path.up());
    let mut all_lost: Vec<_> = (0..5)
        .map(|seed| {
            let (stats, _) = starved.run(seed);
            let (sent, lost) = (stats.packets_sent, stats.packets_lost);
            println!("seed {seed}: {lost} of {sent} lost");
            lost as f64 / sent as f64
        })
        .collect();
    // Of 24 runs half lose 7 %, the worst one 10 or 11 %.
    all_lost.sort_by(f64::total_cmp);
    assert!(all_lost[2] <= 0.09, "{all_lost:?} lost");
}

// ARQ-CC-3, ARQ-CC-8
#[test]
fn after_a_blackout_the_rate_is_back_at_once() {
    let least = [(TOLERANT, 85.0), (CongestionConfig::Cubic, 85.0), (CongestionConfig::Aimd, 70.0)];
    for (congestion, least) in least {
        let blackouts = vec![5 * SECOND..13 * SECOND];
        let up = WireConfig { blackouts: blackouts.clone(), ..PATH.up() };
        let down = WireConfig { blackouts, ..PATH.down() };
        let mut shared = Shared::new(SEED, up, down);
        shared.join(config(congestion), bulk());
        shared.world.run_for(12 * SECOND).unwrap();
        let stats = shared.client(0).connection().stats();
        assert!(stats.window_bytes <= 4 * 1_200, "silence leaves the least window");
        shared.world.run_for(3 * SECOND / 2).unwrap();
        let goodput = shared.goodput(SECOND).unwrap()[0];
        println!("{congestion:?}: {goodput:.1} Mb/s");
        assert!(goodput >= least, "{congestion:?}: {goodput:.1} Mb/s from half a second after it");
    }
}
