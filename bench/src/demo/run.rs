// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does one cell of the demonstration run in the lab?

use std::collections::BTreeMap;

use super::args::Link;
use super::delivery::{Arrival, Delivery, Offered};
use super::DemoArgs;
use crate::lab::Lab;
use crate::measure::{conduct, Commands, MeasureError, Patience, Progress, Who};
use crate::opponent::Carrier;
use crate::scenario::flow::{CongestionControl, Flow, Pattern, Priority, Reliability};
use crate::traffic::{self, Load, PlannedFlow};

/// Sends the load of `args` over `link`, with this loss from the moment when both sides are connected.
pub(super) fn run(
    lab: &Lab,
    args: &DemoArgs,
    link: &Link,
    port: u16,
    loss: f64,
    on_progress: &dyn Fn(Progress),
) -> Result<Delivery, MeasureError> {
    lab.set_loss(0.0)?;
    let program = std::env::current_exe().map_err(|e| MeasureError::Process(Who::Publisher, e))?;
    let commands = Commands {
        subscriber: lab.host(1).command(&program),
        publisher: lab.host(0).command(&program),
    };
    let load = load(args, link.endpoint(lab.host(1).ipv4(), port));
    let mut begin = || Ok(lab.set_loss(loss)?);
    let (spoken, heard) = conduct(commands, &load, &mut begin, on_progress)?;
    let first_ns = spoken.departures.first().map_or(0, |departures| departures.first_ns);
    let last = (args.messages().saturating_sub(1)) as f64 / args.rate;
    let offered =
        Offered { messages: args.messages(), first_ns, last_ns: first_ns + (last * 1e9) as u64 };
    let noted = heard.flows.first().map(|noted| noted.ledger.arrivals.in_order());
    let arrivals: Vec<_> = noted
        .unwrap_or_default()
        .iter()
        .map(|(sequence, (intended_ns, arrived_ns))| Arrival {
            sequence: *sequence,
            intended_ns: *intended_ns,
            arrived_ns: *arrived_ns,
        })
        .collect();
    Ok(Delivery::of(offered, &arrivals))
}

fn load(args: &DemoArgs, endpoint: String) -> Load {
    let flow = Flow {
        name: "demo".to_owned(),
        payload_bytes: args.size,
        pattern: Pattern::Periodic { rate_hz: args.rate, messages: args.messages() },
        priority: Priority::Data,
        reliability: Reliability::Reliable,
        congestion_control: CongestionControl::Block,
        own_session: false,
        link: None,
        start_s: 0.0,
    };
    let Patience { open, longest, .. } = Patience::default();
    Load {
        links: vec![traffic::Link { carrier: Carrier::Zenoh, endpoint, zenoh: BTreeMap::new() }],
        flows: vec![PlannedFlow { flow, link: 0 }],
        seed: args.seed,
        open,
        grace: args.grace(),
        longest,
    }
}
