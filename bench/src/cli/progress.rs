// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What is running, how did the last cell end, and how much is left?

use std::collections::BTreeSet;
use std::time::Duration;

use arq_report::record::{Cell, Measurement, Outcome, Record};
use arq_report::scenario::{Scenario, Setting};
use arq_report::summary::least_messages;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::measure::{MeasureError, Phase, Progress};

/// Two bars: all runs, and the one that is running. Without a terminal, a line for each run that has ended.
pub(super) struct Display {
    bars: MultiProgress,
    all: ProgressBar,
    current: ProgressBar,
    repeats: u32,
    /// What was said to be skipped.
    lacking: BTreeSet<String>,
}

impl Display {
    pub(super) fn new(scenario: &Scenario, runs: usize) -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let all = bars.add(ProgressBar::new(runs as u64));
        all.set_style(style("{prefix} {bar:40} {pos} of {len} runs, {elapsed} gone, {eta} left"));
        all.set_prefix(scenario.name.clone());
        all.enable_steady_tick(Duration::from_secs(1));
        let current = bars.add(ProgressBar::new(1));
        current.set_style(style("  {prefix}: {bar:20} {msg}"));
        Self { bars, all, current, repeats: scenario.repeats, lacking: BTreeSet::new() }
    }

    /// A line that stays.
    pub(super) fn say(&self, line: &str) {
        if self.bars.println(line).is_err() || self.bars.is_hidden() {
            eprintln!("{line}");
        }
    }

    pub(super) fn skipped(&self) {
        self.all.inc(1);
    }

    /// A run that the machine cannot do; the reason is told once.
    pub(super) fn lacks(&mut self, what: &MeasureError) {
        self.skipped();
        if self.lacking.insert(what.to_string()) {
            self.say(&format!("*** SKIPPED what needs it: {what}"));
        }
    }

    pub(super) fn begins(&self, repeat: u32, setting: &Setting) {
        let of = format!("{} (repeat {} of {})", name(&setting.cell), repeat + 1, self.repeats);
        self.current.reset();
        self.current.set_prefix(of);
    }

    pub(super) fn progress(&self, progress: Progress) {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        match progress.offered {
            Some(offered) => {
                self.current.set_length(offered);
                self.current.set_position(progress.received.min(offered));
            }
            None => {
                self.current.set_length(ms(progress.at_most));
                self.current.set_position(ms(progress.elapsed));
            }
        }
        self.current.set_message(match progress.phase {
            Phase::Opening => "opening".to_owned(),
            Phase::Running => format!("{} sent, {} arrived", progress.sent, progress.received),
            Phase::Collecting => "collecting".to_owned(),
        });
    }

    pub(super) fn ended(&self, record: &Record) {
        self.all.inc(1);
        let cell = name(&record.cell);
        match &record.outcome {
            // With a terminal the table at the end tells; without one this line is the progress.
            Outcome::Measured(measurement) if self.bars.is_hidden() => {
                let (position, length) = (self.all.position(), self.all.length().unwrap_or(0));
                eprintln!("{position}/{length} {cell}: {}", in_short(measurement));
            }
            Outcome::Measured(_) => {}
            Outcome::Failed(reason) => self.say(&format!("{cell} could not run: {reason}")),
        }
    }

    pub(super) fn finish(&self) {
        self.current.finish_and_clear();
        self.all.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// The link and where it is: `arq, drop_percent 10`.
fn name(cell: &Cell) -> String {
    let axes = cell.setting.iter().map(|(axis, value)| format!(", {axis} {value}"));
    format!("{}{}", cell.link, axes.collect::<String>())
}

fn in_short(measurement: &Measurement) -> String {
    let flows = measurement.flows.iter().map(|result| {
        let ms = |value: Option<f64>| {
            value.map_or_else(|| "lost".to_owned(), |ms| format!("{ms:.1} ms"))
        };
        let (name, delivered, offered) = (&result.flow.name, result.delivered, result.offered);
        // Of few messages the greatest latency would stand there under another name.
        let p99 = if offered < least_messages(99.0) {
            String::new()
        } else {
            format!(", p99 {}", ms(result.percentiles.p99))
        };
        format!("{name} {delivered} of {offered}, p50 {}{p99}", ms(result.percentiles.p50))
    });
    flows.collect::<Vec<_>>().join("; ")
}
