// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Do the parts of a scenario fit together: names that exist, once each, and figures that belong somewhere?

use std::collections::BTreeSet;

use super::error::Problem;
use super::file::{Goal, ScenarioFile};
use super::Scenario;
use crate::opponent::{self, Opponent};
use crate::summary::is_ours;

impl Scenario {
    /// Figures that belong to no cell would be shown nowhere.
    pub(super) fn check_published(&self) -> Result<(), Problem> {
        let known: BTreeSet<_> = self.grounds.iter().flat_map(|ground| &ground.setting).collect();
        let mut wanted = self.published.iter().flat_map(|row| &row.setting);
        let written = |(axis, value): &(String, String)| format!("{axis} = {value}");
        match wanted.find(|pair| !known.contains(pair)) {
            Some(pair) => Err(Problem::Name {
                place: "published.setting",
                name: written(pair),
                valid: known.into_iter().map(written).collect(),
            }),
            None => Ok(()),
        }
    }
}

impl ScenarioFile {
    /// What no table can check alone.
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.links.is_empty() {
            return Err(Problem::Empty("links"));
        }
        if self.flows.is_empty() {
            return Err(Problem::Empty("flow"));
        }
        once("links", self.links.iter())?;
        once("flow", self.flows.iter().map(|flow| &flow.name))?;
        once("case", self.cases.iter().map(|case| &case.name))?;
        let known = opponent::all();
        once("link", known.iter().chain(&self.own_links).map(|link| &link.name))?;
        self.goals.iter().try_for_each(|goal| self.check_goal(goal))?;
        if let Some(link) = self.own_links.iter().find(|link| link.ours != is_ours(&link.name)) {
            return Err(Problem::Ours { name: link.name.clone(), ours: link.ours });
        }
        Ok(())
    }

    fn check_goal(&self, goal: &Goal) -> Result<(), Problem> {
        match (goal.percent, goal.within_ms, goal.longest_silence_ms) {
            (Some(_), Some(_), None) | (None, None, Some(_)) => {}
            _ => return Err(Problem::Goal(goal.flow.clone())),
        }
        if self.flows.iter().any(|flow| flow.name == goal.flow) {
            return Ok(());
        }
        let valid = self.flows.iter().map(|flow| flow.name.clone()).collect();
        Err(Problem::Name { place: "goal.flow", name: goal.flow.clone(), valid })
    }

    pub(super) fn opponents(&self) -> Result<Vec<Opponent>, Problem> {
        self.links.iter().map(|name| self.opponent(name)).collect()
    }

    pub(super) fn rivals(&self) -> Result<Vec<Opponent>, Problem> {
        let names: BTreeSet<_> =
            self.flows.iter().filter_map(|flow| flow.link.as_deref()).collect();
        names.into_iter().map(|name| self.opponent(name)).collect()
    }

    fn opponent(&self, name: &str) -> Result<Opponent, Problem> {
        let known: Vec<_> = opponent::all().into_iter().chain(self.own_links.clone()).collect();
        Ok(opponent::choose(name, &known)?)
    }
}

fn once<'a>(list: &'static str, names: impl Iterator<Item = &'a String>) -> Result<(), Problem> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(Problem::Twice { list, name: name.clone() });
        }
    }
    Ok(())
}
