// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Do the programs teach, refuse nonsense politely, and talk to each other?

mod support;

use std::net::{TcpListener, UdpSocket};

use support::{output, Running};

const Z_PUB: &str = env!("CARGO_BIN_EXE_z_pub");
const Z_SUB: &str = env!("CARGO_BIN_EXE_z_sub");
const Z_PING: &str = env!("CARGO_BIN_EXE_z_ping");
const Z_PONG: &str = env!("CARGO_BIN_EXE_z_pong");
const Z_PUB_THR: &str = env!("CARGO_BIN_EXE_z_pub_thr");
const Z_SUB_THR: &str = env!("CARGO_BIN_EXE_z_sub_thr");
const Z_INFO: &str = env!("CARGO_BIN_EXE_z_info");
const Z_GET: &str = env!("CARGO_BIN_EXE_z_get");
const Z_QUERYABLE: &str = env!("CARGO_BIN_EXE_z_queryable");
const PROGRAMS: [&str; 9] =
    [Z_PUB, Z_SUB, Z_PING, Z_PONG, Z_PUB_THR, Z_SUB_THR, Z_INFO, Z_GET, Z_QUERYABLE];

#[test]
fn help_shows_zenohs_flags_and_an_arq_example() {
    for program in PROGRAMS {
        let (code, help, _) = output(program, &["--help"]);
        assert_eq!(code, Some(0), "{program}");
        for taught in [
            "--mode",
            "--connect",
            "--listen",
            "--config",
            "--cfg",
            "--no-multicast-scouting",
            "arq/",
        ] {
            assert!(help.contains(taught), "{program} does not teach {taught}:\n{help}");
        }
    }
}

#[test]
fn a_bad_locator_is_one_line_and_exit_code_one() {
    for endpoint in ["arp/127.0.0.1:7447", "arq/127.0.0.1:7447#colour=red", "arq/192.0.2.1:7447"] {
        let (code, _, said) = output(Z_INFO, &["-l", endpoint, "--no-multicast-scouting"]);
        assert_eq!(code, Some(1), "{endpoint}: {said}");
        assert!(said.contains("error: ") && said.contains(endpoint), "{endpoint}: {said}");
        assert!(!said.contains("panicked"), "{endpoint}: {said}");
    }
}

#[test]
fn bad_arguments_are_refused_before_anything_starts() {
    for (program, arguments) in [
        (Z_PING, &["many"][..]),
        (Z_PING, &["--warmup=-1", "64"]),
        (Z_PING, &["18446744073709551615"]),
        (Z_PUB_THR, &["-n", "0", "64"]),
        (Z_PUB_THR, &["--priority", "0", "64"]),
        (Z_PUB, &["--reliability", "sometimes"]),
        (Z_SUB, &["-k", "a//b"]),
        (Z_SUB, &["-m", "observer"]),
        (Z_SUB_THR, &["-n", "0"]),
        (Z_GET, &["--target", "nobody"]),
        (Z_QUERYABLE, &["-k", "a//b"]),
    ] {
        assert_eq!(output(program, arguments).0, Some(2), "{program} {arguments:?}");
    }
}

#[test]
fn a_client_of_a_dead_router_is_told_what_to_look_at() {
    let endpoint = free_endpoint("arq");
    let alone = ["-m", "client", "-e", &endpoint, "--cfg", "connect/timeout_ms:500"];
    let (code, _, said) = output(Z_PUB, &alone);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&endpoint) && said.contains("Is a router or a peer listening"), "{said}");
}

#[test]
fn a_port_that_is_taken_is_no_fault_of_the_router() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = format!("tcp/{}", taken.local_addr().expect("its address"));
    let (code, _, said) = output(Z_PUB, &["-l", &taken, "-e", &free_endpoint("arq")]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&taken) && !said.contains("Is a router or a peer"), "{said}");
}

#[test]
fn a_reader_who_goes_away_ends_a_program_without_a_word() {
    let script = format!("{Z_PUB} --no-multicast-scouting -l {} | head -1", free_endpoint("arq"));
    let (code, said, complained) = output("bash", &["-o", "pipefail", "-c", &script]);
    assert_eq!((code, complained.as_str()), (Some(0), ""));
    assert_eq!(said, "Opening session...\n");
}

#[test]
fn a_publication_arrives_over_tcp() {
    publication_arrives("tcp");
}

#[test]
fn a_publication_arrives_over_arq() {
    publication_arrives("arq");
}

#[test]
fn a_query_is_answered_over_arq() {
    let endpoint = free_endpoint("arq");
    let serve = ["-l", &endpoint, "--no-multicast-scouting", "-k", "test/asked", "-p", "me"];
    let mut queryable = ready(Z_QUERYABLE, &serve, "Press CTRL-C");
    let ask = ["-e", &endpoint, "-m", "client", "-s", "test/*", "-p", "who?"];
    let (_, replies, _) = output(Z_GET, &ask);
    assert!(replies.contains(">> Received ('test/asked': 'me')"), "{replies}");
    let query = queryable.line("Received Query").expect("a query");
    assert!(query.contains("'test/*' with payload 'who?'"), "{query}");
}

#[test]
fn ping_pong_and_info_work_over_arq() {
    let endpoint = free_endpoint("arq");
    let _pong = ready(Z_PONG, &["-l", &endpoint, "--no-multicast-scouting"], "Press CTRL-C");
    let (_, info, _) =
        output(Z_INFO, &["-e", &endpoint, "--no-multicast-scouting", "-m", "client"]);
    assert!(info.contains(&format!("-> {endpoint}")), "{info}");
    for figure in ["arq links:", "round trip ", "loss        at most", "batches "] {
        assert!(info.contains(figure), "{figure} in {info}");
    }
    let (_, ping, _) =
        output(Z_PING, &["-e", &endpoint, "--no-multicast-scouting", "-w", "0", "-n", "5", "64"]);
    assert!(ping.contains("64 bytes: seq=4 rtt="), "{ping}");
}

#[test]
fn ping_waits_for_pong() {
    let endpoint = free_endpoint("arq");
    let few = ["-l", &endpoint, "--no-multicast-scouting", "-w", "0", "-n", "5", "64"];
    let mut ping = ready(Z_PING, &few, "Waiting for z_pong");
    let connect = ["-e", &endpoint, "--no-multicast-scouting"];
    let _pong = ready(Z_PONG, &connect, "Press CTRL-C");
    assert!(ping.line("64 bytes: seq=4 rtt=").is_some(), "round trips");
}

#[test]
fn ping_tells_what_it_measured_and_where_pong_fell_silent() {
    let endpoint = free_endpoint("arq");
    let script =
        format!("exec {Z_PING} -l {endpoint} --no-multicast-scouting -w 0 -n 100000000 64 2>&1");
    let mut ping = ready("bash", &["-c", &script], "Waiting for z_pong");
    let connect = ["-e", &endpoint, "--no-multicast-scouting"];
    let mut pong = ready(Z_PONG, &connect, "Press CTRL-C");
    assert!(ping.line("seq=4 rtt=").is_some(), "round trips, as they are measured");
    pong.interrupt();
    pong.wait();
    let error = ping.line("error: seq=").expect("it does not wait for ever");
    assert!(error.ends_with(": no answer within 10s\n"), "{error}");
    assert_eq!(ping.wait(), Some(1));
}

#[test]
fn the_throughput_pair_works_over_arq() {
    let endpoint = free_endpoint("arq");
    let common = ["--no-multicast-scouting", "-n", "1000"];
    let listen = [&["-l", &endpoint, "-s", "3"][..], &common].concat();
    let mut counter = ready(Z_SUB_THR, &listen, "Press CTRL-C");
    let connect = [&["-e", &endpoint, "64"][..], &common].concat();
    let _publisher = ready(Z_PUB_THR, &connect, "Press CTRL-C");
    assert!((0..3).all(|_| counter.line("msg/s").is_some()), "three rates");
}

fn publication_arrives(protocol: &str) {
    let endpoint = free_endpoint(protocol);
    let listen = ["-l", &endpoint, "--no-multicast-scouting", "-k", "test/programs"];
    let mut subscriber = ready(Z_SUB, &listen, "Press CTRL-C");
    let connect = [
        "-e",
        &endpoint,
        "--no-multicast-scouting",
        "-k",
        "test/programs",
        "-p",
        "hello",
        "-a",
        "you",
    ];
    let _publisher = ready(Z_PUB, &connect, "Press CTRL-C");
    let line = subscriber.line("Received").expect("a publication");
    assert!(line.contains("PUT ('test/programs': '[") && line.contains("hello') (you)"), "{line}");
}

/// A locator on this host whose port was free a moment ago.
fn free_endpoint(protocol: &str) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    format!("{protocol}/{}", socket.local_addr().expect("its address"))
}

/// A program that has said that it is ready.
fn ready(program: &str, arguments: &[&str], words: &str) -> Running {
    let mut running = Running::start(program, arguments);
    assert!(running.line(words).is_some(), "{program} did not get ready");
    running
}
