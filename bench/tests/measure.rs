// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Does a measurement say what really happened, over every kind of link, and does it end cleanly when it cannot?
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use arq_bench::measure::{measure, Job, MeasureError, Patience, Phase, Progress};
use arq_bench::traffic::{Link, Load};
use arq_report::opponent::{Carrier, Opponent};
use arq_report::record::{FlowResult, Measurement};
use arq_report::scenario::flow::Flow;
use netlab::wire::{Conditions, Loss, Wire};
use netlab::Network;
use parking_lot::{Mutex, MutexGuard};

use support::{network_or_skip, skipped};

/// One load at a time: on two cores, tests beside each other measure each other.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}

fn link(name: &str, endpoint: &str) -> Opponent {
    let text = serde_json::json!({ "name": name, "about": "a link", "endpoint": endpoint });
    serde_json::from_value(text).unwrap()
}

fn kcp() -> Opponent {
    serde_json::from_str(r#"{"name":"kcp","about":"KCP","carrier":"kcp"}"#).unwrap()
}

/// Every kind of link; the flag says whether it repairs losses.
fn links() -> Vec<(Opponent, bool)> {
    let at = "{host}:{port}";
    let ws = cfg!(feature = "ws").then(|| (link("ws", &format!("ws/{at}")), true));
    let links = vec![
        (link("tcp", &format!("tcp/{at}")), true),
        (link("udp", &format!("udp/{at}")), false),
        (link("udp-rel", &format!("udp/{at}?rel=1")), true),
        (link("quic", &format!("quic/{at}")), true),
        (link("quic-unreliable", &format!("quic/{at}?rel=0")), false),
        (link("tls", &format!("tls/{at}")), true),
        (link("arq", &format!("arq/{at}")), true),
        (kcp(), true),
    ];
    links.into_iter().chain(ws).collect()
}

fn flow(keys: serde_json::Value) -> Flow {
    serde_json::from_value(keys).unwrap()
}

fn periodic(payload_bytes: usize, rate_hz: f64, messages: u64) -> Flow {
    flow(serde_json::json!({
        "name": "beacon", "payload_bytes": payload_bytes, "pattern": "periodic", "rate_hz": rate_hz,
        "messages": messages,
    }))
}

fn lossy(percent: f64) -> Conditions {
    let loss = if percent > 0.0 { Loss::Random { percent } } else { Loss::None };
    let wire = Wire { loss, delay_ms: 0.2, ..Wire::default() };
    Conditions { forward: wire.clone(), backward: wire, ..Conditions::default() }
}

/// Measures with the patience of a test.
struct Bench {
    network: Network,
    port: u16,
    patience: Patience,
}

impl Bench {
    fn new(network: Network) -> Self {
        let patience = Patience {
            open: Duration::from_secs(10),
            grace: Duration::from_secs(2),
            longest: Duration::from_secs(20),
        };
        Self { network, port: 7447, patience }
    }

    fn try_measure(
        &mut self,
        opponent: &Opponent,
        flows: &[Flow],
        network: &Conditions,
        on_progress: &dyn Fn(Progress),
    ) -> Result<Measurement, MeasureError> {
        self.port += 10;
        let job = Job {
            opponent,
            opponents: &[link("tcp", "tcp/{host}:{port}")],
            flows,
            network,
            seed: 1,
            patience: self.patience,
            port: self.port,
            program: Path::new(env!("CARGO_BIN_EXE_arq-bench")),
        };
        measure(&mut self.network, &job, on_progress)
    }

    fn measure(&mut self, opponent: &Opponent, flows: &[Flow], percent: f64) -> Measurement {
        let measured = self.try_measure(opponent, flows, &lossy(percent), &|_| ());
        measured.unwrap_or_else(|e| panic!("{}: {e}", opponent.name))
    }
}

fn show(link: &Opponent, loss: f64, measured: &Measurement) {
    let FlowResult { offered, delivered, percentiles, .. } = &measured.flows[0];
    let (forward, publisher) = (measured.forward, measured.publisher);
    println!(
        "{:<16} {loss:>2} %: {delivered}/{offered} p50 {:?} p99 {:?} ms, {} packets ({} lost), {} bytes, cpu {:.3} s, rss {} KiB, \
         again {:?}, {} samples in flight",
        link.name,
        percentiles.p50,
        percentiles.p99,
        forward.entered_packets,
        forward.lost,
        forward.entered_bytes,
        publisher.cpu_s,
        publisher.peak_rss_bytes >> 10,
        measured.tcp_retransmissions.or(measured.arq_retransmissions),
        measured.in_flight.len(),
    );
}

#[test]
fn every_link_delivers_everything_over_a_clean_network() {
    let _alone = alone();
    let Some(network) = network_or_skip("every_link_delivers_everything", 2) else { return };
    let mut bench = Bench::new(network);
    for (link, _) in links() {
        let measured = bench.measure(&link, &[periodic(5_000, 100.0, 50)], 0.0);
        show(&link, 0.0, &measured);
        let flow = &measured.flows[0];
        let name = &link.name;
        assert_eq!((flow.offered, flow.delivered, flow.duplicates), (50, 50, 0), "{name}");
        assert_eq!(flow.out_of_order, 0, "{name}");
        assert_eq!((flow.messages.len(), flow.kept_every), (50, 1), "{name}");
        assert_eq!(flow.arrived_bytes.iter().sum::<u64>(), 250_000, "{name}");
        // The first message leaves at 0, the last at 490 ms.
        assert!((0.49..3.0).contains(&flow.duration_s), "{name}: {} s", flow.duration_s);
        assert!(measured.forward.entered_bytes > 250_000, "{name}: {:?}", measured.forward);
        assert!(measured.publisher.cpu_s > 0.0 && measured.subscriber.cpu_s > 0.0, "{name}");
        assert!(measured.publisher.peak_rss_bytes > 1 << 20, "{name}");
        let is_tcp = ["tcp", "tls", "ws"].contains(&name.as_str());
        assert_eq!(measured.tcp_retransmissions.is_some(), is_tcp, "{name}");
        assert_eq!(measured.arq_retransmissions.is_some(), name == "arq", "{name}");
        let tells = is_tcp || name == "arq";
        assert_eq!(measured.in_flight.len() >= 5, tells, "{name}: {:?}", measured.in_flight);
    }
}

#[test]
fn what_is_lost_is_repaired_or_reported() {
    let _alone = alone();
    let Some(network) = network_or_skip("what_is_lost_is_repaired_or_reported", 2) else { return };
    let mut bench = Bench::new(network);
    for (link, repairs) in links() {
        let measured = bench.measure(&link, &[periodic(3_000, 100.0, 80)], 10.0);
        show(&link, 10.0, &measured);
        let (flow, name) = (&measured.flows[0], &link.name);
        assert!(measured.forward.lost > 0, "{name}: {:?}", measured.forward);
        if repairs {
            // Without any repair some 58 would arrive.
            assert!(flow.delivered >= 76, "{name}: {}", flow.delivered);
        } else {
            assert!((20..80).contains(&flow.delivered), "{name}: {}", flow.delivered);
            assert_eq!(flow.percentiles.p99, None, "{name}");
            assert!(flow.messages.iter().any(|(_, latency)| latency.is_none()), "{name}");
        }
        let again = match name.as_str() {
            "tcp" => measured.tcp_retransmissions,
            "arq" => measured.arq_retransmissions,
            _ => continue,
        };
        assert!(again > Some(0), "{name} sent nothing again");
    }
}

#[test]
fn every_pattern_runs_and_flows_share_a_cell() {
    let _alone = alone();
    let Some(network) = network_or_skip("every_pattern_runs", 2) else { return };
    let mut bench = Bench::new(network);
    let flows = [
        flow(
            serde_json::json!({"name": "flood", "payload_bytes": 1000, "pattern": "flood", "seconds": 0.3,
            "priority": "background", "own_session": true}),
        ),
        flow(
            serde_json::json!({"name": "transfer", "payload_bytes": 20_000, "pattern": "transfer",
            "messages": 10, "start_s": 0.2}),
        ),
        flow(
            serde_json::json!({"name": "ping", "payload_bytes": 16, "pattern": "ping-pong", "messages": 50,
            "priority": "real_time"}),
        ),
    ];
    for opponent in [link("arq", "arq/{host}:{port}"), kcp()] {
        let Measurement { flows, .. } = bench.measure(&opponent, &flows, 0.0);
        let delivered: Vec<_> = flows.iter().map(|flow| (flow.offered, flow.delivered)).collect();
        println!("{}: {delivered:?}, round trip {:?}", opponent.name, flows[2].percentiles);
        assert!(flows[0].offered > 100, "{delivered:?}");
        assert_eq!(flows[0].offered, flows[0].delivered, "{delivered:?}");
        assert_eq!(delivered[1..], [(10, 10), (50, 50)]);
        // All of a transfer is due at its begin: its last message ends it.
        let whole = flows[1].percentiles.max.unwrap() / 1e3;
        assert!((whole - flows[1].duration_s).abs() < 1e-6, "{whole} {}", flows[1].duration_s);
        assert!(flows[2].percentiles.p50 < Some(500.0), "{:?}", flows[2].percentiles);
    }
}

#[test]
fn sessions_are_opened_one_after_the_other_under_loss() {
    let _alone = alone();
    let Some(network) = network_or_skip("sessions_are_opened", 2) else { return };
    let mut bench = Bench::new(network);
    let opening = flow(
        serde_json::json!({"name": "open", "payload_bytes": 300, "pattern": "opening", "messages": 5}),
    );
    for opponent in [link("tcp", "tcp/{host}:{port}"), link("arq", "arq/{host}:{port}")] {
        let measured = bench.measure(&opponent, std::slice::from_ref(&opening), 10.0);
        let flow = &measured.flows[0];
        println!("{}: {:?}", opponent.name, flow.messages);
        assert_eq!((flow.offered, flow.delivered), (5, 5));
        assert!(flow.percentiles.p50 > Some(0.1), "{:?}", flow.percentiles);
    }
    let refused = bench.try_measure(&kcp(), &[opening], &lossy(0.0), &|_| ());
    assert!(refused.unwrap_err().to_string().contains("KCP has none"));
}

#[test]
fn a_rival_has_its_own_link_in_the_same_cell() {
    let _alone = alone();
    let Some(network) = network_or_skip("a_rival_has_its_own_link", 2) else { return };
    let mut bench = Bench::new(network);
    let mut rival = periodic(1_000, 100.0, 20);
    rival.link = Some("tcp".to_owned());
    let flows = [periodic(1_000, 100.0, 20), rival.clone()];
    let measured = bench.measure(&link("arq", "arq/{host}:{port}"), &flows, 0.0);
    assert_eq!(measured.flows.iter().map(|flow| flow.delivered).sum::<u64>(), 40);
    // What the kernel repairs for the rival is not the merit of the link under test.
    assert_eq!(measured.tcp_retransmissions, None);
    rival.link = Some("nobody".to_owned());
    let error = bench.try_measure(&kcp(), &[rival], &lossy(0.0), &|_| ()).unwrap_err();
    assert!(error.to_string().contains("`nobody`"), "{error}");
}

/// What a command prints in the namespace of a process; nothing where that is refused.
fn inside(pid: u32, command: &[&str]) -> String {
    let mut nsenter = Command::new("nsenter");
    nsenter.args(["-t", &pid.to_string(), "-n", "--"]).args(command);
    nsenter
        .output()
        .map(|out| String::from_utf8_lossy(&out.stdout).into_owned())
        .unwrap_or_default()
}

#[test]
fn kernel_settings_are_applied_and_put_back_on_the_wire_and_on_the_loopback() {
    let _alone = alone();
    let Some(network) = network_or_skip("kernel_settings_are_applied", 2) else { return };
    let mut bench = Bench::new(network);
    let sack = ["cat", "/proc/sys/net/ipv4/tcp_sack"];
    let mut opponent = link("tcp-no-sack", "tcp/{host}:{port}");
    opponent.sysctl.insert("net.ipv4.tcp_sack".to_owned(), "0".to_owned());
    opponent.tcp_congestion_control = Some("reno".to_owned());
    let host = bench.network.host(1).pid();
    let may_look = inside(host, &["echo", "yes"]) == "yes\n";
    if !may_look {
        skipped("kernel_settings_are_applied", "nsenter may not look into the host");
    }
    let before = inside(host, &sack);
    for network in [lossy(0.0), Conditions::default()] {
        let seen = RefCell::new(None);
        let look = |progress: Progress| {
            if progress.phase == Phase::Running && seen.borrow().is_none() {
                let connections = inside(host, &["ss", "-tinH"]);
                seen.replace(Some((inside(host, &sack), connections.contains(" reno "))));
            }
        };
        let measured = bench.try_measure(&opponent, &[periodic(1_000, 50.0, 20)], &network, &look);
        let measured = measured.unwrap();
        assert_eq!(measured.flows[0].delivered, 20);
        let crosses_the_wire = measured.forward.entered_packets > 0;
        assert_eq!(crosses_the_wire, !network.is_clean(), "{:?}", measured.forward);
        if may_look {
            assert_eq!(seen.take(), Some(("0\n".to_owned(), true)), "{network:?}");
            assert_eq!(inside(host, &sack), before);
        }
    }
}

#[test]
fn a_kernel_parameter_that_is_lacking_is_named_and_the_others_are_put_back() {
    let _alone = alone();
    let Some(network) = network_or_skip("a_kernel_parameter_that_is_lacking", 2) else { return };
    let mut bench = Bench::new(network);
    let host = bench.network.host(0).pid();
    let sack = || inside(host, &["cat", "/proc/sys/net/ipv4/tcp_sack"]);
    let before = sack();
    let mut opponent = link("tcp-tuned", "tcp/{host}:{port}");
    // They are set in the order of their names.
    for (parameter, value) in [("net.ipv4.tcp_sack", "0"), ("net.ipv4.tcp_zzz", "1")] {
        opponent.sysctl.insert(parameter.to_owned(), value.to_owned());
    }
    let flows = [periodic(1_000, 50.0, 20)];
    let refused = bench.try_measure(&opponent, &flows, &lossy(0.0), &|_| ()).unwrap_err();
    assert!(matches!(refused, MeasureError::NoKernelParameter { .. }), "{refused}");
    assert!(!refused.blames_link() && refused.to_string().contains("`net.ipv4.tcp_zzz`"));
    assert_eq!(sack(), before);
}

/// The processes of this program in a host of the network, by id and role.
fn processes_in(host: u32) -> Vec<(i32, String)> {
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let ours = namespace(&host.to_string());
    let names = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = names.filter_map(|entry| entry.file_name().into_string().ok());
    pids.filter(|pid| namespace(pid) == ours)
        .filter_map(|pid| {
            let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
            let role = command.split('\0').nth(1)?.to_owned();
            let is_ours = ["publish", "subscribe"].contains(&role.as_str());
            is_ours.then(|| Some((pid.parse().ok()?, role)))?
        })
        .collect()
}

#[test]
fn a_process_that_dies_is_named_and_the_network_lives_on() {
    let _alone = alone();
    let Some(network) = network_or_skip("a_process_that_dies_is_named", 2) else { return };
    let mut bench = Bench::new(network);
    let tcp = link("tcp", "tcp/{host}:{port}");
    for (host, role, name) in [(1, "subscribe", "subscriber"), (0, "publish", "publisher")] {
        let holder = bench.network.host(host).pid();
        let victim = Cell::new(None);
        let kill = |progress: Progress| {
            if progress.sent > 5 && victim.get().is_none() {
                let (pid, found) = processes_in(holder).pop().unwrap();
                assert_eq!(found, role);
                victim.set(Some(pid));
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL)
                    .unwrap();
            }
        };
        let died = bench.try_measure(&tcp, &[periodic(500, 50.0, 500)], &lossy(5.0), &kill);
        let error = died.unwrap_err();
        assert!(error.blames_link());
        let error = error.to_string();
        assert!(
            error.contains(&format!("{name} process ended")) && error.contains("signal: 9"),
            "{error}"
        );
        for host in [0, 1] {
            assert_eq!(
                processes_in(bench.network.host(host).pid()),
                [],
                "after the {name}'s death"
            );
        }
        assert_eq!(bench.measure(&tcp, &[periodic(500, 100.0, 20)], 0.0).flows[0].delivered, 20);
    }
}

#[test]
fn a_port_in_use_and_a_session_that_never_opens_are_told() {
    let _alone = alone();
    let Some(network) = network_or_skip("a_port_in_use_is_told", 2) else { return };
    let mut bench = Bench::new(network);
    let flows = [periodic(500, 100.0, 20)];
    let port = bench.port + 10;
    let squatter = Load {
        links: vec![Link {
            carrier: Carrier::Zenoh,
            endpoint: format!("tcp/{}:{port}", bench.network.host(1).ipv4()),
            connect: String::new(),
            zenoh: BTreeMap::new(),
        }],
        flows: Vec::new(),
        seed: 1,
        open: bench.patience.open,
        grace: bench.patience.grace,
        longest: bench.patience.longest,
    };
    let mut command = bench.network.host(1).command(env!("CARGO_BIN_EXE_arq-bench"));
    command.args(["subscribe", &serde_json::to_string(&squatter).unwrap()]);
    let mut squatter = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(squatter.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert_eq!(ready.trim(), "\"ready\"");
    let tcp = link("tcp", "tcp/{host}:{port}");
    let error = bench.try_measure(&tcp, &flows, &lossy(0.0), &|_| ()).unwrap_err().to_string();
    assert!(
        error.contains("the subscriber failed") && error.contains(&port.to_string()),
        "{error}"
    );
    squatter.kill().and_then(|()| squatter.wait()).unwrap();

    let mut mute = tcp.clone();
    mute.zenoh.insert("connect/endpoints".to_owned(), "[]".to_owned());
    bench.patience.open = Duration::from_secs(1);
    let error = bench.try_measure(&mute, &flows, &lossy(0.0), &|_| ()).unwrap_err().to_string();
    assert!(
        error.contains("the publisher failed: no session with the subscriber within 1s"),
        "{error}"
    );
    let small = bench.try_measure(&tcp, &[periodic(15, 100.0, 20)], &lossy(0.0), &|_| ());
    let small = small.unwrap_err();
    assert!(!small.blames_link() && small.to_string().contains("needs 16"), "{small}");
    assert_eq!(bench.measure(&tcp, &flows, 0.0).flows[0].delivered, 20);
}
