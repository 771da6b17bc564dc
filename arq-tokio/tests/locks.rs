// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What is locked while a socket is in a system call? Nothing that a task of the application could want.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    io,
    net::SocketAddr,
    sync::{mpsc, Arc, Mutex},
    task::{Context, Poll},
    thread,
    time::Duration,
};

use arq_tokio::{
    socket::{
        memory::{MemoryNetwork, MemorySocket},
        DatagramSocket, ReceiveBatch, Segments,
    },
    Config, Connection, Endpoint, EndpointConfig, LaneId, Reliability, ValidConfig,
};
use tokio::runtime::{Builder, Handle};

const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 7447);
const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 2], 1);
/// Far above what is needed: only a hang runs into it.
const HANG: Duration = Duration::from_secs(30);
const LANE: LaneId = LaneId::new(5, Reliability::Reliable).unwrap();

/// Whom a socket asks.
#[derive(Debug, Default)]
struct Asked {
    endpoint: Option<Arc<Endpoint>>,
    connection: Option<Connection>,
    sends: usize,
}

/// A socket that, before it sends, asks for what stands behind each lock of the driver, as another task may.
#[derive(Debug)]
struct Asking(MemorySocket, Arc<Mutex<Asked>>);

impl DatagramSocket for Asking {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_readable(cx)
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_writable(cx)
    }

    fn try_receive(&self, batch: &mut ReceiveBatch) -> io::Result<()> {
        self.0.try_receive(batch)
    }

    fn try_send(&self, segments: &Segments<'_>) -> io::Result<()> {
        let mut asked = self.1.lock().unwrap();
        asked.sends += 1;
        if let Some(endpoint) = &asked.endpoint {
            let _ = endpoint.stats();
        }
        if let Some(connection) = &asked.connection {
            let _ = connection.stats();
        }
        drop(asked);
        self.0.try_send(segments)
    }

    fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }

    fn max_segments(&self) -> usize {
        self.0.max_segments()
    }
}

fn endpoint(socket: impl DatagramSocket, accept: Option<ValidConfig>) -> Endpoint {
    let config = EndpointConfig::new(accept);
    Endpoint::over(Box::new(socket), config, &Handle::current()).unwrap()
}

/// A server that is asked all the while answers a handshake, sends and acknowledges.
async fn talk() {
    let network = MemoryNetwork::lossless();
    let config = Config { timer_granularity: Duration::from_millis(1), ..Config::default() };
    let config = config.validate().unwrap();
    let asked = Arc::<Mutex<Asked>>::default();
    let socket = Asking(network.bind(SERVER.into()).unwrap(), asked.clone());
    let server = Arc::new(endpoint(socket, Some(config.clone())));
    asked.lock().unwrap().endpoint = Some(server.clone());
    let client = endpoint(network.bind(CLIENT.into()).unwrap(), None);
    let near = client.connect(SERVER.into(), config).await.unwrap();
    let far = server.accept().await.unwrap();
    asked.lock().unwrap().connection = Some(far.clone());
    for _ in 0..20 {
        far.send(LANE, vec![7; 50_000]).await.unwrap();
        near.send(LANE, near.recv(LANE).await.unwrap()).await.unwrap();
        assert_eq!(far.recv(LANE).await.unwrap().len(), 50_000);
    }
    // The socket must not keep what keeps it.
    let asked = std::mem::take(&mut *asked.lock().unwrap());
    assert!(asked.sends > 20, "{} sends", asked.sends);
}

#[test]
fn nothing_is_locked_while_a_socket_sends() {
    let (done, ended) = mpsc::channel::<()>();
    // Who locks twice hangs: not this thread.
    let talking = thread::spawn(move || {
        let _done = done;
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(talk());
    });
    let ended = ended.recv_timeout(HANG);
    assert_eq!(ended, Err(mpsc::RecvTimeoutError::Disconnected), "something is locked");
    talking.join().unwrap();
}
