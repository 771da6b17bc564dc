// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What does a scenario lose that is cut short? Events and the starts of flows keep their times.

use super::error::Problem;
use super::expand::Ground;
use super::flow::Flow;

/// Refuses a scale at which the traffic is over before an event or a flow begins, where the whole reaches it.
pub(super) fn check(grounds: &[Ground], factor: f64) -> Result<(), Problem> {
    let missed = |factor: f64| grounds.iter().find_map(|ground| ground.missed(factor));
    let Some((what, at_s)) = missed(factor) else { return Ok(()) };
    let mut factors = (1..1_000).map(|thousandths| f64::from(thousandths) / 1_000.0);
    // The whole misses nothing.
    let least = factors.find(|factor| missed(*factor).is_none()).unwrap_or(1.0);
    Err(Problem::Scale { factor, what, at_s, least })
}

impl Ground {
    /// What the whole reaches and so many times of it do not, and when it begins.
    fn missed(&self, factor: f64) -> Option<(String, f64)> {
        let is_missed =
            |at_s: f64, flows: &[&Flow]| (end_s(flows, factor)..end_s(flows, 1.0)).contains(&at_s);
        let flows: Vec<&Flow> = self.flows.iter().collect();
        let second = self.network.second.iter().flat_map(|second| &second.events);
        let mut events = self.network.events.iter().chain(second);
        let event = events.find(|event| is_missed(event.at_s, &flows));
        let flow = || {
            self.flows.iter().find(|flow| {
                let others: Vec<_> =
                    flows.iter().copied().filter(|other| other.name != flow.name).collect();
                is_missed(flow.start_s, &others)
            })
        };
        let event = event.map(|event| ("the event".to_owned(), event.at_s));
        event.or_else(|| flow().map(|flow| (format!("flow `{}` begins", flow.name), flow.start_s)))
    }
}

/// When so many times the traffic of these flows is over, seconds; never where that depends on the link.
fn end_s(flows: &[&Flow], factor: f64) -> f64 {
    let of_flow = |flow: &&Flow| {
        let length_s = flow.pattern.scaled(factor).length_s();
        length_s.map_or(f64::INFINITY, |length_s| flow.start_s + length_s)
    };
    flows.iter().map(of_flow).fold(0.0, f64::max)
}
