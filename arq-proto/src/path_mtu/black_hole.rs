// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Has the path stopped carrying large packets? (RFC 8899 §4.3)
//!
//! Not a count of time-outs but a comparison of two explanations. "Nothing above a size passes" makes
//! every large packet lost between small ones that arrive; "the path loses as it always has" makes
//! that unlikely, and less likely each time. How unlikely, follows from what the path loses of packets
//! like these: where longer ones are lost more often (bit errors), from the loss of large ones, and
//! where loss has just begun, from that of the small ones between. Large packets lost in a row count
//! once however many they are: a fade takes all that is in it, and only a small packet that arrives
//! after them shows that there was none.

use crate::{chance::losses_beyond_chance, units::Probability};

/// The accepted chance that random loss alone looks like this. It is asked anew with every loss, so
/// it is smaller than that of a single decision.
const FALSE_BLACK_HOLE: f64 = 1e-6;
/// Least and most rounds of evidence.
const LEAST_ROUNDS: u32 = 4;
const MOST_ROUNDS: u32 = 20;
/// Where only large packets are sent, this many time-outs ask for a small one.
const SILENT_TIME_OUTS: u32 = 4;
/// Large packets over which their loss is averaged.
const MEMORY_PACKETS: f64 = 64.0;

/// What speaks for a black hole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BlackHole {
    /// Large packets were lost, and nothing has arrived since.
    pending: bool,
    /// Times that this was followed by a small packet that arrived, without a large one that did.
    rounds: u32,
    /// The loss before it began: what a black hole takes must not explain it.
    loss: Probability,
    /// The mean loss of large packets before it began.
    loss_of_large: f64,
    /// Packets since the last large one that arrived.
    since: Since,
}

/// What became of packets.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Since {
    large_lost: u32,
    small_lost: u32,
    small_arrived: u32,
}

impl Since {
    fn loss_of_small(self) -> f64 {
        let settled = self.small_lost.saturating_add(self.small_arrived).max(1);
        f64::from(self.small_lost) / f64::from(settled)
    }
}

impl BlackHole {
    pub(super) fn new(loss: Probability) -> Self {
        Self {
            pending: false,
            rounds: 0,
            loss,
            loss_of_large: loss.as_f64(),
            since: Since::default(),
        }
    }

    /// The fate of the next packet, in the order of sending. `loss` is what the path loses.
    pub(super) fn record(&mut self, large: bool, lost: bool, loss: Probability) {
        match (large, lost) {
            (true, false) => {
                let loss_of_large = self.loss_of_large_until_now();
                *self = Self { loss_of_large, ..Self::new(loss) };
            }
            (true, true) => {
                self.pending = true;
                self.since.large_lost = self.since.large_lost.saturating_add(1);
            }
            (false, false) => {
                self.since.small_arrived = self.since.small_arrived.saturating_add(1);
                self.rounds += u32::from(std::mem::take(&mut self.pending));
            }
            (false, true) => self.since.small_lost = self.since.small_lost.saturating_add(1),
        }
    }

    /// The mean with those lost since, and one that arrived.
    fn loss_of_large_until_now(&self) -> f64 {
        let fades = |packets: f64| (1.0 - 1.0 / MEMORY_PACKETS).powf(packets);
        let arrived = (1.0 - self.loss_of_large) * fades(self.since.large_lost.into());
        (1.0 - arrived) * fades(1.0)
    }

    /// Whether chance explains it no more.
    pub(super) fn is_found(&self) -> bool {
        let loss = self.loss.as_f64().max(self.loss_of_large).max(self.since.loss_of_small());
        self.rounds >= rounds_needed(loss)
    }

    /// Whether a small packet would tell more. `time_outs`: so many in a row, without an answer.
    pub(super) const fn wants_small_packet(&self, time_outs: u32) -> bool {
        self.rounds > 0 || (self.pending && time_outs >= SILENT_TIME_OUTS)
    }

    /// The loss that it reckons with.
    pub(super) const fn loss(&self) -> Probability {
        self.loss
    }
}

fn rounds_needed(loss: f64) -> u32 {
    losses_beyond_chance(loss, FALSE_BLACK_HOLE, LEAST_ROUNDS..=MOST_ROUNDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(percent: u32) -> Probability {
        Probability::from_ppm(percent * 10_000)
    }

    /// `L` and `S` are large and small packets that arrive, `l` and `s` lost ones.
    fn found(fates: &str, loss: Probability) -> bool {
        let mut detector = BlackHole::new(loss);
        for fate in fates.chars() {
            detector.record("Ll".contains(fate), "ls".contains(fate), Probability::from_f64(0.5));
        }
        detector.is_found()
    }

    // ARQ-MTU-6
    #[test]
    fn rounds_follow_from_the_loss() {
        let by_loss = [0_u32, 1, 5, 10, 25, 50].map(|loss| rounds_needed(f64::from(loss) / 100.0));
        assert_eq!(by_loss, [4, 4, 5, 6, 10, 20]);
    }

    // ARQ-MTU-6
    #[test]
    fn verdicts() {
        for (fates, loss, expected) in [
            ("lSlSlSlS", 1, true),
            ("lSlSlS", 1, false),
            // Interrupted by a large one that arrived; from then on the loss counts that holds now.
            ("lSlSlSLlS", 1, false),
            ("lSlSlSLlSlSlSlS", 1, false),
            // The loss of before counts.
            ("lSlSlSlS", 10, false),
            ("lSlSlSlSlSlS", 10, true),
            // Loss has just begun, for small packets as well.
            ("lsSlsSlsSlsS", 1, false),
            // What few small ones are lost does not hide it.
            ("lSSSSlSSSSlSSsSlSSSSlSSSS", 1, true),
            // Fades, and silence.
            ("llllllllllllllllllllllllllll", 1, false),
            ("llllslllslllslllslllsllll", 1, false),
            ("lllllllllllllllllllllSSSSSSSS", 1, false),
        ] {
            assert_eq!(found(fates, percent(loss)), expected, "{fates} at {loss} %");
        }
    }
}
