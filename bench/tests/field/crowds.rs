// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Five hundred vehicles come back at once, or strangers flood the router: does who is there already wait for them?
//!
//! Links without sessions: what is tried is the router's side of handshakes with certificates on both sides. All hosts
//! share this machine's processors, so the vehicles leave most of them to the router and the neighbour.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    os::fd::AsRawFd,
    sync::{
        atomic::{AtomicU64, Ordering::Relaxed},
        Arc,
    },
    time::{Duration, Instant},
};

use arq_bench::measure::certificates::Certificates;
use netlab::Lab;
use nix::sys::socket::{
    sendto, socket, AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn,
};
use parking_lot::Mutex;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use tokio::runtime::Runtime;
use zenoh_link::LinkManagerBuilderUnicast;
use zenoh_link_commons::LinkUnicast;
use zenoh_protocol::core::{EndPoint, Priority};

use crate::{
    alone,
    sessions::{ready, sh},
    support::{answer, lab_or_skip, parameter, told, Role},
};

const PORT: u16 = 7447;
const VEHICLES: usize = 500;
/// What zenoh waits by default before it connects again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often the neighbour and each vehicle say something.
const NEIGHBOUR_EVERY: Duration = Duration::from_millis(10);
const VEHICLE_EVERY: Duration = Duration::from_millis(200);
/// What the router says back to whoever says it: the length of the neighbour's messages.
const ECHOED: usize = 40;
/// How a reliable fragment of zenoh's begins: the link looks at no more of a batch.
const FRAGMENT: u8 = 0x26;
const LANE: Option<Priority> = Some(Priority::Data);

/// Packets that the strangers repeat.
const HELLOS: usize = 64;
const STRAYS: usize = 100_000;
const STRAY_BYTES: usize = 100;
/// The first byte of a sealed packet.
const SEALED: u8 = 0xb0;
/// What a link may take to open before it counts as shut out.
const PATIENCE: Duration = Duration::from_secs(5);
/// From a restart to the moment in which a client knows of it. Twice what is wanted, as above.
const SEEN_WITHIN: Duration = Duration::from_secs(2);
/// What a busy host delays a process now and then.
const HICCUP: Duration = Duration::from_millis(20);
/// Twice what is wanted, since some hosts are half as fast as others; the figures are printed.
const BACK_WITHIN: Duration = Duration::from_secs(10);
/// The share of a flood that a slow host must bring about.
const LEAST_FLOOD: f64 = 0.25;
const FLOOD_HZ: f64 = 50_000.0;
/// Decides who seems to say which HELLO.
const SEED: u64 = 1;
const FLOOD: Duration = Duration::from_secs(20);
/// Clients that begin and never finish.
const HALF_OPEN: usize = 100;
/// Where the strangers seem to be.
const NOWHERE: &str = "172.16.0.0/12";

fn runtime() -> Runtime {
    Runtime::new().expect("a runtime")
}

fn endpoint() -> EndPoint {
    parameter("ENDPOINT").parse().expect("an endpoint")
}

async fn open(endpoint: EndPoint) -> zenoh::Result<LinkUnicast> {
    let manager = LinkManagerBuilderUnicast::make(flume::unbounded().0, &endpoint)?;
    manager.new_link(endpoint).await
}

async fn connect() -> zenoh::Result<LinkUnicast> {
    open(endpoint()).await
}

async fn say(link: &LinkUnicast, content: &[u8]) -> zenoh::Result<()> {
    link.write_all(&[&[FRAGMENT], content].concat(), LANE).await
}

/// Hears everybody, and says the neighbour's messages back.
#[test]
#[ignore = "a role that other tests start"]
fn router() {
    runtime().block_on(async {
        let (sender, accepted) = flume::unbounded();
        let manager = LinkManagerBuilderUnicast::make(sender, &endpoint()).expect("a manager");
        manager.new_listener(endpoint()).await.expect("a listener");
        answer("ready");
        while let Ok(link) = accepted.recv_async().await {
            tokio::spawn(async move {
                let mut buffer = vec![0; 65_535];
                while let Ok(length) = link.read(&mut buffer, LANE).await {
                    if length == ECHOED && link.write_all(&buffer[..length], LANE).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
}

/// Opens a link, and tells how long that took.
#[test]
#[ignore = "a role that other tests start"]
fn newcomer() {
    let runtime = runtime();
    let began = Instant::now();
    let link = runtime.block_on(async { tokio::time::timeout(PATIENCE, connect()).await });
    answer(match &link {
        Ok(Ok(_)) => began.elapsed().as_micros().to_string(),
        _ => "nothing".to_owned(),
    });
    told();
    std::process::exit(0);
}

/// Says something each 10 ms, hears it back, and tells the round trips when it is asked.
#[test]
#[ignore = "a role that other tests start"]
fn neighbour() {
    let runtime = runtime();
    let began = Instant::now();
    let link = Arc::new(runtime.block_on(connect()).expect("a link"));
    answer("ready");
    let round_trips = Arc::new(Mutex::new(Vec::new()));
    let (speaker, noted) = (link.clone(), round_trips.clone());
    runtime.spawn(async move {
        let mut ticks = tokio::time::interval(NEIGHBOUR_EVERY);
        loop {
            ticks.tick().await;
            let mut content = [0; ECHOED - 1];
            content[..8].copy_from_slice(&(began.elapsed().as_micros() as u64).to_be_bytes());
            say(&speaker, &content).await.expect("the router listens");
        }
    });
    runtime.spawn(async move {
        let mut buffer = vec![0; 65_535];
        loop {
            link.read(&mut buffer, LANE).await.expect("the router answers");
            let said = u64::from_be_bytes(buffer[1..9].try_into().expect("eight bytes"));
            noted.lock().push(began.elapsed().as_micros() as u64 - said);
        }
    });
    while told().is_some() {
        let mut taken = std::mem::take(&mut *round_trips.lock());
        taken.sort_unstable();
        let count = taken.len();
        let at = |share: f64| taken.get((count as f64 * share) as usize).copied().unwrap_or(0);
        answer(format!("{count} {} {}", at(0.5), at(0.99)));
    }
    std::process::exit(0);
}

/// Links that open again when they end; tells when all are back.
#[test]
#[ignore = "a role that other tests start"]
fn vehicles() {
    let runtime = runtime();
    let began = Instant::now();
    let count: usize = parameter("VEHICLES").parse().expect("a count");
    let opened_us: Arc<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
    for vehicle in 0..count {
        let opened_us = opened_us.clone();
        runtime.spawn(async move {
            loop {
                if let Ok(link) = connect().await {
                    opened_us[vehicle].store(began.elapsed().as_micros() as u64, Relaxed);
                    let mut buffer = vec![0; 65_535];
                    let mut ticks = tokio::time::interval(VEHICLE_EVERY);
                    let speaks = async {
                        while say(&link, &[0; 100]).await.is_ok() {
                            ticks.tick().await;
                        }
                    };
                    tokio::select! {
                        () = speaks => {}
                        _ = link.read(&mut buffer, LANE) => {}
                    }
                }
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        });
    }
    answer("ready");
    let mut mark = 1;
    while let Some(word) = told() {
        if word == "mark" {
            mark = began.elapsed().as_micros() as u64;
            answer("marked");
            continue;
        }
        while opened_us.iter().any(|opened| opened.load(Relaxed) < mark) {
            std::thread::sleep(Duration::from_millis(10));
        }
        answer("all");
    }
    std::process::exit(0);
}

/// What clients of a link say first, to a server of our own that does not answer.
fn hellos(count: usize) -> Vec<Vec<u8>> {
    let runtime = runtime();
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = silent.local_addr().expect("an address");
    let at = format!("{}/{address}{}", parameter("LINK"), parameter("KEYS"));
    let mut hellos = BTreeMap::new();
    while hellos.len() < count {
        let attempt = runtime.spawn(open(at.parse().expect("an endpoint")));
        let mut buffer = vec![0; 2_048];
        let (length, from) = silent.recv_from(&mut buffer).expect("a HELLO");
        hellos.entry(from).or_insert_with(|| buffer[..length].to_vec());
        attempt.abort();
    }
    hellos.into_values().collect()
}

/// Sealed packets of associations that never were.
fn strays(count: usize) -> Vec<Vec<u8>> {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let strays = (0..count).map(|_| {
        let mut packet = vec![0; STRAY_BYTES];
        random.fill_bytes(&mut packet);
        packet[0] = SEALED;
        packet
    });
    strays.collect()
}

fn target() -> Ipv4Addr {
    parameter("TARGET").parse().expect("an address")
}

/// Packets of clients that never were, from addresses that never had one.
#[test]
#[ignore = "a role that other tests start"]
fn strangers() {
    let packets = match parameter("WHAT").as_str() {
        "strays" => strays(STRAYS),
        _ => hellos(HELLOS),
    };
    let raw = socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Raw)
        .expect("a raw socket");
    let to = SockaddrIn::from(SocketAddrV4::new(target(), 0));
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    answer("ready");
    told();
    let began = Instant::now();
    let mut sent = 0_u64;
    while began.elapsed() < FLOOD {
        if sent as f64 > began.elapsed().as_secs_f64() * FLOOD_HZ {
            std::thread::sleep(Duration::from_micros(200));
            continue;
        }
        let packet = &packets[random.next_u32() as usize % packets.len()];
        let from = Ipv4Addr::from(0xac10_0000 | (random.next_u32() & 0x000f_ffff));
        let datagram = datagram(from, random.next_u32() as u16 | 1_024, target(), packet);
        if sendto(raw.as_raw_fd(), &datagram, &to, MsgFlags::empty()).is_ok() {
            sent += 1;
        }
    }
    answer(sent);
    told();
    std::process::exit(0);
}

/// Clients that begin, and hear what the router answers, and say no more.
#[test]
#[ignore = "a role that other tests start"]
fn unfinished() {
    let calls = hellos(HALF_OPEN).into_iter().map(|hello| {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        socket.send_to(&hello, (target(), PORT)).expect("it leaves");
        socket
    });
    let calls: Vec<_> = calls.collect();
    let until = Instant::now() + Duration::from_secs(1);
    let answered = calls.iter().filter(|socket| {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(left)).expect("a time limit");
        socket.recv(&mut [0; 2_048]).is_ok()
    });
    answer(answered.count());
    told();
    std::process::exit(0);
}

/// An IPv4 packet with a UDP datagram without checksum (RFC 768, RFC 791).
fn datagram(from: Ipv4Addr, port: u16, to: Ipv4Addr, content: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(port.to_be_bytes());
    packet.extend(PORT.to_be_bytes());
    packet.extend((content.len() as u16 + 8).to_be_bytes());
    packet.extend([0; 2]);
    packet.extend(content);
    packet
}

/// A router at host 1, whom vehicles at host 0 and a neighbour at host 2 know, all with certificates.
struct Scene {
    lab: Lab,
    certificates: Certificates,
}

/// What the neighbour's messages took there and back.
struct RoundTrips {
    count: u64,
    median: Duration,
    p99: Duration,
}

impl std::fmt::Display for RoundTrips {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {:?}, p99 {:?}", self.count, self.median, self.p99)
    }
}

impl Scene {
    fn new(test: &str) -> Option<Self> {
        lab_or_skip(test)?;
        let lab = Lab::new(3).expect("a lab of three");
        let addresses = vec![lab.host(1).ipv4().to_string(), "127.0.0.1".to_owned()];
        let certificates = Certificates::make(addresses).expect("certificates");
        Some(Self { lab, certificates })
    }

    /// Where the router is for clients of this link.
    fn endpoint(&self, link: &str) -> String {
        format!("{link}/{}:{PORT}{}", self.lab.host(1).ipv4(), self.certificates.mutual())
    }

    fn start(&self, host: usize, role: &str, more: &[(&str, String)]) -> Role {
        let env = [&[("ENDPOINT", self.endpoint("arq"))], more].concat();
        Role::start(self.lab.host(host), &format!("crowds::{role}"), &env)
    }

    fn router(&self) -> Role {
        ready(self.start(1, "router", &[]))
    }

    fn vehicles(&self, count: usize) -> Role {
        ready(self.start(0, "vehicles", &[("VEHICLES", count.to_string())]))
    }

    /// Who only speaks to the router's port, and what over which link.
    fn strangers(&self, role: &str, link: &str, what: &str) -> Role {
        let aim = [
            ("LINK", link.to_owned()),
            ("WHAT", what.to_owned()),
            ("KEYS", self.certificates.mutual()),
            ("TARGET", self.lab.host(1).ipv4().to_string()),
        ];
        self.start(0, role, &aim)
    }

    fn neighbour(&self) -> Role {
        ready(self.start(2, "neighbour", &[]))
    }

    /// How long an honest link takes to open; none if it does not.
    fn opening(&self, link: &str) -> Option<Duration> {
        let mut newcomer = self.start(2, "newcomer", &[("ENDPOINT", self.endpoint(link))]);
        newcomer.answer().parse().ok().map(Duration::from_micros)
    }

    /// Leaves most of the processors to the others where they want them, as hosts elsewhere would.
    fn stand_back(&self, role: &Role) {
        let script = format!("renice -n 5 $(ls /proc/{}/task) >/dev/null", role.pid());
        sh(self.lab.host(0), &script);
    }

    /// Their host knows none of the addresses that they seem to have.
    fn send_answers_to_the_strangers(&self) {
        let way = format!("ip route add {NOWHERE} via {}", self.lab.host(0).ipv4());
        sh(self.lab.host(1), &way);
    }

    /// Bytes that host 1 has received and sent.
    fn traffic(&self) -> [u64; 2] {
        let text = self.lab.host(1).run("cat", &["/proc/net/dev"]).expect("counters");
        let line = text.lines().find_map(|line| line.trim().strip_prefix("eth0:")).expect("eth0");
        let words: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
        [words[0], words[8]]
    }
}

fn round_trips(neighbour: &mut Role) -> RoundTrips {
    neighbour.tell("round trips");
    let text = neighbour.answer();
    let mut words = text.split(' ').map(|word| word.parse().expect("a number"));
    let mut next = || words.next().expect("three numbers");
    RoundTrips {
        count: next(),
        median: Duration::from_micros(next()),
        p99: Duration::from_micros(next()),
    }
}

/// What a process holds in memory, in bytes.
fn resident(role: &Role) -> u64 {
    let process = procfs::process::Process::new(role.pid() as i32).expect("the role lives");
    process.statm().expect("its memory").resident * procfs::page_size()
}

/// From now on vehicles must open anew to be back.
fn mark(vehicles: &mut Role) {
    vehicles.tell("mark");
    assert_eq!(vehicles.answer(), "marked");
}

/// Waits until all vehicles are back, and tells how long that took.
fn all_back(vehicles: &mut Role) -> Duration {
    let began = Instant::now();
    vehicles.tell("all");
    assert_eq!(vehicles.answer(), "all");
    began.elapsed()
}

/// A router crashes while 5 % of the packets to and from the vehicles are lost.
#[test]
fn five_hundred_vehicles_are_back_soon_after_a_restart_and_delay_nobody() {
    let _alone = alone();
    let Some(scene) = Scene::new("five_hundred_vehicles") else { return };
    scene.lab.host(0).set_loss(0.05).expect("loss can be set");
    let from_vehicles = format!(
        "iptables -w -t raw -A PREROUTING -s {} -m statistic --mode random --probability 0.05 -j DROP",
        scene.lab.host(0).ipv4()
    );
    sh(scene.lab.host(1), &from_vehicles);
    let mut router = scene.router();
    let mut vehicles = scene.vehicles(VEHICLES);
    scene.stand_back(&vehicles);
    let at_first = all_back(&mut vehicles);
    router.kill();
    mark(&mut vehicles);
    let _router = scene.router();
    let restarted = Instant::now();
    let mut neighbour = scene.neighbour();
    all_back(&mut vehicles);
    let back = restarted.elapsed();
    let meanwhile = round_trips(&mut neighbour);
    std::thread::sleep(Duration::from_secs(5));
    let after = round_trips(&mut neighbour);
    println!(
        "{VEHICLES} vehicles open after {at_first:?}, back {back:?} after the restart; the neighbour's round trips \
         {meanwhile}, later {after}"
    );
    assert!(back < BACK_WITHIN, "{back:?}");
    assert!(meanwhile.count >= 50, "{meanwhile}");
    let limit = after.p99.max(HICCUP) + Duration::from_millis(5);
    assert!(meanwhile.p99 <= limit, "{meanwhile}, {after}");
}

/// HELLOs from a million addresses, 50,000 a second.
#[test]
fn a_flood_of_strangers_costs_no_memory_and_delays_nobody() {
    let _alone = alone();
    let Some(scene) = Scene::new("a_flood_of_strangers") else { return };
    scene.send_answers_to_the_strangers();
    let router = scene.router();
    let mut neighbour = scene.neighbour();
    let mut strangers = ready(scene.strangers("strangers", "arq", "HELLO"));
    std::thread::sleep(Duration::from_secs(3));
    let before = (round_trips(&mut neighbour), resident(&router), scene.traffic());
    strangers.tell("go");
    std::thread::sleep(FLOOD / 2);
    let opened = scene.opening("arq").expect("an honest link opens");
    let sent: u64 = strangers.answer().parse().expect("a count");
    let after = (round_trips(&mut neighbour), resident(&router), scene.traffic());
    let [received, answered] = [0, 1].map(|side| after.2[side] - before.2[side]);
    println!(
        "{sent} HELLOs in {FLOOD:?}, {received} bytes in, {answered} out; memory {} -> {}; the neighbour's round trips \
         {} -> {}; an honest link opens in {opened:?}",
        before.1, after.1, before.0, after.0
    );
    let least = FLOOD_HZ * FLOOD.as_secs_f64() * LEAST_FLOOD;
    assert!(sent as f64 >= least, "the flood was to have {least} HELLOs");
    // It answers few: far below the threefold that a single one may get.
    assert!(10 * answered <= received);
    assert!(after.1 <= before.1 + 20_000_000);
    assert!(opened <= Duration::from_secs(2));
    // Below that it is the host's hiccups that are measured.
    assert!(after.0.p99 <= 2 * before.0.p99.max(HICCUP));
    assert!(after.0.median <= 2 * before.0.median.max(HICCUP / 20));
}

/// Each stray asks for a RESET, and so does a client whose router has restarted: its answer is not theirs.
#[test]
fn a_restart_within_a_flood_of_strays_is_seen_soon() {
    let _alone = alone();
    let Some(scene) = Scene::new("a_restart_within_a_flood") else { return };
    scene.send_answers_to_the_strangers();
    // Nothing else tells that the router is gone.
    sh(scene.lab.host(1), "iptables -w -A OUTPUT -p icmp -j DROP");
    let mut router = scene.router();
    let mut client = scene.vehicles(1);
    all_back(&mut client);
    let mut strangers = ready(scene.strangers("strangers", "arq", "strays"));
    let before = scene.traffic();
    strangers.tell("go");
    std::thread::sleep(FLOOD / 4);
    router.kill();
    mark(&mut client);
    let _router = scene.router();
    let back = all_back(&mut client);
    let sent: u64 = strangers.answer().parse().expect("a count");
    let after = scene.traffic();
    let [received, answered] = [0, 1].map(|side| after[side] - before[side]);
    println!("{sent} strays in {FLOOD:?}, {received} bytes in, {answered} out; the client is back {back:?} after the restart");
    assert!(sent as f64 >= FLOOD_HZ * FLOOD.as_secs_f64() * LEAST_FLOOD);
    // The limit is 16,384 RESETs a second, 63 bytes each on this wire; the client's own packets are few.
    assert!(answered <= 17_000 * 63 * FLOOD.as_secs(), "{answered} bytes");
    assert!(back <= SEEN_WITHIN + AGAIN_AFTER, "{back:?}");
}

/// A hundred begin at once and say no more: an honest one opens as usual. What it meets over `quic/` is told beside.
#[test]
fn clients_that_never_finish_keep_nobody_out() {
    let _alone = alone();
    let Some(scene) = Scene::new("clients_that_never_finish") else { return };
    for link in ["quic", "arq"] {
        let _router = ready(scene.start(1, "router", &[("ENDPOINT", scene.endpoint(link))]));
        let usual = scene.opening(link).expect("a link opens where nobody else does");
        let mut unfinished = scene.strangers("unfinished", link, "HELLO");
        let answered: usize = unfinished.answer().parse().expect("a count");
        let opened = scene.opening(link);
        println!("{link}: {answered} of {HALF_OPEN} answered; within {PATIENCE:?} a link opens after {opened:?}, {usual:?} before");
        if link == "arq" {
            assert_eq!(answered, HALF_OPEN);
            let opened = opened.expect("an honest link opens");
            assert!(opened <= usual + Duration::from_millis(500), "{opened:?}, {usual:?} before");
        }
    }
}
