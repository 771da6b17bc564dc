// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What do zenoh's sessions tell of the keys of their secured links, in the log of a process, in errors, in the admin
//! space? A process of its own, for it has one log.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

#[path = "../../link-arq/tests/log/mod.rs"]
mod log;
#[path = "secured/pki.rs"]
mod pki;
#[path = "secured/settings.rs"]
mod settings;
#[allow(dead_code, reason = "each test takes what it needs")]
mod support;

use std::{
    collections::BTreeSet,
    fs,
    sync::{
        mpsc::{channel, Receiver},
        LazyLock, Mutex,
    },
};

use log::Lines;
use pki::Fleet;
use settings::Settings;
use support::{carry, chosen_port, connect, listen, patiently};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt::layer,
    layer::{Layer, SubscriberExt},
    util::SubscriberInitExt,
};
use zenoh::Session;

/// The crates of this repository that have a part in a link.
const OURS: [&str; 5] = ["zenoh_link", "zenoh_link_arq", "arq_tokio", "arq_proto", "arq_tls"];

/// What the process has logged.
struct Log {
    comes: Receiver<String>,
    lines: Vec<String>,
}

impl Log {
    fn holding(&mut self, word: &str) -> Vec<String> {
        self.lines.extend(self.comes.try_iter());
        self.lines.iter().filter(|line| line.contains(word)).cloned().collect()
    }
}

/// All lines, and those of our crates alone, at all levels.
static LOGS: LazyLock<[Mutex<Log>; 2]> = LazyLock::new(|| {
    let ([all, ours], [all_come, ours_come]) = {
        let (all, ours) = (channel(), channel());
        ([all.0, ours.0], [all.1, ours.1])
    };
    let of_ours = Targets::new().with_targets(OURS.map(|target| (target, LevelFilter::TRACE)));
    tracing_subscriber::registry()
        .with(layer().with_ansi(false).with_writer(Lines(all)).with_filter(LevelFilter::TRACE))
        .with(layer().with_ansi(false).with_writer(Lines(ours)).with_filter(of_ours))
        .init();
    [all_come, ours_come].map(|comes| Mutex::new(Log { comes, lines: Vec::new() }))
});

fn logged(word: &str) -> Vec<String> {
    LOGS[0].lock().unwrap().holding(word)
}

fn logged_by_ours(word: &str) -> Vec<String> {
    LOGS[1].lock().unwrap().holding(word)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = |chunk: &[u8]| {
        let bits =
            (0..3).fold(0, |bits, i| bits << 8 | chunk.get(i).map_or(0, |b| usize::from(*b)));
        let digit = |i| match i <= chunk.len() {
            true => char::from(DIGITS[bits >> (18 - 6 * i) & 63]),
            false => '=',
        };
        [digit(0), digit(1), digit(2), digit(3)]
    };
    bytes.chunks(3).flat_map(digits).collect()
}

/// A pre-shared key, and the ways in which it could be told.
struct Psk {
    text: String,
    forms: Vec<String>,
}

impl Psk {
    fn new() -> Self {
        let bytes: [u8; 33] = std::array::from_fn(|_| fastrand::u8(..));
        let text = base64(&bytes);
        let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let numbers = format!("{bytes:?}").replace(['[', ']'], "");
        Self { forms: vec![text.clone(), base64(text.as_bytes()), hex, numbers], text }
    }
}

/// The ways in which a private key could be told: its lines, and what zenoh's configuration has of it.
fn forms_of_pem(pem: &str) -> Vec<String> {
    let lines = pem.lines().filter(|line| !line.starts_with("---"));
    lines.map(str::to_owned).chain([base64(pem.as_bytes())]).collect()
}

/// Two sessions that listen and connect with these endpoints, and all that they tell outside of the log.
async fn told(endpoints: [&str; 2], settings: [&Settings; 2]) -> Vec<String> {
    LazyLock::force(&LOGS);
    let [router, vehicle] =
        settings.map(|settings| settings.clone().with("adminspace/enabled", true));
    let router = listen(endpoints[0], &router.pairs()).await;
    let there = chosen_port(endpoints[1], &router).await;
    match connect(&there, &vehicle.pairs()).await {
        Ok(vehicle) => {
            carry(&vehicle, &router, "fleet/here").await;
            let told = admin_spaces(&vehicle, [&router, &vehicle]).await;
            vehicle.close().await.unwrap();
            router.close().await.unwrap();
            told
        }
        Err(error) => vec![format!("{error} {error:?}")],
    }
}

/// What `session` reads in the admin spaces of these sessions.
async fn admin_spaces(session: &Session, of: [&Session; 2]) -> Vec<String> {
    let prefixes = of.map(|session| format!("@/{}/", session.zid()));
    patiently("both admin spaces answer", async {
        loop {
            let (replies, mut texts) = (session.get("@/*/**").await.unwrap(), Vec::new());
            while let Ok(reply) = replies.recv_async().await {
                let sample = reply.into_result().unwrap();
                let value = String::from_utf8_lossy(&sample.payload().to_bytes()).into_owned();
                texts.push(format!("{} {value}", sample.key_expr()));
            }
            let has = |prefix: &String| texts.iter().any(|text| text.starts_with(prefix));
            if prefixes.iter().all(has) {
                assert!(texts.iter().any(|text| text.contains("arq/127.0.0.1:")), "{texts:#?}");
                return texts;
            }
        }
    })
    .await
}

fn assert_hold_none(told: &[String], secrets: &[String]) {
    for secret in secrets {
        let telling: Vec<_> = told.iter().filter(|text| text.contains(secret)).collect();
        assert!(telling.is_empty(), "{secret} is in {telling:#?}");
    }
}

/// Neither what was told nor the log holds any of `secrets`.
fn assert_kept(told: &[String], secrets: &[String]) {
    assert_hold_none(told, secrets);
    for secret in secrets {
        assert_eq!(logged(secret), [""; 0], "{secret}");
    }
}

const AT: &str = "arq/127.0.0.1:0";

/// As `security.md` wants it: keys of the section are embedded or in files.
#[tokio::test(flavor = "multi_thread")]
async fn embedded_private_keys_are_kept() {
    let fleet = Fleet::new();
    let embedded = |settings: Settings, part: &'static str, file: &str| {
        let pem = fs::read(fleet.path(file)).unwrap();
        settings.with(part, format!("{:?}", base64(&pem)))
    };
    let common = Settings::default().with("transport/link/tls/enable_mtls", true);
    let common = embedded(common, "transport/link/tls/root_ca_certificate_base64", "ca.pem");
    let router = common.clone();
    let router = embedded(router, "transport/link/tls/listen_certificate_base64", "router.pem");
    let router = embedded(router, "transport/link/tls/listen_private_key_base64", "router.key");
    let vehicle = embedded(common, "transport/link/tls/connect_certificate_base64", "vehicle.pem");
    let vehicle = embedded(vehicle, "transport/link/tls/connect_private_key_base64", "vehicle.key");
    let told = told([AT, AT], [&router, &vehicle]).await;
    assert!(told.len() > 1, "they do not meet: {told:?}");
    for file in ["router.key", "vehicle.key"] {
        let key = fs::read_to_string(fleet.path(file)).unwrap();
        assert_kept(&told, &forms_of_pem(&key));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pre_shared_key_in_a_file_is_kept() {
    let (fleet, psk, nothing) = (Fleet::new(), Psk::new(), Settings::default());
    fleet.write("psk", &psk.text);
    let endpoint = format!("{AT}#psk_file={}", fleet.path("psk").display());
    let told = told([&endpoint, &endpoint], [&nothing, &nothing]).await;
    assert!(told.len() > 1, "they do not meet: {told:?}");
    assert_kept(&told, &psk.forms);
    let path = fleet.path("psk").display().to_string();
    assert!(!logged(&path).is_empty(), "zenoh does not log endpoints: this shows nothing");
}

/// zenoh logs endpoints as they are written. None of our lines does, and of zenoh's only those at these levels.
fn assert_told_by_zenoh_alone(psk: &Psk, levels: &[&str]) {
    for form in &psk.forms {
        assert_eq!(logged_by_ours(form), [""; 0]);
    }
    let lines = logged(&psk.text);
    let telling: BTreeSet<_> =
        lines.iter().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(telling, levels.iter().copied().collect(), "SECURITY.md is to say so: {lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pre_shared_key_in_an_endpoint_is_told_by_zenoh_alone() {
    let (psk, nothing) = (Psk::new(), Settings::default());
    let endpoint = format!("{AT}#psk_base64={}", psk.text);
    let told = told([&endpoint, &endpoint], [&nothing, &nothing]).await;
    assert!(told.len() > 1, "they do not meet: {told:?}");
    assert_hold_none(&told, &psk.forms);
    assert!(!logged_by_ours("arq link opened").is_empty(), "our lines are in no log");
    assert_told_by_zenoh_alone(&psk, &["DEBUG"]);
}

/// Where no link opens, zenoh's warnings and its error hold the endpoint, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_in_an_endpoint_is_told_by_zenoh_alone() {
    let (right, wrong, nothing) = (Psk::new(), Psk::new(), Settings::default());
    let [listens, connects] = [&right, &wrong]
        .map(|psk| format!("{AT}#handshake_timeout_ms=500;psk_base64={}", psk.text));
    let told = told([&listens, &connects], [&nothing, &nothing]).await;
    assert_hold_none(&told, &right.forms);
    assert_told_by_zenoh_alone(&right, &["DEBUG"]);
    assert_told_by_zenoh_alone(&wrong, &["DEBUG", "WARN"]);
    assert!(told[0].contains(&wrong.text), "SECURITY.md is to say so: {told:?}");
}
