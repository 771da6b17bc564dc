// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Why could a cell not be measured, and whose fault was it?

use std::fmt;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use netlab::{EmulatorError, LabError};

use crate::traffic::Load;

/// One of the two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// In host 0.
    Publisher,
    /// In host 1.
    Subscriber,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Publisher => "publisher",
            Self::Subscriber => "subscriber",
        })
    }
}

/// Why a cell could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The network could not be set or read.
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    /// A host could not be set.
    #[error(transparent)]
    Host(#[from] LabError),
    /// A kernel setting could not be read or changed.
    #[error("the kernel setting {setting} of host {host} cannot be {done}: {reason}")]
    Kernel {
        /// Its name.
        setting: String,
        /// 0 or 1.
        host: usize,
        /// "read" or "set".
        done: &'static str,
        /// What the kernel or the tool said.
        reason: String,
    },
    /// The kernel lacks what a link needs.
    #[error(
        "this kernel has no TCP congestion control `{control}` (it has {available}); \
         if it is a module, `modprobe tcp_{control}` as root adds it"
    )]
    NoCongestionControl {
        /// What the link asks for.
        control: String,
        /// What there is.
        available: String,
    },
    /// The kernel lacks what a link sets.
    #[error(
        "this kernel has no parameter `{parameter}`, which the link `{link}` sets: \
         a newer one may have it"
    )]
    NoKernelParameter {
        /// Its name.
        parameter: String,
        /// The link.
        link: String,
    },
    /// A chain of certificates needs a key of RSA.
    #[error("certificates with keys of RSA need the program `openssl` (Debian: `openssl`): {0}")]
    NoRsaKey(String),
    /// Two links of one cell need the kernel to be different.
    #[error("links `{first}` and `{second}` cannot share a cell: they want a different {setting} of the same kernel")]
    Conflict {
        /// One link.
        first: String,
        /// The other.
        second: String,
        /// What they want.
        setting: String,
    },
    /// A flow wants a link that is not in the list.
    #[error("flow `{flow}` wants the link `{link}`, which bench/links.toml does not have")]
    UnknownLink {
        /// The flow.
        flow: String,
        /// The link.
        link: String,
    },
    /// A flow that cannot be sent.
    #[error("flow `{flow}` {reason}")]
    Flow {
        /// The flow.
        flow: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// The files of a cell could not be written.
    #[error(
        "the certificates of this cell cannot be written ({0}): is the temporary directory full?"
    )]
    Files(#[source] io::Error),
    /// No certificate could be made.
    #[error("no certificate could be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A process could not be started or spoken to.
    #[error("the {0} process cannot be run: {1}")]
    Process(Who, #[source] io::Error),
    /// A process said why it could not go on.
    #[error("the {who} failed: {reason}{last_words}")]
    Failed {
        /// Which.
        who: Who,
        /// Its words.
        reason: String,
        /// The last lines that it wrote to its standard error.
        last_words: LastWords,
    },
    /// A process ended before its time.
    #[error("the {who} process ended while {doing} ({status}){last_words}")]
    Died {
        /// Which.
        who: Who,
        /// What it should have done.
        doing: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The last lines that it wrote to its standard error.
        last_words: LastWords,
    },
    /// A process did not answer.
    #[error("the {who} did not answer within {patience:?} while {doing}{last_words}")]
    Silent {
        /// Which.
        who: Who,
        /// What it should have done.
        doing: &'static str,
        /// How long was waited.
        patience: Duration,
        /// The last lines that it wrote to its standard error.
        last_words: LastWords,
    },
    /// Messages came that nobody sent.
    #[error("{messages} messages of flow `{flow}` came damaged; of the first: {first}")]
    Damaged {
        /// The flow.
        flow: String,
        /// How many.
        messages: u64,
        /// What was wrong.
        first: String,
    },
}

impl MeasureError {
    /// Whether it is a result of the link under test; everything else is a fault of the machine, of the scenario or of
    /// this program, and no link may be blamed for it.
    pub fn blames_link(&self) -> bool {
        match self {
            Self::Failed { .. }
            | Self::Died { .. }
            | Self::Silent { .. }
            | Self::Damaged { .. } => true,
            Self::Emulator(_)
            | Self::Host(_)
            | Self::Kernel { .. }
            | Self::NoCongestionControl { .. }
            | Self::NoKernelParameter { .. }
            | Self::NoRsaKey(_)
            | Self::Conflict { .. }
            | Self::UnknownLink { .. }
            | Self::Flow { .. }
            | Self::Files(_)
            | Self::Certificate(_)
            | Self::Process(..) => false,
        }
    }

    /// Whether this machine lacks what a link needs: nobody's fault, and nothing that another run would change.
    pub(crate) fn is_lack(&self) -> bool {
        matches!(
            self,
            Self::NoCongestionControl { .. } | Self::NoKernelParameter { .. } | Self::NoRsaKey(_)
        )
    }

    pub(super) fn flow(flow: &str, reason: impl Into<String>) -> Self {
        Self::Flow { flow: flow.to_owned(), reason: reason.into() }
    }

    pub(super) fn payload(flow: &str, bytes: usize) -> Self {
        let least = Load::MIN_PAYLOAD_BYTES;
        Self::flow(flow, format!("has messages of {bytes} bytes; the stamp alone needs {least}"))
    }
}

/// The end of what a process wrote to its standard error.
#[derive(Clone, Debug, Default)]
pub struct LastWords(pub(super) Vec<String>);

impl fmt::Display for LastWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_empty() {
            write!(f, "; its last words:")?;
        }
        self.0.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}
