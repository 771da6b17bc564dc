// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How is one of the two processes started, spoken to, and ended?

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::error::LastWords;
use super::{MeasureError, Who};
use crate::traffic::{Load, Order, Word};

/// Lines of standard error that are worth quoting.
const LAST_WORDS: usize = 12;

/// What comes from a process.
#[derive(Debug)]
pub(super) enum Event {
    Said(Who, Box<Word>),
    Ended(Who),
}

/// A process; ended when dropped.
pub(super) struct Process {
    who: Who,
    child: Child,
    stdin: Option<ChildStdin>,
    tail: Arc<Mutex<VecDeque<String>>>,
    readers: Vec<JoinHandle<()>>,
}

impl Process {
    /// Starts `command` in the role of `who`; what it says goes to `events`.
    pub(super) fn start(
        who: Who,
        mut command: Command,
        load: &Load,
        events: &Sender<Event>,
    ) -> Result<Self, MeasureError> {
        let failed = |e| MeasureError::Process(who, e);
        let role = match who {
            Who::Publisher => "publish",
            Who::Subscriber => "subscribe",
        };
        let load = serde_json::to_string(load).map_err(|e| failed(e.into()))?;
        command.args([role, &load]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let tail = Arc::default();
        let mut process = Self { who, child, stdin, tail, readers: Vec::new() };
        let (events, tail) = (events.clone(), Arc::clone(&process.tail));
        process.read_in_background(stdout, move |line| match line {
            Some(line) => match serde_json::from_str(&line) {
                Ok(word) => drop(events.send(Event::Said(who, Box::new(word)))),
                // Something that logs to standard output.
                Err(_) => remember(&tail, line),
            },
            None => drop(events.send(Event::Ended(who))),
        });
        let tail = Arc::clone(&process.tail);
        process.read_in_background(stderr, move |line| {
            line.into_iter().for_each(|line| remember(&tail, line));
        });
        Ok(process)
    }

    /// Gives each line to `take` in a thread of its own, and `None` at the end.
    fn read_in_background(
        &mut self,
        from: Option<impl Read + Send + 'static>,
        take: impl Fn(Option<String>) + Send + 'static,
    ) {
        self.readers.extend(from.map(|from| {
            std::thread::spawn(move || {
                BufReader::new(from)
                    .lines()
                    .map_while(Result::ok)
                    .for_each(|line| take(Some(line)));
                take(None);
            })
        }));
    }

    /// Tells it what to do.
    pub(super) fn tell(&mut self, order: Order) -> Result<(), MeasureError> {
        let line = serde_json::to_string(&order).unwrap_or_default();
        let told = self.stdin.as_mut().map(|stdin| writeln!(stdin, "{line}"));
        // One that has died is noticed by its silence, which has more to say than a broken pipe.
        match told {
            Some(Err(e)) if e.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(MeasureError::Process(self.who, e))
            }
            _ => Ok(()),
        }
    }

    /// Ends it, if it has not ended itself; how it ended, and its last words.
    pub(super) fn end(&mut self) -> Result<(ExitStatus, LastWords), MeasureError> {
        let _ = self.child.kill();
        let status = self.child.wait().map_err(|e| MeasureError::Process(self.who, e))?;
        // Its pipes are closed now, so the readers come to their end.
        self.readers.drain(..).for_each(|reader| drop(reader.join()));
        let tail = self.tail.lock();
        Ok((status, LastWords(tail.iter().cloned().collect())))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn remember(tail: &Mutex<VecDeque<String>>, line: String) {
    let mut tail = tail.lock();
    if tail.len() == LAST_WORDS {
        tail.pop_front();
    }
    tail.push_back(line);
}
