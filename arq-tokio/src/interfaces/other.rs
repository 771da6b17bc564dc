// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Elsewhere a socket cannot be bound to an interface yet.

use std::{convert::Infallible, io, time::Duration};

use super::Interfaces;

pub(super) fn list() -> io::Result<Interfaces> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "several interfaces at once need Linux"))
}

#[derive(Debug)]
pub(super) struct Changes(Infallible);

impl Changes {
    pub(super) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn wait(&self, _at_most: Duration) -> io::Result<()> {
        match self.0 {}
    }

    pub(super) fn drain(&self) {
        match self.0 {}
    }
}
