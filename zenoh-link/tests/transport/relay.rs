// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What stands between two nodes when one of them falls silent? A relay of datagrams that can stop
//! passing them on while both sockets stay open, so nobody is told.

use std::{
    net::SocketAddr,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
};

use tokio::{net::UdpSocket, task::JoinHandle};

/// Relays datagrams between one client and one server.
pub(crate) struct Proxy {
    address: SocketAddr,
    silent: Arc<AtomicBool>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Proxy {
    /// A relay in front of `server`.
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let back = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        back.connect(server).await.unwrap();
        let address = front.local_addr().unwrap();
        let silent = Arc::<AtomicBool>::default();
        let task = tokio::spawn(relay(front, back, silent.clone()));
        Self { address, silent, task }
    }

    /// Where the client connects to.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Whether datagrams vanish from now on.
    pub(crate) fn silent(&self, silent: bool) {
        self.silent.store(silent, Ordering::Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn relay(front: UdpSocket, back: UdpSocket, silent: Arc<AtomicBool>) -> std::io::Result<()> {
    let (mut to_server, mut to_client) = (vec![0; 65_536], vec![0; 65_536]);
    let mut client = None;
    loop {
        tokio::select! {
            received = front.recv_from(&mut to_server) => {
                let (length, from) = received?;
                client = Some(from);
                if !silent.load(Ordering::Relaxed) {
                    // A full buffer loses a datagram, as any hop may.
                    let _ = back.try_send(&to_server[..length]);
                }
            }
            received = back.recv(&mut to_client) => {
                // A server that is gone answers with an error until it listens again.
                let (Ok(length), Some(client)) = (received, client) else { continue };
                if !silent.load(Ordering::Relaxed) {
                    let _ = front.try_send_to(&to_client[..length], client);
                }
            }
        }
    }
}
