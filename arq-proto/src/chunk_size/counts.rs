// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How many packets of each size were sent and lost, lately? Sizes a fifth apart count as one.
//!
//! The count of a size decays with packets of that size, and slowly with all others: a size that is rarely sent is
//! remembered for as long as it takes to know it.

/// Four to an octave, from 64 bytes to 64 KiB.
const BINS: usize = 40;
const PER_OCTAVE_LOG2: u32 = 2;
const SMALLEST_LOG2: u32 = 6;
/// Packets of a size, and packets of all sizes, after which older counts of the size weigh half.
const OWN_HALF_LIFE: f64 = 500.0;
const HALF_LIFE: f64 = 6_000.0;

/// Packets by size, with decay.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    bins: [Bin; BINS],
    /// Packets counted since the last fading.
    fresh: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    packets: f32,
    lost: f32,
    bytes: f32,
    /// Packets counted since the last fading.
    fresh: u32,
}

/// What is known of one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Size {
    pub(super) packets: f64,
    pub(super) lost: f64,
    pub(super) mean_bytes: f64,
}

impl Default for Counts {
    fn default() -> Self {
        Self { bins: [Bin::default(); BINS], fresh: 0 }
    }
}

impl Counts {
    /// One packet of `bytes` bytes on the wire.
    pub(super) fn add(&mut self, bytes: u32, lost: bool) {
        self.fresh += 1;
        let bin = &mut self.bins[bin_of(bytes)];
        bin.fresh += 1;
        bin.packets += 1.0;
        bin.lost += f32::from(u8::from(lost));
        bin.bytes += bytes as f32;
    }

    /// Packets counted since the last [`fade`](Self::fade).
    pub(super) fn fresh(&self) -> u32 {
        self.fresh
    }

    /// Applies the decay.
    pub(super) fn fade(&mut self) {
        let halvings = f64::from(std::mem::take(&mut self.fresh)) / HALF_LIFE;
        for bin in &mut self.bins {
            let own = f64::from(std::mem::take(&mut bin.fresh)) / OWN_HALF_LIFE;
            let factor = 0.5_f64.powf(halvings + own) as f32;
            bin.packets *= factor;
            bin.lost *= factor;
            bin.bytes *= factor;
        }
    }

    /// Every size of which packets are remembered, ascending.
    pub(super) fn sizes(&self) -> impl Iterator<Item = Size> + '_ {
        self.bins.iter().filter(|bin| bin.packets > 0.0).map(|bin| Size {
            packets: bin.packets.into(),
            lost: bin.lost.into(),
            mean_bytes: f64::from(bin.bytes) / f64::from(bin.packets),
        })
    }

    /// The share lost of all, and their mean size; `None` before enough were counted.
    pub(super) fn overall(&self) -> Option<(f64, f64)> {
        let (mut packets, mut lost, mut bytes) = (0.0, 0.0, 0.0);
        for size in self.sizes() {
            packets += size.packets;
            lost += size.lost;
            bytes += size.packets * size.mean_bytes;
        }
        (packets >= 100.0).then(|| (lost / packets, bytes / packets))
    }
}

fn bin_of(bytes: u32) -> usize {
    let octave = bytes.max(1).ilog2();
    if octave < SMALLEST_LOG2 {
        return 0;
    }
    let quarter = (bytes >> (octave - PER_OCTAVE_LOG2)) & ((1 << PER_OCTAVE_LOG2) - 1);
    let bin = ((octave - SMALLEST_LOG2) << PER_OCTAVE_LOG2) + quarter;
    (bin as usize).min(BINS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_kept_apart_in_ascending_bins() {
        let bins: Vec<_> = (0..=65_535 + 28).map(bin_of).collect();
        assert!(bins.is_sorted());
        assert_eq!((bins[0], bins[63], bins[64], bins[65_535 + 28]), (0, 0, 0, BINS - 1));
        assert!(bin_of(1_228) > bin_of(800) && bin_of(800) > bin_of(600));
        let widest = (64..49_000_u32).find(|&n| bin_of(n + n / 3) == bin_of(n));
        assert_eq!(widest, None, "a third more is another size");
    }

    #[test]
    fn old_packets_fade() {
        let mut counts = Counts::default();
        let of = |counts: &Counts, bytes: f64| {
            counts
                .sizes()
                .find(|size| (size.mean_bytes - bytes).abs() < 1.0)
                .map_or(0.0, |size| size.packets)
        };
        (0..500).for_each(|_| counts.add(1_000, true));
        (0..500).for_each(|_| counts.add(100, true));
        counts.fade();
        // Half by their own, a sixth of a halving by all.
        assert!((of(&counts, 1_000.0) - 500.0 * 0.5_f64.powf(1.0 + 1.0 / 6.0)).abs() < 0.1);
        let before = of(&counts, 1_000.0);
        (0..6_000).for_each(|_| counts.add(100, false));
        counts.fade();
        assert!((of(&counts, 1_000.0) - before / 2.0).abs() < 0.1, "seldom sent, long remembered");
        assert!(of(&counts, 100.0) < 2.0);
    }
}
