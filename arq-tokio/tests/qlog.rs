// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! `QLOGDIR` gives a log of each side, which a reader of qlog understands. One test: the variable is of the process.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs, io,
    net::SocketAddr,
    path::Path,
    time::Duration,
};

use arq_tokio::{Config, Endpoint, LaneId, Reliability};
use serde_json::Value;
use tokio::{net::UdpSocket, time::timeout};

/// Far above what is needed: only a hang runs into it.
const HANG: Duration = Duration::from_secs(60);
const LANE: LaneId = LaneId::new(5, Reliability::Reliable).unwrap();

/// Drops every tenth datagram, after the handshake.
async fn relay(socket: UdpSocket, server: SocketAddr) -> io::Result<()> {
    let (mut datagram, mut client, mut passed) = ([0; 2_048], server, 0);
    loop {
        let (length, from) = socket.recv_from(&mut datagram).await?;
        let to = if from == server { client } else { server };
        if to == server {
            client = from;
        }
        passed += 1;
        if passed < 10 || passed % 10 > 0 {
            socket.send_to(&datagram[..length], to).await?;
        }
    }
}

async fn transfer() {
    let any = "127.0.0.1:0".parse().unwrap();
    let config = Config { mtu: Some(1_472), linger: HANG, ..Default::default() };
    let config = config.validate().unwrap();
    let server = Endpoint::server(any, config.clone()).unwrap();
    let socket = UdpSocket::bind(any).await.unwrap();
    let relayed = socket.local_addr().unwrap();
    tokio::spawn(relay(socket, server.local_addr()));
    let near = Endpoint::client(any).unwrap().connect(relayed, config).await.unwrap();
    let far = server.accept().await.unwrap();
    let receive = async {
        for _ in 0..20 {
            far.recv(LANE).await.unwrap();
        }
    };
    let send = async {
        for _ in 0..20 {
            near.send(LANE, vec![7; 30_000]).await.unwrap();
        }
    };
    tokio::join!(send, receive);
    near.finish().await;
    far.closed().await;
}

/// The records of a log: JSON text sequences, RFC 7464.
fn records(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let (before, records) = text.split_once('\u{1e}').unwrap();
    assert!(before.is_empty() && text.ends_with('\n'), "{}", path.display());
    records.split('\u{1e}').map(|record| serde_json::from_str(record).unwrap()).collect()
}

/// Of each event of that name its packet number, and what it tells of the packet.
fn packets(events: &[Value], name: &str) -> BTreeMap<u64, Value> {
    let named = events.iter().filter(|event| event["name"] == name);
    let packet = |event: &Value| {
        (event["data"]["header"]["packet_number"].as_u64().unwrap(), event["data"].clone())
    };
    named.map(packet).collect()
}

fn check_header(header: &Value, side: &str) {
    assert_eq!(header["qlog_version"], "0.3");
    assert_eq!(header["qlog_format"], "JSON-SEQ");
    assert_eq!(header["trace"]["vantage_point"]["type"], side);
    assert_eq!(header["trace"]["common_fields"]["time_format"], "relative");
    // Else qvis moves the server's times.
    assert!(header["trace"]["configuration"]["time_offset"].as_f64() > Some(0.0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_side_of_an_association_has_a_log() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("qlog");
    let _ = fs::remove_dir_all(&folder);
    env::set_var("QLOGDIR", &folder);
    timeout(HANG, transfer()).await.expect("it arrives");

    let mut names: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
    let [client, server] = ["client", "server"].map(|side| {
        let mine = |name: &&std::path::PathBuf| {
            name.to_str().unwrap().ends_with(&format!("_{side}.sqlog"))
        };
        let mut records = records(names.iter().find(mine).unwrap());
        check_header(&records.remove(0), side);
        let times: Vec<_> = records.iter().map(|event| event["time"].as_f64().unwrap()).collect();
        assert!(times.is_sorted() && times[0] >= 0.0, "{side}: {times:?}");
        records
    });
    let (sent, received) =
        (packets(&client, "transport:packet_sent"), packets(&server, "transport:packet_received"));
    assert!(
        received.len() > 100 && sent.len() > received.len(),
        "{} of {}",
        received.len(),
        sent.len()
    );
    for (number, packet) in &received {
        assert_eq!(sent.get(number), Some(packet), "packet {number}");
    }
    let lost = packets(&client, "recovery:packet_lost");
    assert!(lost.len() > 5 && lost.keys().all(|number| sent.contains_key(number)), "{lost:?}");
    let kinds: BTreeSet<_> = sent
        .values()
        .flat_map(|packet| packet["frames"].as_array().unwrap())
        .map(|frame| frame["frame_type"].as_str().unwrap())
        .collect();
    for kind in ["stream", "repair", "connection_close", "ping"] {
        assert!(kinds.contains(kind), "{kind}: {kinds:?}");
    }
    let metrics: BTreeSet<_> = client
        .iter()
        .filter(|event| event["name"] == "recovery:metrics_updated")
        .flat_map(|event| event["data"].as_object().unwrap().keys())
        .collect();
    for figure in ["smoothed_rtt", "congestion_window", "bytes_in_flight"] {
        assert!(metrics.iter().any(|name| *name == figure), "{figure}: {metrics:?}");
    }
    for side in [&client, &server] {
        assert_eq!(side.iter().filter(|event| event["name"] == "arq:closed").count(), 1);
    }
}
