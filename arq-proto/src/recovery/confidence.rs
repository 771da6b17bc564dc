// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How many symbols must be sent so that a message is complete, with confidence?
//!
//! A repair is lost as easily as what it repairs, and each loss of it costs a round trip. So as many
//! symbols are sent as make it all but certain that enough of them arrive: the extra bytes are few,
//! since a coded symbol stands in for any other (NSDI '24, "Hairpin": redundancy belongs to the
//! retransmissions).

use crate::units::Probability;

/// How sure a sender wants to be, on a path that loses so much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Confidence {
    loss: f64,
    /// The accepted chance of another round, for as many symbols as a small message has, and for more.
    doubt: (f64, f64),
    bulk: bool,
    /// After so many sendings of a small message that brought nothing, those behind them are not waited for.
    silent_enough: Option<u8>,
}

/// The accepted chance of another round as a rule: one in a hundred.
const DOUBT: f64 = 0.01;
const SMALL: usize = 16;
/// The last few percent are dear for larger messages, and a second round is small and nearly sure.
const DOUBT_WHEN_LARGE: f64 = 0.1;
/// The chance of an answer that is lost about a message that lacks something. That costs two rounds.
const DOUBT_OF_ANSWERS: f64 = DOUBT / 3.0;
/// Where one answer came and the next did not, less is open, and to be so many times surer costs little.
const SURER_IN_PART: f64 = 10.0;

impl Confidence {
    /// Where symbols are known to be missing.
    pub(crate) fn new(loss: Probability) -> Self {
        Self {
            loss: loss.as_f64(),
            doubt: (DOUBT, DOUBT_WHEN_LARGE),
            bulk: false,
            silent_enough: None,
        }
    }

    /// A time-out and no acknowledgement told of them: it may be the answer that is lost, with the
    /// share `reverse`. Exact for one packet; for more, something is missing more often, but all of
    /// them seldom.
    pub(crate) fn after_time_out(self, reverse: Probability, bursty: bool) -> Self {
        let silence = 1.0 - (1.0 - self.loss) * (1.0 - reverse.as_f64());
        let missing = (self.loss / silence.max(f64::MIN_POSITIVE)).min(1.0);
        let silent_enough = Some(if bursty { 1 } else { 2 });
        Self { silent_enough, ..self.doubted(|doubt| doubt / missing) }
    }

    /// Whether the loss of so many sendings of a small message is enough not to wait for what rode along behind them.
    /// One may be chance, two hardly are; a burst that took one takes what follows, too. Where an acknowledgement told
    /// of the loss, the next one tells of those.
    pub(crate) fn gives_up_behind(self, silent: u8) -> bool {
        self.silent_enough.is_some_and(|enough| silent >= enough)
    }

    /// The answer is lost, as the share `reverse` of them is. Nothing may be missing.
    pub(crate) fn after_lost_answer(self, reverse: Probability) -> Self {
        let accepted = DOUBT_OF_ANSWERS / reverse.as_f64().max(f64::MIN_POSITIVE);
        self.doubted(|_| accepted.min(DOUBT_WHEN_LARGE))
    }

    /// A part is known to have arrived.
    pub(crate) fn in_part(self) -> Self {
        self.doubted(|doubt| doubt / SURER_IN_PART)
    }

    fn doubted(self, doubt: impl Fn(f64) -> f64) -> Self {
        Self { doubt: (doubt(self.doubt.0), doubt(self.doubt.1)), ..self }
    }

    /// `bulk`: the application waits for room. Another round then delays nobody, but bytes do: just
    /// what is needed is sent.
    pub(crate) fn in_bulk(self, bulk: bool) -> Self {
        Self { bulk, ..self }
    }

    /// Whether it is all but impossible that every one of so many symbols is lost, by chance.
    pub(crate) fn is_sure_of_one_of(self, symbols: usize) -> bool {
        // Beyond the longest message the chance is zero anyway.
        self.loss.powi(symbols.min(256) as i32) < DOUBT
    }

    /// Symbols of which `needed` arrive with confidence; at most twice as many and three.
    pub(crate) fn symbols_for(self, needed: usize) -> usize {
        if self.bulk {
            return needed;
        }
        let doubt = if needed <= SMALL { self.doubt.0 } else { self.doubt.1 };
        let most = 2 * needed + 3;
        // The chance that the last symbol needed is the one numbered `sent`: negative binomial.
        let (mut sent, mut chance) = (needed, (1.0 - self.loss).powi(needed as i32));
        let mut complete = chance;
        while complete < 1.0 - doubt && sent < most {
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

    fn symbols(needed: usize, percent: u32, bulk: bool) -> usize {
        let loss = Probability::from_ppm(percent * 10_000);
        Confidence::new(loss).in_bulk(bulk).symbols_for(needed)
    }

    // ARQ-REP-2
    #[test]
    fn a_time_out_may_be_a_lost_answer() {
        // Two copies are all lost with 1.4 %, but in nearly half of the cases none is needed.
        let loss = Probability::from_ppm(120_000);
        let known = Confidence::new(loss);
        let silent = known.after_time_out(loss, false);
        assert_eq!((known.symbols_for(1), silent.symbols_for(1)), (3, 2));
        // Nothing is lost on the way back: silence is as good as knowledge.
        assert_eq!(known.after_time_out(Probability::ZERO, false).symbols_for(1), 3);
        let lossless = Confidence::new(Probability::ZERO);
        assert_eq!(lossless.after_time_out(loss, false).symbols_for(1), 1);
    }

    // ARQ-REP-8
    #[test]
    fn the_fewer_answers_are_lost_the_less_they_are_doubted() {
        // Fewer than 12 of 16 arrive with 7.9 %, of 17 with 3.2 %, of 18 with 1.2 %, of 19 with 0.4 %.
        let loss = Probability::from_ppm(150_000);
        for (percent, expected) in [(0, 16), (4, 16), (5, 17), (10, 17), (14, 18), (100, 20)] {
            let reverse = Probability::from_ppm(percent * 10_000);
            let doubted = Confidence::new(loss).after_lost_answer(reverse);
            assert_eq!(doubted.symbols_for(12), expected, "{percent} % of the answers");
        }
    }

    // ARQ-REP-2
    #[test]
    fn enough_symbols_arrive_with_confidence() {
        // Exact values for 1 % failure, and 10 % of the larger ones, by an independent program.
        for (needed, percent, extra) in [
            (1, 1, 0),
            (1, 5, 1),
            (1, 10, 1),
            (1, 25, 3),
            (4, 1, 1),
            (4, 5, 2),
            (4, 10, 3),
            (4, 25, 5),
            (10, 1, 1),
            (10, 5, 3),
            (10, 10, 4),
            (10, 25, 9),
            (47, 1, 1),
            (47, 5, 5),
            (47, 10, 8),
            (47, 25, 22),
            (70, 1, 2),
            (70, 5, 6),
            (70, 10, 12),
            (70, 25, 31),
        ] {
            assert_eq!(symbols(needed, percent, false), needed + extra, "{needed}, {percent} %");
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
