// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Several network interfaces beneath one endpoint: which there are, which socket is bound to which, and who must know that
//! one has come or gone.
//!
//! An interface has a socket of its own, bound to it, so a modem that stalls fills its own buffer and no other. A socket
//! stays with the interface that it was bound to: one that comes back, as a modem does that was pulled, gets a new one.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    str::FromStr,
    sync::{Arc, OnceLock},
};

use arq_proto::{Interface, InterfaceUse, SocketId};
use thiserror::Error;
use tokio::sync::watch;

use super::{
    budgets,
    connection::{Inner, DRIVER_BATCHES},
    now,
    ports::{Sockets, MOST_SOCKETS},
    sync::{Mutex, MutexGuard},
    warning::Warning,
};
use crate::{
    interfaces::{self, Interfaces, Reach},
    socket::{
        udp::{SocketOptions, UdpDatagramSocket},
        DatagramSocket,
    },
};

/// What marks an interface in a list that is for when no other answers.
const BACKUP: &str = ":backup";
/// What marks one whose bytes cost money.
const METERED: &str = ":metered";
/// What passes a metered interface on average where nothing else is said, in bits per second: 173 MB a day.
pub const DEFAULT_METERED_RATE_BPS: u64 = 16_000;
/// As the kernel has it, without the byte at the end.
const LONGEST_NAME_BYTES: usize = 15;

/// A network interface through which one path of each connection leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathInterface {
    /// Its name, e.g. `wlan0`.
    pub name: String,
    /// What it is for.
    pub role: InterfaceRole,
}

/// What a network interface is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InterfaceRole {
    /// It is used as long as it answers.
    #[default]
    Always,
    /// It is used only while no other answers.
    Backup,
    /// The same within a budget that all connections of the process share.
    Metered {
        /// What passes it on average, in bits per second with the headers of IP and UDP, both directions together, at least
        /// [`Budget::MIN_RATE_BPS`](arq_proto::Budget::MIN_RATE_BPS). `None`: as much as there is.
        rate_bps: Option<u64>,
    },
}

/// Why a text names no interface.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no network interface: expected a name of 1 to 15 bytes such as `wlan0`, or `wlan0:backup`, or `wlan0:metered`")]
pub struct PathInterfaceError(String);

impl PathInterface {
    /// An interface that is used as long as it answers.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), role: InterfaceRole::Always }
    }

    /// One that is used only while no other answers.
    #[must_use]
    pub fn backup(name: impl Into<String>) -> Self {
        Self { name: name.into(), role: InterfaceRole::Backup }
    }

    /// One that is used only while no other answers, within a [budget](InterfaceRole::Metered).
    #[must_use]
    pub fn metered(name: impl Into<String>, rate_bps: Option<u64>) -> Self {
        Self { name: name.into(), role: InterfaceRole::Metered { rate_bps } }
    }

    fn purpose(&self) -> InterfaceUse {
        match self.role {
            InterfaceRole::Always => InterfaceUse::Always,
            InterfaceRole::Backup | InterfaceRole::Metered { rate_bps: None } => {
                InterfaceUse::Backup
            }
            InterfaceRole::Metered { rate_bps: Some(rate) } => {
                InterfaceUse::Metered(budgets::of(&self.name, rate, now()))
            }
        }
    }
}

impl FromStr for PathInterface {
    type Err = PathInterfaceError;

    /// Reads `wlan0`, `wlan0:backup` or `wlan0:metered`, which is of [`DEFAULT_METERED_RATE_BPS`].
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rate_bps = Some(DEFAULT_METERED_RATE_BPS);
        let marked =
            [(BACKUP, InterfaceRole::Backup), (METERED, InterfaceRole::Metered { rate_bps })];
        let marked =
            marked.into_iter().find_map(|(mark, role)| Some((text.strip_suffix(mark)?, role)));
        let (name, role) = marked.unwrap_or((text, InterfaceRole::Always));
        // What the kernel refuses in a name, but for the colon of an alias, which has no socket of its own.
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || c == '/' || c == ':';
        let is_name = !["", ".", ".."].contains(&name) && name.len() <= LONGEST_NAME_BYTES;
        if !is_name || name.contains(is_odd) {
            return Err(PathInterfaceError(text.to_owned()));
        }
        Ok(Self { name: name.to_owned(), role })
    }
}

impl fmt::Display for PathInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.role {
            InterfaceRole::Always => "",
            InterfaceRole::Backup => BACKUP,
            InterfaceRole::Metered { .. } => METERED,
        };
        write!(f, "{}{mark}", self.name)
    }
}

/// The interfaces of an endpoint.
pub(super) struct Paths {
    /// The place of one is the number of its socket. A place that is empty is for a device that appears.
    interfaces: Vec<OnceLock<UsedInterface>>,
    /// How each stands. Locked while connections are told, so that none hears of two changes in the wrong order.
    reach: Mutex<Vec<Reach>>,
    /// Where sockets are bound, if the endpoint makes them itself.
    binds: Option<(SocketAddr, SocketOptions)>,
    unbound: Mutex<Warning>,
}

/// An interface, and what the core makes of it.
struct UsedInterface {
    interface: PathInterface,
    purpose: InterfaceUse,
}

impl From<PathInterface> for UsedInterface {
    fn from(interface: PathInterface) -> Self {
        Self { purpose: interface.purpose(), interface }
    }
}

/// Which interfaces an endpoint leads through.
pub(super) enum Chosen {
    /// These.
    ByName(Vec<PathInterface>),
    /// The devices that there are, as many as it can have sockets.
    Devices,
}

impl Chosen {
    /// A place for each socket, with its interface if that is known.
    fn places(self) -> io::Result<Vec<OnceLock<UsedInterface>>> {
        match self {
            Self::ByName(interfaces) => {
                check(&interfaces)?;
                Ok(interfaces
                    .into_iter()
                    .map(|interface| UsedInterface::from(interface).into())
                    .collect())
            }
            Self::Devices => Ok((0..MOST_SOCKETS).map(|_| OnceLock::new()).collect()),
        }
    }
}

/// News of this host's interfaces.
pub(super) type News = watch::Receiver<Arc<Interfaces>>;

impl Paths {
    /// Through sockets that somebody else has made and bound.
    pub(super) fn given(interfaces: Vec<PathInterface>) -> io::Result<Self> {
        let interfaces = Chosen::ByName(interfaces).places()?;
        let reach = Mutex::new(vec![Reach::ANYWHERE; interfaces.len()]);
        Ok(Self { interfaces, reach, binds: None, unbound: Mutex::default() })
    }

    /// Through sockets at `address`, of which those are made whose interface there is.
    pub(super) fn bound(
        chosen: Chosen,
        address: SocketAddr,
        options: &SocketOptions,
    ) -> io::Result<(Self, Sockets, News)> {
        let interfaces = chosen.places()?;
        let news = interfaces::watch()?;
        let listed = news.borrow().clone();
        let reach = Mutex::new(vec![Reach::default(); interfaces.len()]);
        let (binds, unbound) = (Some((address, options.clone())), Mutex::default());
        let paths = Self { interfaces, reach, binds, unbound };
        paths.take_devices(&listed);
        let mut sockets = Sockets::default();
        let mut known = paths.reach.lock();
        for (socket, interface) in paths.numbered() {
            let Some(reach) = listed.get(&interface.name) else { continue };
            match paths.bind(interface) {
                Ok(made) => sockets.set(socket, Some(made)),
                // The same would come of any other.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Err(_gone_meanwhile) => continue,
            }
            known[usize::from(socket.0)] = *reach;
        }
        drop(known);
        Ok((paths, sockets, news))
    }

    fn numbered(&self) -> impl Iterator<Item = (SocketId, &PathInterface)> {
        self.used().map(|(socket, used)| (socket, &used.interface))
    }

    fn used(&self) -> impl Iterator<Item = (SocketId, &UsedInterface)> {
        let places = (0..).map(SocketId).zip(&self.interfaces);
        places.filter_map(|(socket, place)| Some((socket, place.get()?)))
    }

    /// Gives the places that are empty to devices that have none.
    fn take_devices(&self, listed: &Interfaces) {
        let mut empty = self.interfaces.iter().filter(|place| place.get().is_none());
        for (name, _) in listed.iter().filter(|(_, reach)| reach.suits_anyone()) {
            if !self.names().any(|known| known == name) {
                let Some(place) = empty.next() else { return };
                place.get_or_init(|| PathInterface::new(name).into());
            }
        }
    }

    fn bind(&self, interface: &PathInterface) -> io::Result<Arc<UdpDatagramSocket>> {
        let Some((address, options)) = &self.binds else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let options = SocketOptions { interface: Some(interface.name.clone()), ..options.clone() };
        UdpDatagramSocket::bind(*address, &options).map(Arc::new)
    }

    /// The interface that a socket is bound to.
    pub(super) fn name(&self, socket: SocketId) -> Option<&str> {
        let used = self.interfaces.get(usize::from(socket.0))?.get()?;
        Some(&used.interface.name)
    }

    /// All of them, the preferred one first.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.numbered().map(|(_, interface)| interface.name.as_str())
    }

    /// The sockets through which a peer may be reached now, those for other cases last.
    pub(super) fn toward(&self, remote: IpAddr) -> Vec<SocketId> {
        let reach = self.reach.lock();
        let usable = |(socket, _): &(SocketId, &PathInterface)| {
            reach.get(usize::from(socket.0)).is_some_and(|reach| reach.leads_to(remote))
        };
        let mut usable: Vec<_> = self.numbered().filter(usable).collect();
        usable.sort_by_key(|(_, interface)| match interface.role {
            InterfaceRole::Always => 0,
            InterfaceRole::Backup => 1,
            InterfaceRole::Metered { .. } => 2,
        });
        usable.into_iter().map(|(socket, _)| socket).collect()
    }

    /// Tells a new connection of all interfaces.
    pub(super) fn tell(&self, connection: &Arc<Inner>) {
        self.tell_of(connection, &self.reach.lock(), |_| true);
    }

    fn tell_of(
        &self,
        connection: &Arc<Inner>,
        reach: &[Reach],
        is_news: impl Fn(SocketId) -> bool,
    ) {
        let told: Vec<_> = self
            .used()
            .filter(|(socket, _)| is_news(*socket))
            .filter_map(|(socket, used)| {
                let reach = *reach.get(usize::from(socket.0))?;
                let (is_up, purpose) = (reach.is_up, used.purpose.clone());
                Some((Interface { socket, is_up, purpose }, reach))
            })
            .collect();
        connection.handle_interfaces(&told);
    }

    /// Follows the list: makes and drops sockets, and tells the connections.
    pub(super) fn follow(
        &self,
        listed: &Interfaces,
        replace: impl Fn(SocketId, Option<Arc<dyn DatagramSocket>>),
        connections: impl FnOnce() -> Vec<Arc<Inner>>,
    ) {
        let mut known = self.reach.lock();
        self.take_devices(listed);
        let mut news = Vec::new();
        for (socket, interface) in self.numbered() {
            let Some(known) = known.get_mut(usize::from(socket.0)) else { continue };
            let mut reach = listed.get(&interface.name).copied().unwrap_or_default();
            if reach.index != known.index {
                let made = if reach.index == 0 { None } else { self.bind_again(interface) };
                if made.is_none() {
                    // It is tried again when there is other news of it.
                    reach = Reach::default();
                }
                replace(socket, made);
            }
            if std::mem::replace(known, reach) != reach {
                tracing::debug!(interface = %interface.name, ?reach, "an interface has changed");
                news.push(socket);
            }
        }
        self.spread(known, &news, connections);
    }

    fn bind_again(&self, interface: &PathInterface) -> Option<Arc<dyn DatagramSocket>> {
        match self.bind(interface) {
            Ok(made) => Some(made),
            Err(error) => {
                // The same comes of each change of the interface.
                if let Some(untold) = self.unbound.lock().tell(now()) {
                    tracing::warn!(%interface, %error, untold, "no socket for an interface");
                }
                None
            }
        }
    }

    /// Somebody else knows that one has come up or gone.
    pub(super) fn set_up(
        &self,
        name: &str,
        is_up: bool,
        connections: impl FnOnce() -> Vec<Arc<Inner>>,
    ) -> bool {
        let Some((socket, _)) = self.numbered().find(|(_, interface)| interface.name == name)
        else {
            return false;
        };
        let mut known = self.reach.lock();
        if let Some(reach) = known.get_mut(usize::from(socket.0)) {
            reach.is_up = is_up;
        }
        self.spread(known, &[socket], connections);
        true
    }

    fn spread(
        &self,
        reach: MutexGuard<'_, Vec<Reach>>,
        news: &[SocketId],
        connections: impl FnOnce() -> Vec<Arc<Inner>>,
    ) {
        if news.is_empty() {
            return;
        }
        let connections = connections();
        for connection in &connections {
            self.tell_of(connection, &reach, |socket| news.contains(&socket));
        }
        drop(reach);
        connections.iter().for_each(|connection| connection.transmit(DRIVER_BATCHES));
    }
}

/// What no list of interfaces may be.
fn check(interfaces: &[PathInterface]) -> io::Result<()> {
    let wrong = |reason: String| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    if interfaces.is_empty() || interfaces.len() > MOST_SOCKETS {
        let named = interfaces.len();
        return wrong(format!("1 to {MOST_SOCKETS} network interfaces are possible, not {named}"));
    }
    for (place, interface) in interfaces.iter().enumerate() {
        if interfaces[..place].iter().any(|other| other.name == interface.name) {
            return wrong(format!("the network interface `{}` is named twice", interface.name));
        }
    }
    Ok(())
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_read_as_it_is_written() {
        let metered = InterfaceRole::Metered { rate_bps: Some(16_000) };
        for (text, role) in [
            ("wlan0", InterfaceRole::Always),
            ("wwan0:backup", InterfaceRole::Backup),
            ("wwan0:metered", metered),
            ("enp0s31f6.100", InterfaceRole::Always),
        ] {
            let interface: PathInterface = text.parse().unwrap();
            assert_eq!(interface.to_string(), text);
            assert_eq!(interface.role, role);
        }
        for text in ["", ":backup", "wlan0:spare", "a b", "a/b", "..", "a-name-too-long0", "x:"] {
            let error = text.parse::<PathInterface>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("`wlan0:backup`"), "{error}");
        }
    }

    #[test]
    fn a_list_that_cannot_be_is_refused_by_name() {
        let list = |names: &[&str]| {
            check(&names.iter().copied().map(PathInterface::new).collect::<Vec<_>>())
        };
        assert!(list(&["a", "b", "c", "d"]).is_ok());
        assert!(list(&["a", "b", "a"]).unwrap_err().to_string().contains("`a` is named twice"));
        assert!(list(&["a", "b", "c", "d", "e"]).unwrap_err().to_string().contains("not 5"));
        assert!(list(&[]).is_err());
    }

    #[test]
    fn devices_take_places_as_they_appear_and_keep_them() {
        let interfaces = Chosen::Devices.places().unwrap();
        let devices = Paths { interfaces, ..Paths::given(vec![PathInterface::new("a")]).unwrap() };
        let device = Reach { is_up: true, has_ipv4: true, is_device: true, ..Reach::default() };
        let mut listed = Interfaces::new();
        let mut names_with = |name: &str, reach| {
            listed.insert(name.to_owned(), reach);
            devices.take_devices(&listed);
            devices.names().map(str::to_owned).collect::<Vec<_>>().join(",")
        };
        assert_eq!(names_with("wlan0", device), "wlan0");
        assert_eq!(names_with("tun0", Reach { is_device: false, ..device }), "wlan0");
        assert_eq!(names_with("eth0", Reach { has_ipv4: false, ..device }), "wlan0", "no address");
        assert_eq!(names_with("eth0", device), "wlan0,eth0");
        assert_eq!(names_with("wlan0", Reach::default()), "wlan0,eth0", "it may come back");
        assert_eq!(names_with("usb0", device), "wlan0,eth0,usb0");
        assert_eq!(names_with("wwan0", device), "wlan0,eth0,usb0,wwan0");
        assert_eq!(names_with("wwan1", device), "wlan0,eth0,usb0,wwan0", "there are four sockets");
    }
}
