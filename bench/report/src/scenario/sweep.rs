// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What does each axis of a `[sweep]` change?

use netlab::wire::Wire;
use serde::{Deserialize, Serialize};

use super::error::Problem;
use super::flow::FlowChange;
use super::network::with_percent;

/// Values to go through.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Sweep {
    pub(super) flow: Option<String>,
    drop_percent: Vec<f64>,
    delay_ms: Vec<f64>,
    jitter_ms: Vec<f64>,
    rate_mbps: Vec<f64>,
    bit_error_rate: Vec<f64>,
    duplicate_percent: Vec<f64>,
    reorder_percent: Vec<f64>,
    queue_bytes: Vec<u32>,
    mtu_bytes: Vec<u16>,
    payload_bytes: Vec<usize>,
    rate_hz: Vec<f64>,
    pub(super) messages: Vec<u64>,
}

/// One axis that is given.
pub(super) struct Axis {
    pub(super) name: &'static str,
    pub(super) steps: Vec<Step>,
}

/// One value of an axis.
pub(super) struct Step {
    /// As it is written.
    pub(super) value: String,
    pub(super) change: Change,
}

/// Sets one thing of one direction.
pub(super) type SetWire = dyn Fn(&mut Wire) -> Result<(), Problem>;

/// What a value of an axis changes.
pub(super) enum Change {
    /// Both directions of the network.
    Wire(Box<SetWire>),
    /// A flow.
    Flow(FlowChange),
}

impl Sweep {
    /// The axes that are given, in this order, which the settings of the cells have, too.
    pub(super) fn axes(&self) -> Vec<Axis> {
        let mut axes = vec![
            axis("drop_percent", &self.drop_percent, |percent| {
                Change::Wire(Box::new(move |wire| {
                    wire.loss = with_percent(wire.loss, percent)?;
                    Ok(())
                }))
            }),
            axis("delay_ms", &self.delay_ms, |ms| on_wire(move |wire| wire.delay_ms = ms)),
            axis("jitter_ms", &self.jitter_ms, |ms| on_wire(move |wire| wire.jitter_ms = ms)),
            axis("rate_mbps", &self.rate_mbps, |rate| {
                on_wire(move |wire| wire.rate_mbps = Some(rate))
            }),
            axis("bit_error_rate", &self.bit_error_rate, |rate| {
                on_wire(move |wire| wire.bit_error_rate = rate)
            }),
            axis("duplicate_percent", &self.duplicate_percent, |percent| {
                on_wire(move |wire| wire.duplicate_percent = percent)
            }),
            axis("reorder_percent", &self.reorder_percent, |percent| {
                on_wire(move |wire| wire.reorder_percent = percent)
            }),
            axis("queue_bytes", &self.queue_bytes, |bytes| {
                on_wire(move |wire| wire.queue_bytes = bytes)
            }),
            axis("mtu_bytes", &self.mtu_bytes, |bytes| {
                on_wire(move |wire| wire.mtu_bytes = Some(bytes))
            }),
            axis("payload_bytes", &self.payload_bytes, |bytes| {
                Change::Flow(FlowChange { payload_bytes: Some(bytes), ..FlowChange::default() })
            }),
            axis("rate_hz", &self.rate_hz, |rate| {
                Change::Flow(FlowChange { rate_hz: Some(rate), ..FlowChange::default() })
            }),
            axis("messages", &self.messages, |count| {
                Change::Flow(FlowChange { messages: Some(count), ..FlowChange::default() })
            }),
        ];
        axes.retain(|axis| !axis.steps.is_empty());
        axes
    }
}

fn axis<T: Copy + ToString>(name: &'static str, values: &[T], change: fn(T) -> Change) -> Axis {
    let step = |value: &T| Step { value: value.to_string(), change: change(*value) };
    Axis { name, steps: values.iter().map(step).collect() }
}

fn on_wire(set: impl Fn(&mut Wire) + 'static) -> Change {
    Change::Wire(Box::new(move |wire| {
        set(wire);
        Ok(())
    }))
}
