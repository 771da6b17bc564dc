// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Secured links under real sessions: who is let in over `arq/` and over `quic/`, what is readable on the wire, how
//! certificates live and end.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

#[path = "../support/mod.rs"]
mod support;

mod access;
mod life;
mod matrix;
mod page;
mod pki;
mod policy;
mod wire;

use pki::Settings;
use support::{carry, chosen_port, connect, listen};
use zenoh::Session;

/// A session that connects to one that listens, both ends as told, and the one that listens. Of the two ends whichever
/// refuses, it is the one that connects that fails.
async fn meet(
    protocol: &str,
    router: &Settings,
    vehicle: &Settings,
    keys: [&str; 2],
) -> Result<[Session; 2], String> {
    let at = format!("{protocol}/localhost:0{}", keys[0]);
    let listener = listen(&at, &router.pairs()).await;
    let chosen = chosen_port(&format!("{protocol}/localhost:0{}", keys[1]), &listener).await;
    let connected = connect(&chosen, &vehicle.pairs()).await;
    let connector = connected.map_err(|error| error.to_string())?;
    Ok([listener, connector])
}

/// Who the other end of a session's only link is, by its certificate.
async fn peer_of(session: &Session) -> Option<String> {
    let link = session.info().links().await.next().expect("a link");
    link.auth_identifier().map(str::to_owned)
}

/// Carries a put each way.
async fn assert_carries([a, b]: &[Session; 2]) {
    carry(a, b, "secured/there").await;
    carry(b, a, "secured/back").await;
}
