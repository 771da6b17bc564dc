// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which phase follows which: start-up, draining, cruising and its probes, and the search for the least round trip.

use std::time::{Duration, Instant};

use super::{
    loss::LossModel,
    phase::{Phase, StartUp},
    rounds::Round,
    tuning::{DRAIN_ROUNDS, ECHO_ROUNDS, IN_A_ROW, PROBE_GAIN, PROBE_RTT, TOLERANCE},
    Tolerant,
};
use crate::congestion::{AckSample, RttSample};

impl Tolerant {
    /// What follows a round, or nothing where the last probe shows that loss grows with the rate.
    pub(super) fn next_phase(
        &mut self,
        now: Instant,
        round: &Round,
        queue: bool,
        decided_by_path: bool,
    ) -> Option<Phase> {
        if queue {
            self.probing.on_queue();
        } else if matches!(self.phase, Phase::ProbeDown { rounds: 0 })
            // Who had to send less a while ago knows how much there is.
            && !self.reductions.are_recent(self.round)
        {
            self.probing.on_result(self.known_rate());
        }
        Some(match self.phase {
            Phase::Startup(before) => self.start_up(round, queue, decided_by_path, before),
            // Long enough to see what draining loses.
            Phase::Drain { rounds }
                if (queue || rounds == 0 && self.loss.base() > TOLERANCE)
                    && rounds + 1 < DRAIN_ROUNDS =>
            {
                Phase::Drain { rounds: rounds + 1 }
            }
            Phase::ProbeUp => Phase::ProbeDown { rounds: 0 },
            Phase::ProbeDown { rounds } if queue && rounds + 1 < DRAIN_ROUNDS => {
                Phase::ProbeDown { rounds: rounds + 1 }
            }
            Phase::Slowdown { rounds } if queue && rounds + 1 < DRAIN_ROUNDS => {
                Phase::Slowdown { rounds: rounds + 1 }
            }
            Phase::Drain { .. } | Phase::ProbeDown { .. } | Phase::Slowdown { .. } => {
                Phase::cruise(now, queue)
            }
            Phase::Cruise { since, rounds, .. } => {
                return self.cruise_on(now, since, rounds, queue);
            }
            Phase::ProbeRtt { .. } => self.phase,
        })
    }

    fn start_up(
        &self,
        round: &Round,
        queue: bool,
        decided_by_path: bool,
        before: StartUp,
    ) -> Phase {
        let rate = self.known_rate();
        if round.marked_packets > 0 && self.rate.get().is_some() {
            return Phase::Drain { rounds: 0 };
        }
        if rate > before.best.mul_f64(PROBE_GAIN) {
            return Phase::Startup(StartUp::grown_to(rate));
        }
        let stalled =
            before.stalled + u8::from(decided_by_path || LossModel::is_inexcusable(round));
        let is_bloated = queue && round.min_rtt.is_some_and(|rtt| self.min_rtt.is_far_below(rtt));
        // Even a thin stream is too much for a path where such a queue stands.
        let bloated = if is_bloated { before.bloated.saturating_add(1) } else { 0 };
        // One round without growth is enough if the queue holds more than start-up means to put there.
        let is_pipe_full = stalled.max(bloated) >= IN_A_ROW
            || stalled > 0 && is_bloated
            || self.bursts.show_queue();
        // As long as the trains of a thin stream have not shown any rate, there is none to fall back to.
        // And loss alone ends nothing: a radio loses from the first packet on.
        let is_over = is_pipe_full || queue && self.loss.is_excessive_in_start_up(round);
        if is_over && self.rate.get().is_some() {
            Phase::Drain { rounds: 0 }
        } else {
            Phase::Startup(StartUp { stalled, bloated, ..before })
        }
    }

    /// Goes on cruising, or probes, if the last probe does not speak against it.
    fn cruise_on(
        &mut self,
        now: Instant,
        since: Instant,
        rounds: u64,
        queue: bool,
    ) -> Option<Phase> {
        let rounds = rounds.saturating_add(1);
        let cruise = Phase::Cruise { since, rounds, queue };
        let is_due = self.probing.is_due(rounds, now.saturating_duration_since(since));
        if !is_due || self.hold_until >= self.round || self.is_at_limit() {
            return Some(cruise);
        }
        if self.loss.judge_probe() {
            return None;
        }
        self.probing.begin(self.known_rate(), self.rounds.next_number());
        Some(Phase::ProbeUp)
    }

    pub(super) fn probe_rtt(&mut self, now: Instant, sample: &AckSample) {
        if let Phase::ProbeRtt { until, least } = &mut self.phase {
            *least = (*least).into_iter().chain(sample.rtt.and_then(RttSample::exact)).min();
            // Over sleeps alone, what is known may still hold.
            let known = self.min_rtt.get().unwrap_or_default();
            let possible = || sample.rtt.map(|rtt| known.max(rtt.least).min(rtt.most));
            if let (true, Some(least)) = (now >= *until, least.or_else(possible)) {
                self.end_probe_rtt(now, least);
            }
        } else if (self.min_rtt.is_stale(now) || self.longer.is_likely())
            && !matches!(self.phase, Phase::Startup { .. })
        {
            let until = now + PROBE_RTT.max(sample.smoothed_rtt * 2);
            self.enter(Phase::ProbeRtt { until, least: None });
        }
    }

    /// This was the least round trip with little in flight.
    fn end_probe_rtt(&mut self, now: Instant, least: Duration) {
        let was_likely = self.longer.is_likely();
        let is_longer = was_likely && self.min_rtt.may_show_queue(least);
        // A queue that others keep full is no longer path.
        let overfull = self.overfull_in.is_some_and(|last| self.round <= last + ECHO_ROUNDS);
        let known = self.min_rtt.get().filter(|_| overfull && !was_likely);
        if known.is_none() {
            self.longer.settle();
        }
        self.min_rtt.replace(now, known.unwrap_or(least));
        if is_longer {
            self.loss.doubt();
            self.enter(Phase::START);
        } else {
            self.enter(Phase::cruise(now, false));
        }
    }
}
