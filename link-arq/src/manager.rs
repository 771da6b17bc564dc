// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Connects, listens, lists and deletes `arq/` links.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, LazyLock, Once},
    time::Duration,
};

use arq_proto::{session::Protection, Connect, EndpointConfig, PathNumber, ValidConfig};
use arq_tokio::{socket, ConnectError, Connection, ConnectionError};
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::{
    runtime::{Handle, Runtime},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use zenoh_link_commons::{
    get_ip_addrs, ConstructibleLinkManagerUnicast, LinkManagerUnicastTrait, LinkUnicast,
    ListenersUnicastIP, NewLinkChannelSender, BIND_INTERFACE,
};
use zenoh_protocol::core::{endpoint::Address, parameters, EndPoint, Locator};
use zenoh_result::{bail, zerror, ZResult};

use crate::{
    config::{is_secret, LinkConfig, Paths},
    link, metrics, security,
    statistics::{self, Tally},
    terms::{self, Terms},
    ARQ_LOCATOR_PREFIX,
};

/// How long an address may be silent before the next one is tried beside it (RFC 8305 §5).
const CONNECT_STAGGER: Duration = Duration::from_millis(250);
/// Threads that the drivers of all links share.
const DRIVER_THREADS: usize = 2;
/// How long a deleted listener without links in use may take to free its port.
const DELETE_PATIENCE: Duration = Duration::from_secs(1);
/// What a listener has counted is part of the statistics after this, at the latest.
const TALLY_INTERVAL: Duration = Duration::from_secs(1);

/// The link manager behind every `arq/` endpoint.
#[derive(Debug)]
pub struct LinkManagerUnicastArq {
    accepted: NewLinkChannelSender,
    listeners: ListenersUnicastIP,
}

impl LinkManagerUnicastArq {
    /// Hands every accepted link to `accepted`.
    #[must_use]
    pub fn new(accepted: NewLinkChannelSender) -> Self {
        Self { accepted, listeners: ListenersUnicastIP::new() }
    }
}

impl ConstructibleLinkManagerUnicast<()> for LinkManagerUnicastArq {
    fn new(accepted: NewLinkChannelSender, (): ()) -> ZResult<Self> {
        Ok(Self::new(accepted))
    }
}

/// Drivers run on threads of their own. Each of zenoh's runtimes can be blocked for seconds, by a
/// callback of the application or by a publisher that waits for a full link to close, and a driver
/// that stands still acknowledges nothing, on any link of the process.
pub(crate) fn driver_runtime() -> ZResult<Handle> {
    static DRIVERS: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(DRIVER_THREADS)
            .thread_name("arq")
            .enable_all()
            .build()
    });
    match &*DRIVERS {
        Ok(runtime) => Ok(runtime.handle().clone()),
        Err(error) => bail!("cannot start the threads of the drivers: {error}"),
    }
}

/// What an endpoint that is connected to says, with the files that it names read.
struct Attempt {
    config: LinkConfig,
    protection: Protection,
    /// As the locator says it: the name of the server, unless another one is asked for.
    host: String,
}

impl Attempt {
    /// A socket that is bound to an interface sends past the routes of a VPN, where anybody may listen.
    fn check_paths(&self) -> Result<(), &'static str> {
        static TOLD: Once = Once::new();
        match (&self.config.paths, &self.protection) {
            (Paths::Auto, Protection::Clear) => {
                Err("`paths=auto` is for secured links: what leaves through each interface bypasses a VPN. Set \
                     certificates or a PSK, or name the interfaces")
            }
            (Paths::Over(_), Protection::Clear) => {
                TOLD.call_once(|| {
                    tracing::info!("`paths` without `security`: packets leave in the clear, and bypass a VPN");
                });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn connect(&self) -> ZResult<Connect> {
        let protocol = protocol_config(&self.config, Side::Connects)?;
        Ok(match &self.protection {
            Protection::Clear => protocol.into(),
            Protection::Sealed(security) => Connect::sealed(protocol, security.clone(), &self.host),
        })
    }
}

fn host(endpoint: &EndPoint) -> String {
    let address = endpoint.address();
    let host = address.as_str().rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
    host.to_owned()
}

/// The part after `#` for those who ask for the listeners: zenoh has put the keys of its configuration there.
fn without_secrets(endpoint: &EndPoint) -> String {
    let config = endpoint.config();
    parameters::from_iter(config.iter().filter(|(key, _)| !is_secret(key)))
}

/// Which side of a link this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Connects,
    Listens,
}

/// How many paths a link may have: who listens takes what it is asked for.
fn most_paths(config: &LinkConfig, side: Side) -> u8 {
    match (&config.paths, side) {
        (Paths::Over(_) | Paths::Auto, _) | (Paths::Unsaid, Side::Listens) => {
            PathNumber::COUNT as u8
        }
        (Paths::Off, _) | (Paths::Unsaid, Side::Connects) => 1,
    }
}

/// A checked configuration and the terms that it offers to the peer.
fn protocol_config(config: &LinkConfig, side: Side) -> ZResult<ValidConfig> {
    let mut protocol = config.protocol.clone();
    protocol.paths = most_paths(config, side);
    protocol.app_params = terms::offer(config);
    // Who names an address and a port means them.
    protocol.may_change_port = config.bind.is_none();
    Ok(protocol.validate().map_err(|error| zerror!("{error}"))?)
}

async fn unicast_addresses(endpoint: &EndPoint) -> ZResult<Vec<SocketAddr>> {
    let addresses = get_ip_addrs(endpoint.address()).await?;
    let addresses: Vec<_> = addresses.filter(|address| !address.ip().is_multicast()).collect();
    if addresses.is_empty() {
        bail!("{} has no unicast address", endpoint.address());
    }
    Ok(addresses)
}

#[async_trait]
impl LinkManagerUnicastTrait for LinkManagerUnicastArq {
    async fn new_link(&self, endpoint: EndPoint) -> ZResult<LinkUnicast> {
        // Not the endpoint: what stands behind `#` may be secret, as zenoh merges keys of its configuration into it.
        let locator = endpoint.to_locator();
        let failed = |error| zerror!("cannot connect to {locator}: {error}");
        let config = LinkConfig::parse(&endpoint).map_err(|error| {
            let error = error.to_string();
            warn_of(&locator, &error);
            failed(error)
        })?;
        let protection = security::to_connect(&config.security).map_err(|error| {
            warn_of(&locator, &error);
            failed(error)
        })?;
        metrics::switch_on(&config).map_err(|error| failed(error.to_string()))?;
        let attempt = Arc::new(Attempt { config, protection, host: host(&endpoint) });
        attempt.check_paths().map_err(|error| {
            warn_of(&locator, error);
            failed(error.to_owned())
        })?;
        let addresses = unicast_addresses(&endpoint).await;
        let addresses = addresses.map_err(|error| failed(error.to_string()))?;
        let (connection, src) = connect_first(addresses, &attempt).await.map_err(failed)?;
        let config = &attempt.config;
        let terms = agree(config, &connection).map_err(failed)?;
        tracing::info!(%src, dst = %connection.remote(), ?terms, "arq link opened");
        link::link(connection, terms, src, &locator, config)
    }

    async fn new_listener(&self, endpoint: EndPoint) -> ZResult<Locator> {
        let asked = endpoint.to_locator();
        let failed = |error| zerror!("cannot listen on {asked}: {error}");
        let config = LinkConfig::parse(&endpoint).map_err(|error| failed(error.to_string()))?;
        if config.bind.is_some() {
            let reason = "`bind` is the local address of a link that connects, not of a listener";
            return Err(failed(reason.to_owned()).into());
        }
        if config.paths.are_several() {
            let reason = "`paths` names the interfaces of a link that connects: a listener needs no list, and takes paths \
                          unless `paths=off`";
            return Err(failed(reason.to_owned()).into());
        }
        metrics::switch_on(&config).map_err(|error| failed(error.to_string()))?;
        let addresses = unicast_addresses(&endpoint).await;
        let addresses = addresses.map_err(|error| failed(error.to_string()))?;
        let (protection, renewal) = security::to_listen(&config.security).map_err(failed)?;
        let socket = bind_first(&addresses, &config, &protection).map_err(failed)?;
        let local = socket.local_addr();
        let mut bound = EndPoint::new(
            endpoint.protocol(),
            local.to_string(),
            endpoint.metadata(),
            without_secrets(&endpoint),
        )?;
        // The addresses that other nodes are told of are those of this interface, also where a file names it.
        if let Some(interface) = &config.socket.interface {
            bound.config_mut().insert(BIND_INTERFACE, interface.as_str())?;
        }
        let locator = bound.to_locator();
        let token = self.listeners.token.child_token();
        let accepted = self.accepted.clone();
        let deleted = token.clone();
        let accept = async move {
            tokio::select! {
                over = accept_links(socket, config, accepted, deleted) => over,
                () = renewal.run() => Ok(()),
            }
        };
        self.listeners.add_listener(bound, local, accept, token).await?;
        Ok(locator)
    }

    async fn del_listener(&self, endpoint: &EndPoint) -> ZResult<()> {
        let mut errors = Vec::new();
        let locator = endpoint.to_locator();
        let failed = |error| zerror!("cannot delete the listener {locator}: {error}");
        let addresses = unicast_addresses(endpoint).await;
        for address in addresses.map_err(|error| failed(error.to_string()))? {
            match self.listeners.del_listener(address).await {
                Ok(()) => return Ok(()),
                Err(error) => errors.push(error.to_string()),
            }
        }
        Err(failed(errors.join("; ")).into())
    }

    async fn get_listeners(&self) -> Vec<EndPoint> {
        self.listeners.get_endpoints()
    }

    async fn get_locators(&self) -> Vec<Locator> {
        self.listeners.get_locators()
    }

    async fn get_locators_noloopback(&self) -> Vec<Locator> {
        self.listeners.get_locators_noloopback()
    }
}

/// zenoh dials an endpoint again and again, and says why that fails at level debug alone: of one that another attempt
/// does not mend a person should hear. Once, until it is another one's turn.
fn warn_of(whom: &dyn std::fmt::Display, error: &str) {
    static LAST: Mutex<String> = Mutex::new(String::new());
    let text = format!("cannot connect to {whom}: {error}");
    let mut last = LAST.lock();
    if *last != text {
        tracing::warn!("{text}");
        *last = text;
    }
}

/// Whether only a person can mend it: the two ends are not configured for each other.
const fn is_lasting(error: &ConnectError) -> bool {
    use ConnectionError::{HandshakeFailed, PeerEndedHandshake, PeerOnlyClear, PeerOnlySealed};
    matches!(
        error,
        ConnectError::Ended(
            HandshakeFailed(_) | PeerEndedHandshake { .. } | PeerOnlyClear | PeerOnlySealed
        )
    )
}

/// Binds the first address that can be.
fn bind_first(
    addresses: &[SocketAddr],
    config: &LinkConfig,
    protection: &Protection,
) -> Result<arq_tokio::Endpoint, String> {
    let protocol = protocol_config(config, Side::Listens).map_err(|error| error.to_string())?;
    let runtime = driver_runtime().map_err(|error| error.to_string())?;
    let mut errors = Vec::new();
    for address in addresses {
        let accept = EndpointConfig::new(protocol.clone())
            .with_protection(protection.clone())
            .with_max_connections(config.max_links)
            .with_max_connections_per_source(config.max_links_per_source.unwrap_or(usize::MAX));
        match arq_tokio::Endpoint::bind(*address, &config.socket, accept, &runtime) {
            Ok(socket) => return Ok(socket),
            Err(error) => errors.push(format!("{address}: {error}")),
        }
    }
    Err(errors.join("; "))
}

/// Accepts until the listener is deleted. The links stay.
async fn accept_links(
    socket: arq_tokio::Endpoint,
    config: LinkConfig,
    accepted: NewLinkChannelSender,
    deleted: CancellationToken,
) -> ZResult<()> {
    let (mut tally, mut tick) = (Tally::default(), tokio::time::interval(TALLY_INTERVAL));
    loop {
        let connection = tokio::select! {
            () = deleted.cancelled() => break,
            connection = socket.accept() => connection,
            _ = tick.tick() => {
                tally.update(&socket);
                continue;
            }
        };
        let Some(connection) = connection else {
            let local = socket.local_addr();
            // zenoh reads the result of a listener that is deleted, and of no other.
            tracing::error!(%local, "the listener has failed: it accepts nobody any more");
            bail!("the socket of the listener on {local} failed");
        };
        tally.accepted();
        match accepted_link(connection, &config) {
            Ok(link) => tokio::select! {
                () = deleted.cancelled() => break,
                sent = accepted.send_async(link) => if sent.is_err() { break },
            },
            Err(error) => tracing::warn!(%error, "cannot accept a link"),
        }
    }
    tally.update(&socket);
    socket.shut_down(DELETE_PATIENCE).await;
    Ok(())
}

/// What holds for the link over `connection`, which is closed where the two sides cannot agree.
fn agree(config: &LinkConfig, connection: &Connection) -> Result<Terms, String> {
    terms::agree(config, &connection.peer_app_params()).inspect_err(|reason| {
        statistics::count_disagreement();
        connection.close(reason);
    })
}

fn accepted_link(connection: Connection, config: &LinkConfig) -> ZResult<LinkUnicast> {
    let (src, dst) = (connection.local(), connection.remote());
    let terms = agree(config, &connection).map_err(|reason| zerror!("{dst}: {reason}"))?;
    tracing::info!(%src, %dst, ?terms, "arq link accepted");
    let dst = Locator::new(ARQ_LOCATOR_PREFIX, dst.to_string(), "")?;
    link::link(connection, terms, src, &dst, config)
}

/// Connects to the first address that answers. Those that keep silent are not waited for before
/// the next is tried: a name often has an address of a family that leads nowhere.
async fn connect_first(
    addresses: Vec<SocketAddr>,
    attempt: &Arc<Attempt>,
) -> Result<(Connection, SocketAddr), String> {
    let mut addresses = addresses.into_iter().peekable();
    let mut attempts = JoinSet::new();
    let mut errors = Vec::new();
    loop {
        if let Some(address) = addresses.next() {
            let attempt = attempt.clone();
            attempts.spawn(async move {
                connect(address, &attempt).await.map_err(|error| format!("{address}: {error}"))
            });
        }
        let patience = match addresses.peek() {
            Some(_) => CONNECT_STAGGER,
            None => Duration::MAX,
        };
        match tokio::time::timeout(patience, attempts.join_next()).await {
            Ok(Some(Ok(Ok(connected)))) => return Ok(connected),
            Ok(Some(Ok(Err(error)))) => errors.push(error),
            Ok(Some(Err(panicked))) => errors.push(panicked.to_string()),
            Ok(None) => return Err(errors.join("; ")),
            Err(_silent) => {}
        }
    }
}

async fn connect(remote: SocketAddr, attempt: &Attempt) -> ZResult<(Connection, SocketAddr)> {
    let config = &attempt.config;
    let bind = local_address(remote, config.bind.as_deref()).await?;
    let socket = open_socket(bind, config, &driver_runtime()?).map_err(|error| {
        let reason = format!("cannot bind to {bind}: {error}");
        if error.kind() == io::ErrorKind::PermissionDenied {
            warn_of(&remote, &reason);
        }
        zerror!("{reason}")
    })?;
    let connection = socket.connect(remote, attempt.connect()?).await.inspect_err(|error| {
        statistics::count_failed(error.reason());
        if is_lasting(error) {
            warn_of(&remote, &error.to_string());
        }
    })?;
    let local = connection.local();
    // Where the platform does not tell what the peer has answered to, the routing table may: but it
    // knows nothing of `iface`.
    let ip = socket::udp::source_toward(remote, local).unwrap_or_else(|_| local.ip());
    Ok((connection, SocketAddr::new(ip, local.port())))
}

/// A socket, or one for each of several interfaces.
fn open_socket(
    bind: SocketAddr,
    config: &LinkConfig,
    runtime: &Handle,
) -> io::Result<arq_tokio::Endpoint> {
    let (options, accepts) = (&config.socket, EndpointConfig::default());
    match &config.paths {
        Paths::Over(interfaces) => arq_tokio::Endpoint::over_interfaces(
            interfaces.iter().cloned(),
            bind,
            options,
            accepts,
            runtime,
        ),
        Paths::Auto => arq_tokio::Endpoint::over_all_devices(bind, options, accepts, runtime),
        Paths::Unsaid | Paths::Off => arq_tokio::Endpoint::bind(bind, options, accepts, runtime),
    }
}

/// The address to connect from: as asked, or any of the right family.
async fn local_address(remote: SocketAddr, bind: Option<&str>) -> ZResult<SocketAddr> {
    let Some(bind) = bind else {
        let any: IpAddr = match remote {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        return Ok(SocketAddr::new(any, 0));
    };
    let mut candidates = get_ip_addrs(Address::from(bind)).await?;
    let found = candidates.find(|local| local.is_ipv4() == remote.is_ipv4());
    found.ok_or_else(|| zerror!("`bind={bind}` and {remote} are of different IP versions").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Less than the handshake with a silent address may take.
    const HANG: Duration = Duration::from_secs(5);

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_silent_address_is_not_waited_for_before_the_next_is_tried() {
        let config = LinkConfig::default();
        let accept = EndpointConfig::new(protocol_config(&config, Side::Listens).unwrap());
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let runtime = driver_runtime().unwrap();
        let listener = arq_tokio::Endpoint::bind(any, &config.socket, accept, &runtime).unwrap();
        let silent = std::net::UdpSocket::bind(any).unwrap();
        let addresses = vec![silent.local_addr().unwrap(), listener.local_addr()];
        let attempt = Attempt { config, protection: Protection::Clear, host: String::new() };
        let attempt = Arc::new(attempt);
        let connected = tokio::time::timeout(HANG, connect_first(addresses, &attempt)).await;
        let (connection, _) = connected.expect("the silent one was waited for").unwrap();
        assert_eq!(connection.remote(), listener.local_addr());
    }

    #[tokio::test]
    async fn paths_that_nobody_has_named_are_for_secured_links() {
        let (accepted, _links) = flume::unbounded();
        let endpoint = "arq/127.0.0.1:1#paths=auto;security=off".parse().unwrap();
        let error = LinkManagerUnicastArq::new(accepted).new_link(endpoint).await.unwrap_err();
        assert!(error.to_string().contains("`paths=auto` is for secured links"), "{error}");
    }
}
