// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Does a path still answer?
//!
//! A path *is silent* once a packet has waited for an answer for one and a half median round trips, and nothing that left
//! after it was answered either. A probe time-out waits for longer, since a repair on the same radio is lost with what it
//! repairs; here the repair leaves on another one, and the worst that a wrong verdict costs is a copy.
//!
//! Requirements, numbered as in `docs/protocol.md` §11.3:
//!
//! - **ARQ-MP-5** A path is silent when its oldest packet of which, and of nothing later, was heard has waited for 1.5 median
//!   round trips (the median and 5 ms, if that is more), or when an interface, a wish or the system says so. What left before
//!   a silence was over has no part in the median. While another path answers, all that is in flight on a silent one leaves
//!   there as well, urgent lanes first, and new messages begin there. Nothing counts as lost by that, and no controller hears
//!   of it. If it is lost there, it is sent again, whatever is in flight on silent paths. The path is asked by PING each PTO
//!   base, after 2 s less and less often, and used again with the first answer. The larger the share of copies that turned
//!   out needless, the longer silence must last, up to four times. While no path answers, they take turns, and each does what
//!   one path does, but is only asked once its silence has lasted for three PTO bases.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Answers of which the median is known. It is computed anew after each [`FRESH`] of them.
const SAMPLES: usize = 128;
const FRESH: usize = 8;
/// Answers after which a path is judged by them: with fewer, the median of one radio's first second passes for the radio.
const KNOWN_AFTER: usize = 32;
/// Median round trips without an answer: fewer send more copies, more wait for longer.
const MEDIANS: f64 = 1.5;
/// Where a round trip is shorter than the host is punctual, its delay is no silence.
const MIN_MARGIN: Duration = Duration::from_millis(5);
/// What is remembered of silences: how long ago they may have ended, and how many.
const MEMORY: Duration = Duration::from_secs(30);
const MAX_REMEMBERED: usize = 16;
/// So many silences within so long make a path restless. New messages begin on it after a pause without another.
const RESTLESS_SILENCES: usize = 3;
const RESTLESS_WITHIN: Duration = Duration::from_secs(10);
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// What is known of a path's answers, and of the silences between them.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    delays: VecDeque<Duration>,
    median: Option<Duration>,
    fresh: usize,
    /// The last two answers.
    latest: [Duration; 2],
    since: Option<Instant>,
    /// When each of the last ones ended, and how long it was.
    past: VecDeque<(Instant, Duration)>,
    pause: Duration,
    rests_until: Option<Instant>,
    count: u64,
    total: Duration,
}

impl Silence {
    /// A packet of this path was acknowledged on it, after `delay`. What left before a silence was over tells how long that
    /// lasted: it counts among the last answers, but not for the median.
    pub(crate) fn on_answer(&mut self, now: Instant, delay: Duration) {
        let ended = self.past.back().map(|(end, _)| *end);
        if self.is_silent() || ended.is_some_and(|end| now < end + delay) {
            self.latest = [self.latest[1], delay];
        } else {
            self.sample(delay);
        }
    }

    /// The path takes so long.
    pub(crate) fn sample(&mut self, delay: Duration) {
        self.latest = [self.latest[1], delay];
        if self.delays.len() == SAMPLES {
            self.delays.pop_front();
        }
        self.delays.push_back(delay);
        self.fresh += 1;
        if self.fresh >= FRESH || self.delays.len() <= FRESH {
            self.fresh = 0;
            let mut sorted: Vec<Duration> = self.delays.iter().copied().collect();
            let middle = sorted.len() / 2;
            self.median = Some(*sorted.select_nth_unstable(middle).1);
        }
    }

    /// Whether the path has answered often enough to be judged by that.
    pub(crate) fn is_known(&self) -> bool {
        self.delays.len() >= KNOWN_AFTER
    }

    /// The median of the times that answers take; `round_trip` where there are none yet.
    pub(crate) fn median(&self, round_trip: Duration) -> Duration {
        self.median.unwrap_or(round_trip)
    }

    /// How long an answer is waited for. `stretch` is 1 and more: the more copies turned out needless, the longer.
    pub(crate) fn threshold(&self, round_trip: Duration, stretch: f64) -> Duration {
        // Where a queue grows, the last ones took longest.
        let median = self.median(round_trip).max(self.latest[0].min(self.latest[1]));
        median.mul_f64(MEDIANS * stretch.max(1.0)).max(median + MIN_MARGIN)
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.since.is_some()
    }

    /// How long the path has been silent by now.
    pub(crate) fn lasts(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// The path falls silent; `false` if it was.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        if self.since.is_some() {
            return false;
        }
        self.since = Some(now);
        self.count += 1;
        true
    }

    /// Something was answered. Returns how long the path had been silent, if it had.
    pub(crate) fn end(&mut self, now: Instant) -> Option<Duration> {
        let lasted = now.saturating_duration_since(self.since.take()?);
        self.total += lasted;
        if self.past.len() == MAX_REMEMBERED {
            self.past.pop_front();
        }
        self.past.push_back((now, lasted));
        // Answers that were late are no fade.
        let median = self.median(lasted);
        let lately = self.past.iter().rev().take_while(|(end, _)| now - *end <= RESTLESS_WITHIN);
        let fades = lately.filter(|(_, lasted)| *lasted >= median);
        if fades.count() >= RESTLESS_SILENCES {
            self.pause = (2 * self.pause).clamp(MIN_PAUSE, MAX_PAUSE);
            self.rests_until = Some(now + self.pause);
        } else {
            self.pause = Duration::ZERO;
        }
        Some(lasted)
    }

    /// Whether the path fell silent so often that new messages begin elsewhere, if they can.
    pub(crate) fn is_restless(&self, now: Instant) -> bool {
        self.rests_until.is_some_and(|until| now < until)
    }

    /// What a message that leaves at a random moment waits for the end of a silence, on average over the last 30 s.
    pub(crate) fn mean_wait(&self, now: Instant) -> Duration {
        let recent =
            self.past.iter().filter(|(end, _)| now.saturating_duration_since(*end) <= MEMORY);
        let lengths = recent.map(|(_, lasted)| *lasted).chain(self.since.map(|_| self.lasts(now)));
        let squares: f64 = lengths.map(|lasted| lasted.as_secs_f64().powi(2)).sum();
        Duration::from_secs_f64((squares / (2.0 * MEMORY.as_secs_f64())).min(3_600.0))
    }

    /// How often the path fell silent, and for how long in all.
    pub(crate) fn totals(&self, now: Instant) -> (u64, Duration) {
        (self.count, self.total + self.lasts(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn t0() -> Instant {
        Instant::now()
    }

    // ARQ-MP-5
    #[test]
    fn an_answer_is_waited_for_one_and_a_half_medians() {
        let mut silence = Silence::default();
        assert_eq!(silence.threshold(40 * MS, 1.0), 60 * MS, "of the round trip, without answers");
        // A tail of slow answers does not move it.
        for delay in [30, 30, 30, 500, 30, 30, 30, 30, 900] {
            silence.sample(delay * MS);
        }
        assert_eq!(silence.threshold(40 * MS, 1.0), 45 * MS);
        assert_eq!(silence.threshold(40 * MS, 2.0), 90 * MS, "copies were needless");
        assert_eq!(silence.threshold(40 * MS, 0.1), 45 * MS);
        let mut short = Silence::default();
        short.sample(MS / 10);
        assert_eq!(short.threshold(MS, 1.0), MS / 10 + MIN_MARGIN, "hosts are not punctual");
        // The median follows a path that has become longer.
        (0..SAMPLES).for_each(|_| silence.sample(200 * MS));
        assert_eq!(silence.threshold(40 * MS, 1.0), 300 * MS);
        assert_eq!(silence.delays.len(), SAMPLES);
    }

    // ARQ-MP-5
    #[test]
    fn what_an_outage_held_back_does_not_pass_for_the_round_trip() {
        let (mut now, mut silence) = (t0(), Silence::default());
        (0..SAMPLES).for_each(|_| silence.sample(10 * MS));
        let usual = silence.threshold(10 * MS, 1.0);
        silence.begin(now);
        // A radio that stalls keeps all questions, and carries them when it is back.
        now += Duration::from_secs(8);
        (0..100).for_each(|n| silence.on_answer(now, (8_000 - n * 10) * MS));
        let waits = silence.threshold(10 * MS, 1.0);
        assert!(
            waits > Duration::from_secs(10),
            "{waits:?}, in case that is how long it takes now"
        );
        silence.end(now);
        for n in 1..100 {
            silence.on_answer(now + n * MS, (7_000 - n * 10) * MS);
        }
        // What leaves now tells how long it takes.
        now += 200 * MS;
        (0..2).for_each(|_| silence.on_answer(now, 10 * MS));
        assert_eq!(silence.threshold(10 * MS, 1.0), usual);
        // Where it does take longer, it is known after two answers, and the median follows.
        silence.begin(now + 100 * MS);
        (0..2).for_each(|_| silence.on_answer(now + 200 * MS, 100 * MS));
        assert_eq!(silence.threshold(10 * MS, 1.0), 150 * MS);
        silence.end(now + 200 * MS);
        (0..SAMPLES).for_each(|_| silence.on_answer(now + 400 * MS, 100 * MS));
        assert_eq!(silence.median(Duration::ZERO), 100 * MS);
    }

    // ARQ-MP-6
    #[test]
    fn a_path_that_falls_silent_again_and_again_rests_for_longer_each_time() {
        let (mut now, mut silence) = (t0(), Silence::default());
        let mut fall_silent = |silence: &mut Silence, after: Duration| {
            now += after;
            assert!(silence.begin(now) && !silence.begin(now));
            now += 100 * MS;
            assert_eq!(silence.end(now), Some(100 * MS));
            assert_eq!(silence.end(now), None);
            now
        };
        let rests: Vec<bool> = (0..3)
            .map(|_| {
                let end = fall_silent(&mut silence, 500 * MS);
                silence.is_restless(end)
            })
            .collect();
        assert_eq!(rests, [false, false, true]);
        let end = fall_silent(&mut silence, 500 * MS);
        assert!(silence.is_restless(end + 1_999 * MS) && !silence.is_restless(end + 2_000 * MS));
        // Four of 100 ms in 30 s.
        assert_eq!(silence.mean_wait(end), Duration::from_secs_f64(0.04 / 60.0));
        assert_eq!(silence.totals(end), (4, 400 * MS));
        // A calm path is trusted again.
        let end = fall_silent(&mut silence, Duration::from_secs(60));
        assert!(!silence.is_restless(end));
        (0..100).for_each(|_| _ = fall_silent(&mut silence, MS));
        assert_eq!(silence.past.len(), MAX_REMEMBERED);
    }
}
