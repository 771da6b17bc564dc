// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A server that sends back what comes, and a client that asks it. Both in one process, or each in its own:
//!
//!     cargo run -p arq-tokio --example echo
//!     cargo run -p arq-tokio --example echo -- listen 0.0.0.0:7447
//!     cargo run -p arq-tokio --example echo -- 192.0.2.7:7447 hello

use std::{env, error::Error, net::SocketAddr, time::Instant};

use arq_tokio::{Connection, Endpoint, LaneId, Reliability, ValidConfig};

/// In the middle of the eight priorities.
const LANE: LaneId = LaneId::new(4, Reliability::Reliable).unwrap();

async fn serve(endpoint: Endpoint) {
    while let Some(connection) = endpoint.accept().await {
        tokio::spawn(answer(connection));
    }
}

async fn answer(connection: Connection) {
    let lane = connection.lane(LANE);
    while let Ok(message) = lane.recv().await {
        if lane.send(message).await.is_err() {
            break;
        }
    }
    println!("{}: {}", connection.remote(), connection.closed().await);
}

async fn ask(server: SocketAddr, words: &[String]) -> Result<(), Box<dyn Error>> {
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let connection =
        Endpoint::client(any.parse()?)?.connect(server, ValidConfig::default()).await?;
    for word in words {
        let begin = Instant::now();
        connection.send(LANE, word.clone()).await?;
        println!("{:?} after {:?}", connection.recv(LANE).await?, begin.elapsed());
    }
    connection.finish().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => {
            let server = Endpoint::server("127.0.0.1:0".parse()?, ValidConfig::default())?;
            let address = server.local_addr();
            tokio::spawn(serve(server));
            ask(address, &["hello".to_owned(), "world".to_owned()]).await?;
        }
        [listen, address] if listen == "listen" => {
            serve(Endpoint::server(address.parse()?, ValidConfig::default())?).await;
        }
        [server, words @ ..] => ask(server.parse()?, words).await?,
    }
    Ok(())
}
