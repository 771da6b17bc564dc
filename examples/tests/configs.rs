// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Does every file of `configs/` do what it is for? Each is loaded as zenoh loads it, its locators are checked, and
//! sessions opened from it carry traffic both ways. Only addresses are changed, and multicast is off.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use zenoh::qos::{CongestionControl, Priority, Reliability};
use zenoh::sample::Sample;
use zenoh::session::Link;
use zenoh::{Config, Session, Wait};
use zenoh_config::EndPoint;
use zenoh_link::LinkKind;
use zenoh_link_arq::config::LinkConfig;

/// Files for both ends of one network whose nodes reach each other: the mode comes from the program.
const NEAR: [&str; 3] = ["lan", "wifi-robot", "v2v"];
/// Files for both ends of one network whose nodes reach the router only.
const FAR: [&str; 3] = ["cellular", "leo-satellite", "geo-satellite"];
/// Files for one end, each used by name in a test below; the secured ones in `zenoh-link/tests/secured`, which makes their
/// certificates.
const ROLES: [&str; 13] = [
    "router",
    "peer",
    "client",
    "ros2-router",
    "ros2-session",
    "router-to-router-site",
    "router-to-router-robot",
    "multilink-router",
    "multilink-robot",
    "two-radios-vehicle",
    "two-radios-robot",
    "secured-router",
    "secured-vehicle",
];
const MODES: [&str; 3] = ["router", "peer", "client"];

#[test]
fn every_file_is_carried_by_a_test_and_named_in_the_readme() {
    let tested: BTreeSet<_> =
        NEAR.iter().chain(&FAR).chain(&ROLES).map(ToString::to_string).collect();
    assert_eq!(files(), tested, "configs/ and the lists of this test");
    let readme = std::fs::read_to_string(folder().join("README.md")).unwrap();
    for name in tested {
        assert!(
            readme.contains(&format!("({name}.json5)")),
            "README.md does not link {name}.json5"
        );
    }
}

#[test]
fn every_file_loads_and_its_locators_are_valid() {
    for name in files() {
        let config = load(&name);
        let mut arq = 0;
        for endpoint in ["listen", "connect"]
            .into_iter()
            .flat_map(|side| MODES.map(|mode| endpoints(&config, side, mode)))
            .flatten()
        {
            LinkKind::try_from(&endpoint).unwrap_or_else(|e| panic!("{name}: {endpoint}: {e}"));
            if endpoint.protocol().as_str() == "arq" {
                LinkConfig::parse(&endpoint).unwrap_or_else(|e| panic!("{name}: {endpoint}: {e}"));
                arq += 1;
            }
        }
        assert!(arq > 0, "{name} has no arq/ locator");
    }
}

#[test]
fn a_router_serves_two_clients() {
    let router = Node::of("router").open();
    let [a, b] = [(); 2].map(|()| Node::of("client").dial(&router).open());
    carry_both_ways(&a, &b);
    assert_eq!([protocols(&a), protocols(&b)], [["arq"], ["arq"]]);
}

#[test]
fn two_peers_talk_directly() {
    let first = Node::of("peer").open();
    // On a network they would find each other by multicast.
    let second = Node::of("peer").connect_to(&[locator(&first, "arq")]).open();
    carry_both_ways(&first, &second);
    assert_eq!([protocols(&first), protocols(&second)], [["arq"], ["arq"]]);
}

#[test]
fn near_media_join_a_router_and_two_peers() {
    for medium in NEAR {
        let router = Node::of(medium).mode("router").open();
        medium_carries(medium, router, || Node::of(medium).mode("peer"));
    }
}

#[test]
fn far_media_join_a_router_and_two_clients() {
    for medium in FAR {
        let router = Node::of(medium).mode("router").open();
        medium_carries(medium, router, || Node::of(medium));
    }
}

#[test]
fn robots_that_are_kept_apart_talk_as_clients() {
    let router = Node::of("wifi-robot").mode("router").open();
    medium_carries("wifi-robot", router, || Node::of("wifi-robot").mode("client"));
}

#[test]
fn vehicles_meet_without_a_router() {
    let first = Node::of("v2v").mode("peer").connect_to(&[]).open();
    let second = Node::of("v2v").mode("peer").dial(&first).open();
    carry_both_ways(&first, &second);
    assert_eq!([protocols(&first), protocols(&second)], [["arq"], ["arq"]]);
}

#[test]
fn a_ros_router_serves_stock_nodes_and_arq_nodes() {
    let router = Node::of("ros2-router").open();
    // As rmw_zenoh starts them.
    let stock = stock(&router, "peer");
    let [a, b] = [(); 2].map(|()| Node::of("ros2-session").dial(&router).open());
    carry_both_ways(&stock, &a);
    carry_both_ways(&a, &b);
    assert_eq!([protocols(&a), protocols(&b)], [["arq"], ["arq"]]);
    assert_eq!(protocols(&stock), ["tcp"]);
}

#[test]
fn ros_routers_join_their_stock_nodes() {
    let here = Node::of("ros2-router").open();
    // The line that the file has commented out.
    let there = Node::of("ros2-router").connect_to(&[locator(&here, "arq")]).open();
    carry_both_ways(&stock(&here, "peer"), &stock(&there, "peer"));
    assert_eq!(to(&there, &here), ["arq"]);
}

/// The rules that docs/ros2.md advises, between stock nodes that know nothing of priorities.
#[test]
fn rules_at_ros_routers_give_topics_their_priority() {
    let ruled = || {
        let mut router = Node::of("ros2-router");
        router.set("qos/network", &rules_of_the_ros_page());
        router
    };
    let here = ruled().open();
    let there = ruled().connect_to(&[locator(&here, "arq")]).open();
    let (robot, base) = (stock(&there, "peer"), stock(&here, "peer"));

    let priority = |topic| {
        let key = format!("0/robot1/{topic}/RIHS01_0");
        carry_as(&robot, &base, &key, Reliability::Reliable).priority()
    };
    assert_eq!(priority("cmd_vel/geometry_msgs::msg::dds_::Twist_"), Priority::RealTime);
    assert_eq!(priority("emergency_stop/std_msgs::msg::dds_::Bool_"), Priority::RealTime);
    assert_eq!(priority("image_raw/sensor_msgs::msg::dds_::Image_"), Priority::DataLow);
    let compressed = "image_raw/compressed/sensor_msgs::msg::dds_::CompressedImage_";
    assert_eq!(priority(compressed), Priority::DataLow);
    assert_eq!(priority("scan/sensor_msgs::msg::dds_::LaserScan_"), Priority::Data);
}

#[test]
fn routers_join_nodes_that_know_only_tcp() {
    let site = Node::of("router-to-router-site").open();
    let robot = Node::of("router-to-router-robot").dial(&site).open();
    carry_both_ways(&stock(&site, "client"), &stock(&robot, "client"));
    assert_eq!(to(&robot, &site), ["arq"]);
}

/// zenoh compares the endpoint of a link that is lost with those of the file.
#[test]
fn one_of_several_links_is_dialled_again() {
    for endpoint in endpoints(&load("multilink-robot"), "connect", "peer") {
        assert_eq!(endpoint, endpoint.to_locator().to_endpoint(), "with a key it is not");
    }
}

#[test]
fn links_share_a_session_by_priority_and_reliability() {
    let router = Node::of("multilink-router").open();
    let robot = Node::of("multilink-robot").dial(&router).open();
    let station = stock(&router, "client");
    await_links(&robot, &[("arq", (0, 3)), ("arq", (0, 3)), ("tcp", (4, 7))]);

    let bytes_over_arq = |key, reliability| {
        let before = bytes_sent_to(&locator(&router, "arq"));
        carry_as(&robot, &station, key, reliability);
        bytes_sent_to(&locator(&router, "arq")) - before
    };
    let whole = PAYLOAD_BYTES as u64;
    let control = bytes_over_arq("robot/1/control/speed", Reliability::Reliable);
    assert!(control >= whole, "control: {control} bytes over arq/");
    let bulk = bytes_over_arq("robot/1/camera", Reliability::Reliable);
    assert!(bulk < whole / 2, "bulk: {bulk} bytes over arq/");
    let best_effort = bytes_over_arq("robot/1/scan", Reliability::BestEffort);
    assert!(best_effort >= whole, "best effort: {best_effort} bytes over arq/");

    carry(&station, &robot, "robot/1/command");
}

#[test]
fn one_link_leads_over_two_radios() {
    let router = Node::of("router").open();
    for (name, radios) in
        [("two-radios-vehicle", "wlan0,wwan0:backup"), ("two-radios-robot", "wlan0,wlan1")]
    {
        // The only interface that every machine has.
        let [a, b] = [(); 2].map(|()| Node::of(name).over(radios, "lo").dial(&router).open());
        carry_both_ways(&a, &b);
        for session in [&a, &b] {
            assert_eq!(session.info().links().wait().count(), 1, "{name}");
        }
    }
}

/// A session that will be opened from a file.
struct Node {
    config: Config,
}

impl Node {
    fn of(name: &str) -> Self {
        let mut node = Self { config: load(name) };
        node.set("scouting/multicast/enabled", &Value::Bool(false));
        node
    }

    /// As a program of this mode, whatever the file says.
    fn mode(mut self, mode: &str) -> Self {
        self.set("mode", &mode.into());
        if mode == "router" {
            assert!(endpoints(&self.config, "connect", mode).is_empty(), "a router dials nobody");
        }
        self
    }

    /// Each endpoint that the file connects to, at the address where `server` listens on its protocol.
    fn dial(self, server: &Session) -> Self {
        let wanted = endpoints(&self.config, "connect", &self.effective_mode());
        assert!(!wanted.is_empty(), "the file connects to something");
        let readdressed = wanted.iter().map(|endpoint| {
            let there = locator(server, endpoint.protocol().as_str());
            readdress(endpoint, there.address().as_str())
        });
        let readdressed: Vec<_> = readdressed.collect();
        self.connect_to(&readdressed)
    }

    /// Through another interface than those that the file names.
    fn over(self, radios: &str, interface: &str) -> Self {
        let wanted = endpoints(&self.config, "connect", &self.effective_mode());
        let elsewhere = wanted.iter().map(|endpoint| {
            let text = endpoint.to_string();
            assert!(text.contains(radios), "{text} leads over {radios}");
            text.replace(radios, interface).parse().unwrap()
        });
        let elsewhere: Vec<EndPoint> = elsewhere.collect();
        self.connect_to(&elsewhere)
    }

    fn connect_to(mut self, endpoints: &[EndPoint]) -> Self {
        let endpoints: Vec<_> = endpoints.iter().map(ToString::to_string).collect();
        self.set("connect/endpoints", &endpoints.into());
        self
    }

    /// Opens it on loopback ports that the kernel chooses.
    fn open(mut self) -> Session {
        let listen = endpoints(&self.config, "listen", &self.effective_mode());
        let listen = listen.iter().map(|endpoint| readdress(endpoint, "127.0.0.1:0").to_string());
        self.set("listen/endpoints", &listen.collect());
        zenoh::open(self.config).wait().unwrap()
    }

    fn effective_mode(&self) -> String {
        let mode = self.config.get_json("mode").unwrap();
        serde_json::from_str::<Option<String>>(&mode).unwrap().unwrap_or_else(|| "peer".to_owned())
    }

    fn set(&mut self, key: &str, value: &Value) {
        let inserted = self.config.insert_json5(key, &value.to_string());
        inserted.unwrap_or_else(|e| panic!("{key}: {value}: {e}"));
    }
}

/// A node without `arq/` in its config, as zenoh's users have them.
fn stock(router: &Session, mode: &str) -> Session {
    let mut config = Config::default();
    config.insert_json5("mode", &Value::from(mode).to_string()).unwrap();
    config.insert_json5("listen/endpoints", r#"{ peer: ["tcp/127.0.0.1:0"] }"#).unwrap();
    config.insert_json5("scouting/multicast/enabled", "false").unwrap();
    let endpoints = Value::from(vec![format!("tcp/{}", locator(router, "tcp").address())]);
    config.insert_json5("connect/endpoints", &endpoints.to_string()).unwrap();
    zenoh::open(config).wait().unwrap()
}

/// Two nodes and their router talk over `arq/` only.
fn medium_carries(medium: &str, router: Session, node: impl Fn() -> Node) {
    let [a, b] = [(); 2].map(|()| node().dial(&router).open());
    carry_both_ways(&a, &b);
    carry_both_ways(&router, &a);
    for session in [&router, &a, &b] {
        assert_eq!(protocols(session), ["arq"], "{medium}");
    }
}

fn carry_both_ways(a: &Session, b: &Session) {
    carry(a, b, "test/configs/there");
    carry(b, a, "test/configs/back");
}

fn carry(from: &Session, to: &Session, key: &str) {
    carry_as(from, to, key, Reliability::Reliable);
}

/// A publication of many packets reaches the other session whole, as soon as the routes are known.
fn carry_as(from: &Session, to: &Session, key: &str, reliability: Reliability) -> Sample {
    let subscriber = to.declare_subscriber(key.to_owned()).wait().unwrap();
    let publisher = from.declare_publisher(key.to_owned());
    let publisher = publisher.congestion_control(CongestionControl::Block).reliability(reliability);
    let publisher = publisher.wait().unwrap();
    let matching = publisher.matching_listener().wait().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !publisher.matching_status().wait().unwrap().matching() {
        let change = matching.recv_deadline(deadline).unwrap();
        assert!(change.is_some(), "no route for {key} within {PATIENCE:?}");
    }
    let payload = vec![b'z'; PAYLOAD_BYTES];
    publisher.put(payload.clone()).wait().unwrap();
    let sample = subscriber.recv_timeout(PATIENCE).unwrap();
    let sample = sample.unwrap_or_else(|| panic!("{key} did not arrive within {PATIENCE:?}"));
    assert!(sample.payload().to_bytes() == payload, "{key} arrived damaged");
    sample
}

/// Waits until these links stand, by protocol and priorities.
fn await_links(session: &Session, wanted: &[(&str, (u8, u8))]) {
    let info = session.info();
    let changes = info.link_events_listener().wait().unwrap();
    let deadline = Instant::now() + PATIENCE;
    let stands = |(protocol, priorities): &(&str, (u8, u8))| {
        info.links().wait().any(|link| {
            link.dst().protocol().as_str() == *protocol && link.priorities() == Some(*priorities)
        })
    };
    while !(wanted.iter().all(stands) && info.links().wait().count() == wanted.len()) {
        let change = changes.recv_deadline(deadline).unwrap();
        assert!(change.is_some(), "links: {:?}", info.links().wait().collect::<Vec<_>>());
    }
}

fn bytes_sent_to(listener: &EndPoint) -> u64 {
    let associations = zenoh_link_arq::statistics();
    let there = associations.iter().filter(|a| a.dst.address() == listener.address());
    there.map(|association| association.stats.bytes_sent).sum()
}

/// The protocols of the session's links, each once.
fn protocols(session: &Session) -> Vec<String> {
    protocols_of(session.info().links().wait())
}

/// The protocols of its links to that one.
fn to(session: &Session, other: &Session) -> Vec<String> {
    protocols_of(session.info().links().wait().filter(|link| *link.zid() == other.zid()))
}

fn protocols_of(links: impl Iterator<Item = Link>) -> Vec<String> {
    let protocols: BTreeSet<_> =
        links.map(|link| link.dst().protocol().as_str().to_owned()).collect();
    protocols.into_iter().collect()
}

/// Where the session listens.
fn locators(session: &Session) -> Vec<EndPoint> {
    session.info().locators().wait().into_iter().map(EndPoint::from).collect()
}

fn locator(session: &Session, protocol: &str) -> EndPoint {
    let mut locators = locators(session).into_iter();
    let found = locators.find(|locator| locator.protocol().as_str() == protocol);
    found.unwrap_or_else(|| panic!("the session does not listen on {protocol}"))
}

/// The same endpoint elsewhere.
fn readdress(endpoint: &EndPoint, address: &str) -> EndPoint {
    let (metadata, config) = (endpoint.metadata(), endpoint.config());
    EndPoint::new(endpoint.protocol().as_str(), address, metadata.as_str(), config.as_str())
        .unwrap()
}

/// What a config says of one side for one mode: a list for all modes, or one by mode.
fn endpoints(config: &Config, side: &str, mode: &str) -> Vec<EndPoint> {
    let value = config.get_json(&format!("{side}/endpoints")).unwrap();
    let value: Value = serde_json::from_str(&value).unwrap();
    let list = if value.is_object() { value[mode].clone() } else { value };
    let list: Option<Vec<String>> = serde_json::from_value(list).unwrap();
    list.unwrap_or_default().iter().map(|endpoint| endpoint.parse().unwrap()).collect()
}

fn load(name: &str) -> Config {
    let file = folder().join(name).with_extension("json5");
    Config::from_file(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// The rules for zenoh's `qos/network` that docs/ros2.md prints.
fn rules_of_the_ros_page() -> Value {
    let page = std::fs::read_to_string(folder().join("../docs/ros2.md")).unwrap();
    let (_, section) = page.split_once("## Priorities by topic").unwrap();
    let (_, block) = section.split_once("```json5\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let config = Config::from_json5(block).unwrap_or_else(|e| panic!("{block}: {e}"));
    serde_json::from_str(&config.get_json("qos/network").unwrap()).unwrap()
}

/// The names of all files but the README, and those for cargo in a folder of their own.
fn files() -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let configs = entries.filter(|path| path.is_file() && !path.ends_with("README.md"));
    configs
        .map(|path| {
            assert!(path.extension().is_some_and(|ext| ext == "json5"), "{}", path.display());
            path.file_stem().unwrap().to_str().unwrap().to_owned()
        })
        .collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs")
}

const PAYLOAD_BYTES: usize = 50_000;
const PATIENCE: Duration = Duration::from_secs(20);
