// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Do vehicles and a monitor find each other, does the demo run and stop, and does its page show what the monitors say?
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod browser;
mod page;
#[path = "../support/mod.rs"]
mod support;

use std::net::{TcpListener, UdpSocket};

use arq_examples::v2v::monitor::Report;

use support::{output, Running};

const V2V_DEMO: &str = env!("CARGO_BIN_EXE_v2v_demo");
const V2V_MONITOR: &str = env!("CARGO_BIN_EXE_v2v_monitor");
const V2V_VEHICLE: &str = env!("CARGO_BIN_EXE_v2v_vehicle");

#[test]
fn help_teaches_with_an_example() {
    for (program, taught) in [
        (V2V_DEMO, ["--against", "--page", "--duration", "v2v_demo --drop 20"]),
        (V2V_DEMO, ["--radios", "--fades", "switches on the page", "v2v_demo --fades --radios 2"]),
        (V2V_VEHICLE, ["--vehicle", "--connect", "--seed", "v2v_vehicle -v 1"]),
        (V2V_MONITOR, ["--publish", "--listen", "--json", "v2v_monitor -l"]),
    ] {
        let (code, help, _) = output(program, &["--help"]);
        assert_eq!(code, Some(0), "{program}");
        for words in taught {
            assert!(help.contains(words), "{program} does not teach {words}:\n{help}");
        }
    }
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (program, arguments, code, words) in [
        (V2V_DEMO, &["--vehicles", "1"][..], 2, "2..=64"),
        (V2V_DEMO, &["--against", "pigeons"], 2, "tcp-bbr"),
        (V2V_DEMO, &["--radios", "3"], 2, "1..=2"),
        (V2V_DEMO, &["--radios", "2", "--vehicles", "33"], 1, "at most 32 --vehicles"),
        (V2V_DEMO, &["--drop", "99"], 1, "drop_percent of 99 is not possible here: 0 to 60"),
        (V2V_DEMO, &["--duration", "0"], 2, "0.1 to 86400"),
        (V2V_DEMO, &["--page", &taken], 1, "--page 127.0.0.1:0"),
        (V2V_VEHICLE, &["-v", "9", "--vehicles", "3"], 1, "raise --vehicles"),
        (V2V_MONITOR, &["-v", "3", "--vehicles", "3"], 1, "raise --vehicles"),
        (V2V_VEHICLE, &["-e", "arp/127.0.0.1:7447"], 1, "arp/127.0.0.1:7447"),
    ] {
        let (status, _, said) = output(program, arguments);
        assert_eq!(status, Some(code), "{program} {arguments:?}: {said}");
        assert!(said.contains(words), "{program} {arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{program} {arguments:?}: {said}");
    }
}

#[test]
fn a_monitor_knows_vehicles_over_arq() {
    monitor_knows_vehicles(&format!("arq/{}#preset=v2v", free_port()));
}

#[test]
fn a_monitor_knows_vehicles_over_tcp() {
    monitor_knows_vehicles(&format!("tcp/{}", free_port()));
}

/// Two programs drive three vehicles; the monitor, in the fourth, hears of them all.
fn monitor_knows_vehicles(endpoint: &str) {
    let world = ["--seed", "7", "--vehicles", "4", "--no-multicast-scouting"];
    let listen = [&["--json", "--publish", "-l", endpoint][..], &world].concat();
    let mut monitor = Running::start(V2V_MONITOR, &listen);
    let mut vehicles = [&["1", "-v", "2"][..], &["3"]].map(|numbers| {
        Running::start(V2V_VEHICLE, &[&["-e", endpoint, "-v"][..], numbers, &world].concat())
    });
    let known = std::iter::from_fn(|| monitor.line("{")).find_map(|line| {
        let report: Report = serde_json::from_str(&line).unwrap();
        let fresh = report.vehicles.iter().filter(|v| v.age_ms.is_some_and(|age| age < 2_000.0));
        (fresh.count() == 3 && report.perceptions > 3).then_some(report)
    });
    let known = known.expect("the monitor ended before it knew all vehicles");
    assert_eq!((known.own, known.unreadable, known.link.as_str()), (0, 0, endpoint));
    for vehicle in known.vehicles {
        let world = arq_examples::v2v::world::World::new(world_of(7, 4));
        let age = std::time::Duration::from_secs_f64(vehicle.age_ms.unwrap() / 1e3);
        let then = std::time::Duration::from_secs_f64(known.at_ms / 1e3) - age;
        let truth = world.motion(vehicle.vehicle, then).unwrap().position;
        let off_m = vehicle.position.unwrap().distance_m(truth);
        assert!(off_m < 0.1, "vehicle {} is {off_m} m off", vehicle.vehicle);
    }
    // A signal ends each program in order; a vehicle tells what it has done.
    for vehicle in &mut vehicles {
        vehicle.interrupt();
        let told = vehicle.line("messages published").expect("its last line");
        assert!(!told.starts_with("0 "), "{told}");
        assert_eq!(vehicle.wait(), Some(0));
    }
    monitor.interrupt();
    assert_eq!(monitor.wait(), Some(0));
}

#[test]
fn a_program_ends_after_its_duration_and_with_standard_input() {
    let alone = ["--no-multicast-scouting", "--vehicles", "2"];
    let timed = [&alone[..], &["--duration", "0.5"]].concat();
    assert_eq!(output(V2V_VEHICLE, &timed).0, Some(0));
    assert_eq!(output(V2V_MONITOR, &timed).0, Some(0));
    // Also where a client waits for its router.
    let nowhere = format!("arq/{}", free_port());
    let waits = ["-m", "client", "--cfg", "connect/timeout_ms:-1", "-e", &nowhere];
    let (code, _, complained) = output(V2V_VEHICLE, &[&timed[..], &waits].concat());
    assert_eq!(code, Some(0), "{complained}");
    assert!(complained.contains("before a session was open"), "{complained}");
    // `output` gives no standard input.
    assert_eq!(output(V2V_VEHICLE, &[&alone[..], &["--with-stdin"]].concat()).0, Some(0));
}

#[test]
fn standard_output_has_the_reports_and_standard_error_the_log() {
    let nowhere = format!("arq/{}", free_port());
    let debug = ["RUST_LOG=zenoh=debug", V2V_MONITOR, "--json", "--duration", "1"];
    let alone = ["--no-multicast-scouting", "-e", &nowhere];
    let (code, said, logged) = output("env", &[&debug[..], &alone].concat());
    assert_eq!(code, Some(0), "{logged}");
    assert!(said.lines().count() > 2 && said.lines().all(|line| line.starts_with('{')), "{said}");
    assert!(logged.contains(" DEBUG ") && !logged.contains('\x1b'), "{logged}");
}

#[test]
fn a_program_that_is_alone_says_so() {
    let nowhere = format!("arq/{}", free_port());
    let alone = ["--no-multicast-scouting", "-e", &nowhere, "--duration", "8"];
    // A client that waits for its router, as one with this file does, has no session yet.
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/cellular.json5");
    let waits = ["-m", "client", "-c", file];
    for (program, more) in [(V2V_VEHICLE, &[][..]), (V2V_MONITOR, &[]), (V2V_VEHICLE, &waits)] {
        let (code, _, complained) = output(program, &[&alone, more].concat());
        assert_eq!(code, Some(0));
        let hint = "Nobody is connected yet. Is a router or a peer listening where -e or the file points to";
        assert_eq!(complained.matches(hint).count(), 1, "{program} {more:?}: {complained}");
    }
}

fn world_of(seed: u64, vehicles: u32) -> arq_examples::v2v::world::WorldArgs {
    arq_examples::v2v::world::WorldArgs { seed, vehicles }
}

/// An address on this host whose port was free a moment ago.
fn free_port() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().to_string()
}
