// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What do the processes of the network tests do inside their hosts?
//!
//! A message is labelled in its attachment (priority, sequence, checksum of the payload), so that the payload can
//! be a single byte. The eighth priority, Control, is zenoh's own: its traffic is the session.

use std::hash::Hasher;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use zenoh::pubsub::Publisher;
use zenoh::qos::{CongestionControl, Priority};
use zenoh::sample::Sample;
use zenoh::{Session, Wait};

use crate::support::{answer, parameter, told};

/// The side of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Listen,
    Connect,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Listen => "listen",
            Self::Connect => "connect",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Listen => Self::Connect,
            Self::Connect => Self::Listen,
        }
    }

    fn of_this_role() -> Self {
        match parameter("KIND").as_str() {
            "listen" => Self::Listen,
            _ => Self::Connect,
        }
    }
}

pub(crate) fn open(mode: &str, kind: Kind) -> zenoh::Result<Session> {
    zenoh::init_log_from_env_or("error");
    let mut config = zenoh::Config::default();
    let endpoint = format!("[\"{}\"]", parameter("ENDPOINT"));
    config.insert_json5("mode", &format!("\"{mode}\""))?;
    config.insert_json5(&format!("{}/endpoints", kind.other().name()), "[]")?;
    config.insert_json5(&format!("{}/endpoints", kind.name()), &endpoint)?;
    config.insert_json5("scouting/multicast/enabled", "false")?;
    config.insert_json5("scouting/gossip/enabled", "false")?;
    let settings = std::env::var("SETTINGS").unwrap_or_default();
    for (key, value) in settings.split(';').filter_map(|setting| setting.split_once(':')) {
        config.insert_json5(key, value)?;
    }
    zenoh::open(config).wait()
}

/// What a message says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Label {
    priority: u8,
    sequence: u32,
    checksum: u64,
}

impl Label {
    fn of(priority: Priority, sequence: u32, payload: &[u8]) -> Self {
        Self { priority: priority as u8, sequence, checksum: checksum(payload) }
    }

    fn encode(self) -> Vec<u8> {
        [&[self.priority][..], &self.sequence.to_be_bytes(), &self.checksum.to_be_bytes()].concat()
    }

    /// Reads the label of a sample, and checks the payload against it.
    fn read(sample: &Sample) -> Result<Self, String> {
        let bytes = sample.attachment().ok_or("a message without label")?.to_bytes();
        let [priority, a, b, c, d, checksum_bytes @ ..] = &*bytes else {
            return Err("a label that is too short".to_owned());
        };
        let expected = checksum_bytes.first_chunk().ok_or("a label without checksum")?;
        let label = Self {
            priority: *priority,
            sequence: u32::from_be_bytes([*a, *b, *c, *d]),
            checksum: u64::from_be_bytes(*expected),
        };
        let intact = checksum(&sample.payload().to_bytes()) == label.checksum;
        intact.then_some(label).ok_or_else(|| format!("{label:?} has another payload"))
    }
}

fn checksum(payload: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(payload);
    hasher.finish()
}

/// What has come, and the first thing that was wrong with it.
#[derive(Default)]
struct Ledger {
    next: [u32; 8],
    received: u64,
    wrong: Option<String>,
    /// A restarted subscriber cannot know the first number.
    any_start: bool,
    /// A publisher that may drop leaves gaps; order still holds.
    gaps: bool,
}

impl Ledger {
    fn note(&mut self, read: Result<Label, String>) {
        match read.and_then(|label| self.check(label)) {
            Ok(()) => self.received += 1,
            Err(wrong) => drop(self.wrong.get_or_insert(wrong)),
        }
    }

    fn check(&mut self, label: Label) -> Result<(), String> {
        let next = &mut self.next[usize::from(label.priority & 7)];
        let is_first = self.any_start && *next == 0;
        if label.sequence != *next && !is_first && !(self.gaps && label.sequence > *next) {
            return Err(format!(
                "priority {}: {} came, {next} was due",
                label.priority, label.sequence
            ));
        }
        *next = label.sequence + 1;
        Ok(())
    }

    fn verdict(&self) -> String {
        self.wrong.clone().unwrap_or_else(|| self.received.to_string())
    }
}

type Shared = Arc<(Mutex<Ledger>, Condvar)>;

fn subscribe(session: &Session, key: &str, ledger: Ledger, slow: Duration) -> Shared {
    let shared: Shared = Arc::new((Mutex::new(ledger), Condvar::new()));
    let noted = Arc::clone(&shared);
    let note = move |sample: Sample| {
        let read = Label::read(&sample);
        std::thread::sleep(slow);
        noted.0.lock().note(read);
        noted.1.notify_all();
    };
    session
        .declare_subscriber(key.to_owned())
        .callback(note)
        .background()
        .wait()
        .expect("a subscriber");
    shared
}

fn verdict(shared: &Shared) -> String {
    shared.0.lock().verdict()
}

pub(crate) fn publisher(
    session: &Session,
    key: &str,
    priority: Priority,
    control: CongestionControl,
) -> Publisher<'static> {
    let publisher =
        session.declare_publisher(key.to_owned()).priority(priority).congestion_control(control);
    publisher.wait().expect("a publisher")
}

pub(crate) fn wait_for_match(publisher: &Publisher<'_>) {
    let started = Instant::now();
    while !publisher.matching_status().wait().expect("a status").matching() {
        assert!(started.elapsed() < Duration::from_secs(20), "no subscriber was found");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn put(publisher: &Publisher<'_>, sequence: u32, payload: &[u8]) {
    let label = Label::of(publisher.priority(), sequence, payload);
    publisher.put(payload).attachment(label.encode()).wait().expect("a publication");
}

/// Bytes that tell one message from another.
pub(crate) fn payload(size: usize, seed: u32) -> Vec<u8> {
    let mut state = u64::from(seed) | 1 << 40;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

/// Sizes and how many of each go out on every priority, in this order.
const EXCHANGE: [(usize, u32); 7] =
    [(1, 50), (1_000, 50), (65_536, 5), (1_000_000, 1), (10_000_000, 1), (1_000, 50), (1, 50)];
const PRIORITIES: [u8; 7] = [1, 2, 3, 4, 5, 6, 7];
const PATIENCE: Duration = Duration::from_secs(240);

/// The verdict of a side that got everything.
pub(crate) fn exchange_complete() -> String {
    let each: u32 = EXCHANGE.iter().map(|(_, count)| count).sum();
    (each as usize * PRIORITIES.len()).to_string()
}

/// Publishes on all priorities at once, and receives as much from the other side.
#[test]
#[ignore = "a role that other tests start"]
fn exchange() {
    let kind = Kind::of_this_role();
    let session = open("peer", kind).expect("a session");
    let shared =
        subscribe(&session, &format!("to/{}", kind.name()), Ledger::default(), Duration::ZERO);
    let key = format!("to/{}", kind.other().name());
    let publishers = PRIORITIES.map(|number| {
        let priority = Priority::try_from(number).expect("a priority");
        publisher(&session, &key, priority, CongestionControl::Block)
    });
    if kind == Kind::Connect {
        publishers.iter().for_each(wait_for_match);
    }
    answer("ready");
    if told().is_none() {
        return;
    }
    publishers.iter().for_each(wait_for_match);
    std::thread::scope(|scope| {
        for publisher in &publishers {
            scope.spawn(move || send_exchange(publisher));
        }
    });
    let due = exchange_complete();
    let is_due = |ledger: &mut Ledger| ledger.wrong.is_none() && ledger.verdict() != due;
    shared.1.wait_while_for(&mut shared.0.lock(), is_due, PATIENCE);
    // A moment for a copy that should not come.
    std::thread::sleep(Duration::from_millis(200));
    answer(verdict(&shared));
    told();
    std::process::exit(0);
}

fn send_exchange(publisher: &Publisher<'_>) {
    let mut sequence = 0;
    for (size, count) in EXCHANGE {
        for _ in 0..count {
            put(publisher, sequence, &payload(size, sequence));
            sequence += 1;
        }
    }
}

/// Opens a session a hundred times, and tells how long each took.
#[test]
#[ignore = "a role that other tests start"]
fn opener() {
    for _ in 0..100 {
        let started = Instant::now();
        let session = open("client", Kind::Connect).expect("a session");
        answer(started.elapsed().as_millis());
        session.close().wait().expect("it closes");
    }
    told();
    std::process::exit(0);
}

/// Receives a stream; tells how much when asked.
#[test]
#[ignore = "a role that other tests start"]
fn stream_subscriber() {
    let is_set = |name| std::env::var_os(name).is_some();
    let ledger =
        Ledger { any_start: is_set("ANY_START"), gaps: is_set("GAPS"), ..Ledger::default() };
    let slow = std::env::var("SLOW_MS").map_or(0, |ms| ms.parse().expect("milliseconds"));
    let session = open("peer", Kind::Listen).expect("a session");
    let shared = subscribe(&session, "stream", ledger, Duration::from_millis(slow));
    answer("ready");
    while told().is_some() {
        answer(verdict(&shared));
    }
    std::process::exit(0);
}

/// Publishes messages of 1 KB at a steady rate; tells its link before and after.
#[test]
#[ignore = "a role that other tests start"]
fn stream_publisher() {
    let messages: u32 = parameter("MESSAGES").parse().expect("a number");
    let rate: u32 = parameter("RATE").parse().expect("a number");
    let session = open("peer", Kind::Connect).expect("a session");
    let publisher = publisher(&session, "stream", Priority::Data, CongestionControl::Block);
    wait_for_match(&publisher);
    answer("ready");
    answer(own_links(&session));
    told();
    let started = Instant::now();
    for sequence in 0..messages {
        let due = Duration::from_secs(1) * sequence / rate;
        std::thread::sleep(due.saturating_sub(started.elapsed()));
        put(&publisher, sequence, &payload(1_000, sequence));
    }
    answer(own_links(&session));
    told();
    std::process::exit(0);
}

/// A new session would have a new local port.
fn own_links(session: &Session) -> String {
    let links = session.info().links().wait().map(|link| link.src().to_string());
    links.collect::<Vec<_>>().join(" ")
}

/// Publishes 64 KB messages as fast as it can until told to stop.
#[test]
#[ignore = "a role that other tests start"]
fn flood_publisher() {
    let control = match parameter("CONGESTION").as_str() {
        "drop" => CongestionControl::Drop,
        _ => CongestionControl::Block,
    };
    let session = open("peer", Kind::Connect).expect("a session");
    let publisher = publisher(&session, "stream", Priority::Data, control);
    wait_for_match(&publisher);
    answer("ready");
    told();
    let sent = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = Arc::clone(&sent);
    std::thread::spawn(move || loop {
        let sequence = counted.load(std::sync::atomic::Ordering::Relaxed);
        put(&publisher, sequence, &payload(60_000, sequence));
        counted.store(sequence + 1, std::sync::atomic::Ordering::Relaxed);
    });
    told();
    answer(sent.load(std::sync::atomic::Ordering::Relaxed));
    told();
    std::process::exit(0);
}
