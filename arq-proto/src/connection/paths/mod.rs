// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Several paths beneath one association: which there are, and which of them is served.
//!
//! Messages, lanes, credit and keys belong to the association; ids, packet numbers, acknowledgements, round trip, loss,
//! controller, pacer and path MTU to a [`Path`]. One path is served at a time and is then [`Connection::path`], so whoever
//! sends, receives or repairs need not know that there are others. Between two calls that is the path of the handshake.
//!
//! [`opening`] brings a path up, [`moving`] says what happens when one falls silent, and [`placement`] what leaves where.
//!
//! [`placement`]: super::path::placement

mod doubling;
mod ids;
mod metering;
mod moving;
mod opening;
mod placing;
mod together;
mod vanishing;

use std::{
    fmt, mem,
    net::SocketAddr,
    time::{Duration, Instant},
};

use super::{
    path::{
        placement::Primary,
        standing::{Standing, Wish},
        Path,
    },
    Connection, State,
};
use crate::{
    budget::Budget,
    ecn::EcnState,
    event::Event,
    sent::Content,
    timer::TimerKind,
    units::{ConnectionId, PathNumber, Probability, SocketId},
    wire::frame::{Frame, PathUse},
};
use doubling::Doubles;
use ids::{Ids, Key};
use moving::Copies;
use together::Together;

/// A network interface through which a path may lead, of the side that has dialled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The socket that is bound to it.
    pub socket: SocketId,
    /// Whether it is up and has an address.
    pub is_up: bool,
    /// What it is for.
    pub purpose: InterfaceUse,
}

/// What an interface is for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum InterfaceUse {
    /// For everything.
    #[default]
    Always,
    /// For when no other answers.
    Backup,
    /// The same within a budget: nothing leaves that it does not cover.
    Metered(Budget),
}

/// Some sockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketSet(u8);

impl SocketSet {
    /// Adds one.
    pub fn insert(&mut self, socket: SocketId) {
        self.0 |= 1_u8.checked_shl(socket.0.into()).unwrap_or(0);
    }

    /// Whether one is among them.
    #[must_use]
    pub fn contains(self, socket: SocketId) -> bool {
        self.0 & 1_u8.checked_shl(socket.0.into()).unwrap_or(0) != 0
    }
}

/// What a connection tells its [`Endpoint`](crate::Endpoint): see [`Connection::poll_endpoint_event`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndpointEvent {
    /// Ids by which its packets name this side.
    pub(crate) local: Vec<ConnectionId>,
    /// Ids by which they name the peer.
    pub(crate) remote: Vec<ConnectionId>,
    /// Who the peer is, if it has dialled, and proved and told that.
    pub(crate) client: Option<ProvenClient>,
}

/// What a handshake has shown of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProvenClient {
    /// What names its host.
    pub(crate) host: u64,
    /// The same for all who have what it has proved to hold.
    pub(crate) credential: Vec<u8>,
}

/// Where a path stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathState {
    /// It was not shown to work in both directions yet.
    Opening,
    /// It answers.
    Open,
    /// It does not answer: others carry what it should.
    Silent,
    /// Its interface is down, at this side or at the peer's.
    Paused,
}

impl fmt::Display for PathState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Opening => "opening",
            Self::Open => "open",
            Self::Silent => "silent",
            Self::Paused => "paused",
        })
    }
}

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathEvent {
    /// It can be used.
    Opened,
    /// It was asked for, and is not answered: the question is repeated as long as the interface is up.
    Unanswered,
    /// It does not answer any more.
    Silent,
    /// It answers again, after so long.
    Answers(Duration),
    /// Far more was sent than arrived: at most so much leaves until less is lost (RFC 8083). A line whose provider polices
    /// it is such a path.
    Limited {
        /// UDP payload at first. The limit follows what arrives.
        bytes_per_second: u64,
    },
    /// It falls silent together with another one, more often than not: they may share a radio, a modem or a network.
    SilentTogether,
    /// Its budget is used up: it is paused until a tenth of an hour's worth is left again.
    UsedUp,
}

/// How a path stands. Counters only grow.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStats {
    /// Its number.
    pub number: PathNumber,
    /// The socket that it leads through.
    pub socket: SocketId,
    /// The peer's address on it.
    pub remote: SocketAddr,
    /// Where it stands.
    pub state: PathState,
    /// It is for when no other answers, as one of the sides wishes.
    pub is_backup: bool,
    /// Messages begin on it.
    pub is_primary: bool,
    /// Smoothed round-trip time (RFC 9002 §5.3); zero before the first sample.
    pub srtt: Duration,
    /// Share of our packets that it loses, an upper estimate.
    pub loss: Probability,
    /// Whether our packets are marked as capable of ECN (RFC 3168) on it.
    pub ecn: EcnState,
    /// Packets of ours that its queues have marked (CE), as the peer says.
    pub packets_marked: u64,
    /// Bytes of UDP payload sent and received on it.
    pub bytes_sent: u64,
    /// See [`Self::bytes_sent`].
    pub bytes_received: u64,
    /// Probe time-outs, of [`Stats::ptos`](crate::Stats::ptos).
    pub ptos: u64,
    /// Times that it fell silent.
    pub silences: u64,
    /// How long it was silent in all.
    pub silent_time: Duration,
    /// Of the last 32 silences of any path of the connection the share in which another one was silent, too. Zero before
    /// there were ten.
    pub common_silence: Probability,
    /// Bytes that it had delivered, although they left on another path as well.
    pub needless_bytes: u64,
    /// Bytes that its controller allows in flight.
    pub window_bytes: u64,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// The longest datagram sent on it, in bytes of UDP payload.
    pub path_mtu_bytes: u16,
    /// Bytes that may pass it now, with their IP and UDP headers, if it has a budget.
    pub budget_bytes: Option<u64>,
}

/// The paths that are not served now, and what belongs to all of them.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// At the place of the path that is served lies the one of the handshake.
    paths: [Option<Box<Path>>; PathNumber::COUNT - 1],
    count: usize,
    /// Once both sides have agreed to have several.
    ids: Option<Ids>,
    most: usize,
    /// What the peer said of datagrams: the longest that it takes, and whether it takes chunks cut anew.
    peer_limits: (u16, bool),
    interfaces: Vec<Interface>,
    primary: Primary,
    copies: Copies,
    doubles: Doubles,
    together: Together,
    /// Packets that left while no path answered.
    turns: usize,
    event: Option<EndpointEvent>,
}

impl Others {
    /// Whether the path that is served is the only one.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().flatten().map(Box::as_ref)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.paths.iter_mut().flatten().map(Box::as_mut)
    }
}

impl Connection {
    /// What the endpoint is to be told, by [`Endpoint::handle_event`](crate::Endpoint::handle_event): to be asked for after
    /// each call of [`handle_datagrams`](Self::handle_datagrams).
    pub fn poll_endpoint_event(&mut self) -> Option<EndpointEvent> {
        self.others.event.take()
    }

    pub(super) fn tell_endpoint(&mut self) -> &mut EndpointEvent {
        self.others.event.get_or_insert_default()
    }

    /// How each path stands; the first is the one of the handshake.
    pub fn paths(&self) -> impl Iterator<Item = PathStats> + '_ {
        let srtt = |path: &Path| match path.recovery.rtt() {
            rtt if rtt.is_measured() => rtt.smoothed(),
            _ => Duration::ZERO,
        };
        self.all_paths().map(move |path| PathStats {
            number: path.number,
            socket: path.socket,
            remote: path.remote,
            state: path.state(),
            is_backup: path.is_backup(),
            is_primary: path.number == self.others.primary.number(),
            srtt: srtt(path),
            loss: path.recovery.loss().upper(),
            ecn: path.recovery.ecn.state(),
            packets_marked: path.recovery.ecn.marks(),
            bytes_sent: path.bytes_sent,
            bytes_received: path.bytes_received,
            ptos: path.ptos,
            silences: path.silence.totals(self.clock.now).0,
            silent_time: path.silence.totals(self.clock.now).1,
            common_silence: self.others.together.share(),
            needless_bytes: path.needless_bytes,
            window_bytes: path.recovery.window_bytes(),
            in_flight_bytes: path.recovery.in_flight_bytes(),
            path_mtu_bytes: path.mtu.size(),
            budget_bytes: path.meter.as_ref().map(|meter| meter.budget.left_bytes(self.clock.now)),
        })
    }

    /// Bytes of copies that turned out needless, per byte that was needed, over the last twenty seconds or so.
    #[must_use]
    pub fn needless_share(&self) -> f64 {
        self.others.copies.share(self.clock.now)
    }

    /// The interface of a path has come up, gone, or is for other use than before. Of the side that has dialled; each
    /// interface has a path of its own from then on, as soon as the peer agrees to have several.
    pub fn handle_interface(&mut self, now: Instant, interface: Interface) {
        let now = self.advance(now);
        self.meter_path_of(&interface);
        let interfaces = &mut self.others.interfaces;
        match interfaces.iter().position(|known| known.socket == interface.socket) {
            Some(place) => interfaces[place] = interface,
            None if interfaces.len() < PathNumber::COUNT => interfaces.push(interface),
            None => return,
        }
        self.follow_interfaces(now);
        self.rearm(now);
    }

    /// The handshake goes through this socket.
    pub(crate) fn begin_through(&mut self, socket: SocketId) {
        self.path.socket = socket;
    }

    pub(super) fn all_paths(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.path.as_ref()).chain(self.others.iter())
    }

    /// Serves a path; `None` if there is none of this number.
    pub(super) fn with_path<R>(
        &mut self,
        number: PathNumber,
        serve: impl FnOnce(&mut Self) -> R,
    ) -> Option<R> {
        let before = self.path.number;
        if number == before {
            return Some(serve(self));
        }
        // From within another path's turn the way leads over the one of the handshake.
        self.swap_in(before);
        if number != PathNumber::FIRST && !self.swap_in(number) {
            self.swap_in(before);
            return None;
        }
        let served = serve(self);
        self.swap_in(number);
        self.swap_in(before);
        Some(served)
    }

    /// Exchanges the path that is served for the one at this path's place; none is that of the handshake.
    fn swap_in(&mut self, number: PathNumber) -> bool {
        let Some(place) = number.index().checked_sub(1) else { return true };
        match self.others.paths.get_mut(place) {
            Some(Some(path)) => {
                mem::swap(&mut self.path, path);
                true
            }
            _ => false,
        }
    }

    /// Serves every path, the one that is served last.
    pub(super) fn with_each_path(&mut self, mut serve: impl FnMut(&mut Self)) {
        if !self.others.is_empty() {
            let served = self.path.number;
            for number in PathNumber::all().filter(|number| *number != served) {
                self.with_path(number, &mut serve);
            }
        }
        serve(self);
    }

    /// Both sides have said how many paths they keep, and have the key that ids are computed from.
    pub(super) fn agree_on_paths(&mut self, key: Option<Key>) {
        let (Some(key), true) = (key, self.others.most > 1) else { return };
        let first = (self.path.local_cid, self.path.remote_cid);
        let ids = Ids::new(&key, self.dialled, first);
        let (local, remote) = (ids.local[1..].to_vec(), ids.remote[1..].to_vec());
        let event = self.tell_endpoint();
        (event.local, event.remote) = (local, remote);
        self.others.ids = Some(ids);
    }

    /// The same where packets are not sealed.
    pub(super) fn agree_on_clear_paths(&mut self) {
        let (local, remote) = (self.path.local_cid, self.path.remote_cid);
        let (client, server) = if self.dialled { (local, remote) } else { (remote, local) };
        self.agree_on_paths(Some(ids::clear_key(client, server)));
    }

    /// What the peer said in the handshake.
    pub(super) fn note_peer_paths(&mut self, paths: u8, limits: (u16, bool)) {
        self.others.most = paths.min(self.config.paths).into();
        self.others.peer_limits = limits;
    }

    /// Whether frames of paths may come.
    pub(super) fn has_agreed_on_paths(&self) -> bool {
        self.others.ids.is_some()
    }

    /// The path that packets with this id of ours take.
    pub(super) fn path_of(&self, local: Option<ConnectionId>) -> PathNumber {
        let ids = self.others.ids.as_ref();
        ids.zip(local).and_then(|(ids, id)| ids.path_of(id)).unwrap_or_default()
    }

    /// The path that packets with this id of the peer's take.
    pub(super) fn path_to(&self, remote: ConnectionId) -> PathNumber {
        self.others.ids.as_ref().and_then(|ids| ids.path_to(remote)).unwrap_or_default()
    }

    /// The first path through a socket.
    pub(super) fn path_through(&self, socket: SocketId) -> PathNumber {
        let path = self.all_paths().find(|path| path.socket == socket);
        path.map_or(PathNumber::FIRST, |path| path.number)
    }

    /// The earliest deadline of all paths.
    pub(super) fn next_timer(&self) -> Option<(Instant, TimerKind, Option<PathNumber>)> {
        let own = self.timers.next().map(|(at, kind)| (at, kind, None));
        let of_path = |path: &Path| {
            let (at, kind) = path.timers.next()?;
            Some((at, kind, Some(path.number)))
        };
        self.all_paths().filter_map(of_path).chain(own).min()
    }

    /// What the keys wait for: three of the longest probe time-outs. A path that was not used since the last update cannot
    /// tell packets of the one before from those of the next, so with several none follows within three seconds.
    pub(super) fn key_patience(&self) -> Duration {
        let longest = self.all_paths().map(|path| path.recovery.pto_base()).max();
        let least = if self.others.is_empty() { Duration::ZERO } else { Duration::from_secs(1) };
        longest.unwrap_or_default().max(least)
    }

    pub(super) fn tell_path(&mut self, event: PathEvent) {
        if !is_open(&self.state) {
            return;
        }
        self.events.push_back(Event::Path(self.path.number, event));
    }

    /// The wishes of which the peer is to hear, with what to do if the packet is lost.
    pub(super) fn take_wish(&mut self) -> Option<(Frame<'static>, Content)> {
        let mut paths = std::iter::once(self.path.as_mut()).chain(self.others.iter_mut());
        let path = paths.find(|path| path.has_wish())?;
        path.own_wish.due = false;
        let (number, Wish { wish, sequence, .. }) = (path.number, path.own_wish);
        let frame = Frame::PathState { path: number, sequence, wish };
        Some((frame, Content::PathState(number)))
    }

    pub(super) fn has_wish(&self) -> bool {
        let has_one = self.others.is_empty() && self.path.meter.is_none();
        self.has_agreed_on_paths() && !has_one && self.all_paths().any(Path::has_wish)
    }

    /// The packet was lost that told of a wish: it is told again, as it is by now.
    pub(super) fn on_wish_lost(&mut self, number: PathNumber) {
        self.with_path(number, |connection| connection.path.own_wish.due = true);
    }

    /// The peer says what a path is to be used for.
    pub(super) fn on_path_state(
        &mut self,
        now: Instant,
        number: PathNumber,
        sequence: u64,
        wish: PathUse,
    ) {
        self.with_path(number, |connection| {
            let known = &mut connection.path.peer_wish;
            if sequence <= known.sequence {
                return;
            }
            let before = mem::replace(known, Wish { wish, sequence, due: false }).wish;
            match (before, wish) {
                (PathUse::Paused, PathUse::Paused) => {}
                (_, PathUse::Paused) => connection.fall_silent(now),
                (PathUse::Paused, _) => connection.resume(),
                _ => {}
            }
        });
    }
}

impl Path {
    pub(super) fn state(&self) -> PathState {
        let is_paused = |wish: &Wish| wish.wish == PathUse::Paused;
        match self.standing {
            _ if is_paused(&self.own_wish) || is_paused(&self.peer_wish) => PathState::Paused,
            Standing::Opening(_) => PathState::Opening,
            Standing::Open if self.silence.is_silent() => PathState::Silent,
            Standing::Open => PathState::Open,
        }
    }

    pub(super) fn is_backup(&self) -> bool {
        let wishes = [self.own_wish, self.peer_wish];
        wishes.iter().any(|wish| wish.wish.is_backup())
    }

    /// Whether the peer is to hear of a wish. It does not know the path before that is open.
    fn has_wish(&self) -> bool {
        self.own_wish.due && matches!(self.standing, Standing::Open)
    }

    /// What this side wishes, of which the peer is to hear if it is new.
    pub(super) fn wish(&mut self, wish: PathUse) {
        if self.own_wish.wish != wish {
            self.own_wish = Wish { wish, sequence: self.own_wish.sequence + 1, due: true };
        }
    }
}

/// Whether messages flow.
fn is_open(state: &State) -> bool {
    matches!(state, State::Open { .. } | State::Flushing { .. })
}
