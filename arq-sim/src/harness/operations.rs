// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A connection under a peer that sends, replays and forges what it likes, and an application that
//! does something now and then.

use std::{net::SocketAddr, time::Duration};

use arbitrary::{Arbitrary, Unstructured};
use arq_proto::{
    wire::{
        packet::{Challenge, Echo, Refuse, Reset},
        params::Params,
        VERSION,
    },
    Config, ConnectionId, RefuseReason, ValidConfig,
};
use bytes::Bytes;

use super::{
    frames::{lane_of, FrameOp},
    Victim,
};
use crate::hostile::{data_packet, sealed};

/// Operations per input: enough to reach any state, few enough to stay fast.
const MAX_OPERATIONS: usize = 200;

static MESSAGE: [u8; 65_535] = [7; 65_535];

/// One thing that happens.
#[derive(Debug, Clone, Arbitrary)]
pub enum Operation {
    /// The peer sends frames.
    Frames {
        /// Packet numbers left out before.
        skip: u8,
        /// The span of interest that it names.
        span: u16,
        /// Asks for an acknowledgement at once.
        ack_now: bool,
        /// The frames.
        frames: Vec<FrameOp>,
    },
    /// The peer uses an old number again.
    OldNumber(u8, Vec<FrameOp>),
    /// The peer moves, or somebody else knows its packets.
    Elsewhere(u8, Vec<FrameOp>),
    /// The peer acknowledges all that was sent.
    AckAll,
    /// Any bytes from the peer.
    Bytes(Vec<u8>),
    /// Any bytes with a valid tag.
    Sealed(Vec<u8>),
    /// Any bytes from somewhere.
    Stranger(u8, Vec<u8>),
    /// Time passes.
    Sleep(u16),
    /// The application sends.
    Send(u8, u16),
    /// The application reads.
    Recv(u8),
    /// The application closes.
    Finish,
    /// The application closes at once.
    Close,
}

/// What a server does beside that.
#[derive(Debug, Clone, Arbitrary)]
enum ServerOperation {
    /// Answers the HELLO, perhaps another one.
    Challenge { scid: u64, is_version: bool, attempt: u8, cookie_bytes: u8, limits: Limits },
    /// Wants no association, for lack of room or of a version.
    Refuse(bool),
    /// Has lost its state: for a packet so far behind the newest.
    Reset(u8),
}

/// What it announces.
#[derive(Debug, Clone, Arbitrary)]
pub(super) struct Limits {
    max_datagram_bytes: u16,
    lane_window_bytes: u32,
    connection_window_bytes: u32,
    hold_ms: u16,
    repair: bool,
    resegment: bool,
    paths: u8,
}

/// Runs the operations that the bytes stand for, of a client on a server.
///
/// # Panics
/// A rule is broken.
pub fn hostile_peer(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let mut victim = Victim::new(config(&mut input));
    run(&mut victim, &mut input, |victim, input| {
        apply(victim, Operation::arbitrary(input)?);
        Ok(())
    });
}

/// Runs the operations that the bytes stand for, of a server on a client, from its HELLO on.
///
/// # Panics
/// A rule is broken.
pub fn hostile_server(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let mut victim = Victim::calling(config(&mut input));
    run(&mut victim, &mut input, |victim, input| {
        if input.ratio(1, 4)? {
            serve(victim, ServerOperation::arbitrary(input)?);
        } else {
            apply(victim, Operation::arbitrary(input)?);
        }
        Ok(())
    });
}

fn config(input: &mut Unstructured<'_>) -> ValidConfig {
    let reorder = input.arbitrary().unwrap_or(true);
    let deadline = input.ratio(1, 2).unwrap_or(false).then_some(Duration::from_millis(50));
    Config { reorder, deadline, ..Config::default() }
        .validate()
        .expect("the configuration is valid")
}

pub(super) fn run(
    victim: &mut Victim,
    input: &mut Unstructured<'_>,
    mut step: impl FnMut(&mut Victim, &mut Unstructured<'_>) -> arbitrary::Result<()>,
) {
    for _ in 0..MAX_OPERATIONS {
        if input.is_empty() || step(victim, input).is_err() {
            break;
        }
    }
    // Whatever was done to it, it comes to an end, or lives on, without a storm of timers.
    victim.sleep(Duration::from_secs(30));
}

impl Limits {
    pub(super) fn params(&self) -> Params {
        Params {
            max_datagram_bytes: self.max_datagram_bytes,
            lane_window_bytes: self.lane_window_bytes.into(),
            connection_window_bytes: self.connection_window_bytes.into(),
            hold: Duration::from_millis(self.hold_ms.into()),
            repair: self.repair,
            resegment: self.resegment,
            paths: self.paths,
            app: Bytes::new(),
        }
    }
}

fn serve(victim: &mut Victim, operation: ServerOperation) {
    let (dcid, mut out) = (victim.id(), Vec::new());
    match operation {
        ServerOperation::Challenge { scid, is_version, attempt, cookie_bytes, limits } => {
            let params = limits.params();
            let scid = ConnectionId(scid);
            let version = if is_version { VERSION } else { !VERSION };
            let cookie = vec![7; cookie_bytes.into()];
            Challenge { dcid, scid, version, attempt, cookie, params }.encode(&mut out);
        }
        ServerOperation::Refuse(is_busy) => {
            let reason = if is_busy { RefuseReason::Busy } else { RefuseReason::Version };
            Refuse { dcid, reason, versions: Vec::new() }.encode(&mut out);
        }
        ServerOperation::Reset(back) => {
            let Some((unknown, newest)) = victim.sends_to() else { return };
            Reset { unknown, echo: Echo::Number(newest.wrapping_sub(back.into())) }
                .encode(&mut out);
        }
    }
    victim.datagram(victim.peer(), &out);
}

pub(super) fn apply(victim: &mut Victim, operation: Operation) {
    match operation {
        Operation::Frames { skip, span, ack_now, frames } => {
            let at = victim.next_packet(skip);
            let bytes = data_packet(at, span.into(), ack_now, &encoded(victim, &frames));
            victim.datagram(victim.peer(), &bytes);
        }
        Operation::OldNumber(back, frames) => {
            let mut at = victim.next_packet(0);
            at.number = at.number.wrapping_sub(back.into());
            let bytes = data_packet(at, 0, true, &encoded(victim, &frames));
            victim.datagram(victim.peer(), &bytes);
        }
        Operation::Elsewhere(n, frames) => {
            let at = victim.next_packet(0);
            let bytes = data_packet(at, 0, true, &encoded(victim, &frames));
            victim.datagram(stranger(n), &bytes);
        }
        Operation::AckAll => {
            let ack = victim.ack_of_all();
            victim.frames(&ack);
        }
        Operation::Bytes(bytes) => victim.datagram(victim.peer(), &bytes),
        Operation::Sealed(bytes) => victim.datagram(victim.peer(), &sealed(&bytes)),
        Operation::Stranger(n, bytes) => victim.datagram(stranger(n), &sealed(&bytes)),
        Operation::Sleep(millis) => victim.sleep(Duration::from_millis(millis.into())),
        Operation::Send(lane, len) => {
            let message = Bytes::from_static(&MESSAGE[..usize::from(len)]);
            // A refusal is an answer like any other.
            let _ = victim.with_connection(|now, conn| conn.send(now, lane_of(lane), message));
        }
        Operation::Recv(lane) => {
            victim.with_connection(|now, conn| while conn.recv(now, lane_of(lane)).is_some() {});
        }
        Operation::Finish => victim.with_connection(|now, conn| conn.finish(now)),
        Operation::Close => victim.with_connection(|now, conn| conn.close(now, "closed")),
    }
}

pub(super) fn stranger(n: u8) -> SocketAddr {
    ([192, 0, 2, n], 9).into()
}

pub(super) fn encoded(victim: &Victim, frames: &[FrameOp]) -> Vec<u8> {
    let mut out = Vec::new();
    for frame in frames {
        match (frame, victim.path_token()) {
            // A token that nobody guesses: the peer has seen it.
            (FrameOp::PathResponse(0), Some(token)) => {
                FrameOp::PathResponse(token).encode(0, &mut out)
            }
            _ => frame.encode(victim.newest(), &mut out),
        }
    }
    out
}
