// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Figures of the watched process in the admin space of the node that it is.

use std::thread;
use std::time::Duration;

use zenoh::session::ZenohId;
use zenoh::{Config, Session, Wait};

use crate::scrape::Endpoint;

/// Shows what `endpoint` serves in the admin space of the node that listens at `locator`: for ever, and under its new id
/// once it was restarted.
///
/// # Errors
/// Why there is no session with the node.
pub(crate) fn run(endpoint: &Endpoint, locator: &str, interval: Duration) -> zenoh::Result<()> {
    let session = open(locator)?;
    let mut shown = None;
    loop {
        let node = node(&session);
        if shown.as_ref().map(|(zid, _)| *zid) != node {
            // The old one ends first.
            drop(shown.take());
            shown = node.map(|zid| publish(&session, zid, endpoint)).transpose()?;
        }
        thread::sleep(interval);
    }
}

fn open(locator: &str) -> zenoh::Result<Session> {
    let mut config = Config::default();
    config.insert_json5("mode", "\"client\"")?;
    config.insert_json5("connect/endpoints", &serde_json::json!([locator]).to_string())?;
    // That node and no other.
    config.insert_json5("scouting/multicast/enabled", "false")?;
    zenoh::open(config).wait()
}

/// Who is at the other end of a client's session.
fn node(session: &Session) -> Option<ZenohId> {
    let info = session.info();
    let router = info.routers_zid().wait().next();
    router.or_else(|| info.peers_zid().wait().next())
}

type Shown = (ZenohId, zenoh::query::Queryable<()>);

fn publish(session: &Session, zid: ZenohId, endpoint: &Endpoint) -> zenoh::Result<Shown> {
    let source = endpoint.clone();
    let queryable = arq_top::publish_as(session, zid, move || source.fetch().ok())?;
    println!("{endpoint} is at @/{zid}/arq/**");
    Ok((zid, queryable))
}
