// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What becomes of messages that have begun.

use super::*;
use crate::Probability;

const CHUNK: [Symbol; 2] = [Symbol::Source(0), Symbol::Source(1)];

/// On a path that loses a tenth.
fn target() -> Target {
    Target::new(Probability::from_ppm(100_000))
}

// ARQ-MSG-6
#[test]
fn a_message_under_way_is_resegmented_when_the_path_carries_less() {
    let narrow = ChunkLimits { most: 600, again: 600, ..CHUNKS };
    let mut lane = lane_with(&[3_000, 500]);
    send(&mut lane);
    assert_eq!(lane.unsent_bytes(), 2_500);
    let at = lane.next_symbol(0, narrow, CREDIT).unwrap();
    assert_eq!((at.segmentation, at.symbol), (1, CHUNK[0]));
    assert_eq!(
        lane.unsent_bytes(),
        2_900,
        "of what left only the bytes up to 600 are a whole chunk"
    );
    // What begins is segmented as it begins.
    let at = lane_with(&[1_000]).next_symbol(0, narrow, CREDIT).unwrap();
    assert_eq!((at.segmentation, at.symbol), (0, CHUNK[0]));
}

// ARQ-MSG-6
#[test]
fn only_what_is_sent_again_takes_shorter_chunks_where_long_ones_are_in_doubt() {
    let doubt = ChunkLimits { again: 600, ..CHUNKS };
    let mut lane = lane_with(&[2_000]);
    for symbol in CHUNK {
        let at = lane.next_symbol(0, doubt, CREDIT).unwrap();
        assert_eq!((at.segmentation, at.symbol), (0, symbol));
        lane.on_sent(t0(), at, 0);
    }
    lane.on_lost(0, 0, CHUNK[1]);
    lane.repair(target(), false);
    assert_eq!(lane.next_symbol(0, doubt, CREDIT).unwrap().segmentation, 1);
}

#[test]
fn a_frame_is_as_long_as_was_reckoned_and_has_the_bytes_of_its_symbol() {
    let data: Vec<u8> = (0..2_001).map(|n| (n % 251) as u8).collect();
    let mut lane = lane_with(&[]);
    lane.push(t0(), data.clone().into(), false);
    let (mut sent, mut scratch, mut parity) = (0, Vec::new(), Vec::new());
    fec::encode(&data, 667, 0, &mut parity);
    while let Some(at) = lane.next_symbol(0, CHUNKS, CREDIT) {
        let (mut packet, frame) = (Vec::new(), lane.frame(at, &mut scratch));
        frame.encode(&mut packet);
        assert_eq!(packet.len(), at.frame_len, "{at:?}");
        match frame {
            Frame::Chunk(chunk) => assert_eq!(chunk.data, &data[sent * 667..][..667]),
            Frame::Repair(repair) => assert_eq!(repair.data, parity),
            other => panic!("{other:?}"),
        }
        sent += 1;
        lane.on_sent(t0(), at, usize::from(sent == 3));
    }
    assert_eq!(sent, 4, "three chunks and what protects them");
}

// ARQ-REP-5
#[test]
fn parity_may_follow_the_last_chunk_if_the_peer_takes_it_or_there_is_but_one() {
    for (bytes, coding, ends) in
        [(900, false, vec![true]), (2_000, false, vec![false; 2]), (2_000, true, vec![false, true])]
    {
        let mut lane = lane_with(&[bytes]);
        let ended = std::iter::from_fn(|| {
            let at = lane.next_symbol(0, CHUNKS, CREDIT)?;
            let shape = lane.first_round_ends(at, coding);
            lane.on_sent(t0(), at, 0);
            Some(shape.is_some())
        });
        assert_eq!(ended.collect::<Vec<_>>(), ends, "{bytes}, {coding}");
    }
}

// ARQ-REP-9
#[test]
fn a_small_message_is_bundled_unless_the_application_waits() {
    let mut lane = lane_with(&[300]);
    send(&mut lane);
    assert_eq!(lane.unacked_sendings(0), Some(1));
    lane.on_bundled(0);
    assert_eq!(lane.unacked_sendings(0), Some(2));
    lane.refuse(t0());
    assert_eq!(lane.unacked_sendings(0), None);
}

#[test]
fn messages_that_have_not_begun_are_the_backlog() {
    let mut lane = lane_with(&[900; 4]);
    send(&mut lane);
    assert_eq!(lane.backlog(), (3, false));
    lane.refuse(t0());
    assert_eq!(lane.backlog(), (3, true));
}

// ARQ-LAN-2
#[test]
fn what_was_lost_leaves_before_what_is_new() {
    let mut lane = lane_with(&[900; 3]);
    assert_eq!(lane.begins_next(0, CREDIT), Some((0, 900)));
    for _ in 0..2 {
        send(&mut lane);
    }
    assert!(!lane.repair(target(), false), "nothing is lost");
    assert_eq!(lane.readiness(CREDIT), Readiness::Ready);
    lane.on_lost(0, 0, CHUNK[0]);
    assert!(lane.repair(target(), false));
    assert_eq!(lane.begins_next(0, CREDIT), None);
    assert_eq!(send(&mut lane).map(|at| at.seq), Some(0));
    assert_eq!(lane.begins_next(0, CREDIT), Some((2, 900)));
    assert_eq!(lane.begins_next(0, 900), None, "without credit");
}

#[test]
fn the_next_repair_waits_to_leave_as_new_bytes_do() {
    let mut lane = lane_with(&[3_000, 500]);
    assert_eq!(lane.to_send_bytes(), 3_500);
    send_all(&mut lane);
    assert_eq!(lane.to_send_bytes(), 0);
    push(&mut lane, 500);
    lane.on_lost(0, 0, CHUNK[1]);
    lane.repair(target(), true);
    let repair = lane.next_symbol(0, CHUNKS, CREDIT).unwrap().frame_len;
    assert_eq!(lane.to_send_bytes(), 500 + repair as u64);
}

// ARQ-REP-8
#[test]
fn symbols_for_a_lost_ack_are_what_leaves_next() {
    let mut lane = lane_with(&[900, 10_000]);
    send_all(&mut lane);
    assert_eq!(lane.readiness(CREDIT), Readiness::Nothing);
    assert_eq!(lane.on_ack_lost(1, target(), 64), 4, "10 of 14 arrive as surely as they should");
    let to_send = lane.to_send_bytes();
    assert!(to_send > 1_000);
    assert_eq!(lane.on_ack_lost(0, target(), 64), 0, "a single chunk is not coded");
    assert_eq!(lane.to_send_bytes(), to_send);
    assert_eq!(send_all(&mut lane), [0, 1, 2, 3].map(|index| (1, Symbol::Repair(index))));
}

// ARQ-PTO-7
#[test]
fn a_missing_ack_says_nothing_of_what_is_not_repaired() {
    for (reliability, no_ack) in
        [(Reliability::Reliable, NoAck::LostAck), (Reliability::BestEffort, NoAck::Wait)]
    {
        let mut lane = lane(reliability, None);
        lane.set_credit(CREDIT);
        push(&mut lane, 2_000);
        send(&mut lane);
        assert_eq!(lane.without_ack(0, Some(target())), no_ack);
        assert_eq!(lane.without_ack(1, Some(target())), NoAck::Wait, "there is no such message");
    }
}

// ARQ-MP-5
#[test]
fn what_is_out_on_a_silent_path_leaves_on_another() {
    let mut lane = lane_with(&[2_000]);
    let sent = send_all(&mut lane);
    assert_eq!(lane.readiness(CREDIT), Readiness::Nothing);
    assert!(!lane.move_message(0, &[], false), "nothing is there");
    assert!(lane.move_message(0, &CHUNK, false));
    assert_eq!(send_all(&mut lane), sent);

    let mut lane = lane_with(&[2_000]);
    send_all(&mut lane);
    assert_eq!(lane.readiness(CREDIT), Readiness::Nothing);
    assert!(!lane.do_without(0, &[], false), "nothing is lost");
    lane.on_lost(0, 0, CHUNK[0]);
    let out = Content::Symbol { lane: lane.id, seq: 0, segmentation: 0, symbol: CHUNK[1] };
    assert!(lane.do_without(0, &[out], false));
    assert_eq!(send_all(&mut lane), sent);
}

// ARQ-PTO-6
#[test]
fn a_lane_has_enough_in_flight_if_each_message_has() {
    let mut lane = lane_with(&[9_000, 300]);
    assert_eq!(lane.has_enough_in_flight(target()), None);
    for _ in 0..9 {
        send(&mut lane);
    }
    assert_eq!(lane.has_enough_in_flight(target()), Some(true));
    send(&mut lane);
    assert_eq!(lane.has_enough_in_flight(target()), Some(false), "one packet is easily lost");
    lane.on_acked(t0(), 1, 0, CHUNK[0]);
    assert_eq!(lane.has_enough_in_flight(target()), Some(true), "it has arrived");

    let mut lane = super::lane(Reliability::BestEffort, None);
    push(&mut lane, 2_000);
    send(&mut lane);
    assert_eq!(lane.has_enough_in_flight(target()), None, "nothing is repaired");
}

// ARQ-LAN-2
#[test]
fn a_reliable_lane_waits_for_the_delivery_of_what_has_begun() {
    for (reliability, awaits) in [(Reliability::Reliable, true), (Reliability::BestEffort, false)] {
        let mut lane = lane(reliability, Some(100 * MS));
        lane.set_credit(CREDIT);
        push(&mut lane, 900);
        assert!(!lane.awaits_delivery());
        send(&mut lane);
        assert_eq!(lane.awaits_delivery(), awaits);
        lane.on_acked(t0(), 0, 0, CHUNK[0]);
        assert!(!lane.awaits_delivery());
    }
}

#[test]
fn a_message_that_has_arrived_gives_its_credit_and_memory_back() {
    let mut lane = lane_with(&[900, 700]);
    send_all(&mut lane);
    assert_eq!(lane.on_acked(t0(), 0, 0, CHUNK[0]), message_cost(900));
    assert_eq!(lane.buffered_bytes(), 700);
}

// ARQ-MP-10
#[test]
fn a_double_of_a_chunk_is_a_symbol_of_its_own() {
    // Chunks of 751 and 750 bytes.
    let mut lane = lane_with(&[1_501]);
    for longer in [0, 1] {
        let at = lane.next_symbol(0, CHUNKS, CREDIT).unwrap();
        assert!(lane.is_new(at));
        lane.on_sent(t0(), at, 0);
        assert!(!lane.is_new(at));
        let double = lane.next_double(at, true).unwrap();
        assert_eq!(double.symbol, Symbol::Repair(longer));
        assert_eq!(double.frame_len, at.frame_len + usize::from(longer));
        assert_eq!(lane.next_double(SymbolRef { segmentation: 1, ..at }, true), None);
        let doubled = (longer > 0).then_some(at.frame_len as u64);
        assert_eq!(lane.doubled_bytes(0, at.symbol), doubled);
        lane.on_doubled(double);
    }
}

// ARQ-MP-10
#[test]
fn doubles_may_complete_a_message_before_all_of_it_has_left() {
    let mut lane = lane_with(&[2_000]);
    let at = send(&mut lane).unwrap();
    let double = lane.next_double(at, true).unwrap();
    lane.on_doubled(double);
    for symbol in [at.symbol, double.symbol] {
        lane.on_acked(t0(), 0, 0, symbol);
    }
    assert!(lane.is_empty());
    assert_eq!(lane.unsent_bytes(), 0);
}
