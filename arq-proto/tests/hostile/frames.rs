// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A peer whose packets are intact and whose frames are not what they should be.

use arq_proto::{
    wire::{
        cursor::put_varint,
        frame::{ChunkFrame, Frame, RepairFrame, Shape},
    },
    Config, ConfigBuilder, ConnectionError, FecConfig, LaneId, Reliability, Scheme, Violation,
};
use arq_sim::harness::{FrameOp, Victim};
use bytes::Bytes;

use crate::common::MS;

/// What the peer's frames do to a connection.
fn ends_with(frames: &[u8]) -> Option<ConnectionError> {
    let mut victim = Victim::new(Config::default());
    victim.frames(frames);
    victim.connection().close_reason().cloned()
}

fn violation(frames: &[u8]) -> Violation {
    match ends_with(frames) {
        Some(ConnectionError::Violation(violation)) => violation,
        other => panic!("{other:?}"),
    }
}

fn encoded(frame: &Frame<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    frame.encode(&mut out);
    out
}

/// A chunk of a message on the first lane.
fn chunk(seq: u64, message_bytes: usize, chunk_bytes: usize, index: usize) -> Vec<u8> {
    chunk_on(LaneId::all().next().unwrap(), seq, Shape { message_bytes, chunk_bytes }, index)
}

fn chunk_on(lane: LaneId, seq: u64, shape: Shape, index: usize) -> Vec<u8> {
    let Shape { message_bytes, chunk_bytes } = shape;
    let len = chunk_bytes.min(message_bytes - index * chunk_bytes);
    let data = &vec![0; len];
    encoded(&Frame::Chunk(ChunkFrame { lane, seq, message_bytes, chunk_bytes, index, data }))
}

// ARQ-ACK-6
#[test]
fn acknowledging_what_was_never_sent_ends_the_connection() {
    let mut victim = Victim::new(Config::default());
    let mut frames = Vec::new();
    let beyond = FrameOp::AckRanges { below: -1, delay: 0, ranges: Vec::new() };
    beyond.encode(victim.newest(), &mut frames);
    victim.frames(&frames);
    assert_eq!(
        victim.connection().close_reason(),
        Some(&ConnectionError::Violation(Violation::AckOfUnsent))
    );
}

/// A peer that sees what is sent claims that everything up to the newest packet has arrived, at once each time, so that
/// nothing is ever open. It cannot know which numbers are left out.
// ARQ-ACK-6, ARQ-NUM-3
#[test]
fn acknowledging_everything_unseen_ends_the_connection() {
    // A packet for each message.
    let config = ConfigBuilder { fec: FecConfig::Off, ..Config::builder() };
    let mut victim = Victim::new(config.build().unwrap());
    let lane = LaneId::all().next().unwrap();
    let mut messages = 0;
    while victim.connection().close_reason().is_none() && messages < 200 {
        let message = Bytes::from_static(b"x");
        victim.with_connection(|now, conn| conn.send(now, lane, message)).unwrap();
        messages += 1;
        victim.sleep(MS);
        let newest = victim.newest();
        // Ranges, largest, delay, no further ones, all of the numbers below.
        let mut everything = vec![0x02];
        [newest, 0, 0, newest].into_iter().for_each(|value| put_varint(&mut everything, value));
        victim.frames(&everything);
    }
    assert_eq!(
        victim.connection().close_reason(),
        Some(&ConnectionError::Violation(Violation::AckOfUnsent))
    );
    assert!(messages > 60, "not before the first number was left out: {messages}");
}

// ARQ-FRM-1, ARQ-MSG-4, ARQ-MSG-5, ARQ-ERR-2
#[test]
fn absurd_values_end_the_connection_with_a_name() {
    // A message far beyond the window of the lane.
    assert_eq!(violation(&chunk(1 << 40, 1, 1, 0)), Violation::MessageWindow);
    // Two chunks of one message that disagree.
    let mut frames = chunk(0, 10_000, 1_000, 0);
    frames.extend(chunk(0, 10_001, 1_000, 1));
    assert_eq!(violation(&frames), Violation::MessageShape);
    // Lengths that cannot be: of a message, of a chunk, of a reason, of an acknowledgement.
    for frames in [
        &b"\x10\x00\x80\xff\xff\xff"[..],
        b"\x20\x00\x44\x00\x40\x01\x00",
        b"\x04\x7f\xff",
        b"\x02\x05\x00\x3f\x00",
        b"\xff",
    ] {
        assert!(matches!(violation(frames), Violation::Frame(_)), "{frames:02x?}");
    }
}

// ARQ-FLW-2
#[test]
fn credit_is_enforced() {
    let config = ConfigBuilder { lane_window_bytes: 1 << 17, ..Config::builder() };
    let mut victim = Victim::new(config.build().unwrap());
    for seq in 0..1_000 {
        // One chunk of each message: the rest is reserved and never comes.
        victim.frames(&chunk(seq, 60_000, 1_000, 1));
    }
    assert_eq!(
        victim.connection().close_reason(),
        Some(&ConnectionError::Violation(Violation::Credit))
    );
}

// ARQ-FLW-2
#[test]
fn lanes_that_keep_to_their_windows_keep_to_the_connections_as_well() {
    let config = ConfigBuilder {
        lane_window_bytes: 256 << 10,
        connection_window_bytes: 1 << 20,
        ..Config::builder()
    };
    let config = config.build().unwrap();
    let lanes: Vec<_> =
        LaneId::all().filter(|lane| lane.reliability() == Reliability::Reliable).collect();
    // Messages of which more should come, and complete ones that nobody takes.
    for chunk_bytes in [1_000, 60_000] {
        let shape = Shape { message_bytes: 60_000, chunk_bytes };
        let mut victim = Victim::new(config.clone());
        let mut begun = 0;
        // 60,064 bytes of credit each: three are far from filling a lane, but eighteen are too many.
        for seq in 0..3 {
            for &lane in &lanes {
                if victim.connection().close_reason().is_none() {
                    victim.frames(&chunk_on(lane, seq, shape, 0));
                    begun += 1;
                }
            }
        }
        assert_eq!(
            victim.connection().close_reason(),
            Some(&ConnectionError::Violation(Violation::Credit)),
            "{begun} messages in chunks of {chunk_bytes}"
        );
        assert_eq!(begun, 18, "in chunks of {chunk_bytes}");
    }
}

// ARQ-FLW-3, ARQ-BEF-3, ARQ-BEF-5
#[test]
fn well_formed_nonsense_ends_nothing() {
    let mut frames = Vec::new();
    for frame in [
        FrameOp::Padding(200),
        FrameOp::PathResponse(77),
        FrameOp::PathChallenge(78),
        FrameOp::MaxData(0),
        FrameOp::MaxData(u64::MAX),
        FrameOp::MaxLaneData(3, 0),
        FrameOp::Forget(3, u64::MAX),
        FrameOp::Forget(2, u64::MAX),
        FrameOp::FarChunk(3, u64::MAX),
    ] {
        frame.encode(0, &mut frames);
    }
    assert_eq!(ends_with(&frames), None);
}

fn repair(message_bytes: usize, chunk_bytes: usize, index: usize) -> Vec<u8> {
    let data = &vec![0; chunk_bytes];
    let lane = LaneId::all().next().unwrap();
    let shape = Shape { message_bytes, chunk_bytes };
    encoded(&Frame::Repair(RepairFrame { lane, seq: 0, shape, index, data }))
}

// ARQ-FEC-3, ARQ-FEC-4, ARQ-FEC-5
#[test]
fn repair_symbols_that_must_not_be_end_the_connection() {
    let is_frame = |frames: &[u8]| matches!(violation(frames), Violation::Frame(_));
    // No such symbol, one chunk, chunks too unequal, cut short.
    assert!(is_frame(&repair(2_000, 1_000, 128)));
    assert!(is_frame(&repair(1_000, 1_000, 0)));
    assert!(is_frame(&repair(1_400, 1_000, 0)));
    assert!(is_frame(&repair(2_000, 1_000, 0)[..900]));
    // Of another shape than the chunk before it, and the other way round.
    let mut frames = chunk(0, 2_000, 1_000, 0);
    frames.extend(repair(1_999, 1_000, 0));
    assert_eq!(violation(&frames), Violation::MessageShape);
    let mut frames = repair(1_999, 1_000, 0);
    frames.extend(chunk(0, 2_000, 1_000, 0));
    assert_eq!(violation(&frames), Violation::MessageShape);

    // Sent although this side has no use for them.
    let config = Config::builder().scheme(Scheme::GoBackN).build().unwrap();
    let mut victim = Victim::new(config);
    victim.frames(&repair(2_000, 1_000, 0));
    assert!(matches!(
        victim.connection().close_reason(),
        Some(ConnectionError::Violation(Violation::Frame(_)))
    ));
}

// ARQ-FEC-2, ARQ-FEC-5
#[test]
fn repair_symbols_of_nonsense_make_one_message_and_nothing_else() {
    let mut victim = Victim::new(Config::default());
    for index in 0..128 {
        victim.frames(&repair(1_500, 512, index));
    }
    let lane = LaneId::all().next().unwrap();
    let message = victim.with_connection(|now, conn| conn.recv(now, lane)).unwrap();
    assert_eq!(message.len(), 1_500);
    assert!(victim.with_connection(|now, conn| conn.recv(now, lane)).is_none());
    let stats = victim.connection().stats();
    assert_eq!((stats.chunks_recovered, stats.repair_symbols_received), (3, 128));
    assert_eq!((stats.chunks_duplicate, stats.receive_buffer_bytes), (125, 0));
    assert_eq!(victim.connection().close_reason(), None);
}
