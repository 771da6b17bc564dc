// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does a `[network]` table become a network: a preset, what holds both ways, then each direction?

use netlab::expected_share;
use netlab::wire::{Change, Conditions, Event, Fade, Loss, Policer, Recording, Wire};
use serde::{Deserialize, Serialize};

use super::error::Problem;
use super::library;

/// Tables that hold the keys of a [`Wire`], each of which may be left out. A macro, because serde cannot refuse
/// unknown keys of a table that shares its keys by flattening.
macro_rules! tables_of_wires {
    ($($(#[$attribute:meta])* $table:ident { $($own:ident: $type:ty,)* })+) => {$(
        $(#[$attribute])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct $table {
            $($own: $type,)*
            delay_ms: Option<f64>,
            jitter_ms: Option<f64>,
            jitter_reorders: Option<bool>,
            bit_error_rate: Option<f64>,
            duplicate_percent: Option<f64>,
            reorder_percent: Option<f64>,
            reorder_hold_ms: Option<f64>,
            rate_mbps: Option<f64>,
            queue_bytes: Option<u32>,
            mtu_bytes: Option<u16>,
            loss: Option<Loss>,
            policer: Option<Policer>,
            fade: Option<Fade>,
            recording: Option<Recording>,
        }

        impl $table {
            /// Sets what is given here.
            fn set(&self, wire: &mut Wire) {
                set(&mut wire.delay_ms, self.delay_ms);
                set(&mut wire.jitter_ms, self.jitter_ms);
                set(&mut wire.jitter_reorders, self.jitter_reorders);
                set(&mut wire.bit_error_rate, self.bit_error_rate);
                set(&mut wire.duplicate_percent, self.duplicate_percent);
                set(&mut wire.reorder_percent, self.reorder_percent);
                set(&mut wire.reorder_hold_ms, self.reorder_hold_ms);
                set(&mut wire.rate_mbps, self.rate_mbps.map(Some));
                set(&mut wire.queue_bytes, self.queue_bytes);
                set(&mut wire.mtu_bytes, self.mtu_bytes.map(Some));
                set(&mut wire.loss, self.loss);
                set(&mut wire.policer, self.policer.map(Some));
                set(&mut wire.fade, self.fade.map(Some));
                set(&mut wire.recording, self.recording.clone().map(Some));
            }
        }
    )+};
}

tables_of_wires! {
    /// One direction.
    WireTable {}

    /// `[network]`: the keys of a wire hold both ways.
    NetworkTable {
        preset: Option<String>,
        forward: WireTable,
        backward: WireTable,
        event: Vec<Event>,
        second: Option<Box<NetworkTable>>,
    }
}

fn set<T>(target: &mut T, given: Option<T>) {
    if let Some(value) = given {
        *target = value;
    }
}

impl NetworkTable {
    /// The network that comes of `base` with what is given here.
    pub(super) fn over(&self, base: &Conditions) -> Result<Conditions, Problem> {
        let mut network = match &self.preset {
            Some(name) => library::preset_network(name)?,
            None => base.clone(),
        };
        for (wire, direction) in
            [(&mut network.forward, &self.forward), (&mut network.backward, &self.backward)]
        {
            self.set(wire);
            direction.set(wire);
        }
        if !self.event.is_empty() {
            network.events.clone_from(&self.event);
        }
        if let Some(second) = &self.second {
            if second.second.is_some() {
                return Err(Problem::ThirdRadio);
            }
            let base = network.second.take().unwrap_or_default();
            network.second = Some(Box::new(second.over(&base)?));
        }
        network.events.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        Ok(network)
    }

    /// The network of a preset, which stands on nothing else.
    pub(super) fn alone(&self) -> Result<Conditions, Problem> {
        if self.preset.is_some() {
            return Err(Problem::NestedPreset);
        }
        self.over(&Conditions::default())
    }
}

/// Both directions, of either radio.
pub(super) fn wires_mut(network: &mut Conditions) -> impl Iterator<Item = &mut Wire> {
    let second = network.second.iter_mut();
    let second = second.flat_map(|second| [&mut second.forward, &mut second.backward]);
    [&mut network.forward, &mut network.backward].into_iter().chain(second)
}

/// What holds between its keys; each alone is within its range.
pub(super) fn check(network: &Conditions) -> Result<(), Problem> {
    for wire in [&network.forward, &network.backward] {
        check_loss(wire.loss)?;
        for event in &network.events {
            check_event(event)?;
            if let Change::LossPercent(percent) = event.change {
                check_loss(with_percent(wire.loss, percent)?)?;
            }
        }
        if wire.reorder_percent > 0.0 && wire.reorder_hold_ms == 0.0 {
            return Err(Problem::Hold);
        }
    }
    network.second.as_deref().map_or(Ok(()), check)
}

/// Whether packets can be lost, so that messages may come late or never.
pub(super) fn loses(network: &Conditions) -> bool {
    let faults = |wire: &Wire| {
        expected_share(&wire.loss) > 0.0
            || wire.bit_error_rate > 0.0
            || wire.policer.is_some()
            || wire.fade.is_some()
            || wire.recording.is_some()
    };
    faults(&network.forward)
        || faults(&network.backward)
        || !network.events.is_empty()
        || network.second.as_deref().is_some_and(loses)
}

fn check_event(event: &Event) -> Result<(), Problem> {
    let Some(until_s) = event.until_s else { return Ok(()) };
    let longest_s = event.every_s.unwrap_or(f64::INFINITY);
    if until_s <= event.at_s || until_s - event.at_s > longest_s {
        return Err(Problem::EventTimes { at_s: event.at_s, until_s });
    }
    if event.change == Change::Blackout && until_s - event.at_s == longest_s {
        return Err(Problem::DarkForEver { at_s: event.at_s });
    }
    Ok(())
}

/// The same model with this share lost; `random` where there was none.
pub(super) fn with_percent(loss: Loss, percent: f64) -> Result<Loss, Problem> {
    Ok(match loss {
        Loss::None | Loss::Random { .. } => Loss::Random { percent },
        Loss::Correlated { correlation_percent, .. } => {
            Loss::Correlated { percent, correlation_percent }
        }
        Loss::Gilbert { burst_packets, .. } => Loss::Gilbert { percent, burst_packets },
        Loss::State { .. } => return Err(Problem::ShareOfState),
    })
}

/// Good to bad has a probability: loss / (L (1 - loss)) is at most 1.
fn check_loss(loss: Loss) -> Result<(), Problem> {
    match loss {
        Loss::Gilbert { percent, burst_packets } if percent > burst_packets * (100.0 - percent) => {
            Err(Problem::Burst { percent, burst_packets })
        }
        _ => Ok(()),
    }
}
