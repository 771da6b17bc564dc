// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

use super::*;

const MS: Duration = Duration::from_millis(1);
const LIMIT: u64 = 10_000;

#[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
fn t0() -> Instant {
    Instant::now()
}

fn lane(reliability: Reliability) -> RecvLane {
    RecvLane::new(LaneId::new(3, reliability).unwrap(), LIMIT)
}

fn on_chunk(
    lane: &mut RecvLane,
    now: Instant,
    chunk: &ChunkFrame<'_>,
) -> Result<Received, Violation> {
    let mut spare = Spare::default();
    spare.on_packet(1_200);
    lane.on_symbol(now, ReceivedSymbol::Source(chunk), None, &mut spare)
}

fn whole(seq: MessageSeq, data: &'static [u8]) -> ChunkFrame<'static> {
    piece(seq, data, data.len(), 0)
}

fn piece(
    seq: u64,
    message: &'static [u8],
    chunk_bytes: usize,
    index: usize,
) -> ChunkFrame<'static> {
    let start = index * chunk_bytes;
    ChunkFrame {
        lane: LaneId::new(3, Reliability::Reliable).unwrap(),
        seq,
        message_bytes: message.len(),
        chunk_bytes,
        index,
        data: &message[start..message.len().min(start + chunk_bytes)],
    }
}

fn taken(lane: &mut RecvLane) -> Vec<Bytes> {
    std::iter::from_fn(|| lane.pop(t0()).map(|(message, _)| message)).collect()
}

static LONG: [u8; 3_000] = [9; 3_000];
static ZEROS: [u8; 20_000] = [0; 20_000];

// ARQ-FLW-6
#[test]
fn a_lane_is_held_up_by_what_is_missing_and_not_by_its_reader() {
    let message = &[0; 1_000];
    let mut lane = lane(Reliability::Reliable);
    for seq in 1..=8 {
        assert!(!lane.is_held_up(), "{} of {LIMIT}", lane.held());
        on_chunk(&mut lane, t0(), &whole(seq, message)).unwrap();
    }
    assert!(lane.is_held_up());
    on_chunk(&mut lane, t0(), &whole(0, message)).unwrap();
    assert!(!lane.is_held_up(), "the reader has something to read");
    // With its overhead, three quarters of the window; then a byte more.
    for (bytes, is_held_up) in [(7_436, false), (7_437, true)] {
        let mut lane = self::lane(Reliability::Reliable);
        on_chunk(&mut lane, t0(), &whole(1, &ZEROS[..bytes])).unwrap();
        assert_eq!(lane.is_held_up(), is_held_up, "{bytes}");
    }
}

// ARQ-FLW-6
#[test]
fn a_wider_lane_holds_more() {
    let (t0, mut lane) = (t0(), lane(Reliability::Reliable));
    let long = whole(1, &ZEROS);
    assert_eq!(on_chunk(&mut lane, t0, &long), Err(Violation::Credit));
    lane.widen(LIMIT + 64);
    assert_eq!(on_chunk(&mut lane, t0, &long), Ok(Received::Stored));
    assert_eq!(on_chunk(&mut lane, t0, &whole(2, b"x")), Err(Violation::Credit));
}

// ARQ-FLW-1
#[test]
fn only_what_is_held_of_a_reliable_lane_takes_credit() {
    for (reliability, credited) in [(Reliability::Reliable, 2), (Reliability::BestEffort, 0)] {
        let mut lane = lane(reliability);
        for seq in 0..2 {
            on_chunk(&mut lane, t0(), &whole(seq, b"xyz")).unwrap();
        }
        let cost = message_cost(3);
        assert_eq!((lane.held(), lane.credited()), (2 * cost, credited * cost));
        let given_back = lane.pop(t0()).unwrap().1;
        assert_eq!((lane.held(), given_back), (cost, credited / 2 * cost));
    }
}

// ARQ-LAN-3
#[test]
fn a_reliable_lane_waits_for_the_hole() {
    let (t0, mut lane) = (t0(), lane(Reliability::Reliable));
    assert_eq!(on_chunk(&mut lane, t0, &whole(1, b"b")), Ok(Received::Stored));
    assert_eq!(on_chunk(&mut lane, t0, &whole(1, b"b")), Ok(Received::Duplicate));
    assert_eq!(on_chunk(&mut lane, t0, &whole(0, b"a")), Ok(Received::Readable));
    assert_eq!(taken(&mut lane), ["a", "b"]);
    assert_eq!(on_chunk(&mut lane, t0, &whole(0, b"a")), Ok(Received::Duplicate));
    assert_eq!(lane.held(), 0);
}

// ARQ-FLW-2, ARQ-MSG-5
#[test]
fn a_reliable_lane_enforces_its_bounds() {
    let (t0, mut lane) = (t0(), lane(Reliability::Reliable));
    for seq in 0..3 {
        assert_eq!(on_chunk(&mut lane, t0, &piece(seq, &LONG, 1_000, 1)), Ok(Received::Stored));
    }
    assert_eq!(on_chunk(&mut lane, t0, &piece(3, &LONG, 1_000, 1)), Err(Violation::Credit));
    assert_eq!(
        on_chunk(&mut lane, t0, &whole(LANE_MESSAGE_WINDOW, b"far")),
        Err(Violation::MessageWindow)
    );
    // Of one byte more than the window has room for, and of as many as it has.
    for (bytes, received) in [(9_937, Err(Violation::Credit)), (9_936, Ok(Received::Readable))] {
        let mut lane = self::lane(Reliability::Reliable);
        assert_eq!(on_chunk(&mut lane, t0, &whole(0, &ZEROS[..bytes])), received);
    }
}

// ARQ-MSG-5
#[test]
fn the_window_of_messages_begins_at_the_next_to_be_released() {
    let (t0, mut lane) = (t0(), lane(Reliability::Reliable));
    for seq in 0..10 {
        on_chunk(&mut lane, t0, &whole(seq, b"x")).unwrap();
    }
    let last = 9 + LANE_MESSAGE_WINDOW;
    assert_eq!(on_chunk(&mut lane, t0, &whole(last, b"x")), Ok(Received::Stored));
    let far = on_chunk(&mut lane, t0, &whole(last + 1, b"x"));
    assert_eq!(far, Err(Violation::MessageWindow));
}

// ARQ-BEF-4
#[test]
fn a_message_far_ahead_ends_the_wait_for_those_a_window_before_it() {
    let (t0, mut lane) = (t0(), lane(Reliability::BestEffort));
    lane.set_hold(500 * MS);
    for seq in [1, 5] {
        on_chunk(&mut lane, t0, &whole(seq, b"x")).unwrap();
    }
    let far = on_chunk(&mut lane, t0, &whole(2 + LANE_MESSAGE_WINDOW, b"x"));
    assert_eq!((far, lane.next), (Ok(Received::Readable), 3));
    assert_eq!(taken(&mut lane).len(), 1);
}

#[test]
fn a_lane_that_was_read_keeps_little_memory_of_a_burst_of_tiny_messages() {
    for reliability in [Reliability::Reliable, Reliability::BestEffort] {
        let (t0, mut lane) = (t0(), RecvLane::new(LaneId::new(3, reliability).unwrap(), 1 << 20));
        lane.set_hold(1_000 * MS);
        // All but the first, which they wait for.
        for seq in 1..1_000 {
            assert_eq!(on_chunk(&mut lane, t0, &whole(seq, b"x")), Ok(Received::Stored));
        }
        assert_eq!(on_chunk(&mut lane, t0, &whole(0, b"x")), Ok(Received::Readable));
        assert_eq!(taken(&mut lane).len(), 1_000);
        let kept = [lane.ready.capacity(), lane.slots.capacity(), lane.waiting.capacity()];
        assert!(kept.iter().all(|&kept| kept <= 2 * KEPT_ROOM), "{kept:?}");
    }
}

// ARQ-BEF-1, ARQ-BEF-4, ARQ-BEF-5
#[test]
fn best_effort_never_goes_back_and_prefers_the_new() {
    let (t0, mut lane) = (t0(), lane(Reliability::BestEffort));
    assert_eq!(on_chunk(&mut lane, t0, &whole(5, b"f")), Ok(Received::Readable));
    assert_eq!(on_chunk(&mut lane, t0, &whole(3, b"d")), Ok(Received::Duplicate));
    // Partial messages that would fill the memory give way to newer ones.
    for seq in 6..20 {
        assert_eq!(on_chunk(&mut lane, t0, &piece(seq, &LONG, 1_000, 0)), Ok(Received::Stored));
        assert!(lane.held() <= LIMIT);
    }
    assert_eq!(on_chunk(&mut lane, t0, &whole(1 << 40, b"z")), Ok(Received::Stored));
    assert_eq!(taken(&mut lane), ["f", "z"]);
    assert_eq!(lane.held(), 0);
}

// ARQ-ERR-3
#[test]
fn numbers_that_are_left_out_take_no_room() {
    let (t0, mut lane) = (t0(), lane(Reliability::BestEffort));
    lane.set_hold(50 * MS);
    for seq in (1..=100).map(|n| n * (LANE_MESSAGE_WINDOW - 1)) {
        on_chunk(&mut lane, t0, &whole(seq, b"x")).unwrap();
        assert!(lane.slots.len() <= 2, "{}", lane.slots.len());
    }
    assert!(lane.slots.capacity() < 16, "{}", lane.slots.capacity());
}

// ARQ-ERR-3
#[test]
fn a_packet_opens_only_so_many_best_effort_messages() {
    let mut spare = Spare::default();
    let (t0, id) = (t0(), LaneId::new(3, Reliability::BestEffort).unwrap());
    let mut lane = RecvLane::new(id, 1 << 20);
    let mut opened = |spare: &mut Spare, seqs: std::ops::Range<u64>| {
        let received = seqs.map(|seq| {
            let piece = piece(seq, &LONG, 1_000, 2);
            lane.on_symbol(t0, ReceivedSymbol::Source(&piece), None, spare).unwrap()
        });
        received.filter(|received| *received == Received::Stored).count()
    };
    spare.on_packet(1_200);
    assert_eq!(opened(&mut spare, 0..100), 18);
    spare.on_packet(65_507);
    assert_eq!(opened(&mut spare, 100..300), 143);
    // Neither whole messages nor those that the peer has credit for are bounded by it.
    let mut none = Spare::default();
    let mut reliable = self::lane(Reliability::Reliable);
    for (lane, symbol) in
        [(&mut lane, whole(300, b"x")), (&mut reliable, piece(0, &LONG, 1_000, 2))]
    {
        let received = lane.on_symbol(t0, ReceivedSymbol::Source(&symbol), None, &mut none);
        assert_ne!(received, Ok(Received::Dropped));
    }
}

// ARQ-BEF-3, ARQ-BEF-6
#[test]
fn a_hold_time_lets_a_repair_arrive() {
    let (t0, mut lane) = (t0(), lane(Reliability::BestEffort));
    lane.set_hold(50 * MS);
    assert_eq!(on_chunk(&mut lane, t0, &whole(1, b"b")), Ok(Received::Stored));
    assert_eq!(lane.hold_deadline(), Some(t0 + 50 * MS));
    assert_eq!(on_chunk(&mut lane, t0 + 20 * MS, &whole(0, b"a")), Ok(Received::Readable));
    assert_eq!(taken(&mut lane), ["a", "b"]);
    on_chunk(&mut lane, t0 + 20 * MS, &whole(3, b"d")).unwrap();
    assert!(!lane.on_hold_deadline(t0 + 69 * MS));
    assert!(lane.on_hold_deadline(t0 + 70 * MS));
    assert_eq!(taken(&mut lane), ["d"]);
    on_chunk(&mut lane, t0 + 80 * MS, &whole(5, b"f")).unwrap();
    assert!(lane.on_forget(t0 + 81 * MS, 5), "nobody need wait for the one before");
    assert!(!lane.on_forget(t0 + 81 * MS, 5), "which is known");
    assert_eq!(taken(&mut lane), ["f"]);
}

/// Whatever is missing, no complete message waits longer than the hold time.
// ARQ-BEF-6
#[test]
fn every_message_has_a_hold_time_of_its_own() {
    let (t0, mut lane) = (t0(), lane(Reliability::BestEffort));
    lane.set_hold(50 * MS);
    for (seq, at) in [(1, 0), (3, 10), (9, 10), (7, 20), (11, 30)] {
        on_chunk(&mut lane, t0 + at * MS, &whole(seq, b"x")).unwrap();
    }
    let mut released = Vec::new();
    while let Some(deadline) = lane.hold_deadline() {
        assert!(!lane.on_hold_deadline(deadline - MS));
        assert!(lane.on_hold_deadline(deadline));
        released.push(((deadline - t0).as_millis(), taken(&mut lane).len()));
    }
    assert_eq!(released, [(50, 1), (60, 3), (80, 1)]);
    assert_eq!(lane.held(), 0);
}

/// Behind a hole and a message that waits for it lie incomplete ones; the memory is full.
// ARQ-BEF-4
#[test]
fn what_gives_way_takes_along_what_waits_for_it() {
    let (t0, mut lane) = (t0(), lane(Reliability::BestEffort));
    lane.set_hold(500 * MS);
    on_chunk(&mut lane, t0, &whole(2, b"c")).unwrap();
    for seq in 3..6 {
        on_chunk(&mut lane, t0, &piece(seq, &LONG, 1_000, 0)).unwrap();
    }
    assert_eq!(on_chunk(&mut lane, t0, &piece(6, &LONG, 1_000, 0)), Ok(Received::Readable));
    assert_eq!(taken(&mut lane), ["c"]);
    assert!(lane.held() <= LIMIT && lane.next == 4, "{lane:?}");
}

// ARQ-BEF-4
#[test]
fn incomplete_messages_of_a_silent_lane_are_given_up() {
    for hold in [Duration::ZERO, 500 * MS] {
        let (t0, mut lane) = (t0(), lane(Reliability::BestEffort));
        lane.set_hold(hold);
        on_chunk(&mut lane, t0, &piece(0, &LONG, 1_000, 0)).unwrap();
        on_chunk(&mut lane, t0 + 900 * MS, &piece(0, &LONG, 1_000, 1)).unwrap();
        let end = t0 + 900 * MS + hold + ABANDON_AFTER;
        assert_eq!(lane.hold_deadline(), Some(end));
        assert!(!lane.on_hold_deadline(end - MS) && lane.held() > 2_000);
        assert!(!lane.on_hold_deadline(end), "there is nothing to read");
        assert_eq!((lane.held(), lane.hold_deadline()), (0, None));
        assert_eq!(on_chunk(&mut lane, end, &whole(1, b"b")), Ok(Received::Readable));
    }
    let (t0, mut reliable) = (t0(), lane(Reliability::Reliable));
    on_chunk(&mut reliable, t0, &piece(0, &LONG, 1_000, 0)).unwrap();
    assert_eq!(reliable.hold_deadline(), None);
}

// ARQ-GBN-1
#[test]
fn what_is_there_in_order_ends_at_the_first_hole() {
    let (t0, mut lane) = (t0(), lane(Reliability::Reliable));
    assert_eq!(lane.next_in_order(), (0, 0));
    on_chunk(&mut lane, t0, &piece(1, &LONG, 1_000, 0)).unwrap();
    assert_eq!(lane.next_in_order(), (0, 0));
    on_chunk(&mut lane, t0, &piece(0, &LONG, 1_000, 1)).unwrap();
    on_chunk(&mut lane, t0, &whole(2, b"x")).unwrap();
    assert_eq!(lane.next_in_order(), (0, 0));
    on_chunk(&mut lane, t0, &piece(0, &LONG, 1_000, 0)).unwrap();
    assert_eq!(lane.next_in_order(), (0, 2_000));
}

// ARQ-BEF-4
#[test]
fn incomplete_messages_give_way_to_newer_ones_and_only_as_many_as_must() {
    // Four of them are as much as the lane holds.
    let begin = |seq| piece(seq, &LONG[..2_436], 1_000, 0);
    let (t0, mut lane) = (t0(), lane(Reliability::BestEffort));
    for seq in 5..9 {
        assert_eq!(on_chunk(&mut lane, t0, &begin(seq)), Ok(Received::Stored));
    }
    assert_eq!((lane.held(), lane.next), (LIMIT, 0));
    assert_eq!(on_chunk(&mut lane, t0, &begin(4)), Ok(Received::Dropped), "an older one");
    assert_eq!((lane.held(), lane.next), (LIMIT, 0));
    assert_eq!(on_chunk(&mut lane, t0, &begin(9)), Ok(Received::Stored));
    assert_eq!((lane.held(), lane.next), (LIMIT, 6));
    let too_long = piece(10, &ZEROS, 10_000, 0);
    assert_eq!(on_chunk(&mut lane, t0, &too_long), Ok(Received::Dropped));
}

/// The memory is full, and the oldest incomplete message gives way.
// ARQ-BEF-4
#[test]
fn what_waited_for_a_message_that_gave_way_can_be_read() {
    let (t0, mut lane) = (t0(), lane(Reliability::BestEffort));
    lane.set_hold(500 * MS);
    on_chunk(&mut lane, t0, &piece(0, &LONG, 1_000, 0)).unwrap();
    on_chunk(&mut lane, t0, &whole(1, b"b")).unwrap();
    for seq in 2..4 {
        on_chunk(&mut lane, t0, &piece(seq, &LONG, 1_000, 0)).unwrap();
    }
    assert_eq!(on_chunk(&mut lane, t0, &piece(4, &LONG, 1_000, 0)), Ok(Received::Readable));
    assert_eq!(taken(&mut lane), ["b"]);
}

// ARQ-BEF-3
#[test]
fn a_peer_that_forgets_tells_of_something_to_read_once_and_of_no_reliable_lane() {
    let (t0, mut lane) = (t0(), lane(Reliability::BestEffort));
    lane.set_hold(500 * MS);
    for seq in [1, 3] {
        on_chunk(&mut lane, t0, &whole(seq, b"x")).unwrap();
    }
    assert!(lane.on_forget(t0, 1));
    assert!(!lane.on_forget(t0, 3), "there was something to read already");
    assert_eq!(taken(&mut lane).len(), 2);
    let mut reliable = self::lane(Reliability::Reliable);
    on_chunk(&mut reliable, t0, &whole(1, b"x")).unwrap();
    assert!(!reliable.on_forget(t0, 1));
    assert_eq!(reliable.next, 0);
}

#[test]
fn what_a_best_effort_lane_holds_back_can_be_read_when_the_connection_ends() {
    for (reliability, readable) in [(Reliability::Reliable, 0), (Reliability::BestEffort, 1)] {
        let (t0, mut lane) = (t0(), lane(reliability));
        lane.set_hold(500 * MS);
        assert!(!lane.end_hold(t0), "nothing is there");
        on_chunk(&mut lane, t0, &whole(1, b"x")).unwrap();
        assert_eq!(lane.end_hold(t0), readable > 0);
        assert!(!lane.end_hold(t0), "it is known");
        assert_eq!(taken(&mut lane).len(), readable);
    }
}

// ARQ-BEF-6, ARQ-BEF-7
#[test]
fn what_is_not_taken_before_its_deadline_is_dropped() {
    // The first waits for nobody, the second 30 ms for an earlier one.
    for (seq, until) in [(0, 40), (1, 70)] {
        for stale in [false, true] {
            let (t0, mut lane) = (t0(), lane(Reliability::BestEffort));
            lane.set_hold(50 * MS);
            let mut spare = Spare::default();
            let symbol = whole(seq, b"x");
            let waited = Some(10 * MS);
            lane.on_symbol(t0, ReceivedSymbol::Source(&symbol), waited, &mut spare).unwrap();
            lane.on_forget(t0 + 30 * MS, seq);
            let taken = lane.pop(t0 + (until - u32::from(!stale)) * MS);
            assert_eq!(taken.is_none(), stale, "{seq}");
            assert_eq!((lane.stale(), lane.held()), (u64::from(stale), 0));
        }
    }
}

// ARQ-FEC-2
#[test]
fn chunks_that_were_computed_are_counted() {
    let (t0, mut lane) = (t0(), lane(Reliability::Reliable));
    let first = piece(0, &LONG, 1_000, 0);
    let mut spare = Spare::default();
    lane.on_symbol(t0, ReceivedSymbol::Source(&first), None, &mut spare).unwrap();
    for index in [0, 1] {
        let mut data = Vec::new();
        crate::fec::encode(&LONG, 1_000, index, &mut data);
        let shape = first.shape();
        let repair = RepairFrame { lane: first.lane, seq: 0, shape, index, data: &data };
        lane.on_symbol(t0, ReceivedSymbol::Repair(&repair), None, &mut spare).unwrap();
    }
    assert_eq!(lane.recovered(), 2);
    assert_eq!(taken(&mut lane), [&LONG[..]]);
}
