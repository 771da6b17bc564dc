// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The statistics of the process for monitoring: OpenMetrics text over HTTP, off unless asked for.
//!
//! A locator (`#metrics=127.0.0.1:9464`) or the environment variable [`VARIABLE`] switches it on,
//! in any program that uses `arq/` links. Once on it stays on: that a link is gone is what the
//! reader wants to see. It runs on a thread of its own, with bounded work for each reader, so that
//! no reader can slow a link down.

mod http;
mod text;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::LazyLock,
};

use parking_lot::Mutex;
use thiserror::Error;
use tokio::runtime::{Handle, Runtime};

pub use text::openmetrics;

use crate::config::LinkConfig;

/// The environment variable that switches the endpoint on: an address, or a port of 127.0.0.1.
pub const VARIABLE: &str = "ZENOH_ARQ_METRICS";

/// Where the endpoint is, as asked for and as bound.
static SERVED: Mutex<BTreeMap<SocketAddr, SocketAddr>> = Mutex::new(BTreeMap::new());

/// The statistics cannot be served as asked for.
#[derive(Debug, Error)]
#[error("`{setting}`: cannot serve the statistics there: {reason}")]
pub(crate) struct MetricsError {
    setting: String,
    reason: String,
}

/// Serves the statistics of this process at `http://address/metrics`, until it ends. An address
/// that they are served at already, by itself or as one of all, is no error. Port 0 is any free one.
///
/// Returns the address that was bound.
///
/// # Errors
/// What the kernel answers, `AddrInUse` for a taken port.
pub fn serve(address: SocketAddr) -> io::Result<SocketAddr> {
    let mut served = SERVED.lock();
    if let Some(bound) = served.get(&address) {
        return Ok(*bound);
    }
    let listener = match TcpListener::bind(address) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let ours = served.values().find(|bound| covers(bound, &address));
            return ours.copied().ok_or(error);
        }
        listener => listener?,
    };
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    http::start(listener, &server_runtime()?)?;
    tracing::info!("the statistics of arq/ links are at http://{bound}{}", http::PATH);
    if !bound.ip().is_loopback() {
        tracing::warn!(%bound, "the statistics can be read from other hosts, by anybody");
    }
    if address.port() != 0 {
        served.insert(address, bound);
    }
    Ok(bound)
}

/// Whether what is bound to all addresses is why `address` could not be bound beside it, and answers there: `[::]`
/// answers IPv4, too, where the system makes it so.
fn covers(bound: &SocketAddr, address: &SocketAddr) -> bool {
    bound.ip().is_unspecified()
        && bound.port() == address.port()
        && (bound.is_ipv6() || address.is_ipv4())
}

/// Serves what `config` and the environment ask for. A locator that cannot have what it asks for is
/// refused; the environment speaks to more than this process, so that it is only warned of.
pub(crate) fn switch_on(config: &LinkConfig) -> Result<(), MetricsError> {
    if let Some(asked) = std::env::var_os(VARIABLE).filter(|asked| !asked.is_empty()) {
        if let Err(error) = serve_variable(&asked.to_string_lossy()) {
            warn_once(error.to_string());
        }
    }
    let Some(address) = config.metrics else { return Ok(()) };
    serve(address).map(drop).map_err(|error| MetricsError {
        setting: format!("metrics={address}"),
        reason: reason(&error),
    })
}

/// zenoh tries to connect again and again, and each attempt asks.
fn warn_once(text: String) {
    static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut warned = WARNED.lock();
    if !warned.contains(&text) {
        tracing::warn!("{text}");
        warned.insert(text);
    }
}

fn serve_variable(asked: &str) -> Result<(), MetricsError> {
    let failed = |reason: String| MetricsError { setting: format!("{VARIABLE}={asked}"), reason };
    let address = parse_address(asked)
        .ok_or_else(|| failed("expected ip:port, or a port of 127.0.0.1".to_owned()))?;
    serve(address).map(drop).map_err(|error| failed(reason(&error)))
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!("{error}; choose another port"),
        _ => error.to_string(),
    }
}

/// `ip:port`, or a port of this host alone.
pub(crate) fn parse_address(text: &str) -> Option<SocketAddr> {
    let port = text.parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let address = port.or_else(|_| text.parse()).ok()?;
    (address.port() != 0).then_some(address)
}

/// A thread of its own: neither the drivers nor zenoh wait for a reader.
fn server_runtime() -> io::Result<Handle> {
    static SERVER: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("arq-metrics")
            .enable_all()
            .build()
    });
    match &*SERVER {
        Ok(runtime) => Ok(runtime.handle().clone()),
        Err(error) => Err(io::Error::new(error.kind(), format!("no thread for it: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_an_error_that_names_the_setting() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let config = LinkConfig { metrics: Some(address), ..LinkConfig::default() };
        let error = switch_on(&config).unwrap_err().to_string();
        assert!(error.contains(&format!("`metrics={address}`")), "{error}");
        assert!(error.contains("in use") && error.contains("another port"), "{error}");
        let error = serve_variable(&address.port().to_string()).unwrap_err().to_string();
        assert!(error.contains(&format!("`ZENOH_ARQ_METRICS={}`", address.port())), "{error}");
        let error = serve_variable("yes").unwrap_err().to_string();
        assert!(error.contains("`ZENOH_ARQ_METRICS=yes`") && error.contains("ip:port"), "{error}");
    }

    #[test]
    fn an_address_is_served_once() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        assert_eq!(serve(address).unwrap(), address);
        assert_eq!(serve(address).unwrap(), address);
    }

    #[test]
    fn what_is_served_at_all_addresses_is_served_at_each() {
        // Linux answers IPv4 at `[::]`, too.
        for all in ["0.0.0.0:0", "[::]:0"] {
            let free = TcpListener::bind(all).unwrap();
            let everywhere = free.local_addr().unwrap();
            drop(free);
            assert_eq!(serve(everywhere).unwrap(), everywhere);
            let here = SocketAddr::from((Ipv4Addr::LOCALHOST, everywhere.port()));
            assert_eq!(serve(here).unwrap(), everywhere);
        }
    }

    #[test]
    fn what_is_served_at_ipv4_alone_is_not_served_at_ipv6() {
        let theirs = TcpListener::bind("[::1]:0").unwrap();
        let here = theirs.local_addr().unwrap();
        serve(SocketAddr::from((Ipv4Addr::UNSPECIFIED, here.port()))).unwrap();
        assert_eq!(serve(here).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
