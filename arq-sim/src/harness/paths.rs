// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A connection that may have several paths, under a peer that opens them, speaks on them and tells of them as it likes.

use std::{hash::Hasher, time::Duration};

use arbitrary::{Arbitrary, Unstructured};
use arq_proto::{
    wire::{
        ack::Ack,
        frame::{Frame, PathUse},
        packet::Challenge,
        params::Params,
        VERSION,
    },
    Budget, Config, ConnectionId, Interface, InterfaceUse, PathNumber, SocketId, ValidConfig,
};
use bytes::Bytes;
use siphasher::sip::SipHasher24;

use super::{
    operations::{apply, encoded, run, stranger, Operation},
    FrameOp, Victim,
};
use crate::hostile::{data_packet, Sighting};

pub(super) const PATHS: usize = PathNumber::COUNT;
/// What a metered interface may carry, in bits a second.
const METERED: u64 = 16_000;

/// One thing that happens.
#[derive(Debug, Clone, Arbitrary)]
pub(super) enum PathsOperation {
    /// What happens with one path, too.
    Usual(Operation),
    /// The peer sends frames on a path, perhaps from elsewhere, under the next number or an old one.
    OnPath { path: u8, place: u8, back: u8, frames: Vec<PathsFrame> },
    /// An interface of the client comes, goes or gets another purpose.
    Interface { socket: u8, is_up: bool, purpose: u8 },
}

/// A frame.
#[derive(Debug, Clone, Arbitrary)]
pub(super) enum PathsFrame {
    /// One of those that one path has, too.
    Usual(FrameOp),
    /// What arrived on a path: numbers from the first to the last.
    Ack { path: u8, first: u8, more: u8, delay: u16 },
    /// What a path is for.
    State { path: u8, sequence: u8, wish: u8 },
    /// When what follows was handed over.
    Timestamp { lane: u8, ms: u32 },
}

/// The peer's side of the paths.
struct Peer {
    is_client: bool,
    /// The number of its next packet on each path but the first.
    next: [u32; PATHS],
}

/// Runs the operations that the bytes stand for, on a client or a server that keeps four paths.
///
/// # Panics
/// A rule is broken.
pub fn hostile_paths(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let mut peer = Peer { is_client: input.arbitrary().unwrap_or(false), next: [0; PATHS] };
    let mut victim = if peer.is_client { Victim::new(config()) } else { called() };
    run(&mut victim, &mut input, |victim, input| {
        peer.apply(victim, PathsOperation::arbitrary(input)?);
        Ok(())
    });
}

fn config() -> ValidConfig {
    let config = Config { paths: PATHS as u8, ..Config::default() };
    config.validate().expect("the configuration is valid")
}

/// What an honest peer that keeps four paths says of itself.
pub(super) fn params() -> Params {
    Params {
        max_datagram_bytes: 1_452,
        lane_window_bytes: 1 << 20,
        connection_window_bytes: 1 << 22,
        hold: Duration::from_secs(1),
        repair: true,
        resegment: true,
        paths: PATHS as u8,
        app: Bytes::new(),
    }
}

/// A client whose server has agreed to four paths.
fn called() -> Victim {
    let mut victim = Victim::calling(config());
    let params = params();
    let (dcid, scid, cookie) = (victim.id(), ConnectionId(0x99aa_bbcc_ddee_ff00), vec![7; 32]);
    let mut out = Vec::new();
    Challenge { dcid, scid, version: VERSION, attempt: 0, cookie, params }.encode(&mut out);
    victim.datagram(victim.peer(), &out);
    victim
}

impl Peer {
    fn apply(&mut self, victim: &mut Victim, operation: PathsOperation) {
        match operation {
            PathsOperation::Usual(operation) => apply(victim, operation),
            PathsOperation::OnPath { path, place, back, frames } => {
                let mut content = Vec::new();
                frames.iter().for_each(|frame| frame.encode(victim, &mut content));
                let Some(at) = self.packet(victim, usize::from(path) % PATHS, back) else { return };
                let from = if place == 0 { victim.peer() } else { stranger(place) };
                victim.datagram(from, &data_packet(at, 0, true, &content));
            }
            PathsOperation::Interface { socket, is_up, purpose } => {
                change_interface(victim, socket, is_up, purpose);
            }
        }
    }

    /// The id and the number of a packet on a path; `None` while the victim's ids are not known.
    fn packet(&mut self, victim: &mut Victim, path: usize, back: u8) -> Option<Sighting> {
        if path == 0 {
            let mut at = victim.next_packet(0);
            at.number = at.number.wrapping_sub(back.into());
            return Some(at);
        }
        let (own, peer) = (victim.id(), victim.peer_id()?);
        let ids = if self.is_client { [peer, own] } else { [own, peer] };
        let number = self.next[path].wrapping_sub(back.into());
        self.next[path] = self.next[path].wrapping_add(1);
        Some(Sighting { dcid: path_id(ids, !self.is_client, path as u8), number })
    }
}

/// An interface of the victim comes, goes or gets another purpose.
pub(super) fn change_interface(victim: &mut Victim, socket: u8, is_up: bool, purpose: u8) {
    let purpose = match purpose % 3 {
        0 => InterfaceUse::Always,
        1 => InterfaceUse::Backup,
        _ => InterfaceUse::Metered(Budget::new(METERED, victim.now())),
    };
    let socket = SocketId(socket % PATHS as u8);
    let interface = Interface { socket, is_up, purpose };
    victim.with_connection(|now, conn| conn.handle_interface(now, interface));
}

/// From what the ids of paths are computed in clear: `ids` are those of client and server on the first one.
fn clear_key(ids: [ConnectionId; 2]) -> [u8; 16] {
    let mut key = [0; 16];
    for (half, id) in key.chunks_mut(8).zip(ids) {
        half.copy_from_slice(&id.0.to_be_bytes());
    }
    key
}

/// What a side calls itself on a path in clear (ARQ-MP-2): `ids` are those of client and server on the first one.
#[must_use]
pub fn path_id(ids: [ConnectionId; 2], is_client: bool, path: u8) -> ConnectionId {
    path_id_of(clear_key(ids), is_client, path)
}

/// The same by what the ids of an association are computed from.
pub(super) fn path_id_of(key: [u8; 16], is_client: bool, path: u8) -> ConnectionId {
    let mut hasher = SipHasher24::new_with_key(&key);
    hasher.write(&[if is_client { b'c' } else { b's' }, path]);
    ConnectionId(hasher.finish())
}

impl PathsFrame {
    pub(super) fn encode(&self, victim: &Victim, out: &mut Vec<u8>) {
        match *self {
            Self::Usual(ref frame) => out.extend(encoded(victim, std::slice::from_ref(frame))),
            Self::Ack { path, first, more, delay } => {
                let (first, delay_us) = (u64::from(first), delay.into());
                let ranges = [(first, first + u64::from(more))].into_iter().collect();
                let ack = Ack { delay_us, ranges, ecn: None };
                Frame::PathAck { path: number(path), ack }.encode(out);
            }
            Self::State { path, sequence, wish } => {
                let wishes = [
                    PathUse::Available,
                    PathUse::Backup,
                    PathUse::Urgent,
                    PathUse::Control,
                    PathUse::Paused,
                ];
                let wish = wishes[usize::from(wish) % wishes.len()];
                Frame::PathState { path: number(path), sequence: sequence.into(), wish }
                    .encode(out);
            }
            Self::Timestamp { lane, ms } => {
                let (lane, ms) = (super::frames::lane_of(lane), ms & 0x00ff_ffff);
                Frame::Timestamp { lane, ms }.encode(out);
            }
        }
    }
}

fn number(path: u8) -> PathNumber {
    PathNumber(path % PATHS as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Or the packets of the target would be strangers' to the connection.
    #[test]
    fn a_packet_on_another_path_is_heard() {
        let mut victim = called();
        victim.frames(&[0x01]);
        let mut peer = Peer { is_client: false, next: [0; PATHS] };
        let (socket, purpose) = (SocketId(1), InterfaceUse::Always);
        let second = Interface { socket, is_up: true, purpose };
        victim.with_connection(|now, conn| conn.handle_interface(now, second));
        let received = |victim: &Victim| {
            victim.connection().paths().map(|path| path.bytes_received).collect::<Vec<_>>()
        };
        let before = received(&victim);
        let at = peer.packet(&mut victim, 1, 0).unwrap();
        victim.datagram(victim.peer(), &data_packet(at, 0, true, &[0x01]));
        assert_ne!(received(&victim), before);
    }
}
