// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does the report read, from top to bottom?

use maud::{html, Markup, PreEscaped, DOCTYPE};

use super::grid::Grid;
use super::opening::Opening;
use super::plot::figure::Figure;
use super::units::{digits, Unit};
use super::{goals, published, sharing, tables, words};
use crate::record::Environment;
use crate::summary::LATENCY_NOISE_MS;

/// A scenario with its figures.
pub(crate) struct Chapter<'a> {
    /// How anchors and files call it: the scenario's name, with a number where a report has several of it.
    pub(crate) name: String,
    /// What was measured.
    pub(crate) grid: Grid<'a>,
    /// What a reader would repeat of it.
    pub(crate) opening: Opening,
    /// How it looks.
    pub(crate) figures: Vec<Figure>,
    /// On what.
    pub(crate) environment: &'a Environment,
}

impl Chapter<'_> {
    /// All that is drawn.
    pub(crate) fn pictures(&self) -> impl Iterator<Item = &Figure> {
        self.opening.picture.iter().chain(&self.figures)
    }
}

/// The whole document.
pub(crate) fn page(chapters: &[Chapter<'_>]) -> String {
    let title = match chapters {
        [one] => one.grid.info.title.clone(),
        _ => "zenoh links on networks that lose packets".to_owned(),
    };
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " – arq-bench" }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body {
                header {
                    h1 { (title) }
                    p.lead { "A report of arq-bench: zenoh's links side by side, on an emulated network that treats all alike." }
                }
                main {
                    (summary(chapters))
                    (contents(chapters))
                    (how_to_read())
                    @for (i, chapter) in chapters.iter().enumerate() { (self::chapter(chapter, chapters.len() > 1, i > 0)) }
                    (limits(chapters))
                    (machines(chapters))
                }
            }
        }
    };
    document.into_string()
}

fn contents(chapters: &[Chapter<'_>]) -> Markup {
    html! {
        nav aria-label="Contents" {
            ol {
                li { a href="#summary" { "In plain words" } }
                li { a href="#reading" { "How to read the figures" } }
                @for chapter in chapters {
                    li {
                        a href={ "#" (anchor(chapter)) } { (chapter.grid.info.title) }
                        ol { @for figure in &chapter.figures { li { a href={ "#" (figure.id) } { (figure.title) } } } }
                    }
                }
                li { a href="#limits" { "What these figures do not tell" } }
                li { a href="#machine" { "Machine and versions" } }
            }
        }
    }
}

fn anchor(chapter: &Chapter<'_>) -> String {
    format!("scenario-{}", chapter.name)
}

/// A picture, four sentences, where ours loses; of several scenarios the first one's, and a line for each.
fn summary(chapters: &[Chapter<'_>]) -> Markup {
    html! {
        section id="summary" {
            h2 { "In plain words" }
            @match chapters {
                [] => {}
                [one] => { (one.opening.markup()) (words::verdict(&one.grid)) }
                [first, ..] => {
                    h3 { (first.grid.info.title) }
                    (first.opening.markup())
                    h3 { "All scenarios" }
                    p { "Our link against the best of the others, scenario by scenario; the words of each scenario stand at its head." }
                    ul { @for chapter in chapters {
                        li { a href={ "#" (anchor(chapter)) } { (chapter.grid.info.title) } ": " (words::in_one_line(&chapter.grid)) "." }
                    } }
                }
            }
        }
    }
}

fn how_to_read() -> Markup {
    html! {
        section id="reading" {
            h2 { "How to read the figures" }
            ul {
                li { "Loss, delay and rate act below every link alike, in both directions unless the scenario says otherwise." }
                li { "Latency counts from the moment a message was " em { "meant" } " to leave, whatever the link did meanwhile." }
                li { "A message that never came is later than any that did. A rank that falls on one is " em { "lost" } ": it stands at the top of a figure, not outside it." }
                li { "Each link has one colour and one mark in every figure. Medians are marks, least and greatest of the repeats are whiskers." }
                li { "\"Ideal ARQ\" is a bound and no link: a selective repeat that learns of each loss one round trip later, whose acknowledgements are never lost and that never queues. Redundancy sent ahead can beat it; retransmission alone cannot." }
                li { "Worse and better mean: more than 5 % apart (for times also more than " (LATENCY_NOISE_MS) " ms), and by more than chance. With four repeats a side or more that is the Mann-Whitney test (p below 0.05), with fewer the ranges must not overlap. Anything less is called level, and so is what ours would win where a run of its own failed. Nothing corrects for the number of comparisons: with hundreds of them some are chance." }
            }
        }
    }
}

/// The words of a single scenario stand in the summary already, and the opening of the first.
fn chapter(chapter: &Chapter<'_>, with_words: bool, with_opening: bool) -> Markup {
    let Chapter { grid, opening, figures, environment, .. } = chapter;
    let info = grid.info;
    html! {
        section.scenario id=(anchor(chapter)) {
            h2 { (info.title) }
            @if !info.question.is_empty() { p.lead { (info.question) } }
            @if with_opening { (opening.markup()) }
            dl {
                dt { "Scenario" } dd { code { (info.name) } }
                @if !info.source.is_empty() { dt { "After" } dd { (info.source) } }
                dt { "Settings" } dd { (grid.settings.len()) }
                dt { "Each run" } dd { (info.extent.traffic.join("; ")) (scaled(info.extent.scale)) }
                dt { "Repeats" } dd { (grid.repeats()) ", " (info.extent.repeats) " planned" }
                dt { "Seed" } dd { (environment.seed) }
                dt { "Command" } dd { code { (info.command) } }
                @for note in &info.notes { dt { "Note" } dd { (note) } }
            }
            (links(grid))
            @if with_words { h3 { "What it shows" } (words::verdict(grid)) }
            @if !figures.is_empty() { h3 { "Figures" } }
            (self::figures(figures))
            (goals::table(grid))
            (sharing::tables(grid))
            h3 { "All figures" }
            (tables::results(grid))
            (published::table(grid))
            (tables::selective_acknowledgement(grid))
            (tables::failures(grid))
        }
    }
}

/// In brackets, behind what a run has.
fn scaled(scale: f64) -> String {
    match scale {
        1.0 => " (scale 1: all that the scenario has)".to_owned(),
        scale => format!(" (scale {scale}: so many times what the scenario has)"),
    }
}

/// Small figures stand side by side.
fn figures(figures: &[Figure]) -> Markup {
    let rows = figures.chunk_by(|a, b| a.is_small() && b.is_small());
    html! {
        @for row in rows {
            @if row.len() > 1 { div.beside { @for figure in row { (figure.on_page()) } } }
            @else { @for figure in row { (figure.on_page()) } }
        }
    }
}

fn links(grid: &Grid<'_>) -> Markup {
    let about: Vec<_> = grid
        .info
        .links
        .iter()
        .filter(|link| grid.links.iter().any(|ran| ran.name == link.name))
        .collect();
    html! {
        @if !about.is_empty() {
            h3 { "Links" }
            dl { @for link in about { dt { (link.name) } dd { (link.about) } } }
        }
    }
}

fn limits(chapters: &[Chapter<'_>]) -> Markup {
    let grids: Vec<&Grid<'_>> = chapters.iter().map(|chapter| &chapter.grid).collect();
    let slow = chapters.iter().any(|chapter| !chapter.environment.optimised);
    html! {
        section id="limits" {
            h2 { "What these figures do not tell" }
            ul {
                @for note in words::said_aloud(&grids) { li { (note) } }
                @for note in words::not_measured(&grids, slow) { li { (note) } }
            }
        }
    }
}

fn machines(chapters: &[Chapter<'_>]) -> Markup {
    let mut different: Vec<(&Environment, Vec<&str>)> = Vec::new();
    for chapter in chapters {
        let name = chapter.grid.info.name.as_str();
        match different.iter_mut().find(|(known, _)| *known == chapter.environment) {
            Some((_, names)) => names.push(name),
            None => different.push((chapter.environment, vec![name])),
        }
    }
    html! {
        section id="machine" {
            h2 { "Machine and versions" }
            @for (environment, names) in &different {
                @if different.len() > 1 { h3 { (names.join(", ")) } }
                (machine(environment))
            }
        }
    }
}

fn machine(environment: &Environment) -> Markup {
    let or_unknown =
        |text: &str| if text.is_empty() { "not recorded".to_owned() } else { text.to_owned() };
    let buffers = environment.socket_buffers.map(|bytes| bytes.to_string()).unwrap_or_default();
    let built = if environment.optimised { "with optimisation" } else { "without optimisation" };
    html! {
        dl {
            dt { "arq-bench" } dd { (or_unknown(&environment.version)) ", built " (built) }
            dt { "zenoh" } dd { (or_unknown(&environment.zenoh)) }
            dt { "Command" } dd { code { (or_unknown(&environment.command)) } }
            dt { "Kernel" } dd { (or_unknown(&environment.kernel)) }
            dt { "Processor" } dd { (or_unknown(&environment.processor)) }
            dt { "Memory" } dd { (Unit::Bytes.write(environment.memory_bytes as f64)) }
            dt { "Largest socket buffers" } dd { (or_unknown(&buffers)) }
            dt { "Load when it began" } dd { (digits(environment.load)) }
            dt { "Rights" } dd { (or_unknown(&environment.privilege)) }
            dt { "Seed" } dd { (environment.seed) }
        }
    }
}
