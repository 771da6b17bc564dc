// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which small messages are repeated in later packets until they are acknowledged?
//!
//! Where messages follow each other within a round trip, the packet of the next one has room for those before it. A
//! loss then costs the interval between two messages instead of a round trip, and no packet more: redundant bundling
//! for thin streams (Evensen, Petlund, Griwodz, Halvorsen, IEEE Communications Letters 12(4), 2008).
//!
//! Candidates are the last 16 messages of one chunk whose frame has at most 512 bytes, of which nothing is known yet,
//! and that last left 0.5 ms ago or earlier: the packets of one tick would be lost together. A best-effort message is
//! one only if it has a deadline, since without it nothing is repaired; none is of a lane in bulk. The packet is
//! filled up to 1,200 bytes, so that a path that drops longer ones does not take the new message, and a message
//! leaves four times in all at most. Where some sendings count as lost, no more are added until it is known what
//! became of the others. Two that a time-out shows to be lost, or one in bursts, are reason enough to repair
//! (ARQ-REP-9). None are added while the path is full of our own packets: they would make its queue longer, and a longer
//! queue would seem to make them worthwhile.
//!
//! In a fade of the radio all four sendings are lost, and so is a repair that leaves before its end. What is lost then is
//! not repaired again before an answer comes, a round trip behind the end. So where losses come in long bursts nothing is
//! bundled as long as answers come. Where they come in bursts, and an answer is overdue, each packet is filled with the
//! last 32 small messages that are not acknowledged, repaired or not: what leaves first behind the fade takes them along.
//! A message leaves again when an eighth of its age has passed since it last left. As long as packets leave often enough,
//! that adds an eighth to its latency at most, and a silence that is twice as long costs no more than six sendings
//! (ARQ-REP-11).

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::Redundancy;
use crate::{
    symbol::SymbolRef,
    units::{LaneId, MessageSeq},
};

/// Frames up to this length are small and are bundled: two of them and a new message share a packet.
pub(crate) const MAX_FRAME_BYTES: usize = 512;
/// Where more small messages leave in a round trip, their packets are full anyway.
const MAX_BUNDLED: usize = 16;
/// What is remembered for a fade: at 50 Hz the messages of 0.6 s.
const MAX_MESSAGES: usize = 32;
/// Below this loss rate nothing is bundled.
const MIN_LOSS: f64 = 0.009;
/// A small message is bundled three times at most.
const MAX_SENDINGS: u8 = 4;
/// Least time between two sendings of a message: packets of one burst may be lost together.
const MIN_INTERVAL: Duration = Duration::from_micros(500);
/// In a fade this part of its age passes between two sendings of a message.
const PART_OF_AGE: u32 = 8;

/// A message of one small chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SmallMessage {
    pub(crate) lane: LaneId,
    pub(crate) at: SymbolRef,
    /// When it left for the first time, and for the last.
    sent_at: Instant,
    pub(crate) left_at: Instant,
}

/// The small messages that left last, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Bundle(VecDeque<SmallMessage>);

impl Bundle {
    /// A message of one chunk left for the first time.
    pub(crate) fn on_sent(&mut self, now: Instant, lane: LaneId, at: SymbolRef) {
        if at.frame_len > MAX_FRAME_BYTES {
            return;
        }
        if self.0.len() == MAX_MESSAGES {
            self.0.pop_front();
        }
        self.0.push_back(SmallMessage { lane, at, sent_at: now, left_at: now });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn retain(&mut self, keep: impl FnMut(&SmallMessage) -> bool) {
        self.0.retain(keep);
    }

    /// A message left again by itself.
    pub(crate) fn on_sent_again(&mut self, now: Instant, lane: LaneId, seq: MessageSeq) {
        let mut messages = self.0.iter_mut();
        if let Some(small) = messages.find(|small| small.lane == lane && small.at.seq == seq) {
            small.left_at = now;
        }
    }

    /// The messages that may leave again, the oldest first.
    pub(crate) fn candidates(&mut self, in_fade: bool) -> impl Iterator<Item = &mut SmallMessage> {
        let most = if in_fade { MAX_MESSAGES } else { MAX_BUNDLED };
        let skipped = self.0.len().saturating_sub(most);
        self.0.iter_mut().skip(skipped)
    }
}

impl Redundancy {
    /// Whether bundling may pay: neither with hardly any loss, nor where bursts outlast the next packets. Each copy doubles what
    /// a message costs, so as long as nothing was lost the mean decides, which twenty packets bring below [`MIN_LOSS`],
    /// instead of the calm estimate, which takes three hundred.
    pub(crate) fn may_bundle(&self) -> bool {
        let channel = &self.channel;
        let is_assured = !channel.loses && channel.mean.as_f64() <= MIN_LOSS;
        let worthwhile = !is_assured && channel.calm.as_f64() > MIN_LOSS;
        self.is_auto() && worthwhile && !channel.has_long_bursts()
    }

    /// Whether a small message leaves once more in a suspected fade.
    pub(crate) fn repeats(&self, now: Instant, message: &SmallMessage) -> bool {
        let [age, apart] =
            [message.sent_at, message.left_at].map(|at| now.saturating_duration_since(at));
        self.suspects_fade() && apart >= (age / PART_OF_AGE).max(MIN_INTERVAL)
    }

    /// Whether a small message that left `sendings` times is worth its bytes in a packet that leaves now anyway.
    pub(crate) fn bundles(&self, now: Instant, message: &SmallMessage, sendings: u8) -> bool {
        let [age, apart] =
            [message.sent_at, message.left_at].map(|at| now.saturating_duration_since(at));
        let goes_on = self.channel.goes_on();
        let lost = self.channel.calm.as_f64() * goes_on.powi(i32::from(sendings) - 1);
        let saved = lost * (1.0 - goes_on) * self.repair_delay.saturating_sub(age).as_secs_f64();
        let send_time = self.rate.time_for(message.at.frame_len as u64);
        let worthwhile = lost > MIN_LOSS && saved > send_time.as_secs_f64();
        self.may_bundle() && sendings < MAX_SENDINGS && apart >= MIN_INTERVAL && worthwhile
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::FecConfig,
        path_loss::PathLoss,
        redundancy::Channel,
        symbol::Symbol,
        units::{Rate, Reliability},
    };

    const MS: Duration = Duration::from_millis(1);

    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn t0() -> Instant {
        Instant::now()
    }

    fn lane() -> LaneId {
        LaneId::new(5, Reliability::Reliable).unwrap()
    }

    fn small(seq: MessageSeq, frame_len: usize) -> SymbolRef {
        SymbolRef { seq, segmentation: 0, symbol: Symbol::Source(0), frame_len }
    }

    // ARQ-REP-9
    #[test]
    fn only_the_last_small_messages_are_remembered() {
        let (t0, mut bundle) = (t0(), Bundle::default());
        let mut send = |seq, frame_len| bundle.on_sent(t0, lane(), small(seq, frame_len));
        send(0, MAX_FRAME_BYTES + 1);
        (1..=100).for_each(|seq| send(seq, MAX_FRAME_BYTES));
        let kept: Vec<_> = bundle.candidates(true).map(|message| message.at.seq).collect();
        let first = 101 - MAX_MESSAGES as u64;
        assert_eq!(kept, (first..=100).collect::<Vec<_>>());
        let bundled: Vec<_> = bundle.candidates(false).map(|message| message.at.seq).collect();
        assert_eq!(bundled, kept[MAX_MESSAGES - MAX_BUNDLED..]);
    }

    // ARQ-REP-11
    #[test]
    fn a_fade_is_suspected_where_losses_come_in_bursts_and_an_answer_is_overdue() {
        let suspects = |run, is_overdue, fec| {
            let over = Redundancy::over(Channel::of(5, run));
            Redundancy { is_overdue, fec, ..over }.suspects_fade()
        };
        assert!(suspects(1.6, true, FecConfig::Auto));
        assert!(!suspects(1.6, false, FecConfig::Auto), "all is answered");
        assert!(!suspects(1.5, true, FecConfig::Auto), "it may be chance");
        assert!(!suspects(1.6, true, FecConfig::Off), "each message leaves once");
    }

    // ARQ-REP-11
    #[test]
    fn in_a_fade_a_message_leaves_again_after_an_eighth_of_its_age() {
        let (t0, mut bundle) = (t0(), Bundle::default());
        let fades = Redundancy { is_overdue: true, ..Redundancy::over(Channel::of(5, 4.0)) };
        bundle.on_sent(t0, lane(), small(0, 250));
        let mut sendings = Vec::new();
        for ms in 1..=640 {
            let message = bundle.candidates(true).next().unwrap();
            if fades.repeats(t0 + ms * MS, message) {
                message.left_at = t0 + ms * MS;
                sendings.push(ms);
            }
        }
        assert!(sendings.windows(2).all(|pair| pair[1] - pair[0] <= pair[1] / 8 + 1));
        let within = |from, to| sendings.iter().filter(|ms| (from..to).contains(*ms)).count();
        assert_eq!([within(80, 160), within(160, 320), within(320, 640)], [5, 6, 5]);
        // A repair counts as well.
        bundle.on_sent_again(t0 + 700 * MS, lane(), 0);
        let message = bundle.candidates(true).next().unwrap();
        assert!(!fades.repeats(t0 + 780 * MS, message) && fades.repeats(t0 + 800 * MS, message));
        assert!(!Redundancy { is_overdue: false, ..fades }.repeats(t0 + 900 * MS, message));
    }

    // ARQ-REP-9
    #[test]
    fn small_messages_are_bundled_while_that_saves_more_than_it_takes() {
        let bundled = |percent, run, sendings, age| {
            let over = Redundancy::over(Channel::of(percent, run));
            bundles(&Redundancy { repair_delay: 75 * MS, ..over }, sendings, age)
        };
        // Not without loss; the more often the likelier all of them are lost.
        assert!(!bundled(0, 1.0, 1, 20 * MS));
        let times = |percent, run| {
            (1..10).take_while(|&n| bundled(percent, run, n, 20 * MS * u32::from(n))).count()
        };
        assert_eq!([times(1, 1.0), times(10, 1.0), times(25, 1.0), times(5, 2.0)], [1, 2, 2, 2]);
        // Not once a repair is as soon, nor in the same burst, nor where bytes are slow.
        assert!(!bundled(10, 1.0, 1, 75 * MS) && !bundled(10, 1.0, 1, MIN_INTERVAL / 2));
        let rate = Rate::from_bytes_per_second(12_500);
        assert!(!bundles(&Redundancy { rate, ..Redundancy::over(Channel::of(10, 1.0)) }, 1, MS));
        // Nor where bursts outlast them.
        assert!(bundled(10, 2.2, 1, 20 * MS) && !bundled(10, 2.3, 1, 20 * MS));
    }

    // ARQ-REP-9
    #[test]
    fn twenty_packets_that_arrived_end_bundling_until_one_seems_lost() {
        let over = |loss: &PathLoss| {
            let (calm, mean) = (loss.calm(), loss.mean());
            let channel = Channel { calm, mean, loses: loss.loses(), ..Channel::of(0, 1.0) };
            Redundancy::over(channel).may_bundle()
        };
        let mut loss = PathLoss::default();
        let packets = (0..100).take_while(|_| {
            let bundles = over(&loss);
            loss.record(false);
            bundles
        });
        assert_eq!(packets.count(), 20);
        assert!(!over(&loss));
        loss.on_first_sign();
        assert!(over(&loss));
    }

    /// Whether a message of 250 bytes is bundled, which takes 0.2 ms.
    fn bundles(redundancy: &Redundancy, sendings: u8, age: Duration) -> bool {
        let (t0, mut bundle) = (t0(), Bundle::default());
        bundle.on_sent(t0, lane(), small(0, 250));
        let message = bundle.candidates(true).next().unwrap();
        redundancy.bundles(t0 + age, message, sendings)
    }
}
