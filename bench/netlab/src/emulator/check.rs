// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Can a network have these figures at all?

use super::EmulatorError;
use crate::wire::{Change, Conditions, Event, Loss, Wire};

/// Refuses figures that mean nothing, by the name that they have in a scenario.
pub(super) fn network(network: &Conditions) -> Result<(), EmulatorError> {
    wire(&network.forward)?;
    wire(&network.backward)?;
    if let Some(second) = &network.second {
        self::network(second)?;
    }
    network.events.iter().try_for_each(event)
}

/// The same for one direction.
pub(super) fn wire(wire: &Wire) -> Result<(), EmulatorError> {
    milliseconds("delay_ms", wire.delay_ms)?;
    milliseconds("jitter_ms", wire.jitter_ms)?;
    milliseconds("reorder_hold_ms", wire.reorder_hold_ms)?;
    percent("duplicate_percent", wire.duplicate_percent)?;
    percent("reorder_percent", wire.reorder_percent)?;
    check("bit_error_rate", wire.bit_error_rate, "0 to 1", |v| (0.0..=1.0).contains(&v))?;
    wire.rate_mbps.map_or(Ok(()), |rate| positive("rate_mbps", rate))?;
    if let Some(policer) = &wire.policer {
        positive("policer.rate_mbps", policer.rate_mbps)?;
    }
    if let Some(fade) = &wire.fade {
        let range = "1 to 60,000";
        check("fade.share_percent", fade.share_percent, "0 to 90", |v| (0.0..=90.0).contains(&v))?;
        check("fade.mean_ms", fade.mean_ms, range, |v| (1.0..=60_000.0).contains(&v))?;
    }
    let start = wire.recording.as_ref().and_then(|recording| recording.start_s);
    start.map_or(Ok(()), |start| {
        check("recording.start_s", start, "0 to 86,400", |v| (0.0..=86_400.0).contains(&v))
    })?;
    loss(&wire.loss)
}

fn loss(loss: &Loss) -> Result<(), EmulatorError> {
    match *loss {
        Loss::None => Ok(()),
        Loss::Random { percent: p } => percent("loss.percent", p),
        Loss::Correlated { percent: p, correlation_percent } => {
            percent("loss.percent", p)?;
            check("loss.correlation_percent", correlation_percent, "0 to below 100", |v| {
                (0.0..100.0).contains(&v)
            })
        }
        Loss::Gilbert { percent: p, burst_packets } => {
            percent("loss.percent", p)?;
            check("loss.burst_packets", burst_packets, "1 or more", |v| v >= 1.0)
        }
        Loss::State { enter_percent, leave_percent } => {
            percent("loss.enter_percent", enter_percent)?;
            percent("loss.leave_percent", leave_percent)
        }
    }
}

fn event(event: &Event) -> Result<(), EmulatorError> {
    let not_negative = |v: f64| v >= 0.0;
    check("at_s", event.at_s, "0 or more", not_negative)?;
    let until = event.until_s.unwrap_or(event.at_s);
    check("until_s", until, "not before at_s", |v| v >= event.at_s)?;
    if let Some(every) = event.every_s {
        let length = until - event.at_s;
        check("every_s", every, "above 0 and not shorter than from at_s to until_s", |v| {
            v > 0.0 && v >= length
        })?;
    }
    match event.change {
        Change::Blackout => Ok(()),
        Change::LossPercent(value) => percent("loss_percent", value),
        Change::DelayMs(value) => milliseconds("delay_ms", value),
        Change::RateMbps(value) => positive("rate_mbps", value),
    }
}

fn percent(what: &'static str, value: f64) -> Result<(), EmulatorError> {
    check(what, value, "0 to 100", |v| (0.0..=100.0).contains(&v))
}

fn milliseconds(what: &'static str, value: f64) -> Result<(), EmulatorError> {
    check(what, value, "0 to 600,000 (ten minutes)", |v| (0.0..=600_000.0).contains(&v))
}

/// A bit a second at least: what is slower is a blackout.
fn positive(what: &'static str, value: f64) -> Result<(), EmulatorError> {
    check(what, value, "0.000001 (a bit a second) or more", |v| v >= 1e-6)
}

fn check(
    what: &'static str,
    value: f64,
    range: &'static str,
    is_possible: impl Fn(f64) -> bool,
) -> Result<(), EmulatorError> {
    if value.is_finite() && is_possible(value) {
        return Ok(());
    }
    Err(EmulatorError::Impossible { what, value, range })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_wire_is_possible() {
        assert!(wire(&Wire::default()).is_ok());
    }

    #[test]
    fn what_is_impossible_is_named() {
        let refused = |wire: Wire| super::wire(&wire).unwrap_err().to_string();
        let wire = Wire { delay_ms: -1.0, ..Wire::default() };
        assert_eq!(refused(wire), "`delay_ms` of -1 is impossible: 0 to 600,000 (ten minutes)");
        let loss = Loss::Gilbert { percent: 10.0, burst_packets: 0.5 };
        assert!(refused(Wire { loss, ..Wire::default() }).contains("loss.burst_packets"));
        let rate_mbps = Some(f64::NAN);
        assert!(refused(Wire { rate_mbps, ..Wire::default() }).contains("rate_mbps"));
        let overlapping = Event {
            at_s: 1.0,
            until_s: Some(3.0),
            every_s: Some(1.5),
            change: Change::LossPercent(5.0),
        };
        let events = Conditions { events: vec![overlapping], ..Conditions::default() };
        assert!(network(&events).unwrap_err().to_string().contains("every_s"));
    }
}
