// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Does what the core says of congestion stand in the IP headers of the kernel's sockets, and is it read from there?
//!
//! A queue that marks is played by a relay on loopback, which reads the headers and writes them.

#![cfg(any(target_os = "linux", target_os = "android"))]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    env,
    io::{self, IoSliceMut, Write as _},
    net::{SocketAddr, UdpSocket},
    os::fd::AsRawFd,
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    time::Duration,
};

use arq_proto::{Config, EcnCodepoint, EcnState, EndpointConfig, LaneId, Reliability, ValidConfig};
use arq_tokio::{
    socket::{udp::UdpDatagramSocket, DatagramSocket, ReceiveBatch, Segments},
    Connection, Endpoint, SocketOptions,
};
use nix::sys::socket::{recvmsg, ControlMessageOwned, MsgFlags, SockaddrStorage};
use socket2::SockRef;
use tokio::{runtime::Handle, time::timeout};

/// Far above what is needed: only a hang runs into it.
const HANG: Duration = Duration::from_secs(60);

fn lane() -> LaneId {
    LaneId::new(5, Reliability::Reliable).unwrap()
}

/// What the kernel tells beside the next datagram.
fn control_messages(socket: &UdpSocket) -> Vec<ControlMessageOwned> {
    let (mut bytes, mut control) = ([0; 2_000], nix::cmsg_space!([u8; 64]));
    let mut buffers = [IoSliceMut::new(&mut bytes)];
    let none = MsgFlags::empty();
    let fd = socket.as_raw_fd();
    let got = recvmsg::<SockaddrStorage>(fd, &mut buffers, Some(&mut control), none).unwrap();
    got.cmsgs().unwrap().collect()
}

/// A socket to which the kernel tells the type-of-service byte.
fn reader(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(HANG)).unwrap();
    match socket.local_addr().unwrap() {
        SocketAddr::V4(_) => SockRef::from(&socket).set_recv_tos_v4(true).unwrap(),
        SocketAddr::V6(_) => SockRef::from(&socket).set_recv_tclass_v6(true).unwrap(),
    }
    socket
}

/// What the kernel tells `far` of a datagram with this type-of-service byte, which is a socket's own.
fn told_of(far: &UdpSocket, tos: u8) -> Vec<ControlMessageOwned> {
    let to = far.local_addr().unwrap();
    let near = UdpSocket::bind(SocketAddr::new(to.ip(), 0)).unwrap();
    match to {
        SocketAddr::V4(_) => SockRef::from(&near).set_tos_v4(tos.into()).unwrap(),
        SocketAddr::V6(_) => SockRef::from(&near).set_tclass_v6(tos.into()).unwrap(),
    }
    near.send_to(&[7; 40], to).unwrap();
    control_messages(far)
}

#[tokio::test]
async fn headers_say_what_they_should_beside_any_type_of_service() {
    use EcnCodepoint::{Ce, Ect0, Ect1};
    for (own, peer) in
        [("127.0.0.1:0", "127.0.0.1:0"), ("[::1]:0", "[::1]:0"), ("[::]:0", "127.0.0.1:0")]
    {
        for dscp in [None, Some(0xb8), Some(0xbb)] {
            let mut options = SocketOptions::default();
            options.dscp = dscp;
            let socket = UdpDatagramSocket::bind(own.parse().unwrap(), &options).unwrap();
            let far = reader(peer);
            let mut destination = far.local_addr().unwrap();
            if own == "[::]:0" {
                destination.set_ip("::ffff:127.0.0.1".parse().unwrap());
            }
            for ecn in [None, Some(Ect0), Some(Ect1), Some(Ce)] {
                let contents = &[7; 40];
                let segment_bytes = contents.len();
                let segments = Segments { destination, source: None, ecn, contents, segment_bytes };
                socket.try_send(&segments).unwrap();
                let told = control_messages(&far);
                assert_eq!(told.len(), 1, "{own} {dscp:?} {ecn:?}");
                let expected = dscp.map_or(0, |_| 0xb8) | ecn.map_or(0, EcnCodepoint::bits);
                assert_eq!(told, told_of(&far, expected), "{own} {dscp:?} {ecn:?}");
                assert_ne!(told, told_of(&far, expected ^ 0b10), "the kernel tells them apart");
            }
        }
    }
}

/// The emulator of the benchmarks has no queue that marks; what it forwards keeps its header.
#[cfg(target_os = "linux")]
#[test]
fn the_emulated_network_carries_marks() {
    use netlab::{
        wire::{Conditions, Wire},
        EmulatorError, LabError, Network,
    };
    let mut network = match Network::new(2) {
        Ok(network) => network,
        Err(EmulatorError::Lab(e @ (LabError::NotPermitted(_) | LabError::MissingTool { .. }))) => {
            // Past the capture of the test harness.
            let _ =
                writeln!(io::stderr(), "\n*** SKIPPED the_emulated_network_carries_marks: {e}\n");
            assert!(env::var_os("ARQ_REQUIRE_LAB").is_none(), "a skipped test is a failed one");
            return;
        }
        Err(e) => panic!("the network could not be built: {e}"),
    };
    let wire = Wire { delay_ms: 1.0, ..Wire::default() };
    let conditions =
        Conditions { forward: wire.clone(), backward: wire, events: Vec::new(), second: None };
    network.begin(&conditions, 1).unwrap();
    let open = |index: usize| {
        let host = network.host(index);
        host.udp_socket(SocketAddr::new(host.ipv4().into(), 7900)).unwrap()
    };
    let (near, far) = (open(0), open(1));
    far.set_read_timeout(Some(HANG)).unwrap();
    SockRef::from(&far).set_recv_tos_v4(true).unwrap();
    for tos in [0xb8, 0xba, 0b01, 0b11] {
        SockRef::from(&near).set_tos_v4(tos.into()).unwrap();
        near.send_to(&[7; 40], far.local_addr().unwrap()).unwrap();
        assert_eq!(control_messages(&far), told_of(&reader("127.0.0.1:0"), tos), "{tos:#x}");
    }
}

fn bind(accept: bool, dscp: Option<u32>) -> Endpoint {
    let mut options = SocketOptions::default();
    options.dscp = dscp;
    let config = EndpointConfig::new(accept.then(ValidConfig::default));
    Endpoint::bind("127.0.0.1:0".parse().unwrap(), &options, config, &Handle::current()).unwrap()
}

/// Three hundred messages of 10 kB.
async fn talk(from: &Connection, to: &Connection) {
    let send = async {
        for _ in 0..300 {
            from.send(lane(), vec![7; 10_000]).await.unwrap();
        }
    };
    let receive = async {
        for _ in 0..300 {
            to.recv(lane()).await.unwrap();
        }
    };
    timeout(HANG, async { tokio::join!(send, receive) }).await.expect("it arrives");
}

// ARQ-ECN-2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loopback_carries_marks_in_both_directions() {
    for dscp in [None, Some(0x88)] {
        let (server, client) = (bind(true, dscp), bind(false, dscp));
        let near = client.connect(server.local_addr(), ValidConfig::default()).await.unwrap();
        let far = server.accept().await.unwrap();
        talk(&near, &far).await;
        talk(&far, &near).await;
        for side in [&near, &far] {
            let stats = side.stats();
            assert_eq!(stats.ecn, EcnState::Capable, "{dscp:?}");
            assert_eq!((stats.packets_marked, stats.marks_received), (0, 0));
        }
    }
}

/// Forwards what comes between a client and `server`, and marks each tenth datagram that may be. Counts those.
async fn relay(socket: Arc<UdpDatagramSocket>, server: SocketAddr, marked: Arc<AtomicU64>) {
    let (mut batch, mut client, mut capable) = (ReceiveBatch::default(), None, 0);
    loop {
        std::future::poll_fn(|cx| socket.poll_readable(cx)).await.unwrap();
        if socket.try_receive(&mut batch).is_err() {
            continue;
        }
        for datagram in batch.datagrams() {
            let is_of_client = datagram.from != server;
            client = if is_of_client { Some(datagram.from) } else { client };
            let mut ecn = datagram.ecn;
            capable += u64::from(ecn.is_some());
            if ecn.is_some() && is_of_client && capable % 10 == 0 {
                ecn = Some(EcnCodepoint::Ce);
                marked.fetch_add(1, Ordering::Relaxed);
            }
            let destination = if is_of_client { server } else { client.unwrap() };
            let contents = &*datagram.bytes;
            let segments = Segments {
                destination,
                source: None,
                ecn,
                contents,
                segment_bytes: contents.len(),
            };
            // What a full buffer drops is repaired.
            let _ = socket.try_send(&segments);
        }
    }
}

// ARQ-ECN-1, ARQ-ECN-2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn marks_of_a_queue_on_the_way_are_echoed_and_heeded() {
    for on in [true, false] {
        let (server, client) = (bind(true, None), bind(false, None));
        let socket =
            UdpDatagramSocket::bind("127.0.0.1:0".parse().unwrap(), &SocketOptions::default());
        let socket = Arc::new(socket.unwrap());
        let (to, marked) = (socket.local_addr(), Arc::new(AtomicU64::new(0)));
        let relay = tokio::spawn(relay(socket, server.local_addr(), marked.clone()));
        let config = Config { ecn: on, ..Config::default() }.validate().unwrap();
        let near = client.connect(to, config).await.unwrap();
        let far = server.accept().await.unwrap();
        talk(&near, &far).await;
        let (sent, received) = (near.stats(), far.stats());
        let marked = marked.load(Ordering::Relaxed);
        if on {
            assert_eq!(sent.ecn, EcnState::Capable);
            assert!(marked > 20 && received.marks_received > 20, "{marked} {received:?}");
            assert!(
                received.marks_received <= marked && sent.packets_marked <= received.marks_received
            );
            assert!(sent.packets_marked > 10, "{sent:?}");
        } else {
            assert_eq!((sent.ecn, marked, received.marks_received), (EcnState::Off, 0, 0));
        }
        relay.abort();
    }
}
