// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What a process logs, for a test to read.

use std::{io, sync::mpsc::Sender};

use tracing_subscriber::fmt::MakeWriter;

/// Hands on each event as one piece of text.
#[derive(Clone)]
pub(crate) struct Lines(pub(crate) Sender<String>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.send(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
