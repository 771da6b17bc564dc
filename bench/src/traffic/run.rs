// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How are the two processes of a load started, watched and ended?

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use super::{Load, Word};
use crate::delivery::{Arrival, Delivery, Offered};
use crate::lab::{Lab, LabError};

/// Why a load could not run.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// One of the processes could not be started or spoken to.
    #[error("the {0} process cannot be run: {1}")]
    Process(&'static str, #[source] std::io::Error),
    /// One of them said why it could not go on.
    #[error("the {who} failed: {reason}")]
    Failed {
        /// Publisher or subscriber.
        who: &'static str,
        /// Its words.
        reason: String,
    },
    /// One of them ended or fell silent.
    #[error("the {0} ended or fell silent before it was done")]
    Silent(&'static str),
    /// The network could not be changed.
    #[error(transparent)]
    Lab(#[from] LabError),
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Messages handed to zenoh.
    pub sent: u64,
    /// Messages that came.
    pub received: u64,
}

/// How long a session may take to open, on the network without loss.
const OPEN_PATIENCE: Duration = Duration::from_secs(30);
/// How long the subscriber may take to tell all that came.
const REPORT_PATIENCE: Duration = Duration::from_secs(20);
const PUBLISHER: &str = "publisher";
const SUBSCRIBER: &str = "subscriber";

/// Runs `load` from host 0 to host 1, with this loss from the moment when both are connected.
pub fn run(
    lab: &Lab,
    loss: f64,
    load: &Load,
    on_progress: impl Fn(Progress),
) -> Result<Delivery, TrafficError> {
    lab.set_loss(0.0)?;
    let (words, heard) = std::sync::mpsc::channel();
    let hears = Ears { heard };
    let mut subscriber = Process::start(
        lab.host(1).command(this_program()?),
        "subscribe",
        SUBSCRIBER,
        load,
        &words,
    )?;
    hears.ready(SUBSCRIBER)?;
    let mut publisher =
        Process::start(lab.host(0).command(this_program()?), "publish", PUBLISHER, load, &words)?;
    drop(words);
    hears.ready(PUBLISHER)?;
    lab.set_loss(loss)?;
    publisher.go()?;
    let first_ns = hears.traffic(load, on_progress)?;
    subscriber.hang_up();
    let arrivals = hears.arrivals()?;
    let last_ns = first_ns + load.departure(load.messages.saturating_sub(1)).as_nanos() as u64;
    Ok(Delivery::of(Offered { messages: load.messages, first_ns, last_ns }, &arrivals))
}

fn this_program() -> Result<std::path::PathBuf, TrafficError> {
    std::env::current_exe().map_err(|e| TrafficError::Process("measuring", e))
}

/// One of the two processes; ended when dropped.
struct Process {
    who: &'static str,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Process {
    fn start(
        mut command: Command,
        subcommand: &str,
        who: &'static str,
        load: &Load,
        words: &Sender<(&'static str, Word)>,
    ) -> Result<Self, TrafficError> {
        let failed = |e| TrafficError::Process(who, e);
        let load = serde_json::to_string(load).map_err(|e| failed(e.into()))?;
        command.args([subcommand, &load]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let stdin = child.stdin.take();
        if let Some(stdout) = child.stdout.take() {
            let words = words.clone();
            std::thread::spawn(move || {
                let lines = BufReader::new(stdout).lines().map_while(Result::ok);
                let spoken = lines.filter_map(|line| serde_json::from_str(&line).ok());
                spoken.map(|word| (who, word)).try_for_each(|word| words.send(word))
            });
        }
        Ok(Self { who, child, stdin })
    }

    fn go(&mut self) -> Result<(), TrafficError> {
        let told = self.stdin.as_mut().map(|stdin| writeln!(stdin, "go"));
        told.unwrap_or(Ok(())).map_err(|e| TrafficError::Process(self.who, e))
    }

    fn hang_up(&mut self) {
        self.stdin = None;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What both processes say, in the order of arrival.
struct Ears {
    heard: Receiver<(&'static str, Word)>,
}

impl Ears {
    /// The next word before `deadline`.
    fn word(&self, deadline: Instant) -> Result<Option<(&'static str, Word)>, TrafficError> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.heard.recv_timeout(left) {
            Ok((who, Word::Failed(reason))) => Err(TrafficError::Failed { who, reason }),
            Ok(spoken) => Ok(Some(spoken)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(TrafficError::Silent("measurement")),
        }
    }

    fn ready(&self, expected: &'static str) -> Result<(), TrafficError> {
        let deadline = Instant::now() + OPEN_PATIENCE;
        while let Some((who, word)) = self.word(deadline)? {
            if who == expected && matches!(word, Word::Ready) {
                return Ok(());
            }
        }
        Err(TrafficError::Silent(expected))
    }

    /// Listens until all has come or the time is over; when the first message was meant to leave.
    fn traffic(&self, load: &Load, on_progress: impl Fn(Progress)) -> Result<u64, TrafficError> {
        let deadline = Instant::now() + load.limit();
        let mut progress = Progress::default();
        let mut started = None;
        while let Some((_, word)) = self.word(deadline)? {
            match word {
                Word::Started { at_ns } => started = Some(at_ns),
                Word::Sent(messages) => progress.sent = messages,
                Word::Received(messages) => progress.received = messages,
                Word::Ready | Word::Arrivals(_) | Word::Failed(_) => {}
            }
            on_progress(progress);
            if progress.received >= load.messages {
                break;
            }
        }
        started.ok_or(TrafficError::Silent(PUBLISHER))
    }

    fn arrivals(&self) -> Result<Vec<Arrival>, TrafficError> {
        let deadline = Instant::now() + REPORT_PATIENCE;
        loop {
            match self.word(deadline)? {
                Some((_, Word::Arrivals(arrivals))) => return Ok(arrivals),
                Some(_) => {}
                None => return Err(TrafficError::Silent(SUBSCRIBER)),
            }
        }
    }
}
