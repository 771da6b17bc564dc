// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What do others do on the same path? Models of BBRv1, BBRv3 and of short flows, as [`Guest`]s.
//!
//! A [`Sender`] sends numbered packets to a [`Receiver`], which acknowledges every second one, and what it read
//! together with one acknowledgement (RFC 9000 §13.2.2, §19.3). A lost packet is not sent again under its number: its bytes are those
//! of a later one, so what arrives is what was of use. Losses are found by number and by time (RFC 9002 §6.1), the
//! delivery rate is sampled as in draft-cheng-iccrg-delivery-rate-estimation. For CUBIC an association with `cc=cubic`
//! serves.

mod bbr1;
mod bbr3;
mod filter;
mod receiver;
mod reno;

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

pub use receiver::Receiver;

use crate::Guest;
use bbr1::Bbr1;
use bbr3::Bbr3;
use reno::Reno;

/// UDP payload of a packet: with its headers 1,500 bytes.
const PACKET_BYTES: usize = 1_472;
/// What is of use in it, as with TCP over IPv4 with time stamps.
const PAYLOAD_BYTES: u64 = 1_448;
/// RFC 9002 §6.1.1.
const REORDERING_PACKETS: u64 = 3;
/// The least time-out (RFC 6298 has a second, Linux 200 ms).
const MIN_TIMEOUT: Duration = Duration::from_millis(200);

/// Which controller a sender has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// draft-cardwell-iccrg-bbr-congestion-control-00, with the allowance for aggregated acknowledgements that Linux
    /// added; without its packet conservation in recovery.
    Bbr1,
    /// draft-ietf-ccwg-bbr, for a sender that always has something to send; without ECN.
    Bbr3,
    /// Slow start and NewReno (RFC 5681): for flows that end soon.
    Reno,
}

/// What one acknowledgement tells a model; packets are the unit.
#[derive(Debug, Clone, Copy)]
struct Ack {
    now: Duration,
    rtt: Option<Duration>,
    acked: u64,
    lost: u64,
    /// Packets a second.
    rate: Option<f64>,
    /// All that was delivered, with these.
    delivered: u64,
    /// All that had been when the newest of these was sent.
    prior_delivered: u64,
    /// After it.
    in_flight: u64,
}

/// A packet that is found lost.
#[derive(Debug, Clone, Copy)]
struct Loss {
    /// Packets in flight when it was sent, with it.
    tx_in_flight: u64,
    /// Lost since then, with it.
    lost_since: u64,
    sent_at: Duration,
    now: Duration,
}

/// A congestion controller.
trait Model {
    fn on_loss(&mut self, _loss: &Loss) {}
    fn on_ack(&mut self, ack: &Ack);
    /// Nothing was heard for a time-out.
    fn on_timeout(&mut self);
    /// Packets in flight at most.
    fn window(&self) -> u64;
    /// Packets a second; `None` for as many as the window takes.
    fn pacing_rate(&self) -> Option<f64>;
}

/// A packet in flight.
#[derive(Debug, Clone, Copy)]
struct Sent {
    at: Duration,
    delivered: u64,
    delivered_at: Duration,
    first_sent_at: Duration,
    tx_in_flight: u64,
    lost: u64,
}

/// The sending side.
pub struct Sender {
    to: SocketAddr,
    model: Box<dyn Model>,
    /// Packets that are to arrive; when as many have, the flow is over.
    wanted: u64,
    next_number: u64,
    /// The packets from number `base` on; `None` for what is acknowledged or lost.
    outstanding: VecDeque<Option<Sent>>,
    base: u64,
    in_flight: u64,
    largest_acked: Option<u64>,
    delivered: u64,
    delivered_at: Duration,
    first_sent_at: Duration,
    lost: u64,
    srtt: Option<Duration>,
    rttvar: Duration,
    next_send_at: Duration,
    heard_at: Duration,
    backoff: u32,
}

impl Sender {
    /// Sends to `to` until `bytes` have arrived; `seed` decides what is random in the algorithm.
    #[must_use]
    pub fn new(algorithm: Algorithm, to: SocketAddr, bytes: u64, seed: u64) -> Self {
        let model: Box<dyn Model> = match algorithm {
            Algorithm::Bbr1 => Box::new(Bbr1::new(seed)),
            Algorithm::Bbr3 => Box::new(Bbr3::new(seed)),
            Algorithm::Reno => Box::new(Reno::new()),
        };
        Self {
            to,
            model,
            wanted: bytes.div_ceil(PAYLOAD_BYTES),
            next_number: 0,
            outstanding: VecDeque::new(),
            base: 0,
            in_flight: 0,
            largest_acked: None,
            delivered: 0,
            delivered_at: Duration::ZERO,
            first_sent_at: Duration::ZERO,
            lost: 0,
            srtt: None,
            rttvar: Duration::ZERO,
            next_send_at: Duration::ZERO,
            heard_at: Duration::ZERO,
            backoff: 0,
        }
    }

    /// Sends nothing more.
    fn is_done(&self) -> bool {
        self.delivered + self.in_flight >= self.wanted
    }

    fn timeout(&self) -> Duration {
        let timeout = self.srtt.map_or(Duration::from_secs(1), |srtt| srtt + 4 * self.rttvar);
        timeout.max(MIN_TIMEOUT) * (1 << self.backoff.min(6))
    }

    fn on_rtt(&mut self, rtt: Duration) {
        let srtt = self.srtt.get_or_insert(rtt);
        self.rttvar = (3 * self.rttvar + srtt.abs_diff(rtt)) / 4;
        *srtt = (7 * *srtt + rtt) / 8;
    }

    fn on_ack(&mut self, now: Duration, ranges: impl Iterator<Item = (u64, u64)>) {
        let (mut newest, mut acked) = (None::<(u64, Sent)>, 0);
        for (first, last) in ranges {
            for number in first.max(self.base)..=last.min(self.next_number.saturating_sub(1)) {
                let index = (number - self.base) as usize;
                let Some(sent) = self.outstanding.get_mut(index).and_then(Option::take) else {
                    continue;
                };
                acked += 1;
                if newest.is_none_or(|(newest, _)| number > newest) {
                    newest = Some((number, sent));
                }
            }
        }
        let Some((number, sent)) = newest else { return };
        self.in_flight -= acked;
        self.delivered += acked;
        self.delivered_at = now;
        self.first_sent_at = sent.at;
        (self.heard_at, self.backoff) = (now, 0);
        let is_newest = self.largest_acked.is_none_or(|largest| number > largest);
        self.largest_acked = self.largest_acked.max(Some(number));
        let rtt = is_newest.then(|| now - sent.at);
        if let Some(rtt) = rtt {
            self.on_rtt(rtt);
        }
        let elapsed = (sent.at - sent.first_sent_at).max(now - sent.delivered_at);
        let rate = (!elapsed.is_zero())
            .then(|| (self.delivered - sent.delivered) as f64 / elapsed.as_secs_f64());
        let lost = self.find_lost(now);
        self.model.on_ack(&Ack {
            now,
            rtt,
            acked,
            lost,
            rate,
            delivered: self.delivered,
            prior_delivered: sent.delivered,
            in_flight: self.in_flight,
        });
    }

    /// Takes what is lost out of what is in flight; returns how many packets that are.
    fn find_lost(&mut self, now: Duration) -> u64 {
        let Some(largest) = self.largest_acked else { return 0 };
        let late = self.srtt.unwrap_or_default().mul_f64(9.0 / 8.0);
        let before = self.lost;
        for (index, slot) in self.outstanding.iter_mut().enumerate() {
            let number = self.base + index as u64;
            if number >= largest {
                break;
            }
            let Some(sent) = *slot else { continue };
            if number + REORDERING_PACKETS <= largest || sent.at + late <= now {
                *slot = None;
                self.in_flight -= 1;
                self.lost += 1;
                let lost_since = self.lost - sent.lost;
                let Sent { tx_in_flight, at, .. } = sent;
                self.model.on_loss(&Loss { tx_in_flight, lost_since, sent_at: at, now });
            }
        }
        while self.outstanding.front().is_some_and(Option::is_none) {
            self.outstanding.pop_front();
            self.base += 1;
        }
        self.lost - before
    }

    /// Everything in flight is given up.
    fn on_timeout(&mut self, now: Duration) {
        self.base += self.outstanding.len() as u64;
        self.outstanding.clear();
        self.lost += self.in_flight;
        self.in_flight = 0;
        self.backoff += 1;
        self.heard_at = now;
        self.model.on_timeout();
    }
}

impl Guest for Sender {
    fn handle_datagram(&mut self, now: Duration, _from: SocketAddr, bytes: &[u8]) {
        self.on_ack(now, receiver::ranges(bytes));
    }

    fn poll_transmit(&mut self, now: Duration) -> Option<(SocketAddr, Vec<u8>)> {
        if self.in_flight > 0 && self.heard_at + self.timeout() <= now {
            self.on_timeout(now);
        }
        if self.is_done() || self.in_flight >= self.model.window() || self.next_send_at > now {
            return None;
        }
        if let Some(rate) = self.model.pacing_rate() {
            let gap = Duration::from_secs_f64(1.0 / rate.max(1.0));
            // A timer's lateness is made up for, a pause is not.
            self.next_send_at = self.next_send_at.max(now.saturating_sub(gap)) + gap;
        }
        if self.in_flight == 0 {
            (self.first_sent_at, self.delivered_at, self.heard_at) = (now, now, now);
        }
        self.in_flight += 1;
        self.outstanding.push_back(Some(Sent {
            at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            tx_in_flight: self.in_flight,
            lost: self.lost,
        }));
        let bytes = receiver::data(self.next_number, PACKET_BYTES);
        self.next_number += 1;
        Some((self.to, bytes))
    }

    fn poll_timeout(&self) -> Option<Duration> {
        let timeout = (self.in_flight > 0).then(|| self.heard_at + self.timeout());
        let may_send = !self.is_done() && self.in_flight < self.model.window();
        let send = may_send.then_some(self.next_send_at);
        timeout.into_iter().chain(send).min()
    }

    fn delivered_bytes(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests;
