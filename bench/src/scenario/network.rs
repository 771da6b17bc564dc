// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does a `[network]` table become a network: a preset, what holds both ways, then each direction?

use serde::{Deserialize, Serialize};

use super::error::Problem;
use super::library;
use super::wire::{Change, Event, Loss, Network, Policer, Wire};

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
    }
}

fn set<T>(target: &mut T, given: Option<T>) {
    if let Some(value) = given {
        *target = value;
    }
}

impl NetworkTable {
    /// The network that comes of `base` with what is given here.
    pub(super) fn over(&self, base: &Network) -> Result<Network, Problem> {
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
        network.events.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        Ok(network)
    }

    /// The network of a preset, which stands on nothing else.
    pub(super) fn alone(&self) -> Result<Network, Problem> {
        if self.preset.is_some() {
            return Err(Problem::NestedPreset);
        }
        self.over(&Network::default())
    }
}

impl Network {
    /// Both directions.
    pub(super) fn wires_mut(&mut self) -> [&mut Wire; 2] {
        [&mut self.forward, &mut self.backward]
    }

    /// What holds between its keys; each alone is within its range.
    pub(super) fn check(&self) -> Result<(), Problem> {
        for wire in [&self.forward, &self.backward] {
            wire.loss.check()?;
            for event in &self.events {
                event.check()?;
                if let Change::LossPercent(percent) = event.change {
                    wire.loss.with_percent(percent)?.check()?;
                }
            }
            if wire.reorder_percent > 0.0 && wire.reorder_hold_ms == 0.0 {
                return Err(Problem::Hold);
            }
        }
        Ok(())
    }

    /// Whether packets can be lost, so that messages may come late or never.
    pub(super) fn loses(&self) -> bool {
        let faults = |wire: &Wire| {
            wire.loss.percent() > 0.0 || wire.bit_error_rate > 0.0 || wire.policer.is_some()
        };
        faults(&self.forward) || faults(&self.backward) || !self.events.is_empty()
    }
}

impl Event {
    fn check(&self) -> Result<(), Problem> {
        let Some(until_s) = self.until_s else { return Ok(()) };
        let longest_s = self.every_s.unwrap_or(f64::INFINITY);
        if until_s <= self.at_s || until_s - self.at_s > longest_s {
            return Err(Problem::EventTimes { at_s: self.at_s, until_s });
        }
        if self.change == Change::Blackout && until_s - self.at_s == longest_s {
            return Err(Problem::DarkForEver { at_s: self.at_s });
        }
        Ok(())
    }
}

impl Loss {
    /// The same model with this share lost; `random` where there was none.
    pub(super) fn with_percent(self, percent: f64) -> Result<Self, Problem> {
        Ok(match self {
            Self::None | Self::Random { .. } => Self::Random { percent },
            Self::Correlated { correlation_percent, .. } => {
                Self::Correlated { percent, correlation_percent }
            }
            Self::Gilbert { burst_packets, .. } => Self::Gilbert { percent, burst_packets },
            Self::State { .. } => return Err(Problem::ShareOfState),
        })
    }

    /// The share lost in the long run, per cent.
    fn percent(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Random { percent }
            | Self::Correlated { percent, .. }
            | Self::Gilbert { percent, .. } => percent,
            Self::State { enter_percent, leave_percent } => {
                100.0 * enter_percent / (enter_percent + leave_percent)
            }
        }
    }

    /// Good to bad has a probability: loss / (L (1 - loss)) is at most 1.
    fn check(self) -> Result<(), Problem> {
        match self {
            Self::Gilbert { percent, burst_packets }
                if percent > burst_packets * (100.0 - percent) =>
            {
                Err(Problem::Burst { percent, burst_packets })
            }
            _ => Ok(()),
        }
    }
}
