// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A path falls silent: what is on it leaves on the others, too.
//!
//! Nothing is declared lost by that, and no controller hears of it. If the path answers again, what it has delivered counts
//! as needless copies: the more of them, the longer the next silence must last before anything moves.

use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::{is_open, PathEvent, PathState};
use crate::{
    connection::{
        path::{standing::Standing, Path},
        Connection,
    },
    recovery::Outcome,
    sent::Content,
    symbol::Symbol,
    timer::TimerKind,
    units::{LaneId, LaneSet, MessageSeq},
};

/// What was needless counts for about so long.
const COPIES_MEMORY: Duration = Duration::from_secs(20);
/// Silence is waited for so much longer than usual at most.
const MAX_STRETCH: f64 = 4.0;
/// A silent path is asked each probe time-out for so long: most fades are over by then. Then the questions back off.
const ASKED_OFTEN_FOR: Duration = Duration::from_secs(2);
/// While no path answers, each repairs for so many probe time-outs, since chance may explain those, and is only asked then.
const REPAIRED_FOR: u32 = 3;
/// A path on which nothing came for so many round trips, though others tell that the peer receives there, has lost its way
/// back.
const HALF_OPEN_AFTER: u32 = 3;
/// Bytes that count as needed before anything is known: the first copies are not judged by themselves.
const MIN_NEEDED_BYTES: f64 = 20_000.0;

/// How many copies were needless.
#[derive(Debug, Default)]
pub(super) struct Copies {
    needless: f64,
    needed: f64,
    at: Option<Instant>,
}

impl Copies {
    fn decay(&self, now: Instant) -> f64 {
        let age = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        (-age.as_secs_f64() / COPIES_MEMORY.as_secs_f64()).exp()
    }

    pub(super) fn record(&mut self, now: Instant, acked: u64, needless: u64) {
        let decay = self.decay(now);
        self.needless = self.needless * decay + needless as f64;
        self.needed = self.needed * decay + acked.saturating_sub(needless) as f64;
        self.at = Some(now);
    }

    /// So many bytes that counted as needless were not.
    pub(super) fn forgive(&mut self, now: Instant, bytes: u64) {
        self.record(now, 0, 0);
        self.needless = (self.needless - bytes as f64).max(0.0);
    }

    /// Needless bytes per byte that was needed.
    pub(super) fn share(&self, now: Instant) -> f64 {
        let decay = self.decay(now);
        self.needless * decay / (self.needed * decay).max(MIN_NEEDED_BYTES)
    }

    /// How much longer than usual silence is waited for, so that at most so many percent are needless.
    fn stretch(&self, now: Instant, percent: u8) -> f64 {
        match percent {
            0 => f64::INFINITY,
            _ => self.share(now) * 100.0 / f64::from(percent),
        }
    }
}

impl Path {
    /// Whether messages may leave here: it is open, answers, and neither side wants it to rest.
    fn is_usable(&self) -> bool {
        self.state() == PathState::Open
    }

    /// Whether something that leaves here may arrive, if only by luck.
    fn may_answer(&self) -> bool {
        matches!(self.state(), PathState::Open | PathState::Silent)
    }
}

impl Connection {
    /// Whether a path beside the one that is served can be used.
    fn has_usable_other(&self) -> bool {
        self.others.iter().any(Path::is_usable)
    }

    /// Whether the path that is served does not answer while another one does: it is only asked, then.
    pub(in crate::connection) fn rests(&self) -> bool {
        !self.path.is_usable() && self.has_usable_other()
    }

    /// What arrives on a path that does not answer shows that its way back may be dead: acknowledgements leave there once a
    /// round trip, and others tell of the rest.
    pub(in crate::connection) fn holds_back_ack(&self, now: Instant) -> bool {
        self.rests() && now < self.path.told_at + self.path.recovery.rtt().smoothed()
    }

    /// Whether the path that is served is only asked although no other answers: what leaves on it meanwhile would lengthen the
    /// queue of a radio that stalls, and is lost in a fade.
    pub(in crate::connection) fn waits_for_any(&self, now: Instant) -> bool {
        let is_silent = |path: &Path| path.state() == PathState::Silent;
        let are_silent = is_silent(&self.path) && self.others.iter().any(is_silent);
        let repairs_for = REPAIRED_FOR * self.path.recovery.pto_base();
        are_silent && !self.has_usable_other() && self.path.silence.lasts(now) >= repairs_for
    }

    /// The path that is served does not answer: asks it.
    pub(in crate::connection) fn ask_silent(&mut self, now: Instant) {
        self.counters.ptos += 1;
        self.path.ptos += 1;
        let is_replaced = self.has_usable_other();
        let asked_enough = self.path.silence.lasts(now) > ASKED_OFTEN_FOR;
        let backs_off = asked_enough || self.waits_for_any(now);
        self.path.recovery.ask(now, backs_off, is_replaced);
    }

    /// Whether silence, not a probe time-out, decides about the path that is served: another one takes over.
    pub(in crate::connection) fn is_replaceable(&self) -> bool {
        !self.others.is_empty() && self.path.is_usable() && self.has_usable_other()
    }

    /// When the path that is served will have been silent for long enough, unless something is heard before.
    fn silence_deadline(&mut self, now: Instant) -> Option<Instant> {
        let stretch = self.others.copies.stretch(now, self.config.copies_percent);
        let round_trip = self.path.recovery.rtt().smoothed();
        let since = self.path.recovery.unheard_since()?;
        Some(since + self.path.silence.threshold(round_trip, stretch.min(MAX_STRETCH)))
    }

    /// Sets the timer of the path that is served.
    pub(in crate::connection) fn rearm_silence(&mut self, now: Instant) {
        let is_watched = !self.others.is_empty() && self.path.is_usable();
        let deadline = if is_watched { self.silence_deadline(now) } else { None };
        self.path.timers.set(TimerKind::Silence, deadline);
    }

    pub(in crate::connection) fn on_silence_timer(&mut self, now: Instant) {
        if self.silence_deadline(now).is_some_and(|at| at <= now) {
            self.fall_silent(now);
        }
    }

    /// The path that is served does not answer, or is said not to: moves what is on it, and asks it.
    pub(in crate::connection) fn fall_silent(&mut self, now: Instant) {
        if self.others.is_empty() || !is_open(&self.state) || !self.path.silence.begin(now) {
            return;
        }
        self.tell_path(PathEvent::Silent);
        self.note_common_silence();
        self.others.doubles.on_silence(self.path.number);
        if self.path.recovery.in_flight_bytes() > 0 {
            self.ask_silent(now);
        }
        if self.others.iter().any(Path::may_answer) {
            self.move_in_flight();
        }
        self.hurry_others(now);
    }

    /// The path that is served has fallen silent: do others, too? An interface that is down is no silence.
    fn note_common_silence(&mut self) {
        let is_silent = |path: &Path| path.state() == PathState::Silent;
        if is_silent(&self.path) {
            let others = self.others.iter().filter(|path| is_silent(path)).count();
            if self.others.together.on_silence(others) {
                self.tell_path(PathEvent::SilentTogether);
            }
        }
    }

    /// Another path is wanted at once.
    fn hurry_others(&mut self, now: Instant) {
        for path in self.others.iter_mut() {
            let is_shut = path.is_shut();
            match &mut path.standing {
                Standing::Opening(opening) if opening.is_asking() => {
                    opening.hurry(now);
                    path.timers.set(TimerKind::Path, Some(opening.next(now)));
                }
                Standing::Open if path.silence.is_silent() && !is_shut => {
                    path.ping_due = true;
                }
                Standing::Opening(_) | Standing::Open => {}
            }
        }
    }

    fn move_in_flight(&mut self) {
        let contents = self.path.recovery.move_in_flight();
        let mut symbols: Vec<_> = contents
            .iter()
            .filter_map(|content| match *content {
                Content::Symbol { lane, seq, symbol, .. } => Some((lane, seq, symbol)),
                // Newer ones follow, or do not matter.
                Content::Close | Content::Forget(_) => None,
                Content::PathState(number) => {
                    self.on_wish_lost(number);
                    None
                }
                Content::MaxData => {
                    self.incoming.on_credit_lost(None);
                    None
                }
                Content::MaxLaneData(lane) => {
                    self.incoming.on_credit_lost(Some(lane));
                    None
                }
            })
            .collect();
        symbols.sort_unstable_by_key(|&(lane, seq, _)| (lane, seq));
        let coding = self.outgoing.peer_takes_repair;
        let mut moved = LaneSet::default();
        for message in symbols.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1)) {
            let [(lane, seq, _), ..] = *message else { continue };
            let symbols: SmallVec<[Symbol; 8]> =
                message.iter().map(|&(_, _, symbol)| symbol).collect();
            if self.outgoing.lanes[lane].move_message(seq, &symbols, coding) {
                moved.insert(lane);
            }
        }
        moved.iter().for_each(|lane| self.outgoing.pending.insert(lane));
        // What is on others that are silent is no substitute.
        let mut out = self.out_on_silent_paths(&contents);
        if !out.is_empty() {
            out.extend(contents.into_iter().filter(|content| message_of(content).is_some()));
            out.sort_by_key(message_of);
            self.do_without(&out);
        }
    }

    /// Of messages of which something was lost: what is out of them on other paths that are silent, or paused after they
    /// answered.
    pub(in crate::connection) fn out_on_silent_paths(&mut self, lost: &[Content]) -> Vec<Content> {
        if lost.is_empty() || self.others.iter().all(Path::is_usable) {
            return Vec::new();
        }
        let mut damaged: Vec<_> = lost.iter().filter_map(message_of).collect();
        damaged.sort_unstable();
        let silent = self.others.iter_mut().filter(|path| !path.is_usable());
        let out = silent.flat_map(|path| path.recovery.contents_in_flight());
        let is_damaged = |message| damaged.binary_search(&message).is_ok();
        let mut out: Vec<_> =
            out.filter(|content| message_of(content).is_some_and(is_damaged)).collect();
        out.sort_unstable_by_key(message_of);
        out
    }

    /// What is out of damaged messages on silent paths is not waited for: those may never answer again.
    pub(in crate::connection) fn do_without(&mut self, out: &[Content]) {
        let coding = self.outgoing.peer_takes_repair;
        for contents in out.chunk_by(|one, other| message_of(one) == message_of(other)) {
            let Some((lane, seq)) = contents.first().and_then(message_of) else { continue };
            if self.outgoing.lanes[lane].do_without(seq, contents, coding) {
                self.outgoing.pending.insert(lane);
            }
        }
    }

    /// An acknowledgement told of the path that is served.
    pub(in crate::connection) fn note_answer(&mut self, now: Instant, outcome: &Outcome) {
        if self.others.is_empty() {
            return;
        }
        if let Some(delay) = outcome.delay {
            self.path.silence.on_answer(now, delay);
        }
        if !outcome.answers {
            return;
        }
        let unheard = now.saturating_duration_since(self.path.received_at);
        self.path.is_half_open |= unheard > HALF_OPEN_AFTER * self.path.recovery.rtt().smoothed();
        self.path.needless_bytes += outcome.needless_bytes;
        self.others.copies.record(now, outcome.acked_bytes, outcome.needless_bytes);
        // What left before the silence may be told on another path now, and the silence goes on.
        if self.path.silence.is_silent() && self.silence_deadline(now).is_some_and(|at| at <= now) {
            return;
        }
        if let Some(lasted) = self.path.silence.end(now) {
            self.path.recovery.on_silence_ended();
            self.tell_path(PathEvent::Answers(lasted));
            self.take_over();
        }
    }

    /// The path that is served is paused no longer, and asked. If it answered meanwhile, no answer ends a silence.
    pub(super) fn resume(&mut self) {
        self.path.ping_due = true;
        if self.path.is_usable() {
            self.take_over();
        }
    }

    /// The path that is served can be used again, or for the first time: what is on those that are silent leaves here.
    pub(super) fn take_over(&mut self) {
        let is_silent = |path: &&Path| path.silence.is_silent();
        let silent: Vec<_> = self.others.iter().filter(is_silent).map(|path| path.number).collect();
        for number in silent {
            self.with_path(number, Self::move_in_flight);
        }
    }
}

/// The message that this belongs to, if it belongs to one.
fn message_of(content: &Content) -> Option<(LaneId, MessageSeq)> {
    let Content::Symbol { lane, seq, .. } = *content else { return None };
    Some((lane, seq))
}

#[cfg(test)]
mod tests {
    use super::*;

    // ARQ-MP-5
    #[test]
    fn the_more_copies_were_needless_the_longer_silence_is_waited_for() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let t0 = Instant::now();
        let mut copies = Copies::default();
        assert_eq!(copies.stretch(t0, 10), 0.0);
        copies.record(t0, 100_000, 20_000);
        assert!((copies.stretch(t0, 10) - 2.5).abs() < 1e-9, "20 of 80 KB, where a tenth may be");
        assert_eq!(copies.stretch(t0, 0), f64::INFINITY);
        // It is forgotten with time, and by what was needed.
        assert!(copies.share(t0 + 3 * COPIES_MEMORY) < 0.06);
        copies.record(t0, 1_000_000, 0);
        assert!(copies.stretch(t0, 10) < 1.0);
    }
}
