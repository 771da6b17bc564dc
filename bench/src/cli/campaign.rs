// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How is a scenario run from its first cell to its last, and gone on with after an interruption?
//!
//! A cell that was measured is on the disk before the next begins. A link that cannot do what a cell asks is a result;
//! a network, a disk or a person that stops the bench is not: the campaign ends with what it has. What needs something
//! that the kernel lacks is skipped, loudly.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arq_report::oracle::{self, Passage};
use arq_report::record::{Measurement, Outcome, Record};
use arq_report::results::{Journal, ResultSet, ResultsError};
use arq_report::scenario::{Scenario, Setting};
use arq_report::summary;
use netlab::wire::WireCount;
use netlab::{EmulatorError, Fades, Fate, Network, PacketLog};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::emulator::{network, NetworkError};
use super::progress::Display;
use super::THIS_PROGRAM;
use crate::environment::environment;
use crate::measure::{counts, measure, Job, MeasureError, Patience};

/// Where the links under test listen. The same in every run: each has a network of its own.
const PORT: u16 = 20_000;

/// A scenario, where its results go, and what decides chance.
#[derive(Debug)]
pub(super) struct Campaign {
    pub(super) scenario: Scenario,
    pub(super) directory: PathBuf,
    pub(super) seed: u64,
    /// What the user would type to make these results again.
    pub(super) command: String,
    /// What the user would type to go on with them.
    pub(super) go_on: String,
}

/// Why a campaign ended before its last cell. What was finished is kept.
#[derive(Debug, thiserror::Error)]
pub(super) enum CampaignError {
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    /// Not a link's fault, and so nobody's result.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    #[error(transparent)]
    Results(#[from] ResultsError),
    #[error("signals cannot be caught: {0}")]
    Signals(#[source] std::io::Error),
    /// The user's wish is no failure of the bench, and yet not all is there.
    #[error("{source}\n{finished} of {all} runs are finished and kept; go on with\n  {go_on}")]
    Stopped { source: Box<Self>, finished: usize, all: usize, go_on: String },
    #[error("interrupted: {finished} of {all} runs are finished and kept; go on with\n  {go_on}")]
    Interrupted { finished: usize, all: usize, go_on: String },
}

impl Campaign {
    /// Runs what is not finished yet; then all results are in the directory.
    pub(super) fn run(&self) -> Result<ResultSet, CampaignError> {
        let interrupted = Interrupt::install()?;
        let environment = environment(zenoh_version(), &self.command, self.seed);
        let opened = Journal::open(&self.directory, &environment, &self.scenario.text)?;
        let (mut journal, warning) = opened;
        let runs = self.scenario.schedule(self.seed);
        let mut display = Display::new(&self.scenario, runs.len());
        warning.iter().for_each(|warning| display.say(&format!("note: {warning}")));
        for (repeat, setting) in &runs {
            let seed = self.seed_of(*repeat, setting);
            if journal.finished().contains(&(setting.cell.clone(), *repeat, seed)) {
                display.skipped();
                continue;
            }
            let started_unix_s = unix_seconds();
            display.begins(*repeat, setting);
            // Kernels remember: fragments of lost datagrams fill their queues for 30 s, paths keep their metrics.
            // A network of its own keeps each cell from the memory of the one before.
            let network = network(&setting.network).map_err(CampaignError::from);
            let outcome =
                network.and_then(|mut network| self.outcome(&mut network, setting, seed, &display));
            // Ctrl-C ends the parts of a run as well, and its failure is none of the link's.
            if interrupted.was() && !outcome.as_ref().is_ok_and(is_sound) {
                journal.write_sheet()?;
                return Err(self.interrupted(&journal, runs.len()));
            }
            match &outcome {
                Err(CampaignError::Measure(lacking)) if lacking.is_lack() => {
                    display.lacks(lacking);
                    continue;
                }
                _ => {}
            }
            let recorded = outcome.and_then(|outcome| {
                let record = Record {
                    scenario: self.scenario.name.clone(),
                    cell: setting.cell.clone(),
                    repeat: *repeat,
                    seed,
                    started_unix_s,
                    network: setting.network.clone(),
                    outcome,
                };
                display.ended(&record);
                Ok(journal.append(&record)?)
            });
            if let Err(source) = recorded {
                // Where the disk is full, the sheet of the runs before has to do.
                let _ = journal.write_sheet();
                return Err(self.stopped(source, &journal, runs.len()));
            }
            if interrupted.was() {
                break;
            }
        }
        journal.write_sheet()?;
        if interrupted.was() {
            return Err(self.interrupted(&journal, runs.len()));
        }
        display.finish();
        Ok(ResultSet::read(&self.directory)?)
    }

    /// The same chance for every link in a repeat of a setting, another one in every other.
    fn seed_of(&self, repeat: u32, setting: &Setting) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, repeat, &self.scenario.name, &setting.cell.setting).hash(&mut hasher);
        // Short enough to be typed.
        hasher.finish() >> 32
    }

    fn outcome(
        &self,
        network: &mut Network,
        setting: &Setting,
        seed: u64,
        display: &Display,
    ) -> Result<Outcome, CampaignError> {
        let patience = Patience {
            grace: self.scenario.grace,
            longest: self.scenario.grace,
            ..Patience::default()
        };
        let job = Job {
            opponent: &setting.opponent,
            opponents: &self.scenario.rivals,
            flows: &setting.flows,
            network: &setting.network,
            seed,
            patience,
            port: PORT,
            program: Path::new(THIS_PROGRAM),
        };
        match measure(network, &job, &|progress| display.progress(progress)) {
            Ok(mut measurement) => {
                let log = match network.packet_log() {
                    // Without a log there is no genie.
                    Err(EmulatorError::NotWithNetem(_)) => PacketLog::default(),
                    log => log?,
                };
                let mut fades = network.fades(0, 1)?;
                add_fades(&mut measurement, fades.as_mut());
                add_bounds(&mut measurement, setting, &log, fades.as_ref());
                Ok(Outcome::Measured(Box::new(measurement)))
            }
            Err(error) if error.blames_link() => {
                let [forward, backward] = counts(network)?;
                Ok(blamed(&error, forward, backward))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn stopped(&self, source: CampaignError, journal: &Journal, all: usize) -> CampaignError {
        let (finished, go_on) = (journal.finished().len(), self.go_on.clone());
        CampaignError::Stopped { source: Box::new(source), finished, all, go_on }
    }

    fn interrupted(&self, journal: &Journal, all: usize) -> CampaignError {
        CampaignError::Interrupted {
            finished: journal.finished().len(),
            all,
            go_on: self.go_on.clone(),
        }
    }
}

fn is_sound(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Measured(measurement) if !summary::is_void(measurement))
}

/// A link that could not run, unless the emulator dropped packets meanwhile: then it is the run that is void.
fn blamed(error: &MeasureError, forward: WireCount, backward: WireCount) -> Outcome {
    let empty = Measurement { forward, backward, ..Measurement::default() };
    match summary::is_void(&empty) {
        true => Outcome::Measured(Box::new(empty)),
        false => Outcome::Failed(error.to_string()),
    }
}

/// The fades until the last message of any flow has come, on the clock of the messages.
fn add_fades(measurement: &mut Measurement, fades: Option<&mut Fades>) {
    let Some((fades, first_ms)) = fades.zip(measurement.first_message_ms) else { return };
    let ends_s = measurement.flows.iter().map(|result| result.flow.start_s + result.duration_s);
    let latest = Duration::from_secs_f64(ends_s.fold(0.0, f64::max) + first_ms / 1e3);
    let since_ms = |at: Duration| at.as_secs_f64() * 1e3 - first_ms;
    let spells = fades.until(latest).iter();
    measurement.fades_ms =
        spells.map(|spell| (since_ms(spell.start), since_ms(spell.end))).collect();
}

/// What the best retransmitting link could have done, beside each flow.
fn add_bounds(
    measurement: &mut Measurement,
    setting: &Setting,
    log: &PacketLog,
    fades: Option<&Fades>,
) {
    let forward = log.packets.iter().filter(|packet| packet.from == 0);
    let passages: Vec<_> = forward
        .map(|packet| Passage { entered_ns: packet.entered_ns, lost: packet.fate == Fate::Lost })
        .collect();
    // Fades of a clock that nobody knows bound nothing.
    let fades = fades.filter(|_| measurement.first_message_ms.is_some());
    let first_message_ms = measurement.first_message_ms.unwrap_or_default();
    for result in &mut measurement.flows {
        let first_departure_ns = ((first_message_ms + result.flow.start_s * 1e3) * 1e6) as u64;
        // A log that was cut off would make the network look better than it was.
        let log = if log.not_kept == 0 { passages.as_slice() } else { &[] };
        let ideal = oracle::ideal(&result.flow, &setting.network, log, fades, first_departure_ns);
        result.ideal = Some(ideal);
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn zenoh_version() -> &'static str {
    zenoh::GIT_VERSION
}

/// Ctrl-C ends the campaign after the run that it also ends; a second one, or one beside a campaign, the program at
/// once.
struct Interrupt(&'static AtomicBool);

impl Interrupt {
    fn install() -> Result<Self, CampaignError> {
        const EXIT_AS_SHELLS_DO: i32 = 130;
        // Handlers stay, and there is one program to interrupt.
        static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
        let flag = match FLAG.get() {
            Some(flag) => flag,
            None => {
                let flag = Arc::<AtomicBool>::default();
                for signal in [SIGINT, SIGTERM] {
                    flag::register_conditional_shutdown(signal, EXIT_AS_SHELLS_DO, flag.clone())
                        .and_then(|_| flag::register(signal, flag.clone()))
                        .map_err(CampaignError::Signals)?;
                }
                FLAG.get_or_init(|| flag)
            }
        };
        flag.store(false, Ordering::Relaxed);
        Ok(Self(flag))
    }

    fn was(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use netlab::FadeConfig;

    use super::*;
    use crate::delivery::{flow_result, Departures, Ledger, Thinned};

    #[test]
    fn fades_are_kept_on_the_clock_of_the_messages_until_the_last_has_come() {
        let config = FadeConfig {
            share: 0.1,
            mean: Duration::from_millis(100),
            is_regular: true,
            lost: 1.0,
            seed: 1,
        };
        let mut fades = Fades::new(config, 1);
        let first = fades.until(Duration::from_secs(2))[0].clone();
        let message = r#"{"name":"f","payload_bytes":1,"pattern":"flood","seconds":9.0}"#;
        let flow = serde_json::from_str(message).unwrap();
        let departures = Departures { offered: 0, first_ns: 0, noted: Thinned::default() };
        let flows = vec![flow_result(&flow, &departures, &Ledger::new(0))];
        let first_message_ms = Some(7.5);
        let mut run = Measurement { flows, first_message_ms, ..Measurement::default() };
        run.flows[0].duration_s = 9.0;
        add_fades(&mut run, Some(&mut fades));
        let begins_ms = first.start.as_secs_f64() * 1e3 - 7.5;
        assert!((run.fades_ms[0].0 - begins_ms).abs() < 1e-6, "{:?}", run.fades_ms);
        assert!((run.fades_ms[0].1 - begins_ms - 100.0).abs() < 1e-3, "{:?}", run.fades_ms);
        assert!((9..=10).contains(&run.fades_ms.len()), "{:?}", run.fades_ms);
        run = Measurement { first_message_ms: None, fades_ms: Vec::new(), ..run };
        add_fades(&mut run, Some(&mut fades));
        assert!(run.fades_ms.is_empty(), "their clock is not known");
    }

    #[test]
    fn a_link_is_not_blamed_for_what_the_emulator_dropped() {
        let error = MeasureError::Flow { flow: "data".to_owned(), reason: "ended".to_owned() };
        let dropped = WireCount { emulator_overrun: 1, ..WireCount::default() };
        let sound = WireCount::default();
        assert_eq!(blamed(&error, sound, sound), Outcome::Failed(error.to_string()));
        let Outcome::Measured(void) = blamed(&error, sound, dropped) else { panic!("not void") };
        assert!(summary::is_void(&void) && void.flows.is_empty());
    }
}
