// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A driver of its own, over two UDP sockets: `cargo run -p arq-proto --example udp`.

#![allow(clippy::disallowed_methods, reason = "the driver reads the clock, the core is told")]

use std::{
    error::Error, fs::File, io::Read, net::UdpSocket, thread, time::Duration, time::Instant,
};

use arq_proto::{Connection, ConnectionHandle, Endpoint, EndpointConfig, ValidConfig};
use arq_proto::{Event, LaneId, Reliability, Routed};

const LANE: LaneId = LaneId::new(4, Reliability::Reliable).unwrap();

type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;
type Held = Option<(ConnectionHandle, Box<Connection>)>;

fn endpoint(config: EndpointConfig) -> Result<Endpoint> {
    let mut seed = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut seed)?;
    Ok(Endpoint::new(config, seed, Instant::now()))
}

/// Drives one connection, which may be still to come, to its end; `app` is told of its events.
fn drive(
    socket: &UdpSocket,
    mut endpoint: Endpoint,
    mut held: Held,
    app: impl Fn(&mut Connection, Event) -> Result,
) -> Result {
    let (mut buffer, mut reply) = (Vec::new(), Vec::new());
    loop {
        let mut wait = None;
        if let Some((handle, connection)) = &mut held {
            connection.handle_timeout(Instant::now());
            loop {
                while let Some(sent) = connection.poll_transmit(Instant::now(), &mut buffer, 1) {
                    socket.send_to(&buffer, sent.destination)?;
                    buffer.clear();
                }
                let Some(event) = connection.poll_event() else { break };
                app(connection, event)?;
            }
            if connection.is_drained() {
                endpoint.remove(*handle);
                return Ok(());
            }
            wait = connection.poll_timeout().map(|(at, _)| at - Instant::now());
        }
        // A time-out of zero would be none.
        socket.set_read_timeout(wait.map(|wait| wait.max(Duration::from_micros(1))))?;
        buffer.resize(65_536, 0);
        if let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let now = Instant::now();
            match endpoint.route(now, from, &buffer[..len], &mut reply) {
                Routed::Accepted { handle, connection, .. } => held = Some((handle, connection)),
                Routed::Reply => _ = socket.send_to(&reply, from)?,
                Routed::Connection(_) | Routed::Dropped => {}
            }
            // What is for nobody is dropped there as well.
            held.iter_mut().for_each(|(_, it)| it.handle_datagram(now, from, &mut buffer[..len]));
        }
        buffer.clear();
    }
}

fn main() -> Result {
    let (near, far) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    let (address, server) =
        (far.local_addr()?, endpoint(EndpointConfig::new(ValidConfig::default()))?);
    let echo = |connection: &mut Connection, event| {
        let Event::Readable(lane) = event else { return Ok(()) };
        while let Some(message) = connection.recv(Instant::now(), lane) {
            connection.send(Instant::now(), lane, message)?;
        }
        Ok(())
    };
    let server = thread::spawn(move || drive(&far, server, None, echo));
    let mut client = endpoint(EndpointConfig::default())?;
    let (handle, connection) = client.connect(Instant::now(), address, ValidConfig::default());
    drive(&near, client, Some((handle, Box::new(connection))), |connection, event| {
        println!("{event:?}");
        if event == Event::Connected {
            connection.send(Instant::now(), LANE, "hello".into())?;
        } else if let Some(message) = connection.recv(Instant::now(), LANE) {
            println!("{message:?}");
            connection.finish(Instant::now());
        }
        Ok(())
    })?;
    server.join().map_err(|_| "the server panicked")?
}
