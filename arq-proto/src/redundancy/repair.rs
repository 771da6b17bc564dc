// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What is sent of a message some of whose symbols are lost, or the acknowledgement of them?
//!
//! A repair is lost as easily as what it repairs, and each loss of it costs a round trip. So as many
//! symbols are sent as leave a small chance that another round is needed, the *target residual loss*: the extra bytes
//! are few, since a coded symbol stands in for any other (NSDI '24, "Hairpin": redundancy belongs to the
//! retransmissions).
//!
//! *Missing* are the chunks of a message less the chunks and repair symbols acknowledged; *expected* are the symbols
//! in flight or to be sent that may cover them. A repair adds the difference, and what the [`Target`] says beyond. How
//! many symbols the first round takes was decided when it was sent, so what is in flight of it counts neither as
//! expected nor as missing while later acknowledgements will tell; only of the last symbol a time-out tells
//! (ARQ-REP-1). Parity covers what is lost later: such a loss is not repaired again (ARQ-REP-5). One or two lost
//! chunks are repaired by copies of them, which need no decoding (ARQ-REP-3).
//!
//! Parity is reckoned on a Gilbert [`Channel`](super::Channel), a repair on independent losses of its `upper` share.
//! Calculated for 10 % lost and taken for 12 %, that chain would send 5 symbols instead of 3 where one is missing, and 21
//! instead of 14 where nine are. In runs of 20 that leaves 8 % of the messages incomplete instead of 9 and 11 %: a burst
//! takes what leaves together. In runs of 3 it leaves 2.0 instead of 4.4 %, and 0.6 instead of 6.4 %. Whether that is
//! worth its bytes is open: no simulation has compared the two.

use super::{bundle::MAX_FRAME_BYTES, Redundancy};
use crate::{
    units::Probability,
    wire::{frame::Shape, BASE_MTU},
};

/// Packets that may leave after a time-out before an acknowledgement comes, and repair symbols for suspect messages:
/// all of the longest message, but not all of a large window. When no ACK comes because of a queue and not of a loss,
/// repeating everything would feed it.
pub(crate) const PACKETS_PER_TIME_OUT: usize = 64;
/// Probes in a row that ask before they repair, where the ACK may be all that is lost.
pub(crate) const ASKING_PROBES: u32 = 2;
/// Packets at the end of a flight of which no later acknowledgement tells.
const UNSETTLED: usize = 1;
/// So many missing chunks are repaired by copies, which cost no coding.
const MAX_COPIED: usize = 2;

/// The target residual loss as a rule: one in a hundred.
const RESIDUAL: f64 = 0.01;
const SMALL: usize = 16;
/// The last few percent are expensive for larger messages, and a second round is small and nearly sure.
const RESIDUAL_WHEN_LARGE: f64 = 0.1;
/// The chance that an ACK is lost about a message that lacks something. That costs two rounds.
const RESIDUAL_OF_LOST_ACKS: f64 = RESIDUAL / 3.0;
/// Where one ACK came and the next did not, less is open, and to be so many times surer costs little.
const SURER_IN_PART: f64 = 10.0;

/// What is out of a message that has begun, and what is known of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Out {
    pub(crate) shape: Shape,
    /// Symbols without which the receiver cannot complete it.
    pub(crate) missing: usize,
    /// Symbols in flight or to be sent that may cover them, and those of them that belong to the first round.
    pub(crate) expected: usize,
    pub(crate) expected_of_first_round: usize,
    /// Symbols of which a transmission may still arrive.
    pub(crate) in_flight: usize,
    /// Chunks that were sent, did not arrive as far as it is known, and will not.
    pub(crate) lost: usize,
    /// Repair symbols that are neither sent nor to be sent.
    pub(crate) unused: usize,
    /// How often the first chunk was sent to no avail, if that was never repaired.
    pub(crate) lost_sendings: u8,
    /// A chunk was sent again after a loss, or is to be.
    pub(crate) is_repaired: bool,
    /// Every chunk has left, and none is to be sent.
    pub(crate) has_left: bool,
    /// An ACK told of a part of it.
    pub(crate) is_heard_of: bool,
}

impl Out {
    /// Whether only copies of a small message that were bundled into later packets may still arrive.
    fn is_in_flight_by_bundling(&self) -> bool {
        let one_chunk = self.shape.chunk_count() == 1 && self.missing > 0;
        one_chunk && self.in_flight > 0 && !self.is_repaired
    }
}

/// What is to be sent of a message beside what is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Addition {
    Nothing,
    /// Every chunk that is not acknowledged, so many times.
    Unacked(usize),
    /// Every chunk that is lost, so many times.
    Lost(usize),
    /// Repair symbols, and every chunk that is lost where these are all of the code and too few.
    Coded {
        symbols: usize,
        and_lost: bool,
    },
}

/// What it means that no ACK about a message came in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoAck {
    /// Nothing to act upon.
    Wait,
    /// What is in flight of it is lost.
    Loss,
    /// The ACK is lost as easily as what is in flight of it, which may well suffice.
    LostAck,
}

impl Redundancy {
    /// How sure a repair is to be. `by_time_out`: no acknowledgement told of what is missing.
    pub(crate) fn target(&self, by_time_out: bool) -> Target {
        let target = Target::new(self.channel.upper);
        match by_time_out {
            true => Target {
                in_fade: self.suspects_fade() && self.channel.has_long_bursts(),
                ..target.after_time_out(self.ack_loss, self.channel.is_bursty())
            },
            false => target,
        }
    }

    /// The same for suspect messages, whose acknowledgement is lost.
    pub(crate) fn target_of_suspects(&self) -> Target {
        self.target(false).after_lost_ack(self.ack_loss)
    }

    /// What tells whether many symbols may all be lost by chance; `None` where bursts take them together.
    pub(crate) fn chance(&self) -> Option<Target> {
        (!self.channel.is_bursty()).then(|| self.target(false))
    }
}

/// After losses: as many symbols as make it likely that the message is completed.
pub(crate) fn after_loss(out: &Out, target: Target) -> Addition {
    if out.is_in_flight_by_bundling() {
        return match target.gives_up_behind(out.lost_sendings) {
            true => Addition::Unacked(target.copies_of(out)),
            false => Addition::Nothing,
        };
    }
    let (mut missing, mut expected) = (out.missing, out.expected);
    // How many of the first round to send was decided already, and what became of them will be
    // known in a moment, except of the last.
    let first = out.expected_of_first_round;
    if first > UNSETTLED {
        missing = missing.saturating_sub(first);
        expected -= first;
    }
    let wanted = target.symbols_for(missing);
    if missing == 0 || expected >= wanted {
        return Addition::Nothing;
    }
    let is_known = out.lost == out.missing;
    if (is_known && out.missing <= MAX_COPIED) || !out.shape.is_codable() {
        return Addition::Lost(if is_known { target.copies_of(out) } else { 1 });
    }
    let symbols = (wanted - expected).min(out.unused);
    Addition::Coded { symbols, and_lost: expected + symbols < missing }
}

/// The ACK that would have told of the first round is lost: so many repair symbols, at most `most`, make it likely that
/// the message is completed by what is in flight.
pub(crate) fn after_lost_ack(out: &Out, target: Target, most: usize) -> usize {
    // What has not left yet is no less sure than it was.
    if !out.has_left || !out.shape.is_codable() {
        return 0;
    }
    let target = if out.is_heard_of { target.in_part() } else { target };
    let wanted = target.symbols_for(out.missing);
    wanted.saturating_sub(out.expected).min(most).min(out.unused)
}

/// The path of so many symbols in flight is silent: as many as are missing without them leave on another path, where losses
/// are not known to be the same. `coding`: the peer takes repair symbols.
pub(crate) fn instead_of(out: &Out, silent: usize, coding: bool) -> Addition {
    let elsewhere = out.expected.saturating_sub(silent);
    let symbols = out.missing.saturating_sub(elsewhere);
    if symbols == 0 {
        return Addition::Nothing;
    }
    let is_coded = coding && out.shape.is_codable() && symbols <= out.unused;
    if out.missing <= MAX_COPIED || !is_coded {
        return Addition::Unacked(1);
    }
    Addition::Coded { symbols, and_lost: false }
}

/// What it means that no ACK came about the end of the first round. `chance`: losses are independent.
pub(crate) fn without_ack(out: &Out, chance: Option<Target>) -> NoAck {
    if out.missing == 0 {
        return NoAck::Wait;
    }
    let is_small = out.shape.chunk_count() == 1 && out.shape.message_bytes <= BASE_MTU.into();
    if is_small && !out.is_repaired {
        return NoAck::Loss;
    }
    match chance {
        Some(chance) if !out.is_heard_of || chance.is_sure_of_one_of(out.in_flight) => {
            NoAck::LostAck
        }
        _ if out.is_heard_of => NoAck::Loss,
        // About all of a longer one it is an outage, in which nothing is added.
        _ => NoAck::Wait,
    }
}

/// The target residual loss of a repair, on a path that loses so much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Target {
    loss: f64,
    /// The accepted chance of another round, for as many symbols as a small message has, and for more.
    residual: (f64, f64),
    bulk: bool,
    /// After so many sendings of a small message that brought nothing, those bundled later are not waited for.
    lost_enough: Option<u8>,
    /// A fade is suspected, and will last: small messages leave again in each packet.
    in_fade: bool,
}

impl Target {
    /// Where symbols are known to be missing.
    pub(crate) fn new(loss: Probability) -> Self {
        Self {
            loss: loss.as_f64(),
            residual: (RESIDUAL, RESIDUAL_WHEN_LARGE),
            bulk: false,
            lost_enough: None,
            in_fade: false,
        }
    }

    /// A time-out and no acknowledgement told of them: it may be the ACK that is lost, as the share `ack_loss` of
    /// them is. Exact for one packet; for more, something is missing more often, but all of them seldom.
    pub(crate) fn after_time_out(self, ack_loss: Probability, bursty: bool) -> Self {
        let no_ack = 1.0 - (1.0 - self.loss) * (1.0 - ack_loss.as_f64());
        let missing = (self.loss / no_ack.max(f64::MIN_POSITIVE)).min(1.0);
        let lost_enough = Some(if bursty { 1 } else { 2 });
        Self { lost_enough, ..self.with_residual(|residual| residual / missing) }
    }

    /// Whether so many `lost` sendings of a small message justify a repair now instead of waiting for those bundled
    /// later. One may be chance, two hardly are; a burst that took one takes what follows, too. Where an acknowledgement
    /// told of the loss, the next one tells of those.
    fn gives_up_behind(self, lost: u8) -> bool {
        self.lost_enough.is_some_and(|enough| lost >= enough)
    }

    /// The ACK is lost, as the share `ack_loss` of them is. Nothing may be missing.
    fn after_lost_ack(self, ack_loss: Probability) -> Self {
        let accepted = RESIDUAL_OF_LOST_ACKS / ack_loss.as_f64().max(f64::MIN_POSITIVE);
        self.with_residual(|_| accepted.min(RESIDUAL_WHEN_LARGE))
    }

    /// A part is known to have arrived.
    fn in_part(self) -> Self {
        self.with_residual(|residual| residual / SURER_IN_PART)
    }

    fn with_residual(self, change: impl Fn(f64) -> f64) -> Self {
        Self { residual: (change(self.residual.0), change(self.residual.1)), ..self }
    }

    /// `bulk`: the application waits for room. Another round then delays nobody, but bytes do: just
    /// what is needed is sent.
    pub(crate) fn in_bulk(self, bulk: bool) -> Self {
        Self { bulk, ..self }
    }

    /// Whether it is all but impossible that every one of so many symbols is lost, by chance.
    pub(crate) fn is_sure_of_one_of(self, symbols: usize) -> bool {
        // Beyond the longest message the chance is zero anyway.
        self.loss.powi(symbols.min(256) as i32) < RESIDUAL
    }

    /// How often each chunk of one or two that are lost leaves. In a fade a small message leaves once: what leaves with it is
    /// lost with it, and the next packet takes it along again (ARQ-REP-11).
    fn copies_of(self, out: &Out) -> usize {
        let is_repeated =
            out.shape.chunk_count() == 1 && out.shape.message_bytes <= MAX_FRAME_BYTES;
        match self.in_fade && is_repeated {
            true => 1,
            false => self.symbols_for(1),
        }
    }

    /// Symbols of which `needed` arrive as surely as that; at most twice as many and three.
    fn symbols_for(self, needed: usize) -> usize {
        if self.bulk {
            return needed;
        }
        let residual = if needed <= SMALL { self.residual.0 } else { self.residual.1 };
        let most = 2 * needed + 3;
        // The chance that the last symbol needed is the one numbered `sent`: negative binomial.
        let (mut sent, mut chance) = (needed, (1.0 - self.loss).powi(needed as i32));
        let mut complete = chance;
        while complete < 1.0 - residual && sent < most {
            chance *= self.loss * sent as f64 / (sent + 1 - needed) as f64;
            complete += chance;
            sent += 1;
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redundancy::Channel;

    fn symbols(needed: usize, percent: u32, bulk: bool) -> usize {
        let loss = Probability::from_ppm(percent * 10_000);
        Target::new(loss).in_bulk(bulk).symbols_for(needed)
    }

    /// Ten chunks of a message are missing and on their way, in the first round.
    fn ten_missing() -> Out {
        Out {
            shape: Shape { message_bytes: 20_000, chunk_bytes: 1_000 },
            missing: 10,
            expected: 10,
            expected_of_first_round: 10,
            in_flight: 10,
            lost: 0,
            unused: 50,
            lost_sendings: 0,
            is_repaired: false,
            has_left: true,
            is_heard_of: false,
        }
    }

    // ARQ-REP-3
    #[test]
    fn another_path_takes_what_is_missing_without_the_silent_one() {
        let base = ten_missing();
        let coded = |symbols| Addition::Coded { symbols, and_lost: false };
        let uncodable = Shape { message_bytes: 10_100, chunk_bytes: 10_000 };
        for (out, silent, coding, addition) in [
            (base, 10, true, coded(10)),
            (Out { expected: 14, ..base }, 10, true, coded(6)),
            (base, 0, true, Addition::Nothing),
            (Out { expected: 20, ..base }, 10, true, Addition::Nothing),
            (Out { unused: 10, ..base }, 10, true, coded(10)),
            (Out { unused: 9, ..base }, 10, true, Addition::Unacked(1)),
            (Out { missing: 2, ..base }, 10, true, Addition::Unacked(1)),
            (Out { missing: 3, ..base }, 10, true, coded(3)),
            (base, 10, false, Addition::Unacked(1)),
            (Out { shape: uncodable, ..base }, 10, true, Addition::Unacked(1)),
        ] {
            assert_eq!(instead_of(&out, silent, coding), addition, "{out:?}, {silent}, {coding}");
        }
    }

    // ARQ-REP-2
    #[test]
    fn only_independent_losses_are_chance() {
        let chance = |channel| Redundancy::over(channel).chance();
        let medium = Channel::of(10, 1.0);
        assert_eq!(chance(medium), Some(Target::new(medium.upper)));
        assert_eq!(chance(Channel::of(10, 3.0)), None);
    }

    // ARQ-REP-2
    #[test]
    fn a_time_out_may_be_a_lost_ack() {
        // Two copies are all lost with 1.4 %, but in nearly half of the cases none is needed.
        let loss = Probability::from_ppm(120_000);
        let known = Target::new(loss);
        let no_ack = known.after_time_out(loss, false);
        assert_eq!((known.symbols_for(1), no_ack.symbols_for(1)), (3, 2));
        // Nothing is lost on the way back: no ACK is as good as knowledge.
        assert_eq!(known.after_time_out(Probability::ZERO, false).symbols_for(1), 3);
        let lossless = Target::new(Probability::ZERO);
        assert_eq!(lossless.after_time_out(loss, false).symbols_for(1), 1);
    }

    // ARQ-REP-11
    #[test]
    fn in_a_fade_a_small_message_is_repaired_once() {
        let over = Redundancy { is_overdue: true, ..Redundancy::over(Channel::of(10, 4.0)) };
        let of = |message_bytes| Out {
            shape: Shape { message_bytes, chunk_bytes: message_bytes },
            missing: 1,
            expected: 0,
            expected_of_first_round: 0,
            in_flight: 0,
            lost: 1,
            ..ten_missing()
        };
        let (small, long) = (of(300), of(1_000));
        let answered = Redundancy { is_overdue: false, ..over };
        for (redundancy, by_time_out, out, copies) in [
            (over, true, small, 1),
            (over, true, long, 2),
            (over, false, small, 2),
            (answered, true, small, 2),
        ] {
            let addition = after_loss(&out, redundancy.target(by_time_out));
            assert_eq!(addition, Addition::Lost(copies), "{out:?}, {by_time_out}");
        }
    }

    // ARQ-REP-8
    #[test]
    fn the_fewer_acks_are_lost_the_less_is_added() {
        // Fewer than 12 of 16 arrive with 7.9 %, of 17 with 3.2 %, of 18 with 1.2 %, of 19 with 0.4 %.
        let loss = Probability::from_ppm(150_000);
        for (percent, expected) in [(0, 16), (4, 16), (5, 17), (10, 17), (14, 18), (100, 20)] {
            let ack_loss = Probability::from_ppm(percent * 10_000);
            let target = Target::new(loss).after_lost_ack(ack_loss);
            assert_eq!(target.symbols_for(12), expected, "{percent} % of the ACKs");
        }
    }

    // ARQ-REP-2
    #[test]
    fn enough_symbols_arrive_as_surely_as_the_target_says() {
        // Exact values for 1 % failure, and 10 % of the larger ones, by an independent program.
        let percents = [1, 5, 10, 25];
        for (needed, extra) in [
            (1, [0, 1, 1, 3]),
            (4, [1, 2, 3, 5]),
            (10, [1, 3, 4, 9]),
            (47, [1, 5, 8, 22]),
            (70, [2, 6, 12, 31]),
        ] {
            let sent = percents.map(|percent| symbols(needed, percent, false) - needed);
            assert_eq!(sent, extra, "{needed} at {percents:?} %");
        }
    }

    // ARQ-REP-2
    #[test]
    fn bulk_takes_what_is_needed_and_nothing_exceeds_the_cap() {
        assert_eq!(symbols(57, 10, true), 57);
        for needed in 1..=128 {
            for percent in 0..=50 {
                for bulk in [false, true] {
                    let sent = symbols(needed, percent, bulk);
                    assert!((needed..=2 * needed + 3).contains(&sent), "{needed}, {percent} %");
                }
            }
        }
    }
}
