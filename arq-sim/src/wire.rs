// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! One direction of a wire: what does it do to a datagram, and when does the other end see it?
//!
//! A datagram passes, in this order: the MTU check, the blackout check, the policer, the bottleneck
//! (rate and drop-tail queue), loss, duplication, damage, and the delay. Loss comes after the bottleneck, as
//! on a radio behind a queue, so goodput can reach rate x (1 - loss) and no more.
//!
//! A wire may have the queue and rate of another crate of ours in place of the bottleneck: [`impairments`] has recorded
//! radios, fades by the clock, AQM and frames, and the same models can lie below real links.
//!
//! Loss models, duplication and the bottleneck are [`str0m_netem`]'s. Own code covers what it lacks:
//! jitter and reordering by probability (its queue is in order of arrival, so that its jitter never
//! reorders and its reordering hits every n-th packet), copies that travel apart from their
//! original, damage, truncation, blackouts, an MTU, bit errors, and the time that a datagram itself
//! occupies the bottleneck. Its `poll_timeout` reads the real clock when its queue is empty; it is asked only
//! when the queue is not.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::SocketAddr,
    ops::Range,
    time::{Duration, Instant},
};

use arq_proto::EcnCodepoint;
use bytes::Bytes;
use fastrand::Rng;
use impairments::{DelayTrace, Exit, Fades, Link, LinkConfig, Packet, TokenBucket};
pub use impairments::{FadeConfig, Policer};
use str0m_netem::{
    Bitrate, DataSize, GilbertElliot, Input, LossModel, Netem, NetemConfig, Output, Probability,
    RandomLoss,
};

/// Headers of IPv4 and UDP.
const HEADERS_BYTES: usize = 28;

/// A datagram between two sockets.
#[derive(Debug, Clone)]
pub struct Datagram {
    /// Who sent it, or claims so.
    pub from: SocketAddr,
    /// Whom it is for.
    pub to: SocketAddr,
    /// What its IP header says of congestion.
    pub ecn: Option<EcnCodepoint>,
    /// UDP payload.
    pub bytes: Bytes,
}

impl AsRef<[u8]> for Datagram {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Which datagrams are lost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each with the same probability.
    Random(f32),
    /// In bursts: a Gilbert-Elliott model that changes its state per datagram.
    Bursts {
        /// Mean datagrams between two bursts.
        good_packets: f32,
        /// Mean datagrams in a burst.
        bad_packets: f32,
        /// Share lost within a burst.
        loss_in_bad: f32,
    },
}

impl Loss {
    fn model(self) -> LossModel {
        match self {
            Self::None => LossModel::None,
            Self::Random(share) => RandomLoss::new(Probability::new(share)).into(),
            Self::Bursts { good_packets, bad_packets, loss_in_bad } => GilbertElliot::new()
                .good_duration(good_packets)
                .bad_duration(bad_packets)
                .loss_in_bad(Probability::new(loss_in_bad))
                .into(),
        }
    }
}

/// A bottleneck: datagrams leave it one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bottleneck {
    /// Bits per second.
    pub rate_bps: u64,
    /// What waits at most; a datagram that does not fit is dropped.
    pub queue_bytes: u32,
}

/// What a wire does to the ECN field of IP headers, beside the marks of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EcnFault {
    /// Nothing.
    #[default]
    None,
    /// Erases it.
    Bleaches,
    /// Drops what has one.
    Drops,
    /// Marks all that may be marked.
    MarksAll,
    /// Makes ECT(1) of ECT(0).
    Remarks,
}

/// What a wire does to datagrams. The default is a wire without faults or delay.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WireConfig {
    /// Time from one end to the other.
    pub delay: Duration,
    /// Up to this is added to the delay, evenly distributed.
    pub jitter: Duration,
    /// Whether jitter keeps the order of the datagrams.
    pub jitter_in_order: bool,
    /// Which datagrams are lost.
    pub loss: Loss,
    /// Share of datagrams that arrive twice.
    pub duplicate: f32,
    /// Share of datagrams that are held back, so that later ones overtake them.
    pub reorder: f32,
    /// The longest time that one is held back.
    pub hold_back: Duration,
    /// Share of datagrams in which one to eight bits are flipped.
    pub corrupt: f32,
    /// Share of datagrams that lose their end.
    pub truncate: f32,
    /// Rate and queue.
    pub bottleneck: Option<Bottleneck>,
    /// In place of `bottleneck`: queue and rate of [`impairments`], which count the headers of IPv4 and UDP as well.
    pub link: Option<LinkConfig>,
    /// What it does to marks.
    pub ecn_fault: EcnFault,
    /// When the radio loses what is on the air.
    pub fades: Option<FadeConfig>,
    /// In place of `delay`; keeps the order.
    pub delays: Option<DelayTrace>,
    /// Rate without a queue, in front of the bottleneck.
    pub policer: Option<Policer>,
    /// Datagrams arrive in clumps, at multiples of this time, as a Wi-Fi station sends them
    /// whenever the medium is free.
    pub clump: Duration,
    /// Times since the start in which everything vanishes.
    pub blackouts: Vec<Range<Duration>>,
    /// Longer datagrams vanish.
    pub mtu: Option<usize>,
    /// From so long since the start on, datagrams longer than this vanish instead; the latest counts.
    pub mtu_changes: Vec<(Duration, usize)>,
    /// Share of bits that arrive flipped, `0.0..1.0`; a datagram with one is lost, headers below UDP
    /// included. Loss grows with length.
    pub bit_error_rate: f64,
}

impl WireConfig {
    /// A wire with a delay and no faults.
    #[must_use]
    pub fn with_delay(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }
}

/// What became of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It arrives then.
    Arrives(Instant),
    /// It arrives then, with flipped bits or without its end.
    ArrivesDamaged(Instant),
    /// The loss model took it.
    Lost,
    /// The queue of the bottleneck was full.
    QueueFull,
    /// The policer had no tokens left.
    Policed,
    /// It was sent in a blackout.
    Blackout,
    /// It was longer than the MTU.
    TooLong,
    /// Nobody has its destination.
    NoSuchHost,
    /// Its host lost the batch that it left in.
    BatchLost,
    /// It was capable of ECN.
    Capable,
    /// A test took it away.
    Withheld,
}

/// A datagram and its fate, as it leaves the bottleneck (or fails to enter it).
#[derive(Debug)]
pub struct Passage {
    /// As it arrives.
    pub datagram: Datagram,
    /// Whether and when it does.
    pub fate: Fate,
}

/// One direction of a wire.
pub struct Wire {
    config: WireConfig,
    start: Instant,
    rng: Rng,
    /// Rate and queue; `None` for a wire that is never busy.
    bottleneck: Option<Netem<Datagram>>,
    /// The same, of [`impairments`].
    link: Option<Link<Datagram>>,
    fades: Option<Fades>,
    /// How long datagrams have waited in `link`, if somebody wants to know.
    sojourns: Option<Vec<Duration>>,
    /// Loss and duplication, at once.
    faults: Netem<Datagram>,
    last_arrival: Instant,
    policer: TokenBucket,
}

impl Wire {
    /// A wire whose every decision follows from `seed`; blackouts count from `start`.
    #[must_use]
    pub fn new(config: WireConfig, seed: u64, start: Instant) -> Self {
        let mut rng = Rng::with_seed(seed);
        let bottleneck = config.bottleneck.map(|b| {
            let link = NetemConfig::new()
                .link(Bitrate::bps(b.rate_bps), DataSize::bytes(i64::from(b.queue_bytes)));
            Netem::new(link.seed(rng.u64(..)))
        });
        let faults = NetemConfig::new()
            .loss(config.loss.model())
            .duplicate(Probability::new(config.duplicate))
            .seed(rng.u64(..));
        Self {
            link: config.link.clone().map(Link::new),
            policer: TokenBucket::default(),
            fades: config.fades.map(|fades| Fades::new(fades, seed)),
            config,
            start,
            rng,
            bottleneck,
            sojourns: None,
            faults: Netem::new(faults),
            last_arrival: start,
        }
    }

    /// How the wire is set up.
    #[must_use]
    pub fn config(&self) -> &WireConfig {
        &self.config
    }

    /// A datagram enters. What comes out at once is appended to `out`; the rest follows from
    /// [`Wire::pull`].
    pub fn push(&mut self, now: Instant, mut datagram: Datagram, out: &mut Vec<Passage>) {
        let offset = now.saturating_duration_since(self.start);
        datagram.ecn = match (self.config.ecn_fault, datagram.ecn) {
            (EcnFault::Drops, Some(_)) => {
                out.push(Passage { datagram, fate: Fate::Capable });
                return;
            }
            (EcnFault::Bleaches, Some(_)) => None,
            (EcnFault::MarksAll, Some(_)) => Some(EcnCodepoint::Ce),
            (EcnFault::Remarks, Some(EcnCodepoint::Ect0)) => Some(EcnCodepoint::Ect1),
            (_, ecn) => ecn,
        };
        if self.mtu_at(offset).is_some_and(|mtu| datagram.bytes.len() > mtu) {
            out.push(Passage { datagram, fate: Fate::TooLong });
            return;
        }
        if self.config.blackouts.iter().any(|blackout| blackout.contains(&offset)) {
            out.push(Passage { datagram, fate: Fate::Blackout });
            return;
        }
        if !self.conforms(offset, datagram.bytes.len()) {
            out.push(Passage { datagram, fate: Fate::Policed });
            return;
        }
        if let Some(link) = &mut self.link {
            link.push(offset, packet(datagram));
            self.pull(now, out);
            return;
        }
        let Some(bottleneck) = &mut self.bottleneck else {
            self.pass(now, datagram, out);
            return;
        };
        let waiting = bottleneck.queue_len();
        bottleneck.handle_input(Input::Packet(now, datagram.clone()));
        if bottleneck.queue_len() == waiting {
            out.push(Passage { datagram, fate: Fate::QueueFull });
        }
        self.pull(now, out);
    }

    /// The MTU in force, if there is one.
    fn mtu_at(&self, offset: Duration) -> Option<usize> {
        let changes = self.config.mtu_changes.iter().filter(|(from, _)| *from <= offset);
        changes.max_by_key(|(from, _)| *from).map(|(_, mtu)| *mtu).or(self.config.mtu)
    }

    /// Whether the policer lets so many bytes pass, if there is one.
    fn conforms(&mut self, offset: Duration, bytes: usize) -> bool {
        self.config.policer.is_none_or(|Policer { rate_bps, burst_bytes }| {
            // A UDP payload is at most 64 KiB.
            self.policer.conforms(rate_bps as f64, burst_bytes, offset, bytes as u32)
        })
    }

    /// Datagrams that wait in the queue of the bottleneck.
    #[must_use]
    pub fn queue_len(&self) -> usize {
        if let Some(link) = &self.link {
            return link.waiting_packets();
        }
        self.bottleneck.as_ref().map_or(0, Netem::queue_len)
    }

    /// When the bottleneck releases its next datagram.
    #[must_use]
    pub fn next_release(&self) -> Option<Instant> {
        if let Some(link) = &self.link {
            return link.deadline().map(|deadline| self.start + deadline);
        }
        let bottleneck = self.bottleneck.as_ref()?;
        (!bottleneck.is_empty()).then(|| bottleneck.poll_timeout())
    }

    /// How long each datagram that left the [`link`](WireConfig::link) has waited and taken, since this was last asked;
    /// counted from the first time.
    pub fn take_sojourns(&mut self) -> Vec<Duration> {
        self.sojourns.replace(Vec::new()).unwrap_or_default()
    }

    fn pull_from_link(&mut self, now: Instant, out: &mut Vec<Passage>) {
        let offset = now.saturating_duration_since(self.start);
        while let Some(exit) = self.link.as_mut().and_then(|link| link.poll(offset)) {
            let Exit { at, entered, mut packet, dropped } = exit;
            if packet.marked {
                packet.item.ecn = Some(EcnCodepoint::Ce);
            }
            if dropped {
                out.push(Passage { datagram: packet.item, fate: Fate::QueueFull });
                continue;
            }
            if let Some(sojourns) = &mut self.sojourns {
                sojourns.push(at - entered);
            }
            self.pass(self.start + at, packet.item, out);
        }
    }

    /// Appends what the bottleneck has released by `now`.
    pub fn pull(&mut self, now: Instant, out: &mut Vec<Passage>) {
        self.pull_from_link(now, out);
        let Some(bottleneck) = &mut self.bottleneck else { return };
        bottleneck.handle_input(Input::Timeout(now));
        let mut released = Vec::new();
        while let Some(Output::Packet(datagram)) = bottleneck.poll_output() {
            released.push(datagram);
        }
        for datagram in released {
            let departure = now + self.serialisation(datagram.bytes.len());
            self.pass(departure, datagram, out);
        }
    }

    /// The time that a datagram itself occupies the bottleneck.
    fn serialisation(&self, bytes: usize) -> Duration {
        self.config.bottleneck.map_or(Duration::ZERO, |b| {
            Duration::from_secs_f64(bytes as f64 * 8.0 / b.rate_bps.max(1) as f64)
        })
    }

    /// Behind the bottleneck: loss, copies, damage, delay.
    fn pass(&mut self, departure: Instant, datagram: Datagram, out: &mut Vec<Passage>) {
        if self.config.bit_error_rate > 0.0 && self.has_bit_errors(datagram.bytes.len()) {
            out.push(Passage { datagram, fate: Fate::Lost });
            return;
        }
        let offset = departure.saturating_duration_since(self.start);
        if self.fades.as_mut().is_some_and(|fades| fades.is_lost(offset)) {
            out.push(Passage { datagram, fate: Fate::Lost });
            return;
        }
        self.faults.handle_input(Input::Packet(departure, datagram.clone()));
        let mut copies = 0;
        while let Some(Output::Packet(mut copy)) = self.faults.poll_output() {
            copies += 1;
            let damaged = self.damage(&mut copy);
            let at = self.arrival(departure);
            let fate = if damaged { Fate::ArrivesDamaged(at) } else { Fate::Arrives(at) };
            out.push(Passage { datagram: copy, fate });
        }
        if copies == 0 {
            out.push(Passage { datagram, fate: Fate::Lost });
        }
    }

    /// One of its bits, or of the headers below, arrives flipped: some layer throws it away.
    fn has_bit_errors(&mut self, bytes: usize) -> bool {
        let bits = 8.0 * (bytes + HEADERS_BYTES) as f64;
        self.rng.f64() >= (bits * (-self.config.bit_error_rate).ln_1p()).exp()
    }

    fn damage(&mut self, datagram: &mut Datagram) -> bool {
        let flip = self.happens(self.config.corrupt);
        let cut = self.happens(self.config.truncate);
        if !(flip || cut) || datagram.bytes.is_empty() {
            return false;
        }
        let mut bytes = datagram.bytes.to_vec();
        if flip {
            flip_bits(&mut bytes, &mut self.rng);
        }
        if cut {
            bytes.truncate(self.rng.usize(..bytes.len()));
        }
        datagram.bytes = Bytes::from(bytes);
        true
    }

    fn arrival(&mut self, departure: Instant) -> Instant {
        let jitter = self.up_to(self.config.jitter);
        let offset = departure.saturating_duration_since(self.start);
        let delay =
            self.config.delays.as_ref().map_or(self.config.delay, |delays| delays.at(offset));
        let mut at = departure + delay + jitter;
        if !self.config.clump.is_zero() {
            let clumps =
                at.saturating_duration_since(self.start).as_nanos() / self.config.clump.as_nanos();
            // A virtual run is short: the clamp is never reached.
            let clumps = u32::try_from(clumps + 1).unwrap_or(u32::MAX);
            at = self.start + self.config.clump * clumps;
        }
        if self.config.jitter_in_order || self.config.delays.is_some() {
            at = at.max(self.last_arrival);
            self.last_arrival = at;
        }
        if self.happens(self.config.reorder) {
            at += self.up_to(self.config.hold_back);
        }
        at
    }

    /// No draw for a fault that is switched off: switching one on must not change the others' luck
    /// more than needed.
    fn happens(&mut self, share: f32) -> bool {
        share > 0.0 && self.rng.f32() < share
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        most.mul_f64(if most.is_zero() { 0.0 } else { self.rng.f64() })
    }
}

/// A datagram as the packet that a link counts; what comes from one socket is a flow.
fn packet(datagram: Datagram) -> Packet<Datagram> {
    let mut hasher = DefaultHasher::new();
    datagram.from.hash(&mut hasher);
    // A UDP payload is at most 64 KiB.
    let len_bytes = (datagram.bytes.len() + HEADERS_BYTES) as u32;
    let flow = hasher.finish();
    let ecn_capable = datagram.ecn.is_some();
    Packet { len_bytes, flow, ecn_capable, marked: false, item: datagram }
}

/// Flips one to eight bits, all of them different.
pub fn flip_bits(bytes: &mut [u8], rng: &mut Rng) {
    let bits = bytes.len() * 8;
    let wanted = rng.usize(1..=8).min(bits);
    for bit in rng.choose_multiple(0..bits, wanted) {
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

#[cfg(test)]
mod tests;
