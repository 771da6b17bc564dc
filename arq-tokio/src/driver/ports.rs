// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The sockets of one endpoint: one, or one for each interface that paths lead through.

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
};

use arq_proto::{SocketId, SocketSet};

use crate::socket::DatagramSocket;

/// Sockets of one endpoint at most.
pub(crate) const MOST_SOCKETS: usize = 4;

/// The sockets that there are, by the number that the state machine knows them by.
#[derive(Debug, Clone, Default)]
pub(super) struct Sockets([Option<Arc<dyn DatagramSocket>>; MOST_SOCKETS]);

/// Some sockets, for an atomic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mask(u8);

impl Mask {
    pub(super) fn of(socket: SocketId) -> Self {
        Self(1_u8.checked_shl(socket.0.into()).unwrap_or(0))
    }

    pub(super) fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    pub(super) fn bits(self) -> u8 {
        self.0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn contains(self, socket: SocketId) -> bool {
        self.0 & Self::of(socket).0 != 0
    }

    /// Whether these are all of `others`, and perhaps more.
    pub(super) fn covers(self, others: Self) -> bool {
        others.0 & !self.0 == 0
    }

    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = SocketId> {
        socket_ids().filter(move |socket| self.contains(*socket))
    }

    /// As the state machine takes it.
    pub(super) fn to_set(self) -> SocketSet {
        let mut set = SocketSet::default();
        if !self.is_empty() {
            self.iter().for_each(|socket| set.insert(socket));
        }
        set
    }
}

fn socket_ids() -> impl Iterator<Item = SocketId> {
    (0..MOST_SOCKETS as u8).map(SocketId)
}

impl Sockets {
    /// One socket, which the state machine calls 0.
    pub(super) fn one(socket: Arc<dyn DatagramSocket>) -> Self {
        let mut sockets = Self::default();
        sockets.set(SocketId::default(), Some(socket));
        sockets
    }

    pub(super) fn get(&self, socket: SocketId) -> Option<&dyn DatagramSocket> {
        self.0.get(usize::from(socket.0))?.as_deref()
    }

    pub(super) fn set(&mut self, socket: SocketId, to: Option<Arc<dyn DatagramSocket>>) {
        if let Some(place) = self.0.get_mut(usize::from(socket.0)) {
            *place = to;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (SocketId, &dyn DatagramSocket)> {
        socket_ids().filter_map(|socket| Some((socket, self.get(socket)?)))
    }

    /// Those that there are.
    pub(super) fn present(&self) -> Mask {
        self.iter().fold(Mask::default(), |mask, (socket, _)| mask.with(Mask::of(socket)))
    }

    /// Datagrams that each of them takes in one call.
    pub(super) fn max_segments(&self) -> usize {
        self.iter().map(|(_, socket)| socket.max_segments()).min().unwrap_or(1)
    }

    /// Where the first of them is bound.
    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        self.iter().next().map(|(_, socket)| socket.local_addr())
    }

    /// Ready when one of them may have something to read.
    pub(super) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ready = self.iter().find_map(|(_, socket)| match socket.poll_readable(cx) {
            Poll::Ready(ready) => Some(ready),
            Poll::Pending => None,
        });
        ready.map_or(Poll::Pending, Poll::Ready)
    }

    /// Ready with those of `full` that have room again, or are gone.
    pub(super) fn poll_writable(&self, cx: &mut Context<'_>, full: Mask) -> Poll<io::Result<Mask>> {
        let mut roomy = full.without(self.present());
        for (id, socket) in self.iter().filter(|(id, _)| full.contains(*id)) {
            if let Poll::Ready(ready) = socket.poll_writable(cx) {
                ready?;
                roomy = roomy.with(Mask::of(id));
            }
        }
        if roomy.is_empty() {
            Poll::Pending
        } else {
            Poll::Ready(Ok(roomy))
        }
    }

    /// Ready with those to which the network may have reported something.
    pub(super) fn poll_reports(&self, cx: &mut Context<'_>) -> Poll<Mask> {
        let reported =
            |(_, socket): &(SocketId, &dyn DatagramSocket)| socket.poll_reports(cx).is_ready();
        let reported = self
            .iter()
            .filter(reported)
            .fold(Mask::default(), |mask, (id, _)| mask.with(Mask::of(id)));
        if reported.is_empty() {
            Poll::Pending
        } else {
            Poll::Ready(reported)
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_mask_tells_sockets_apart() {
        let of = |ids: &[u8]| {
            ids.iter().fold(Mask::default(), |mask, id| mask.with(Mask::of(SocketId(*id))))
        };
        assert!(of(&[0, 2]).covers(of(&[2])) && !of(&[2]).covers(of(&[0, 2])));
        assert_eq!(of(&[0, 1, 2]).without(of(&[1, 3])), of(&[0, 2]));
        assert_eq!(of(&[1, 3]).iter().collect::<Vec<_>>(), [SocketId(1), SocketId(3)]);
        assert!(of(&[200]).is_empty(), "there is no such socket");
        assert!(
            of(&[3]).to_set().contains(SocketId(3)) && !of(&[3]).to_set().contains(SocketId(0))
        );
    }
}
