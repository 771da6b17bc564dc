// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Is most of the loss made by our own rate, though nothing waits anywhere?
//!
//! A policer drops what exceeds its rate, and no round trip grows: whoever excuses loss may feed it without end. A circuit
//! breaker (RFC 8083: what is sent against what arrives) opens then. But a radio, a path that drops long packets, and a
//! host that loses batches have heavy loss as well, and there less must not be sent. So the sender makes a controlled
//! experiment:
//!
//! | trial | rate | goes on if |
//! |---|---|---|
//! | watching | the controller's | a slot loses 55 %, or two in a row two fifths |
//! | less | half of what arrived | of what was lost before a third is lost at most |
//! | as before | the controller's, three times that at most | heavy loss is back |
//! | limited | what less was sent with, and more step by step | |
//!
//! What changes once, as a fade that ends, or chunks that become shorter, does not come back with the rate. No packets leave
//! in batches meanwhile: only the rate differs. What no acknowledgement tells of does not count, nor a slot that loses
//! longer packets than arrive: those are outages, and paths with a smaller MTU. After an experiment that finds nothing the
//! next one waits for a second, and twice as long each time. Under a limit no redundancy leaves.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::SentSample;
use crate::{
    batches::Burst,
    chance::share,
    sent::Settled,
    units::{PacketNumber, Rate},
};

/// Packets of a slot.
const SLOT_PACKETS: u64 = 24;
/// At the lesser rate, where they take longest: a medium that loses half lost a third of that once in five hundred times.
const LESS_PACKETS: u64 = 16;
/// With a limit: a medium that loses a twentieth seldom loses more than a little of so many.
const LIMITED_PACKETS: u64 = 48;
/// Round trips of a slot (BBRv1's `lt_intvl_min_rtts`).
const SLOT_ROUNDS: u32 = 4;
/// And its least time: a full bucket is more than what passes in less.
const SLOT_TIME: Duration = Duration::from_millis(100);
/// Packets that the pacer lets out at once when the rate falls: they left at the old terms.
const UNPACED_PACKETS: u64 = 10;
/// Slots that may await their acknowledgements.
const MAX_SLOTS: usize = 8;
/// The share lost that is heavy: more than `bbr` excuses, and twice BBRv1's `lt_loss_thresh`, since a fifth is common on
/// radios.
const HEAVY: f64 = 0.4;
/// Slots in a row: an overshoot of start-up is shorter. One that loses this is enough.
const HEAVY_SLOTS: u8 = 2;
const HEAVIEST: f64 = 0.55;
/// The share lost of the lesser rate, as a share of what was lost before, that our rate explains.
const GONE: f64 = 1.0 / 3.0;
/// Heavy loss is back (BBRv1's `lt_loss_thresh`), if the lesser rate has lost half as much at most.
const BACK: f64 = 0.2;
/// The lesser rate, as a share of what arrived, which at first includes a full bucket; and the former one, as a multiple of
/// that at most.
const LESS: f64 = 0.5;
const AS_BEFORE: f64 = 3.0;
/// Less than this share of what was sent, or there is nothing to compare.
const LEAST_CUT: f64 = 0.6;
/// What is lost is so many times as long as what arrives where the path drops long packets.
const LONGER: f64 = 1.5;
/// A limit grows by this each slot that loses little. If one loses more it shrinks by it, or to what arrived.
const STEP: f64 = 1.25;
const LITTLE: f64 = 0.12;
/// More than this is not what growth by a step explains.
const MUCH: f64 = 0.25;
/// Slots without growth after one that lost more.
const PAUSE_SLOTS: u8 = 8;
/// A packet each so often may leave whatever is lost: a thin stream is no danger to others, and needs its redundancy.
const LEAST_INTERVAL: Duration = Duration::from_millis(50);
/// Between experiments that find nothing: doubled each time.
const REST: Duration = Duration::from_secs(1);
const MAX_REST: Duration = Duration::from_secs(300);
/// What a trial has held back leaves within this.
const CATCH_UP: Duration = Duration::from_secs(1);
/// A round trip that was not measured yet.
const UNKNOWN_RTT: Duration = Duration::from_millis(100);

/// Packets that left at the same terms.
#[derive(Debug, Clone, Copy)]
struct Slot {
    first: PacketNumber,
    last: PacketNumber,
    began: Instant,
    ended: Option<Instant>,
    packets: u64,
    bytes: u64,
    arrived: Settling,
    lost: Settling,
}

/// Packets of one fate.
#[derive(Debug, Clone, Copy, Default)]
struct Settling {
    bytes: u64,
    /// Those that left by themselves.
    singles: u64,
    single_bytes: u64,
}

impl Settling {
    fn mean_bytes(self) -> f64 {
        self.single_bytes as f64 / self.singles.max(1) as f64
    }
}

impl Slot {
    /// The share lost of packets that left by themselves, if there were enough.
    fn lost_share(&self) -> Option<f64> {
        let singles = self.lost.singles + self.arrived.singles;
        let tells = 2 * singles >= SLOT_PACKETS;
        tells.then(|| share(self.lost.singles as f64, singles as f64))
    }

    /// Whether it is the long packets that are lost.
    fn loses_by_size(&self) -> bool {
        self.lost.mean_bytes() > LONGER * self.arrived.mean_bytes()
    }

    /// The rates of sending and arriving.
    fn rates(&self) -> Option<(Rate, Rate)> {
        let time = self.ended?.saturating_duration_since(self.began);
        Some((Rate::over(self.bytes, time)?, Rate::over(self.arrived.bytes, time)?))
    }
}

/// What is being tried.
#[derive(Debug, Clone, Copy)]
enum Trial {
    Watching { heavy: u8 },
    Less { before: f64, as_before: Rate },
    AsBefore { less_lost: f64, less: Rate },
    Limited { pause: u8, heavy: u8 },
}

/// The circuit breaker of a sender.
#[derive(Debug, Clone)]
pub(super) struct Breaker {
    trial: Trial,
    limit: Option<Rate>,
    slots: VecDeque<Slot>,
    /// Packets still to leave that belong to no slot.
    unpaced: u64,
    rest: Duration,
    rest_until: Option<Instant>,
    /// What a trial has held back leaves until then, or until nothing waits.
    behind_until: Option<Instant>,
    smoothed_rtt: Duration,
    mtu: u64,
    opened: u64,
}

impl Breaker {
    pub(super) const fn new(mtu: u16) -> Self {
        Self {
            trial: Trial::Watching { heavy: 0 },
            limit: None,
            slots: VecDeque::new(),
            unpaced: 0,
            rest: REST,
            rest_until: None,
            behind_until: None,
            smoothed_rtt: UNKNOWN_RTT,
            mtu: mtu as u64,
            opened: 0,
        }
    }

    /// What is sent at most.
    pub(super) const fn limit(&self) -> Option<Rate> {
        self.limit
    }

    /// Whether this packet, or what waits behind it, was held back by a trial: its rate says nothing about the path.
    pub(super) fn holds_back(&mut self, now: Instant, app_limited: bool) -> bool {
        self.behind_until = self.behind_until.filter(|&until| !app_limited && now < until);
        self.is_behind()
    }

    /// Whether what is acknowledged now may have been held back.
    pub(super) const fn is_behind(&self) -> bool {
        self.limit.is_some() || self.behind_until.is_some()
    }

    /// Whether rates are compared.
    pub(super) const fn tries_rates(&self) -> bool {
        matches!(self.trial, Trial::Less { .. } | Trial::AsBefore { .. })
    }

    /// Whether our rate was found to make the loss.
    pub(super) const fn is_limited(&self) -> bool {
        matches!(self.trial, Trial::Limited { .. })
    }

    /// Times that our rate was found to make the loss.
    pub(super) const fn times_opened(&self) -> u64 {
        self.opened
    }

    pub(super) fn on_rtt(&mut self, smoothed: Duration) {
        self.smoothed_rtt = smoothed;
    }

    pub(super) fn on_sent(&mut self, sample: &SentSample) {
        let now = sample.now;
        let least_packets = match self.trial {
            Trial::Less { .. } => LESS_PACKETS,
            Trial::Limited { .. } => LIMITED_PACKETS,
            Trial::Watching { .. } | Trial::AsBefore { .. } => SLOT_PACKETS,
        };
        let least_time = SLOT_TIME.max(SLOT_ROUNDS * self.smoothed_rtt);
        if let Some(slot) = self.slots.back_mut().filter(|slot| slot.ended.is_none()) {
            let lasted = now.saturating_duration_since(slot.began);
            if slot.packets >= least_packets && lasted >= least_time {
                slot.ended = Some(now);
            }
        }
        if self.unpaced > 0 {
            self.unpaced -= 1;
            return;
        }
        if self.slots.back().is_none_or(|slot| slot.ended.is_some()) {
            if self.slots.len() == MAX_SLOTS {
                self.slots.pop_front();
            }
            self.slots.push_back(Slot {
                first: sample.number,
                last: sample.number,
                began: now,
                ended: None,
                packets: 0,
                bytes: 0,
                arrived: Settling::default(),
                lost: Settling::default(),
            });
        }
        if let Some(slot) = self.slots.back_mut() {
            slot.last = sample.number;
            slot.packets += 1;
            slot.bytes += sample.bytes;
        }
    }

    /// What became of the next packet is final. `wanted`: the rate of the controller.
    pub(super) fn on_settled(&mut self, now: Instant, packet: &Settled, wanted: Option<Rate>) {
        // In the order of sending: of a slot before this packet nothing more is to come.
        while let Some(slot) = self.slots.front().copied() {
            let is_settled = slot.ended.is_some() && slot.last < packet.number;
            if !is_settled {
                break;
            }
            self.slots.pop_front();
            self.judge(now, &slot, wanted);
        }
        let Some(slot) = self.slots.front_mut().filter(|slot| slot.first <= packet.number) else {
            return;
        };
        // A peer that stands still, or an outage.
        if packet.by_time_out {
            return;
        }
        let bytes = u64::from(packet.bytes);
        let of_fate = if packet.lost { &mut slot.lost } else { &mut slot.arrived };
        of_fate.bytes += bytes;
        // Where hosts lose batches, single packets tell what the path loses.
        if matches!(packet.burst, Burst::Single | Burst::Apart(_)) {
            of_fate.singles += 1;
            of_fate.single_bytes += bytes;
        }
    }

    /// Nothing that was seen holds any more.
    pub(super) fn forget(&mut self) {
        *self = Self { opened: self.opened, ..Self::new(self.mtu as u16) };
    }

    /// Nothing arrives, whatever the rate.
    pub(super) fn on_silence(&mut self) {
        if self.tries_rates() {
            self.enter(Trial::Watching { heavy: 0 }, None);
        }
    }

    /// The size of packets changes: an experiment under way says nothing.
    pub(super) fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu.into();
        if self.tries_rates() {
            self.enter(Trial::Watching { heavy: 0 }, None);
        }
    }

    fn least_rate(&self) -> Rate {
        Rate::over(self.mtu, LEAST_INTERVAL).unwrap_or_default()
    }

    fn enter(&mut self, trial: Trial, limit: Option<Rate>) {
        self.slots.clear();
        let falls = limit.is_some_and(|limit| self.limit.is_none_or(|before| limit < before));
        self.unpaced = if falls { UNPACED_PACKETS } else { 0 };
        self.trial = trial;
        self.limit = limit;
    }

    fn judge(&mut self, now: Instant, slot: &Slot, wanted: Option<Rate>) {
        let (Some((sent, arrived)), Some(lost)) = (slot.rates(), slot.lost_share()) else { return };
        match self.trial {
            Trial::Watching { heavy } => {
                let heavy = match lost {
                    _ if slot.loses_by_size() => 0,
                    HEAVIEST.. => HEAVY_SLOTS,
                    HEAVY.. => heavy.saturating_add(1),
                    _ => 0,
                };
                self.trial = Trial::Watching { heavy };
                let rests = self.rest_until.is_some_and(|until| now < until);
                let less = arrived.mul_f64(LESS).max(self.least_rate());
                if heavy >= HEAVY_SLOTS && !rests && less <= sent.mul_f64(LEAST_CUT) {
                    let as_before = less.mul_f64(AS_BEFORE).min(sent);
                    self.enter(Trial::Less { before: lost, as_before }, Some(less));
                }
            }
            Trial::Less { before, as_before } => match self.limit {
                Some(less) if lost <= GONE * before => {
                    self.enter(Trial::AsBefore { less_lost: lost, less }, Some(as_before));
                }
                _ => self.close(now),
            },
            Trial::AsBefore { less_lost, less } if lost >= BACK && less_lost <= lost / 2.0 => {
                self.opened += 1;
                self.rest = REST;
                tracing::info!(?less, lost, "our rate makes the loss: a policer, or a tiny queue");
                self.enter(Trial::Limited { pause: 0, heavy: 0 }, Some(less));
            }
            Trial::AsBefore { .. } => self.close(now),
            Trial::Limited { pause, heavy } => {
                self.adjust(now, (lost, arrived), (pause, heavy), wanted)
            }
        }
    }

    /// The experiment found nothing, or what it found holds no more.
    fn close(&mut self, now: Instant) {
        self.enter(Trial::Watching { heavy: 0 }, None);
        self.rest_until = Some(now + self.rest);
        self.behind_until = Some(now + CATCH_UP);
        self.rest = (2 * self.rest).min(MAX_REST);
    }

    fn adjust(
        &mut self,
        now: Instant,
        (lost, arrived): (f64, Rate),
        (pause, heavy): (u8, u8),
        wanted: Option<Rate>,
    ) {
        let Some(limit) = self.limit else { return };
        let least = self.least_rate();
        let heavy = if lost >= MUCH && limit > least { heavy + 1 } else { 0 };
        if heavy >= HEAVY_SLOTS {
            self.close(now);
        } else if lost > LITTLE {
            let less = limit.mul_f64(STEP.recip()).min(arrived).max(least);
            self.enter(Trial::Limited { pause: PAUSE_SLOTS, heavy }, Some(less));
        } else if pause > 0 {
            self.trial = Trial::Limited { pause: pause - 1, heavy };
        } else {
            let more = limit.mul_f64(STEP);
            if wanted.is_some_and(|wanted| more >= wanted) {
                self.enter(Trial::Watching { heavy: 0 }, None);
            } else {
                self.enter(Trial::Limited { pause, heavy }, Some(more));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;
    use crate::path_mtu::Side;

    const MTU: u16 = 1_200;
    const RTT: Duration = Duration::from_millis(40);
    const SECOND: Duration = Duration::from_secs(1);
    /// What the controller wants to send, bytes per second.
    const WANTED: u64 = 1_000_000;

    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn t0() -> Instant {
        Instant::now()
    }

    /// A sender that always has something, and sends what the breaker lets it.
    struct Sender {
        breaker: Breaker,
        start: Instant,
        now: Instant,
        next: u64,
        in_flight: VecDeque<(Instant, PacketNumber, bool)>,
    }

    impl Sender {
        fn new() -> Self {
            let (now, mut breaker) = (t0(), Breaker::new(MTU));
            breaker.on_rtt(RTT);
            Self { breaker, start: now, now, next: 0, in_flight: VecDeque::new() }
        }

        /// Sends for so long over a path that tells which packets it loses, by the time since the start.
        fn run(&mut self, time: Duration, mut loses: impl FnMut(Duration) -> bool) {
            let end = self.now + time;
            let wanted = Rate::from_bytes_per_second(WANTED);
            while self.now < end {
                while self.in_flight.front().is_some_and(|&(at, ..)| at <= self.now) {
                    let Some((at, number, lost)) = self.in_flight.pop_front() else { break };
                    let (bytes, burst, side) = (MTU.into(), Burst::Single, Side::Neither);
                    let by_time_out = false;
                    let packet = Settled { number, bytes, burst, side, lost, by_time_out };
                    self.breaker.on_settled(at, &packet, Some(wanted));
                }
                let (now, number, bytes) = (self.now, PacketNumber(self.next), MTU.into());
                self.breaker.on_sent(&SentSample { now, number, bytes, app_limited: false });
                self.in_flight.push_back((now + RTT, number, loses(now - self.start)));
                self.next += 1;
                let rate = self.breaker.limit().unwrap_or(wanted).min(wanted);
                self.now += rate.time_for(bytes);
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

    // ARQ-CC-12
    #[test]
    fn a_policer_is_sent_what_it_passes_and_little_more() {
        for rate in [30_000, 100_000, 400_000] {
            let mut sender = Sender::new();
            let mut policer = policer(rate);
            sender.run(20 * SECOND, &mut policer);
            let (mut sent, mut lost) = (0, 0);
            sender.run(20 * SECOND, |at| {
                let is_lost = policer(at);
                (sent, lost) = (sent + 1, lost + u64::from(is_lost));
                is_lost
            });
            let passed = (sent - lost) * u64::from(MTU) / 20;
            println!("{rate}: {lost} of {sent} lost, {passed} passed");
            assert_eq!(sender.breaker.times_opened(), 1, "{rate}");
            assert!(lost * 10 <= sent, "{rate}: {lost} of {sent} lost");
            assert!(passed * 10 >= rate * 8, "{rate}: {passed} passed");
        }
    }

    // ARQ-CC-12
    #[test]
    fn a_policer_that_goes_is_forgotten() {
        let mut sender = Sender::new();
        sender.run(20 * SECOND, policer(100_000));
        assert!(sender.limit() < 150_000, "{}", sender.limit());
        sender.run(20 * SECOND, |_| false);
        assert_eq!(sender.limit(), WANTED);
    }

    // ARQ-CC-12
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
            println!("{loss}: opened {opened} times in 20 minutes");
            let share = sent as f64 / (20.0 * 60.0 * WANTED as f64);
            assert!(opened <= 4 && share >= 0.9, "{loss}: opened {opened}, sent {share}");
        }
    }

    // ARQ-CC-12
    #[test]
    fn heavy_loss_that_ends_by_itself_is_not_our_rates() {
        for ends in (100..3_000).step_by(37).map(Duration::from_millis) {
            let (mut sender, mut rng) = (Sender::new(), Rng::with_seed(1));
            sender.run(10 * SECOND, |at| at < ends && rng.f64() < 0.9);
            assert_eq!(sender.breaker.times_opened(), 0, "{ends:?}");
            assert_eq!(sender.limit(), WANTED, "{ends:?}");
        }
    }

    // ARQ-CC-12
    #[test]
    fn shorter_packets_end_an_experiment() {
        let mut sender = Sender::new();
        let mut policer = policer(100_000);
        while sender.breaker.limit().is_none() {
            sender.run(RTT, &mut policer);
        }
        sender.breaker.on_mtu(MTU / 2);
        assert_eq!(sender.limit(), WANTED);
    }

    // ARQ-CC-12
    #[test]
    fn twenty_packets_a_second_may_always_leave() {
        let mut sender = Sender::new();
        sender.run(30 * SECOND, |_| true);
        let before = sender.next;
        sender.run(10 * SECOND, |_| true);
        assert!(sender.next - before >= 200, "{}", sender.next - before);
    }
}
