// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A connection's several paths: what it is told of interfaces, and what it tells of paths.

use std::{net::SocketAddr, sync::Arc};

use arq_proto::{Interface, PathEvent, PathNumber, PathState, PathStats, SocketId};

use super::{path_log::Line, Connection, Inner};
use crate::{driver::shared::Shared, interfaces::Reach, socket::why_unanswered};

/// How a path of a connection stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathInfo {
    /// The network interface that it leads through, of the side that has opened it through several.
    pub interface: Option<String>,
    /// What it has done.
    pub stats: PathStats,
}

impl Connection {
    /// How each path stands, that of the handshake first. There is one unless
    /// [`Endpoint::over_interfaces`](crate::Endpoint::over_interfaces) has made several.
    #[must_use]
    pub fn paths(&self) -> Vec<PathInfo> {
        let paths: Vec<_> = self.0.state.lock().core.paths().collect();
        let endpoint = self.0.endpoint.upgrade();
        let name = |socket| Some(endpoint.as_ref()?.paths()?.name(socket)?.to_owned());
        paths.into_iter().map(|stats| PathInfo { interface: name(stats.socket), stats }).collect()
    }

    /// The network interfaces that it may lead through, the preferred first; none if its endpoint has but one socket.
    #[must_use]
    pub fn interfaces(&self) -> Vec<String> {
        let endpoint = self.0.endpoint.upgrade();
        let paths = endpoint.as_ref().and_then(|endpoint| endpoint.paths());
        paths.map_or_else(Vec::new, |paths| paths.names().map(str::to_owned).collect())
    }

    /// Bytes of copies that turned out needless, per byte that was needed, over the last twenty seconds or so.
    #[must_use]
    pub fn needless_share(&self) -> f64 {
        self.0.state.lock().core.needless_share()
    }
}

/// A path as the log names it.
struct Named {
    number: PathNumber,
    socket: SocketId,
    remote: SocketAddr,
    answers: bool,
    /// Its budget keeps it from being used.
    is_used_up: bool,
}

impl Inner {
    /// How this host's interfaces stand. Whether one is of use depends on where the peer is.
    pub(in crate::driver) fn handle_interfaces(
        self: &Arc<Self>,
        interfaces: &[(Interface, Reach)],
    ) {
        self.with_core(|state, now| {
            let remote = state.core.remote().ip();
            for (interface, reach) in interfaces {
                let is_up = reach.leads_to(remote);
                state.core.handle_interface(now, Interface { is_up, ..interface.clone() });
            }
        });
    }

    /// What follows from news of paths, without the connection's lock.
    pub(super) fn follow_paths(
        self: &Arc<Self>,
        endpoint: &Shared,
        opened: &[PathNumber],
        lines: &[Line],
    ) {
        let named = |path: PathStats| Named {
            number: path.number,
            socket: path.socket,
            remote: path.remote,
            answers: path.state == PathState::Open,
            is_used_up: path.budget_bytes.is_some() && path.state == PathState::Paused,
        };
        let paths: Vec<_> = self.state.lock().core.paths().map(named).collect();
        for path in paths.iter().filter(|path| opened.contains(&path.number)) {
            self.ask_interface_of(endpoint, path);
        }
        for line in lines {
            if let Some(path) = paths.iter().find(|path| path.number == line.path) {
                let mut others = paths.iter().filter(|other| other.number != path.number);
                let has_other = others.clone().any(|other| other.answers);
                let used_up = others.find(|other| other.is_used_up && !has_other);
                tell(endpoint, path, line, has_other, used_up);
            }
        }
    }

    /// What the interface of a path carries. A side with one socket has asked for that already.
    fn ask_interface_of(self: &Arc<Self>, endpoint: &Shared, path: &Named) {
        if !self.asks_interface || endpoint.paths().is_none() {
            return;
        }
        let sockets = endpoint.sockets();
        let Some(socket) = sockets.get(path.socket) else { return };
        if let Some(bytes) = socket.mtu_toward(path.remote) {
            self.with_core(|state, now| state.core.handle_interface_mtu(now, path.socket, bytes));
        }
    }
}

/// Writes a line about a path.
fn tell(endpoint: &Shared, path: &Named, line: &Line, has_other: bool, used_up: Option<&Named>) {
    let Named { number, remote, socket, .. } = path;
    let name_of = |socket| endpoint.paths().and_then(|paths| paths.name(socket));
    let name = name_of(*socket);
    let interface = name.unwrap_or("-");
    let untold = line.untold;
    match line.event {
        PathEvent::Opened => {
            tracing::info!(interface, %remote, path = %number, untold, "a path is open")
        }
        PathEvent::Silent if used_up.is_some() => {
            let metered = used_up.and_then(|path| name_of(path.socket)).unwrap_or("-");
            tracing::warn!(interface, metered, untold, "the last path is silent, and the budget of the metered one is used up: `metered_rate` says how much it earns");
        }
        PathEvent::Silent => {
            tracing::info!(interface, %remote, path = %number, untold, "a path is silent: others carry what it should");
        }
        PathEvent::Answers(after) => {
            tracing::info!(interface, %remote, path = %number, ?after, untold, "a path answers again");
        }
        PathEvent::Unanswered => {
            let hint = name.map_or_else(String::new, |name| why_unanswered(name, *remote));
            tracing::warn!(interface, %remote, path = %number, untold, "a path does not open: its questions are unanswered{hint}");
        }
        PathEvent::Limited { bytes_per_second } => {
            tracing::warn!(interface, %remote, path = %number, bytes_per_second, untold, "a path loses far more than a medium does: its rate is limited to what arrives. Publish less, or set `max_rate`");
        }
        PathEvent::SilentTogether => {
            tracing::warn!(interface, %remote, path = %number, untold, "paths fall silent together: do they share a radio, a modem or a network?");
        }
        PathEvent::UsedUp if has_other => {
            tracing::info!(interface, path = %number, untold, "a path has used up its budget, and rests until it has earned a tenth of an hour's worth");
        }
        PathEvent::UsedUp => {
            tracing::warn!(interface, path = %number, untold, "the last path that answers has used up its budget, and nothing is sent until it has earned a tenth of an hour's worth: `metered_rate` says how much it earns");
        }
        // What there is no word for yet.
        _ => {}
    }
}
