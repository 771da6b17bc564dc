// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Programs that run to their end, or until the test ends, and two minutes at most if it hangs.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

const TIME_LIMIT_S: &str = "120";

/// The exit code of a program and what it said, on both ways; it hears nothing.
pub(crate) fn output(program: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new("timeout");
    command.args(["--foreground", TIME_LIMIT_S, program]).args(arguments).stdin(Stdio::null());
    let output = command.output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

pub(crate) struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn start(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new("timeout");
        command.args(["--signal=INT", "--kill-after=20", TIME_LIMIT_S, program]).args(arguments);
        // How zenoh takes the end of a test is no news.
        if std::env::var_os("RUST_LOG").is_none() {
            command.env("RUST_LOG", "off");
        }
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped"));
        Self { child, lines }
    }

    /// The next line with these words; `None` when the program has ended.
    pub(crate) fn line(&mut self, words: &str) -> Option<String> {
        let mut line = String::new();
        while self.lines.read_line(&mut line).ok()? > 0 {
            if line.contains(words) {
                return Some(line);
            }
            line.clear();
        }
        None
    }

    /// Ctrl-C: `timeout` hands it on.
    pub(crate) fn interrupt(&self) {
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
    }

    /// Its exit code, once it has ended.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        while self.line("").is_some() {}
        self.child.wait().ok()?.code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A program that has ended by itself is not there to be killed.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = Command::new("kill").arg(self.child.id().to_string()).status();
            let _ = self.child.wait();
        }
    }
}
