// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Nobody is there, and the system knows: how long does a link wait?

use std::time::{Duration, Instant};

use arq_bench::measure::certificates::Certificates;
use netlab::Host;

use crate::{
    beside_others,
    sessions::{ready, role, sh},
    support::lab_or_skip,
};

/// How much later than over TCP something may happen over `arq/`.
pub(crate) const LATER: Duration = Duration::from_millis(500);
pub(crate) const LINKS: [&str; 2] = ["tcp", "arq"];
pub(crate) const PSK: &str = "#psk_base64=Zm9yIHRoZSB0ZXN0cyBvbmx5IQ==";
/// A network for documentation (RFC 5737), which no host of a lab has a route to.
const NO_ROUTE: &str = "192.0.2.1";
/// In the network of the lab, and nobody's.
const NO_NEIGHBOUR: &str = "10.77.0.99";
/// What docker's bridge has on every host.
const OWN_BRIDGE: &str = "172.17.0.1";

/// Opens sessions where the first address of the list is a dead one, over each link in turn.
fn a_dead_address_first(case: &str, dead: &str, prepare: &str) {
    let _beside = beside_others();
    let Some(lab) = lab_or_skip(case) else { return };
    sh(lab.host(0), prepare);
    let took = LINKS.map(|link| {
        let good = format!("{link}/{}:7447", lab.host(1).ipv4());
        let _listener = ready(role(lab.host(1), "listener", "listen", std::slice::from_ref(&good)));
        let list = [format!("{link}/{dead}"), good];
        let took = role(lab.host(0), "opener", "connect", &list).answer();
        Duration::from_millis(took.parse().expect("milliseconds"))
    });
    println!("{case}: open after {took:?} over {LINKS:?}");
    assert!(took[1] <= took[0] + LATER, "{case}: {took:?} over {LINKS:?}");
}

#[test]
fn an_own_bridge_in_the_list_delays_nothing() {
    let prepare = format!("ip link add bridge0 type bridge && ip addr add {OWN_BRIDGE}/16 dev bridge0 && ip link set bridge0 up");
    a_dead_address_first("own bridge", &format!("{OWN_BRIDGE}:7447"), &prepare);
}

#[test]
fn a_closed_port_in_the_list_delays_nothing() {
    a_dead_address_first("closed port", "10.77.0.2:9", "true");
}

#[test]
fn a_closed_port_of_ipv6_in_the_list_delays_nothing() {
    a_dead_address_first("closed port of IPv6", "[fd77::2]:9", "true");
}

#[test]
fn an_address_without_a_route_in_the_list_delays_nothing() {
    a_dead_address_first("no route", &format!("{NO_ROUTE}:7447"), "true");
}

#[test]
fn a_route_that_is_prohibited_delays_nothing() {
    let prepare = format!("ip route add prohibit {NO_ROUTE}");
    a_dead_address_first("prohibited route", &format!("{NO_ROUTE}:7447"), &prepare);
}

#[test]
fn an_own_firewall_that_rejects_delays_nothing() {
    let prepare = "iptables -A OUTPUT -d 10.77.0.3 -j REJECT";
    a_dead_address_first("own firewall", "10.77.0.3:7447", prepare);
}

#[test]
fn a_neighbour_that_is_not_there_is_waited_for_no_longer_than_over_tcp() {
    a_dead_address_first("no neighbour", &format!("{NO_NEIGHBOUR}:7447"), "true");
}

/// Kills a process that has said that it lives, and measures how long the other believes it. `keys` are those of `arq/`.
fn a_killed_process(case: &str, hosts: [usize; 2], address: &str, keys: &str, later: Duration) {
    let _beside = beside_others();
    let Some(lab) = lab_or_skip(case) else { return };
    let gone = LINKS.map(|link| {
        let keys = if link == "arq" { keys } else { "" };
        let endpoint = [format!("{link}/{address}:7447{keys}")];
        let mut witness = ready(role(lab.host(hosts[0]), "witness", "listen", &endpoint));
        let mut token = ready(role(lab.host(hosts[1]), "token", "connect", &endpoint));
        assert_eq!(witness.answer(), "came");
        // Not just after it was heard.
        std::thread::sleep(Duration::from_millis(700));
        token.kill();
        let killed = Instant::now();
        assert_eq!(witness.answer(), "gone");
        killed.elapsed()
    });
    println!("{case}: gone after {gone:?} over {LINKS:?}");
    assert!(gone[1] <= gone[0] + later, "{case}: {gone:?} over {LINKS:?}");
}

#[test]
fn a_killed_process_leaves_the_graph_at_once_on_the_loopback() {
    a_killed_process("killed on the loopback", [1, 1], "127.0.0.1", "", LATER);
}

#[test]
fn a_killed_process_leaves_the_graph_at_once_on_one_host() {
    a_killed_process("killed on one host", [1, 1], "10.77.0.2", "", LATER);
}

/// Nobody is asked before a second of silence, nor believed before a quarter of one.
#[test]
fn a_killed_process_of_a_secured_link_leaves_the_graph_within_a_second() {
    let certificates = Certificates::make(vec!["10.77.0.2".to_owned()]).expect("certificates");
    for keys in [PSK.to_owned(), certificates.of_listener(), certificates.mutual()] {
        a_killed_process("killed, secured", [1, 0], "10.77.0.2", &keys, 2 * LATER);
    }
}

/// Sends reports that nothing arrives at the router's port, with quotes that are guessed, for 3 s.
const FORGER: &str = r#"
import random, socket, struct, sys, time
victim, peer, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
def total(data):
    words = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    words = (words >> 16) + (words & 0xffff)
    return ~(words + (words >> 16)) & 0xffff
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
address = socket.inet_aton
begin, count = time.time(), 0
while time.time() < begin + 3:
    quote = bytes([random.choice([0xa8, 0xa9, 0xa0])]) + random.randbytes(27)
    udp = struct.pack("!4H", port, 7447, 36, 0) + quote
    inner = struct.pack("!BBHHHBBH4s4s", 69, 0, 56, 1, 0, 64, 17, 0, address(victim), address(peer)) + udp
    icmp = struct.pack("!BBHI", 3, random.choice([0, 1, 3, 3, 3, 13]), 0, 0) + inner
    icmp = icmp[:2] + struct.pack("!H", total(icmp)) + icmp[4:]
    ip = struct.pack("!BBHHHBBH4s4s", 69, 0, 20 + len(icmp), 0, 0, 64, 1, 0, address(peer), address(victim))
    raw.sendto(ip + icmp, (victim, 0))
    count += 1
print(count)
"#;

#[test]
fn forged_reports_from_off_the_path_end_no_link() {
    let _beside = beside_others();
    let Some(lab) = lab_or_skip("forged reports") else { return };
    let endpoint = [format!("arq/{}:7447", lab.host(1).ipv4())];
    let mut subscriber = ready(role(lab.host(1), "subscriber", "listen", &endpoint));
    let _publisher = ready(role(lab.host(0), "publisher", "connect", &endpoint));
    assert_eq!(subscriber.answer(), "message");
    let port = udp_port(lab.host(0));
    let (victim, peer) = (lab.host(0).ipv4().to_string(), lab.host(1).ipv4().to_string());
    let mut forger = lab.host(1).command("python3");
    forger.args(["-c", FORGER, &victim, &peer, &port.to_string()]);
    let forger = std::thread::spawn(move || forger.output().expect("python3"));
    // Thirty are sent meanwhile.
    for _ in 0..30 {
        assert_eq!(subscriber.answer(), "message");
    }
    let forged = forger.join().expect("the forger");
    let forged = String::from_utf8_lossy(&forged.stdout).trim().to_owned();
    println!("{forged} reports forged");
    assert!(forged.parse::<u32>().is_ok_and(|count| count > 1_000), "{forged}");
    assert_eq!(udp_port(lab.host(0)), port, "the same link");
}

/// The port of the only UDP socket of a host.
pub(crate) fn udp_port(host: &Host) -> u16 {
    let table = std::fs::read_to_string(format!("/proc/{}/net/udp", host.pid())).expect("a table");
    let ports = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1));
    let ports = ports.filter_map(|local| local.rsplit_once(':'));
    let ports: Vec<_> = ports.map(|(_, port)| u16::from_str_radix(port, 16)).collect();
    let [Ok(port)] = ports[..] else { panic!("one socket: {table}") };
    port
}
