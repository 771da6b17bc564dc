// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What stands between two nodes? A relay of datagrams that may delay or swallow each of them while both
//! sockets stay open, so nobody is told.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::UdpSocket,
    task::JoinHandle,
    time::{sleep_until, Instant},
};

/// Relays datagrams between one client and one server, until it is dropped.
pub(crate) struct Relay {
    address: SocketAddr,
    task: JoinHandle<std::io::Result<()>>,
}

impl Relay {
    /// A relay in front of `server`. `fate` is asked of each datagram, in the order in which they come, how
    /// long it is under way; `None` if it never arrives.
    pub(crate) async fn to(
        server: SocketAddr,
        fate: impl FnMut() -> Option<Duration> + Send + 'static,
    ) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let back = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        back.connect(server).await.unwrap();
        let address = front.local_addr().unwrap();
        let task = tokio::spawn(relay(Arc::new(front), Arc::new(back), fate));
        Self { address, task }
    }

    /// Where the client connects to.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn relay(
    front: Arc<UdpSocket>,
    back: Arc<UdpSocket>,
    mut fate: impl FnMut() -> Option<Duration>,
) -> std::io::Result<()> {
    let (mut to_server, mut to_client) = (vec![0; 65_536], vec![0; 65_536]);
    let mut client = None;
    loop {
        let (socket, to, datagram) = tokio::select! {
            received = front.recv_from(&mut to_server) => {
                let (length, from) = received?;
                client = Some(from);
                (&back, None, &to_server[..length])
            }
            received = back.recv(&mut to_client) => {
                // A server that is gone answers with an error until it listens again.
                let (Ok(length), Some(client)) = (received, client) else { continue };
                (&front, Some(client), &to_client[..length])
            }
        };
        match fate() {
            None => {}
            Some(Duration::ZERO) => pass_on(socket, to, datagram),
            Some(delay) => {
                let (socket, datagram, at) =
                    (Arc::clone(socket), datagram.to_vec(), Instant::now() + delay);
                tokio::spawn(async move {
                    sleep_until(at).await;
                    pass_on(&socket, to, &datagram);
                });
            }
        }
    }
}

/// A full buffer loses a datagram, as any hop may.
fn pass_on(socket: &UdpSocket, to: Option<SocketAddr>, datagram: &[u8]) {
    let _ = match to {
        Some(client) => socket.try_send_to(datagram, client),
        None => socket.try_send(datagram),
    };
}
