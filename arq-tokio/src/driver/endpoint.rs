// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A socket that connects to peers and accepts them.

use std::{fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use arq_proto::{Connect, EndpointConfig, EndpointStats, SocketId, ValidConfig};
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch, Mutex, Semaphore},
};

use super::{
    connection::{ConnectError, Connection},
    contact,
    handshakes::Unopened,
    paths::{Chosen, News, PathInterface, Paths},
    ports::Sockets,
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

/// What a task that waits for the socket to close is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Some connection is in use.
    InUse,
    /// All connections have ended, and wait for late packets at most.
    Draining,
}

/// How an endpoint reaches the network.
struct Ways {
    sockets: Sockets,
    paths: Option<Paths>,
    news: Option<News>,
}

impl Ways {
    fn one(socket: impl Into<Arc<dyn DatagramSocket>>) -> Self {
        Self { sockets: Sockets::one(socket.into()), paths: None, news: None }
    }
}

impl Endpoint {
    /// Accepts connections with `config` at `address`, and connects. Needs a tokio runtime's context, whose tasks drive it.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn server(address: SocketAddr, config: ValidConfig) -> io::Result<Self> {
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
        Self::start(Ways::one(Arc::new(socket) as Arc<dyn DatagramSocket>), config, runtime, false)
    }

    /// Connects through several network interfaces at once, e.g. Wi-Fi and a modem: each connection has a path through each
    /// of them, and what one does not deliver in time leaves through another. `address` is where each socket is bound,
    /// `0.0.0.0:0` as a rule, or `[::]:0`; an interface that there is not yet is taken up when it appears. The peer must
    /// keep as many paths: [`Config::paths`](arq_proto::Config::paths), which is 1 by default at both sides.
    ///
    /// ```no_run
    /// use arq_tokio::{Config, Endpoint, EndpointConfig, PathInterface, SocketOptions};
    ///
    /// # async fn connect() -> Result<(), Box<dyn std::error::Error>> {
    /// let interfaces = [PathInterface::new("wlan0"), PathInterface::backup("wwan0")];
    /// let endpoint = Endpoint::over_interfaces(
    ///     interfaces,
    ///     "0.0.0.0:0".parse()?,
    ///     &SocketOptions::default(),
    ///     EndpointConfig::default(),
    ///     &tokio::runtime::Handle::current(),
    /// )?;
    /// let config = Config { paths: 4, ..Config::default() }.validate()?;
    /// let connection = endpoint.connect("192.0.2.7:7447".parse()?, config).await?;
    /// for path in connection.paths() {
    ///     println!("{:?} {} {:?}", path.interface, path.stats.state, path.stats.srtt);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` for no interface, more than four or one twice. What the kernel answers otherwise: binding to an
    /// interface needs Linux 5.7, or `CAP_NET_RAW`.
    pub fn over_interfaces(
        interfaces: impl IntoIterator<Item = PathInterface>,
        address: SocketAddr,
        options: &SocketOptions,
        config: EndpointConfig,
        runtime: &Handle,
    ) -> io::Result<Self> {
        let chosen = Chosen::ByName(interfaces.into_iter().collect());
        Self::through(chosen, address, options, config, runtime)
    }

    /// As [`Self::over_interfaces`], through every device that is up with an address, four at most: no loopback, tunnel,
    /// bridge or VPN. So packets bypass a VPN: it is for [sealed](Connect::sealed) connections.
    ///
    /// # Errors
    /// What the kernel answers, as there.
    pub fn over_all_devices(
        address: SocketAddr,
        options: &SocketOptions,
        config: EndpointConfig,
        runtime: &Handle,
    ) -> io::Result<Self> {
        Self::through(Chosen::Devices, address, options, config, runtime)
    }

    fn through(
        chosen: Chosen,
        address: SocketAddr,
        options: &SocketOptions,
        config: EndpointConfig,
        runtime: &Handle,
    ) -> io::Result<Self> {
        let _context = runtime.enter();
        let (paths, sockets, news) = Paths::bound(chosen, address, options)?;
        let ways = Ways { sockets, paths: Some(paths), news: Some(news) };
        Self::start(ways, config, runtime, false)
    }

    /// As [`Self::over_interfaces`], with sockets that somebody else has bound to the interfaces, where the system lets
    /// only him. [`Self::set_interface_up`] tells when one comes or goes. With the clock of `runtime` itself, which a test
    /// may have paused.
    ///
    /// # Errors
    /// `InvalidInput` as there, or when the operating system has no entropy to give.
    pub fn over_sockets(
        ways: impl IntoIterator<Item = (PathInterface, Box<dyn DatagramSocket>)>,
        config: EndpointConfig,
        runtime: &Handle,
    ) -> io::Result<Self> {
        let (mut interfaces, mut sockets) = (Vec::new(), Sockets::default());
        for (number, (interface, socket)) in (0..=u8::MAX).zip(ways) {
            sockets.set(SocketId(number), Some(socket.into()));
            interfaces.push(interface);
        }
        let paths = Some(Paths::given(interfaces)?);
        Self::start(Ways { sockets, paths, news: None }, config, runtime, true)
    }

    /// An interface of [`Self::over_sockets`] has come up, or has gone. A hint: without it silence is noticed, a round trip
    /// and a half later. `false`: there is none of this name.
    pub fn set_interface_up(&self, name: &str, is_up: bool) -> bool {
        let connections = || self.shared.connections();
        self.shared.paths().is_some_and(|paths| paths.set_up(name, is_up, connections))
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
        Self::start(Ways::one(socket), config, runtime, true)
    }

    fn start(
        Ways { sockets, paths, news }: Ways,
        config: EndpointConfig,
        runtime: &Handle,
        virtual_time: bool,
    ) -> io::Result<Self> {
        let _context = runtime.enter();
        // Connections that end before they are accepted make room among the connections, but not here.
        let room = config.max_connections.clamp(1, Semaphore::MAX_PERMITS);
        let (offer, accepted) = mpsc::channel(room);
        let shared = Arc::new(Shared::new(sockets, paths, config, offer, virtual_time)?);
        let (report, progress) = watch::channel(Progress::InUse);
        let driver = Driver { shared: shared.clone(), news };
        runtime.spawn(super::run(driver, report));
        Ok(Self { shared, accepted: Mutex::new(accepted), progress })
    }

    /// Opens a connection to `remote`, in the clear with a [`ValidConfig`] alone, sealed by [`Connect::sealed`]. Dropping the
    /// future gives it up.
    ///
    /// # Errors
    /// No answer within the handshake time-out, and why nothing could be sent if so; a refusal; a peer that is not who it
    /// should be; `LocallyClosed` when the driver has stopped; none of several interfaces is up.
    pub async fn connect(
        &self,
        remote: SocketAddr,
        connect: impl Into<Connect>,
    ) -> Result<Connection, ConnectError> {
        contact::connect(&self.shared, remote, connect.into()).await
    }

    /// Waits for the next peer that connects. `None` when the driver has stopped. Up to [`EndpointConfig::max_connections`]
    /// connections wait here, also ended ones; further ones are closed.
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
