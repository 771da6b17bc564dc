// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A file through a relay that drops a tenth of all datagrams, each way: `cargo run -p arq-tokio --example file`, and behind
//! a `--`, if you like, a path (else the program sends itself) and the seed of the losses.

use std::{env, error::Error, fs, io, net::SocketAddr, time::Duration, time::Instant};

use arq_tokio::{Config, Endpoint, LaneId, Reliability};
use rand_chacha::{rand_core::RngCore, rand_core::SeedableRng, ChaCha8Rng};
use tokio::net::UdpSocket;

const LANE: LaneId = LaneId::new(4, Reliability::Reliable).unwrap();

async fn relay(socket: UdpSocket, server: SocketAddr, seed: u64) -> io::Result<()> {
    let mut luck = ChaCha8Rng::seed_from_u64(seed);
    let (mut datagram, mut client) = ([0; 2048], server);
    loop {
        let (length, from) = socket.recv_from(&mut datagram).await?;
        let to = if from == server { client } else { server };
        if to == server {
            client = from;
        }
        if luck.next_u32() % 10 > 0 {
            socket.send_to(&datagram[..length], to).await?;
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args_os().nth(1).map_or_else(env::current_exe, |path| Ok(path.into()))?;
    let (file, given) = (fs::read(path)?, env::args().nth(2));
    let seed = given.map_or(Ok(getrandom::u64()?), |seed| seed.parse())?;
    // Packets as on an Ethernet. To finish is to wait for what has not arrived, for a minute here.
    let (mtu, linger) = (Some(1_472), Duration::from_secs(60));
    let config = Config { mtu, linger, ..Default::default() }.validate()?;
    let any = "127.0.0.1:0".parse()?;
    let server = Endpoint::server(any, config.clone())?;
    let socket = UdpSocket::bind(any).await?;
    let relayed = socket.local_addr()?;
    tokio::spawn(relay(socket, server.local_addr(), seed));
    let sender = Endpoint::client(any)?.connect(relayed, config).await?;
    let to = server.accept().await.ok_or("the server has stopped")?.lane(LANE);
    let begin = Instant::now();
    let receive = tokio::spawn(async move {
        let mut received = Vec::new();
        while let Ok(message) = to.recv().await {
            received.extend(message);
        }
        received
    });
    for part in file.chunks(32 << 10) {
        sender.send(LANE, part.to_vec()).await?;
    }
    sender.finish().await;
    assert!(receive.await? == file, "seed {seed}: {}", sender.closed().await);
    let (took, each) = (begin.elapsed(), sender.stats().bytes_sent as f64 / file.len() as f64);
    println!("seed {seed}: {} bytes arrived in {took:.2?}, {each:.2} sent for each", file.len());
    Ok(())
}
