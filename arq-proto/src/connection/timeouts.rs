// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What is done when a timer fires, and when does each fire next?

use std::time::{Duration, Instant};

use super::{Connection, State};
use crate::{
    error::ConnectionError,
    event::Event,
    recovery::sleep,
    redundancy::repair::{NoAck, ASKING_PROBES},
    sent::Content,
    timer::TimerKind,
};

/// The longest *keep_alive* between two processes of one machine.
const MAX_LOCAL_KEEP_ALIVE: Duration = Duration::from_millis(400);
/// Silence of so many round trips is no reason to ask.
const KEEP_ALIVE_ROUND_TRIPS: u32 = 5;

impl Connection {
    pub(super) fn on_timer(&mut self, now: Instant, kind: TimerKind) {
        match kind {
            TimerKind::Handshake => self.on_handshake_timer(now),
            TimerKind::Loss => {
                let outcome = self.path.recovery.on_loss_timer(now);
                self.settle(now, outcome);
            }
            TimerKind::Pto => self.on_pto_timer(now),
            TimerKind::Ack => self.path.acks.on_deadline(),
            // Transmission is tried after every time-out.
            TimerKind::Pacing | TimerKind::Budget => {}
            TimerKind::Expiry => self.expire(now),
            TimerKind::Hold => self.on_hold_timer(now),
            TimerKind::KeepAlive => self.on_keep_alive_timer(now),
            TimerKind::Idle => self.on_idle_timer(now),
            TimerKind::Suspicion => self.on_suspicion_timer(now),
            TimerKind::Path => self.on_path_timer(now),
            TimerKind::PathMtu => self.on_mtu_timer(now),
            TimerKind::Close => self.on_close_timer(now),
            TimerKind::Silence => self.on_silence_timer(now),
            TimerKind::Watch => {}
        }
    }

    /// A probe is due, or the end of a flight was not answered in time.
    fn on_pto_timer(&mut self, now: Instant) {
        let reverse = self.path.acks.loss.upper();
        let chance = self.redundancy().chance();
        let stalled = self.path.recovery.may_be_stalled(now);
        let outcome = if self.rests() || self.waits_for_any(now) {
            return self.ask_silent(now);
        } else if self.path.recovery.probe_is_due(now, reverse) {
            self.counters.ptos += 1;
            self.path.ptos += 1;
            let asks = stalled
                || self.path.recovery.time_outs() < ASKING_PROBES
                    && chance.is_some_and(|chance| self.outgoing.has_enough_in_flight(chance));
            let outcome = self.path.recovery.on_pto(now, reverse, asks);
            let time_outs = self.path.recovery.time_outs();
            self.path.small_packet_due = self.path.mtu.wants_small_packet(time_outs);
            self.path.mtu.on_time_out();
            self.follow_path_mtu();
            self.consider_other_port(now);
            outcome
        } else {
            let outgoing = &self.outgoing;
            let judge = |content: &Content| match stalled {
                true => NoAck::Wait,
                false => outgoing.without_ack(content, chance),
            };
            self.path.recovery.on_tail_time_out(now, judge)
        };
        self.settle(now, outcome);
    }

    /// Gives up best-effort messages whose time is over.
    pub(super) fn expire(&mut self, now: Instant) {
        self.outgoing.expire(now);
        self.announce_writable(now);
        self.finish_if_flushed(now);
    }

    /// When the peer's silence ends the association.
    fn idle_deadline(&self) -> Instant {
        let deadline = self.life.heard_at + self.config.idle_timeout;
        let spared = self.life.spared_at.filter(|&at| at >= self.life.heard_at);
        spared.map_or(deadline, |at| deadline.max(at + self.keep_alive()))
    }

    fn on_idle_timer(&mut self, now: Instant) {
        let was_asleep = now.saturating_duration_since(self.idle_deadline()) >= sleep::MIN_SLEEP;
        let was_spared = self.life.spared_at.is_some_and(|at| at >= self.life.heard_at);
        if was_asleep && !was_spared {
            // Who was not driven has not asked, and what the peer has sent may still wait in the socket.
            self.life.spared_at = Some(now);
            self.path.pinged_at = now;
            self.path.ping_due = true;
        } else {
            self.end(ConnectionError::TimedOut);
        }
    }

    /// Silence after which the peer is asked whether it lives. On one machine that is cheap, and the system tells at once
    /// of a process that is gone. Where answers take long, or the line is narrow, asking more often tells little and
    /// costs much.
    pub(super) fn keep_alive(&self) -> Duration {
        if self.path.is_local {
            return self.config.keep_alive.min(MAX_LOCAL_KEEP_ALIVE);
        }
        let slow = KEEP_ALIVE_ROUND_TRIPS * self.path.recovery.rtt().min();
        self.config.keep_alive.max(slow.min(self.config.idle_timeout / 4))
    }

    fn on_hold_timer(&mut self, now: Instant) {
        let readable = self.incoming.on_hold_deadline(now);
        self.events.extend(readable.iter().map(Event::Readable));
    }

    /// Sets every timer that follows from the state; handshake, close and path set their own.
    pub(super) fn rearm(&mut self, now: Instant) {
        if !matches!(self.state, State::Open { .. } | State::Flushing { .. }) {
            return;
        }
        self.with_each_path(|connection| connection.rearm_path(now));
        let mut paths = self.all_paths();
        let watched = paths.any(|path| path.recovery.watches_for_sleep(now));
        drop(paths);
        let watched = watched.then(|| now + sleep::MIN_SLEEP);
        let watched = watched.or_else(|| self.incoming.watch_deadline(now));
        if watched.is_none() || !self.timers.is_set(TimerKind::Watch) {
            self.timers.set(TimerKind::Watch, watched);
        }
        self.timers.set(TimerKind::Expiry, self.outgoing.expiry());
        self.timers.set(TimerKind::Hold, self.incoming.hold_deadline());
        self.timers.set(TimerKind::Idle, Some(self.idle_deadline()));
    }

    /// The same for the path that is served.
    fn rearm_path(&mut self, now: Instant) {
        if let Some(meter) = &self.path.meter {
            self.path.timers.set(TimerKind::Budget, meter.more_at(now));
        }
        if self.path.is_opening() {
            return;
        }
        let reverse = self.path.acks.loss.upper();
        self.path.timers.set(TimerKind::Loss, self.path.recovery.loss_deadline());
        let asks = !self.is_replaceable() && !self.path.is_shut();
        let pto = self.path.recovery.pto_deadline(reverse).filter(|_| asks);
        self.path.timers.set(TimerKind::Pto, pto);
        self.path.timers.set(TimerKind::Ack, self.path.acks.deadline());
        self.path.timers.set(TimerKind::PathMtu, self.path.mtu.deadline());
        self.rearm_silence(now);
        let keep_alive = self.keep_alive_deadline().filter(|_| !self.path.is_shut());
        let keep_alive = keep_alive.map(|at| at.max(now));
        self.path.timers.set(TimerKind::KeepAlive, keep_alive);
    }
}
