// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The loss-tolerant default: how fast can this path carry data, whatever it loses?
//!
//! After BBR (Cardwell et al., draft-ietf-ccwg-bbr): the rate follows from what is delivered, not
//! from what is lost, and the window is twice rate x least round trip. Three things differ, because
//! BBR's own estimate sinks where a fifth is lost, and BBRv3 backs off where 2 % are:
//!
//! - packets lost by the medium count as carried ([`loss`]), so that loss does not feed back into
//!   the rate; packets lost by congestion do not, and lower the rate;
//! - one rate sample per round ([`rounds`]), for whose end only start-up does not wait;
//! - the queue is drained after each probe, until it is gone.
//!
//! And a path that has become slower is not waited for: see [`slowdown`].
//!
//! An application that pauses, as most do on zenoh, keeps its estimate: see
//! [`path::MaxRate::raise_to`]. What it sends then may leave at once, as far as the path has shown to take
//! it: see [`burst`].
//!
//! The rules (ARQ-CC-6, ARQ-CC-8); their numbers are in [`tuning`]:
//!
//! - **Estimate.** A round lasts a round trip, some packets and [`tuning::HOST_DELAY`] at least. Its rate counts
//!   delivered bytes and those lost by the medium, over the longer of the sending and the acknowledging interval. The
//!   estimate is the maximum of two cycles of probing. While no probe follows a reduction, only delivered bytes count.
//! - **Queue.** A round shows a queue if its least round trip exceeds the least one known by more than a tenth, the
//!   delay of hosts and the jitter. Jitter is a multiple of the mean direction change of recent round-trip samples: a
//!   queue that fills and drains changes direction seldom.
//! - **Loss of the medium.** The median of the last shares lost in rounds without a queue, up to [`tuning::MAX_BASE`].
//!   Rounds with a queue may only lower it.
//! - **Reduction.** The rate falls to [`tuning::BACK_OFF`] when a round with a queue loses more than the medium,
//!   beyond tolerance and chance, or when loss grows with the rate in two consecutive probes. No probe follows for one
//!   cycle, or three in the second case. The first spurious loss undoes a reduction that one round led to.
//! - **Marks** (ECN). A round with a mark on what was sent after the last such reduction ends start-up, or lowers the
//!   rate as a queue that loses does.
//! - **Reductions that did not help.** After three in a row that left the loss what it was, the loss is the medium's
//!   and the rate is restored; not above [`tuning::MAX_SHARE`] of loss, nor with a standing queue.
//! - **Start-up** doubles what is delivered in each round, and sends the share lost in addition. It ends after three
//!   rounds without growth that the path decided or that lost more than is ever excused; after one such round whose
//!   round trips are far above the least one; after three rounds in a row with such round trips, even if the
//!   application decided the rate; after three bursts in a row that show a queue; or with a queue and loss that is
//!   surely more than the medium's. Loss alone does not end it. What it learnt of loss is forgotten after it.
//! - **Cruising** lasts a cycle, by chance some rounds more or less; then a probe, and draining until the queue is
//!   gone. A probe that gains more than a reduction takes is followed by the next after one round, unless a queue
//!   shows or a reduction is recent.
//! - **Least round trip.** Measured with half a product in flight when no sample has confirmed it for long, or as
//!   [`longer`] says. That lowers no rate. After an excessive loss in a queue the old value stands.
//! - **Window.** Twice rate x least round trip. Beside a queue that is not ours, rate x (round trip + jitter) and half
//!   a product more, but only a step above what the last round had in flight: more in flight helps only a longer path.
//! - **Least rate.** A packet per smoothed round trip (RFC 8085 §3.1.2), or per [`tuning::SHORT_RTT`] if that is
//!   longer. The least window is BBR's, or what leaves within the delay of hosts.
//! - **Pauses.** Rounds that the application limited raise the estimate and never lower it, unless a train of packets
//!   left faster. After a long time without data it is halved again and again, and start-up begins anew. Without an
//!   answer to probes the window is the least and the estimate stays.
//! - **Stalls of the host** are pauses (ARQ-CC-10): such rounds do not lower the rate unless they show a queue. Round
//!   trips known exactly take precedence over those that are bounds.

mod burst;
mod cycle;
mod longer;
mod loss;
mod path;
mod phase;
mod probing;
mod reduction;
mod rounds;
mod slowdown;
mod tuning;

use std::time::{Duration, Instant};

use burst::Bursts;
use longer::Longer;
use loss::LossModel;
use path::{MaxRate, MinRtt};
use phase::Phase;
use probing::Probing;
use reduction::Reductions;
use rounds::{Round, Rounds};
use slowdown::Slowdown;
use tuning::{
    AT_LIMIT, BACK_OFF, HALVED_PER, HOLD_ROUNDS, HOST_DELAY, INITIAL_PACKETS, KEPT_WHEN_IDLE,
    LONG_HOLD_ROUNDS, MAX_COMPENSATED, MIN_WINDOW_PACKETS, PACED, SHORT_RTT, SPARE_PACKETS,
    WINDOW_GAIN, WINDOW_STEP,
};

use super::{bytes_of, AckSample, CeSample, Controller, LossSample, SentSample, MAX_WINDOW_BYTES};
use crate::{
    sent::LossCause,
    units::{PacketNumber, Rate},
    wire::BASE_MTU,
};

/// The loss-tolerant controller.
#[derive(Debug, Clone)]
pub(super) struct Tolerant {
    mtu: u64,
    /// The configured limit: beyond it there is nothing to look for.
    max_rate: Option<Rate>,
    phase: Phase,
    rate: MaxRate,
    min_rtt: MinRtt,
    smoothed_rtt: Duration,
    rounds: Rounds,
    round: u64,
    loss: LossModel,
    bursts: Bursts,
    /// No probing before this round.
    hold_until: u64,
    reductions: Reductions,
    probing: Probing,
    /// What keeps the rate while others fill the queue, in bytes.
    queue_window: u64,
    /// The last round that had a queue and lost more than the medium does.
    overfull_in: Option<u64>,
    /// When the rate was last reduced for marks.
    yielded_at: Option<Instant>,
    slowdown: Slowdown,
    longer: Longer,
    /// The rate before the last reduction, for when it proves unfounded: one that a single round led to, not one
    /// that many packets did.
    before_reduction: Option<Rate>,
    /// The last acknowledgement of more than a ping.
    busy_at: Option<Instant>,
    /// The peer does not answer: the least window, but the estimate is kept.
    silent: bool,
}

impl Tolerant {
    /// For datagrams of `mtu` bytes, and at most `max_rate`.
    #[must_use]
    pub(super) fn new(mtu: u16, max_rate: Option<Rate>) -> Self {
        Self {
            mtu: mtu.into(),
            max_rate,
            phase: Phase::START,
            rate: MaxRate::new(),
            min_rtt: MinRtt::new(),
            smoothed_rtt: Duration::ZERO,
            rounds: Rounds::new(),
            round: 0,
            loss: LossModel::new(),
            bursts: Bursts::default(),
            hold_until: 0,
            reductions: Reductions::default(),
            probing: Probing::new(),
            queue_window: 0,
            overfull_in: None,
            yielded_at: None,
            slowdown: Slowdown::default(),
            longer: Longer::default(),
            before_reduction: None,
            busy_at: None,
            silent: false,
        }
    }

    /// The estimate, once a round trip was measured.
    fn bandwidth(&self) -> Option<Rate> {
        let least = match self.phase {
            Phase::Startup { .. } if !self.rate.is_of_path() => self.initial_rate()?,
            _ => self.least_rate(),
        };
        Some(self.known_rate().max(least))
    }

    /// What a new connection may send, before samples show more.
    fn initial_rate(&self) -> Option<Rate> {
        self.each_round_trip(bytes_of(INITIAL_PACKETS, self.mtu))
    }

    /// So many bytes in each of the least round trips.
    fn each_round_trip(&self, bytes: u64) -> Option<Rate> {
        // No clock tells less.
        Rate::over(bytes, self.min_rtt.get()?.max(Duration::from_micros(1)))
    }

    /// What was measured, or nothing.
    fn known_rate(&self) -> Rate {
        self.rate.get().unwrap_or_default()
    }

    /// A packet each round trip, with the queue that there is.
    fn least_rate(&self) -> Rate {
        Rate::over(self.mtu, self.smoothed_rtt.max(SHORT_RTT)).unwrap_or_default()
    }

    /// Bandwidth x least round trip, in bytes.
    fn product(&self) -> Option<u64> {
        self.bytes_in(self.min_rtt.get()?)
    }

    /// What keeps the rate while others fill the queue, and half a product: with twice the product
    /// alone, the share beside a flow that keeps a long queue full would sink with its length, and
    /// the rate with every growth of the round trip. The phases see to it that the queue is not ours.
    /// With a `queue` it grows step by step, as it is used: where the path has become slower, the round
    /// trip grows with it. Without one it is as much as twice the product would be, if the least round trip of all were
    /// not a lucky packet's.
    fn queue_window(&self, round: &Round, queue: bool) -> Option<u64> {
        let usual_rtt = round.min_rtt? + self.min_rtt.jitter();
        let queued = self.bytes_in(usual_rtt + self.min_rtt.get()? / 2)?;
        if !queue {
            return Some(queued.max(self.bytes_in(WINDOW_GAIN * usual_rtt)?));
        }
        let used = round.sent_bytes() / WINDOW_STEP.1 * WINDOW_STEP.0;
        Some(queued.min(used.max(self.queue_window)))
    }

    fn bytes_in(&self, time: Duration) -> Option<u64> {
        Some(self.bandwidth()?.bytes_in(time).min(MAX_WINDOW_BYTES))
    }

    /// Whether the path carries what the configuration allows, or nearly so.
    fn is_at_limit(&self) -> bool {
        self.max_rate.is_some_and(|most| self.known_rate() >= most.mul_f64(AT_LIMIT))
    }

    fn enter(&mut self, phase: Phase) {
        let is_drain = |phase| matches!(phase, Phase::Drain { .. });
        if is_drain(self.phase) && !is_drain(phase) {
            // Start-up and draining have shown what the medium loses, as far as one who joined a full queue can tell.
            self.loss.end_start_up();
        }
        self.phase = phase;
        self.loss.mark(self.rounds.next_number(), phase);
    }

    fn on_round(&mut self, now: Instant, round: &Round) {
        self.round += 1;
        let queue = round.min_rtt.is_some_and(|rtt| self.min_rtt.shows_queue(rtt));
        self.queue_window = self.queue_window(round, queue).unwrap_or(self.queue_window);
        self.loss.on_round(round, queue);
        let decided_by_path = self.sample(round, queue);
        self.longer.on_round(queue, round.min_rtt, &self.min_rtt);
        if self.follow_slowdown(round, queue) {
            return;
        }
        let next = self.next_phase(now, round, queue, decided_by_path);
        // Once the probe is judged, and before start-up ends and forgets what it learnt of loss.
        let overfull = (queue || self.loss.is_ours()) && self.loss.is_excessive(round);
        match next {
            Some(phase) => self.enter(phase),
            None => {
                self.reductions.begin_anew(self.round);
                self.back_off(LONG_HOLD_ROUNDS);
            }
        }
        // What a reduction gives shows two rounds later: what is lost until then leads to no other.
        let answered = self.reductions.on_round(self.round, round, queue);
        if overfull {
            self.overfull_in = Some(self.round);
        }
        let steady = !matches!(
            self.phase,
            Phase::Startup { .. } | Phase::Drain { .. } | Phase::ProbeRtt { .. }
        );
        if steady && round.marked_packets > 0 {
            self.yield_to_queue(now);
        } else if steady && !answered && overfull {
            self.reduce(round);
        }
    }

    /// A round with a queue has lost more than the medium does.
    fn reduce(&mut self, round: &Round) {
        let before = self.known_rate();
        match self.reductions.on_reduction(self.round, before, round) {
            Some(unfounded) => {
                self.loss.accept(unfounded.share);
                self.rate.raise_to(unfounded.rate);
                self.hold_until = self.round;
            }
            None => {
                self.back_off(HOLD_ROUNDS);
                self.loss.on_reduction();
                self.before_reduction = Some(before);
                self.longer.on_reduction();
            }
        }
    }

    /// A queue has marked packets. There is no doubt about it: whether such reductions help is not asked.
    fn yield_to_queue(&mut self, now: Instant) {
        self.yielded_at = Some(now);
        self.reductions.begin_anew(self.round);
        self.back_off(HOLD_ROUNDS);
    }

    /// A path that has become slower: its rate is the new estimate, and what is too much in flight leaves first.
    fn follow_slowdown(&mut self, round: &Round, queue: bool) -> bool {
        // The window that lets a queue leave carries less on purpose.
        let steady = !matches!(
            self.phase,
            Phase::Startup { .. } | Phase::Slowdown { .. } | Phase::ProbeRtt { .. }
        );
        if !queue || !steady {
            self.slowdown.forget();
            return false;
        }
        // What is held back on purpose does not arrive.
        let expected = self.known_rate().mul_f64(self.phase.gain().min(1.0));
        let product = self.product().unwrap_or(0);
        let carried = round.rate_of(round.bytes + self.loss.excused_bytes(round));
        let slower =
            carried.and_then(|rate| self.slowdown.on_round(round, rate, expected, product));
        if let Some(rate) = slower {
            self.rate.replace(rate);
            // What the full queue still drops was sent before.
            self.reductions.begin_anew(self.round);
            self.longer.on_slowdown();
            self.enter(Phase::Slowdown { rounds: 0 });
        }
        slower.is_some()
    }

    /// Learns the rate of a round; returns whether it was the path that decided it.
    fn sample(&mut self, round: &Round, queue: bool) -> bool {
        // Start-up finds the rate without it, and what it loses may be its own excess.
        let excuse = self.hold_until < self.round && !matches!(self.phase, Phase::Startup { .. });
        let excused = if excuse { self.loss.excused_bytes(round) } else { 0 };
        let Some(rate) = round.rate_of(round.bytes + excused) else { return false };
        // Its acknowledgements may have waited for the host to wake, and were then read at once.
        if round.slept && round.is_train {
            return false;
        }
        let known = self.known_rate();
        // A round over a sleep is slow because the host was; unless there was a queue.
        let awake = !round.slept || queue;
        let paused = round.app_limited && !(round.is_train && round.was_sent_above(known));
        // Half is sent on purpose, on a short path for many rounds: their rate is not the path's.
        let held_back = matches!(self.phase, Phase::ProbeRtt { .. });
        let decided_by_path = awake && !paused && !held_back;
        if decided_by_path {
            self.rate.on_path_round(rate);
        } else {
            self.rate.raise_to(rate);
        }
        decided_by_path
    }

    /// Start-up: what a round has carried so far need not wait for its end, which would cost each doubling a round trip.
    fn learn_early(&mut self, sample: &AckSample) {
        let queue = sample.rtt.is_some_and(|rtt| self.min_rtt.may_show_queue(rtt.least));
        let Some(min_rtt) = self.min_rtt.get().filter(|_| !queue) else { return };
        if let Some(rate) = self.rounds.rate_so_far(min_rtt) {
            self.rate.raise_to(rate);
        }
    }

    /// Loss by congestion.
    fn back_off(&mut self, hold: u64) {
        self.before_reduction = None;
        if let Some(rate) = self.rate.get() {
            self.rate.replace(rate.mul_f64(BACK_OFF));
        }
        self.hold_until = self.hold_until.max(self.round + hold);
        self.enter(Phase::ProbeDown { rounds: 0 });
    }

    /// After a long pause: what the path carried then says less and less about now.
    fn age(&mut self, now: Instant) {
        let Some(busy_at) = self.busy_at else { return };
        let idle = now.saturating_duration_since(busy_at);
        let Some(over) = idle.checked_sub(KEPT_WHEN_IDLE) else { return };
        let halvings = 1 + over.as_secs() / HALVED_PER.as_secs();
        // The next halving is due one interval from now.
        self.busy_at = now.checked_sub(KEPT_WHEN_IDLE - HALVED_PER);
        // Below what a new connection begins with there is nothing to gain.
        if let Some(known) = self.rate.get().filter(|&rate| Some(rate) >= self.initial_rate()) {
            let left = known.mul_f64(0.5_f64.powi(halvings.min(32) as i32));
            self.rate = MaxRate::restarted_at(left);
        }
        self.queue_window = 0;
        self.longer = Longer::default();
        self.slowdown.forget();
        self.bursts.forget();
        self.reductions = Reductions::default();
        self.enter(Phase::START);
    }
}

impl Controller for Tolerant {
    fn on_time(&mut self, now: Instant) {
        self.age(now);
    }

    fn on_sent(&mut self, sample: &SentSample) {
        self.rounds.on_sent(sample);
        self.bursts.on_sent(sample);
    }

    fn on_ack(&mut self, sample: &AckSample) {
        self.silent = false;
        self.smoothed_rtt = sample.smoothed_rtt;
        // Fewer bytes are pings and small talk, nothing that a rate could be seen in; larger packets do not change that.
        if sample.bytes >= self.mtu.min(BASE_MTU.into()) / 2 || self.busy_at.is_none() {
            self.busy_at = Some(sample.now);
        }
        if let Some(rtt) = sample.rtt {
            self.min_rtt.update(sample.now, rtt.most);
        }
        if let Some(rate) = self.bursts.on_ack(sample, &self.min_rtt, &self.loss) {
            self.rate.raise_to(rate);
        }
        if let Some(round) = self.rounds.on_ack(sample) {
            self.on_round(sample.now, &round);
        } else if matches!(self.phase, Phase::Startup { .. }) {
            self.learn_early(sample);
        }
        self.probe_rtt(sample.now, sample);
    }

    fn on_loss(&mut self, sample: &LossSample) {
        self.rounds.on_loss(sample);
        // A time-out declares lost what left at all paces, and may be wrong.
        if sample.cause == LossCause::Gap {
            self.bursts.on_loss(sample.largest, sample.packets);
        }
    }

    fn on_ce(&mut self, sample: &CeSample) {
        // What was sent before the last reduction needs no further one.
        if self.yielded_at.is_none_or(|at| sample.sent_at > at) {
            self.rounds.on_ce(sample.packets);
        }
    }

    fn on_spurious_loss(&mut self, sample: &LossSample) {
        self.silent = false;
        self.rounds.on_spurious_loss(sample);
        // Later ones have nothing to do with the reduction.
        let recent = self.round < self.hold_until;
        if let Some(rate) = self.before_reduction.take().filter(|_| recent) {
            self.rate.raise_to(rate);
            self.hold_until = self.round;
        }
    }

    fn on_settled(&mut self, number: PacketNumber, lost: bool) {
        self.loss.tally(number, lost);
    }

    fn on_sleep(&mut self) {
        self.rounds.on_sleep();
        self.bursts.abandon();
    }

    fn on_silence(&mut self) {
        self.silent = true;
        self.bursts.forget();
    }

    fn on_path_change(&mut self) {
        // The constructor took a u16.
        *self =
            Self { rounds: self.rounds.restarted(), ..Self::new(self.mtu as u16, self.max_rate) };
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu.into();
    }

    fn window(&self) -> u64 {
        let least = bytes_of(MIN_WINDOW_PACKETS, self.mtu);
        let window = match (self.phase, self.product()) {
            _ if self.silent => least,
            (_, None) => bytes_of(INITIAL_PACKETS, self.mtu),
            (Phase::ProbeRtt { .. }, Some(product)) => product / 2,
            (_, Some(product)) => {
                let in_hosts = self.known_rate().bytes_in(HOST_DELAY);
                let queued = match self.phase {
                    Phase::Slowdown { .. } => 0,
                    _ => self.queue_window,
                };
                (u64::from(WINDOW_GAIN) * product).max(queued).max(in_hosts)
                    + bytes_of(SPARE_PACKETS, self.mtu)
            }
        };
        window.clamp(least, MAX_WINDOW_BYTES)
    }

    fn carried_rate(&self) -> Option<Rate> {
        self.bandwidth()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        if self.is_at_limit() && matches!(self.phase, Phase::Cruise { queue: false, .. }) {
            return self.max_rate;
        }
        let bandwidth = match (self.phase, self.rate.get()) {
            // Nothing was measured yet: the first window leaves as soon as BBR's does, in a third of a round trip.
            (Phase::Startup { .. }, None) => self.each_round_trip(self.window())?,
            _ => self.bandwidth()?,
        };
        // Start-up knows what was delivered, and means to double that, whatever is lost on the way.
        let delivered = match self.phase {
            Phase::Startup { .. } => 1.0 - self.loss.base().min(MAX_COMPENSATED),
            _ => 1.0,
        };
        Some(bandwidth.mul_f64(self.phase.gain() / delivered * PACED).max(self.least_rate()))
    }

    fn burst(&self) -> u64 {
        self.bursts.bytes()
    }

    fn bursts_queue(&self) -> bool {
        self.bursts.show_queue()
    }
}

#[cfg(test)]
mod tests;
