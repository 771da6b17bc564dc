// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How is one of the two processes started, told what to do, and heard?

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::measure::MeasureError;

use super::words::{Order, Role, Word};

/// Why it could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum ManyLinksError {
    /// There are no certificates for a secured link.
    #[error(transparent)]
    Certificates(#[from] MeasureError),
    /// A process could not be started or spoken to.
    #[error("the process that is to {role} cannot be run: {source}")]
    Process {
        /// What it is there for.
        role: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A process said why it could not go on.
    #[error("the process that is to {role} failed: {reason}")]
    Failed {
        /// What it is there for.
        role: &'static str,
        /// Its words.
        reason: String,
    },
    /// A process ended or did not answer.
    #[error("the process that is to {role} {what} when it was told to {order}")]
    Silent {
        /// What it is there for.
        role: &'static str,
        /// Whether it ended or hung.
        what: &'static str,
        /// What it was told.
        order: String,
    },
}

impl ManyLinksError {
    /// Whether the links may be at fault: a result, not to be measured again until it is a better one.
    pub(super) fn blames_link(&self) -> bool {
        !matches!(self, Self::Process { .. } | Self::Certificates(_))
    }
}

/// A process; ended when dropped.
pub(super) struct Process {
    role: Role,
    child: Child,
    stdin: Option<ChildStdin>,
    words: Receiver<String>,
}

impl Process {
    pub(super) fn start(role: Role, program: &Path) -> Result<Self, ManyLinksError> {
        let failed = |source| ManyLinksError::Process { role: role.name(), source };
        let mut command = Command::new(program);
        command.args(["many-links-side", role.name()]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (sender, words) = channel();
        // Ends with the process, whose pipe it reads.
        std::thread::spawn(move || {
            let lines = stdout.into_iter().flat_map(|out| BufReader::new(out).lines());
            lines.map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Ok(Self { role, child, stdin, words })
    }

    /// Gives an order without waiting for the answer.
    pub(super) fn tell(&mut self, order: &Order) -> Result<(), ManyLinksError> {
        let line = serde_json::to_string(order).unwrap_or_default();
        let told = self.stdin.as_mut().map(|stdin| writeln!(stdin, "{line}"));
        // One that has died is noticed by its silence, which blames the link.
        match told {
            Some(Err(source)) if source.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(ManyLinksError::Process { role: self.role.name(), source })
            }
            _ => Ok(()),
        }
    }

    /// Waits for the answer to an order.
    pub(super) fn answer(&self, order: &Order, patience: Duration) -> Result<Word, ManyLinksError> {
        let role = self.role.name();
        let silent = |what| ManyLinksError::Silent { role, what, order: format!("{order:?}") };
        loop {
            let line = self.words.recv_timeout(patience).map_err(|error| match error {
                RecvTimeoutError::Timeout => silent("did not answer"),
                RecvTimeoutError::Disconnected => silent("ended"),
            })?;
            match serde_json::from_str(&line) {
                Ok(Word::Failed(reason)) => return Err(ManyLinksError::Failed { role, reason }),
                Ok(word) => return Ok(word),
                // Something that logs to standard output.
                Err(_) => eprintln!("{role}: {line}"),
            }
        }
    }

    /// Gives an order and waits for its answer.
    pub(super) fn ask(
        &mut self,
        order: &Order,
        patience: Duration,
    ) -> Result<Word, ManyLinksError> {
        self.tell(order)?;
        self.answer(order, patience)
    }

    /// The error for an answer to something else.
    pub(super) fn confused(&self, order: &Order, word: &Word) -> ManyLinksError {
        let reason = format!("it answered {word:?} to {order:?}");
        ManyLinksError::Failed { role: self.role.name(), reason }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
