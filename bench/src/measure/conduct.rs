// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How are both processes led through a measurement?

use std::process::Command;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use arq_report::scenario::flow::Pattern;

use super::process::{Event, Process};
use super::{MeasureError, Phase, Progress, Who};
use crate::traffic::{limit, nanos, now_ns, Heard, Load, Order, PlannedFlow, Spoken, Word};

/// From the order to go to the first message: enough for both processes to read it.
const LEAD: Duration = Duration::from_millis(5);
/// How often is looked whether all has come.
const TICK: Duration = Duration::from_millis(100);
/// How long a process may take to begin its count, and to tell what it noted.
const ANSWER: Duration = Duration::from_secs(30);
const TELLING: &str = "telling what it noted";

/// What starts the two processes.
pub(super) struct Commands {
    pub(super) subscriber: Command,
    pub(super) publisher: Command,
}

/// Runs a load; `begin` gives the network its faults when both sides are ready.
pub(super) fn conduct(
    commands: Commands,
    load: &Load,
    begin: &mut dyn FnMut() -> Result<(), MeasureError>,
    on_progress: &dyn Fn(Progress),
) -> Result<(Spoken, Heard), MeasureError> {
    let mut cast = Cast::start(commands, load, on_progress)?;
    cast.meter()?;
    begin()?;
    cast.run(load)?;
    cast.collect()
}

/// Both processes, and what is known of them.
struct Cast<'a> {
    subscriber: Process,
    /// Starts when the subscriber listens.
    publisher: Option<Process>,
    events: Receiver<Event>,
    on_progress: &'a dyn Fn(Progress),
    progress: Progress,
    /// What the publisher has handed over in all, once it has, and since when.
    done: Option<(u64, Instant)>,
    /// Who has told all and may end.
    finished: Vec<Who>,
}

impl<'a> Cast<'a> {
    /// Returns when the subscriber listens and the publisher has found it.
    fn start(
        commands: Commands,
        load: &Load,
        on_progress: &'a dyn Fn(Progress),
    ) -> Result<Self, MeasureError> {
        let (sender, events) = channel();
        let progress =
            Progress { at_most: at_most(load), offered: offered(load), ..Progress::default() };
        on_progress(progress);
        let subscriber = Process::start(Who::Subscriber, commands.subscriber, load, &sender)?;
        let (publisher, done, finished) = (None, None, Vec::new());
        let mut cast =
            Self { subscriber, publisher, events, on_progress, progress, done, finished };
        let is_ready = |word: &Word| matches!(word, Word::Ready);
        cast.wait_for(Who::Subscriber, "opening its listeners", load.open + ANSWER, is_ready)?;
        let publisher = Process::start(Who::Publisher, commands.publisher, load, &sender)?;
        cast.publisher = Some(publisher);
        let sessions = u32::try_from(load.flows.len()).unwrap_or(u32::MAX);
        let patience = load.open.saturating_mul(sessions) + ANSWER;
        cast.wait_for(Who::Publisher, "opening its sessions", patience, is_ready)?;
        Ok(cast)
    }

    /// Both begin to count what they use.
    fn meter(&mut self) -> Result<(), MeasureError> {
        for who in [Who::Subscriber, Who::Publisher] {
            self.tell(who, Order::Meter)?;
            self.wait_for(who, "beginning to count", ANSWER, |word| {
                matches!(word, Word::Metering)
            })?;
        }
        Ok(())
    }

    /// Sends the load: until all has come, or cannot come any more, or the time is over.
    fn run(&mut self, load: &Load) -> Result<(), MeasureError> {
        let started = Instant::now() + LEAD;
        let go = Order::Go(now_ns() + nanos(LEAD));
        self.tell(Who::Subscriber, go)?;
        self.tell(Who::Publisher, go)?;
        self.progress.phase = Phase::Running;
        let grace_only = load.links.iter().all(|link| !link.repairs());
        while !self.has_all() && started.elapsed() < self.progress.at_most {
            let nothing_more = |(_, since): (u64, Instant)| since.elapsed() > load.grace;
            if grace_only && self.done.is_some_and(nothing_more) {
                break;
            }
            self.hear("sending and receiving", TICK)?;
            self.progress.elapsed = started.elapsed();
            (self.on_progress)(self.progress);
        }
        Ok(())
    }

    fn has_all(&self) -> bool {
        self.done.is_some_and(|(offered, _)| self.progress.received >= offered)
    }

    /// What both have noted.
    fn collect(&mut self) -> Result<(Spoken, Heard), MeasureError> {
        self.progress.phase = Phase::Collecting;
        (self.on_progress)(self.progress);
        self.tell(Who::Subscriber, Order::Stop)?;
        self.tell(Who::Publisher, Order::Stop)?;
        let (mut spoken, mut heard) = (None, None);
        let deadline = Instant::now() + ANSWER;
        while Instant::now() < deadline {
            match self.word(TELLING, TICK)? {
                Some((_, Word::Spoken(told))) => spoken = Some(*told),
                Some((_, Word::Heard(told))) => heard = Some(*told),
                _ => {}
            }
            (spoken, heard) = match (spoken, heard) {
                (Some(spoken), Some(heard)) => return Ok((spoken, heard)),
                missing => missing,
            };
        }
        let who = if heard.is_some() { Who::Publisher } else { Who::Subscriber };
        Err(self.silent(who, TELLING, ANSWER))
    }

    /// Waits until `who` says what `is_it` wants to hear.
    fn wait_for(
        &mut self,
        who: Who,
        doing: &'static str,
        patience: Duration,
        is_it: impl Fn(&Word) -> bool,
    ) -> Result<(), MeasureError> {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            match self.word(doing, TICK)? {
                Some((speaker, word)) if speaker == who && is_it(&word) => return Ok(()),
                _ => (self.on_progress)(self.progress),
            }
        }
        Err(self.silent(who, doing, patience))
    }

    /// Listens for a moment and notes how far both are.
    fn hear(&mut self, doing: &'static str, moment: Duration) -> Result<(), MeasureError> {
        match self.word(doing, moment)? {
            Some((_, Word::Sent(messages))) => self.progress.sent = messages,
            Some((_, Word::Received(messages))) => self.progress.received = messages,
            Some((_, Word::Done(offered))) => {
                let offered = offered.iter().sum();
                self.progress.sent = offered;
                self.done = Some((offered, Instant::now()));
            }
            _ => {}
        }
        Ok(())
    }

    /// The next word within a moment; an error when whoever should be `doing` this has failed or ended.
    fn word(
        &mut self,
        doing: &'static str,
        moment: Duration,
    ) -> Result<Option<(Who, Word)>, MeasureError> {
        match self.events.recv_timeout(moment) {
            Ok(Event::Said(who, word)) => match *word {
                Word::Failed(reason) => {
                    let (_, last_words) = self.process(who)?.end()?;
                    Err(MeasureError::Failed { who, reason, last_words })
                }
                word => {
                    if matches!(word, Word::Spoken(_) | Word::Heard(_)) {
                        self.finished.push(who);
                    }
                    Ok(Some((who, word)))
                }
            },
            Ok(Event::Ended(who)) if self.finished.contains(&who) => Ok(None),
            Ok(Event::Ended(who)) => {
                let (status, last_words) = self.process(who)?.end()?;
                Err(MeasureError::Died { who, doing, status, last_words })
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(None),
        }
    }

    fn silent(&mut self, who: Who, doing: &'static str, patience: Duration) -> MeasureError {
        let ended = self.process(who).and_then(Process::end);
        let last_words = ended.map(|(_, last_words)| last_words).unwrap_or_default();
        MeasureError::Silent { who, doing, patience, last_words }
    }

    fn tell(&mut self, who: Who, order: Order) -> Result<(), MeasureError> {
        self.process(who)?.tell(order)
    }

    fn process(&mut self, who: Who) -> Result<&mut Process, MeasureError> {
        let not_started = || MeasureError::Process(who, std::io::ErrorKind::NotFound.into());
        match who {
            Who::Subscriber => Ok(&mut self.subscriber),
            Who::Publisher => self.publisher.as_mut().ok_or_else(not_started),
        }
    }
}

/// How long a load can take, from its first message.
fn at_most(load: &Load) -> Duration {
    let flows = load.flows.iter().map(|planned| &planned.flow);
    let ends = flows.map(|flow| Duration::from_secs_f64(flow.start_s) + limit(load, flow));
    ends.max().unwrap_or_default()
}

/// How many messages a load has, where that is known beforehand.
fn offered(load: &Load) -> Option<u64> {
    let messages = |planned: &PlannedFlow| match planned.flow.pattern {
        Pattern::Periodic { messages, .. }
        | Pattern::Transfer { messages }
        | Pattern::PingPong { messages }
        | Pattern::Opening { messages } => Some(messages),
        Pattern::Flood { .. } => None,
    };
    load.flows.iter().map(messages).sum()
}
