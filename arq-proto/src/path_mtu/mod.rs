// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How long may a packet be so that the path carries it?
//!
//! Datagram Packetization Layer Path MTU Discovery (RFC 8899), with its words: *PLPMTU* is the size in
//! use, *base* is assumed to pass everywhere, and only acknowledgements are trusted, no message from the network. Radios
//! require some differences: the number of probes follows from the measured loss, a probe counts as lost only if a later
//! packet arrived, and small packets that pass tell a black hole from a fade. A size that passes may lose more than *base*
//! does, so it is on [`trial`] before messages are segmented for it.
//!
//! All sizes are of UDP payload. The *best* size below the one that passes is another question:
//! [`chunk_size`](crate::chunk_size).
//!
//! Requirements, numbered as in `docs/protocol.md`, to which the sections belong:
//!
//! - **ARQ-MTU-1** No packet but a probe is longer than the PLPMTU. It is *base* (1,200 bytes, or the configured
//!   `mtu` if less) until a longer probe is acknowledged, and at most `mtu` and the peer's MAX_DATAGRAM. Without
//!   `mtu` the bound is the MTU of the interface toward the peer, less the headers of IP and UDP, from *base* to
//!   65,507 (IPv6: 65,487); 1,472 (IPv6: 1,452) where the system names none. To a peer without RESEGMENT the
//!   PLPMTU stays *base*.
//! - **ARQ-HS-11** The HELLO that was answered (*attempt* at the client, the cookie at the server) shows what the
//!   path carries to the server. If that is less than *base*, both sides probe *base* at once and count one probe
//!   as lost. A server probes *base* in any case.
//! - **ARQ-MTU-2** (SEARCHING.) A probe is a PING with PADDING up to the size in question, with ACK_NOW, in a
//!   packet that is not in flight. There is one at a time; it waits for the pacer, while a probe time-out (§7.4)
//!   is unanswered, and, with a least round trip above 100 ms, for a message of several packets. Without a
//!   configured `mtu` and up to 9,000 bytes, none above *base* is sent before that message, before the fate of 32
//!   packets is known, or where one takes more than 10 ms at the rate carried. The largest size is probed first;
//!   then, of those in [`ladder`], the middle one between the PLPMTU and the least size lost. Its ACK, however
//!   late, makes its size the PLPMTU.
//! - **ARQ-MTU-3** The search ends (SEARCH_COMPLETE) when so many probes of the next larger size are lost that
//!   random loss explains it with a chance of 1 in 10,000 at most: `ceil(ln 0.0001 / ln p)` by the estimate of
//!   ARQ-LOS-3, 3 to 14, with `p` at least 25 % until the fate of 64 packets is known; or when its probes took 16
//!   times the largest size in bytes.
//! - **ARQ-MTU-4** A probe counts as lost two PTO bases after it left, if a packet sent after it (a PING follows
//!   for that) is acknowledged by then. Otherwise it does not count, and nothing is probed until an ACK comes.
//!   EMSGSIZE of the sending system makes one probe count as lost; ICMP is not believed.
//! - **ARQ-MTU-5** (PMTU_RAISE_TIMER.) Ten minutes after a search, when something is in flight, a larger size is
//!   searched again.
//! - **ARQ-MTU-6** (Black hole.) *Large* is a packet above *base*, or above 576 bytes if the PLPMTU is *base*. A
//!   round is one or more large packets lost for good, followed by a small one that arrived, in the order of
//!   sending. `ceil(ln 0.000001 / ln p)` rounds, 4 to 20, without a large packet that arrived, are a black hole;
//!   `p` is the largest of the estimate of ARQ-LOS-3 when the last large one arrived, the loss of large ones
//!   until then (of 64), and the share of small ones lost since. After four probe time-outs in a row behind lost
//!   large packets, and while there are rounds, each probe time-out adds a packet with nothing but PING. Then
//!   BASE is entered: a probe confirms *base* before the search. After a second black hole within ten minutes the
//!   search waits for ARQ-MTU-5. Messages under way are segmented anew (ARQ-MSG-6).
//! - **ARQ-MTU-7** (ERROR.) If *base* is in a black hole, or not confirmed by as many probes as ARQ-MTU-3 says,
//!   the PLPMTU is 576 bytes; also after a probe time-out while *base* is not confirmed and a HELLO of its size
//!   was lost. While something is in flight, *base* is probed after 1 s, then at intervals that double up to ten
//!   minutes. Meanwhile sizes below *base* are searched, except after a second black hole within ten minutes.
//! - **ARQ-MTU-8** On a new path (ARQ-PTH-4) BASE is entered, and what was named for the interface is forgotten.
//! - **ARQ-MTU-9** (Trial.) A size above *base* and up to 2,400 bytes that passes is on trial: messages are still
//!   cut for the size used before, and one full packet in eight, chosen at random, is padded to the PLPMTU. A
//!   size that surely loses more than *base* (chance of error 1 in 10,000) is left for *base* until ARQ-MTU-5;
//!   one of which no padded packet arrives is a black hole (ARQ-MTU-6). After 64 padded packets without such
//!   evidence messages are cut for it. Above 1/32 lost, or twice the trial's loss, the size is on trial again,
//!   with 256 padded packets.

mod black_hole;
mod ladder;
mod search;
mod trial;

use std::time::{Duration, Instant};

use rand_core::RngCore;
use smallvec::SmallVec;

use crate::{
    config::MIN_MTU,
    stats::Stats,
    units::{PacketNumber, Probability},
    wire::{ack::Ack, BASE_MTU},
};
use black_hole::BlackHole;
use search::{probes_needed, Search};
pub(crate) use trial::Side;
use trial::{Trial, Verdict, Watch};

/// `PMTU_RAISE_TIMER` of RFC 8899 §5.1.1: how long a size found is kept before a larger one is tried.
const RAISE_AFTER: Duration = Duration::from_secs(600);
/// In ERROR, base is probed after this time, then at intervals that double up to `RAISE_AFTER`.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Lost probes that are remembered, because their acknowledgement may still come.
const REMEMBERED: usize = 8;
/// The measured loss is used once the fate of this many packets is known; and the loss until then.
const TRUSTED_AFTER: u32 = 64;
const LOSS_UNTIL_THEN: Probability = Probability::from_ppm(250_000);

/// The states of RFC 8899 §5.2. DISABLED is the handshake, without probes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SearchState {
    /// Base is in use and not confirmed: at a server, after a black hole, on a new path, and where a HELLO of its size was
    /// not answered.
    Base {
        /// Probes of base that were lost.
        lost: u8,
    },
    /// A larger size is looked for.
    Searching(Search),
    /// The size in use is the largest that passes.
    SearchComplete {
        /// When to look for a larger one.
        raise_at: Option<Instant>,
    },
    /// Not even base passes: the least size is in use, or what was found above it.
    Error {
        /// For what passes below base.
        search: Search,
        /// When to probe base.
        retry_at: Instant,
        /// How long to wait after that.
        wait: Duration,
    },
}

/// A packet that asks whether its size passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Probe {
    number: PacketNumber,
    size: u16,
    /// When to judge it.
    deadline: Instant,
}

/// The path MTU discovery of a connection.
#[derive(Debug)]
pub(crate) struct PathMtu {
    /// `MIN_PLPMTU`, `BASE_PLPMTU`, `MAX_PLPMTU` of RFC 8899 §5.1.2.
    least: u16,
    base: u16,
    ceiling: u16,
    /// The ceiling of the peer.
    peer_ceiling: u16,
    /// The PLPMTU.
    size: u16,
    /// What messages are cut for where that is above base: a size that stood its trial, or base.
    proven: u16,
    trial: Option<Trial>,
    watch: Watch,
    state: SearchState,
    probe: Option<Probe>,
    /// Judged lost, the newest last.
    earlier: SmallVec<[Probe; REMEMBERED]>,
    /// No probe before this packet, or a later one, is acknowledged.
    hear_first: Option<PacketNumber>,
    black_hole: BlackHole,
    fell_at: Option<Instant>,
    /// It fell twice within `RAISE_AFTER`.
    fell_again: bool,
    settled: u32,
    counters: Counters,
}

/// Counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counters {
    probes_sent: u64,
    probes_lost: u64,
    probe_bytes: u64,
    black_holes: u64,
}

impl PathMtu {
    /// For datagrams of at most `ceiling` bytes.
    pub(crate) fn new(ceiling: u16) -> Self {
        let base = ceiling.min(BASE_MTU);
        Self {
            least: MIN_MTU,
            base,
            ceiling,
            peer_ceiling: u16::MAX,
            size: base,
            proven: base,
            trial: None,
            watch: Watch::default(),
            state: SearchState::Searching(Search::default()),
            probe: None,
            earlier: SmallVec::new(),
            hear_first: None,
            black_hole: BlackHole::new(LOSS_UNTIL_THEN),
            fell_at: None,
            fell_again: false,
            settled: 0,
            counters: Counters::default(),
        }
    }

    /// The peer's limits. To a peer that does not take resegmented messages (`resegments`), no size is used that may have to
    /// be taken back.
    pub(crate) fn limit(&mut self, max_datagram: u16, resegments: bool) {
        self.base = self.base.min(max_datagram);
        self.peer_ceiling = max_datagram;
        if !resegments {
            self.peer_ceiling = self.base;
            self.least = self.base;
        }
        self.ceiling = self.ceiling.min(self.peer_ceiling);
        self.use_base();
    }

    /// The handshake is done, with a HELLO of `hello_bytes`; `is_ours`: this side sent it. If it was shorter than base, a longer
    /// one was lost, mostly by chance: base is used and probed, with one probe counted as lost. A side that only received a
    /// HELLO knows nothing about its own direction.
    pub(crate) fn begin(&mut self, hello_bytes: u16, is_ours: bool) {
        let carried = hello_bytes >= self.base;
        if self.least == self.base || (carried && is_ours) {
            return;
        }
        self.state = SearchState::Base { lost: u8::from(!carried) };
    }

    /// Sizes up to `ceiling` are worth probing on this path. The source may be wrong, so base stays, and so does a size that
    /// passes.
    pub(crate) fn set_ceiling(&mut self, ceiling: u16) {
        let ceiling = ceiling.max(self.base).min(self.peer_ceiling);
        let grows = ceiling > self.ceiling;
        self.ceiling = ceiling;
        if grows && matches!(self.state, SearchState::SearchComplete { .. }) {
            self.trial = None;
            self.state = SearchState::Searching(Search::default());
        }
    }

    /// The ceiling of the search, where the next probe is larger than base.
    pub(crate) fn looks_for_more(&self) -> Option<u16> {
        let looks =
            matches!(self.state, SearchState::Searching(_) | SearchState::SearchComplete { .. });
        looks.then_some(self.ceiling)
    }

    /// Packets whose fate is known.
    pub(crate) fn settled(&self) -> u32 {
        self.settled
    }

    /// The PLPMTU: the longest packet to send, in bytes of UDP payload.
    pub(crate) fn size(&self) -> u16 {
        self.size
    }

    /// The size for which messages are segmented and packets filled: at most [`size`](Self::size).
    pub(crate) fn size_in_use(&self) -> u16 {
        if self.size > self.base {
            self.proven.min(self.size)
        } else {
            self.size
        }
    }

    /// How many of the next `most` packets leave as they are; 0: one is to be filled up to [`size`](Self::size).
    pub(crate) fn plan(&mut self, most: usize, rng: &mut impl RngCore) -> usize {
        self.trial.as_mut().map_or(most, |trial| trial.plan(most, rng))
    }

    /// The side of a packet of `bytes` in the trial, if there is one; `fills`: the coin has decided that it is filled up.
    pub(crate) fn side(&mut self, bytes: usize, fills: bool) -> Side {
        // Neither short packets, nor those of messages that were segmented for a larger size.
        let is_long = 4 * bytes >= 3 * usize::from(self.base) && bytes < self.proven.into();
        match self.trial.as_mut().filter(|_| is_long) {
            Some(trial) if fills => {
                trial.on_filled();
                Side::Filled
            }
            Some(trial) if !trial.is_paused() => Side::Usual,
            Some(_) | None => Side::Neither,
        }
    }

    /// The size to probe now, if any. `busy`: packets are in flight; an idle link sends no probes but those of its first search.
    pub(crate) fn next_probe(
        &mut self,
        now: Instant,
        loss: Probability,
        busy: bool,
    ) -> Option<u16> {
        if self.probe.is_some() || self.hear_first.is_some() {
            return None;
        }
        match &self.state {
            SearchState::Base { .. } => Some(self.base),
            SearchState::Searching(search) => {
                let next = search.next(self.size, self.ceiling, self.trusted(loss));
                if next.is_none() {
                    self.complete(now);
                }
                next
            }
            SearchState::SearchComplete { raise_at } => {
                let due = busy && raise_at.is_some_and(|at| at <= now);
                if !due {
                    return None;
                }
                self.state = SearchState::Searching(Search::default());
                self.next_probe(now, loss, busy)
            }
            SearchState::Error { search, retry_at, .. } => {
                let base = (busy && *retry_at <= now).then_some(self.base);
                base.or_else(|| {
                    search.next(self.size, ladder::below(self.base)?, self.trusted(loss))
                })
            }
        }
    }

    /// Whether [`Self::next_probe`] may have one. `false` is sure.
    pub(crate) fn may_ask(&self, now: Instant, busy: bool) -> bool {
        let is_over = match self.state {
            SearchState::SearchComplete { raise_at } => !busy || raise_at.is_none_or(|at| at > now),
            SearchState::Base { .. } | SearchState::Searching(_) | SearchState::Error { .. } => {
                false
            }
        };
        self.probe.is_none() && self.hear_first.is_none() && !is_over
    }

    /// The probe left, and is to be judged at `deadline`.
    pub(crate) fn on_probe_sent(&mut self, number: PacketNumber, size: u16, deadline: Instant) {
        self.counters.probes_sent += 1;
        self.counters.probe_bytes += u64::from(size);
        if let SearchState::Searching(search) | SearchState::Error { search, .. } = &mut self.state
        {
            search.on_sent(size);
        }
        self.probe = Some(Probe { number, size, deadline });
    }

    /// When the probe is to be judged.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.probe.map(|probe| probe.deadline)
    }

    /// Judges the probe. It is lost if something sent after it arrived; otherwise the path was silent,
    /// which says nothing about sizes, and asking waits for a sign of life.
    pub(crate) fn on_deadline(
        &mut self,
        now: Instant,
        largest_acked: Option<PacketNumber>,
        loss: Probability,
    ) {
        let Some(probe) = self.probe.take_if(|probe| probe.deadline <= now) else { return };
        if self.earlier.len() == REMEMBERED {
            self.earlier.remove(0);
        }
        self.earlier.push(probe);
        if largest_acked > Some(probe.number) {
            self.on_probe_lost(now, probe.size, loss);
        } else {
            self.hear_first = Some(probe.number.next());
        }
    }

    /// The system refused to send a packet of `size` bytes, because of its interface or of an ICMP message: a probe of that
    /// size counts as lost once.
    pub(crate) fn on_refused(&mut self, now: Instant, size: usize, loss: Probability) {
        if let Some(probe) = self.probe.take_if(|probe| usize::from(probe.size) == size) {
            self.on_probe_lost(now, probe.size, loss);
        }
    }

    /// A probe time-out. If a HELLO of base was lost as well, the least size is used until a probe of base is acknowledged.
    pub(crate) fn on_time_out(&mut self) {
        if matches!(self.state, SearchState::Base { lost } if lost > 0) {
            self.size = self.least;
        }
    }

    fn on_probe_lost(&mut self, now: Instant, size: u16, loss: Probability) {
        self.counters.probes_lost += 1;
        let needed = probes_needed(self.trusted(loss));
        match &mut self.state {
            SearchState::Base { lost } => {
                *lost = lost.saturating_add(1);
                if u32::from(*lost) >= needed {
                    // Without a smaller size further probes would help nobody.
                    match self.least < self.base {
                        true => self.fail(now),
                        false => self.complete(now),
                    }
                }
            }
            SearchState::Searching(search) => search.on_lost(size),
            SearchState::SearchComplete { .. } => {}
            SearchState::Error { search, .. } if size < self.base => search.on_lost(size),
            SearchState::Error { retry_at, wait, .. } => {
                *retry_at = now + *wait;
                *wait = (*wait * 2).min(RAISE_AFTER);
            }
        }
    }

    /// An acknowledgement came.
    pub(crate) fn on_ack(&mut self, now: Instant, ack: &Ack) {
        let acked = |number: PacketNumber| {
            ack.ranges.iter().any(|&(start, end)| (start..=end).contains(&number.0))
        };
        if self.hear_first.is_some_and(|from| ack.largest() >= from) {
            self.hear_first = None;
        }
        let mut passed = None;
        self.earlier.retain(|probe| {
            let late = acked(probe.number);
            if late {
                passed = passed.max(Some(probe.size));
            }
            !late
        });
        if let Some(probe) = self.probe.take_if(|probe| acked(probe.number)) {
            passed = passed.max(Some(probe.size));
        }
        if let Some(size) = passed {
            self.on_passed(now, size);
        }
    }

    fn on_passed(&mut self, now: Instant, size: u16) {
        match self.state {
            SearchState::Base { .. } | SearchState::Error { .. } if size >= self.base => {
                self.use_base();
                self.search_or_wait(now);
            }
            SearchState::Base { .. } => {}
            SearchState::Searching(_)
            | SearchState::SearchComplete { .. }
            | SearchState::Error { .. } => {
                if size > self.size {
                    tracing::debug!(from = self.size, to = size, "larger packets pass");
                    self.size = size;
                    self.black_hole = BlackHole::new(self.black_hole.loss());
                    // The ACK of a probe that was judged lost.
                    if matches!(self.state, SearchState::SearchComplete { .. }) {
                        self.complete(now);
                    }
                }
            }
        }
    }

    /// The sizes beyond which packets may vanish where shorter ones pass.
    pub(crate) fn sure_sizes(&self) -> [u16; 2] {
        [self.least, self.base]
    }

    /// The fate of the next packet, in the order of sending.
    pub(crate) fn on_settled(&mut self, now: Instant, bytes: u32, lost: bool, loss: Probability) {
        self.settled = self.settled.saturating_add(1);
        let small = if self.size > self.base { self.base } else { self.least };
        // Larger than the size in use: sent before that fell.
        if bytes > self.size.into() || self.size <= self.least {
            return;
        }
        let loss = self.trusted(loss);
        self.black_hole.record(bytes > small.into(), lost, loss);
        if self.black_hole.is_found() {
            self.fall(now);
        }
    }

    /// The fate of a packet, for the size on trial or in use.
    pub(crate) fn compare(&mut self, now: Instant, bytes: u32, side: Side, lost: bool) {
        let Some(trial) = &mut self.trial else {
            if self.size_in_use() > self.base && bytes > self.base.into() {
                self.trial = self.watch.on_settled(self.proven, lost);
                if self.trial.is_some() {
                    tracing::debug!(
                        size = self.size,
                        "long packets are lost: compared with short ones"
                    );
                    self.proven = self.base;
                }
            }
            return;
        };
        match trial.on_settled(side, lost) {
            Verdict::Open => {}
            Verdict::Good => {
                self.watch = Watch::after(trial.loss());
                self.trial = None;
                self.proven = self.size;
            }
            Verdict::Bad if !trial.passes() => self.fall(now),
            Verdict::Bad => {
                tracing::debug!(
                    size = self.size,
                    "long packets pass, and lose more than short ones"
                );
                self.forget_probes();
                self.use_base();
                self.state = SearchState::SearchComplete { raise_at: Some(now + RAISE_AFTER) };
            }
        }
    }

    /// Nothing larger is in use, nor on trial.
    fn use_base(&mut self) {
        self.size = self.base;
        self.proven = self.base;
        self.trial = None;
        self.watch = Watch::default();
    }

    /// Whether a small packet would tell a black hole from silence, after so many probe time-outs in a
    /// row.
    pub(crate) fn wants_small_packet(&self, time_outs: u32) -> bool {
        self.size > self.least && self.black_hole.wants_small_packet(time_outs)
    }

    pub(crate) fn fill(&self, stats: &mut Stats) {
        stats.path_mtu_bytes = self.size;
        stats.mtu_probes_sent = self.counters.probes_sent;
        stats.mtu_probes_lost = self.counters.probes_lost;
        stats.mtu_probe_bytes = self.counters.probe_bytes;
        stats.black_holes = self.counters.black_holes;
    }

    /// Another path, on which sizes up to `ceiling` are worth probing.
    pub(crate) fn on_path_change(&mut self, ceiling: u16) {
        let counters = self.counters;
        let (least, base, peer_ceiling) = (self.least, self.base, self.peer_ceiling);
        let state = SearchState::Base { lost: 0 };
        *self = Self {
            least,
            base,
            ceiling: ceiling.min(peer_ceiling),
            peer_ceiling,
            size: base,
            proven: base,
            state,
            counters,
            ..Self::new(ceiling)
        };
    }

    /// Large packets vanish.
    fn fall(&mut self, now: Instant) {
        self.counters.black_holes += 1;
        self.fell_again = self.fell_at.is_some_and(|at| now < at + RAISE_AFTER);
        self.fell_at = Some(now);
        tracing::warn!(from = self.size, "large packets vanish: the path's MTU has fallen");
        self.forget_probes();
        if self.size > self.base {
            self.use_base();
            self.state = SearchState::Base { lost: 0 };
        } else {
            self.fail(now);
        }
    }

    fn fail(&mut self, now: Instant) {
        tracing::warn!(base = self.base, least = self.least, "not even base passes");
        self.forget_probes();
        self.use_base();
        self.size = self.least;
        // As above base: not at once again where large packets vanished twice.
        let search = if self.fell_again { Search::over() } else { Search::default() };
        self.state =
            SearchState::Error { search, retry_at: now + FIRST_RETRY, wait: 2 * FIRST_RETRY };
    }

    /// What was sent before the path changed says nothing about it.
    fn forget_probes(&mut self) {
        self.probe = None;
        self.earlier.clear();
        self.black_hole = BlackHole::new(self.black_hole.loss());
    }

    /// Base passes. A path on which large packets vanished twice in a while is not searched again at
    /// once: it may carry probes, and lose what follows.
    fn search_or_wait(&mut self, now: Instant) {
        if self.fell_again {
            self.complete(now);
        } else {
            self.state = SearchState::Searching(Search::default());
        }
    }

    fn complete(&mut self, now: Instant) {
        let raise_at = (self.size < self.ceiling).then(|| now + RAISE_AFTER);
        self.state = SearchState::SearchComplete { raise_at };
        if self.size > self.proven.max(self.base) {
            self.trial = Trial::of_new(self.size);
            if self.trial.is_none() {
                self.proven = self.size;
            }
        }
    }

    /// The loss rate to use: a safe guess before much is known.
    fn trusted(&self, loss: Probability) -> Probability {
        if self.settled < TRUSTED_AFTER {
            loss.max(LOSS_UNTIL_THEN)
        } else {
            loss
        }
    }
}

#[cfg(test)]
mod tests;
