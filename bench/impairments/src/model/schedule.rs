// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What do the events make of the network at a given time?
//!
//! A pure function of the time since the beginning. Where several events touch the same thing, the one that began
//! last decides.

use std::time::Duration;

use crate::wire::{Change, Event};

/// The events of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    events: Vec<Event>,
}

/// One time that an event happens.
#[derive(Clone, Copy, Debug)]
struct Occurrence {
    start_s: f64,
    /// Infinite when the event has no end.
    end_s: f64,
    has_end: bool,
    value: f64,
}

impl Schedule {
    pub(super) fn new(events: Vec<Event>) -> Self {
        Self { events }
    }

    /// Whether everything vanishes at `now`.
    pub(super) fn is_blackout(&self, now: Duration) -> bool {
        let t = now.as_secs_f64();
        let blackout = |change: &Change| matches!(change, Change::Blackout).then_some(0.0);
        self.occurrences(t, true, blackout).any(|o| t < o.end_s)
    }

    /// The share lost in per cent, when the wire's own is `base`; `None` while no event says.
    pub(super) fn loss_percent(&self, now: Duration, base: f64) -> Option<f64> {
        self.ramp(now.as_secs_f64(), true, base, self.events.len() * 2)
    }

    /// The delay in milliseconds, if an event says.
    pub(super) fn delay_ms(&self, now: Duration) -> Option<f64> {
        self.step(now, |change| match change {
            Change::DelayMs(value) => Some(*value),
            _ => None,
        })
    }

    /// The rate in Mb/s, if an event says.
    pub(super) fn rate_mbps(&self, now: Duration) -> Option<f64> {
        self.step(now, |change| match change {
            Change::RateMbps(value) => Some(*value),
            _ => None,
        })
    }

    /// A value that holds until the end of its event.
    fn step(&self, now: Duration, of: impl Fn(&Change) -> Option<f64>) -> Option<f64> {
        let t = now.as_secs_f64();
        latest(self.occurrences(t, true, of).filter(|o| t < o.end_s)).map(|o| o.value)
    }

    /// A value that moves to its aim during its event and stays. `depth` bounds how many unfinished ramps may lie
    /// one upon the other.
    fn ramp(&self, t: f64, inclusive: bool, base: f64, depth: usize) -> Option<f64> {
        let loss = |change: &Change| match change {
            Change::LossPercent(value) => Some(*value),
            _ => None,
        };
        let o = latest(self.occurrences(t, inclusive, loss))?;
        if !o.has_end || t >= o.end_s || depth == 0 {
            return Some(o.value);
        }
        let from = self.ramp(o.start_s, false, base, depth - 1).unwrap_or(base);
        Some(from + (o.value - from) * (t - o.start_s) / (o.end_s - o.start_s))
    }

    /// The last time that each event began up to `t` (`inclusive` or before it).
    fn occurrences<'a>(
        &'a self,
        t: f64,
        inclusive: bool,
        of: impl Fn(&Change) -> Option<f64> + 'a,
    ) -> impl Iterator<Item = Occurrence> + 'a {
        self.events.iter().filter_map(move |event| {
            let value = of(&event.change)?;
            let start_s = last_start(event, t, inclusive)?;
            let length = event.until_s.map(|until| until - event.at_s);
            let end_s = start_s + length.unwrap_or(f64::INFINITY);
            Some(Occurrence { start_s, end_s, has_end: length.is_some(), value })
        })
    }
}

fn last_start(event: &Event, t: f64, inclusive: bool) -> Option<f64> {
    let begun = |start: f64| if inclusive { start <= t } else { start < t };
    let every = event.every_s.unwrap_or(f64::INFINITY);
    let repeats = ((t - event.at_s) / every).floor().max(0.0);
    let start = if repeats == 0.0 { event.at_s } else { event.at_s + repeats * every };
    if begun(start) {
        return Some(start);
    }
    (repeats > 0.0).then_some(start - every)
}

/// The one that began last; of several the last named.
fn latest(occurrences: impl Iterator<Item = Occurrence>) -> Option<Occurrence> {
    occurrences.max_by(|a, b| a.start_s.total_cmp(&b.start_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at_s: f64, until_s: Option<f64>, every_s: Option<f64>, change: Change) -> Event {
        Event { at_s, until_s, every_s, change }
    }

    fn s(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_blackout_comes_again() {
        let schedule = Schedule::new(vec![event(2.0, Some(2.5), Some(10.0), Change::Blackout)]);
        for (t, expected) in
            [(1.9, false), (2.0, true), (2.4, true), (2.5, false), (11.9, false), (12.1, true)]
        {
            assert_eq!(schedule.is_blackout(s(t)), expected, "at {t} s");
        }
    }

    #[test]
    fn loss_ramps_up_and_down_again() {
        let schedule = Schedule::new(vec![
            event(0.0, Some(10.0), Some(20.0), Change::LossPercent(62.0)),
            event(10.0, Some(20.0), Some(20.0), Change::LossPercent(2.0)),
        ]);
        for (t, expected) in [
            (0.0, 2.0),
            (5.0, 32.0),
            (10.0, 62.0),
            (15.0, 32.0),
            (20.0, 2.0),
            (25.0, 32.0),
            (30.0, 62.0),
        ] {
            let found = schedule.loss_percent(s(t), 2.0).unwrap();
            assert!((found - expected).abs() < 1e-9, "{found} % at {t} s, expected {expected}");
        }
        assert_eq!(Schedule::default().loss_percent(s(1.0), 2.0), None);
    }

    #[test]
    fn a_delay_spike_ends_and_a_new_rate_stays() {
        let schedule = Schedule::new(vec![
            event(15.0, Some(15.2), Some(15.0), Change::DelayMs(140.0)),
            event(3.0, None, None, Change::RateMbps(1.0)),
        ]);
        assert_eq!(schedule.delay_ms(s(14.9)), None);
        assert_eq!(schedule.delay_ms(s(15.1)), Some(140.0));
        assert_eq!(schedule.delay_ms(s(15.3)), None);
        assert_eq!(schedule.delay_ms(s(30.1)), Some(140.0));
        assert_eq!(schedule.rate_mbps(s(2.9)), None);
        assert_eq!(schedule.rate_mbps(s(99.0)), Some(1.0));
    }
}
