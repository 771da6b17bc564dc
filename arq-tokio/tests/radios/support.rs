// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Two hosts with two cables between them, and parts of this test that run in one of the hosts.
//!
//! A namespace is a property of a process, so a part that runs in a host is this test binary started anew with the name of
//! an ignored test, its role. What the role prints after the marker is its answer.

use std::{
    env,
    fmt::Display,
    io::{self, BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use netlab::{Host, Lab, LabError};

/// The server's address, reached by either cable.
pub(crate) const SERVER: &str = "10.79.0.1:7447";
const ANSWER: &str = "answer:";
/// Where the kernel says what is behind an interface.
const DEVICES: &str = "/sys/class/net";

/// A client (host 0) and a server (host 1) with cables `a` and `b`.
pub(crate) struct Cables(Lab);

impl Cables {
    /// `None`, with a loud reason, where this machine does not let us make namespaces.
    pub(crate) fn lay_or_skip(test: &str) -> Option<Self> {
        let cables = Self(lab_or_skip(test)?);
        cables.lay();
        Some(cables)
    }

    fn lay(&self) {
        self.server_ip("addr add 10.79.0.1/32 dev lo");
        ["a", "b"].into_iter().for_each(|cable| self.lay_cable(cable));
    }

    pub(crate) fn lay_cable(&self, cable: &str) {
        let (server, (net, _)) = (self.server().pid(), wiring(cable));
        self.client_ip(&format!(
            "link add name {cable} type veth peer name {cable} netns {server}"
        ));
        self.client_ip(&format!("addr add {net}.1/24 dev {cable}"));
        self.server_ip(&format!("addr add {net}.2/24 dev {cable}"));
        for of in ["all", cable] {
            self.client().sysctl(&format!("net.ipv4.conf.{of}.rp_filter"), "0").unwrap();
        }
        self.server_ip(&format!("link set dev {cable} up"));
        self.bring_up(cable);
    }

    /// From now on these are devices, and nothing else is, as far as a host can see.
    pub(crate) fn pose_as_devices(&self, cables: &[&str]) {
        // The lab's own mounts, not the machine's.
        self.client().run("mount", &["-t", "tmpfs", "tmpfs", DEVICES]).unwrap();
        cables.iter().for_each(|cable| self.pose_as_device(cable));
    }

    pub(crate) fn pose_as_device(&self, cable: &str) {
        self.client().run("mkdir", &["-p", &format!("{DEVICES}/{cable}/device")]).unwrap();
    }

    pub(crate) fn client(&self) -> &Host {
        self.0.host(0)
    }

    pub(crate) fn server(&self) -> &Host {
        self.0.host(1)
    }

    pub(crate) fn client_ip(&self, arguments: &str) {
        self.client().run("ip", &arguments.split(' ').collect::<Vec<_>>()).unwrap();
    }

    fn server_ip(&self, arguments: &str) {
        self.server().run("ip", &arguments.split(' ').collect::<Vec<_>>()).unwrap();
    }

    pub(crate) fn take_down(&self, cable: &str) {
        self.client_ip(&format!("link set dev {cable} down"));
    }

    /// Its route has gone with it: a network manager would make it anew.
    pub(crate) fn bring_up(&self, cable: &str) {
        let (net, metric) = wiring(cable);
        self.client_ip(&format!("link set dev {cable} up"));
        self.client_ip(&format!(
            "route replace 10.79.0.1/32 via {net}.2 dev {cable} metric {metric}"
        ));
    }

    /// Drops, or does not drop, all that enters either host by a cable: nobody is told.
    pub(crate) fn set_fade(&self, cable: &str, is_faded: bool) {
        let change = if is_faded { "-A" } else { "-D" };
        for host in [self.client(), self.server()] {
            let rule = ["-w", "-t", "raw", change, "PREROUTING", "-i", cable, "-j", "DROP"];
            host.run("iptables", &rule).unwrap();
        }
    }
}

/// Two hosts without cables. `None` as above.
pub(crate) fn lab_or_skip(test: &str) -> Option<Lab> {
    match Lab::new(2) {
        Ok(lab) => Some(lab),
        Err(e @ (LabError::NotPermitted(_) | LabError::MissingTool { .. })) => {
            skipped(test, e);
            None
        }
        Err(e) => panic!("the lab could not be built: {e}"),
    }
}

/// The network of a cable, and the metric of its route.
fn wiring(cable: &str) -> (&'static str, u32) {
    match cable {
        "a" => ("10.78.1", 100),
        "b" => ("10.78.2", 200),
        "c" => ("10.78.3", 300),
        other => panic!("no cable is called {other}"),
    }
}

/// Says that a test could not run; where everything has to run, that is a failure.
pub(crate) fn skipped(test: &str, why: impl Display) {
    // Past the capture of the test harness, so that nobody takes a skipped test for a passed one.
    let _ = writeln!(io::stderr(), "\n*** SKIPPED {test}: {why}\n");
    assert!(
        env::var_os("ARQ_REQUIRE_LAB").is_none(),
        "ARQ_REQUIRE_LAB is set, so a skipped test is a failed one"
    );
}

/// A role of this test binary; killed when dropped.
pub(crate) struct Role {
    child: Child,
    stdin: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// Lines about paths that it has logged before its latest answer.
    pub(crate) lines: usize,
}

impl Role {
    /// Starts the ignored test `role` by `command`, which runs this binary.
    pub(crate) fn start(mut command: Command, role: &str) -> io::Result<Self> {
        command.args(["--exact", role, "--ignored", "--nocapture", "--test-threads=1"]);
        Self::spawn(command)
    }

    /// Starts any other program, of which only what it logs is read.
    pub(crate) fn spawn(mut command: Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Ok(Self { child, stdin, answers, lines: 0 })
    }

    pub(crate) fn in_host(host: &Host, role: &str) -> Self {
        Self::start(host.command(env::current_exe().unwrap()), role).unwrap()
    }

    /// The next answer of the role; blocks until it comes.
    pub(crate) fn answer(&mut self) -> String {
        let (mut line, mut said) = (String::new(), String::new());
        while self.answers.read_line(&mut line).unwrap() > 0 {
            // The harness may have printed "test name ... " before on the same line.
            if let Some((_, answer)) = line.split_once(ANSWER) {
                return answer.trim().to_owned();
            }
            self.lines += usize::from(line.contains(" a path "));
            said.push_str(&line);
            line.clear();
        }
        panic!("the role ended without an answer: {said}");
    }

    /// The next line of its log that has these words; blocks until it comes.
    pub(crate) fn logged(&mut self, words: &str) -> String {
        let mut line = String::new();
        while self.answers.read_line(&mut line).unwrap() > 0 {
            if line.contains(words) {
                return line;
            }
            line.clear();
        }
        panic!("the role ended and has logged no {words}");
    }

    /// Blocks until all that writes where it does has ended.
    pub(crate) fn until_it_ends(&mut self) {
        io::copy(&mut self.answers, &mut io::sink()).unwrap();
    }

    /// Tells the role something.
    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Inside a role: logs beside its answers.
pub(crate) fn log() {
    tracing_subscriber::fmt()
        .with_writer(io::stdout)
        .with_ansi(false)
        .with_env_filter("arq_tokio=info")
        .init();
}

/// Inside a role: gives an answer.
pub(crate) fn answer(value: impl Display) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "\n{ANSWER}{value}");
    let _ = out.flush();
}

/// Inside a role: waits to be told something.
pub(crate) fn told() -> String {
    let mut line = String::new();
    io::stdin().read_line(&mut line).unwrap();
    line.trim().to_owned()
}
