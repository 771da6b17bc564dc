// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

use std::collections::VecDeque;

use fastrand::Rng;

use super::*;

const MTU: u16 = 1_200;
const RTT: Duration = Duration::from_millis(40);
const SECOND: Duration = Duration::from_secs(1);
/// What the controller wants to send, bytes per second.
const WANTED: u64 = 1_000_000;

/// A sender that always has something, and sends what the breaker lets it.
struct Sender {
    breaker: Breaker,
    start: Instant,
    now: Instant,
    next: u64,
    in_flight: VecDeque<(Instant, PacketNumber, bool)>,
    sent: u64,
    lost: u64,
}

impl Sender {
    fn new() -> Self {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let now = Instant::now();
        let breaker = Breaker::new(MTU, now);
        Self { breaker, start: now, now, next: 0, in_flight: VecDeque::new(), sent: 0, lost: 0 }
    }

    /// Sends for so long over a path that tells which packets it loses, by the time since the start.
    fn run(&mut self, time: Duration, mut loses: impl FnMut(Duration) -> bool) {
        (self.sent, self.lost) = (0, 0);
        let end = self.now + time;
        let wanted = Rate::from_bytes_per_second(WANTED);
        while self.now < end {
            let next = PacketNumber(self.next);
            let sending = Sending { smoothed_rtt: RTT, next, wanted };
            while self.in_flight.front().is_some_and(|&(at, ..)| at <= self.now) {
                let Some((at, number, lost)) = self.in_flight.pop_front() else { break };
                let bytes = MTU.into();
                if lost {
                    let (cause, burst) = (LossCause::Gap, Burst::Single);
                    self.breaker.on_lost(at, Lost { number, bytes, cause, burst }, sending);
                } else {
                    let arrived = Delivered { bytes, packets: 1, longest: bytes, largest: number };
                    self.breaker.on_ack(at, arrived, sending);
                }
            }
            let is_lost = loses(self.now - self.start);
            self.in_flight.push_back((self.now + RTT, next, is_lost));
            self.next += 1;
            self.sent += 1;
            self.lost += u64::from(is_lost);
            let rate = self.breaker.limit().unwrap_or(wanted).min(wanted);
            self.now += rate.time_for(MTU.into());
        }
    }

    fn limit(&self) -> u64 {
        self.breaker.limit().map_or(WANTED, Rate::bytes_per_second)
    }
}

/// Passes so many bytes per second and no more than 6 KB at once.
fn policer(rate: u64) -> impl FnMut(Duration) -> bool {
    let (mut tokens, mut at) = (6_000.0, Duration::ZERO);
    move |now| {
        tokens += (now - at).as_secs_f64() * rate as f64;
        (tokens, at) = (f64::min(tokens, 6_000.0), now);
        let passes = tokens >= MTU.into();
        tokens -= if passes { MTU.into() } else { 0.0 };
        !passes
    }
}

// ARQ-CC-13
#[test]
fn a_policer_is_sent_what_it_passes_and_little_more() {
    for rate in [30_000, 100_000, 400_000] {
        for medium in [0.0, 0.1] {
            let (mut sender, mut rng) = (Sender::new(), Rng::with_seed(1));
            let mut policer = policer(rate);
            let mut loses = |at| policer(at) || rng.f64() < medium;
            sender.run(20 * SECOND, &mut loses);
            sender.run(20 * SECOND, &mut loses);
            let (sent, lost) = (sender.sent, sender.lost);
            let passed = (sent - lost) * u64::from(MTU) / 20;
            println!("{rate}, {medium}: {lost} of {sent} lost, {passed} passed");
            assert_eq!(sender.breaker.times_opened(), 1, "{rate}, {medium}");
            assert!(lost as f64 <= (medium + 0.15) * sent as f64, "{rate}, {medium}: {lost}");
            assert!(passed as f64 >= 0.85 * (1.0 - medium) * rate as f64, "{rate}: {passed}");
        }
    }
}

// ARQ-CC-13
#[test]
fn a_policer_that_goes_is_forgotten() {
    let mut sender = Sender::new();
    sender.run(20 * SECOND, policer(100_000));
    assert!(sender.limit() < 250_000, "{}", sender.limit());
    sender.run(20 * SECOND, |_| false);
    assert_eq!(sender.limit(), WANTED);
}

// ARQ-CC-13
#[test]
fn a_medium_that_loses_much_is_not_sent_less_for_long() {
    for loss in [0.25, 0.35, 0.5, 0.7] {
        let (mut opened, mut sent) = (0, 0);
        for seed in 0..20 {
            let (mut sender, mut rng) = (Sender::new(), Rng::with_seed(seed));
            sender.run(60 * SECOND, |_| rng.f64() < loss);
            opened += sender.breaker.times_opened();
            sent += sender.next * u64::from(MTU);
        }
        let share = sent as f64 / (20.0 * 60.0 * WANTED as f64);
        println!("{loss}: opened {opened} times in 20 minutes, {share:.3} sent");
        assert!(share >= 0.9, "{loss}: opened {opened}, sent {share}");
    }
}

// ARQ-CC-13
#[test]
fn bursts_and_outages_open_it_seldom_and_not_for_long() {
    // One packet in ten is lost, twenty in a row; every four seconds nothing passes for 400 ms.
    let (mut opened, mut sent) = (0, 0);
    for seed in 0..20 {
        let (mut sender, mut rng) = (Sender::new(), Rng::with_seed(seed));
        let mut bad = false;
        sender.run(60 * SECOND, |at| {
            bad = if bad { rng.f64() >= 1.0 / 20.0 } else { rng.f64() < 1.0 / 180.0 };
            bad || at.as_millis() % 4_000 < 400
        });
        opened += sender.breaker.times_opened();
        sent += sender.next * u64::from(MTU);
    }
    let share = sent as f64 / (20.0 * 60.0 * WANTED as f64);
    println!("opened {opened} times in 20 minutes, {share:.3} sent");
    assert!(opened <= 20 && share >= 0.95, "opened {opened}, sent {share}");
}

// ARQ-CC-13
#[test]
fn heavy_loss_that_ends_by_itself_limits_for_seconds() {
    for ends in (100..3_000).step_by(97).map(Duration::from_millis) {
        let (mut sender, mut rng) = (Sender::new(), Rng::with_seed(1));
        sender.run(ends + 6 * SECOND, |at| at < ends && rng.f64() < 0.9);
        assert_eq!(sender.limit(), WANTED, "{ends:?}");
    }
}

// ARQ-CC-13
#[test]
fn shorter_packets_begin_anew() {
    let mut sender = Sender::new();
    let mut policer = policer(100_000);
    while sender.breaker.limit().is_none() {
        sender.run(RTT, &mut policer);
    }
    sender.breaker.on_mtu(MTU / 2);
    assert_eq!(sender.limit(), WANTED);
}

// ARQ-CC-13
#[test]
fn a_packet_each_round_trip_may_always_leave() {
    let mut sender = Sender::new();
    sender.run(SECOND, policer(100_000));
    assert!(sender.breaker.limit().is_some());
    sender.run(30 * SECOND, |_| true);
    sender.run(10 * SECOND, |_| true);
    assert!(sender.sent >= 200, "{}", sender.sent);
}

// ARQ-CC-13
#[test]
fn what_may_be_the_hosts_doing_or_the_lengths_spends_nothing() {
    for (burst, bytes) in [(Burst::Together(1), 1_200), (Burst::Single, 1_472)] {
        let mut sender = Sender::new();
        let wanted = Rate::from_bytes_per_second(WANTED);
        let sending = Sending { smoothed_rtt: RTT, next: PacketNumber(0), wanted };
        for number in 0..1_000 {
            sender.now += RTT;
            let arrived = Delivered {
                bytes: 1_200,
                packets: 1,
                longest: 1_200,
                largest: PacketNumber(number),
            };
            if number % 20 == 0 {
                sender.breaker.on_ack(sender.now, arrived, sending);
            }
            let (number, cause) = (PacketNumber(number), LossCause::Gap);
            sender.breaker.on_lost(sender.now, Lost { number, bytes, cause, burst }, sending);
        }
        assert_eq!(sender.breaker.limit(), None, "{burst:?}, {bytes}");
    }
}
