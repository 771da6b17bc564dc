// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

use proptest::prelude::*;
use smallvec::smallvec;

use super::*;
use crate::ecn::EcnCounts;

fn lanes() -> impl Strategy<Value = LaneId> {
    (0_u8..16).prop_map(LaneId::from_wire)
}

static PAYLOAD: [u8; MAX_MESSAGE_BYTES] = [0xa5; MAX_MESSAGE_BYTES];

fn chunks() -> impl Strategy<Value = Frame<'static>> {
    (lanes(), 0_u64..1 << 40, 1..=MAX_MESSAGE_BYTES, 512_usize..9_000, any::<prop::sample::Index>())
        .prop_map(|(lane, seq, message_bytes, chunk_bytes, index)| {
            let chunk_bytes = chunk_bytes.min(message_bytes);
            let index = index.index(message_bytes.div_ceil(chunk_bytes));
            let len = chunk_bytes.min(message_bytes - index * chunk_bytes);
            let data = &PAYLOAD[..len];
            Frame::Chunk(ChunkFrame { lane, seq, message_bytes, chunk_bytes, index, data })
        })
}

fn whole() -> impl Strategy<Value = Frame<'static>> {
    (lanes(), 0_u64..1 << 40, 1..=MAX_MESSAGE_BYTES).prop_map(|(lane, seq, len)| {
        let data = &PAYLOAD[..len];
        let (message_bytes, chunk_bytes) = (len, len);
        Frame::Chunk(ChunkFrame { lane, seq, message_bytes, chunk_bytes, index: 0, data })
    })
}

fn of_paths() -> impl Strategy<Value = Frame<'static>> {
    let wish = prop::sample::select(&[
        PathUse::Available,
        PathUse::Backup,
        PathUse::Urgent,
        PathUse::Control,
        PathUse::Paused,
    ]);
    (0..PathNumber::COUNT as u8, 0_u64..1 << 62, wish, any::<bool>()).prop_map(
        |(path, sequence, wish, acks)| {
            let path = PathNumber(path);
            let ack = Ack { delay_us: sequence, ranges: smallvec![(0, 3)], ecn: None };
            match acks {
                true => Frame::PathAck { path, ack },
                false => Frame::PathState { path, sequence, wish },
            }
        },
    )
}

fn repairs() -> impl Strategy<Value = Frame<'static>> {
    (lanes(), 0_u64..1 << 40, 2..=MAX_CHUNKS, 512_usize..9_000, 0..MAX_REPAIR_SYMBOLS).prop_map(
        |(lane, seq, count, chunk_bytes, index)| {
            let count = count.min(MAX_MESSAGE_BYTES / chunk_bytes).max(2);
            let shape = Shape { message_bytes: count * chunk_bytes - 1, chunk_bytes };
            let data = &PAYLOAD[..chunk_bytes];
            Frame::Repair(RepairFrame { lane, seq, shape, index, data })
        },
    )
}

fn frames() -> impl Strategy<Value = Frame<'static>> {
    let value = 0_u64..1 << 62;
    prop_oneof![
        Just(Frame::Ping),
        Just(Frame::Close { reason: "bye – später" }),
        (Just(None), 1_u64..1 << 62).prop_map(|(none, ce)| {
            let ecn = if ce % 2 == 0 { none } else { Some(EcnCounts { ce, ..EcnCounts::NONE }) };
            Frame::Ack(Ack { delay_us: 9, ranges: smallvec![(20, 30), (7, 9), (0, 3)], ecn })
        }),
        value.clone().prop_map(|bytes| Frame::MaxData { bytes }),
        (lanes(), value.clone()).prop_map(|(lane, bytes)| Frame::MaxLaneData { lane, bytes }),
        (lanes(), value).prop_map(|(lane, below)| Frame::Forget { lane, below }),
        (lanes(), 0_u32..1 << 24).prop_map(|(lane, ms)| Frame::Timestamp { lane, ms }),
        any::<u64>().prop_map(Frame::PathChallenge),
        any::<u64>().prop_map(Frame::PathResponse),
        chunks(),
        whole(),
        repairs(),
        of_paths(),
    ]
}

// ARQ-ERR-3
#[test]
fn the_limits_of_fields_are_kept() {
    let last = PathNumber::COUNT as u8 - 1;
    let longest = vec![b'x'; MAX_REASON_BYTES];
    let reason = |text: &[u8]| {
        let mut bytes = vec![CLOSE];
        put_varint(&mut bytes, text.len() as u64);
        bytes.extend_from_slice(text);
        bytes
    };
    let chunk = |chunk_bytes, index| {
        let (lane, data) = (LaneId::from_wire(0), &PAYLOAD[..chunk_bytes]);
        let message_bytes = 2 * chunk_bytes;
        let frame = ChunkFrame { lane, seq: 0, message_bytes, chunk_bytes, index, data };
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        bytes
    };
    for (allowed, beyond, field) in [
        (vec![PATH_STATE, last, 0, 0], vec![PATH_STATE, last + 1, 0, 0], "path.number"),
        (reason(&longest), reason(&[&longest[..], b"x"].concat()), "close.reason"),
        (chunk(512, 1), chunk(511, 1), "chunk.size"),
        (chunk(600, 1), chunk(600, 2), "chunk.index"),
    ] {
        assert!(Frame::decode(&mut Reader::new(&allowed)).is_ok(), "{field}");
        let refused = Frame::decode(&mut Reader::new(&beyond));
        assert_eq!(refused, Err(DecodeError::Invalid(field)));
    }
}

// ARQ-FRM-2
#[test]
fn padding_ends_where_another_frame_begins() {
    let mut reader = Reader::new(&[PADDING, PADDING, PADDING, PING]);
    for frame in [Some(Frame::Padding), Some(Frame::Ping), None] {
        assert_eq!(Frame::decode(&mut reader), Ok(frame));
    }
}

// ARQ-ACK-1
#[test]
fn what_only_tells_needs_no_acknowledgement() {
    let ack = Ack { delay_us: 0, ranges: smallvec![(0, 1)], ecn: None };
    let path = PathNumber(1);
    for (frame, elicits) in [
        (Frame::Padding, false),
        (Frame::Ack(ack.clone()), false),
        (Frame::PathAck { path, ack }, false),
        (Frame::Timestamp { lane: LaneId::from_wire(0), ms: 0 }, false),
        (Frame::Ping, true),
        (Frame::MaxData { bytes: 0 }, true),
        (Frame::PathState { path, sequence: 0, wish: PathUse::Backup }, true),
    ] {
        assert_eq!(frame.is_ack_eliciting(), elicits, "{frame:?}");
    }
}

proptest! {
    // ARQ-FRM-2
    #[test]
    fn frames_round_trip(frames in prop::collection::vec(frames(), 1..6)) {
        let mut out = Vec::new();
        for frame in &frames {
            let before = out.len();
            frame.encode(&mut out);
            if let Frame::Chunk(c) = frame {
                let overhead = ChunkFrame::overhead(c.seq, c.message_bytes, c.chunk_bytes, c.index);
                prop_assert_eq!(out.len() - before, overhead + c.data.len());
            }
            if let Frame::Repair(r) = frame {
                // A repair symbol takes no more room than a chunk of its message.
                let shape = r.shape;
                let overhead = ChunkFrame::overhead(
                    r.seq, shape.message_bytes, shape.chunk_bytes, r.index,
                );
                prop_assert_eq!(out.len() - before, overhead + r.data.len());
            }
        }
        let mut reader = Reader::new(&out);
        for frame in frames {
            prop_assert_eq!(Frame::decode(&mut reader), Ok(Some(frame)));
        }
        prop_assert_eq!(Frame::decode(&mut reader), Ok(None));
    }

    // ARQ-FEC-3
    #[test]
    fn a_repair_symbol_that_cannot_be_used_is_malformed(padding in 512_usize..600) {
        let shape = Shape { message_bytes: 2_000 - padding, chunk_bytes: 1_000 };
        let lane = LaneId::from_wire(0);
        let data = &PAYLOAD[..1_000];
        for (shape, index, field) in [
            (shape, 0, "repair.size"),
            (Shape { message_bytes: 2_000, ..shape }, MAX_REPAIR_SYMBOLS, "repair.index"),
            (Shape { message_bytes: 1_000, ..shape }, 0, "chunk.size"),
        ] {
            let mut out = Vec::new();
            Frame::Repair(RepairFrame { lane, seq: 0, shape, index, data }).encode(&mut out);
            let decoded = Frame::decode(&mut Reader::new(&out));
            prop_assert_eq!(decoded, Err(DecodeError::Invalid(field)));
        }
    }

    // ARQ-ERR-3
    #[test]
    fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut reader = Reader::new(&bytes);
        let mut steps = 0;
        while let Ok(Some(_)) = Frame::decode(&mut reader) {
            steps += 1;
            prop_assert!(steps <= bytes.len());
        }
    }
}
