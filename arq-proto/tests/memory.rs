// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How much memory can others make us use? Counted by the allocator, not by our own bookkeeping.
//!
//! One test in a binary of its own: nobody else allocates meanwhile.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::{net::SocketAddr, time::Duration};

use arq_proto::{
    wire::{
        frame::{ChunkFrame, Frame, RepairFrame, Shape},
        packet::Hello,
        VERSION,
    },
    Config, ConnectionId, LaneId, PathState, Reliability, TimerKind, ValidConfig,
};
use arq_sim::{
    harness::{path_id, FrameOp, Victim},
    hostile::{self, Sighting},
};
use common::{MS, SEC};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const MIB: usize = 1 << 20;

/// What a peer does.
type Attack = fn(&mut Victim);

/// The most that an action adds to the memory in use, at any time.
fn growth(action: impl FnOnce()) -> usize {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    action();
    ALLOCATOR.peak_usage().saturating_sub(before)
}

fn config() -> ValidConfig {
    let values = Config {
        lane_window_bytes: 256 << 10,
        connection_window_bytes: 1 << 20,
        ..Config::default()
    };
    values.validate().unwrap()
}

fn chunk(lane: LaneId, seq: u64, message_bytes: usize, index: usize) -> Vec<u8> {
    let chunk_bytes = 512.min(message_bytes);
    let data = &[0; 512][..chunk_bytes];
    let mut out = Vec::new();
    Frame::Chunk(ChunkFrame { lane, seq, message_bytes, chunk_bytes, index, data })
        .encode(&mut out);
    out
}

fn repair(lane: LaneId, seq: u64, index: usize) -> Vec<u8> {
    let shape = Shape { message_bytes: 65_535, chunk_bytes: 512 };
    let mut out = Vec::new();
    Frame::Repair(RepairFrame { lane, seq, shape, index, data: &[7; 512] }).encode(&mut out);
    out
}

fn lanes(reliability: Reliability) -> impl Iterator<Item = LaneId> {
    LaneId::all().filter(move |lane| lane.reliability() == reliability)
}

/// The attacker sends a packet in this time.
const PACE: Duration = Duration::from_micros(20);

/// Pieces of large messages that are never completed, on all lanes.
fn unfinished_messages(victim: &mut Victim) {
    for seq in 0..2_000 {
        for lane in lanes(Reliability::BestEffort) {
            victim.frames(&chunk(lane, seq, 65_535, 1));
            victim.sleep(PACE);
        }
    }
    // As many as the credit allows: one more ends the connection.
    for seq in 0..15 {
        victim.frames(&chunk(lanes(Reliability::Reliable).next().unwrap(), seq, 16_000, 1));
    }
}

/// Short messages that are never completed, in the memory of long ones that the application has read and given back.
fn unfinished_messages_in_recycled_memory(victim: &mut Victim) {
    const LONG: usize = 127 * 512;
    let reliable = lanes(Reliability::Reliable).next().unwrap();
    let mut long_seq = 0;
    for seq in 0..8 {
        for lane in lanes(Reliability::BestEffort) {
            for index in 0..LONG / 512 {
                victim.frames(&chunk(reliable, long_seq, LONG, index));
                victim.sleep(PACE);
            }
            long_seq += 1;
            victim.with_connection(|now, conn| {
                let message = conn.recv(now, reliable).expect("all of it has come");
                conn.recycle(message);
            });
            // More than half as long it takes that memory, shorter it must not.
            let part = if seq % 2 == 0 { 2 } else { 4 };
            victim.frames(&chunk(lane, seq, LONG / part + 512, 1));
        }
    }
}

/// Symbols that stand in for others, of messages that are never completed: one too few of each.
fn repair_symbols_without_end(victim: &mut Victim) {
    let lanes: Vec<_> = lanes(Reliability::BestEffort).collect();
    for seq in 0..100 {
        for index in 0..127 {
            for &lane in &lanes {
                victim.frames(&repair(lane, seq, index));
                victim.sleep(PACE);
            }
        }
    }
}

/// The smallest messages there are, far apart, never read.
fn scattered_messages(victim: &mut Victim) {
    for lane in lanes(Reliability::Reliable) {
        for seq in (1..1_000).step_by(2) {
            victim.frames(&chunk(lane, seq, 1, 0));
            victim.sleep(PACE);
        }
    }
    for lane in lanes(Reliability::BestEffort) {
        for seq in 0..2_000 {
            victim.frames(&chunk(lane, seq * 1_000, 1, 0));
            victim.sleep(PACE);
        }
    }
}

/// Every second packet number is left out, and the span of interest never moves on.
fn gaps_without_end(victim: &mut Victim) {
    for _ in 0..20_000 {
        let at = victim.next_packet(1);
        let packet = hostile::data_packet(at, u64::from(u32::MAX), false, &[1]);
        victim.datagram(victim.peer(), &packet);
        victim.sleep(PACE);
    }
}

/// An application that sends to a peer which acknowledges nothing.
fn silent_peer(victim: &mut Victim) {
    let message = bytes::Bytes::from_static(&[0; 1_000]);
    for _ in 0..400 {
        for lane in LaneId::all() {
            // Refusals are expected soon.
            let _ = victim.with_connection(|now, conn| conn.send(now, lane, message.clone()));
        }
        // Alive, but acknowledging nothing.
        victim.frames(&[1]);
        victim.sleep(100 * MS);
    }
}

/// Not the peer's doing, but what its silence makes of an application that publishes tiny messages.
fn silent_peer_of_tiny_messages(victim: &mut Victim) {
    for lane in LaneId::all() {
        let byte = bytes::Bytes::from_static(&[0]);
        while victim.with_connection(|now, conn| conn.send(now, lane, byte.clone())).is_ok() {}
    }
    (0..50).for_each(|_| {
        victim.frames(&[1]);
        victim.sleep(100 * MS);
    });
}

/// A peer that acknowledges just before it would be asked again, so that it is given more time for the next answer, and
/// meanwhile has each packet of its own acknowledged at once.
fn late_answers(victim: &mut Victim) {
    let lane = lanes(Reliability::Reliable).next().unwrap();
    let message = bytes::Bytes::from_static(&[0; 100]);
    let mut unanswered = 0;
    for _ in 0..250_000 {
        let stats = victim.connection().stats();
        if stats.in_flight_bytes == 0 {
            if stats.send_buffer_bytes == 0 {
                victim.with_connection(|now, conn| conn.send(now, lane, message.clone())).unwrap();
            }
            // The pacer lets it go: not while it has acknowledgements to pay for.
            victim.sleep(MS);
            unanswered = victim.newest();
            continue;
        }
        victim.frames(&[1]);
        victim.sleep(PACE);
        let (now, connection) = victim.parts();
        let probe = connection.poll_timeout().filter(|&(_, kind)| kind == TimerKind::Pto);
        if probe.is_some_and(|(at, _)| at <= now + 2 * PACE) {
            let mut answer = Vec::new();
            FrameOp::AckRanges { below: 0, delay: 0, ranges: Vec::new() }
                .encode(unanswered, &mut answer);
            victim.frames(&answer);
        }
    }
}

fn path_questions(victim: &mut Victim) {
    for n in 0..20_000_u64 {
        let mut frames = Vec::new();
        Frame::PathChallenge(n).encode(&mut frames);
        let at = victim.next_packet(0);
        let from: SocketAddr = ([10, 9, (n >> 8) as u8, n as u8], 9).into();
        victim.datagram(from, &hostile::data_packet(at, 0, true, &frames));
        victim.sleep(PACE);
    }
}

/// A server that keeps four paths, and the ids to which its client sends on the others.
fn with_paths() -> (Victim, [ConnectionId; 3]) {
    let config = Config { paths: 4, ..Config::default() };
    let mut victim = Victim::new(config.validate().unwrap());
    // Its answer tells what it calls the client.
    victim.frames(&[1]);
    let ids = [victim.peer_id().unwrap(), victim.id()];
    (victim, [1, 2, 3].map(|path| path_id(ids, false, path)))
}

/// A packet of 1,200 bytes that asks for a path.
fn opening(dcid: ConnectionId, number: u32) -> Vec<u8> {
    let mut frames = Vec::new();
    Frame::PathChallenge(number.into()).encode(&mut frames);
    frames.push(1);
    frames.resize(1_170, 0);
    hostile::data_packet(Sighting { dcid, number }, 0, true, &frames)
}

/// Each path is asked for from thousands of addresses. What each address gets is counted by the harness.
fn openings((victim, ids): &mut (Victim, [ConnectionId; 3])) {
    for n in 0..10_000_u32 {
        let from: SocketAddr = ([10, 7, (n >> 8) as u8, n as u8], 9).into();
        victim.datagram(from, &opening(ids[n as usize % 3], n / 3));
        victim.sleep(PACE);
    }
}

fn hellos(victim: &mut Victim) {
    for n in 0..20_000_u64 {
        let mut bytes = Vec::new();
        let scid = ConnectionId(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let versions = vec![VERSION];
        Hello { scid, instance: n, attempt: 0, versions, bytes: 1_200 }.encode(&mut bytes);
        let from: SocketAddr = ([10, 8, (n >> 8) as u8, n as u8], 9).into();
        victim.datagram(from, &bytes);
    }
}

// ARQ-ERR-3, ARQ-HS-3, ARQ-BEF-4
#[test]
fn memory_is_bounded_whatever_the_peer_does() {
    let config = config();
    let received = config.connection_window_bytes as usize + 8 * config.lane_window_bytes as usize;
    let queued = 16 * ((256 << 10) + 65_535);
    // What is known of 1,024 messages of a lane, however small.
    let begun = 16 * 1_024 * 320;
    // Less than twice what eight lanes of best effort may hold; and what waits to be used again.
    let recycled = 2 * 8 * (128 << 10) + MIB;
    let attacks: [(&str, Attack, usize); 10] = [
        ("unfinished messages", unfinished_messages, received + MIB),
        ("... in recycled memory", unfinished_messages_in_recycled_memory, recycled + 3 * MIB / 4),
        ("repair symbols without end", repair_symbols_without_end, received + MIB),
        ("scattered messages", scattered_messages, received + MIB),
        // The ledger: what the server asks about the size of packets is never answered.
        ("gaps without end", gaps_without_end, 3 * MIB),
        // What is queued, and the ledger of what is in flight.
        ("a peer that acknowledges nothing", silent_peer, queued + 2 * MIB),
        ("a silent peer of tiny messages", silent_peer_of_tiny_messages, queued + begun + 2 * MIB),
        // The ledger again, of as many packets as it may have.
        ("answers as late as may be", late_answers, 8 * MIB),
        // The harness itself remembers each address; and the ledger, of questions to the address in use.
        ("path questions", path_questions, 6 * MIB),
        ("a flood of HELLOs", hellos, 4 * MIB),
    ];
    for (name, attack, bound) in attacks {
        let mut victim = Victim::new(config.clone());
        let mut end = None;
        let grown = growth(|| {
            attack(&mut victim);
            end = victim.connection().close_reason().cloned();
            victim.sleep(Duration::from_secs(5));
        });
        assert_eq!(end, None, "{name}: the attack must not end before it has done its worst");
        println!("{name}: {} KiB of {} KiB", grown >> 10, bound >> 10);
        assert!(grown <= bound, "{name}: {grown} bytes, {bound} are bearable");
    }

    paths_are_bounded();
    for (name, connection, bound) in [
        ("an idle connection", one_path as fn() -> Victim, 64 << 10),
        ("one that may have four paths", || with_paths().0, 64 << 10),
        ("one that has two", two_paths, 80 << 10),
    ] {
        let (before, mut held) = (ALLOCATOR.current_usage(), 0);
        let idle = growth(|| {
            let mut victim = connection();
            victim.sleep(SEC);
            held = ALLOCATOR.current_usage().saturating_sub(before);
        });
        println!("{name}, with its endpoint: {} KiB, {} in the end", idle >> 10, held >> 10);
        assert!(idle <= bound, "{name}: {idle} bytes");
    }
}

// ARQ-MP-1, ARQ-MP-3
fn paths_are_bounded() {
    let mut victim = with_paths();
    let grown = growth(|| openings(&mut victim));
    let (victim, _) = victim;
    println!("10,000 openings: {} KiB", grown >> 10);
    assert_eq!(victim.connection().close_reason(), None);
    assert_eq!(victim.connection().paths().count(), 4);
    // The harness itself remembers each address.
    assert!(grown <= 4 * MIB, "{grown} bytes");
}

fn one_path() -> Victim {
    let mut victim = Victim::new(ValidConfig::default());
    victim.frames(&[1]);
    victim
}

// ARQ-MP-3
fn two_paths() -> Victim {
    let (mut victim, [id, ..]) = with_paths();
    let from = ([10, 7, 0, 1], 9).into();
    victim.datagram(from, &opening(id, 0));
    let mut answer = Vec::new();
    Frame::PathResponse(victim.path_token().unwrap()).encode(&mut answer);
    victim
        .datagram(from, &hostile::data_packet(Sighting { dcid: id, number: 1 }, 0, true, &answer));
    let states: Vec<_> = victim.connection().paths().map(|path| path.state).collect();
    assert_eq!(states, [PathState::Open; 2]);
    victim
}
