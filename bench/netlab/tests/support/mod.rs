// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does a test get a lab or an emulated network, and how does it run part of itself inside one of its hosts?
//!
//! A namespace is a property of a process, so the part that runs in a host is this test binary started anew with
//! the name of an ignored test, its *role*. What the role prints after the marker is its answer.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part of this module")]

use std::fmt::Display;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use netlab::{EmulatorError, Host, Lab, LabError, Network};

/// A lab, or `None` with a loud reason when this machine does not let us make one.
pub fn lab_or_skip(test: &str) -> Option<Lab> {
    match Lab::new(2) {
        Ok(lab) => Some(lab),
        Err(e @ (LabError::NotPermitted(_) | LabError::MissingTool { .. })) => {
            skipped(test, e);
            None
        }
        Err(e) => panic!("the lab could not be built: {e}"),
    }
}

/// The same of an emulated network.
pub fn network_or_skip(test: &str, hosts: u8) -> Option<Network> {
    match Network::new(hosts) {
        Ok(network) => Some(network),
        Err(EmulatorError::Lab(e @ (LabError::NotPermitted(_) | LabError::MissingTool { .. }))) => {
            skipped(test, e);
            None
        }
        Err(e) => panic!("the network could not be built: {e}"),
    }
}

/// Says that a test, or a part of it, could not run; where everything has to run, that is a failure.
pub fn skipped(test: &str, why: impl Display) {
    // Past the capture of the test harness, so that nobody takes a skipped test for a passed one.
    let _ = writeln!(std::io::stderr(), "\n*** SKIPPED {test}: {why}\n");
    assert!(
        std::env::var_os("ARQ_REQUIRE_LAB").is_none(),
        "ARQ_REQUIRE_LAB is set, so a skipped test is a failed one"
    );
}

/// A role of this test binary that runs in a host; killed when dropped.
pub struct Role {
    child: Child,
    stdin: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

const ANSWER: &str = "answer:";

impl Role {
    /// Starts the ignored test `role` of this binary inside `host`.
    pub fn start(host: &Host, role: &str, env: &[(&str, String)]) -> Self {
        let this = std::env::current_exe().expect("this test binary has a path");
        let mut command = host.command(this);
        command.args(["--exact", role, "--ignored", "--nocapture", "--test-threads=1"]);
        command.envs(env.iter().map(|(key, value)| (key, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the role starts");
        let stdin = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("stdout is piped"));
        Self { child, stdin, answers }
    }

    /// The next answer of the role; blocks until it comes. `None` when the role has ended.
    pub fn try_answer(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.answers.read_line(&mut line).expect("the role prints text") > 0 {
            // The harness may have printed "test name ... " before on the same line.
            if let Some((_, answer)) = line.split_once(ANSWER) {
                return Some(answer.trim().to_owned());
            }
            // What it logs, if it was asked to.
            if std::env::var_os("RUST_LOG").is_some() {
                eprint!("{line}");
            }
            line.clear();
        }
        None
    }

    /// The next answer of the role.
    pub fn answer(&mut self) -> String {
        self.try_answer().expect("the role ended without an answer")
    }

    /// Tells the role something.
    pub fn tell(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("the role still listens");
        writeln!(stdin, "{line}").expect("the role reads");
    }

    /// The role's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the role as a crash would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Inside a role: gives an answer.
pub fn answer(value: impl Display) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "\n{ANSWER}{value}");
    let _ = out.flush();
}

/// Inside a role: waits for the next line that it is told; `None` when the test has gone.
pub fn told() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line).unwrap_or(0);
    (read > 0).then(|| line.trim().to_owned())
}

/// Inside a role: a parameter from the environment.
pub fn parameter(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("the role needs {name}"))
}
