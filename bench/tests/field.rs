// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! The case book: what users report of links in the field, tried between hosts of a lab over `arq/` and, in the same run,
//! over a stock link.
//!
//! Each test is named after what the user saw. Every node has zenoh's stock settings unless the test says otherwise.
//! `--nocapture` shows the measured figures.

#[path = "field/crowds.rs"]
mod crowds;
#[path = "field/narrow.rs"]
mod narrow;
#[path = "real_network/nodes.rs"]
mod nodes;
#[path = "field/offload.rs"]
mod offload;
#[path = "field/queues.rs"]
mod queues;
#[path = "field/restarts.rs"]
mod restarts;
#[path = "field/sessions.rs"]
mod sessions;
mod support;
#[path = "field/unreachable.rs"]
mod unreachable;

use netlab::Lab;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use nodes::Kind;
use support::Role;

static TURN: RwLock<()> = RwLock::new(());

/// One load at a time: on two cores, tests beside each other measure each other.
fn alone() -> RwLockWriteGuard<'static, ()> {
    TURN.write()
}

/// Those that mostly wait do so beside each other: each has hosts of its own.
fn beside_others() -> RwLockReadGuard<'static, ()> {
    TURN.read()
}

/// Starts a node whose side of the session goes over `protocol` to host 1, and waits until it says that it is ready.
fn node(
    lab: &Lab,
    host: usize,
    protocol: &str,
    role: &str,
    kind: Kind,
    more: &[(&str, &str)],
) -> Role {
    let endpoint = format!("{protocol}/{}:7447", lab.host(1).ipv4());
    let mut env = vec![("ENDPOINT", endpoint), ("KIND", kind.name().to_owned())];
    env.extend(more.iter().map(|(key, value)| (*key, (*value).to_owned())));
    let mut role = Role::start(lab.host(host), role, &env);
    assert_eq!(role.answer(), "ready");
    role
}
