// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What comes back after it was away: routers, interfaces, networks.

use std::time::{Duration, Instant};

use arq_bench::measure::certificates::Certificates;
use netlab::{Host, Lab};

use crate::{
    beside_others,
    sessions::{ready, role, sh},
    support::{lab_or_skip, Role},
    unreachable::{udp_port, LATER, LINKS, PSK},
};

/// What is dialled instead of a router's own address.
const SERVICE: &str = "10.77.0.200";

fn subscriber(host: &Host, link: &str, address: &str) -> Role {
    ready(role(host, "subscriber", "listen", &[format!("{link}/{address}:7447")]))
}

/// The longest of several waits, and all of them for the eye.
fn longest(case: &str, link: &str, waits: &[Duration]) -> Duration {
    println!("{case}: data again after {waits:?} over {link}");
    waits.iter().copied().max().unwrap_or_default()
}

/// Routers crash and are started again; a client publishes on. `keys` are those of `arq/`.
fn a_router_restarts(case: &str, times: usize, keys: &str) {
    let _beside = beside_others();
    let Some(lab) = lab_or_skip(case) else { return };
    let address = lab.host(1).ipv4().to_string();
    let [tcp, arq] = LINKS.map(|link| {
        let keys = if link == "arq" { keys } else { "" };
        let endpoint = [format!("{link}/{address}:7447{keys}")];
        let subscriber = || ready(role(lab.host(1), "subscriber", "listen", &endpoint));
        let mut router = subscriber();
        let _publisher = ready(role(lab.host(0), "publisher", "connect", &endpoint));
        assert_eq!(router.answer(), "message");
        let waits: Vec<_> = (0..times)
            .map(|_| {
                router.kill();
                router = subscriber();
                let back = Instant::now();
                assert_eq!(router.answer(), "message");
                back.elapsed()
            })
            .collect();
        longest(case, link, &waits)
    });
    assert!(arq <= tcp + LATER, "{case}: {arq:?} over arq, {tcp:?} over tcp");
}

#[test]
fn a_router_that_restarts_ten_times_has_its_client_back_as_soon_as_over_tcp() {
    a_router_restarts("ten restarts", 10, "");
}

#[test]
fn a_secured_router_that_restarts_has_its_client_back_as_soon_as_over_tcp() {
    let certificates = Certificates::make(vec!["10.77.0.2".to_owned()]).expect("certificates");
    for keys in [PSK.to_owned(), certificates.of_listener(), certificates.mutual()] {
        a_router_restarts("secured restarts", 3, &keys);
    }
}

/// Sends what is meant for the service to `host`.
fn serve_from(lab: &Lab, host: usize) {
    let to = lab.host(host).ipv4();
    let rules = ["udp", "tcp"].map(|protocol| {
        format!("iptables -t nat -A OUTPUT -d {SERVICE} -p {protocol} -j DNAT --to {to}")
    });
    sh(lab.host(0), &format!("iptables -t nat -F OUTPUT && {}", rules.join(" && ")));
}

/// The address is that of a service: whoever is behind it changes, and what was sent to the one before goes on being sent
/// there by the table of connections.
#[test]
fn a_router_replaced_behind_nat_is_found_as_soon_as_over_tcp() {
    let _beside = beside_others();
    if lab_or_skip("a router replaced").is_none() {
        return;
    }
    let lab = Lab::new(3).expect("a lab of three");
    sh(lab.host(0), &format!("ip route replace {SERVICE} dev eth0"));
    let [tcp, arq] = LINKS.map(|link| {
        serve_from(&lab, 1);
        let mut router = subscriber(lab.host(1), link, "0.0.0.0");
        let endpoint = [format!("{link}/{SERVICE}:7447")];
        let _publisher = ready(role(lab.host(0), "publisher", "connect", &endpoint));
        assert_eq!(router.answer(), "message");
        let mut next = subscriber(lab.host(2), link, "0.0.0.0");
        serve_from(&lab, 2);
        router.kill();
        let killed = Instant::now();
        assert_eq!(next.answer(), "message");
        longest("replaced behind NAT", link, &[killed.elapsed()])
    });
    assert!(arq <= tcp + LATER, "{arq:?} over arq, {tcp:?} over tcp");
}

/// A node is up before its network.
#[test]
fn an_interface_that_comes_20_s_late_is_used_as_soon_as_over_tcp() {
    let _beside = beside_others();
    let Some(lab) = lab_or_skip("a late interface") else { return };
    let address = lab.host(1).ipv4().to_string();
    let [tcp, arq] = LINKS.map(|link| {
        let mut router = subscriber(lab.host(1), link, &address);
        lab.unplug(0).expect("it can be unplugged");
        let endpoint = [format!("{link}/{address}:7447")];
        let _publisher = ready(role(lab.host(0), "persistent_publisher", "connect", &endpoint));
        std::thread::sleep(Duration::from_secs(20));
        lab.plug(0).expect("it can be plugged in");
        let plugged = Instant::now();
        assert_eq!(router.answer(), "message");
        longest("an interface 20 s late", link, &[plugged.elapsed()])
    });
    assert!(arq <= tcp + LATER, "{arq:?} over arq, {tcp:?} over tcp");
}

/// The route goes and comes, for less than zenoh's lease each time: the system refuses to send meanwhile.
#[test]
fn a_route_that_flaps_ends_no_link() {
    let _beside = beside_others();
    let Some(lab) = lab_or_skip("a route that flaps") else { return };
    let endpoint = [format!("arq/{}:7447", lab.host(1).ipv4())];
    let mut router = ready(role(lab.host(1), "subscriber", "listen", &endpoint));
    let _publisher = ready(role(lab.host(0), "publisher", "connect", &endpoint));
    assert_eq!(router.answer(), "message");
    let port = udp_port(lab.host(0));
    for away in [200, 1_000, 4_000, 200, 1_000, 4_000] {
        sh(lab.host(0), "ip route add unreachable 10.77.0.2/32");
        std::thread::sleep(Duration::from_millis(away));
        sh(lab.host(0), "ip route del unreachable 10.77.0.2/32");
        for _ in 0..5 {
            assert_eq!(router.answer(), "message");
        }
    }
    assert_eq!(udp_port(lab.host(0)), port, "the same link");
}
