// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which cells does a scenario have? The product of its cases and the axes of its sweep; links come on top.

use netlab::wire::Conditions;

use super::error::Problem;
use super::file::{Case, ScenarioFile};
use super::flow::Flow;
use super::network;
use super::sweep::{Change, Step, Sweep};

/// One setting of the network and the traffic, for any link.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ground {
    /// Axes and values, as a cell tells them.
    pub(super) setting: Vec<(String, String)>,
    pub(super) network: Conditions,
    pub(super) flows: Vec<Flow>,
}

/// The axis of the cases.
const CASE: &str = "case";

/// All settings of `file`, each checked.
pub(super) fn grounds(file: &ScenarioFile) -> Result<Vec<Ground>, Problem> {
    let network = file.network.over(&Conditions::default())?;
    let base = Ground { setting: Vec::new(), network, flows: file.flows.clone() };
    // Even where no axis changes a flow.
    file.sweep.flow.iter().try_for_each(|name| base.flow("sweep.flow", name).map(drop))?;
    let mut grounds = match file.cases.as_slice() {
        [] => vec![base],
        cases => cases.iter().map(|case| base.in_case(case)).collect::<Result<_, _>>()?,
    };
    for axis in file.sweep.axes() {
        let along = |ground: &Ground| {
            axis.steps
                .iter()
                .map(|step| ground.at(&file.sweep, axis.name, step))
                .collect::<Vec<_>>()
        };
        grounds = grounds.iter().flat_map(along).collect::<Result<_, _>>()?;
    }
    grounds.iter().try_for_each(|ground| network::check(&ground.network))?;
    Ok(grounds)
}

impl Ground {
    fn in_case(&self, case: &Case) -> Result<Self, Problem> {
        let mut ground = self.clone();
        ground.setting.push((CASE.to_owned(), case.name.clone()));
        ground.network = case.network.over(&self.network)?;
        if !case.flows.is_empty() {
            for name in &case.flows {
                self.flow("case.flows", name)?;
            }
            ground.flows.retain(|flow| case.flows.contains(&flow.name));
        }
        for flow in &mut ground.flows {
            flow.change(&case.flow)?;
        }
        Ok(ground)
    }

    /// The position of the flow of this name.
    fn flow(&self, place: &'static str, name: &str) -> Result<usize, Problem> {
        self.flows.iter().position(|flow| flow.name == name).ok_or_else(|| Problem::Name {
            place,
            name: name.to_owned(),
            valid: self.flows.iter().map(|flow| flow.name.clone()).collect(),
        })
    }

    /// With this value of the axis called `name`.
    fn at(&self, sweep: &Sweep, name: &'static str, step: &Step) -> Result<Self, Problem> {
        let mut ground = self.clone();
        ground.setting.push((name.to_owned(), step.value.clone()));
        match &step.change {
            Change::Wire(set) => network::wires_mut(&mut ground.network).try_for_each(set)?,
            Change::Flow(change) => {
                let flow = match (&sweep.flow, ground.flows.len()) {
                    (Some(flow), _) => self.flow("sweep.flow", flow)?,
                    (None, 1) => 0,
                    (None, _) => return Err(Problem::WhichFlow(name)),
                };
                ground.flows[flow].change(change)?;
            }
        }
        Ok(ground)
    }
}
