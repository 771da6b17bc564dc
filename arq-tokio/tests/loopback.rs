// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The driver over the kernel's sockets.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use arq_proto::{Config, EndpointConfig, LaneId, Reliability, ValidConfig};
use arq_tokio::{Connection, Endpoint, SocketOptions};
use tokio::{
    net::UdpSocket,
    runtime::Handle,
    task::{JoinHandle, JoinSet},
    time::{interval, sleep, timeout},
};

/// Far above what is needed: only a hang runs into it.
const HANG: Duration = Duration::from_secs(60);

fn lane() -> LaneId {
    LaneId::new(5, Reliability::Reliable).unwrap()
}

fn bind(address: &str, accept: bool, options: &SocketOptions) -> io::Result<Endpoint> {
    let config = EndpointConfig::new(accept.then(ValidConfig::default));
    Endpoint::bind(address.parse().unwrap(), options, config, &Handle::current())
}

fn server(address: &str) -> Endpoint {
    bind(address, true, &SocketOptions::default()).unwrap()
}

fn client(address: &str) -> Endpoint {
    bind(address, false, &SocketOptions::default()).unwrap()
}

async fn connect(client: &Endpoint, to: SocketAddr) -> Connection {
    client.connect(to, ValidConfig::default()).await.unwrap()
}

async fn one_mebibyte(from: &Connection, to: &Connection) {
    let message = |number: u8| vec![number; 1 << 16 >> (number % 4)];
    let send = async {
        for number in 0..32 {
            from.send(lane(), message(number)[1..].to_vec()).await.unwrap();
        }
    };
    let receive = async {
        for number in 0..32 {
            assert_eq!(to.recv(lane()).await.unwrap(), message(number)[1..]);
        }
    };
    timeout(HANG, async { tokio::join!(send, receive) }).await.expect("it arrives");
}

async fn exchange(server: Endpoint, client: Endpoint, to: SocketAddr) {
    let near = connect(&client, to).await;
    let far = server.accept().await.unwrap();
    assert_eq!(far.local(), to);
    one_mebibyte(&near, &far).await;
    one_mebibyte(&far, &near).await;
    assert_eq!(near.remote(), to, "whoever was asked has answered");
    near.finish().await;
    far.closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mebibyte_each_way_over_ipv4() {
    let server = server("127.0.0.1:0");
    let to = server.local_addr();
    exchange(server, client("127.0.0.1:0"), to).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mebibyte_each_way_over_ipv6() {
    let server = server("[::1]:0");
    let to = server.local_addr();
    exchange(server, client("[::1]:0"), to).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unspecified_address_answers_from_the_one_that_was_asked() {
    let server = server("0.0.0.0:0");
    let to = SocketAddr::from(([127, 0, 0, 2], server.local_addr().port()));
    exchange(server, client("127.0.0.1:0"), to).await;
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unspecified_address_with_a_type_of_service_answers_from_the_one_that_was_asked() {
    let mut options = SocketOptions::default();
    options.dscp = Some(0x88);
    for (any, asked) in [("0.0.0.0:0", "127.0.0.2"), ("[::]:0", "::ffff:127.0.0.2")] {
        let server = bind(any, true, &options).unwrap();
        let to = SocketAddr::new(asked.parse().unwrap(), server.local_addr().port());
        exchange(server, client(any), to).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_with_a_type_of_service() {
    let mut options = SocketOptions::default();
    options.dscp = Some(0x88);
    let server = bind("127.0.0.1:0", true, &options).unwrap();
    let to = server.local_addr();
    let client = bind("127.0.0.1:0", false, &options).unwrap();
    exchange(server, client, to).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_connections_to_one_socket() {
    let server = Arc::new(server("127.0.0.1:0"));
    let to = server.local_addr();
    let mut tasks = JoinSet::new();
    for _ in 0..100 {
        tasks.spawn(async move {
            let near = connect(&client("127.0.0.1:0"), to).await;
            near.send(lane(), "ping").await.unwrap();
            assert_eq!(near.recv(lane()).await.unwrap(), "pong");
            near.finish().await;
        });
    }
    let mut accepted = JoinSet::new();
    for _ in 0..100 {
        let far = timeout(HANG, server.accept()).await.expect("all connect").unwrap();
        accepted.spawn(async move {
            assert_eq!(far.recv(lane()).await.unwrap(), "ping");
            far.send(lane(), "pong").await.unwrap();
            far.closed().await;
        });
    }
    timeout(HANG, tasks.join_all()).await.expect("all are answered");
    timeout(HANG, accepted.join_all()).await.expect("all close");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_in_use_is_an_error() {
    let server = server("127.0.0.1:0");
    let again = bind(&server.local_addr().to_string(), true, &SocketOptions::default());
    assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AddrInUse);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_was_shut_down_frees_its_port_and_keeps_its_connections() {
    let first = server("127.0.0.1:0");
    let to = first.local_addr();
    let near = connect(&client("127.0.0.1:0"), to).await;
    let far = first.accept().await.unwrap();
    first.shut_down(HANG).await;
    one_mebibyte(&near, &far).await;

    let short = Config { handshake_timeout: Duration::from_millis(200), ..Config::default() };
    let refused = client("127.0.0.1:0").connect(to, short.validate().unwrap()).await;
    refused.expect_err("nobody accepts any more");

    let second = server("127.0.0.1:0");
    let to = second.local_addr();
    connect(&client("127.0.0.1:0"), to).await.finish().await;
    second.shut_down(HANG).await;
    server(&to.to_string());
}

/// A NAT in front of `server` that takes 10 ms in each direction and changes its port every 100 ms. What comes to an
/// earlier port is lost.
async fn restless_nat(server: SocketAddr) -> (SocketAddr, JoinHandle<()>) {
    const DELAY: Duration = Duration::from_millis(10);
    let bind = || UdpSocket::bind("127.0.0.1:0");
    let front = Arc::new(bind().await.unwrap());
    let address = front.local_addr().unwrap();
    let task = tokio::spawn(async move {
        let mut back = Arc::new(bind().await.unwrap());
        let mut client = None;
        let mut rebinds = interval(Duration::from_millis(100));
        let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
        loop {
            let (through, to, datagram) = tokio::select! {
                _ = rebinds.tick() => {
                    back = Arc::new(bind().await.unwrap());
                    continue;
                }
                Ok((length, from)) = front.recv_from(&mut up) => {
                    client = Some(from);
                    (back.clone(), server, up[..length].to_vec())
                }
                Ok((length, _)) = back.recv_from(&mut down) => {
                    let Some(client) = client else { continue };
                    (front.clone(), client, down[..length].to_vec())
                }
            };
            tokio::spawn(async move {
                sleep(DELAY).await;
                let _ = through.send_to(&datagram, to).await;
            });
        }
    });
    (address, task)
}

/// Each way the mapping holds for five round trips.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nat_that_rebinds_ten_times_a_second_ends_nothing() {
    let server = server("127.0.0.1:0");
    let (nat, relay) = restless_nat(server.local_addr()).await;
    let client = client("127.0.0.1:0");
    let near = connect(&client, nat).await;
    let far = server.accept().await.unwrap();
    for (from, to) in [(&near, &far), (&far, &near)] {
        let talk = async {
            for number in 0..100_u8 {
                from.send(lane(), vec![number; 200]).await.unwrap();
                sleep(Duration::from_millis(20)).await;
            }
        };
        let listen = async {
            for number in 0..100_u8 {
                assert_eq!(to.recv(lane()).await.unwrap(), [number; 200][..]);
            }
        };
        timeout(HANG, async { tokio::join!(talk, listen) }).await.expect("it arrives");
    }
    relay.abort();
}
