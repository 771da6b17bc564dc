// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Why can a network not be emulated?

use std::io;

use impairments::recording::RecordingError;

use crate::lab::LabError;

/// Why an emulated network could not be built or changed.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// The hosts could not be made.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A packet socket could not be made or used.
    #[error("the emulator cannot {doing}: {source}")]
    Socket {
        /// What it was about to do.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A host that does not exist.
    #[error("there is no wire from host {from} to host {to} in a network of {hosts} hosts")]
    NoSuchWire {
        /// The sending host.
        from: usize,
        /// The receiving host.
        to: usize,
        /// How many there are.
        hosts: usize,
    },
    /// Conditions for a radio that the first host does not have.
    #[error("the first host has no second radio: `Network::with_second_radios` gives it one")]
    NoSecondRadio,
    /// A recorded radio cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// A figure that no network can have.
    #[error("`{what}` of {value} is impossible: {range}")]
    Impossible {
        /// The name of the figure in a scenario.
        what: &'static str,
        /// What was asked for.
        value: f64,
        /// What is possible.
        range: &'static str,
    },
    /// Something that netem cannot do.
    #[error("the kernel's netem has no {0}; the emulator of this program has")]
    NotWithNetem(&'static str),
    /// The kernel's netem cannot be used.
    #[error(
        "the kernel's netem does not work here: {0}.\n\
         Is its module there (`modprobe sch_netem`, as root, outside)? The emulator of this program needs none."
    )]
    NoNetem(#[source] LabError),
    /// The emulator's thread has ended.
    #[error(
        "the emulator has stopped; this is a bug in it, please report it with the output above"
    )]
    Stopped,
}

impl EmulatorError {
    pub(super) fn socket(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Socket { doing, source }
    }
}
