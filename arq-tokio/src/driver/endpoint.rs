// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A socket that connects to peers and accepts them.

use std::{fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use arq_proto::{Config, Connect, ConnectionError, EndpointConfig, EndpointStats};
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch, Mutex, Semaphore},
};

use super::{
    connection::{ConnectError, Connection},
    handshakes::Unopened,
    shared::Shared,
    Driver,
};
use crate::socket::{
    udp::{SocketOptions, UdpDatagramSocket},
    DatagramSocket,
};

/// A socket that connects to peers and accepts them. Dropping it ends the accepting; the socket
/// and its connections live on until the last of those has ended.
pub struct Endpoint {
    shared: Arc<Shared>,
    accepted: Mutex<mpsc::Receiver<Connection>>,
    progress: watch::Receiver<Progress>,
}

/// What one who waits for the socket to close wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Some connection is in use.
    InUse,
    /// All connections have ended, and wait for late packets at most.
    Draining,
}

impl Endpoint {
    /// Accepts connections with `config` at `address`, and connects. Needs a tokio runtime's context, whose tasks drive it.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn server(address: SocketAddr, config: Config) -> io::Result<Self> {
        let config = EndpointConfig::new(config);
        Self::bind(address, &SocketOptions::default(), config, &Handle::current())
    }

    /// Connects from `address`, with port 0 from a free one. As [`Self::server`], but accepts nobody.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn client(address: SocketAddr) -> io::Result<Self> {
        Self::bind(
            address,
            &SocketOptions::default(),
            EndpointConfig::default(),
            &Handle::current(),
        )
    }

    /// Binds a UDP socket and starts its driver on `runtime`.
    ///
    /// # Errors
    /// What the kernel answers, `AddrInUse` for a taken port.
    pub fn bind(
        address: SocketAddr,
        options: &SocketOptions,
        config: EndpointConfig,
        runtime: &Handle,
    ) -> io::Result<Self> {
        let _context = runtime.enter();
        let socket = UdpDatagramSocket::bind(address, options)?;
        Self::start(Box::new(socket), config, runtime, false)
    }

    /// Runs on any socket, with the clock of `runtime` itself, which a test may have paused.
    ///
    /// # Errors
    /// When the operating system has no entropy to give.
    pub fn over(
        socket: Box<dyn DatagramSocket>,
        config: EndpointConfig,
        runtime: &Handle,
    ) -> io::Result<Self> {
        Self::start(socket, config, runtime, true)
    }

    fn start(
        socket: Box<dyn DatagramSocket>,
        config: EndpointConfig,
        runtime: &Handle,
        virtual_time: bool,
    ) -> io::Result<Self> {
        let _context = runtime.enter();
        // Those that end before anybody takes them make room for others among the connections, but not here.
        let room = config.max_connections.clamp(1, Semaphore::MAX_PERMITS);
        let (offer, accepted) = mpsc::channel(room);
        let shared = Arc::new(Shared::new(socket, config, offer, virtual_time)?);
        let (report, progress) = watch::channel(Progress::InUse);
        runtime.spawn(super::run(Driver(shared.clone()), report));
        Ok(Self { shared, accepted: Mutex::new(accepted), progress })
    }

    /// Opens a connection to `remote`, in the clear with a [`Config`] alone, sealed by [`Connect::sealed`]. Dropping the
    /// future gives it up.
    ///
    /// # Errors
    /// No answer within the handshake time-out, and why nothing could be sent if so; a refusal; a peer that is not who it
    /// should be; `LocallyClosed` when the driver has stopped.
    pub async fn connect(
        &self,
        remote: SocketAddr,
        connect: impl Into<Connect>,
    ) -> Result<Connection, ConnectError> {
        let inner =
            self.shared.connect(remote, connect.into()).ok_or(ConnectionError::LocallyClosed)?;
        inner.transmit(super::connection::DRIVER_BATCHES);
        let connection = inner.into_handle();
        connection.established().await?;
        Ok(connection)
    }

    /// Waits for the next peer that connects. `None` when the driver has stopped. Those that nobody takes are kept, also
    /// when they have ended meanwhile: [`EndpointConfig::max_connections`] of them, and further ones are closed.
    pub async fn accept(&self) -> Option<Connection> {
        self.accepted.lock().await.recv().await
    }

    /// The address that the socket is bound to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.local_addr()
    }

    /// What happened to datagrams that belong to no connection.
    #[must_use]
    pub fn stats(&self) -> EndpointStats {
        self.shared.stats()
    }

    /// Cryptographic handshakes of clients that came to nothing.
    #[must_use]
    pub fn unopened(&self) -> Unopened {
        self.shared.unopened()
    }

    /// Ends the accepting. Waits for the socket to close, at most `patience`, unless a connection
    /// that is in use keeps it open.
    pub async fn shut_down(self, patience: Duration) {
        let mut progress = self.progress.clone();
        self.shared.abandon_unaccepted();
        drop(self);
        let closed = async {
            while progress.changed().await.is_ok() && *progress.borrow() == Progress::Draining {}
        };
        let _ = tokio::time::timeout(patience, closed).await;
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.shared.release();
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("local", &self.local_addr()).finish_non_exhaustive()
    }
}
