// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Datagrams go out: a packet is a list of frames offered in turn until it is full.
//!
//! Chunks come first, the most urgent lane's oldest ones; control frames and the acknowledgement
//! take what room is left, or a packet of their own when they are due.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use super::{
    draft::{Draft, Length},
    timestamps::timestamp_of,
    validation::Candidate,
    Connection, SocketSet, State,
};
use crate::{
    batches::{Burst, Plan},
    ecn::EcnCodepoint,
    error::ConnectionError,
    observer::Packet,
    path_mtu::Side,
    send::message::Sent,
    sent::{Content, Contents, Departure, Fate, SentPacket, Stride},
    symbol::SymbolRef,
    timer::TimerKind,
    units::{LaneId, LaneSet, PacketNumber, SocketId},
    wire::{
        frame::{ChunkFrame, Frame},
        packet::DataHeader,
        protection::{SealError, MAX_TAG_BYTES},
        BASE_MTU,
    },
};

/// Datagrams ready to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transmit {
    /// Where to.
    pub destination: SocketAddr,
    /// The local address to send from, where it matters: the one that the peer sends to.
    pub source: Option<IpAddr>,
    /// The socket to send through.
    pub socket: SocketId,
    /// Bytes appended to the buffer.
    pub size: usize,
    /// Bytes of each datagram but the last, which may be shorter.
    pub segment_size: usize,
    /// What their IP headers are to say of congestion, all of them the same. `None`: nothing.
    pub ecn: Option<EcnCodepoint>,
    /// It is to leave from a local port that was not used before, where there can be one. If something authentic comes
    /// back there, that is the port from then on.
    pub from_other_port: bool,
    /// There may be more to send right now. If not, [`Connection::poll_transmit`] has nothing until something else happens.
    pub more: bool,
}

/// Bytes of a packet with one chunk beside the chunk's data, at most, however packets are protected.
pub const ONE_CHUNK_OVERHEAD_BYTES: usize = one_chunk_overhead(MAX_TAG_BYTES);

/// The same for tags of so many bytes.
pub(super) const fn one_chunk_overhead(tag_bytes: usize) -> usize {
    DataHeader::MAX_BYTES + ChunkFrame::MAX_OVERHEAD + tag_bytes
}

/// Bytes of a packet with nothing but a path challenge or response, at most.
pub(super) const fn path_packet_bytes(tag_bytes: usize) -> u64 {
    (DataHeader::MAX_BYTES + Frame::MAX_CONTROL_BYTES + tag_bytes) as u64
}

impl Connection {
    /// Appends up to `max_segments` datagrams of equal size (the last may be shorter) for one
    /// destination to `out`. `None`: nothing to send now. To be asked again until then, or until there is no
    /// [`more`](Transmit::more).
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        max_segments: usize,
    ) -> Option<Transmit> {
        self.poll_transmit_unless(now, out, max_segments, SocketSet::default())
    }

    /// As [`Self::poll_transmit`], but nothing for sockets that are `blocked`: one that is full must not stop the others.
    pub fn poll_transmit_unless(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        max_segments: usize,
        blocked: SocketSet,
    ) -> Option<Transmit> {
        let now = self.advance(now);
        // A host that slept sends before it looks at its timers.
        if self.outgoing.expiry().is_some_and(|at| at <= now) {
            self.expire(now);
        }
        let mut transmit = match self.state {
            State::Hello(_) => self.if_granted(now, |side| side.transmit_hello(now, out)),
            State::Accepting => self.transmit_handshake(out),
            State::Open { .. } | State::Flushing { .. } => self
                .if_granted(now, |side| side.transmit_handshake(out))
                .or_else(|| self.transmit_on_paths(now, out, max_segments, blocked)),
            State::Closing(_) => self
                .transmit_end(now, out)
                .or_else(|| self.if_granted(now, |side| side.transmit_handshake(out))),
            State::Drained => None,
        };
        if let Some(transmit) = &transmit {
            let datagrams = transmit.size.div_ceil(transmit.segment_size) as u64;
            self.counters.packets_sent += datagrams;
            self.counters.batches_sent += u64::from(datagrams > 1);
            self.counters.bytes_sent += transmit.size as u64;
        }
        if let Some(transmit) = &mut transmit {
            transmit.more = self.may_have_more(now);
        }
        self.rearm(now);
        transmit
    }

    /// What the path that is served has to send.
    pub(super) fn transmit_on_path(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        max_segments: usize,
    ) -> Option<Transmit> {
        let granted = self.path.grant(now, max_segments);
        if granted == 0 {
            return None;
        }
        let transmit = match self.path.is_opening() {
            true => self.transmit_opening(now, out),
            false => self
                .transmit_path(now, out)
                .or_else(|| self.transmit_mtu_probe(now, out))
                .or_else(|| self.transmit_to_candidate(now, out))
                .or_else(|| self.transmit_data(now, out, granted))
                .or_else(|| self.transmit_small_packet(now, out))
                .or_else(|| self.transmit_from_other_port(now, out)),
        };
        self.path.settle_grant(now, granted, transmit.as_ref());
        if let Some(transmit) = &transmit {
            self.path.count_sent(transmit);
        }
        transmit
    }

    /// Whether to ask again at once. `false` is sure, `true` may turn out to be nothing. Where more is on its way the
    /// window and the pacer usually say no.
    fn may_have_more(&mut self, now: Instant) -> bool {
        let is_open = matches!(self.state, State::Open { .. } | State::Flushing { .. });
        if !is_open || !self.others.is_empty() || self.path.meter.is_some() {
            return true;
        }
        let path = &self.path;
        let asks = path.may_have_frame() || path.small_packet_due;
        let shakes_hands = self.handshake.as_ref().is_some_and(|handshake| handshake.is_due());
        let is_urgent = path.acks.is_due() || path.recovery.is_probe_due() || self.has_control();
        // A burst of single packets ends where there is nothing to send.
        asks || is_urgent
            || shakes_hands
            || path.batches.is_in_run()
            || self.other_port.is_due()
            || self.may_probe_mtu(now)
            || self.path.recovery.is_on_path() && self.may_send_chunks(now)
    }

    fn transmit_hello(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        let start = out.len();
        // What is left of the attempt before goes first.
        let farewell = self.handshake.as_mut().and_then(|handshake| handshake.take_farewell());
        match farewell {
            Some(farewell) => out.extend_from_slice(&farewell),
            None if self.write_hello(now, out) => {}
            None => return None,
        }
        Some(self.single(start, out.len()))
    }

    pub(super) fn single(&mut self, start: usize, end: usize) -> Transmit {
        let size = end - start;
        self.transmit_to(self.path.destination_of(size), size, size)
    }

    /// Datagrams for the path that is served.
    pub(super) fn transmit_to(
        &mut self,
        destination: SocketAddr,
        size: usize,
        segment_size: usize,
    ) -> Transmit {
        let (source, socket) = (self.path.local_ip, self.path.socket);
        let (from_other_port, more) = (false, true);
        let ecn = self.path.recovery.ecn.take_codepoint();
        Transmit { destination, source, socket, size, segment_size, ecn, from_other_port, more }
    }

    /// One packet to where the peer seems to be now, as long as may be sent there. A longer one may be too long
    /// for the path.
    fn transmit_to_candidate(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        let Candidate { address: destination, allowance } = self.path.candidate()?;
        let limit: u64 = self.path.mtu.size().min(BASE_MTU).into();
        let length = Length::exactly(allowance.min(limit) as usize);
        let size = self.write_packet(now, out, length, true, Burst::Single)?;
        self.announce_writable(now);
        self.finish_if_flushed(now);
        Some(self.transmit_to(destination, size, size))
    }

    fn transmit_data(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        max_segments: usize,
    ) -> Option<Transmit> {
        let start = out.len();
        // Where the peer no longer is they would only fill the window.
        let chunks = self.path.recovery.is_on_path();
        let silent = self.path.recovery.time_outs() > 0;
        // Their rate alone is to tell.
        let compares =
            self.path.recovery.wants_single_packets() && !self.path.batches.are_compared();
        let max_segments = if compares { 1 } else { max_segments };
        let Plan { burst, packets, bytes } =
            self.path.batches.plan(max_segments, silent, &mut self.rng);
        let (length, packets) = match (bytes, burst) {
            (Some(bytes), _) => (Length::exactly(bytes), packets),
            // One experiment at a time.
            (None, Burst::Together(_) | Burst::Apart(_)) => (self.usual_length(), packets),
            (None, Burst::Batch(_) | Burst::Single) => self.plan_length(packets),
        };
        // What is filled up leaves by itself: the packets of a batch are equal.
        let burst = if length.fills { Burst::Single } else { burst };
        let mut first = self.write_packet(now, out, length, chunks, burst);
        self.path.batches.on_sent(first);
        if first.is_none() && bytes.is_some() {
            // What is next is longer than the packets of the burst, which has ended. It must not wait: nothing would make
            // the driver ask again.
            first = self.write_packet(now, out, self.usual_length(), chunks, Burst::Single);
        }
        let segment_size = first?;
        for _ in 1..packets {
            match self.write_packet(now, out, Length::exactly(segment_size), chunks, burst) {
                Some(size) if size == segment_size => {}
                // A shorter one ends the batch.
                Some(_) | None => break,
            }
        }
        self.announce_writable(now);
        self.finish_if_flushed(now);
        let size = out.len() - start;
        Some(self.transmit_to(self.path.remote, size, segment_size))
    }

    /// How long the next packet may be, and how many as long follow it, of `most` at once.
    fn plan_length(&mut self, most: usize) -> (Length, usize) {
        match self.path.mtu.plan(most, &mut self.rng) {
            0 => (Length { fills: true, ..self.usual_length() }, 1),
            packets => (self.usual_length(), packets),
        }
    }

    fn usual_length(&self) -> Length {
        let (usual, longest) = (self.path.mtu.size_in_use(), self.path.mtu.size());
        Length { usual: usual.into(), longest: longest.into(), fills: false }
    }

    /// Appends one packet as long as `length` allows, with `chunks` if any may be sent; returns its size.
    fn write_packet(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        length: Length,
        chunks: bool,
        burst: Burst,
    ) -> Option<usize> {
        let may_send_chunks = chunks && self.may_send_chunks(now);
        let urgent = self.path.acks.is_due() && !self.holds_back_ack(now)
            || self.path.recovery.is_probe_due()
            || self.has_control();
        if !urgent && !may_send_chunks {
            return None;
        }
        let mut draft = Draft { burst, ..self.start_packet(now, out, length.usual)? };
        draft.longest_end = draft.start + length.longest.saturating_sub(self.tag_bytes());
        if may_send_chunks {
            self.offer_doubles(now, out, &mut draft);
            self.offer_symbols(now, out, &mut draft);
        }
        let has_symbols = draft.in_flight;
        if has_symbols {
            let rtt = self.path.recovery.rtt_so_far(now);
            self.path.acks.on_data_sent(now, rtt);
        }
        self.offer_control(now, out, &mut draft);
        let answers = self.path.acks.is_due();
        let acked = draft.room(out) > 0 && self.offer_ack(now, out, &draft);
        self.offer_path_acks(now, out, &draft, answers);
        if has_symbols && self.path.meter.is_none() {
            self.offer_bundle(now, out, &mut draft);
        }
        if self.path.recovery.is_probe_due() && !draft.in_flight && draft.room(out) > 0 {
            draft.put(out, &Frame::Ping, None);
        }
        self.offer_time(now, out, &mut draft);
        if has_symbols {
            let fills = length.fills && !(draft.repairs && self.path.doubtful_above.is_some());
            draft.side = self.path.mtu.side(out.len() - draft.start, fills);
        }
        if draft.side == Side::Filled {
            draft.end = draft.longest_end;
            draft.pad(out);
        }
        if draft.in_flight && !has_symbols {
            draft.pad_to(out, self.least_ping_bytes());
        }
        if draft.frames == out.len() {
            out.truncate(draft.start);
            return None;
        }
        if acked {
            self.counters.acks_sent += 1;
            self.path.told_at = now;
        }
        self.finish_packet(now, out, draft)
    }

    /// Whether window and pacer let chunks leave now. Sets the pacing timer.
    fn may_send_chunks(&mut self, now: Instant) -> bool {
        self.path.timers.set(TimerKind::Pacing, None);
        let waiting = self.waiting();
        if waiting.is_empty() && !self.has_doubles() {
            self.path.recovery.rest();
            return false;
        }
        self.path.recovery.on_time(now);
        // A probe is beyond the window, but not beyond the rate: where a round trip is shorter than the time
        // that a packet takes, probes would be all of the traffic. A ping goes in any case.
        let bytes = self.path.mtu.size_in_use().into();
        if !self.path.recovery.is_probe_due() && !self.path.recovery.window_allows(bytes) {
            self.path.recovery.rest();
            return false;
        }
        self.path.recovery.shorten_bursts(self.outgoing.yields(now, waiting));
        let delay = self.path.recovery.pacing_delay(now);
        self.path.timers.set(TimerKind::Pacing, delay);
        delay.is_none()
    }

    /// Lanes that have a chunk which may leave on the path that is served.
    pub(super) fn waiting(&mut self) -> LaneSet {
        self.outgoing.find_waiting() & self.path.offer.lanes
    }

    pub(super) fn start_packet(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        limit: usize,
    ) -> Option<Draft> {
        self.path.recovery.leave_out_number_if_due(now, &mut self.rng);
        let number = self.path.recovery.next_number();
        if number >= PacketNumber::MAX {
            self.end(ConnectionError::PacketNumbersUsedUp);
            return None;
        }
        if self.protection.is_sealed() {
            let (largest_acked, patience) =
                (self.path.recovery.largest_acked(), self.key_patience());
            self.protection.update_if_due(now, self.path.number, largest_acked, || patience);
        }
        let start = out.len();
        let span = self.path.recovery.least_unacked_offset();
        self.protection.write_header(self.path.remote_cid, number, span, self.cookie(), out);
        let end = start + limit.saturating_sub(self.tag_bytes());
        Some(Draft {
            start,
            frames: out.len(),
            end,
            longest_end: end,
            burst: Burst::Single,
            side: Side::Neither,
            contents: Contents::new(),
            in_flight: false,
            repairs: false,
            timestamp: None,
        })
    }

    /// Chunks and repair symbols, until the packet is full.
    fn offer_symbols(&mut self, now: Instant, out: &mut Vec<u8>, draft: &mut Draft) {
        // Where to go on in each lane, and the lanes whose rest is for the next packet.
        let (mut from, mut done) = ([0; LaneId::COUNT], LaneSet::default());
        let end_at = |bytes: u16| draft.start + usize::from(bytes) - self.tag_bytes();
        let (base_end, short_end) = (end_at(BASE_MTU), self.path.doubtful_above.map(end_at));
        let redundancy = self.redundancy();
        let spreads = redundancy.spreads_symbols();
        loop {
            let waiting = self.waiting() - done;
            let Some(id) = self.outgoing.scheduler.pick(waiting) else { return };
            let (credit, start) = (self.outgoing.credit.available(), from[id.index()]);
            let limits = self.chunk_limits_of_next(&redundancy, id, start, credit);
            let lane = &mut self.outgoing.lanes[id];
            let Some(next) = lane.next_symbol(start, limits, credit) else {
                done.insert(id);
                continue;
            };
            let SymbolRef { seq, segmentation, symbol, .. } = next;
            let content = Content::Symbol { lane: id, seq, segmentation, symbol };
            // A copy must not share the fate of what it is a copy of.
            if draft.has_symbol(id, seq, &content) {
                from[id.index()] = seq + 1;
                continue;
            }
            from[id.index()] = seq;
            let timestamp = timestamp_of(&self.config, self.clock.epoch, id, lane, seq);
            let needed = draft.len_with(next.frame_len, timestamp);
            draft.stay_short(out.len() + needed, short_end);
            if needed > draft.room(out) {
                draft.grow_for_the_first();
            }
            if needed > draft.room(out) {
                return;
            }
            draft.put_timestamp(out, timestamp);
            draft.put(out, &lane.frame(next, &mut self.outgoing.scratch), Some(content));
            self.double(now, id, next);
            // What shares a packet shares its fate.
            if spreads {
                draft.end = draft.end.min(base_end);
            }
            let parity = self.parity(&redundancy, id, next);
            let (sent, cost) = self.outgoing.lanes[id].on_sent(now, next, parity);
            self.outgoing.credit.spend(cost);
            self.path.first_round_open |= sent.is_of_first_round();
            draft.repairs |= !sent.is_of_first_round();
            match sent {
                Sent::New(bytes) => {
                    self.outgoing.on_new_chunk(now, id, next);
                    self.path.chunk_tuner.on_chunk(symbol, bytes);
                    self.remember_small(now, id, next);
                }
                Sent::Again => {
                    self.counters.chunks_retransmitted += 1;
                    self.outgoing.bundle.on_sent_again(now, id, seq);
                }
                Sent::Parity | Sent::Repair => self.counters.repair_symbols_sent += 1,
            }
            self.outgoing.scheduler.on_sent(id, waiting, self.outgoing.pending);
        }
    }

    fn has_control(&self) -> bool {
        let concerns_all = self.path.offer.control
            && (self.has_credit_to_grant() || self.outgoing.has_urgent_forget() || self.has_wish());
        self.path.ping_due || concerns_all
    }

    /// Whether reading has made room that the peer should hear of: then something is to be transmitted.
    #[must_use]
    pub fn has_credit_to_grant(&self) -> bool {
        self.incoming.has_credit_to_grant()
    }

    /// Credit, forgotten messages and pings.
    fn offer_control(&mut self, now: Instant, out: &mut Vec<u8>, draft: &mut Draft) {
        if self.path.offer.control {
            self.offer_credit(now, out, draft);
        }
        if self.path.ping_due && draft.room(out) > 0 {
            self.path.ping_due = false;
            if !draft.in_flight {
                draft.put(out, &Frame::Ping, None);
            }
        }
    }

    /// What concerns all paths.
    fn offer_credit(&mut self, now: Instant, out: &mut Vec<u8>, draft: &mut Draft) {
        while self.has_wish() && draft.room(out) >= Frame::MAX_PATH_STATE_BYTES {
            if let Some((frame, content)) = self.take_wish() {
                draft.put(out, &frame, Some(content));
            }
        }
        let has_room = |draft: &Draft, out: &[u8]| draft.room(out) >= Frame::MAX_CONTROL_BYTES;
        if has_room(draft, out) {
            if let Some((frame, content)) = self.incoming.take_credit() {
                draft.put(out, &frame, Some(content));
            }
        }
        let rtt = self.path.recovery.rtt();
        let least_rtt = if rtt.is_measured() { rtt.min() } else { Duration::ZERO };
        for lane in LaneId::all() {
            if has_room(draft, out) {
                if let Some((frame, content)) = self.incoming.take_lane_credit(now, lane, least_rtt)
                {
                    draft.put(out, &frame, Some(content));
                }
            }
            if has_room(draft, out) {
                if let Some(below) = self.outgoing.lanes[lane].take_forget() {
                    draft.put(out, &Frame::Forget { lane, below }, Some(Content::Forget(lane)));
                }
            }
        }
    }

    /// An acknowledgement is added whenever there is news.
    pub(super) fn offer_ack(&mut self, now: Instant, out: &mut Vec<u8>, draft: &Draft) -> bool {
        self.path.acks.has_news() && self.path.acks.write(now, draft.room(out), out)
    }

    /// Seals a packet and takes it for sent; returns its size.
    pub(super) fn finish_packet(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        draft: Draft,
    ) -> Option<usize> {
        let bytes = out.len() + self.tag_bytes() - draft.start;
        let is_probe = self.path.recovery.is_probe_due();
        let app_limited = self.waiting().is_empty();
        let number = self.path.recovery.next_number();
        let Draft { start, frames, in_flight, burst, side, contents, .. } = draft;
        let ect = self.path.recovery.marks_next(in_flight);
        self.path.recovery.on_sent(SentPacket {
            sent_at: now,
            // A datagram is at most 64 KiB.
            bytes: bytes as u16,
            fate: if in_flight { Fate::InFlight } else { Fate::NeverInFlight },
            departure: Departure::new(app_limited, ect),
            burst,
            side,
            contents,
            stride: Stride::default(),
        });
        if let Some(observer) = &mut self.observer {
            observer.packet_sent(now, &Packet::new(number.0, bytes, &out[frames..]));
        }
        // The end of a flight: nobody else would make the peer answer soon.
        let is_last =
            app_limited || !self.path.recovery.window_allows(self.path.mtu.size_in_use().into());
        if in_flight && (is_probe || is_last) {
            self.protection.set_ack_now(&mut out[start..]);
            // What waits for the window leaves as soon as something is heard. Flights of repairs alone have no
            // timer: each would start the next, and put the probe off for ever.
            if app_limited && std::mem::take(&mut self.path.first_round_open) {
                self.path.recovery.on_tail(now, number);
            }
        }
        if let Err(error) = self.protection.seal(self.path.number, number, out, start) {
            out.truncate(start);
            self.end(match error {
                SealError::NumberUsed => ConnectionError::PacketNumbersUsedUp,
                SealError::KeyUsedUp => ConnectionError::KeysUsedUp,
            });
            return None;
        }
        Some(bytes)
    }
}
