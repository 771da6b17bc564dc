// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What is measured: a scenario is a file that says which links carry which traffic over which network.
//!
//! [`find`] reads one, shipped or the user's own, and refuses what makes no sense before anything is measured.
//! [`Scenario::schedule`] gives the runs in the order in which they are to be made: every link in a setting, then
//! the next setting, and all of it again for each repeat, so that what changes on the machine meanwhile meets all
//! links alike. `docs/benchmarking.md` tells how to write one.

mod bounds;
mod check;
mod error;
mod estimate;
mod expand;
mod file;
pub mod flow;
pub mod keys;
mod library;
mod network;
mod published;
mod scale;
mod sweep;
#[cfg(test)]
mod tests;

use std::time::Duration;

use netlab::wire::Conditions;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::opponent::Opponent;
use crate::record::Cell;
use expand::Ground;
use file::ScenarioFile;
use flow::Flow;

pub use error::{quoted, Problem, ScenarioError};
pub use file::Goal;
pub use library::{all, find, read};
pub use published::{Figure, Published};

/// What is to be measured; everything in it has been checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// By which it is found; of a user's own file, the name without extension.
    pub name: String,
    /// The heading of the report.
    pub title: String,
    /// What it answers, in one sentence.
    pub question: String,
    /// Where the experiment or its numbers come from; may be empty.
    pub source: String,
    /// What a report must say beside the figures.
    pub notes: Vec<String>,
    /// Who is compared.
    pub links: Vec<Opponent>,
    /// The links that flows bring with them, whatever link is under test.
    pub rivals: Vec<Opponent>,
    /// How often each cell is measured.
    pub repeats: u32,
    /// How long after its last intended departure a message may still come; without a timetable, how long the whole
    /// may take.
    pub grace: Duration,
    /// Lines that the report draws.
    pub goals: Vec<Goal>,
    /// Figures of the source.
    pub published: Vec<Published>,
    /// The file, to be kept beside the results. Reading it gives this scenario again.
    pub text: String,
    grounds: Vec<Ground>,
    file: ScenarioFile,
}

/// One cell and all that its measurement needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The link and the values of the axes.
    pub cell: Cell,
    /// The network beneath.
    pub network: Conditions,
    /// The traffic.
    pub flows: Vec<Flow>,
    /// The link.
    pub opponent: Opponent,
}

impl Scenario {
    /// Reads the text of a file; errors call it `origin`.
    fn parse(name: &str, origin: &str, text: &str) -> Result<Self, ScenarioError> {
        let syntax =
            |reason| ScenarioError::Syntax { file: origin.to_owned(), reason: Box::new(reason) };
        let invalid = |problem| ScenarioError::Invalid { file: origin.to_owned(), problem };
        let file: ScenarioFile = toml::from_str(text).map_err(syntax)?;
        bounds::check(&toml::from_str(text).map_err(syntax)?).map_err(invalid)?;
        Self::of(name, file, text.to_owned()).map_err(invalid)
    }

    fn of(name: &str, file: ScenarioFile, text: String) -> Result<Self, Problem> {
        file.check()?;
        let grounds = expand::grounds(&file)?;
        let scenario = Self {
            name: name.to_owned(),
            title: file.title.clone(),
            question: file.question.clone(),
            source: file.source.clone(),
            notes: file.notes.clone(),
            links: file.opponents()?,
            rivals: file.rivals()?,
            repeats: file.repeats,
            grace: Duration::from_secs_f64(file.grace_s),
            goals: file.goals.clone(),
            published: file.published.iter().map(Published::from).collect(),
            text,
            grounds,
            file,
        };
        scenario.check_published()?;
        Ok(scenario)
    }

    /// The links that it brings along, beside those of `bench/links.toml`.
    pub fn own_links(&self) -> &[Opponent] {
        &self.file.own_links
    }

    /// All cells: every link in a setting, then the next setting.
    pub fn cells(&self) -> Vec<Setting> {
        self.grounds.iter().flat_map(|ground| self.over_links(ground)).collect()
    }

    fn over_links<'a>(&'a self, ground: &'a Ground) -> impl Iterator<Item = Setting> + 'a {
        self.links.iter().map(|opponent| Setting {
            cell: Cell { link: opponent.name.clone(), setting: ground.setting.clone() },
            network: ground.network.clone(),
            flows: ground.flows.clone(),
            opponent: opponent.clone(),
        })
    }

    /// The runs in their order, each with the number of its repeat from 0. Within a repeat and a setting the links
    /// stand in an order that `seed` decides, so that none always comes after the same other.
    pub fn schedule(&self, seed: u64) -> Vec<(u32, Setting)> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut runs = Vec::new();
        for repeat in 0..self.repeats {
            for ground in &self.grounds {
                let mut settings: Vec<_> = self.over_links(ground).collect();
                settings.sort_by_cached_key(|_| random.next_u64());
                runs.extend(settings.into_iter().map(|setting| (repeat, setting)));
            }
        }
        runs
    }

    /// The same with `messages_factor` times the messages (at least one), or the time where that is what counts, and
    /// other repeats.
    ///
    /// # Errors
    /// When that exceeds the bounds of a file, and when the traffic would be over before an event or a flow begins: those
    /// keep their times.
    pub fn scaled(
        &self,
        messages_factor: f64,
        repeats: Option<u32>,
    ) -> Result<Self, ScenarioError> {
        scale::check(&self.grounds, messages_factor)
            .map_err(|problem| ScenarioError::Invalid { file: self.name.clone(), problem })?;
        let mut file = self.file.clone();
        file.repeats = repeats.unwrap_or(file.repeats);
        let scale = |count: &mut u64| *count = flow::scaled(*count, messages_factor);
        for flow in &mut file.flows {
            flow.pattern = flow.pattern.scaled(messages_factor);
        }
        for case in &mut file.cases {
            case.flow.messages.iter_mut().for_each(scale);
            case.flow.seconds.iter_mut().for_each(|seconds| *seconds *= messages_factor);
        }
        file.sweep.messages.iter_mut().for_each(scale);
        self.rewritten(&file)
    }

    /// The same between these links.
    ///
    /// # Errors
    /// When one of them does not exist.
    pub fn with_links(&self, names: &[String]) -> Result<Self, ScenarioError> {
        self.rewritten(&ScenarioFile { links: names.to_vec(), ..self.file.clone() })
    }

    fn rewritten(&self, file: &ScenarioFile) -> Result<Self, ScenarioError> {
        let text = toml::to_string(file).map_err(|error| ScenarioError::Invalid {
            file: self.name.clone(),
            problem: error.into(),
        })?;
        Self::parse(&self.name, &self.name, &text)
    }
}
