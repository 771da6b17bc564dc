// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Is the emulated network what it claims, with real frames: delay, loss by seed, wire-sized packets, events, nothing
//! left behind?
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netlab::selftest::{Plan, Section};
use netlab::wire::{Change, Conditions, Event, Fade, Loss, Recording, Wire};
use netlab::{Emulator, EmulatorError, Fate, Network, PacketLog, PacketRecord};
use nix::sys::socket::{setsockopt, sockopt};
use nix::time::{clock_gettime, ClockId};

use support::{network_or_skip, skipped};

const PORT: u16 = 7900;

/// Sockets of hosts `from` and `to`, connected with each other.
fn pair(network: &Network, from: usize, to: usize, v6: bool) -> (UdpSocket, UdpSocket) {
    let open = |index: usize| {
        let host = network.host(index);
        let ip = if v6 { IpAddr::from(host.ipv6()) } else { host.ipv4().into() };
        // A free port: a process that another test starts keeps former sockets for a moment, until it runs its program.
        let socket = host.udp_socket(SocketAddr::new(ip, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        (socket, address)
    };
    let ((a, a_address), (b, b_address)) = (open(from), open(to));
    a.connect(b_address).unwrap();
    b.connect(a_address).unwrap();
    (a, b)
}

fn both(wire: Wire) -> Conditions {
    Conditions { forward: wire.clone(), backward: wire, ..Conditions::default() }
}

#[test]
fn a_second_radio_has_wires_counts_and_events_of_its_own() {
    if network_or_skip("a_second_radio", 2).is_none() {
        return;
    }
    let mut network = Network::with_second_radios(2, 0..1).unwrap();
    assert_eq!((network.second_radio(0), network.second_radio(1)), (Some(2), None));
    let dark = |at_s| Event { at_s, until_s: Some(1e3), every_s: None, change: Change::Blackout };
    let delayed = |delay_ms| both(Wire { delay_ms, ..Wire::default() });
    let second = Conditions { events: vec![dark(1e3)], ..delayed(30.0) };
    let first = Conditions { events: vec![dark(0.0)], ..delayed(1.0) };
    network.begin(&Conditions { second: Some(Box::new(second)), ..first }, 1).unwrap();
    let server = network.host(1).udp_socket("10.77.0.2:7900".parse().unwrap()).unwrap();
    for (address, interface) in [("10.77.0.1:7900", "eth0"), ("10.77.0.3:7900", "eth1")] {
        let socket = network.host(0).udp_socket(address.parse().unwrap()).unwrap();
        setsockopt(&socket, sockopt::BindToDevice, &interface.into()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let (mut buffer, asked) = ([0; 100], Instant::now());
        socket.send_to(b"question", "10.77.0.2:7900").unwrap();
        if interface == "eth1" {
            let (length, from) = server.recv_from(&mut buffer).unwrap();
            server.send_to(&buffer[..length], from).unwrap();
            assert_eq!(socket.recv(&mut buffer).unwrap(), 8);
            assert!(asked.elapsed() >= Duration::from_millis(60), "{:?}", asked.elapsed());
        }
    }
    let count = |network: &mut Network, from, to| {
        let count = network.counts(from, to).unwrap();
        (count.entered_packets, count.left_packets, count.blacked_out)
    };
    assert_eq!(count(&mut network, 0, 1), (1, 0, 1));
    assert_eq!(count(&mut network, 1, 0), (0, 0, 0));
    assert_eq!(count(&mut network, 2, 1), (1, 1, 0));
    assert_eq!(count(&mut network, 1, 2), (1, 1, 0));
}

#[test]
fn conditions_for_a_radio_that_is_not_there_are_refused() {
    let Some(mut network) = network_or_skip("conditions_for_a_radio", 2) else {
        return;
    };
    let second = Some(Box::default());
    let error = network.begin(&Conditions { second, ..Conditions::default() }, 1).unwrap_err();
    assert!(error.to_string().contains("with_second_radios"), "{error}");
    let recording = Some(Recording { name: "no/such".into(), delays: None, start_s: None });
    let error = network.begin(&both(Wire { recording, ..Wire::default() }), 1).unwrap_err();
    assert!(error.to_string().contains("no/such"), "{error}");
    let error = Network::with_second_radios(40, 0..40).err().unwrap().to_string();
    assert!(error.contains("64 radios at most"), "{error}");
}

#[test]
fn both_families_cross_with_the_delay_that_was_asked_for() {
    let Some(mut network) = network_or_skip("both_families_cross", 2) else {
        return;
    };
    for v6 in [false, true] {
        network.begin(&both(Wire { delay_ms: 20.0, ..Wire::default() }), 1).unwrap();
        let (a, b) = pair(&network, 0, 1, v6);
        let mut buffer = [0; 100];
        let asked = Instant::now();
        a.send(b"question").unwrap();
        let length = b.recv(&mut buffer).unwrap();
        b.send(&buffer[..length]).unwrap();
        assert_eq!(a.recv(&mut buffer).unwrap(), 8);
        assert!(asked.elapsed() >= Duration::from_millis(40), "{:?}", asked.elapsed());
        let headers = if v6 { 48 } else { 28 };
        for (from, to) in [(0, 1), (1, 0)] {
            let count = network.counts(from, to).unwrap();
            assert_eq!((count.entered_packets, count.left_packets), (1, 1), "{count:?}");
            assert_eq!(count.left_bytes, 8 + headers, "IP packets are counted, not frames");
        }
        let log = network.packet_log().unwrap();
        let passages = log.packets.iter().map(|p| p.left_ns.unwrap() - p.entered_ns);
        assert!(passages.clone().all(|ns| ns >= 20_000_000), "{log:?}");
    }
}

#[test]
fn three_hosts_have_wires_of_their_own() {
    let Some(mut network) = network_or_skip("three_hosts_have_wires", 3) else {
        return;
    };
    let lossy = Wire { loss: Loss::Random { percent: 100.0 }, ..Wire::default() };
    network.set_wire(1, 2, &lossy).unwrap();
    let (one, two) = pair(&network, 1, 2, false);
    one.send(b"lost").unwrap();
    two.send(b"back").unwrap();
    assert_eq!(one.recv(&mut [0; 100]).unwrap(), 4);
    let (there, back) = (network.counts(1, 2).unwrap(), network.counts(2, 1).unwrap());
    assert_eq!((there.lost, back.left_packets), (1, 1));
    network.set_wire(1, 2, &Wire::default()).unwrap();
    one.send(b"again").unwrap();
    assert_eq!(two.recv(&mut [0; 100]).unwrap(), 5, "a new wire holds at once");
    assert!(matches!(
        network.set_wire(1, 3, &lossy),
        Err(EmulatorError::NoSuchWire { from: 1, to: 3, hosts: 3 })
    ));
}

#[test]
fn a_seed_decides_which_packets_are_lost_and_each_direction_has_its_own() {
    let Some(mut network) = network_or_skip("a_seed_decides", 2) else {
        return;
    };
    let mut lost = |seed| {
        let loss = Loss::Gilbert { percent: 30.0, burst_packets: 3.0 };
        network.begin(&both(Wire { loss, ..Wire::default() }), seed).unwrap();
        let (a, b) = pair(&network, 0, 1, false);
        for _ in 0..2_000 {
            a.send(b"there").unwrap();
            b.send(b"back").unwrap();
        }
        let log = complete_log(&mut network, 4_000);
        [0, 1].map(|from| {
            let ours = log.packets.iter().filter(|p| p.from == from);
            ours.map(|p| p.fate == Fate::Lost).collect::<Vec<_>>()
        })
    };
    let first = lost(1);
    assert_eq!(first, lost(1), "the same seed loses the same packets");
    assert_ne!(first, lost(2));
    assert_ne!(first[0], first[1]);
}

/// The log when at least so many packets have entered.
fn complete_log(network: &mut Network, packets: u64) -> PacketLog {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let (there, back) = (network.counts(0, 1).unwrap(), network.counts(1, 0).unwrap());
        if there.entered_packets + back.entered_packets >= packets {
            let log = network.packet_log().unwrap();
            assert_eq!(log.not_kept, 0);
            return log;
        }
        assert!(Instant::now() < deadline, "the packets do not come: {there:?} {back:?}");
        std::thread::yield_now();
    }
}

#[test]
fn offloaded_packets_are_cut_to_wire_size_and_arrive_whole() {
    let Some(mut network) = network_or_skip("offloaded_packets_are_cut", 2) else {
        return;
    };
    for v6 in [false, true] {
        network.begin(&both(Wire { delay_ms: 1.0, ..Wire::default() }), 1).unwrap();
        tcp_bulk(&network, v6, 5_000_000);
        let log = network.packet_log().unwrap();
        let longest = log.packets.iter().map(|p| p.len_bytes).max();
        assert_eq!(longest, Some(1_500), "no packet above the MTU");
        assert_eq!(network.counts(0, 1).unwrap().emulator_overrun, 0);
    }
    network.begin(&Conditions::default(), 1).unwrap();
    let (a, b) = pair(&network, 0, 1, false);
    setsockopt(&a, sockopt::UdpGsoSegment, &1_000).unwrap();
    let payload: Vec<u8> = (0..40_000u32).map(|i| (i / 1_000) as u8).collect();
    a.send(&payload).unwrap();
    for number in 0..40 {
        let mut segment = [0; 2_000];
        // A wrong checksum would have been dropped by the receiving kernel.
        assert_eq!(b.recv(&mut segment).unwrap(), 1_000);
        assert!(segment[..1_000].iter().all(|byte| *byte == number));
    }
    // The TCP connection of before may still say good-bye.
    let log = network.packet_log().unwrap();
    assert_eq!(log.packets.iter().filter(|p| p.len_bytes == 1_028).count(), 40, "{log:?}");
}

fn tcp_bulk(network: &Network, v6: bool, bytes: usize) {
    let host = network.host(1);
    let ip = if v6 { IpAddr::from(host.ipv6()) } else { host.ipv4().into() };
    let address = SocketAddr::new(ip, PORT);
    let listener = host.tcp_listener(address).unwrap();
    let sink = std::thread::spawn(move || {
        let mut received = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
        received.len()
    });
    let mut stream = network.host(0).tcp_connect(address).unwrap();
    stream.write_all(&vec![7; bytes]).unwrap();
    drop(stream);
    assert_eq!(sink.join().unwrap(), bytes);
}

#[test]
fn a_blackout_comes_and_goes_at_its_times() {
    let Some(mut network) = network_or_skip("a_blackout_comes_and_goes", 2) else {
        return;
    };
    let event = Event { at_s: 0.0, until_s: Some(0.4), every_s: None, change: Change::Blackout };
    network.begin(&Conditions { events: vec![event], ..Conditions::default() }, 1).unwrap();
    let (a, b) = pair(&network, 0, 1, false);
    b.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while b.recv(&mut [0; 10]).is_err() {
        assert!(Instant::now() < deadline, "the blackout does not end");
        a.send(b"hello").unwrap();
    }
    let log = network.packet_log().unwrap();
    let (dark, light): (Vec<PacketRecord>, Vec<PacketRecord>) =
        log.packets.iter().partition(|p| p.entered_ns < 400_000_000);
    assert!(!dark.is_empty() && dark.iter().all(|p| p.fate == Fate::BlackedOut), "{dark:?}");
    assert!(!light.is_empty() && light.iter().all(|p| p.fate == Fate::Passed), "{light:?}");
}

#[test]
fn packets_are_lost_in_the_fades_that_are_told() {
    let Some(mut network) = network_or_skip("packets_are_lost_in_the_fades", 2) else { return };
    let fade = Some(Fade { share_percent: 50.0, mean_ms: 20.0 });
    let asked = now_monotonic();
    network.begin(&both(Wire { fade, ..Wire::default() }), 3).unwrap();
    let began = network.began().unwrap().unwrap();
    assert!(asked <= began && began <= now_monotonic());
    let mut fades = network.fades(0, 1).unwrap().unwrap();
    let (client, _server) = pair(&network, 0, 1, false);
    while now_monotonic() < began + Duration::from_millis(400) {
        client.send(&[0; 100]).unwrap();
        std::thread::yield_now();
    }
    let log = network.packet_log().unwrap();
    let lost = |packet: &&PacketRecord| packet.fate == Fate::Lost;
    assert!(log.packets.iter().filter(lost).count() > 10);
    for packet in &log.packets {
        let is_faded = fades.at(Duration::from_nanos(packet.entered_ns)).is_some();
        assert_eq!(is_faded, packet.fate == Fate::Lost, "{packet:?}");
    }
}

/// The kernel's monotonic clock.
fn now_monotonic() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap().into()
}

#[test]
fn a_restart_keeps_what_is_on_its_way_and_a_beginning_does_not() {
    let Some(mut network) = network_or_skip("a_restart_keeps", 2) else {
        return;
    };
    let slow = both(Wire { delay_ms: 150.0, ..Wire::default() });
    let (a, b) = pair(&network, 0, 1, false);
    network.begin(&slow, 1).unwrap();
    a.send(b"kept").unwrap();
    complete_log(&mut network, 1);
    network.restart(1).unwrap();
    assert_eq!(b.recv(&mut [0; 10]).unwrap(), 4);
    let count = network.counts(0, 1).unwrap();
    assert_eq!((count.entered_packets, count.left_packets), (0, 1));
    a.send(b"gone").unwrap();
    complete_log(&mut network, 1);
    network.begin(&slow, 1).unwrap();
    a.send(b"next!").unwrap();
    assert_eq!(b.recv(&mut [0; 10]).unwrap(), 5);
}

#[test]
fn the_self_test_finds_the_loss_that_was_asked_for() {
    passes("the_self_test_finds_the_loss", Section::Loss);
}

#[test]
fn ping_and_iperf3_agree_with_the_counters() {
    passes("ping_and_iperf3_agree", Section::Tools);
}

fn passes(test: &str, section: Section) {
    let Some(mut network) = network_or_skip(test, 2) else {
        return;
    };
    let plan = Plan { packets: 10_000, seed: 1 };
    for row in section.test(&mut network, &plan).unwrap() {
        assert_ne!(row.passed, Some(false), "{row:?}");
        if row.passed.is_none() {
            skipped(test, format!("{}: {}", row.name, row.measured));
        }
    }
}

#[test]
fn impossible_networks_are_refused_by_name() {
    let refused = |hosts| Network::new(hosts).err().unwrap().to_string();
    assert!(refused(1).contains("2 to 64"), "{}", refused(1));
    assert!(refused(65).contains("2 to 64"));
    let Some(mut network) = network_or_skip("impossible_networks", 2) else {
        return;
    };
    let error = network.begin(&both(Wire { delay_ms: -1.0, ..Wire::default() }), 1).unwrap_err();
    assert!(error.to_string().contains("delay_ms"), "{error}");
}

#[test]
fn netem_is_used_or_its_absence_is_explained() {
    let Some(_) = network_or_skip("netem_is_used", 2) else {
        return;
    };
    let mut network = match Network::with(Emulator::Netem, 2) {
        Ok(network) => network,
        Err(e) => {
            assert!(e.to_string().contains("modprobe sch_netem"), "{e}");
            let why = "this kernel has no netem; the error that says so was tested";
            let _ = writeln!(io::stderr(), "\n*** SKIPPED netem_is_used: {why}\n");
            return;
        }
    };
    network.begin(&both(Wire { delay_ms: 20.0, ..Wire::default() }), 1).unwrap();
    let (a, b) = pair(&network, 0, 1, false);
    let asked = Instant::now();
    a.send(b"hello").unwrap();
    assert_eq!(b.recv(&mut [0; 10]).unwrap(), 5);
    assert!(asked.elapsed() >= Duration::from_millis(20));
    assert_eq!(network.counts(0, 1).unwrap().left_packets, 1);
}

#[test]
fn a_killed_program_leaves_nothing_behind() {
    let Some(_) = network_or_skip("a_killed_program", 2) else {
        return;
    };
    let mut role = Command::new(std::env::current_exe().unwrap());
    role.args(["--exact", "role_network", "--ignored", "--nocapture", "--test-threads=1"]);
    let mut bench = role.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(bench.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.contains("hosts:")).unwrap();
    let pids: Vec<&str> = line.split_once("hosts:").unwrap().1.split_whitespace().collect();
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let made: Vec<_> = pids.iter().map(|pid| namespace(pid).unwrap()).collect();
    bench.kill().unwrap();
    bench.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    let is_held = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let names = processes.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| namespace(&name)).any(|found| made.contains(&found))
    };
    while is_held() {
        assert!(Instant::now() < deadline, "processes are left in {made:?}");
        std::thread::yield_now();
    }
}

#[test]
#[ignore = "a role that another test starts"]
fn role_network() {
    let network = Network::new(2).unwrap();
    let mut sleeper = network.host(1).command("sleep").arg("600").spawn().unwrap();
    println!("\nhosts: {} {} {}", network.host(0).pid(), network.host(1).pid(), sleeper.id());
    // Until the test ends this process.
    let _ = io::stdin().read(&mut [0]);
    drop(network);
    let _ = sleeper.wait();
}
