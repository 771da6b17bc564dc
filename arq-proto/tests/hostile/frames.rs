// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A peer whose packets are intact and whose frames are not what they should be.

use std::{net::IpAddr, time::Duration};

use arq_proto::{
    wire::{
        cursor::put_varint,
        frame::{ChunkFrame, Frame, RepairFrame, Shape},
    },
    Config, ConnectionError, Datagram, FecConfig, LaneId, Reliability, Scheme, SocketId,
    ValidConfig, Violation,
};
use arq_sim::{
    harness::{FrameOp, Victim},
    hostile::{self, Sighting},
};
use bytes::Bytes;

use crate::{
    common::{MS, SEC},
    stranger,
};

/// What the peer's frames do to a connection.
fn ends_with(frames: &[u8]) -> Option<ConnectionError> {
    let mut victim = Victim::new(ValidConfig::default());
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
    let mut victim = Victim::new(ValidConfig::default());
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
    let config = Config { fec: FecConfig::Off, ..Config::default() };
    let mut victim = Victim::new(config.validate().unwrap());
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
    let config = Config { lane_window_bytes: 1 << 17, ..Config::default() };
    let mut victim = Victim::new(config.validate().unwrap());
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
    let config = Config {
        lane_window_bytes: 256 << 10,
        connection_window_bytes: 1 << 20,
        ..Config::default()
    };
    let config = config.validate().unwrap();
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
    let config = Config::default().scheme(Scheme::GoBackN).validate().unwrap();
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
    let mut victim = Victim::new(ValidConfig::default());
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

// ARQ-BEF-3, ARQ-LAN-3
#[test]
fn a_reliable_lane_forgets_nothing() {
    let lane = LaneId::all().find(|lane| lane.reliability() == Reliability::Reliable).unwrap();
    let mut victim = Victim::new(ValidConfig::default());
    let shape = Shape { message_bytes: 10, chunk_bytes: 10 };
    victim.frames(&chunk_on(lane, 1, shape, 0));
    for below in [1, 2, 1 << 40] {
        victim.frames(&encoded(&Frame::Forget { lane, below }));
        let read = victim.with_connection(|now, conn| conn.recv(now, lane));
        assert_eq!(read, None, "it waits for the first, whoever has forgotten those below {below}");
    }
    victim.frames(&chunk_on(lane, 0, shape, 0));
    let read =
        victim.with_connection(|now, conn| std::iter::from_fn(|| conn.recv(now, lane)).count());
    assert_eq!((read, victim.connection().close_reason()), (2, None));
}

// ARQ-FLW-3
#[test]
fn credit_that_was_given_is_not_taken_back() {
    let lane = LaneId::all().find(|lane| lane.reliability() == Reliability::Reliable).unwrap();
    for frame in [Frame::MaxData { bytes: 0 }, Frame::MaxLaneData { lane, bytes: 0 }] {
        let mut victim = Victim::new(ValidConfig::default());
        victim.frames(&encoded(&frame));
        let message = Bytes::from_static(&[1; 1_000]);
        victim.with_connection(|now, conn| conn.send(now, lane, message)).unwrap();
        let stats = victim.connection().stats();
        assert_eq!(stats.queued_bytes, 0, "{frame:?}");
        assert!(stats.in_flight_bytes > 1_000, "{frame:?}: {stats:?}");
    }
}

// ARQ-ACK-4
#[test]
fn of_the_delay_that_a_peer_claims_one_second_is_believed() {
    let config = Config { fec: FecConfig::Off, ..Config::default() };
    let mut victim = Victim::new(config.validate().unwrap());
    let lane = LaneId::all().find(|lane| lane.reliability() == Reliability::BestEffort).unwrap();
    let mut round_trip = |takes: Duration, delay: Duration| {
        let message = Bytes::from_static(b"x");
        victim.with_connection(|now, conn| conn.send(now, lane, message)).unwrap();
        let number = victim.newest();
        victim.sleep(takes);
        let mut ack = Vec::new();
        let delay = delay.as_micros().try_into().unwrap();
        FrameOp::AckRanges { below: 0, delay, ranges: Vec::new() }.encode(number, &mut ack);
        victim.frames(&ack);
        victim.connection().stats().srtt
    };
    assert_eq!(round_trip(10 * MS, Duration::ZERO), 10 * MS);
    // Two seconds of three are left, an eighth of which counts.
    let smoothed = round_trip(3 * SEC, 3 * SEC - 10 * MS);
    assert_eq!(smoothed, (7 * 10 * MS + 2 * SEC) / 8);
    // Nor is it believed that the path has become faster than it ever was.
    assert_eq!(round_trip(10 * MS, 5 * MS), (smoothed * 7 + 10 * MS) / 8);
}

// ARQ-ERR-2
#[test]
fn a_violation_is_told_to_the_peer_in_the_words_of_the_specification() {
    let specification = include_str!("../../../docs/protocol.md");
    let mut disagreeing = chunk(0, 10_000, 1_000, 0);
    disagreeing.extend(chunk(0, 10_001, 1_000, 1));
    let mut of_unsent = Vec::new();
    FrameOp::AckRanges { below: -1, delay: 0, ranges: Vec::new() }.encode(1_000, &mut of_unsent);
    for frames in [of_unsent, chunk(1 << 40, 1, 1, 0), disagreeing, b"\xff".to_vec()] {
        let mut victim = Victim::new(ValidConfig::default());
        let at = victim.now();
        victim.frames(&frames);
        let Some(ConnectionError::Violation(violation)) = victim.connection().close_reason() else {
            panic!("{:?}", victim.connection().close_reason());
        };
        let told = victim.closes().first().expect("a CLOSE");
        assert_eq!((told.at, told.reason.as_str()), (at, violation.to_string().as_str()));
        // Behind the colon stands what is wrong with this frame.
        let reason = told.reason.split(':').next().unwrap();
        assert!(specification.contains(&format!("`{reason}")), "{reason}");
    }
}

/// Somebody shows packets of a dead peer again and again.
// ARQ-ERR-1, ARQ-LIV-2
#[test]
fn replays_keep_no_dead_peer_alive() {
    let mut victim = Victim::new(ValidConfig::default());
    let (at, peer) = (victim.next_packet(0), victim.peer());
    let recorded = hostile::data_packet(at, 0, true, &[1]);
    victim.datagram(peer, &recorded);
    let (heard_at, idle) = (victim.now(), Config::default().idle_timeout);
    let dropped = victim.connection().stats().datagrams_dropped;
    let mut replays = 0;
    while victim.connection().close_reason().is_none() && victim.now() < heard_at + 2 * idle {
        victim.sleep(100 * MS);
        victim.datagram(peer, &recorded);
        replays += 1;
    }
    assert_eq!(victim.connection().close_reason(), Some(&ConnectionError::TimedOut));
    assert_eq!(victim.connection().heard_at(), heard_at);
    let took = victim.now() - heard_at;
    assert!((idle..=idle + 100 * MS).contains(&took), "{took:?}");
    // The last one found nobody.
    assert_eq!(victim.connection().stats().datagrams_dropped, dropped + replays - 1);
}

// ARQ-PTH-4
#[test]
fn an_address_is_moved_to_by_the_right_answer_from_that_very_address_and_by_no_other() {
    let mut victim = Victim::new(ValidConfig::default());
    let (peer, new, other) = (victim.peer(), stranger(66), stranger(67));
    let delayed = victim.next_packet(0);
    let mut says = |at: Option<Sighting>, from, frame: &Frame<'_>| {
        let at = at.unwrap_or_else(|| victim.next_packet(0));
        victim.datagram(from, &hostile::data_packet(at, 0, true, &encoded(frame)));
        // The address in use could have answered in that time.
        victim.sleep(SEC);
        (victim.connection().remote(), [new, other].map(|address| victim.token_to(address)))
    };
    let (remote, [token, _]) = says(None, new, &Frame::Ping);
    let token = token.expect("the new address is asked");
    assert_eq!(remote, peer);
    let (right, wrong) = (Frame::PathResponse(token), Frame::PathResponse(token ^ 1));
    // A newer packet from yet another address would have that one asked instead.
    for (at, from, answer) in [
        (None, new, &wrong),
        (Some(delayed), other, &right),
        (None, peer, &right),
        (None, peer, &wrong),
    ] {
        assert_eq!(says(at, from, answer), (peer, [Some(token), None]), "{answer:?} from {from}");
    }
    assert_eq!(says(None, new, &right).0, new);
    // The old token is worth nothing once another address is asked.
    let (remote, [_, newer]) = says(None, other, &right);
    assert_eq!(remote, new);
    let newer = newer.filter(|newer| *newer != token).expect("a token of its own");
    assert_eq!(says(None, other, &right).0, new);
    assert_eq!(says(None, other, &Frame::PathResponse(newer)).0, other);
}

// ARQ-PTH-6
#[test]
fn answers_leave_from_where_the_newest_authentic_packet_was_sent_to() {
    let mut victim = Victim::new(ValidConfig::default());
    let from = victim.peer();
    let [first, second, third] = [1, 2, 3].map(|host| IpAddr::from([10, 0, 1, host]));
    let mut packet =
        || hostile::data_packet(victim.next_packet(0), 0, true, &encoded(&Frame::Ping));
    let [delayed, next, last] = [packet(), packet(), packet()];
    let mut damaged = last.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let mut leaves_from = |to: IpAddr, packet: &[u8]| {
        let (now, connection) = victim.parts();
        let bytes = &mut packet.to_vec();
        connection.handle_datagrams(now, [Datagram::new(from, Some(to), bytes)]);
        connection.local_ip()
    };
    assert_eq!(leaves_from(first, &next), Some(first));
    for (packet, why) in [(&delayed, "older"), (&damaged, "damaged"), (&next, "a replay")] {
        assert_eq!(leaves_from(third, packet), Some(first), "{why}");
    }
    assert_eq!(leaves_from(second, &last), Some(second));
    victim.parts().1.handle_local_ip_gone(SocketId::default());
    assert_eq!(victim.connection().local_ip(), None);
}

/// Wi-Fi, LTE, Wi-Fi within a round trip, and what was said over LTE comes last.
// ARQ-PTH-4
#[test]
fn an_answer_from_where_the_peer_no_longer_is_moves_nothing() {
    let mut victim = Victim::new(ValidConfig::default());
    let (wifi, lte) = (victim.peer(), stranger(66));
    let says = |victim: &mut Victim, at, from, frame: &Frame<'_>| {
        victim.datagram(from, &hostile::data_packet(at, 0, true, &encoded(frame)));
        victim.connection().remote()
    };
    let at = victim.next_packet(0);
    says(&mut victim, at, lte, &Frame::Ping);
    let answer = Frame::PathResponse(victim.token_to(lte).expect("the new address is asked"));
    let late = victim.next_packet(0);
    let at = victim.next_packet(0);
    says(&mut victim, at, wifi, &Frame::Ping);
    assert_eq!(says(&mut victim, late, lte, &answer), wifi);
    // There again, and asked the same again.
    let at = victim.next_packet(0);
    says(&mut victim, at, lte, &answer);
    victim.sleep(SEC);
    assert_eq!(victim.connection().remote(), lte);
}
