// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do vehicles and a monitor come to talk over one link on an emulated radio?

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arq_bench::measure::certificates::Certificates;
use arq_bench::measure::MeasureError;
use netlab::wire::{Conditions, WireCount};
use netlab::{EmulatorError, Host, LabError, Network};
use parking_lot::Mutex;

use super::link::Contender;
use crate::v2v::monitor::Report;
use crate::v2v::radio::Path;
use crate::v2v::world::WorldArgs;

/// The vehicle that the monitor rides in.
pub(super) const OWN: u32 = 0;
/// How long the parts may take to say farewell.
const FAREWELL: Duration = Duration::from_secs(3);
/// Lines of the parts' own words that are worth quoting.
const LAST_WORDS: usize = 8;

/// One link's network and everybody in it. Dropping it ends them all.
pub struct Stage {
    /// How the link is called.
    pub name: &'static str,
    contender: Contender,
    world: WorldArgs,
    network: Network,
    parts: Vec<Part>,
    report: Arc<Mutex<Option<Report>>>,
    /// Where the parts log to.
    log: tempfile::NamedTempFile,
    /// Files that the parts read.
    certificates: Option<Certificates>,
    counted: WireCount,
}

struct Part {
    role: String,
    child: Child,
}

/// Why a stage could not be set, or fell apart.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The network could not be made.
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    /// A host could not be set up.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// No certificate for a link that needs one.
    #[error(transparent)]
    Certificates(#[from] MeasureError),
    /// A part could not be started.
    #[error("{role} over {link} cannot be started: {source}")]
    Start {
        /// Which part.
        role: String,
        /// Over which link.
        link: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A part has ended by itself.
    #[error("{role} over {link} has ended ({status}). Its last words:\n{last_words}")]
    Ended {
        /// Which part.
        role: String,
        /// Over which link.
        link: &'static str,
        /// How.
        status: String,
        /// What it logged.
        last_words: String,
    },
}

impl Stage {
    /// Makes the network, with nobody in it yet.
    pub fn set(contender: Contender, world: WorldArgs) -> Result<Self, StageError> {
        // At most 64 vehicles. The monitor's has one radio: whoever connects opens the paths.
        let vehicles = world.vehicles as u8;
        let second = if contender.radios == 1 { 0..0 } else { 1..vehicles };
        let mut network = Network::with_second_radios(vehicles, second)?;
        network.begin(&Conditions::default(), world.seed)?;
        for index in 0..world.vehicles as usize {
            if let Some(control) = contender.tcp_congestion_control() {
                network.host(index).set_tcp_congestion_control(control)?;
            }
        }
        let address = network.host(OWN as usize).ipv4();
        let certificates = match contender.has_certificate() {
            true => Some(Certificates::make(vec![address.to_string()])?),
            false => None,
        };
        let name = contender.name;
        let failed = |role: &str| {
            let role = role.to_owned();
            move |source| StageError::Start { role, link: name, source }
        };
        let log = tempfile::NamedTempFile::new().map_err(failed("the log of the parts"))?;
        Ok(Self {
            name,
            contender,
            world,
            network,
            parts: Vec::new(),
            report: Arc::default(),
            log,
            certificates,
            counted: WireCount::default(),
        })
    }

    /// Starts everybody. The caller's thread must outlive the stage: the parts end with it.
    pub fn start(&mut self, camera_kbps: u32) -> Result<(), StageError> {
        let (contender, world) = (self.contender.clone(), self.world);
        let own = self.network.host(OWN as usize);
        let (listener, connector) =
            (contender.listener(own.ipv4().into()), contender.connector(own.ipv4().into()));
        let settings = self.settings(&contender, world);
        let mut monitor = self.command(own, "the monitor")?;
        monitor.args([
            "monitor",
            "--json",
            "--publish",
            "--link",
            self.name,
            "--listen",
            &listener,
        ]);
        monitor.args(&settings).arg("--vehicle").arg(OWN.to_string()).stdout(Stdio::piped());
        let mut monitor = self.spawn("the monitor".to_owned(), &mut monitor)?;
        if let Some(words) = monitor.child.stdout.take() {
            read_reports(words, Arc::clone(&self.report));
        }
        self.parts.push(monitor);
        for vehicle in (0..world.vehicles).filter(|vehicle| *vehicle != OWN) {
            let role = format!("vehicle {vehicle}");
            let mut command = self.command(self.network.host(vehicle as usize), &role)?;
            command.args(["vehicle", "--vehicle", &vehicle.to_string(), "--connect", &connector]);
            command.args(["--camera", &camera_kbps.to_string()]).args(&settings);
            let part = self.spawn(role, command.stdout(Stdio::null()))?;
            self.parts.push(part);
        }
        Ok(())
    }

    /// The arguments that all parts share.
    fn settings(&self, contender: &Contender, world: WorldArgs) -> Vec<String> {
        let mut settings = vec!["--with-stdin".to_owned()];
        settings.extend(["--seed".to_owned(), world.seed.to_string()]);
        settings.extend(["--vehicles".to_owned(), world.vehicles.to_string()]);
        let certificates = self.certificates.iter().flat_map(Certificates::zenoh_keys);
        let zenoh = contender.zenoh().map(|(key, value)| (key.to_owned(), value.to_owned()));
        for (key, value) in zenoh.chain(certificates) {
            settings.extend(["--cfg".to_owned(), format!("{key}:{value}")]);
        }
        settings
    }

    /// This program, started anew in a host.
    fn command(&self, host: &Host, role: &str) -> Result<Command, StageError> {
        let failed = |source| StageError::Start { role: role.to_owned(), link: self.name, source };
        let mut command = host.command(std::env::current_exe().map_err(failed)?);
        // What cannot be reached is tried again, and no news.
        if std::env::var_os("RUST_LOG").is_none() {
            command.env("RUST_LOG", "off");
        }
        let log = File::options().append(true).open(self.log.path()).map_err(failed)?;
        // Ctrl-C is for the demo, which lets its parts say farewell.
        command.stdin(Stdio::piped()).stderr(log).process_group(0);
        Ok(command)
    }

    fn spawn(&self, role: String, command: &mut Command) -> Result<Part, StageError> {
        match command.spawn() {
            Ok(child) => Ok(Part { role, child }),
            Err(source) => Err(StageError::Start { role, link: self.name, source }),
        }
    }

    /// Gives the radios between the monitor's vehicle and another one their shape, in both directions.
    pub fn set_radio(&mut self, vehicle: u32, path: &Path) -> Result<(), StageError> {
        let second = self.network.second_radio(vehicle as usize);
        let second = second.map(|radio| (radio, path.second_wire()));
        for (radio, wire) in [(vehicle as usize, path.wire())].into_iter().chain(second) {
            self.network.set_wire(OWN as usize, radio, &wire)?;
            self.network.set_wire(radio, OWN as usize, &wire)?;
        }
        Ok(())
    }

    /// The monitor's newest report.
    pub fn report(&self) -> Option<Report> {
        self.report.lock().clone()
    }

    /// What has entered the radio and what it has lost since this was last asked.
    pub fn radio_use(&mut self, vehicles: u32) -> Result<WireCount, StageError> {
        // Its memory would grow for as long as the demo runs.
        drop(self.network.packet_log()?);
        let mut all = WireCount::default();
        let (own, vehicles) = (OWN as usize, 0..vehicles as usize);
        for vehicle in vehicles.filter(|vehicle| *vehicle != own) {
            for radio in [Some(vehicle), self.network.second_radio(vehicle)].into_iter().flatten() {
                all = all + self.network.counts(own, radio)? + self.network.counts(radio, own)?;
            }
        }
        let before = std::mem::replace(&mut self.counted, all);
        Ok(WireCount {
            entered_packets: all.entered_packets - before.entered_packets,
            entered_bytes: all.entered_bytes - before.entered_bytes,
            lost: all.lost - before.lost,
            ..WireCount::default()
        })
    }

    /// An error when a part has ended.
    pub fn check(&mut self) -> Result<(), StageError> {
        for Part { role, child } in &mut self.parts {
            let ended = child.try_wait().map_err(|source| StageError::Start {
                role: role.clone(),
                link: self.name,
                source,
            })?;
            if let Some(status) = ended {
                let (role, status) = (role.clone(), status.to_string());
                let last_words = last_words(self.log.path());
                return Err(StageError::Ended { role, link: self.name, status, last_words });
            }
        }
        Ok(())
    }

    /// Lets everybody say farewell; whoever takes too long is ended.
    pub fn close(mut self) {
        self.parts.iter_mut().for_each(|part| drop(part.child.stdin.take()));
        let deadline = Instant::now() + FAREWELL;
        for part in &mut self.parts {
            while matches!(part.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keeps the newest report, in a thread that ends with the monitor.
fn read_reports(words: ChildStdout, report: Arc<Mutex<Option<Report>>>) {
    std::thread::spawn(move || {
        for line in BufReader::new(words).lines().map_while(Result::ok) {
            if let Ok(new) = serde_json::from_str(&line) {
                *report.lock() = Some(new);
            }
        }
    });
}

fn last_words(log: &std::path::Path) -> String {
    let all = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = all.lines().collect();
    lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n")
}
