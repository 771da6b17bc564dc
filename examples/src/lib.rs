// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which arguments do all examples share, and how do they become a zenoh session?
//!
//! The flags are those of zenoh's own examples but `--enable-shm`, so that a command line which works there works here,
//! and with `arq/` locators besides.

pub mod v2v;

use std::fmt::Arguments;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;
use zenoh::session::SessionInfo;
use zenoh::{Config, Session, Wait};
use zenoh_config::{EndPoint, EndPoints, ModeDependent, ModeDependentValue, WhatAmI};
use zenoh_link::LinkKind;
use zenoh_link_arq::config::LinkConfig;

/// The end of a program's `--help`: its own example, then what holds for all.
#[macro_export]
macro_rules! teach {
    ($example:literal) => {
        concat!(
            "Example:\n",
            $example,
            "\n\nLocators: every program takes any zenoh locator: tcp/, udp/, quic/, tls/, ws/, and \
             arq/host:port,\nwhich delivers everything that is sent as reliable over networks that lose packets.\n\
             Options of arq/ follow a `#`, separated by `;`: arq/10.0.0.1:7447#preset=wifi;dscp=0xb8\n\
             RUST_LOG=debug shows what zenoh and the links do."
        )
    };
}

/// `println!` for programs whose output may be piped: where the reader has gone (`z_sub | head -3`) they end.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {
        $crate::write_line(format_args!($($words)*))
    };
}

/// Writes a line to standard output. Use [`say!`].
///
/// SIGPIPE keeps being ignored: a socket whose peer has gone must not end the program.
pub fn write_line(words: Arguments<'_>) {
    if let Err(e) = writeln!(io::stdout().lock(), "{words}") {
        if e.kind() == io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        eprintln!("error: standard output cannot be written: {e}");
        std::process::exit(1);
    }
}

/// The arguments of every example.
#[derive(Args, Clone, Debug, Default)]
pub struct CommonArgs {
    /// A zenoh configuration file (JSON5).
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Sets one value of the configuration, in JSON5: transport/link/tx/lease:5000 (repeatable).
    #[arg(long, value_name = "KEY:VALUE", value_parser = key_and_value)]
    pub cfg: Vec<(String, String)>,
    /// The session's mode [default: peer].
    #[arg(short, long)]
    pub mode: Option<Mode>,
    /// An endpoint to connect to: arq/10.0.0.1:7447 (repeatable).
    #[arg(short = 'e', long, value_name = "ENDPOINT")]
    pub connect: Vec<String>,
    /// An endpoint to listen on: arq/0.0.0.0:7447 (repeatable).
    #[arg(short, long, value_name = "ENDPOINT")]
    pub listen: Vec<String>,
    /// Do not look for other nodes by multicast.
    #[arg(long)]
    pub no_multicast_scouting: bool,
}

/// What a zenoh node is to the others.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Mode {
    /// Talks to peers and routers directly.
    Peer,
    /// Leaves everything to one router or peer.
    Client,
    /// Routes for others.
    Router,
}

/// What zenoh promises about a publication.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Reliability {
    /// Repeated until it arrives, in order.
    #[default]
    Reliable,
    /// Sent once.
    BestEffort,
}

impl From<Reliability> for zenoh::qos::Reliability {
    fn from(reliability: Reliability) -> Self {
        match reliability {
            Reliability::Reliable => Self::Reliable,
            Reliability::BestEffort => Self::BestEffort,
        }
    }
}

impl CommonArgs {
    /// The configuration that the arguments describe; an endpoint that can never work is an error here already,
    /// because zenoh would try it again and again.
    pub fn config(&self) -> zenoh::Result<Config> {
        let mut config = match &self.config {
            Some(path) => {
                let read = Config::from_file(path);
                read.map_err(|e| format!("the configuration file {}: {e}", path.display()))?
            }
            None => Config::default(),
        };
        if let Some(mode) = self.mode.and_then(|mode| mode.to_possible_value()) {
            config.insert_json5("mode", &json(mode.get_name())?)?;
        }
        for (key, endpoints) in [(CONNECT, &self.connect), (LISTEN, &self.listen)] {
            if !endpoints.is_empty() {
                config.insert_json5(key, &json(endpoints)?)?;
            }
        }
        if self.no_multicast_scouting {
            config.insert_json5("scouting/multicast/enabled", "false")?;
        }
        for (key, value) in &self.cfg {
            let inserted = config.insert_json5(key, value);
            inserted.map_err(|e| format!("--cfg {key}:{value}: {e}"))?;
        }
        for key in [CONNECT, LISTEN] {
            endpoints(&config, key)?.iter().try_for_each(check_endpoint)?;
        }
        Ok(config)
    }

    /// Opens the session that the arguments describe, and says so.
    pub fn open(&self) -> zenoh::Result<Session> {
        say!("Opening session...");
        self.open_silently()
    }

    /// The same for a program whose standard output others read. Where nobody answers, somebody is told on standard
    /// error: zenoh tries again and again without a word.
    pub fn open_silently(&self) -> zenoh::Result<Session> {
        let config = self.config()?;
        if endpoints(&config, CONNECT)?.is_empty() {
            return zenoh::open(config).wait();
        }
        // Before `open`, where a client may wait for ever.
        let opened = hint_if_lonely();
        let session = zenoh::open(config).wait().map_err(|e| match e.to_string() {
            e if e.contains(CANNOT_CONNECT) => format!("{e}\n{NOBODY_THERE}"),
            e => e,
        })?;
        // The hint may have been given.
        let _ = opened.send(session.info());
        Ok(session)
    }
}

/// Says once, after a while, that nobody is connected: while a session is being opened, and when it is.
fn hint_if_lonely() -> mpsc::Sender<SessionInfo> {
    let (opened, session) = mpsc::channel::<SessionInfo>();
    std::thread::spawn(move || {
        let due = Instant::now() + LONELY;
        let is_lonely = match session.recv_timeout(LONELY) {
            Ok(info) => {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                let peers = info.peers_zid().wait().next();
                peers.or_else(|| info.routers_zid().wait().next()).is_none()
            }
            Err(RecvTimeoutError::Timeout) => true,
            // It cannot be opened, and the error says why.
            Err(RecvTimeoutError::Disconnected) => false,
        };
        if is_lonely {
            eprintln!("Nobody is connected yet. {NOBODY_THERE}");
        }
    });
    opened
}

const CONNECT: &str = "connect/endpoints";
const LISTEN: &str = "listen/endpoints";

/// After so long without a connection a person may want to know.
const LONELY: Duration = Duration::from_secs(5);
/// How the errors of zenoh begin that are about connecting, and not about listening, say.
const CANNOT_CONNECT: &str = "Unable to connect";
const NOBODY_THERE: &str =
    "Is a router or a peer listening where -e or the file points to (zenohd -l, v2v_monitor -l), and no firewall between?";

/// Runs a program: logs what zenoh does, and ends with the error's own words and exit code 1.
pub fn run(program: impl FnOnce() -> zenoh::Result<()>) -> ExitCode {
    log_to_standard_error();
    match program() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Logs by `RUST_LOG`, without it warnings, in the words of `zenoh::init_log_from_env_or`; that would write to standard
/// output, which is for what a program has to say.
fn log_to_standard_error() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt().with_env_filter(filter);
    let log = log.with_thread_ids(true).with_thread_names(true);
    let log = log.with_ansi(io::stderr().is_terminal()).with_writer(io::stderr);
    // Who logs already has chosen where to.
    let _ = log.try_init();
}

/// The argument of a zenoh priority: 1 (real-time) to 7 (background).
pub fn priority(text: &str) -> Result<zenoh::qos::Priority, String> {
    let number = text.parse::<u8>().ok();
    let priority = number.and_then(|number| zenoh::qos::Priority::try_from(number).ok());
    priority.ok_or_else(|| {
        "1 real-time, 2 interactive-high, 3 interactive-low, 4 data-high, 5 data, 6 data-low, 7 background".to_owned()
    })
}

/// The argument of a payload's size: no more than zenoh takes by default (`transport/link/rx/max_message_size`).
pub fn payload_size(text: &str) -> Result<usize, String> {
    const MOST_BYTES: usize = 1 << 30;
    let size = text.parse().ok().filter(|size| *size <= MOST_BYTES);
    size.ok_or_else(|| format!("0 to {MOST_BYTES} bytes"))
}

/// A payload of `size` bytes, the digits 0 to 9 over and over.
pub fn payload(size: usize) -> Vec<u8> {
    (0..=9_u8).cycle().take(size).collect()
}

/// The endpoints under a key that hold in the configuration's mode. Those to listen on are each an entry of one.
fn endpoints(config: &Config, key: &str) -> zenoh::Result<Vec<EndPoint>> {
    let of_modes = config.get_json(key)?;
    let of_modes: ModeDependentValue<Vec<EndPoints>> = serde_json::from_str(&of_modes)?;
    let mode: Option<WhatAmI> = serde_json::from_str(&config.get_json("mode")?)?;
    let entries = of_modes.get(mode.unwrap_or(WhatAmI::Peer)).into_iter().flatten();
    Ok(entries.flat_map(EndPoints::as_vec).collect())
}

fn check_endpoint(endpoint: &EndPoint) -> zenoh::Result<()> {
    let failed =
        |e: zenoh::Error| zenoh::Error::from(format!("the endpoint {endpoint} is unusable: {e}"));
    LinkKind::try_from(endpoint).map_err(failed)?;
    if endpoint.protocol().as_str() == zenoh_link_arq::ARQ_LOCATOR_PREFIX {
        LinkConfig::parse(endpoint).map_err(|e| failed(e.into()))?;
    }
    Ok(())
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once(':').filter(|(key, _)| !key.is_empty());
    let (key, value) =
        pair.ok_or("KEY:VALUE is needed, for example transport/link/tx/lease:5000")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn json(value: &(impl serde::Serialize + ?Sized)) -> zenoh::Result<String> {
    Ok(serde_json::to_string(value)?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        common: CommonArgs,
    }

    fn parsed(line: &str) -> zenoh::Result<Config> {
        Program::try_parse_from(line.split(' '))?.common.config()
    }

    fn value(config: &Config, key: &str) -> String {
        config.get_json(key).expect("a known key")
    }

    #[test]
    fn the_flags_of_zenoh_reach_the_configuration() {
        let config = parsed(
            "z_x -m client -e tcp/127.0.0.1:7447 --connect udp/127.0.0.1:7448 -l tcp/[::1]:0 \
             --no-multicast-scouting --cfg transport/link/tx/lease:4321",
        )
        .expect("zenoh's flags");
        assert_eq!(value(&config, "mode"), "\"client\"");
        assert_eq!(
            value(&config, "connect/endpoints"),
            r#"["tcp/127.0.0.1:7447","udp/127.0.0.1:7448"]"#
        );
        assert_eq!(value(&config, "listen/endpoints"), r#"["tcp/[::1]:0"]"#);
        assert_eq!(value(&config, "scouting/multicast/enabled"), "false");
        assert_eq!(value(&config, "transport/link/tx/lease"), "4321");
    }

    #[test]
    fn arq_endpoints_are_endpoints_and_bad_ones_are_named() {
        parsed("z_x -l arq/[::]:7447 -e arq/127.0.0.1:7447").expect("arq is a link");
        for (line, named) in [
            ("z_x -e arp/127.0.0.1:7447", "arp/127.0.0.1:7447"),
            ("z_x -e arq/127.0.0.1:7447#colour=red", "colour"),
            ("z_x -l nonsense", "nonsense"),
            (r#"z_x --cfg connect/endpoints:["arq/[::1]:7447#presett=wifi"]"#, "presett"),
            (r#"z_x -m client --cfg connect/endpoints:{client:["arq/[::1]:1#a=b"]}"#, "`a`"),
            (r#"z_x --cfg listen/endpoints:[{strategy:"allOf",locators:["arp/[::1]:1"]}]"#, "arp"),
            ("z_x --cfg transport/link/tx/leash:1", "transport/link/tx/leash"),
            ("z_x --cfg lease", "KEY:VALUE"),
            ("z_x -c /nowhere/zenoh.json5", "/nowhere/zenoh.json5"),
        ] {
            let error = parsed(line).err().unwrap_or_else(|| panic!("{line} passed")).to_string();
            assert!(error.contains(named), "{line}: {error}");
        }
    }

    #[test]
    fn payloads_are_no_longer_than_zenoh_takes() {
        assert_eq!((payload_size("0"), payload_size("1073741824")), (Ok(0), Ok(1 << 30)));
        for bad in ["1073741825", "18446744073709551615", "-1", "1k"] {
            assert_eq!(payload_size(bad), Err("0 to 1073741824 bytes".to_owned()), "{bad}");
        }
    }

    #[test]
    fn priorities_are_numbers_and_a_bad_one_lists_the_good_ones() {
        assert_eq!(priority("1"), Ok(zenoh::qos::Priority::RealTime));
        assert_eq!(priority("7"), Ok(zenoh::qos::Priority::Background));
        for bad in ["0", "8", "high"] {
            assert!(priority(bad).is_err_and(|e| e.contains("1 real-time")), "{bad}");
        }
    }
}
