// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! When may the next burst leave? A token bucket (RFC 9002 §7.7).
//!
//! Bursts overflow shallow buffers, and waking up for every packet costs CPU. So the bucket holds what the rate yields in
//! [`BURST_TIME`], between a few packets and one segmentation-offload send, or the burst that the controller knows to cause no
//! queue. While urgent messages may come, bulk has a smaller bucket: they wait in the network behind all that has left.

use std::time::{Duration, Instant};

use crate::{congestion::bytes_of, units::Rate};

/// Size of the bucket in time: a timer with a resolution of 0.1 ms can keep half a millisecond.
const BURST_TIME: Duration = Duration::from_micros(500);
/// The same while urgent messages may come: it delays them by so much, and a timer on a busy host keeps it.
const SHORT_BURST_TIME: Duration = Duration::from_millis(2);
/// Packets that may always leave together: the first flight of a message should not wait.
const MIN_BURST_PACKETS: u64 = 10;
/// The largest single send of segmentation offload.
const MAX_BURST_BYTES: u64 = 64 << 10;
/// Longest time by which a busy host may wake the sender late without losing tokens: about a time slice. Otherwise such a host
/// would always send below the rate. With late tokens the bucket holds at most this many bytes.
const LATE_TIME: Duration = Duration::from_millis(4);
const MAX_LATE_BYTES: u64 = 256 << 10;

/// Paced packets get this part of the rate at least, whatever unpaced ones take.
const RESERVED: u64 = 4;
/// Longest wait for half a bucket where no bursts are wanted, unless a single packet takes longer.
const MAX_WAIT: Duration = Duration::from_millis(1);
/// Shortest wait, however high the rate.
const MIN_WAIT: Duration = Duration::from_micros(1);

/// A token bucket in bytes.
#[derive(Debug, Clone)]
pub(crate) struct Pacer {
    mtu: u64,
    tokens: u64,
    /// Bytes that left without tokens: probes and acknowledgements are not paced, but repaid from later tokens.
    debt: u64,
    /// Bytes that one wake-up sends: a burst, not a packet.
    quantum: u64,
    /// Most tokens that a pause earns.
    capacity: u64,
    /// Tokens beyond that, because the sender woke up late.
    late: u64,
    /// Bursts are bounded by [`SHORT_BURST_TIME`].
    is_short: bool,
    refilled_at: Instant,
    /// When the sender was told to come back, while it waits for nothing else.
    awaited: Option<Instant>,
}

impl Pacer {
    /// A full bucket for datagrams of `mtu` bytes.
    #[must_use]
    pub(crate) fn new(mtu: u16, now: Instant) -> Self {
        let mtu = u64::from(mtu);
        let quantum = bytes_of(MIN_BURST_PACKETS, mtu);
        Self {
            mtu,
            tokens: quantum,
            debt: 0,
            quantum,
            capacity: quantum,
            late: 0,
            is_short: false,
            refilled_at: now,
            awaited: None,
        }
    }

    /// Datagrams now have up to `mtu` bytes.
    pub(crate) fn set_mtu(&mut self, mtu: u16) {
        self.mtu = mtu.into();
    }

    /// What waits may leave in short bursts only, until further notice.
    pub(crate) fn shorten_bursts(&mut self, is_short: bool) {
        self.is_short = is_short;
    }

    /// When a datagram may leave: `None` is now. `burst`: bytes that may leave at once after a pause, if that is
    /// more than the pacer's own; without it nothing ever leaves in longer bursts than that.
    pub(crate) fn delay_until(
        &mut self,
        now: Instant,
        rate: Rate,
        burst: Option<u64>,
    ) -> Option<Instant> {
        let awaited = self.awaited.take().filter(|_| burst.is_some());
        let late = awaited.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.refill(now, rate, burst.unwrap_or(0), late);
        if self.tokens >= self.mtu {
            return None;
        }
        // Wake up for a burst, not for one packet. Where bursts are wanted, the path's queue is busy meanwhile; where
        // they are not, the path would idle, so at low rates each packet leaves in its time.
        let half = match burst {
            Some(_) => self.quantum / 2,
            None => rate.bytes_in(MAX_WAIT).min(self.quantum / 2),
        };
        let wanted = half.max(self.mtu) + self.debt - self.tokens;
        let at = now + rate.time_for(wanted.next_multiple_of(RESERVED)).max(MIN_WAIT);
        self.awaited = Some(at);
        Some(at)
    }

    /// The sender has nothing to send, or is blocked by something else.
    pub(crate) fn rest(&mut self) {
        (self.awaited, self.late) = (None, 0);
        self.tokens = self.tokens.min(self.capacity);
    }

    /// Takes the tokens of what was sent.
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.owe(bytes.saturating_sub(self.tokens));
        self.tokens = self.tokens.saturating_sub(bytes);
        // Late tokens can be used only once.
        self.late = self.late.min(self.tokens.saturating_sub(self.capacity));
    }

    /// Unpaced packets make a bounded debt, repaid from future tokens, so that they do not starve paced ones.
    pub(crate) fn owe(&mut self, bytes: u64) {
        self.debt = (self.debt + bytes).min(self.quantum);
    }

    fn refill(&mut self, now: Instant, rate: Rate, burst: u64, late_by: Duration) {
        let least = bytes_of(MIN_BURST_PACKETS, self.mtu);
        self.quantum = rate.bytes_in(BURST_TIME).clamp(least, MAX_BURST_BYTES.max(least));
        self.capacity = self.quantum.max(burst);
        if self.is_short {
            let short = rate.bytes_in(SHORT_BURST_TIME).max(self.mtu);
            self.quantum = self.quantum.min(short);
            self.capacity = self.quantum;
        }
        let late_bytes = rate.bytes_in(late_by.min(LATE_TIME));
        self.late = self.late.max(late_bytes).min(MAX_LATE_BYTES.saturating_sub(self.capacity));
        let most = self.capacity + self.late;
        let earned = rate.bytes_in(now.saturating_duration_since(self.refilled_at));
        // In multiples of it, or frequent refills would round the reserved part down to nothing.
        let earned = earned - earned % RESERVED;
        let paid = self.debt.min(earned - earned / RESERVED);
        let tokens = self.tokens.saturating_add(earned - paid);
        self.debt -= paid;
        if tokens >= most {
            self.tokens = most;
            self.refilled_at = now;
        } else {
            self.tokens = tokens;
            // Only the time of the earned tokens: frequent refills must not lose fractions.
            self.refilled_at += rate.time_for(earned);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn per_second(bytes: u64) -> Rate {
        Rate::from_bytes_per_second(bytes)
    }

    // ARQ-CC-4
    #[test]
    fn the_rate_is_kept_over_a_second() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let t0 = Instant::now();
        for rate in [50_000, 1_000_000, 12_500_000, 125_000_000].map(per_second) {
            let mut pacer = Pacer::new(1_200, t0);
            let (mut now, mut sent) = (t0, 0_u64);
            while now < t0 + Duration::from_secs(1) {
                match pacer.delay_until(now, rate, Some(0)) {
                    Some(later) => {
                        assert!(later > now);
                        now = later;
                    }
                    None => {
                        pacer.on_sent(1_200);
                        sent += 1_200;
                    }
                }
            }
            let expected = rate.bytes_per_second() + 10 * 1_200;
            let error = sent.abs_diff(expected) as f64 / expected as f64;
            assert!(error < 0.1, "{rate:?}: sent {sent}");
        }
    }

    // ARQ-CC-9
    #[test]
    fn a_pause_earns_a_burst_and_no_more() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let t0 = Instant::now();
        let rate = per_second(1_200_000);
        let mut pacer = Pacer::new(1_200, t0);
        let mut sent_at_once = |now, burst| {
            let mut packets = 0;
            while pacer.delay_until(now, rate, Some(burst)).is_none() {
                pacer.on_sent(1_200);
                packets += 1;
            }
            // The wait is that for the next few packets, not for the next burst.
            let wait = pacer.delay_until(now, rate, Some(burst));
            assert!(wait <= Some(now + Duration::from_millis(5)));
            pacer.rest();
            packets
        };
        let burst = 60_000;
        assert_eq!(sent_at_once(t0, burst), 10, "nothing was earned yet");
        assert_eq!(sent_at_once(t0 + Duration::from_millis(20), burst), 20, "what the rate yields");
        let later = t0 + Duration::from_secs(9);
        assert_eq!(sent_at_once(later, burst), 50, "and never more than the burst");
    }

    // ARQ-CC-9
    #[test]
    fn a_burst_that_was_cut_is_cut_at_once() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let t0 = Instant::now();
        let mut pacer = Pacer::new(1_200, t0);
        let later = t0 + Duration::from_secs(9);
        let rate = per_second(1_200_000);
        assert_eq!(pacer.delay_until(later, rate, Some(60_000)), None);
        pacer.rest();
        let mut packets = 0;
        while pacer.delay_until(later, rate, Some(0)).is_none() {
            pacer.on_sent(1_200);
            packets += 1;
        }
        assert_eq!(packets, 10);
    }

    // ARQ-CC-14
    #[test]
    fn a_short_burst_is_that_of_two_milliseconds_but_a_packet_at_least() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let t0 = Instant::now();
        let later = t0 + Duration::from_secs(9);
        for (rate, short, usual) in [(120_000, 1, 50), (3_000_000, 5, 50), (60_000_000, 25, 50)] {
            for (is_short, expected) in [(true, short), (false, usual)] {
                let mut pacer = Pacer::new(1_200, t0);
                pacer.shorten_bursts(is_short);
                let mut packets = 0;
                while pacer.delay_until(later, per_second(rate), Some(60_000)).is_none() {
                    pacer.on_sent(1_200);
                    packets += 1;
                }
                assert_eq!(packets, expected, "{rate} B/s, short: {is_short}");
            }
        }
    }

    // ARQ-CC-4
    #[test]
    fn a_sender_that_comes_late_has_what_accrued_and_one_that_rested_has_not() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let t0 = Instant::now();
        let (rate, ms) = (per_second(12_000_000), Duration::from_millis(1));
        let sent_after = |late: Duration, rests: bool, burst: Option<u64>| {
            let mut pacer = Pacer::new(1_200, t0);
            let mut now = t0;
            let mut packets = 0;
            for _ in 0..2 {
                packets = 0;
                while pacer.delay_until(now, rate, burst).is_none() {
                    pacer.on_sent(1_200);
                    packets += 1;
                }
                if rests {
                    pacer.rest();
                }
                now = pacer.awaited.unwrap_or(now) + late;
            }
            packets
        };
        // Half a bucket of ten packets was waited for; ten packets accrue in a millisecond.
        assert_eq!(sent_after(Duration::ZERO, false, Some(0)), 5);
        assert_eq!(sent_after(ms, false, Some(0)), 5 + 10);
        assert_eq!(sent_after(3 * ms, false, Some(0)), 5 + 30);
        assert_eq!(sent_after(40 * ms, false, Some(0)), 10 + 40, "a time slice");
        assert_eq!(sent_after(40 * ms, true, Some(0)), 10, "a pause");
        assert_eq!(sent_after(40 * ms, false, None), 10, "no bursts are wanted");
    }

    // ARQ-CC-4
    #[test]
    fn at_a_low_largest_rate_a_sender_waits_for_a_packet() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let t0 = Instant::now();
        for (rate, wait_us) in
            [(125_000, 9_600), (3_000_000, 1_000), (12_000_000, 500), (128_000_000, 250)]
        {
            let mut pacer = Pacer::new(1_200, t0);
            pacer.on_sent(12_000);
            let (rate, wait) = (per_second(rate), Duration::from_micros(wait_us));
            assert_eq!(pacer.delay_until(t0, rate, None), Some(t0 + wait), "{rate:?}");
            assert_eq!(pacer.delay_until(t0 + wait, rate, None), None, "{rate:?}");
        }
    }

    /// Where a packet's time is no whole number of nanoseconds, too.
    // ARQ-CC-4
    #[test]
    fn who_comes_when_told_to_may_send() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let t0 = Instant::now();
        for rate in [70_001, 123_457, 999_983, 7_000_003].map(per_second) {
            let (mut pacer, mut now) = (Pacer::new(1_201, t0), t0);
            for _ in 0..100 {
                pacer.owe(7);
                while pacer.delay_until(now, rate, None).is_none() {
                    pacer.on_sent(1_201);
                }
                now = pacer.delay_until(now, rate, None).unwrap_or(now);
                assert_eq!(pacer.delay_until(now, rate, None), None, "{rate:?}");
            }
        }
    }

    // ARQ-CC-7
    #[test]
    fn who_asks_often_gets_that_quarter_too() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let t0 = Instant::now();
        let mut pacer = Pacer::new(1_200, t0);
        pacer.on_sent(12_000);
        let mut bytes = 0_u64;
        for tick in 1..=60_000 {
            // Twice the rate.
            pacer.owe(2);
            let now = t0 + tick * Duration::from_millis(1);
            while pacer.delay_until(now, per_second(1_000), None).is_none() {
                pacer.on_sent(1_200);
                bytes += 1_200;
            }
        }
        assert!((12_000..=15_600).contains(&bytes), "{bytes} bytes in a minute");
    }

    // ARQ-CC-7
    #[test]
    fn who_waits_gets_a_quarter_beside_what_never_waits() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let t0 = Instant::now();
        let rate = per_second(12_000);
        let mut pacer = Pacer::new(1_200, t0);
        let mut packets = 0_u64;
        for tick in 1..=1_000 {
            pacer.owe(200);
            while pacer.delay_until(t0 + tick * Duration::from_millis(10), rate, None).is_none() {
                pacer.on_sent(1_200);
                packets += 1;
            }
        }
        // Acknowledgements alone take 20,000 bytes a second of the 12,000.
        let bytes = packets * 1_200;
        assert!((20_000..=45_000).contains(&bytes), "{bytes} bytes in ten seconds");
    }

    // ARQ-CC-4, ARQ-CC-7
    #[test]
    fn what_did_not_wait_is_paid_for_but_not_for_ever() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let t0 = Instant::now();
        let rate = per_second(1_200_000);
        let mut pacer = Pacer::new(1_200, t0);
        pacer.on_sent(12_000 + 2_400);
        // Half a bucket and the debt, at a packet per millisecond; a packet and the debt where no bursts are wanted.
        assert_eq!(pacer.delay_until(t0, rate, None), Some(t0 + Duration::from_millis(1 + 2)));
        assert_eq!(pacer.delay_until(t0, rate, Some(0)), Some(t0 + Duration::from_millis(5 + 2)));
        pacer.on_sent(1_000_000);
        assert_eq!(pacer.delay_until(t0, rate, Some(0)), Some(t0 + Duration::from_millis(5 + 10)));
        let later = t0 + Duration::from_millis(15);
        assert_eq!(pacer.delay_until(later, rate, Some(0)), None);
    }
}
