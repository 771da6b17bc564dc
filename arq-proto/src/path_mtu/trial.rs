// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Does a size that passes arrive as often as *base*?
//!
//! A probe that was acknowledged shows that a size can pass, not that it does as well: some radios and tunnels lose a
//! share of what is long. So a size that was found is on trial first: a coin decides of each long packet whether it is
//! filled up to that size, for one in eight. If the size makes no difference, the coin has nothing to do with what is
//! lost, whatever the network loses and in whatever bursts. Then `exp` of the evidence below is a fair bet on the coin, as
//! in [`batches`](crate::batches): the chance that it ever grows to `1 / FALSE_ALARM_PER_PACKET` is `FALSE_ALARM_PER_PACKET` at most.
//!
//! Once a size is in use, only its loss is watched. Where that grows, *base* is in use again during another trial.

use rand_core::RngCore;

/// The accepted chance of a false alarm, for each packet of a trial.
const FALSE_ALARM_PER_PACKET: f64 = 1e-4;
/// One packet in so many is filled up.
const ONE_IN: u32 = 8;
const SHARE: f64 = 1.0 / ONE_IN as f64;
/// What a packet may tell, for each that is lost or arrives against expectation.
const STAKE: f64 = 1.0;
/// Packets of the larger size may lose so much more: each spares a header and a system call.
const MARGIN: f64 = 1.0 / 64.0;
/// How much of the expected loss is the last packet's.
const EXPECT: f64 = 1.0 / 64.0;
/// Filled packets of a trial that finds nothing: of a size that is new, and of one that came under suspicion.
const FIRST: u32 = 64;
const AGAIN: u32 = 256;
/// Packets over which the loss of a size in use is averaged, and the loss that makes it suspicious.
const MEMORY_PACKETS: f64 = 128.0;
const SUSPICIOUS: f64 = 1.0 / 32.0;
/// Longer sizes exist in wired networks and within machines: they are in use as soon as they pass.
const LONGEST_ON_TRIAL: u16 = 2_400;
/// Still longer ones exist within machines only: their loss is never that of their size.
const LONGEST_IN_DOUBT: u16 = 9_000;

/// What a packet is in a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Side {
    /// Not long, or there was no trial when it left.
    #[default]
    Neither,
    /// The coin left it as long as it was.
    Usual,
    /// It was filled up.
    Filled,
}

/// How a trial stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Open,
    /// The larger size does no harm.
    Good,
    /// It loses more.
    Bad,
}

/// Packets of two sizes are compared.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trial {
    /// The share that a packet is expected to lose.
    expected: f64,
    evidence: f64,
    /// Filled packets whose fate is known, and how many are needed.
    filled: u32,
    needed: u32,
    /// Filled packets whose fate is not known yet.
    unknown: u32,
    /// One of them arrived.
    passes: bool,
    /// The coin has decided so of the next packet.
    next_is_filled: bool,
}

impl Trial {
    /// Of a size that was found, if it needs one.
    pub(super) fn of_new(size: u16) -> Option<Self> {
        (size <= LONGEST_ON_TRIAL).then(|| Self::new(0.0, FIRST))
    }

    fn new(expected: f64, needed: u32) -> Self {
        Self {
            expected,
            evidence: 0.0,
            filled: 0,
            needed,
            unknown: 0,
            passes: false,
            next_is_filled: false,
        }
    }

    /// How many packets, of `most` at once, leave as they are; 0: one is to be filled up.
    pub(super) fn plan(&mut self, most: usize, rng: &mut impl RngCore) -> usize {
        let mut packets = 0;
        if self.is_paused() {
            return most;
        }
        while packets < most && !self.next_is_filled {
            self.next_is_filled = rng.next_u32().is_multiple_of(ONE_IN);
            packets += usize::from(!self.next_is_filled);
        }
        self.next_is_filled &= packets > 0;
        packets
    }

    /// Whether enough packets are filled up until more is known.
    pub(super) fn is_paused(&self) -> bool {
        self.unknown >= FIRST
    }

    /// A packet was filled up.
    pub(super) fn on_filled(&mut self) {
        self.unknown += 1;
    }

    /// The fate of a packet.
    pub(super) fn on_settled(&mut self, side: Side, lost: bool) -> Verdict {
        let filled = match side {
            Side::Neither => return Verdict::Open,
            Side::Usual => false,
            Side::Filled => true,
        };
        let lost = f64::from(u8::from(lost));
        let margin = if filled { MARGIN } else { 0.0 };
        let side = f64::from(u8::from(filled)) - SHARE;
        let bet = STAKE * side * (lost - margin - self.expected);
        self.expected += EXPECT * (lost - self.expected);
        self.evidence = (self.evidence + bet.ln_1p()).max(0.0);
        self.filled += u32::from(filled);
        self.unknown = self.unknown.saturating_sub(u32::from(filled));
        self.passes |= filled && lost == 0.0;
        let enough = -FALSE_ALARM_PER_PACKET.ln();
        if self.evidence >= enough {
            Verdict::Bad
        } else if self.filled >= self.needed && self.evidence < enough / 2.0 {
            Verdict::Good
        } else {
            Verdict::Open
        }
    }

    /// Whether anything of the larger size has arrived.
    pub(super) fn passes(&self) -> bool {
        self.passes
    }

    /// What the path loses.
    pub(super) fn loss(&self) -> f64 {
        self.expected
    }
}

/// What becomes of packets of a size that is in use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Watch {
    loss: f64,
    /// The loss above which there is a trial.
    tolerated: f64,
}

impl Default for Watch {
    fn default() -> Self {
        Self { loss: 0.0, tolerated: SUSPICIOUS }
    }
}

impl Watch {
    /// After a trial in which the path lost so much. The same loss is no reason for another one.
    pub(super) fn after(loss: f64) -> Self {
        Self { loss, tolerated: (2.0 * loss).max(SUSPICIOUS) }
    }

    /// The fate of a packet longer than base, where `size` is in use. If that raises the question, the trial.
    pub(super) fn on_settled(&mut self, size: u16, lost: bool) -> Option<Trial> {
        self.loss += (f64::from(u8::from(lost)) - self.loss) / MEMORY_PACKETS;
        let doubts = self.loss > self.tolerated && size <= LONGEST_IN_DOUBT;
        doubts.then(|| Trial::new(self.loss, AGAIN))
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;

    use super::*;

    /// The verdict on a path that loses so much of usual and of filled packets, and after how many of both.
    fn judge(mut trial: Trial, usual: f64, filled: f64, seed: u64) -> (Verdict, u32) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for packets in 1.. {
            let is_filled = trial.plan(1, &mut rng) == 0;
            let chance = f64::from(rng.next_u32()) / f64::from(u32::MAX);
            let lost = chance < if is_filled { filled } else { usual };
            let side = if is_filled { Side::Filled } else { Side::Usual };
            let verdict = trial.on_settled(side, lost);
            if verdict != Verdict::Open || packets == 100_000 {
                return (verdict, packets);
            }
        }
        unreachable!()
    }

    fn first() -> Trial {
        Trial::of_new(1_472).unwrap()
    }

    // ARQ-MTU-9
    #[test]
    fn a_clean_path_passes_after_five_hundred_packets() {
        let (verdict, packets) = judge(first(), 0.0, 0.0, 1);
        assert_eq!(verdict, Verdict::Good);
        assert!((400..640).contains(&packets), "{packets}");
        assert_eq!(Trial::of_new(8_972), None);
    }

    // ARQ-MTU-9
    #[test]
    fn a_size_that_loses_a_fifth_is_left() {
        let mut missed = 0;
        for seed in 0..200 {
            let (verdict, packets) = judge(first(), 0.0, 0.2, seed);
            assert!(packets < 3_000, "seed {seed}: {packets}");
            missed += u32::from(verdict == Verdict::Good);
            let (again, _) = judge(Trial::new(0.2, AGAIN), 0.0, 0.2, seed);
            assert_eq!(again, Verdict::Bad, "seed {seed}");
        }
        // Those come under suspicion as soon as the size is in use.
        assert!(missed <= 30, "{missed} of 200");
    }

    // ARQ-MTU-9
    #[test]
    fn loss_that_has_nothing_to_do_with_the_size_is_no_reason_to_leave_it() {
        for loss in [0.01, 0.1, 0.3] {
            let left =
                (0..300).filter(|&seed| judge(first(), loss, loss, seed).0 == Verdict::Bad).count();
            assert!(left <= 1, "{left} of 300 at {loss}");
        }
    }

    // ARQ-MTU-9
    #[test]
    fn a_size_in_use_is_doubted_when_it_begins_to_lose_and_not_twice_for_the_same_loss() {
        let lose = |watch: &mut Watch, one_in: u32, size: u16| {
            (1..4_000_u32).any(|n| watch.on_settled(size, n % one_in == 0).is_some())
        };
        assert!(!lose(&mut Watch::default(), 100, 1_472));
        assert!(lose(&mut Watch::default(), 10, 1_472));
        assert!(!lose(&mut Watch::after(0.1), 10, 1_472));
        assert!(lose(&mut Watch::after(0.1), 3, 1_472));
        assert!(!lose(&mut Watch::default(), 3, 65_507), "within a machine");
    }

    #[test]
    fn one_packet_in_eight_is_filled_and_the_others_leave_together() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let (mut trial, mut filled, mut usual) = (first(), 0, 0);
        for _ in 0..20_000 {
            match trial.plan(44, &mut rng) {
                0 => filled += 1,
                packets => usual += packets,
            }
        }
        let ratio = usual as f64 / f64::from(filled);
        assert!((6.5..7.5).contains(&ratio), "{ratio}");
    }
}
