// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Two radios, played by two cables between two hosts of one machine: one goes away, and nobody's message is late.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod devices;
mod page;
mod privilege;
mod support;

use std::{
    future::Future,
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use arq_tokio::{
    Config, Connection, Endpoint, EndpointConfig, LaneId, PathInterface, Reliability,
    SocketOptions, ValidConfig,
};
use tokio::{runtime::Handle, sync::mpsc, time::timeout};

use support::{answer, log, told, Cables, Role, SERVER};

const LANE: LaneId = LaneId::new(4, Reliability::Reliable).unwrap();
/// A message each.
const PERIOD: Duration = Duration::from_millis(10);
/// Messages after which the sender says so.
const TELLS_EACH: u64 = 50;
/// What a message may take when a path goes away, on an idle machine.
const IN_TIME: Duration = Duration::from_millis(200);
/// Far above what is needed: only a hang runs into it.
const HANG: Duration = Duration::from_secs(30);

fn config() -> ValidConfig {
    let granularity = arq_tokio::TIMER_GRANULARITY;
    Config { paths: 4, timer_granularity: granularity, ..Config::default() }.validate().unwrap()
}

/// Microseconds on the clock that all processes of this machine share.
fn clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

/// How late this process was given a processor at worst, in microseconds: nobody's fault but the machine's.
async fn watch_hiccups(worst: Arc<AtomicU64>) {
    let mut tick = tokio::time::interval(PERIOD);
    loop {
        let due = tick.tick().await;
        let late = due.elapsed().as_micros() as u64;
        worst.fetch_max(late, Ordering::Relaxed);
    }
}

/// A client that sends and a server that hears, with a path by each cable.
struct Session {
    cables: Cables,
    client: Role,
    server: Role,
}

/// What the server has heard.
#[derive(Debug)]
struct Heard {
    messages: u64,
    latest: Duration,
    /// How late the machine was.
    hiccup: Duration,
}

impl Session {
    fn begin_or_skip(test: &str) -> Option<Self> {
        Some(Self::begin(Cables::lay_or_skip(test)?, "role_hear", "role_send"))
    }

    fn begin(cables: Cables, hear: &str, send: &str) -> Self {
        let mut server = Role::in_host(cables.server(), hear);
        assert_eq!(server.answer(), "bound");
        let mut client = Role::in_host(cables.client(), send);
        assert_eq!(client.answer(), "a=open b=open");
        client.tell("go");
        let mut session = Self { cables, client, server };
        session.goes_on();
        session
    }

    /// Half a second passes.
    fn goes_on(&mut self) {
        assert_eq!(self.client.answer(), "goes on");
    }

    /// Waits until the paths stand like this.
    fn until(&mut self, paths: &str) {
        let begin = Instant::now();
        loop {
            let stand = self.ask("paths?");
            if stand == paths {
                return;
            }
            assert!(begin.elapsed() < HANG, "{paths} is expected: {stand}");
        }
    }

    fn ask(&mut self, question: &str) -> String {
        self.client.tell(question);
        loop {
            let said = self.client.answer();
            if said != "goes on" {
                return said;
            }
        }
    }

    /// Ends the session: all that was sent must have arrived.
    fn end(mut self) -> Heard {
        let sent = self.ask("stop");
        let said = self.server.answer();
        let numbers: Vec<u64> =
            sent.split(' ').chain(said.split(' ')).map(|number| number.parse().unwrap()).collect();
        let [sent, hiccup_there, messages, latest, hiccup_here] = numbers[..] else {
            panic!("{numbers:?}");
        };
        assert_eq!(messages, sent, "every message arrives");
        let micros = Duration::from_micros;
        let heard = Heard {
            messages,
            latest: micros(latest),
            hiccup: micros(hiccup_here) + micros(hiccup_there),
        };
        println!("{heard:?}");
        heard
    }
}

impl Heard {
    fn is_in_time(&self) -> bool {
        self.latest < IN_TIME + self.hiccup
    }
}

#[test]
fn a_cable_that_goes_down_and_comes_back_makes_no_message_late() {
    let Some(mut session) = Session::begin_or_skip("a_cable_that_goes_down") else { return };
    session.cables.take_down("a");
    session.until("a=paused b=open");
    session.goes_on();
    session.cables.bring_up("a");
    session.until("a=open b=open");
    // The other one: nothing was left to it.
    session.cables.take_down("b");
    session.until("a=open b=paused");
    session.goes_on();
    let heard = session.end();
    assert!(heard.is_in_time() && heard.messages > 100, "{heard:?}");
}

#[test]
fn a_fade_that_nobody_tells_of_makes_no_message_late() {
    let Some(mut session) = Session::begin_or_skip("a_fade_that_nobody_tells_of") else { return };
    for cable in ["a", "b"] {
        session.cables.set_fade(cable, true);
        session.goes_on();
        session.goes_on();
        session.cables.set_fade(cable, false);
        session.until("a=open b=open");
    }
    let heard = session.end();
    assert!(heard.is_in_time() && heard.messages > 100, "{heard:?}");
}

#[test]
fn a_radio_that_is_plugged_in_later_and_pulled_gets_a_path_each_time() {
    let Some(mut session) = Session::begin_or_skip("a_radio_that_is_plugged_in") else { return };
    for _ in 0..2 {
        session.cables.client_ip("link del dev b");
        session.until("a=open b=paused");
        session.goes_on();
        session.cables.lay_cable("b");
        session.until("a=open b=open");
    }
    let heard = session.end();
    assert!(heard.is_in_time(), "{heard:?}");
}

#[test]
fn a_cable_that_flaps_makes_no_message_late_and_fills_no_log() {
    let Some(mut session) = Session::begin_or_skip("a_cable_that_flaps") else { return };
    for _ in 0..8 {
        session.cables.take_down("a");
        session.goes_on();
        session.cables.bring_up("a");
        session.goes_on();
    }
    session.until("a=open b=open");
    let lines = session.client.lines;
    assert!((1..=12).contains(&lines), "{lines} lines");
    let heard = session.end();
    assert!(heard.is_in_time() && heard.messages > 800, "{heard:?}");
}

#[test]
fn a_kernel_that_drops_the_answers_is_named_within_three_seconds() {
    let Some(cables) = Cables::lay_or_skip("a_kernel_that_drops_the_answers") else { return };
    // The best route to the server is by the other cable.
    cables.client().sysctl("net.ipv4.conf.b.rp_filter", "1").unwrap();
    let mut server = Role::in_host(cables.server(), "role_hear");
    assert_eq!(server.answer(), "bound");
    let begin = Instant::now();
    let mut client = Role::in_host(cables.client(), "role_send");
    let warning = client.logged("WARN");
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    assert!(warning.contains("sysctl -w net.ipv4.conf.b.rp_filter=2"), "{warning}");
}

/// The part that runs in the server.
#[test]
#[ignore = "a role, which other tests start"]
fn role_hear() {
    hear(EndpointConfig::new(config()));
}

fn hear(accepts: EndpointConfig) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let worst = Arc::<AtomicU64>::default();
        tokio::spawn(watch_hiccups(worst.clone()));
        let (any, options) = ("0.0.0.0:7447".parse().unwrap(), SocketOptions::default());
        let server = Endpoint::bind(any, &options, accepts, &Handle::current()).unwrap();
        answer("bound");
        let connection = server.accept().await.unwrap();
        let (mut messages, mut latest) = (0_u64, 0);
        while let Ok(message) = connection.recv(LANE).await {
            let [number, sent_at]: [u64; 2] = numbers(&message);
            assert_eq!(number, messages, "in order");
            messages += 1;
            latest = latest.max(clock().saturating_sub(sent_at));
        }
        answer(format!("{messages} {latest} {}", worst.load(Ordering::Relaxed)));
    });
}

fn numbers<const N: usize>(message: &[u8]) -> [u64; N] {
    let numbers = message.chunks(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    numbers.collect::<Vec<_>>().try_into().unwrap()
}

/// The part that runs in the client: sends until it is told to stop.
#[test]
#[ignore = "a role, which other tests start"]
fn role_send() {
    send(connect());
}

fn send(connect: impl Future<Output = (Endpoint, Connection)>) {
    log();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let worst = Arc::<AtomicU64>::default();
        tokio::spawn(watch_hiccups(worst.clone()));
        let (_endpoint, connection) = connect.await;
        let open = async {
            while stand(&connection) != "a=open b=open" {
                tokio::time::sleep(PERIOD).await;
            }
        };
        timeout(HANG, open).await.expect("both paths open");
        answer(stand(&connection));
        assert_eq!(told(), "go");
        let sent = send_until_told(&connection).await;
        connection.finish().await;
        answer(format!("{sent} {}", worst.load(Ordering::Relaxed)));
        // The one who has started this reads the answer first.
        told();
    });
}

async fn connect() -> (Endpoint, Connection) {
    let interfaces = ["a", "b"].map(PathInterface::new);
    let (any, options) = ("0.0.0.0:0".parse().unwrap(), SocketOptions::default());
    let none = EndpointConfig::default();
    let endpoint =
        Endpoint::over_interfaces(interfaces, any, &options, none, &Handle::current()).unwrap();
    let connection = endpoint.connect(SERVER.parse().unwrap(), config()).await.unwrap();
    (endpoint, connection)
}

/// How the paths stand, by the name of their interface.
fn stand(connection: &Connection) -> String {
    let mut paths: Vec<_> = connection
        .paths()
        .iter()
        .map(|path| format!("{}={}", path.interface.as_deref().unwrap(), path.stats.state))
        .collect();
    paths.sort();
    paths.join(" ")
}

async fn send_until_told(connection: &Connection) -> u64 {
    let (tell, mut asked) = mpsc::unbounded_channel();
    std::thread::spawn(move || while tell.send(told()).is_ok() {});
    let mut tick = tokio::time::interval(PERIOD);
    let mut sent = 0_u64;
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            asked = asked.recv() => match asked.unwrap().as_str() {
                "paths?" => {
                    answer(stand(connection));
                    continue;
                }
                "interfaces?" => {
                    answer(connection.interfaces().join(" "));
                    continue;
                }
                _ => return sent,
            },
        }
        let message = [sent.to_le_bytes(), clock().to_le_bytes()].concat();
        connection.send(LANE, message).await.unwrap();
        sent += 1;
        if sent.is_multiple_of(TELLS_EACH) {
            answer("goes on");
        }
    }
}
