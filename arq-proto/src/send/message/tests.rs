// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Is each symbol sent as often as it must be, and no more?

use proptest::prelude::*;

use super::*;
use crate::{textbook, wire::MAX_MESSAGE_BYTES, Probability};

fn message(len: usize, max_chunk: usize) -> Message {
    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    let now = Instant::now();
    let mut message = Message::new(Bytes::from(vec![7; len]), now, None);
    message.begin(max_chunk);
    message
}

fn target(percent: u32) -> Target {
    Target::new(Probability::from_ppm(percent * 10_000))
}

/// Sends everything that is to be sent.
fn send_all(message: &mut Message) -> Vec<Symbol> {
    std::iter::from_fn(|| {
        let symbol = message.next_symbol()?;
        message.on_sent(symbol);
        Some(symbol)
    })
    .collect()
}

proptest! {
    // ARQ-MSG-1
    #[test]
    fn chunks_cover_the_message(len in 1..=MAX_MESSAGE_BYTES, max_chunk in 512_usize..9_000) {
        let mut message = message(len, max_chunk);
        let mut covered = 0;
        while let Some(Symbol::Source(index)) = message.next_symbol() {
            let chunk_len = message.chunk_len(index.into());
            prop_assert!(chunk_len <= max_chunk.max(len.min(512)));
            prop_assert_eq!(message.on_sent(Symbol::Source(index)), Sent::New(chunk_len));
            covered += chunk_len;
        }
        prop_assert_eq!(covered, len);
        prop_assert!(message.is_sent_once() && message.unsent_bytes() == 0);
    }

    /// Whatever is lost and acknowledged, in whatever order: something is on its way or to be
    /// sent until the receiver has enough, and then nothing more is sent.
    // ARQ-REP-1
    #[test]
    fn a_message_is_repaired_until_it_can_be_completed(
        len in 1..=MAX_MESSAGE_BYTES,
        percent in 1_u32..50,
        plainly in any::<bool>(),
        no_ack_in_burst in prop::option::of(any::<bool>()),
        bundled in 0_usize..4,
        fates in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..600),
    ) {
        let mut message = message(len, 1_100);
        let mut in_flight = send_all(&mut message);
        for _ in 0..bundled {
            if message.unacked_sendings().is_some() {
                message.on_bundled();
                in_flight.push(Symbol::Source(0));
            }
        }
        let target = match no_ack_in_burst {
            Some(bursty) => target(percent).after_time_out(Probability::ZERO, bursty),
            None => target(percent),
        };
        let mut fates = fates.into_iter();
        while !message.is_delivered() {
            prop_assert!(!in_flight.is_empty(), "nothing is on its way");
            // In the end, everything arrives.
            let (at, lost) = fates
                .next()
                .map_or((0, false), |(which, lost)| (which.index(in_flight.len()), lost));
            let symbol = in_flight.remove(at);
            if lost {
                message.on_lost(0, symbol);
                if plainly {
                    message.add(textbook::REPAIR);
                } else {
                    message.repair(target);
                }
            } else {
                message.on_acked(0, symbol);
            }
            in_flight.extend(send_all(&mut message));
        }
        prop_assert_eq!(message.next_symbol(), None);
    }
}

// ARQ-LOS-4, ARQ-LOS-5
#[test]
fn a_chunk_is_repeated_only_when_no_transmission_of_it_is_left() {
    let mut message = message(1_000, 512);
    let [first, second] = [Symbol::Source(0), Symbol::Source(1)];
    assert_eq!(send_all(&mut message), [first, second]);
    message.on_lost(0, first);
    message.add(textbook::REPAIR);
    assert_eq!(message.next_symbol(), Some(first));
    assert_eq!(message.on_sent(first), Sent::Again);
    // A second copy, as a probe sends it.
    message.on_sent(first);
    message.on_lost(0, first);
    message.add(textbook::REPAIR);
    assert_eq!(message.next_symbol(), None, "the other copy may arrive");
    message.on_acked(0, first);
    message.on_lost(0, first);
    message.add(textbook::REPAIR);
    assert_eq!(message.next_symbol(), None, "it has arrived");
    message.on_acked(0, second);
    assert!(message.is_delivered());
}

// ARQ-REP-2, ARQ-REP-3
#[test]
fn few_missing_chunks_are_copied_and_more_are_coded() {
    let mut message = message(10_000, 1_112);
    let sent = send_all(&mut message);
    // One is lost, the rest has arrived: copies of it, one for each round.
    sent[1..].iter().for_each(|&symbol| message.on_acked(0, symbol));
    message.on_lost(0, sent[0]);
    message.repair(target(10));
    assert_eq!(send_all(&mut message), [sent[0]; 2]);
    message.on_acked(0, sent[0]);
    assert!(message.is_delivered());

    // Three are lost, six have arrived: five symbols, of which three arrive in 99 of 100 cases.
    let mut message = self::message(10_000, 1_112);
    let sent = send_all(&mut message);
    sent[3..].iter().for_each(|&symbol| message.on_acked(0, symbol));
    sent[..3].iter().for_each(|&symbol| message.on_lost(0, symbol));
    message.repair(target(10));
    let repairs = send_all(&mut message);
    assert_eq!(repairs, [0, 1, 2, 3, 4].map(Symbol::Repair));
    // One more loss changes nothing: enough are still on their way, with what is known now.
    message.on_acked(0, repairs[0]);
    message.on_acked(0, repairs[1]);
    message.on_lost(0, repairs[2]);
    message.repair(target(10));
    assert_eq!(send_all(&mut message), []);
    message.on_acked(0, repairs[3]);
    assert!(message.is_delivered());
}

// ARQ-REP-5
#[test]
fn parity_follows_the_chunks_and_covers_what_is_lost_of_them() {
    let mut message = message(10_000, 1_112);
    let sent = send_all(&mut message);
    message.protect(4);
    let parity = send_all(&mut message);
    assert_eq!(parity, [0, 1, 2, 3].map(Symbol::Repair));
    // Two are lost: enough is on its way.
    sent[..2].iter().for_each(|&symbol| message.on_lost(0, symbol));
    sent[2..].iter().for_each(|&symbol| message.on_acked(0, symbol));
    message.repair(target(10));
    assert_eq!(message.next_symbol(), None);
    parity[..2].iter().for_each(|&symbol| message.on_acked(0, symbol));
    assert!(message.is_delivered());
}

// ARQ-REP-1
#[test]
fn what_is_still_in_flight_of_the_first_round_is_not_suspect() {
    let mut message = message(30_000, 1_112);
    let sent = send_all(&mut message);
    message.protect(3);
    let parity = send_all(&mut message);
    // One lost, most of the rest unknown: three symbols are there to make up for it.
    message.on_acked(0, sent[1]);
    message.on_lost(0, sent[0]);
    message.repair(target(10));
    assert_eq!(send_all(&mut message), []);
    // Four lost, the rest unknown: one is lacking, whatever else arrives. Two make that sure.
    sent[2..5].iter().for_each(|&symbol| message.on_lost(0, symbol));
    message.repair(target(10));
    assert_eq!(send_all(&mut message), [3, 4].map(Symbol::Repair));
    // Nothing but the last left, of which no later acknowledgement will tell.
    sent[5..].iter().for_each(|&symbol| message.on_acked(0, symbol));
    parity[..2].iter().for_each(|&symbol| message.on_lost(0, symbol));
    message.repair(target(10));
    assert_eq!(send_all(&mut message).len(), 4, "four lacking, three in flight: 7 in all");
}

// ARQ-PTO-6
#[test]
fn no_ack_about_a_whole_message_is_a_lost_ack() {
    let has_enough =
        |message: &Message, percent| target(percent).is_sure_of_one_of(message.symbols_in_flight());
    let mut message = message(10_000, 1_112);
    let sent = send_all(&mut message);
    assert!(has_enough(&message, 10), "nine are not lost by chance");
    // Heard of a part: no more than another ACK.
    sent[6..].iter().for_each(|&symbol| message.on_acked(0, symbol));
    assert!(has_enough(&message, 10), "nor are six");
    // One is lacking: it may well be lost.
    sent[1..].iter().for_each(|&symbol| message.on_acked(0, symbol));
    assert!(!has_enough(&message, 1));
    let mut single = self::message(500, 1_112);
    send_all(&mut single);
    assert!(!has_enough(&single, 10), "one packet is easily lost");
}

// ARQ-PTO-7
#[test]
fn no_ack_is_a_loss_a_lost_ack_or_nothing() {
    use repair::{
        without_ack,
        NoAck::{Loss, LostAck, Wait},
    };
    let [ten, bursts] = [Some(target(10)), None];
    let mut message = message(10_000, 1_112);
    let sent = send_all(&mut message);
    assert_eq!(without_ack(&message.out(), ten), LostAck);
    assert_eq!(without_ack(&message.out(), bursts), Wait, "an outage");
    message.on_acked(0, sent[3]);
    assert_eq!(without_ack(&message.out(), ten), LostAck, "eight are not lost by chance");
    assert_eq!(without_ack(&message.out(), bursts), Loss);
    sent[..8].iter().for_each(|&symbol| message.on_acked(0, symbol));
    assert_eq!(without_ack(&message.out(), ten), Loss, "one is");
    sent.iter().for_each(|&symbol| message.on_acked(0, symbol));
    assert_eq!(without_ack(&message.out(), bursts), Wait, "it has arrived");

    let mut small = self::message(300, 1_112);
    let sent = send_all(&mut small);
    assert_eq!(without_ack(&small.out(), ten), Loss);
    small.on_lost(0, sent[0]);
    small.repair(target(10));
    send_all(&mut small);
    assert_eq!(without_ack(&small.out(), bursts), Wait, "it was sent again");
    // One packet, but more than any path carries.
    let mut large = self::message(9_000, 9_000);
    send_all(&mut large);
    assert_eq!(without_ack(&large.out(), bursts), Wait);
}

// ARQ-REP-8
#[test]
fn a_lost_ack_makes_the_whole_first_round_suspect() {
    let mut message = message(10_000, 1_112);
    let sent = send_all(&mut message);
    message.protect(2);
    let parity = send_all(&mut message);
    message.on_acked(0, sent[0]);
    sent[1..3].iter().for_each(|&symbol| message.on_lost(0, symbol));
    message.repair(target(10));
    assert_eq!(send_all(&mut message), [], "eight lacking, eight in flight: the rest will tell");
    // Of thirteen all but eight arrive with less than 0.1 %: surer than where nothing was heard.
    message.on_ack_lost(target(10), 64);
    let more = send_all(&mut message);
    assert_eq!(more, [2, 3, 4, 5, 6].map(Symbol::Repair));
    message.on_ack_lost(target(10), 64);
    assert_eq!(send_all(&mut message), [], "they are in flight");
    sent[3..].iter().chain(&parity).for_each(|&symbol| message.on_acked(0, symbol));
    message.on_ack_lost(target(10), 64);
    assert_eq!(send_all(&mut message), [], "it has arrived");

    let mut half = self::message(10_000, 1_112);
    half.on_sent(Symbol::Source(0));
    assert_eq!(half.on_ack_lost(target(10), 64), 0, "the rest is yet to leave");
    send_all(&mut half);
    assert_eq!(half.on_ack_lost(target(10), 2), 2, "no more than may be");
    let mut uncoded = self::message(9_000, 9_000);
    send_all(&mut uncoded);
    assert_eq!(uncoded.on_ack_lost(target(10), 64), 0);
}

// ARQ-REP-5
#[test]
fn a_message_of_one_chunk_is_doubled_instead() {
    let mut message = message(300, 1_112);
    assert!(message.is_last_of_first_round(Symbol::Source(0)));
    assert_eq!(send_all(&mut message), [Symbol::Source(0)]);
    message.protect(1);
    assert_eq!(send_all(&mut message), [Symbol::Source(0)]);
    message.on_lost(0, Symbol::Source(0));
    message.add(textbook::REPAIR);
    assert_eq!(message.next_symbol(), None, "the copy may arrive");
}

// ARQ-LOS-5
#[test]
fn a_loss_that_was_none_takes_its_repair_back() {
    let mut message = message(10_000, 1_112);
    let sent = send_all(&mut message);
    sent.iter().for_each(|&symbol| message.on_lost(0, symbol));
    message.repair(Target::new(Probability::ZERO).in_bulk(true));
    sent[..4].iter().for_each(|&symbol| message.on_acked(0, symbol));
    assert_eq!(send_all(&mut message).len(), 5, "nine chunks, four of them were late");
}

// ARQ-REP-3
#[test]
fn the_last_repair_symbol_is_followed_by_copies() {
    let mut message = message(10_000, 1_112);
    let mut sent = send_all(&mut message);
    for _ in 0..40 {
        for symbol in std::mem::take(&mut sent) {
            message.on_lost(0, symbol);
        }
        message.repair(target(10));
        sent = send_all(&mut message);
        assert!(sent.len() >= 9, "{sent:?}");
    }
    assert!(sent.iter().all(|symbol| matches!(symbol, Symbol::Source(_))));
}

/// What is bundled is one more transmission of the same chunk.
// ARQ-REP-9
#[test]
fn a_bundled_message_is_lost_when_all_of_it_is() {
    let bundled = || {
        let mut message = message(300, 1_100);
        send_all(&mut message);
        assert_eq!(message.unacked_sendings(), Some(1));
        message.on_bundled();
        assert_eq!(message.unacked_sendings(), Some(2));
        message.on_lost(0, Symbol::Source(0));
        assert_eq!(message.unacked_sendings(), None);
        message
    };
    // An acknowledgement told of the loss, and will tell of the later packet.
    let mut message = bundled();
    message.repair(target(10));
    assert_eq!(message.next_symbol(), None);
    message.on_lost(0, Symbol::Source(0));
    message.repair(target(10));
    assert_eq!(send_all(&mut message).len(), 2, "as often as a loss of it takes");
    assert_eq!(message.unacked_sendings(), None, "repaired");
    // The later packet arrives after all.
    let mut message = bundled();
    message.on_acked(0, Symbol::Source(0));
    assert!(message.is_delivered() && message.next_symbol().is_none());
    // Longer ones are not bundled.
    let mut long = self::message(2_000, 1_100);
    send_all(&mut long);
    assert_eq!(long.unacked_sendings(), None);
}

// ARQ-REP-11
#[test]
fn in_a_fade_a_message_leaves_again_though_it_was_lost_and_repaired() {
    let mut message = message(300, 1_100);
    assert!(!message.may_repeat(), "it has not left");
    send_all(&mut message);
    assert!(message.may_repeat());
    message.on_lost(0, Symbol::Source(0));
    message.repair(target(10));
    assert!(!message.may_repeat(), "it is about to leave by itself");
    let copies = send_all(&mut message);
    copies.iter().for_each(|&symbol| message.on_lost(0, symbol));
    assert!(message.may_repeat());
    message.on_bundled();
    assert_eq!(message.out().in_flight, 1);
    message.on_acked(0, Symbol::Source(0));
    assert!(message.is_delivered());
    // Longer ones are not repeated.
    let mut long = self::message(2_000, 1_100);
    send_all(&mut long);
    assert!(!long.may_repeat());
}

// ARQ-REP-9
#[test]
fn after_enough_lost_sendings_bundled_ones_are_not_waited_for() {
    let after = |bursty| target(10).after_time_out(Probability::from_ppm(100_000), bursty);
    let lost_of = |sendings: usize| {
        let mut message = message(300, 1_100);
        send_all(&mut message);
        (1..sendings).for_each(|_| message.on_bundled());
        message.on_lost(0, Symbol::Source(0));
        message
    };
    // One may be chance, two in a row are not.
    let mut message = lost_of(3);
    message.repair(after(false));
    assert_eq!(message.next_symbol(), None);
    message.on_lost(0, Symbol::Source(0));
    message.repair(after(false));
    assert_eq!(send_all(&mut message).len(), 2, "the third is not waited for");
    // In a burst, one is enough; and the loss of the others calls no copy back that has not left.
    let mut message = lost_of(2);
    message.repair(after(true));
    message.on_lost(0, Symbol::Source(0));
    message.repair(after(true));
    assert_eq!(send_all(&mut message).len(), 2);
}

/// One chunk of a round of copies has left when the other turns out to have arrived.
// ARQ-REP-2
#[test]
fn a_round_of_copies_that_ends_early_is_followed_by_the_next() {
    let mut message = message(2_400, 1_200);
    send_all(&mut message);
    message.copy(SymbolSet::first(2), 2);
    let first = message.next_symbol().unwrap();
    assert_eq!(first, Symbol::Source(0));
    message.on_sent(first);
    message.on_acked(message.segmentation(), Symbol::Source(1));
    assert_eq!(send_all(&mut message), [Symbol::Source(0)]);
}

// ARQ-REP-5
#[test]
fn parity_is_of_the_first_round_and_repairs_are_not() {
    let mut message = message(10_000, 1_112);
    let sent = send_all(&mut message);
    message.protect(2);
    for parity in [0, 1].map(Symbol::Repair) {
        assert!(!message.repeats(parity));
        assert_eq!(message.on_sent(parity), Sent::Parity);
    }
    sent.iter().for_each(|&symbol| message.on_lost(0, symbol));
    message.repair(target(10));
    assert!(message.repeats(Symbol::Repair(2)));
    assert_eq!(message.on_sent(Symbol::Repair(2)), Sent::Repair);
    let kinds = [Sent::New(1), Sent::Parity, Sent::Again, Sent::Repair];
    assert_eq!(kinds.map(Sent::is_of_first_round), [true, true, false, false]);
}

// ARQ-REP-1
#[test]
fn what_is_out_of_a_message_is_counted_by_its_rounds() {
    let mut message = message(10_000, 1_112);
    send_all(&mut message);
    message.protect(3);
    message.on_sent(Symbol::Repair(0));
    let out = message.out();
    assert_eq!(
        (out.expected, out.expected_of_first_round),
        (12, 12),
        "nine chunks, three of parity"
    );
    assert_eq!((out.unused, out.has_left), (MAX_REPAIR_SYMBOLS - 3, true));
    [0, 1].iter().for_each(|&index| message.on_lost(0, Symbol::Source(index)));
    message.add(textbook::REPAIR);
    let out = message.out();
    assert_eq!((out.expected, out.expected_of_first_round), (12, 10), "two are to leave again");
    assert!(!out.has_left);
}

// ARQ-LOS-5
#[test]
fn only_a_repair_symbol_that_counted_as_lost_calls_another_back() {
    let mut message = message(10_000, 1_112);
    let sent = send_all(&mut message);
    sent.iter().for_each(|&symbol| message.on_lost(0, symbol));
    message.repair(Target::new(Probability::ZERO).in_bulk(true));
    let [first, second] = [0, 1].map(Symbol::Repair);
    for symbol in [first, second] {
        message.on_sent(symbol);
    }
    assert_eq!(message.repairs.due, 7);
    message.on_acked(0, first);
    assert_eq!(message.repairs.due, 7, "it was in flight");
    message.on_lost(0, second);
    message.on_acked(0, second);
    assert_eq!(message.repairs.due, 6);
}

// ARQ-REP-9
#[test]
fn a_message_with_a_copy_to_leave_is_not_bundled() {
    let mut message = message(300, 1_112);
    send_all(&mut message);
    message.protect(1);
    assert_eq!(message.unacked_sendings(), None);
}

// ARQ-MP-10
#[test]
fn a_double_is_coded_while_the_code_lasts_and_needed_while_its_chunk_is_missing() {
    let message = |sent, due| {
        let mut message = message(10_000, 1_112);
        send_all(&mut message);
        (message.repairs.sent, message.repairs.due) = (sent, due);
        message
    };
    let chunk = Symbol::Source(3);
    for (sent, due, coding, double) in [
        (5, 0, true, Symbol::Repair(5)),
        (100, 2, true, Symbol::Repair(100)),
        (127, 0, true, Symbol::Repair(127)),
        (126, 2, true, chunk),
        (128, 0, true, chunk),
        (5, 0, false, chunk),
    ] {
        let next = message(sent, due).next_double(chunk, coding);
        assert_eq!(next, Some(double), "{sent}, {due}, {coding}");
    }
    let mut message = message(5, 0);
    message.on_doubled(Symbol::Repair(5));
    assert_eq!(message.symbols_in_flight(), 10);
    assert_eq!(message.next_double(chunk, true), Some(Symbol::Repair(6)));
    assert_eq!(message.next_double(Symbol::Repair(5), true), None);
    message.on_acked(0, chunk);
    assert_eq!(message.next_double(chunk, true), None);
    let mut whole = self::message(900, 1_112);
    send_all(&mut whole);
    assert_eq!(whole.next_double(Symbol::Source(0), true), Some(Symbol::Source(0)));
}
