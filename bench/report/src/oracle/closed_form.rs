// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! When does an ideal selective repeat deliver, if each packet is lost independently?
//!
//! Packet i of n leaves the bottleneck i packet times after the message was meant to leave, and a round trip later
//! again for as long as it is lost. The message is there when all are, so with loss p
//!
//! `P[latency <= x] = product over i of (1 - p^(1 + floor((x - delay - i tau) / RTT)))`,
//!
//! which for tau = 0 is the `(1 - p^(k+1))^n` of the literature. The steps of that function are walked in the order of
//! time, which gives the percentiles and the mean exactly.

use netlab::wire::{Conditions, Loss};

use super::{is_steady, packet_time_ms, packets, timetable};
use crate::record::Percentiles;
use crate::scenario::flow::Flow;

/// What is left of the distribution's tail when the walk ends.
const TAIL: f64 = 1e-9;
/// The most repeats that are walked (240 MB): 1 MB takes 4 million of them at 97 % lost.
const MOST_REPEATS: f64 = 5e6;

/// Latency percentiles of the ideal selective repeat; there is no largest latency.
///
/// `None` where the formula does not hold: for flows without a timetable, where losses are not independent or depend
/// on a packet's length, where jitter varies the round trip, and where events change the network; nor where so much is
/// lost of so many packets that the walk would have no end. A blackout, a policer, a full queue and reordering only add to the latency, so the bound stands beside them.
pub fn closed_form(flow: &Flow, network: &Conditions) -> Option<Percentiles> {
    let (message, loss) = message(flow, network)?;
    Some(message.percentiles(loss))
}

/// The distribution of which [`closed_form()`] gives percentiles: latencies in milliseconds, ascending, each with the
/// probability not to exceed it.
pub fn closed_form_steps(flow: &Flow, network: &Conditions) -> Option<Vec<(f64, f64)>> {
    let (message, loss) = message(flow, network)?;
    let mut steps = message.distribution(loss);
    // Without a bottleneck all repeats of a round come at once: one step.
    steps.dedup_by(|next, step| {
        let is_same = next.0 == step.0;
        if is_same {
            step.1 = next.1;
        }
        is_same
    });
    Some(steps)
}

/// A message of the flow and the chance of its packets to be lost, where losses are independent.
fn message(flow: &Flow, network: &Conditions) -> Option<(Message, f64)> {
    timetable(flow)?;
    let loss = independent_loss(network)?;
    let (forward, backward) = (&network.forward, &network.backward);
    let count = packets(flow.payload_bytes, forward);
    let message = Message {
        packets: count,
        packet_time_ms: packet_time_ms(flow.payload_bytes, count, forward),
        delay_ms: forward.delay_ms,
        round_trip_ms: forward.delay_ms + backward.delay_ms,
    };
    let is_short = message.attempts(loss) * count as f64 <= MOST_REPEATS;
    is_short.then_some((message, loss))
}

fn independent_loss(network: &Conditions) -> Option<f64> {
    let (forward, backward) = (&network.forward, &network.backward);
    let varies = forward.jitter_ms > 0.0 || backward.jitter_ms > 0.0;
    if varies || forward.bit_error_rate > 0.0 || !is_steady(network) {
        return None;
    }
    match forward.loss {
        Loss::None => Some(0.0),
        Loss::Random { percent } => Some(percent / 100.0).filter(|loss| *loss < 1.0),
        Loss::Correlated { .. } | Loss::Gilbert { .. } | Loss::State { .. } => None,
    }
}

/// A message on its way.
struct Message {
    packets: usize,
    packet_time_ms: f64,
    delay_ms: f64,
    round_trip_ms: f64,
}

impl Message {
    fn percentiles(&self, loss: f64) -> Percentiles {
        let steps = self.distribution(loss);
        let quantile = |q: f64| {
            let step = steps.iter().find(|(_, probability)| *probability >= q);
            step.or_else(|| steps.last()).map(|(latency_ms, _)| *latency_ms)
        };
        let mut mean = 0.0;
        let mut before = 0.0;
        for (latency_ms, probability) in &steps {
            mean += latency_ms * (probability - before);
            before = *probability;
        }
        Percentiles {
            mean_of_delivered: Some(mean / before),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p99_9: quantile(0.999),
            max: None,
        }
    }

    /// The steps of the distribution function: latency in milliseconds and the probability not to exceed it.
    fn distribution(&self, loss: f64) -> Vec<(f64, f64)> {
        let first = self.delay_ms + self.packets as f64 * self.packet_time_ms;
        let mut log_probability = self.packets as f64 * (1.0 - loss).ln();
        let mut steps = vec![(first, log_probability.exp())];
        // Packets that are sent before `first` ends may be repeated before it too.
        let mut repeats = self.repeats(loss);
        repeats.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (latency_ms, attempt) in repeats {
            let attempt = f64::from(attempt);
            log_probability +=
                (1.0 - loss.powf(attempt + 1.0)).ln() - (1.0 - loss.powf(attempt)).ln();
            steps.push((latency_ms.max(first), log_probability.exp()));
        }
        steps
    }

    /// How often a packet is repeated until the rest does not matter.
    fn attempts(&self, loss: f64) -> f64 {
        match loss > 0.0 {
            true => ((TAIL / self.packets as f64).ln() / loss.ln()).ceil(),
            false => 0.0,
        }
    }

    /// Each repeat of each packet that matters: when it arrives and which it is, from 1.
    fn repeats(&self, loss: f64) -> Vec<(f64, u32)> {
        let attempts = self.attempts(loss) as u32;
        let arrival = |packet: usize, attempt: u32| {
            let left = packet as f64 * self.packet_time_ms;
            self.delay_ms + left + f64::from(attempt) * self.round_trip_ms
        };
        (1..=attempts)
            .flat_map(|attempt| (1..=self.packets).map(move |packet| (packet, attempt)))
            .map(|(packet, attempt)| (arrival(packet, attempt), attempt))
            .collect()
    }
}
