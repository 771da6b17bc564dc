// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Messages through several network interfaces at once, and a line each second that says how the paths stand. What to try:
//! docs/two-radios.md.
//!
//!     cargo run -p arq-tokio --example radios -- listen 0.0.0.0:7447
//!     cargo run -p arq-tokio --example radios -- 192.0.2.7:7447 wlan0,wwan0:backup

use std::{
    env,
    error::Error,
    net::SocketAddr,
    time::{Duration, Instant},
};

use arq_tokio::{
    Config, ConnectError, Connection, ConnectionError, Endpoint, EndpointConfig, LaneId,
    PathInterface, Reliability, SocketOptions, ValidConfig, TIMER_GRANULARITY,
};
use tokio::{runtime::Handle, time::sleep};

const LANE: LaneId = LaneId::new(4, Reliability::Reliable).unwrap();
const PERIOD: Duration = Duration::from_millis(10);

/// Both sides keep up to four paths: by default there is one.
fn config() -> Result<ValidConfig, Box<dyn Error>> {
    let base = Config::default();
    Ok(Config { paths: 4, timer_granularity: TIMER_GRANULARITY, ..base }.validate()?)
}

async fn serve(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let server = Endpoint::server(address, config()?)?;
    while let Some(connection) = server.accept().await {
        tokio::spawn(async move {
            while let Ok(message) = connection.recv(LANE).await {
                if connection.send(LANE, message).await.is_err() {
                    break;
                }
            }
            println!("{}", connection.closed().await);
        });
    }
    Ok(())
}

async fn ask(server: SocketAddr, interfaces: &str) -> Result<(), Box<dyn Error>> {
    let interfaces: Vec<PathInterface> =
        interfaces.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let (options, accepts) = (SocketOptions::default(), EndpointConfig::default());
    let runtime = Handle::current();
    let endpoint =
        Endpoint::over_interfaces(interfaces, any.parse()?, &options, accepts, &runtime)?;
    let connection = loop {
        match endpoint.connect(server, config()?).await {
            Err(ConnectError::Ended(why @ ConnectionError::Unreachable(_))) => {
                println!("{why}; trying again");
                sleep(Duration::from_millis(200)).await;
            }
            opened => break opened?,
        }
    };
    let begin = Instant::now();
    let mut tick = tokio::time::interval(PERIOD);
    let (mut answers, mut slowest, mut told) = (0, Duration::ZERO, Instant::now());
    loop {
        tokio::select! {
            _ = tick.tick() => {
                let now = begin.elapsed().as_micros() as u64;
                connection.send(LANE, now.to_le_bytes().to_vec()).await?;
            }
            answer = connection.recv(LANE) => {
                let sent_at = u64::from_le_bytes(answer?[..].try_into()?);
                slowest = slowest.max(begin.elapsed().saturating_sub(Duration::from_micros(sent_at)));
                answers += 1;
            }
        }
        if told.elapsed() >= Duration::from_secs(1) {
            println!("{answers} answers, the slowest after {slowest:.1?}; {}", paths(&connection));
            (answers, slowest, told) = (0, Duration::ZERO, Instant::now());
        }
    }
}

fn paths(connection: &Connection) -> String {
    let paths = connection.paths();
    let lines = paths.iter().map(|path| {
        let name = path.interface.as_deref().unwrap_or("?");
        format!("{name} {} rtt {:.1?}", path.stats.state, path.stats.srtt)
    });
    lines.collect::<Vec<_>>().join(", ")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", address] => serve(address.parse()?).await,
        [server, interfaces] => ask(server.parse()?, interfaces).await,
        _ => Err("listen ADDRESS, or ADDRESS INTERFACE[:backup],...".into()),
    }
}
