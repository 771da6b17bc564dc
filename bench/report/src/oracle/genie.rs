// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! When would an ideal selective repeat have delivered through the losses that a run really had?
//!
//! The packet log of the run tells when a packet entered the forward direction and whether it was lost. The genie is
//! asked what had become of packets that were never sent, and answers: *a packet sent at time t meets the fate of the
//! first logged packet that entered at t or later; of several in a row each meets the next one's.* So a burst of
//! losses in the log hits the genie's packets of that time too, and a run gives the same answer each time.
//!
//! Limits of that answer. A link that sends little samples the network at few moments, and its genie knows no others;
//! after the last logged packet nothing is lost. The log counts packets, so that a burst of so many *packets* is as
//! long for the genie as it was for the link. Only losses that no sender can help belong into the log (the loss model,
//! bit errors), not those of a full queue. Delay is the delay as it was set, without jitter. Blackouts are taken from
//! the events, for a link that falls silent in one leaves no trace of it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use netlab::wire::{Change, Conditions, Event};

use super::{packet_time_ms, packets, percentiles, timetable};
use crate::record::Percentiles;
use crate::scenario::flow::Flow;

/// So often a packet meets a blackout at most, on average over a message: repeats that keep step with blackouts would
/// meet them for ever.
const MOST_DARK_REPEATS: usize = 1_000;

/// A packet that entered the forward direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// When, since the network's clock began.
    pub entered_ns: u64,
    /// Whether the loss model or a bit error took it.
    pub lost: bool,
}

/// Latency percentiles of the ideal selective repeat for the messages of a periodic flow, over all of them; `None`
/// for other flows, without a log, where events change the delay or the rate, and where a repeat each round trip never
/// meets the light between blackouts.
///
/// `log` is ascending in time; `first_departure_ns` is when the first message was meant to leave, on the log's clock.
pub fn genie(
    flow: &Flow,
    network: &Conditions,
    log: &[Passage],
    first_departure_ns: u64,
) -> Option<Percentiles> {
    let (rate_hz, messages) = timetable(flow)?;
    let times_change = network
        .events
        .iter()
        .any(|event| matches!(event.change, Change::DelayMs(_) | Change::RateMbps(_)));
    if log.is_empty() || times_change || messages == 0 {
        return None;
    }
    let genie = Genie::new(flow, network, log);
    let departure = |message: u64| first_departure_ns + ns(message as f64 / rate_hz * 1e3);
    let latencies_ms: Option<Vec<f64>> =
        (0..messages).map(|message| genie.latency_ms(departure(message))).collect();
    let mut latencies_ms = latencies_ms?;
    latencies_ms.sort_by(f64::total_cmp);
    Some(percentiles(&latencies_ms))
}

struct Genie<'a> {
    log: &'a [Passage],
    events: &'a [Event],
    packets: usize,
    packet_time_ns: u64,
    delay_ns: u64,
    round_trip_ns: u64,
}

impl<'a> Genie<'a> {
    fn new(flow: &Flow, network: &'a Conditions, log: &'a [Passage]) -> Self {
        let (forward, backward) = (&network.forward, &network.backward);
        let packets = packets(flow.payload_bytes, forward);
        Self {
            log,
            events: &network.events,
            packets,
            packet_time_ns: ns(packet_time_ms(flow.payload_bytes, packets, forward)),
            delay_ns: ns(forward.delay_ms),
            // A round trip of no time at all would repeat a packet into a blackout for ever.
            round_trip_ns: ns(forward.delay_ms + backward.delay_ms).max(1_000),
        }
    }

    /// The latency of a message that was meant to leave then, alone on the network; `None` where it never gets through.
    fn latency_ms(&self, departure_ns: u64) -> Option<f64> {
        let sent =
            (1..=self.packets as u64).map(|i| Reverse(departure_ns + i * self.packet_time_ns));
        let mut sent: BinaryHeap<_> = sent.collect();
        let mut next_fate = 0;
        let mut last_ns = departure_ns;
        let mut dark_repeats = 0;
        while let Some(Reverse(at_ns)) = sent.pop() {
            last_ns = last_ns.max(at_ns);
            if let Some(end_ns) = self.blackout_end_ns(at_ns) {
                dark_repeats += 1;
                if dark_repeats > MOST_DARK_REPEATS * self.packets {
                    return None;
                }
                sent.push(Reverse(self.first_repeat_after(at_ns, end_ns)));
                continue;
            }
            let upcoming =
                self.log[next_fate..].partition_point(|passage| passage.entered_ns < at_ns);
            next_fate += upcoming;
            let Some(passage) = self.log.get(next_fate) else { continue };
            next_fate += 1;
            if passage.lost {
                sent.push(Reverse(at_ns + self.round_trip_ns));
            }
        }
        Some((last_ns + self.delay_ns - departure_ns) as f64 / 1e6)
    }

    /// The first of the repeats, one each round trip, that falls behind the end of a blackout.
    fn first_repeat_after(&self, at_ns: u64, end_ns: u64) -> u64 {
        at_ns + (end_ns - at_ns).div_ceil(self.round_trip_ns).max(1) * self.round_trip_ns
    }

    /// When the blackout ends that reigns at this time.
    fn blackout_end_ns(&self, at_ns: u64) -> Option<u64> {
        let at_s = at_ns as f64 / 1e9;
        self.events.iter().find_map(|event| {
            let Change::Blackout = event.change else { return None };
            let length_s = event.until_s? - event.at_s;
            let since_s = at_s - event.at_s;
            let into_s = match event.every_s {
                Some(every_s) if since_s > 0.0 => since_s % every_s,
                _ => since_s,
            };
            let is_dark = (0.0..length_s).contains(&into_s);
            is_dark.then(|| at_ns + ns((length_s - into_s) * 1e3).max(1))
        })
    }
}

fn ns(milliseconds: f64) -> u64 {
    (milliseconds * 1e6).round() as u64
}
