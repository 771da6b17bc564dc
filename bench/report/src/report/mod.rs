// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do results become a report that a stranger can read and check?
//!
//! [`write()`] makes one HTML file that needs nothing else (no network, no script, no font) and, beside it, each figure
//! as SVG. What a report holds is decided by the records alone: `grid` sorts them, `figures` picks what can be
//! drawn of them. It begins with a picture and four sentences (`opening`); `words` says what the figures mean, first where
//! we lose.
//!
//! SVG is written by hand, through maud, because a report wants marks that tell a number when pointed at, dashes,
//! fractions of a pixel and a strip for what was lost.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::opponent::Opponent;
use crate::record::{Environment, Record};
use crate::results::files::replace;
use crate::scenario::{Goal, Published, Scenario};

mod axis;
mod extent;
mod figures;
mod goals;
mod grid;
mod metric;
mod opening;
mod page;
mod plot;
mod published;
pub mod qlog;
mod sharing;
mod style;
mod tables;
mod units;
mod verdict;
mod words;

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;

pub use extent::Extent;
use grid::Grid;
use opening::Opening;
use page::Chapter;

/// One set of results.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// What was asked.
    pub scenario: &'a ScenarioInfo,
    /// What it was measured on.
    pub environment: &'a Environment,
    /// What was measured, in any order.
    pub records: &'a [Record],
}

/// What a report tells about a scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScenarioInfo {
    /// As the command line calls it.
    pub name: String,
    /// As a heading.
    pub title: String,
    /// What it is to answer.
    pub question: String,
    /// Where it was taken from; empty when it is our own.
    pub source: String,
    /// What others measured.
    pub published: Vec<Published>,
    /// What makes these results again.
    pub command: String,
    /// How much of it was to be measured.
    pub extent: Extent,
    /// The links in the order of the scenario; those that did not run are left out.
    pub links: Vec<LinkInfo>,
    /// What must be said beside the figures.
    pub notes: Vec<String>,
    /// What an application needs.
    pub goals: Vec<Goal>,
}

impl ScenarioInfo {
    /// From the scenario and the command that ran it.
    pub fn of(scenario: &Scenario, command: String) -> Self {
        let link = |link: &Opponent| LinkInfo {
            name: link.name.clone(),
            about: link.about.clone(),
            ours: link.ours,
        };
        Self {
            name: scenario.name.clone(),
            title: scenario.title.clone(),
            question: scenario.question.clone(),
            source: scenario.source.clone(),
            published: scenario.published.clone(),
            extent: Extent::of(scenario, &command),
            command,
            links: scenario.links.iter().map(link).collect(),
            notes: scenario.notes.clone(),
            goals: scenario.goals.clone(),
        }
    }
}

/// A link of the scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkInfo {
    /// As records call it.
    pub name: String,
    /// In a few words, with its settings.
    pub about: String,
    /// Whether it speaks our protocol.
    pub ours: bool,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Nothing to report on.
    #[error("there are no results yet: run a scenario first, for example `arq-bench quick`")]
    Empty,
    /// The disk refused.
    #[error("cannot write {path}: {source}")]
    Write {
        /// What could not be written.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Writes `index.html` and, under `figures/`, each figure as SVG into this directory, which is made if it does not
/// exist; returns the path of `index.html`. Input without a record is left out.
pub fn write(directory: &Path, inputs: &[Input<'_>]) -> Result<PathBuf, ReportError> {
    let mut chapters: Vec<Chapter<'_>> = Vec::new();
    for input in inputs.iter().filter(|input| !input.records.is_empty()) {
        let name = free_name(&file_name(&input.scenario.name), &chapters);
        chapters.push(chapter(input, name));
    }
    if chapters.is_empty() {
        return Err(ReportError::Empty);
    }
    let figures = directory.join("figures");
    fs::create_dir_all(&figures)
        .map_err(|source| ReportError::Write { path: figures.clone(), source })?;
    for figure in chapters.iter().flat_map(Chapter::pictures) {
        save(&figures.join(&figure.id).with_extension("svg"), figure.alone().as_bytes())?;
    }
    let index = directory.join("index.html");
    save(&index, page::page(&chapters).as_bytes())?;
    Ok(index)
}

fn chapter<'a>(input: &Input<'a>, name: String) -> Chapter<'a> {
    let grid = Grid::of(input);
    let figures = figures::figures(&grid, &name, input.environment.seed);
    let mut opening = Opening::of(&grid);
    let seed = input.environment.seed;
    opening.picture.iter_mut().for_each(|figure| figures::sign(figure, &grid, &name, seed));
    Chapter { name, grid, opening, figures, environment: input.environment }
}

/// The name of a chapter, numbered where one before has it.
fn free_name(name: &str, before: &[Chapter<'_>]) -> String {
    let numbered = (2..).map(|number: u32| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    let is_free = |name: &String| before.iter().all(|chapter| chapter.name != *name);
    names.find(is_free).unwrap_or_default()
}

/// A report that was there stays until the new one is complete.
fn save(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    replace(path, bytes).map_err(|source| ReportError::Write { path: path.to_owned(), source })
}

/// A name that is safe as a file name and as an anchor: letters, digits and hyphens.
fn file_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    name.chars().map(safe).collect()
}
