// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Can the path be trusted with ECN? Validation after RFC 9000 §13.4.2, and the test of §A.4.
//!
//! Requirements, numbered as in `docs/protocol.md`:
//!
//! - **ARQ-ECN-2** The first ten packets in flight are a test: they leave as ECT(0), and so do those that leave in one
//!   call with them. Once one was acknowledged with sound counts, and not all were marked, the path is capable, and all
//!   in flight leave so. Packets that nobody acknowledges never do: a path that drops them would not be noticed.
//! - **ARQ-ECN-3** Counts are not sound that lack although a packet sent as ECT(0) is newly acknowledged, that fell, that
//!   hold ECT(1) or more than was sent so, or that are fewer than were acknowledged. They end ECN on the path until a side
//!   moves; only an ACK with a new largest number does (it may have been overtaken).
//! - **ARQ-ECN-4** While a probe is unanswered nothing leaves as ECT(0). A test of which nothing arrives, or that a probe
//!   time-out ends before that, is repeated once; then ECN ends. A capable path is tested anew after two time-outs in a
//!   row between which nothing sent as ECT(0) arrived.

use crate::ecn::{EcnCodepoint, EcnCounts, EcnState};

/// Packets of a test (RFC 9000 §A.4).
const TEST_PACKETS: u64 = 10;
/// Tests, or time-outs, in a row of which nothing arrived.
const MAX_FAILURES: u8 = 2;

/// What is known of ECN on a path.
#[derive(Debug, Default)]
pub(crate) struct Ecn {
    state: EcnState,
    /// Whether the datagrams that leave in this call are marked, once the first one is made.
    batch: Option<bool>,
    /// Packets sent as ECT(0): the peer cannot have counted more.
    sent: u64,
    /// The largest counts that the peer has told.
    counts: EcnCounts,
    /// Those when the peer moved here.
    base: EcnCounts,
    /// Packets below this one left before that.
    from: u64,
    /// Packets from there on that were sent as ECT(0) and acknowledged.
    acked: u64,
    test: Test,
    /// Sent as ECT(0) since the last one that was acknowledged.
    unheard: u64,
    failures: u8,
    /// Marks that were heeded.
    marks: u64,
}

/// A test under way.
#[derive(Debug, Default)]
struct Test {
    /// Packets below this one belong to an earlier one.
    from: u64,
    sent: u64,
    acked: u64,
    lost: u64,
}

impl Ecn {
    pub(crate) fn new(on: bool) -> Self {
        let state = if on { EcnState::Testing } else { EcnState::Off };
        Self { state, ..Self::default() }
    }

    pub(crate) fn state(&self) -> EcnState {
        self.state
    }

    /// Packets of ours that queues have marked.
    pub(crate) fn marks(&self) -> u64 {
        self.marks
    }

    /// Whether the next packet is sent as ECT(0). Those that leave in one call have one codepoint. `may`: it is in flight,
    /// and no probe is unanswered.
    pub(crate) fn mark_next(&mut self, may: bool) -> bool {
        let wanted = match self.state {
            EcnState::Testing => self.test.sent < TEST_PACKETS,
            EcnState::Capable => true,
            EcnState::Off | EcnState::Failed => false,
        };
        *self.batch.get_or_insert(may && wanted)
    }

    /// The codepoint of the datagrams made since this was last asked.
    pub(crate) fn take_codepoint(&mut self) -> Option<EcnCodepoint> {
        self.batch.take().filter(|&marked| marked).map(|_| EcnCodepoint::Ect0)
    }

    /// A packet was sent as ECT(0). `in_flight`: it is heard of again.
    pub(crate) fn on_sent(&mut self, in_flight: bool) {
        self.sent += 1;
        if in_flight {
            self.test.sent += 1;
            self.unheard += 1;
        }
    }

    /// A packet sent as ECT(0) was acknowledged. Returns whether it took the path since the peer moved here.
    pub(crate) fn on_acked(&mut self, number: u64) -> bool {
        (self.unheard, self.failures) = (0, 0);
        self.test.acked += u64::from(number >= self.test.from);
        let is_of_path = number >= self.from;
        self.acked += u64::from(is_of_path);
        is_of_path
    }

    /// A packet sent as ECT(0) was declared lost.
    pub(crate) fn on_lost(&mut self, number: u64) {
        self.test.lost += u64::from(number >= self.test.from);
    }

    /// An acknowledgement was taken that tells of packets sent as ECT(0), if it is `news` of any; those were told by
    /// [`on_acked`](Self::on_acked). `is_newest`: it has a new largest number. `next`: the number of the next packet.
    /// Returns how many of our packets queues have marked since the last one, where that is to be heeded.
    pub(crate) fn on_counts(
        &mut self,
        counts: Option<EcnCounts>,
        news: bool,
        is_newest: bool,
        next: u64,
    ) -> u64 {
        if matches!(self.state, EcnState::Off | EcnState::Failed) {
            return 0;
        }
        let fault = match counts {
            None if news => Some("the path erases marks, or the peer cannot see them"),
            None => None,
            Some(counts) => self.fault_of(counts),
        };
        if let Some(reason) = fault {
            if is_newest {
                self.fail(reason);
            }
            return 0;
        }
        let Some(counts) = counts else { return 0 };
        let marks = counts.ce - std::mem::replace(&mut self.counts, counts).ce;
        // A path that marks whatever it carries says nothing.
        let arrives = self.acked > 0 && counts.ect0 > self.base.ect0;
        if self.state == EcnState::Testing && arrives {
            self.state = EcnState::Capable;
        }
        self.judge_test(next);
        if self.state != EcnState::Capable {
            return 0;
        }
        self.marks += marks;
        marks
    }

    /// What is wrong with these counts.
    fn fault_of(&self, counts: EcnCounts) -> Option<&'static str> {
        let EcnCounts { ect0, ect1, ce } = counts;
        let arrived = ect0.saturating_add(ce);
        let fell = ect0 < self.counts.ect0 || ce < self.counts.ce;
        if ect1 > 0 || fell || arrived > self.sent {
            return Some("the counts are not of what was sent");
        }
        let since = arrived - (self.base.ect0 + self.base.ce);
        (since < self.acked).then_some("the path erases marks")
    }

    /// The fate of some packets of the test is known: of all?
    pub(crate) fn judge_test(&mut self, next: u64) {
        let Test { sent, acked, lost, .. } = self.test;
        if self.state != EcnState::Testing || sent < TEST_PACKETS || acked + lost < sent {
            return;
        }
        match acked {
            0 => self.on_failed_test(next),
            _ => self.fail("the path marks everything"),
        }
    }

    /// A probe time-out: everything in flight may be lost.
    pub(crate) fn on_time_out(&mut self, next: u64) {
        if std::mem::take(&mut self.unheard) > 0 {
            self.on_failed_test(next);
        }
    }

    fn on_failed_test(&mut self, next: u64) {
        self.test = Test { from: next, ..Test::default() };
        self.failures += 1;
        if self.failures < MAX_FAILURES {
            return;
        }
        self.failures = 0;
        match self.state {
            EcnState::Testing => self.fail("the path drops packets that are sent as ECT(0)"),
            EcnState::Capable => self.state = EcnState::Testing,
            EcnState::Off | EcnState::Failed => {}
        }
    }

    fn fail(&mut self, reason: &'static str) {
        tracing::debug!(reason, "no ECN on this path");
        self.state = EcnState::Failed;
    }

    /// The peer has moved, or sees this side elsewhere: what leaves from packet `next` on takes another way.
    pub(crate) fn on_path_change(&mut self, next: u64) {
        if self.state == EcnState::Off {
            return;
        }
        let Self { batch, sent, counts, marks, .. } = *self;
        let test = Test { from: next, ..Test::default() };
        let state = EcnState::Testing;
        *self = Self {
            state,
            batch,
            sent,
            counts,
            base: counts,
            from: next,
            test,
            marks,
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sends `packets` one by one, as far as they may be marked; returns how many were.
    fn send(ecn: &mut Ecn, packets: u64) -> u64 {
        let send_one = |_: &u64| {
            let marked = ecn.mark_next(true);
            assert_eq!(ecn.take_codepoint(), marked.then_some(EcnCodepoint::Ect0));
            if marked {
                ecn.on_sent(true);
            }
            marked
        };
        (0..packets).filter(send_one).count() as u64
    }

    /// The newest acknowledgement, of `packets` sent as ECT(0).
    fn acknowledge(ecn: &mut Ecn, packets: u64, counts: Option<(u64, u64, u64)>) -> u64 {
        (0..packets).for_each(|_| assert!(ecn.on_acked(100)));
        let counts = counts.map(|(ect0, ect1, ce)| EcnCounts { ect0, ect1, ce });
        ecn.on_counts(counts, packets > 0, true, 200)
    }

    // ARQ-ECN-2, ARQ-ECN-3
    #[test]
    fn what_the_first_acknowledgement_of_ten_packets_makes_of_a_path() {
        use EcnState::{Capable, Failed, Testing};
        for (acked, counts, state, marks) in [
            (10, Some((10, 0, 0)), Capable, 0),
            (10, Some((7, 0, 3)), Capable, 3),
            (4, Some((4, 0, 0)), Capable, 0),
            // Acknowledgements were lost, or are late.
            (4, Some((9, 0, 1)), Capable, 1),
            // Erased; and none of the two had arrived that the peer can name.
            (10, None, Failed, 0),
            (0, None, Testing, 0),
            (10, Some((9, 0, 0)), Failed, 0),
            // Changed on the way, made up, all marked.
            (10, Some((9, 1, 0)), Failed, 0),
            (10, Some((11, 0, 0)), Failed, 0),
            (10, Some((0, 0, 11)), Failed, 0),
            (10, Some((0, 0, 10)), Failed, 0),
            (9, Some((0, 0, 9)), Testing, 0),
        ] {
            let mut ecn = Ecn::new(true);
            assert_eq!(send(&mut ecn, 30), 10, "the others wait for what becomes of these");
            let heeded = acknowledge(&mut ecn, acked, counts);
            assert_eq!((ecn.state(), heeded), (state, marks), "{acked} acknowledged, {counts:?}");
            let more = send(&mut ecn, 5);
            assert_eq!(more, if state == Capable { 5 } else { 0 });
        }
    }

    // ARQ-ECN-3
    #[test]
    fn counts_may_be_overtaken_but_neither_fall_nor_stand_still() {
        let capable = || {
            let mut ecn = Ecn::new(true);
            send(&mut ecn, 10);
            acknowledge(&mut ecn, 10, Some((10, 0, 0)));
            send(&mut ecn, 20);
            assert_eq!(acknowledge(&mut ecn, 10, Some((17, 0, 3))), 3);
            ecn
        };
        let mut ecn = capable();
        let old = Some(EcnCounts { ect0: 5, ect1: 0, ce: 0 });
        assert_eq!(ecn.on_counts(old, false, false, 0), 0);
        assert_eq!(ecn.on_counts(None, false, true, 0), 0);
        assert_eq!(ecn.state(), EcnState::Capable);
        assert_eq!(acknowledge(&mut ecn, 10, Some((26, 0, 4))), 1, "only what is new");
        for (acked, counts) in [(10, (20, 0, 3)), (0, (16, 0, 4)), (0, (18, 0, 2))] {
            let mut ecn = capable();
            acknowledge(&mut ecn, acked, Some(counts));
            assert_eq!(ecn.state(), EcnState::Failed, "{counts:?}");
            assert_eq!(acknowledge(&mut ecn, 1, Some((30, 0, 30))), 0, "no longer heeded");
        }
    }

    // ARQ-ECN-4
    #[test]
    fn a_path_that_drops_what_is_marked_costs_two_tests() {
        // By gaps: later packets arrive.
        let mut ecn = Ecn::new(true);
        for state in [EcnState::Testing, EcnState::Failed] {
            assert_eq!(send(&mut ecn, 30), 10);
            (0..10).for_each(|_| ecn.on_lost(300));
            ecn.judge_test(200);
            assert_eq!(ecn.state(), state);
        }
        // By time-outs; a second one in a row asks without the mark, and tells nothing.
        let mut ecn = Ecn::new(true);
        for state in [EcnState::Testing, EcnState::Failed] {
            assert_eq!(send(&mut ecn, 1), 1);
            ecn.on_time_out(200);
            ecn.on_time_out(200);
            assert_eq!(ecn.state(), state);
        }
        // One that is lost by chance is not the path's fault.
        let mut ecn = Ecn::new(true);
        for sent in 1..100 {
            send(&mut ecn, 1);
            ecn.on_time_out(0);
            send(&mut ecn, 1);
            acknowledge(&mut ecn, 1, Some((sent, 0, 0)));
        }
        assert_eq!(ecn.state(), EcnState::Capable);
        // A route that changes.
        for state in [EcnState::Capable, EcnState::Testing, EcnState::Testing, EcnState::Failed] {
            send(&mut ecn, 1);
            ecn.on_time_out(0);
            assert_eq!(ecn.state(), state);
        }
    }

    // ARQ-ECN-2
    #[test]
    fn what_leaves_together_has_one_codepoint_and_what_only_acknowledges_has_none() {
        let mut ecn = Ecn::new(true);
        assert!(!ecn.mark_next(false) && !ecn.mark_next(true));
        assert_eq!(ecn.take_codepoint(), None);
        assert!(ecn.mark_next(true) && ecn.mark_next(false));
        assert_eq!(ecn.take_codepoint(), Some(EcnCodepoint::Ect0));
        assert_eq!(ecn.take_codepoint(), None, "nothing was made");
        let mut off = Ecn::new(false);
        off.on_path_change(0);
        assert_eq!((send(&mut off, 9), off.state()), (0, EcnState::Off));
    }

    // ARQ-ECN-3
    #[test]
    fn another_path_is_tested_anew_and_what_the_old_one_carried_does_not_count() {
        let mut ecn = Ecn::new(true);
        send(&mut ecn, 10);
        acknowledge(&mut ecn, 5, None);
        assert_eq!(ecn.state(), EcnState::Failed);
        ecn.on_path_change(200);
        assert_eq!(send(&mut ecn, 30), 10);
        // Of the old path, erased or not.
        (0..5).for_each(|_| assert!(!ecn.on_acked(199)));
        let told = |ecn: &mut Ecn, ect0| {
            let counts = Some(EcnCounts { ect0, ..EcnCounts::NONE });
            ecn.on_counts(counts, true, true, 300)
        };
        (0..10).for_each(|_| assert!(ecn.on_acked(200)));
        told(&mut ecn, 10);
        assert_eq!(ecn.state(), EcnState::Capable);
    }

    proptest! {
        // ARQ-ERR-3
        #[test]
        fn no_counts_do_harm(
            steps in prop::collection::vec((0_u8..5, 0_u64..40, any::<[u64; 3]>(), any::<bool>()), 0..60),
        ) {
            let mut ecn = Ecn::new(true);
            let mut sent = 0;
            for (step, packets, counts, small) in steps {
                let [ect0, ect1, ce] = counts.map(|count| if small { count % 64 } else { count >> 2 });
                match step {
                    0 => sent += send(&mut ecn, packets),
                    1 => ecn.on_time_out(packets),
                    2 => (0..packets).for_each(|number| ecn.on_lost(number)),
                    3 => ecn.on_path_change(packets),
                    _ => {
                        let marks = ecn.on_counts(Some(EcnCounts { ect0, ect1, ce }), small, !small, packets);
                        prop_assert!(marks <= sent, "{marks} marks of {sent} packets");
                    }
                }
                prop_assert!(ecn.marks() <= sent);
            }
        }
    }
}
