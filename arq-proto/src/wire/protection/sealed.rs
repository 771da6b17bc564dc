// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! SEALED packets: encrypted, with a masked number, under keys that change (RFC 9001 §5, §6).

use std::{
    mem,
    time::{Duration, Instant},
};

use super::{Opened, SealError};
use crate::{
    session::{HeaderKey, Keys, PacketKey, Updates, SAMPLE_BYTES, TAG_BYTES},
    units::{ConnectionId, PacketNumber, PathNumber},
    wire::{
        cursor::{put_varint, DecodeError, Reader},
        packet::SEALED,
    },
};

/// Bytes of the header. What varies in length is encrypted, so it is no part of it.
pub const HEADER_BYTES: usize = 1 + 8 + 4;
/// The key phase, in the first byte.
const KEY_PHASE: u8 = 0x01;
/// The least bit of what is encrypted first asks for an immediate acknowledgement.
const ACK_NOW: u8 = 0x01;
/// Sent packets that are remembered, to know a RESET that answers one, or an ICMP message that quotes one.
const REMEMBERED: usize = 64;
/// Keys last no longer, however few packets they seal.
const MAX_AGE: Duration = Duration::from_secs(3_600);
/// Old keys are kept for so many probe time-outs after the peer's first packet under new ones (RFC 9001 §6.5). As long
/// after an update there is none.
const KEPT_PTOS: u32 = 3;
const MIN_KEPT: Duration = Duration::from_secs(1);

/// A packet that was sent, as others see it.
#[derive(Debug, Clone, Copy, Default)]
struct Remembered {
    number: PacketNumber,
    masked: u32,
    /// The last bytes of its tag.
    echo: u64,
}

/// A number of each path, if it has one.
type PerPath = [Option<PacketNumber>; PathNumber::COUNT];

/// The keys of a phase.
#[derive(Debug)]
struct KeyPhase {
    local: Box<dyn PacketKey>,
    remote: Box<dyn PacketKey>,
    since: Instant,
    /// The first packet of each path that was sealed.
    first_sealed: PerPath,
    sealed: u64,
    /// The least number of the peer's that was opened, of each path.
    least_opened: PerPath,
}

/// Seals and opens the packets of an association. Both directions change their keys together.
#[derive(Debug)]
pub struct Sealed {
    local_header: Box<dyn HeaderKey>,
    remote_header: Box<dyn HeaderKey>,
    phase: KeyPhase,
    /// Whether the phase is an odd one.
    is_odd: bool,
    /// Opens what the peer sent before the update, until the time given, if it has followed.
    previous: Option<(Box<dyn PacketKey>, Option<Instant>)>,
    next: (Box<dyn PacketKey>, Box<dyn PacketKey>),
    source: Box<dyn Updates>,
    /// Packets after which keys change.
    update_after: u64,
    remembered: Box<[Remembered; REMEMBERED]>,
    updates: u64,
    forged: u64,
}

impl Sealed {
    /// With the first keys, which change after `update_after` packets.
    #[must_use]
    pub fn new(keys: Keys, mut source: Box<dyn Updates>, update_after: u64, now: Instant) -> Self {
        let Keys { local, remote } = keys;
        let next = source.next();
        Self {
            local_header: local.header,
            remote_header: remote.header,
            phase: KeyPhase::new((local.packet, remote.packet), now),
            is_odd: false,
            previous: None,
            next,
            source,
            update_after,
            remembered: Box::new([Remembered::default(); REMEMBERED]),
            updates: 0,
            forged: 0,
        }
    }

    /// Times that the keys changed.
    pub(super) fn updates(&self) -> u64 {
        self.updates
    }

    /// Packets that did not open.
    pub(super) fn forged(&self) -> u64 {
        self.forged
    }

    /// Whether so many packets did not open that one more might be forged with success (RFC 9001 §6.6).
    pub(super) fn is_worn_out(&self) -> bool {
        self.forged >= self.phase.remote.integrity_limit()
    }

    /// Changes the keys if it is time. Not before the peer has shown that it has those in use, by acknowledging a packet
    /// under them, nor while it may still need older ones.
    pub(super) fn update_if_due(
        &mut self,
        now: Instant,
        path: PathNumber,
        largest_acked: Option<PacketNumber>,
        pto: Duration,
    ) {
        let KeyPhase { since, first_sealed, sealed, least_opened, .. } = &self.phase;
        let most = self.phase.local.confidentiality_limit() / 2;
        let is_due = *sealed >= self.update_after.min(most) || now >= *since + MAX_AGE;
        let first_sealed = first_sealed[path.index()];
        let is_shared = first_sealed.is_some_and(|first| largest_acked >= Some(first));
        let is_followed = least_opened.iter().any(Option::is_some);
        if is_due && is_shared && is_followed && now >= *since + KEPT_PTOS * pto {
            self.update(now);
        }
    }

    fn update(&mut self, now: Instant) {
        let next = mem::replace(&mut self.next, self.source.next());
        let before = mem::replace(&mut self.phase, KeyPhase::new(next, now));
        self.previous = Some((before.remote, None));
        self.is_odd = !self.is_odd;
        self.updates += 1;
    }

    /// Appends the header, and what is encrypted before the frames.
    pub(super) fn write_header(
        &self,
        dcid: ConnectionId,
        number: PacketNumber,
        span: u64,
        out: &mut Vec<u8>,
    ) {
        out.push(SEALED | if self.is_odd { KEY_PHASE } else { 0 });
        out.extend_from_slice(&dcid.0.to_be_bytes());
        out.extend_from_slice(&number.truncate().to_be_bytes());
        put_varint(out, span << 1);
    }

    /// Asks for an immediate acknowledgement in a packet that is not sealed yet.
    pub(super) fn set_ack_now(packet: &mut [u8]) {
        let Some(first) = packet.get(HEADER_BYTES) else { return };
        let last = HEADER_BYTES + (1_usize << (first >> 6)) - 1;
        if let Some(byte) = packet.get_mut(last) {
            *byte |= ACK_NOW;
        }
    }

    /// Encrypts the packet that starts at `start`, appends its tag and masks its number.
    pub(super) fn seal(
        &mut self,
        path: PathNumber,
        number: PacketNumber,
        out: &mut Vec<u8>,
        start: usize,
    ) -> Result<(), SealError> {
        let phase = &mut self.phase;
        if phase.sealed >= phase.local.confidentiality_limit() {
            return Err(SealError::KeyUsedUp);
        }
        let Some((header, payload)) = out[start..].split_first_chunk_mut::<HEADER_BYTES>() else {
            debug_assert!(false, "a packet has a header");
            return Err(SealError::KeyUsedUp);
        };
        phase.sealed += 1;
        phase.first_sealed[path.index()].get_or_insert(number);
        let tag = phase.local.seal(path.0.into(), number.0, header, payload);
        out.extend_from_slice(&tag);
        let packet = &mut out[start..];
        mask(packet, self.local_header.as_ref());
        let masked = u32::from_be_bytes([packet[9], packet[10], packet[11], packet[12]]);
        let echo = echo_of(packet).unwrap_or_default();
        self.remembered[number.0 as usize % REMEMBERED] = Remembered { number, masked, echo };
        Ok(())
    }

    /// Decrypts a packet where it lies. Nothing but counts changes unless it is authentic.
    pub(super) fn open<'a>(
        &mut self,
        now: Instant,
        pto: Duration,
        path: PathNumber,
        packet: &'a mut [u8],
        expand: impl FnOnce(u32) -> Option<PacketNumber>,
    ) -> Result<Opened<'a>, DecodeError> {
        if packet.len() <= HEADER_BYTES + TAG_BYTES || self.is_worn_out() {
            return Err(DecodeError::Truncated("sealed"));
        }
        mask(packet, self.remote_header.as_ref());
        let Some((header, payload)) = packet.split_first_chunk_mut::<HEADER_BYTES>() else {
            return Err(DecodeError::Truncated("sealed"));
        };
        let is_odd = header[0] & KEY_PHASE != 0;
        let truncated = u32::from_be_bytes([header[9], header[10], header[11], header[12]]);
        let Some(number) = expand(truncated) else {
            self.forged += 1;
            return Err(DecodeError::Invalid("sealed.number"));
        };
        self.discard_old(now);
        let in_phase = is_odd == self.is_odd;
        let least_opened = self.phase.least_opened[path.index()];
        let key = match &self.previous {
            _ if in_phase => &self.phase.remote,
            Some((key, _)) if least_opened.is_none_or(|least| number < least) => key,
            _ => &self.next.1,
        };
        let follows = !in_phase && std::ptr::eq(key, &self.next.1);
        let Some(plain) = key.open(path.0.into(), number.0, header, payload) else {
            self.forged += 1;
            return Err(DecodeError::Integrity);
        };
        if follows {
            self.update(now);
        }
        if in_phase || follows {
            self.note_opened(now, pto, path, number);
        }
        let mut frames = Reader::new(plain);
        let first = frames.varint("sealed.span")?;
        let (span, ack_now) = (first >> 1, first & u64::from(ACK_NOW) != 0);
        let frames = frames.bytes(frames.remaining(), "frames")?;
        Ok(Opened { number, ack_now, span, frames })
    }

    fn note_opened(&mut self, now: Instant, pto: Duration, path: PathNumber, number: PacketNumber) {
        let least = self.phase.least_opened[path.index()].get_or_insert(number);
        *least = number.min(*least);
        if let Some((_, until @ None)) = &mut self.previous {
            *until = Some(now + MIN_KEPT.max(KEPT_PTOS * pto));
        }
    }

    fn discard_old(&mut self, now: Instant) {
        if self.previous.as_ref().is_some_and(|(_, until)| until.is_some_and(|at| at <= now)) {
            self.previous = None;
        }
    }

    /// The packet that ended with these bytes, if it was one of the last.
    pub(super) fn sent_with_echo(&self, echo: u64) -> Option<PacketNumber> {
        self.remembered.iter().find(|sent| sent.echo == echo && echo != 0).map(|sent| sent.number)
    }

    /// The packet that had this masked number, if it was one of the last.
    pub(super) fn sent_with_masked(&self, masked: u32) -> Option<PacketNumber> {
        let sent = self.remembered.iter().find(|sent| sent.masked == masked && sent.echo != 0);
        sent.map(|sent| sent.number)
    }
}

impl KeyPhase {
    fn new((local, remote): (Box<dyn PacketKey>, Box<dyn PacketKey>), since: Instant) -> Self {
        let (first_sealed, least_opened) = (PerPath::default(), PerPath::default());
        Self { local, remote, since, first_sealed, sealed: 0, least_opened }
    }
}

/// The bytes of a sealed packet by which a RESET shows that its sender has seen it: the last of its tag.
#[must_use]
pub fn echo_of(packet: &[u8]) -> Option<u64> {
    packet.last_chunk::<8>().map(|echo| u64::from_be_bytes(*echo))
}

/// Masks key phase and number, or takes the mask off.
fn mask(packet: &mut [u8], key: &dyn HeaderKey) {
    let Some((header, rest)) = packet.split_first_chunk_mut::<HEADER_BYTES>() else { return };
    let Some(sample) = rest.first_chunk::<SAMPLE_BYTES>() else { return };
    let [flags, number @ ..] = key.mask(sample);
    header[0] ^= flags & KEY_PHASE;
    header[9..].iter_mut().zip(number).for_each(|(byte, mask)| *byte ^= mask);
}
