// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! First contact: through which of several interfaces is a peer reached?
//!
//! The preferred interface is tried first and the next one beside it a little later, as RFC 8305 does with addresses. The
//! one that opens a connection first wins and the others are given up. Which interface that was matters little: the
//! connection has a path through each soon after.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use arq_proto::{Connect, ConnectionError};
use tokio::task::JoinSet;

use super::{
    connection::{ConnectError, Connection, DRIVER_BATCHES},
    paths::Paths,
    shared::Shared,
};

/// How long an interface may be silent before the next one is tried beside it (RFC 8305 §5).
const STAGGER: Duration = Duration::from_millis(250);

/// Opens a connection.
pub(super) async fn connect(
    shared: &Arc<Shared>,
    remote: SocketAddr,
    connect: Connect,
) -> Result<Connection, ConnectError> {
    match shared.paths() {
        None => attempt(shared, remote, connect).await,
        Some(paths) => first(shared, paths, remote, connect).await,
    }
}

async fn attempt(
    shared: &Arc<Shared>,
    remote: SocketAddr,
    connect: Connect,
) -> Result<Connection, ConnectError> {
    let inner = shared.connect(remote, connect).ok_or(ConnectionError::LocallyClosed)?;
    if let Some(paths) = shared.paths() {
        paths.tell(&inner);
    }
    inner.transmit(DRIVER_BATCHES);
    let connection = inner.into_handle();
    connection.established().await?;
    Ok(connection)
}

async fn first(
    shared: &Arc<Shared>,
    paths: &Paths,
    remote: SocketAddr,
    connect: Connect,
) -> Result<Connection, ConnectError> {
    let mut sockets = paths.toward(remote.ip()).into_iter().peekable();
    let mut attempts = JoinSet::new();
    let mut reason = None;
    loop {
        if let Some(socket) = sockets.next() {
            let (shared, connect) = (shared.clone(), connect.clone().through(socket));
            let runtime = shared.runtime().clone();
            attempts.spawn_on(
                async move { attempt(&shared, remote, connect).await.map_err(|error| (socket, error)) },
                &runtime,
            );
        }
        let patience = if sockets.peek().is_some() { STAGGER } else { Duration::MAX };
        match tokio::time::timeout(patience, attempts.join_next()).await {
            Ok(Some(Ok(Ok(connection)))) => return Ok(connection),
            Ok(Some(Ok(Err((socket, error))))) => {
                tracing::debug!(interface = paths.name(socket), %remote, %error, "not reached");
                // That of the preferred one, unless another says more than that there was no answer.
                let is_better = reason.as_ref().is_none_or(is_silence) && !is_silence(&error);
                if is_better || reason.is_none() {
                    reason = Some(error);
                }
            }
            // The runtime shuts down, or a panic has ended the attempt.
            Ok(Some(Err(_over))) => {}
            Ok(None) => return Err(reason.unwrap_or_else(|| no_interface(paths))),
            Err(_silent) => {}
        }
    }
}

fn is_silence(error: &ConnectError) -> bool {
    matches!(
        error.reason(),
        ConnectionError::HandshakeTimedOut { .. } | ConnectionError::Unsendable
    )
}

fn no_interface(paths: &Paths) -> ConnectError {
    let names: Vec<_> = paths.names().collect();
    let reason = if names.is_empty() {
        "no network device is up with an address; a tunnel, bridge or veth must be named".to_owned()
    } else {
        let names = names.join(", ");
        format!("none of the interfaces {names} is up with an address of the peer's IP version")
    };
    let source = Arc::new(io::Error::new(io::ErrorKind::NetworkDown, reason));
    ConnectError::Unsent { reason: ConnectionError::Unsendable, source }
}
