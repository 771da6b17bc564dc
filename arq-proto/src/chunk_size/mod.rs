// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which size of chunks pays, below what the path carries?
//!
//! The largest, nearly always: each packet costs a header, and loss that does not depend on size is
//! made worse by smaller ones. Only where a weak signal flips bits is a short packet likelier to arrive.
//! So the largest size is left on evidence alone: a fit of loss to size whose slope is three standard
//! errors above zero, and a gain of 3 % in bytes. Evidence comes from the sizes that the traffic has
//! anyway, and from one message in sixteen, cut smaller, where so much is lost that it could pay.
//!
//! A size is chosen when a message begins and holds for all of it. What the path *carries* is another
//! question: [`path_mtu`](crate::path_mtu).
//!
//! Requirements, numbered as in `docs/protocol.md`:
//!
//! - **ARQ-CHK-1** A message takes the largest chunk size that fits a packet, or the configured one if smaller;
//!   `chunk=auto` tries smaller ones in one of 16 messages under high loss.
//! - **ARQ-CHK-2** The evidence is the loss of ack-eliciting packets by length.
//! - **ARQ-CHK-3** The largest size is left only where that saves 3 % of the bytes beyond three standard errors.

mod counts;
mod fit;

use crate::{symbol::Symbol, wire::MIN_CHUNK_BYTES};
use counts::Counts;
use fit::Fit;

/// Headers of IPv4 and UDP.
const BELOW_BYTES: u32 = 28;
/// Bytes on the wire beside those of the message, in a packet with a chunk.
const OVERHEAD_BYTES: usize = 58;
/// Sizes that are tried, each 5/4 of the one before.
const SIZES: [usize; 13] =
    [512, 640, 800, 1_000, 1_250, 1_560, 1_950, 2_440, 3_050, 3_810, 4_770, 5_960, 7_450];
/// Packets between two decisions.
const DECIDE_EVERY: u32 = 64;
/// Messages between two that try another size.
const EXPLORE_EVERY: u32 = 16;
/// Another size is tried if it costs at most this share of the present one.
const WORTH_TRYING: f64 = 0.97;
/// A smaller size is kept while it costs at most this share of the largest.
const WORTH_KEEPING: f64 = 0.99;
/// Standard errors of the slope: above this the largest size is left, below that it is taken again.
const LEAVE_ABOVE_ERRORS: f64 = 3.0;
const RETURN_BELOW_ERRORS: f64 = 1.0;

/// Chooses the chunk size of messages that begin.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChunkTuner {
    counts: Counts,
    /// `None` is the largest.
    chosen: Option<usize>,
    /// The size to try now and then.
    explore: Option<usize>,
    messages: u32,
    changes: u64,
}

impl ChunkTuner {
    /// The largest chunk of a message that begins now, where a packet has room for `largest` bytes.
    pub(crate) fn chunk_bytes(&self, largest: usize) -> usize {
        let tried = self.explore.filter(|_| self.messages % EXPLORE_EVERY == EXPLORE_EVERY - 1);
        let size = tried.or(self.chosen).unwrap_or(largest);
        size.max(MIN_CHUNK_BYTES.into()).min(largest)
    }

    /// A chunk was sent for the first time.
    pub(crate) fn on_chunk(&mut self, symbol: Symbol, bytes: usize) {
        // A message that fits the smallest chunk is not segmented.
        if symbol == Symbol::Source(0) && bytes >= MIN_CHUNK_BYTES.into() {
            self.messages = self.messages.wrapping_add(1);
        }
    }

    /// The fate of a packet with `bytes` of UDP payload.
    pub(crate) fn on_settled(&mut self, bytes: u32, lost: bool) {
        self.counts.add(bytes + BELOW_BYTES, lost);
    }

    /// Chooses anew, if enough packets were counted. `burst`: how many are lost in a row, in multiples
    /// of what chance makes.
    pub(crate) fn decide(&mut self, largest: usize, burst: f64) {
        if self.counts.fresh() < DECIDE_EVERY {
            return;
        }
        self.counts.fade();
        let fit = Fit::of(&self.counts, burst);
        let before = self.chosen;
        self.chosen = choose(fit, before, largest);
        if self.chosen != before {
            self.changes += 1;
            tracing::debug!(?before, after = ?self.chosen, ?fit, "chunk size changed");
        }
        self.explore = match self.chosen {
            None => self.suspect(fit, largest),
            // What shows the way back.
            Some(_) => Some(largest),
        };
    }

    /// Where to look for evidence: the size that would be best if all of the loss were due to size, as
    /// far as that is not ruled out; `None` if even then nothing could be gained.
    fn suspect(&self, fit: Option<Fit>, largest: usize) -> Option<usize> {
        let worst = Fit::at_worst(&self.counts, fit)?;
        let best = best(worst, largest);
        let pays =
            worst.cost(best, OVERHEAD_BYTES) < WORTH_TRYING * worst.cost(largest, OVERHEAD_BYTES);
        pays.then_some(best)
    }

    /// Times that the size was changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }
}

/// The size to use from now on; `None` is the largest.
fn choose(fit: Option<Fit>, chosen: Option<usize>, largest: usize) -> Option<usize> {
    let chosen = chosen.filter(|&size| size < largest);
    // Without packets of two sizes there is nothing to go by.
    let fit = fit?;
    let doubt = if chosen.is_none() { LEAVE_ABOVE_ERRORS } else { RETURN_BELOW_ERRORS };
    if fit.slope < doubt * fit.error {
        return None;
    }
    let target = best(fit, largest);
    let present = chosen.unwrap_or(largest);
    if let Some(size) = chosen {
        if fit.cost(size, OVERHEAD_BYTES) > WORTH_KEEPING * fit.cost(largest, OVERHEAD_BYTES) {
            return None;
        }
    }
    if fit.cost(target, OVERHEAD_BYTES) < WORTH_TRYING * fit.cost(present, OVERHEAD_BYTES) {
        (target < largest).then_some(target)
    } else {
        chosen
    }
}

/// The size that costs least, the largest of equals.
fn best(fit: Fit, largest: usize) -> usize {
    let sizes = SIZES.into_iter().filter(|&size| size < largest);
    let cost = |size: usize| fit.cost(size, OVERHEAD_BYTES);
    sizes.fold(largest, |best, size| if cost(size) < cost(best) { size } else { best })
}

#[cfg(test)]
mod tests;
