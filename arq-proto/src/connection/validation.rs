// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The peer's address may change (NAT rebinding, roaming). Where its newest packet came from is the best guess of where
//! it is, so packets go there at once, but no more than a spoofed address may be sent; the rest goes on to the
//! address in use until the new one has shown that the peer receives there (RFC 9000 §8.2, §9.3). That each of the two
//! may be the wrong one has consequences: see [`Recovery::leave_path`](crate::recovery::Recovery::leave_path).
//!
//! Requirements, numbered as in `docs/protocol.md`:
//!
//! - **ARQ-PTH-1** An authentic packet from another address, with the largest number so far, may mean that the peer
//!   has moved. Its frames are processed; a PATH_CHALLENGE with a random token goes to the new address, and 2 to 8
//!   with another token to the old one: so many that all of them or their answers are lost with a chance of 1 in
//!   10,000. Until this is settled, packets of at most 1,200 bytes go to the new address as far as ARQ-AMP-1 allows,
//!   with room for a PATH_CHALLENGE; beyond that only packets without chunks and repair symbols go to the old one.
//! - **ARQ-PTH-2** An unanswered PATH_CHALLENGE is repeated with the same token five times: after a probe
//!   time-out of the old path, then at doubling intervals up to 1 s or that time-out; and again whenever a packet
//!   with the largest number comes from there. The token stays valid. A third address restarts this with a new
//!   token. No address is asked while the packet with the largest number came from elsewhere.
//! - **ARQ-PTH-4** The peer's address changes when the newest token returns from it, unless the packet with the
//!   largest number came from another one, and not before the old address could have answered (the larger of
//!   smoothed and latest round trip, and the reordering window, after the packet that raised the question). What
//!   was learnt of the path is reset; ids, packet numbers, lanes and credit stay.
//! - **ARQ-PTH-5** PATH_CHALLENGE and PATH_RESPONSE travel in packets of their own that are
//!   not in flight. Packets sent meanwhile are repaired as usual, but give no sample of either path. What the old
//!   address should have acknowledged by the time of ARQ-PTH-4 counts as lost.
//! - **ARQ-PTH-6** A server bound to several addresses sends from the one to which the authentic packet with the
//!   largest number was sent, as long as it has it.
//! - **ARQ-PTH-7** A side that received PATH_CHALLENGEs with two tokens within 5 s sends PINGs of 1,200 bytes
//!   after a random half to all of the larger of 250 ms and half a round trip without a packet, until it hears
//!   the peer 5 s after the last one.
//! - **ARQ-PTH-8** (Copies, RFC 9000 §9.3.3.) A packet from the peer's address that was not received before, with at
//!   least the number that raised the question, settles it: the peer has not moved, and packets wait for the
//!   PATH_RESPONSE of a new address for 1 s. For 3 s after an address change such a packet from the old one takes the
//!   peer back. A duplicate of such a number says that one of the two addresses has copies, not which. Then, too,
//!   packets wait, unless the new address has answered. The address in use, or the old one, is asked again, at most once
//!   in a probe time-out: by as many PATH_CHALLENGEs as in ARQ-PTH-1, with a token of their own. The address does not
//!   change before the answer may have come (the time of ARQ-PTH-4). That token's PATH_RESPONSE, from whatever address,
//!   shows that the peer receives there: it has not moved, or is taken back, and no address is asked or believed for 3 s.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use rand_core::RngCore;

use super::{receive::Arrived, transmit::Transmit, Connection};
use crate::{
    admission::MAX_AMPLIFICATION,
    chance::losses_beyond_chance,
    chunk_size::ChunkTuner,
    path_loss::PathLoss,
    timer::TimerKind,
    units::{PacketNumber, SocketId},
    wire::BASE_MTU,
};

/// A question is repeated this often, then not before something comes from there again.
const MAX_REPEATS: u8 = 5;
/// The longest wait between two questions, unless a probe time-out is longer.
const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// After a copy was seen for what it is, nobody is asked for so long.
const COPIES_DOUBTED_FOR: Duration = Duration::from_secs(3);
/// A peer that was elsewhere and is back is not followed again before so long, unless it answers from there: some hosts
/// and networks use two addresses in turn.
const RETURN_DOUBTED_FOR: Duration = Duration::from_secs(1);
/// A peer that has asked about two addresses of ours within so long sees us behind a NAT that is restless, for as long
/// after the second: the next mapping may be as short.
pub(super) const RESTLESS_FOR: Duration = Duration::from_secs(5);
/// Silence of the peer after which it is told where such a NAT has put us, at most, unless a round trip is longer.
const RESTLESS_KEEP_ALIVE: Duration = Duration::from_millis(250);

/// The chance that all questions to an address or their answers are lost, at most.
const ALL_LOST: f64 = 1e-4;
/// Questions to the address in use that leave at once.
const MIN_PATH_CHALLENGES: u32 = 2;
const MAX_PATH_CHALLENGES: u32 = 8;

/// Silence on a path that is only for when no other answers, after which it is asked.
const BACKUP_KEEP_ALIVE: Duration = Duration::from_secs(15);

/// An address from which authentic packets come, while it is asked to answer.
#[derive(Debug)]
pub(super) struct PathProbe {
    pub(super) address: SocketAddr,
    pub(super) token: u64,
    /// The packet that raised the question.
    raised_by: PacketNumber,
    raised_at: Instant,
    /// The answer came.
    answered: bool,
    received_bytes: u64,
    pub(super) sent_bytes: u64,
    repeats: u8,
    /// The next wait for an answer.
    interval: Duration,
    pub(super) due: bool,
    /// The token of the questions to the address in use. It is not compared: any new packet from there is an answer.
    pub(super) token_in_use: u64,
    /// How many of them are to be sent.
    pub(super) due_in_use: u32,
    /// The newest packet of all came from there.
    has_newest: bool,
    /// Packets go there without waiting for the answer.
    pub(super) is_open: bool,
}

impl PathProbe {
    /// Bytes that may be sent to the address now.
    pub(super) fn allowance(&self) -> u64 {
        (MAX_AMPLIFICATION * self.received_bytes).saturating_sub(self.sent_bytes)
    }
}

/// The address that the peer had until it moved.
#[derive(Debug)]
pub(super) struct Left {
    address: SocketAddr,
    /// The packet that raised the question whether it had.
    raised_by: PacketNumber,
    /// When it becomes an address like any other.
    until: Instant,
}

/// What copies of packets, and a peer that came back, lead to.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// No address is asked, nor believed, before.
    no_question_until: Option<Instant>,
    /// Packets wait for the answer before.
    no_data_until: Option<Instant>,
    copied: Option<Copied>,
}

/// Packets come from two addresses. Whether the peer is still where it was, only its answer from there tells: who copies what
/// it sends can do so from anywhere.
#[derive(Debug)]
struct Copied {
    /// The address in use, or the one that was until the peer moved.
    address: SocketAddr,
    token: u64,
    since: Instant,
    /// Questions to be sent.
    due: u32,
    /// It is not asked again before.
    next: Instant,
}

impl Doubts {
    fn is_doubted(&self, now: Instant) -> bool {
        self.no_question_until.is_some_and(|until| now < until)
    }

    /// Whether such a question is to be sent.
    pub(super) fn has_question(&self) -> bool {
        self.copied.as_ref().is_some_and(|copied| copied.due > 0)
    }

    /// The question to the address that the peer may still have.
    pub(super) fn take_question(&mut self) -> Option<(SocketAddr, u64)> {
        let copied = self.copied.as_mut()?;
        copied.due = copied.due.checked_sub(1)?;
        Some((copied.address, copied.token))
    }
}

/// Where the peer may be although it has not answered from there yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) address: SocketAddr,
    /// Bytes that may be sent there now.
    pub(super) allowance: u64,
}

impl Connection {
    /// The local address that the server's answer, or since then the peer's newest packet, was sent to, where the platform
    /// tells: a server that is bound to several answers from there. `None` once
    /// [`handle_local_ip_gone`](Self::handle_local_ip_gone) was called, until the next such packet.
    #[must_use]
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.path.local_ip
    }

    /// The system refused to send from [`local_ip`](Self::local_ip): this host does not have that address any more.
    pub fn handle_local_ip_gone(&mut self, socket: SocketId) {
        let number = self.path_through(socket);
        self.with_path(number, |connection| connection.path.local_ip = None);
    }

    /// Where an authentic packet came from and went to. Only one that is newer than all before can mean that
    /// the peer has moved: an old one was merely delayed.
    pub(super) fn note_path(&mut self, now: Instant, arrived: Arrived, number: PacketNumber) {
        let Arrived { from, to, bytes, .. } = arrived;
        let newest = number >= self.path.acks.expected();
        self.path.local_ip = to.filter(|_| newest).or(self.path.local_ip);
        if from == self.path.remote {
            if self.doubt_move(number) {
                self.path.doubts.no_data_until = Some(now + RETURN_DOUBTED_FOR);
            }
            return;
        }
        if let Some(probe) = self.path.probe.as_mut().filter(|probe| probe.address == from) {
            probe.received_bytes += bytes;
        }
        if self.is_back(now, from, number) {
            self.path.doubts.no_data_until = Some(now + RETURN_DOUBTED_FOR);
        } else if newest && !self.path.doubts.is_doubted(now) {
            self.raise_question(now, arrived, number);
            self.follow_peer(now);
        }
    }

    /// The newest packet came from elsewhere.
    fn raise_question(&mut self, now: Instant, arrived: Arrived, number: PacketNumber) {
        let opens = self.path.doubts.no_data_until.is_none_or(|until| until <= now);
        let known = self.path.probe.as_ref().is_some_and(|probe| probe.address == arrived.from);
        if !known {
            self.path.timers.set(TimerKind::Path, None);
            self.path.probe = Some(PathProbe {
                address: arrived.from,
                token: self.rng.next_u64(),
                raised_by: number,
                raised_at: now,
                answered: false,
                received_bytes: arrived.bytes,
                sent_bytes: 0,
                repeats: 0,
                interval: self.path.recovery.pto_base(),
                due: false,
                token_in_use: self.rng.next_u64(),
                due_in_use: 0,
                has_newest: false,
                is_open: false,
            });
        }
        let Some(probe) = &mut self.path.probe else { return };
        if !std::mem::replace(&mut probe.has_newest, true) {
            // Copies that led to an earlier question say nothing of this one.
            self.path.doubts.copied = None;
        }
        // Asked in vain, and still sending from there: the answer may have been lost, or be under way.
        let asks = !probe.answered && !self.path.timers.is_set(TimerKind::Path);
        if asks {
            probe.repeats = 0;
        }
        if opens && !std::mem::replace(&mut probe.is_open, true) {
            (probe.raised_by, probe.raised_at) = (number, now);
            self.leave_path(now);
        }
        if asks {
            self.ask_path(now);
        }
    }

    /// Packets go to where the peer seems to be now.
    fn leave_path(&mut self, now: Instant) {
        self.path.recovery.leave_path();
        // Its acknowledgement tells what was lost on the way to where the peer no longer is.
        self.path.ping_due |= self.path.recovery.in_flight_bytes() > 0;
        let outcome = self.path.recovery.give_up_overdue(now);
        self.settle(now, outcome);
    }

    /// A packet that was received before, and is authentic. If it comes from where the peer is, or was, and raised the
    /// question about another address, or is newer, either this or what came first was a copy (RFC 9000 §9.3.3).
    pub(super) fn note_repeated(&mut self, now: Instant, from: SocketAddr, number: PacketNumber) {
        let in_use = from == self.path.remote;
        let probe = self.path.probe.as_mut().filter(|_| in_use);
        if let Some(probe) = probe.filter(|one| one.has_newest && number >= one.raised_by) {
            // An address that has answered is no spoofed one: data need not wait for the other answer.
            if !probe.answered && std::mem::take(&mut probe.is_open) {
                self.path.recovery.enter_path();
            }
            self.path.doubts.no_data_until = Some(now + RETURN_DOUBTED_FOR);
        } else if !self.may_be_back(now, from, number) {
            return;
        }
        let next = now + self.path.recovery.pto_base();
        let due = self.path_challenges();
        match self.path.doubts.copied.as_mut().filter(|copied| copied.address == from) {
            Some(copied) if now < copied.next => {}
            Some(copied) => (copied.due, copied.next) = (due, next),
            None => {
                let token = self.rng.next_u64();
                let copied = Copied { address: from, token, since: now, due, next };
                self.path.doubts.copied = Some(copied);
            }
        }
    }

    /// The peer has answered from the address that it may have left: what comes from elsewhere are copies.
    fn on_answer_to_copies(&mut self, now: Instant, token: u64) {
        let copied = self.path.doubts.copied.take_if(|copied| copied.token == token);
        let Some(Copied { address, .. }) = copied else { return };
        if address == self.path.remote {
            self.doubt_move(PacketNumber::MAX);
        } else {
            let is_left = |left: &mut Left| left.address == address && now < left.until;
            // Later it is an address like any other.
            let Some(_) = self.path.left.take_if(is_left) else { return };
            self.move_to(address);
        }
        self.path.doubts.no_question_until = Some(now + COPIES_DOUBTED_FOR);
    }

    /// Whether this is no older than what said that the peer had moved, and comes from where it was.
    fn may_be_back(&self, now: Instant, from: SocketAddr, number: PacketNumber) -> bool {
        let left = self.path.left.as_ref().filter(|left| left.address == from && now < left.until);
        left.is_some_and(|left| number >= left.raised_by)
    }

    /// The peer was followed too soon.
    fn is_back(&mut self, now: Instant, from: SocketAddr, number: PacketNumber) -> bool {
        let is_back = self.may_be_back(now, from, number);
        if is_back {
            self.path.left = None;
            self.move_to(from);
        }
        is_back
    }

    /// The peer is where it was, if this is no older than what said otherwise. Tells whether that answers a question.
    fn doubt_move(&mut self, number: PacketNumber) -> bool {
        let Some(probe) = self.path.probe.as_mut().filter(|probe| number >= probe.raised_by) else {
            return false;
        };
        (probe.due, probe.due_in_use) = (false, 0);
        let was_asked = std::mem::take(&mut probe.has_newest);
        if std::mem::take(&mut probe.is_open) {
            self.path.recovery.enter_path();
        }
        was_asked
    }

    /// Asks, and waits for the answer: twice as long each time. Only the path in use is measured, and the
    /// new one may be slower by any factor (RFC 9000 §8.2.4).
    fn ask_path(&mut self, now: Instant) {
        let challenges = self.path_challenges();
        let Some(probe) = &mut self.path.probe else { return };
        (probe.due, probe.due_in_use) = (true, challenges);
        self.path.timers.set(TimerKind::Path, Some(now + probe.interval));
        probe.interval = (probe.interval * 2).min(MAX_INTERVAL).max(probe.interval);
    }

    /// How many questions to an address leave at once. If all or their answers are lost, who copies packets from elsewhere
    /// takes the peer's place.
    fn path_challenges(&self) -> u32 {
        losses_beyond_chance(
            self.chance_of_no_answer(),
            ALL_LOST,
            MIN_PATH_CHALLENGES..=MAX_PATH_CHALLENGES,
        )
    }

    pub(super) fn on_path_response(&mut self, now: Instant, from: SocketAddr, token: u64) {
        if self.on_opening_response(now, token) {
            return;
        }
        self.on_answer_to_copies(now, token);
        let Some(probe) = &self.path.probe else { return };
        // Whoever has sent from elsewhere since is there no longer.
        if probe.address == from && probe.token == token && probe.has_newest {
            if let Some(probe) = &mut self.path.probe {
                probe.answered = true;
                if !std::mem::replace(&mut probe.is_open, true) {
                    self.leave_path(now);
                }
            }
            self.follow_peer(now);
        }
    }

    /// Moves to an address that has answered. Not before the address in use could have answered as well: what is faster
    /// than that may be a copy.
    fn follow_peer(&mut self, now: Instant) {
        let probe = self.path.probe.as_ref().filter(|probe| probe.answered && probe.has_newest);
        let Some(probe) = probe.filter(|_| !self.path.doubts.is_doubted(now)) else { return };
        // Copies lead to a question of their own to the address in use.
        let copied = self.path.doubts.copied.as_ref();
        let copied = copied.filter(|copied| copied.address == self.path.remote);
        let asked_at = copied.map_or(probe.raised_at, |copied| copied.since.max(probe.raised_at));
        let due = asked_at + self.path.recovery.repair_delay();
        if now < due {
            return self.path.timers.set(TimerKind::Path, Some(due));
        }
        let until = now + COPIES_DOUBTED_FOR;
        let left = Left { address: self.path.remote, raised_by: probe.raised_by, until };
        let round_trip = now.saturating_duration_since(probe.raised_at);
        self.move_to(probe.address);
        self.path.recovery.assume_rtt_at_most(round_trip);
        self.path.left = Some(left);
    }

    fn move_to(&mut self, address: SocketAddr) {
        // Not louder: a peer may move as often as it likes.
        tracing::debug!(old = %self.path.remote, new = %address, "the peer has moved");
        self.path.remote = address;
        self.path.probe = None;
        self.path.timers.set(TimerKind::Path, None);
        self.path.acks.loss = PathLoss::default();
        self.path.chunk_tuner = ChunkTuner::default();
        self.path.batches.on_path_change();
        self.path.mtu.on_path_change(self.config.usual_mtu(address));
        // First the size of packets, then those who count in it.
        self.follow_path_mtu();
        self.path.recovery.on_path_change();
    }

    pub(super) fn on_path_timer(&mut self, now: Instant) {
        if self.on_opening_timer(now) {
            return;
        }
        let Some(probe) = &mut self.path.probe else { return };
        if probe.answered {
            return self.follow_peer(now);
        }
        // The token stays good: its answer may take longer than all that.
        if probe.has_newest && probe.repeats < MAX_REPEATS {
            probe.repeats += 1;
            self.ask_path(now);
        }
    }

    /// A path that is only for when no other answers is asked less often. Of several, only the side that has dialled asks as
    /// long as it does: else both would, at the same moment, and each answer.
    fn keep_alive_of_path(&self) -> Duration {
        let usual = self.keep_alive();
        if self.others.is_empty() {
            return usual;
        }
        let wait = match self.path.is_backup() {
            true => usual.max(BACKUP_KEEP_ALIVE.min(self.config.idle_timeout)),
            false => usual,
        };
        if self.dialled {
            wait
        } else {
            wait * 3 / 2
        }
    }

    /// The peer asks whether we receive at the address that it used. Answered there only as far as
    /// the limit for an address that has not answered us allows.
    pub(super) fn on_path_challenge(&mut self, now: Instant, from: SocketAddr, token: u64) {
        if self.on_opening_challenge(from, token) {
            return;
        }
        let mut answered = from == self.path.remote;
        if answered {
            let last = self.path.asked_by_peer.replace((now, token));
            if last.is_none_or(|(_, before)| before != token) {
                // Where it sees another address of ours, the way to it is another, too.
                self.path.recovery.test_ecn_anew();
            }
            if last.is_some_and(|(at, before)| before != token && now < at + RESTLESS_FOR) {
                self.path.restless_at = Some(now);
            }
        } else if let Some(probe) = self.path.probe.as_ref().filter(|probe| probe.address == from) {
            answered = probe.allowance() >= self.path.packet_bytes;
        }
        if answered {
            self.path.response = Some((from, token));
        }
    }

    pub(super) fn transmit_path(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        // The cookie would make the packet larger than what it answers, and a client that has not
        // been answered yet has no path to leave.
        if self.cookie().is_some() {
            return None;
        }
        let (destination, frame) = self.path.take_frame()?;
        let mut draft = self.start_packet(now, out, BASE_MTU.into())?;
        draft.put(out, &frame, None);
        self.protection.set_ack_now(&mut out[draft.start..]);
        // Its loss says nothing about the path in use, and it has a timer of its own.
        draft.in_flight = false;
        let size = self.finish_packet(now, out, draft)?;
        Some(self.transmit_to(destination, size, size))
    }

    /// When the peer is asked whether it lives, and so told where we are.
    pub(super) fn keep_alive_deadline(&self) -> Option<Instant> {
        let asked_at = self.path.recovery.heard_at().max(self.path.pinged_at);
        let (wait, asks) = match self.path.is_restless(self.life.heard_at) {
            // Probes back off.
            true => {
                (self.path.restless_wait.min(self.keep_alive()), self.path.recovery.only_asks())
            }
            false => (self.keep_alive_of_path(), false),
        };
        // Probes of what is in flight ask as well.
        let quiet = self.path.recovery.in_flight_bytes() == 0 || asks;
        (quiet && !self.path.ping_due).then(|| asked_at + wait)
    }

    pub(super) fn on_keep_alive_timer(&mut self, now: Instant) {
        self.path.pinged_at = now;
        self.path.ping_due = true;
        // Not always the same time: it might be that of the NAT.
        let most = RESTLESS_KEEP_ALIVE.max(self.path.recovery.rtt().smoothed() / 2);
        let share = f64::from(self.rng.next_u32()) / f64::from(u32::MAX);
        self.path.restless_wait = most / 2 + (most / 2).mul_f64(share);
    }

    /// The least size of a packet that only asks, in bytes and without its tag: the more comes from an address, the more may
    /// be answered. Every path carries it.
    pub(super) fn least_ping_bytes(&self) -> usize {
        if self.path.is_restless(self.life.heard_at) {
            usize::from(BASE_MTU) - self.tag_bytes()
        } else {
            0
        }
    }
}
