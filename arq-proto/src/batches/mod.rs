// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Do packets that leave together arrive like packets that leave one by one?
//!
//! A batch goes to the kernel in one call and is cut into datagrams below it: by the kernel, a driver or
//! the network card (segmentation offload). Where that is broken the sender hears of no error: batches are
//! lost, single packets pass. A congested path loses batches, too, since a batch is a burst. So the loss of
//! batches only raises the question. A controlled experiment answers it: of the bursts that it takes, a coin decides of
//! each whether it leaves as a batch or packet by packet, back to back.
//!
//! If that makes no difference, the coin has nothing to do with what is lost, whatever the network
//! loses and in whatever bursts. Then `exp` of the evidence below is a fair bet on the coin: the chance that it ever grows
//! to `1 / FALSE_ALARM_PER_BURST` is `FALSE_ALARM_PER_BURST` at most, however often it is looked at (Ville's inequality).
//! It is kept from falling below zero, so damage that begins late is found as soon; that makes one in
//! `1 / FALSE_ALARM_PER_BURST` bursts the most that may start a false alarm.
//!
//! A packet that leaves by itself costs a system call, and most lossy paths damage nothing. So the experiment takes fewer and
//! shorter bursts where batches lose little.
//!
//! Requirements, numbered as in `docs/protocol.md`:
//!
//! - **ARQ-BAT-1** Packets may leave in batches (segmentation offload); after a probe time-out they leave one by
//!   one until the peer is heard.
//! - **ARQ-BAT-2** When batches lose more than 1/16, an experiment takes the share (4 x their loss)² of the bursts, all from
//!   1/4 on; a coin decides which of these leave as batches.
//! - **ARQ-BAT-3** Evidence of `ln 1,000,000` stops batches.
//! - **ARQ-BAT-4** Then loss, rate and chunk size are learnt anew.

use rand_core::RngCore;

/// The accepted chance of a false alarm, for each burst of an experiment.
const FALSE_ALARM_PER_BURST: f64 = 1e-6;
/// Evidence of a burst, per share of it that is lost beyond expectation.
const STAKE: f64 = 1.5;
/// Loss that batches may have beyond single packets, which cost a system call each.
const MARGIN: f64 = 1.0 / 64.0;
/// Weight of the newest burst in the expected loss.
const EXPECT: f64 = 1.0 / 16.0;
/// Packets over which the loss of batches is averaged, and the loss that starts an experiment.
const MEMORY_PACKETS: f64 = 32.0;
const SUSPICIOUS: f64 = 1.0 / 16.0;
/// Length of an experiment without evidence, in bursts; and of the rest after it, in batches.
const BURSTS: u32 = 256;
const REST_BATCHES: u32 = 16 * BURSTS;
/// The longest bursts of an experiment, in turn: a small window has several, and damage may need several segments.
const LONGEST: [usize; 4] = [2, 4, 8, usize::MAX];
/// The same while batches lose less than [`ALARMING`]. Damage of long batches alone loses more than that.
const LONGEST_OF_FEW: usize = 8;
/// Loss of batches from which an experiment takes every burst. Below, the share it takes falls with the loss squared.
const ALARMING: f64 = 0.25;

/// How a packet left, and in which burst: consecutive bursts differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Burst {
    /// By itself.
    #[default]
    Single,
    /// In a batch, outside of any experiment.
    Batch(u8),
    /// In a batch, by the coin.
    Together(u8),
    /// Packet by packet, by the coin.
    Apart(u8),
}

/// How the next packets are to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) burst: Burst,
    /// Packets of this transmission, at most.
    pub(crate) packets: usize,
    /// Bytes of the burst's first packet, if that has left.
    pub(crate) bytes: Option<usize>,
}

/// Decides whether packets leave in batches.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batches {
    stage: Stage,
    /// Bursts sent, wrapping.
    sent: u8,
    /// A burst that leaves packet by packet.
    run: Option<Run>,
    /// The burst whose packets settle now.
    settling: Tally,
    /// The mean share lost of batches.
    loss: f64,
    /// The share that a burst of the experiment is expected to lose.
    expected: f64,
    evidence: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// Batches leave.
    Trusting {
        /// Batches until the end of the rest after an experiment.
        rest: u32,
        /// An experiment begins above this loss of batches.
        tolerated: f64,
    },
    /// An experiment.
    Comparing { bursts: u32 },
    /// No batches leave any more.
    Stopped,
}

impl Default for Stage {
    fn default() -> Self {
        Self::Trusting { rest: 0, tolerated: SUSPICIOUS }
    }
}

#[derive(Debug, Clone, Copy)]
struct Run {
    burst: Burst,
    left: usize,
    /// Of its first packet, once that has left.
    bytes: Option<usize>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    burst: Burst,
    packets: u32,
    lost: u32,
}

impl Batches {
    /// Whether an experiment is under way.
    pub(crate) fn are_compared(&self) -> bool {
        matches!(self.stage, Stage::Comparing { .. })
    }

    /// How the next packets leave, `most` at once. `silent`: probes are unanswered, so only single packets leave.
    pub(crate) fn plan(&mut self, most: usize, silent: bool, rng: &mut impl RngCore) -> Plan {
        if most < 2 || silent || self.are_stopped() {
            self.run = None;
            return Plan { burst: Burst::Single, packets: 1, bytes: None };
        }
        let number = self.sent.wrapping_add(1);
        let is_compared = self.are_compared();
        let is_taken = is_compared && self.run.is_none() && self.takes_next(rng);
        let longest = self.longest().min(most);
        if is_taken && rng.next_u32() & 1 == 1 {
            self.run = Some(Run { burst: Burst::Apart(number), left: longest, bytes: None });
        }
        match self.run {
            Some(Run { burst, bytes, .. }) => Plan { burst, packets: 1, bytes },
            None if is_taken => {
                Plan { burst: Burst::Together(number), packets: longest, bytes: None }
            }
            None => Plan { burst: Burst::Batch(number), packets: most, bytes: None },
        }
    }

    /// Whether the experiment takes the next burst. Chance decides: a burst at a fixed place may be lost for its place.
    fn takes_next(&self, rng: &mut impl RngCore) -> bool {
        f64::from(rng.next_u32()) < (self.loss / ALARMING).powi(2) * f64::from(u32::MAX)
    }

    /// Packets of a burst of the experiment at most.
    fn longest(&self) -> usize {
        let longest = LONGEST[usize::from(self.sent) % LONGEST.len()];
        if self.loss < ALARMING {
            longest.min(LONGEST_OF_FEW)
        } else {
            longest
        }
    }

    /// Whether a burst is leaving packet by packet.
    pub(crate) fn is_in_run(&self) -> bool {
        self.run.is_some()
    }

    /// What was planned last was sent: the first packet has `bytes`; `None` if there was nothing to send.
    pub(crate) fn on_sent(&mut self, bytes: Option<usize>) {
        let Some(bytes) = bytes else {
            self.run = None;
            return;
        };
        let Some(run) = &mut self.run else {
            self.sent = self.sent.wrapping_add(1);
            return;
        };
        let others = run.bytes.replace(bytes);
        if others.is_none() {
            self.sent = self.sent.wrapping_add(1);
        }
        run.left -= 1;
        // As in a batch, a shorter packet is the last.
        if run.left == 0 || others.is_some_and(|others| others != bytes) {
            self.run = None;
        }
    }

    /// What became of the next packet, in the order of sending.
    pub(crate) fn on_settled(&mut self, burst: Burst, lost: bool) {
        if burst != self.settling.burst {
            let tally = std::mem::replace(&mut self.settling, Tally { burst, ..Tally::default() });
            self.judge(tally);
        }
        self.settling.packets += 1;
        self.settling.lost += u32::from(lost);
    }

    /// The fate of all packets of a burst is known.
    fn judge(&mut self, Tally { burst, packets, lost }: Tally) {
        // One packet is no burst.
        if packets < 2 {
            return;
        }
        let lost = f64::from(lost) / f64::from(packets);
        match (self.stage, burst) {
            (Stage::Stopped, _) | (_, Burst::Single) => {}
            (_, Burst::Batch(_)) => self.watch(packets, lost),
            (_, Burst::Together(_)) => {
                self.watch(packets, lost);
                self.weigh(lost - MARGIN, 1.0);
            }
            (_, Burst::Apart(_)) => self.weigh(lost, -1.0),
        }
    }

    /// Whether the loss of a batch is reason for an experiment.
    fn watch(&mut self, packets: u32, lost: f64) {
        let kept = (1.0 - 1.0 / MEMORY_PACKETS).powf(packets.into());
        self.loss = lost + kept * (self.loss - lost);
        if let Stage::Trusting { rest, tolerated } = &mut self.stage {
            *rest = rest.saturating_sub(1);
            if *rest == 0 {
                *tolerated = SUSPICIOUS;
            }
            if self.loss > *tolerated {
                self.stage = Stage::Comparing { bursts: 0 };
                self.expected = self.loss;
                tracing::debug!(loss = self.loss, "batches are compared with single packets");
            }
        }
    }

    /// A burst of an experiment lost the share `lost`. `side`: 1 for batches, -1 for the others.
    fn weigh(&mut self, lost: f64, side: f64) {
        let bet = STAKE * side * (lost - self.expected);
        self.expected += EXPECT * (lost - self.expected);
        self.evidence = (self.evidence + bet - bet.cosh().ln()).max(0.0);
        let Stage::Comparing { bursts } = &mut self.stage else { return };
        *bursts += 1;
        let enough = -FALSE_ALARM_PER_BURST.ln();
        if self.evidence >= enough {
            tracing::debug!(bursts, "batches lose more than single packets");
            self.stage = Stage::Stopped;
        } else if *bursts >= BURSTS && self.evidence < enough / 2.0 {
            // Only a much higher loss is reason for another experiment soon.
            let tolerated = (1.0 + self.loss) / 2.0;
            self.stage = Stage::Trusting { rest: REST_BATCHES, tolerated };
        }
    }

    /// Whether no batches leave because they are lost.
    pub(crate) fn are_stopped(&self) -> bool {
        self.stage == Stage::Stopped
    }

    /// Whether the batch, not the network, may have lost a packet of this burst.
    pub(crate) fn doubts(&self, burst: Burst) -> bool {
        match burst {
            Burst::Single | Burst::Apart(_) => false,
            Burst::Together(_) => !matches!(self.stage, Stage::Trusting { .. }),
            // While little is lost, what the experiment does not take is trusted as before it.
            Burst::Batch(_) => self.are_stopped() || self.are_compared() && self.loss >= ALARMING,
        }
    }

    /// The path changed. The verdict stays, because it is about the host.
    pub(crate) fn on_path_change(&mut self) {
        if !self.are_stopped() {
            *self = Self { sent: self.sent, run: self.run, ..Self::default() };
        }
    }
}

#[cfg(test)]
mod tests;
