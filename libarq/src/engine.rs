// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! An endpoint and its connections behind one handle: what the C interface is made of, without its pointers.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    time::{Duration, Instant},
};

use arq_proto::{
    config::ETHERNET_MTU, Connection, ConnectionHandle, Endpoint, EndpointConfig, Event, LaneId,
    Routed, SendError, Stats, ValidConfig,
};
use bytes::Bytes;

/// Answers that wait to be sent; the oldest give way, as on a full socket.
const MAX_REPLIES: usize = 1_024;

/// Why a call did nothing. The numbers are those of `arq_status` in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Failure {
    Null = -1,
    Invalid = -2,
    UnknownConnection = -3,
    Blocked = -4,
    TooLarge = -5,
    Closed = -6,
    TooSmall = -7,
}

/// A connection, as long as the application holds its id.
struct Held {
    core: Box<Connection>,
    accepted: bool,
    /// The application has let go: forgotten when it has ended.
    released: bool,
    /// The endpoint has forgotten it.
    drained: bool,
    /// A message that was too long for the application's buffer, by lane.
    unread: BTreeMap<LaneId, Bytes>,
}

/// What an application is told of a connection.
pub(crate) struct Told {
    pub(crate) connection: u64,
    pub(crate) accepted: bool,
    pub(crate) event: Event,
}

pub(crate) struct Engine {
    /// Time 0 of the application.
    epoch: Instant,
    core: Endpoint,
    held: BTreeMap<u64, Held>,
    replies: VecDeque<(SocketAddr, Vec<u8>)>,
    /// The connection that has sent last: the next one is asked first.
    served: u64,
    /// No datagram is longer.
    longest: usize,
    buffer: Vec<u8>,
}

impl Engine {
    /// `now_us`, like all times: microseconds of the application's monotonic clock.
    pub(crate) fn new(
        accept: Option<ValidConfig>,
        seed: [u8; 32],
        now_us: u64,
    ) -> Result<Self, Failure> {
        // Any instant does: times are relative to it.
        let epoch = Instant::now();
        let now = at(epoch, now_us)?;
        let longest = accept.as_ref().map_or(0, longest_datagram);
        let core = Endpoint::new(EndpointConfig::new(accept), seed, now);
        Ok(Self {
            epoch,
            core,
            held: BTreeMap::new(),
            replies: VecDeque::new(),
            served: 0,
            longest: longest.max(ETHERNET_MTU.into()),
            buffer: Vec::new(),
        })
    }

    pub(crate) fn at(&self, us: u64) -> Result<Instant, Failure> {
        at(self.epoch, us)
    }

    pub(crate) fn connect(&mut self, now: Instant, to: SocketAddr, config: ValidConfig) -> u64 {
        self.longest = self.longest.max(longest_datagram(&config));
        let (handle, connection) = self.core.connect(now, to, config);
        self.hold(handle, Box::new(connection), false)
    }

    fn hold(&mut self, handle: ConnectionHandle, core: Box<Connection>, accepted: bool) -> u64 {
        let held =
            Held { core, accepted, released: false, drained: false, unread: BTreeMap::new() };
        self.held.insert(id(handle), held);
        id(handle)
    }

    pub(crate) fn connection(&self, id: u64) -> Result<&Connection, Failure> {
        Ok(&*self.held(id)?.core)
    }

    fn held(&self, id: u64) -> Result<&Held, Failure> {
        self.held.get(&id).filter(|held| !held.released).ok_or(Failure::UnknownConnection)
    }

    fn held_mut(&mut self, id: u64) -> Result<&mut Held, Failure> {
        self.held.get_mut(&id).filter(|held| !held.released).ok_or(Failure::UnknownConnection)
    }

    pub(crate) fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) {
        let mut bytes = datagram.to_vec();
        let mut reply = Vec::new();
        let to = match self.core.route(now, from, &bytes, &mut reply) {
            Routed::Connection(handle) => id(handle),
            Routed::Accepted { handle, connection, older } => {
                if let Some(older) = older.and_then(|older| self.held.get_mut(&id(older))) {
                    older.core.handle_newcomer(now, from);
                }
                self.hold(handle, connection, true)
            }
            Routed::Reply => {
                if self.replies.len() == MAX_REPLIES {
                    self.replies.pop_front();
                }
                self.replies.push_back((from, reply));
                return;
            }
            Routed::Dropped => return,
        };
        if let Some(held) = self.held.get_mut(&to) {
            held.core.handle_datagram(now, from, &mut bytes);
        }
    }

    /// The next datagram to send, in a buffer of so many bytes: where to, and what it says.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        capacity: usize,
    ) -> Result<Option<(SocketAddr, &[u8])>, Failure> {
        // A packet that was made cannot be taken back.
        if capacity < self.longest {
            return Err(Failure::TooSmall);
        }
        if let Some((to, reply)) = self.replies.pop_front() {
            self.buffer = reply;
            return Ok(Some((to, &self.buffer)));
        }
        self.buffer.clear();
        let after = self.served.wrapping_add(1);
        let order = self.held.range(after..).chain(self.held.range(..after)).map(|(id, _)| *id);
        for id in order.collect::<Vec<_>>() {
            let Some(held) = self.held.get_mut(&id) else { continue };
            if let Some(transmit) = held.core.poll_transmit(now, &mut self.buffer, 1) {
                self.served = id;
                return Ok(Some((transmit.destination, &self.buffer)));
            }
        }
        self.forget_drained();
        Ok(None)
    }

    /// When to call [`Self::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<u64> {
        let due = self.held.values().filter_map(|held| held.core.poll_timeout());
        // Not before it is due: a caller that rounds down would come back at once, and in vain.
        let us = |at: Instant| at.saturating_duration_since(self.epoch).as_nanos().div_ceil(1_000);
        due.map(|(at, _)| u64::try_from(us(at)).unwrap_or(u64::MAX)).min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        for held in self.held.values_mut() {
            if held.core.poll_timeout().is_some_and(|(at, _)| at <= now) {
                held.core.handle_timeout(now);
            }
        }
        self.forget_drained();
    }

    fn forget_drained(&mut self) {
        for (id, held) in &mut self.held {
            if held.core.is_drained() && !std::mem::replace(&mut held.drained, true) {
                self.core.remove(ConnectionHandle(*id as usize));
            }
        }
        self.held.retain(|_, held| !(held.released && held.drained));
    }

    pub(crate) fn send(
        &mut self,
        id: u64,
        now: Instant,
        lane: LaneId,
        message: &[u8],
    ) -> Result<(), Failure> {
        let held = self.held_mut(id)?;
        held.core.send(now, lane, Bytes::copy_from_slice(message)).map_err(|error| match error {
            SendError::Blocked(_) => Failure::Blocked,
            SendError::TooLarge { .. } => Failure::TooLarge,
            SendError::Closed => Failure::Closed,
            _ => Failure::Invalid,
        })
    }

    /// The next message of a lane, if it has at most so many bytes. Otherwise it is kept, and its length is the error.
    pub(crate) fn recv(
        &mut self,
        id: u64,
        now: Instant,
        lane: LaneId,
        capacity: usize,
    ) -> Result<Option<Result<Bytes, usize>>, Failure> {
        let held = self.held_mut(id)?;
        let next = held.unread.remove(&lane).or_else(|| held.core.recv(now, lane));
        Ok(next.map(|message| {
            if message.len() <= capacity {
                return Ok(message);
            }
            let length = message.len();
            held.unread.insert(lane, message);
            Err(length)
        }))
    }

    pub(crate) fn poll_event(&mut self) -> Option<Told> {
        for (&connection, held) in &mut self.held {
            while let Some(event) = held.core.poll_event() {
                // Batches are not used.
                if !held.released && event != Event::BatchesLost {
                    return Some(Told { connection, accepted: held.accepted, event });
                }
            }
        }
        None
    }

    pub(crate) fn finish(&mut self, id: u64, now: Instant) -> Result<(), Failure> {
        self.held_mut(id)?.core.finish(now);
        Ok(())
    }

    pub(crate) fn close(&mut self, id: u64, now: Instant, reason: &str) -> Result<(), Failure> {
        self.held_mut(id)?.core.close(now, reason);
        Ok(())
    }

    /// The application does not ask for it any more.
    pub(crate) fn release(&mut self, id: u64, now: Instant) -> Result<(), Failure> {
        let held = self.held_mut(id)?;
        held.core.close(now, "released");
        held.released = true;
        held.unread.clear();
        self.forget_drained();
        Ok(())
    }

    pub(crate) fn stats(&self, id: u64) -> Result<Stats, Failure> {
        Ok(self.connection(id)?.stats())
    }
}

fn at(epoch: Instant, us: u64) -> Result<Instant, Failure> {
    epoch.checked_add(Duration::from_micros(us)).ok_or(Failure::Invalid)
}

fn id(handle: ConnectionHandle) -> u64 {
    handle.0 as u64
}

/// No packet under this configuration is longer, in bytes.
fn longest_datagram(config: &ValidConfig) -> usize {
    config.mtu.unwrap_or(ETHERNET_MTU).into()
}
