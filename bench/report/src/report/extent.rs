// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How much was asked for: how many messages in a run, how many repeats, what share of the scenario?
//!
//! From the scenario as it was measured, never from its notes: the same file is run shortened, too.

use crate::scenario::flow::Pattern;
use crate::scenario::Scenario;

/// How much of a scenario was to be measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extent {
    /// What a run has of each flow, in words.
    pub traffic: Vec<String>,
    /// How often each cell.
    pub repeats: u32,
    /// So many times the messages, or the time, of the scenario's file.
    pub scale: f64,
}

impl Extent {
    /// Of the scenario that is kept beside the results, and the command that made them.
    pub(super) fn of(scenario: &Scenario, command: &str) -> Self {
        Self { traffic: traffic(scenario), repeats: scenario.repeats, scale: scale(command) }
    }
}

/// For each flow its amounts over all settings, the least and the greatest: `data: 100 to 1000 messages`.
fn traffic(scenario: &Scenario) -> Vec<String> {
    let mut flows: Vec<(String, &'static str, f64, f64)> = Vec::new();
    for flow in scenario.cells().into_iter().flat_map(|setting| setting.flows) {
        let (amount, unit) = amount(&flow.pattern);
        match flows.iter_mut().find(|(name, ..)| *name == flow.name) {
            Some((.., least, most)) => {
                *least = least.min(amount);
                *most = most.max(amount);
            }
            None => flows.push((flow.name, unit, amount, amount)),
        }
    }
    let words = |(name, unit, least, most)| match least == most {
        true => format!("{name}: {least} {unit}"),
        false => format!("{name}: {least} to {most} {unit}"),
    };
    flows.into_iter().map(words).collect()
}

fn amount(pattern: &Pattern) -> (f64, &'static str) {
    match *pattern {
        Pattern::Periodic { messages, .. } | Pattern::Transfer { messages } => {
            (messages as f64, "messages")
        }
        Pattern::PingPong { messages } => (messages as f64, "messages and answers"),
        Pattern::Opening { messages } => (messages as f64, "sessions"),
        Pattern::Flood { seconds } => (seconds, "s of as much as the link takes"),
    }
}

/// What the bench writes into the command when it is not 1; the scenario itself holds the scaled numbers only.
fn scale(command: &str) -> f64 {
    let behind = command.split_whitespace().skip_while(|word| *word != "--scale").nth(1);
    behind.and_then(|factor| factor.parse().ok()).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;

    fn of(name: &str, factor: f64) -> Extent {
        let scenario = scenario::find(name).unwrap().scaled(factor, Some(2)).unwrap();
        Extent::of(
            &scenario,
            &format!("arq-bench run {name} --seed 1 --repeats 2 --scale {factor}"),
        )
    }

    #[test]
    fn a_shortened_scenario_tells_what_was_measured() {
        let extent = of("drop-rate", 0.1);
        assert_eq!(extent.traffic, ["data: 25 messages"]);
        assert_eq!((extent.repeats, extent.scale), (2, 0.1));
    }

    #[test]
    fn amounts_that_differ_between_settings_and_flows_are_told() {
        assert_eq!(of("arq-schemes", 1.0).traffic, ["data: 100 to 1000 messages"]);
        let traffic = of("mixed-priority", 1.0).traffic;
        assert_eq!(traffic, ["beacon: 300 messages", "bulk: 120 messages"]);
        assert_eq!(of("goodput", 0.5).traffic, ["bulk: 4 s of as much as the link takes"]);
        assert_eq!(scale("arq-bench run goodput --seed 1"), 1.0);
    }
}
