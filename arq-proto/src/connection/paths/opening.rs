// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A path is opened.
//!
//! The side that has dialled asks from the interface, in a packet of full size with the path's own id. The peer answers
//! and asks back, within three times what it was sent. Once each has the other's answer, the path is open. It is never
//! given up while the interface is up: a question every ten seconds finds out when a radio is back in reach.

use std::{net::SocketAddr, time::Instant};

use rand_core::RngCore;

use super::{is_open, Interface, InterfaceUse, PathEvent};
use crate::{
    connection::{
        path::{
            standing::{Opening, Standing},
            Path,
        },
        receive::Arrived,
        transmit::Transmit,
        Connection,
    },
    recovery::skipped_numbers::SkippedNumbers,
    timer::TimerKind,
    units::PathNumber,
    wire::{
        frame::{Frame, PathUse},
        BASE_MTU,
    },
};

/// Questions without an answer after which the driver is told.
const UNANSWERED_AFTER: u32 = 5;

impl Connection {
    /// Opens a path for each interface that has none, and tells the peer what each is for.
    pub(in crate::connection) fn follow_interfaces(&mut self, now: Instant) {
        if self.others.interfaces.is_empty() || !is_open(&self.state) || self.is_unconfirmed() {
            return;
        }
        for interface in self.others.interfaces.clone() {
            let socket = interface.socket;
            let number =
                self.all_paths().find(|path| path.socket == socket).map(|path| path.number);
            match number {
                Some(number) => {
                    self.with_path(number, |connection| connection.follow(now, &interface));
                }
                None if interface.is_up => self.ask_for_path(now, &interface),
                None => {}
            }
        }
    }

    /// The path that is served leads through this interface.
    fn follow(&mut self, now: Instant, interface: &Interface) {
        let wish = match (&interface.purpose, interface.is_up) {
            (InterfaceUse::Metered(_), _) => return self.follow_meter(now),
            (_, false) => PathUse::Paused,
            (InterfaceUse::Backup, true) => PathUse::Backup,
            (InterfaceUse::Always, true) => PathUse::Available,
        };
        self.wish_of_path(now, wish);
    }

    /// This side wishes that the path that is served be used for this.
    pub(super) fn wish_of_path(&mut self, now: Instant, wish: PathUse) {
        if !self.has_agreed_on_paths() || self.is_unconfirmed() {
            return;
        }
        let before = self.path.own_wish.wish;
        self.path.wish(wish);
        match (before == PathUse::Paused, wish == PathUse::Paused) {
            (true, false) => self.on_interface_up(now),
            (false, true) => self.fall_silent(now),
            (true, true) | (false, false) => {}
        }
    }

    fn on_interface_up(&mut self, now: Instant) {
        match &mut self.path.standing {
            Standing::Opening(opening) => {
                opening.ask();
                self.path.timers.set(TimerKind::Path, Some(opening.next(now)));
            }
            // Whether it is the same network, the answer tells.
            Standing::Open => self.resume(),
        }
    }

    /// A free number for another path, if both sides keep so many.
    fn free_number(&self) -> Option<PathNumber> {
        let is_free = |number: &PathNumber| self.all_paths().all(|path| path.number != *number);
        PathNumber::all().take(self.others.most).find(is_free)
    }

    fn ask_for_path(&mut self, now: Instant, interface: &Interface) {
        let Some(number) = self.free_number().filter(|_| self.has_agreed_on_paths()) else {
            return;
        };
        let opening = Opening::asking(now, self.rng.next_u64());
        let next = opening.next(now);
        let Some(mut path) = self.new_path(now, number, Standing::Opening(opening)) else { return };
        path.socket = interface.socket;
        path.timers.set(TimerKind::Path, Some(next));
        path.follow_interface(interface);
        if interface.purpose != InterfaceUse::Always {
            path.wish(PathUse::Backup);
        }
        self.insert_path(path);
    }

    fn new_path(
        &mut self,
        now: Instant,
        number: PathNumber,
        standing: Standing,
    ) -> Option<Box<Path>> {
        let ids = self.others.ids.as_ref()?;
        let (local, remote) = (ids.local[number.index()], ids.remote[number.index()]);
        let (skipped_numbers, tag_bytes) = (SkippedNumbers::new(&mut self.rng), self.tag_bytes());
        let peer = self.path.remote;
        let mut path = Path::new(&self.config, peer, local, skipped_numbers, tag_bytes, now);
        path.number = number;
        path.remote_cid = remote;
        path.standing = standing;
        let (longest, resegment) = self.others.peer_limits;
        path.mtu.limit(longest, resegment);
        path.recovery.set_mtu(path.mtu.size_in_use());
        if self.observer.is_some() {
            path.recovery.losses = Some(Vec::new());
        }
        Some(Box::new(path))
    }

    fn insert_path(&mut self, path: Box<Path>) {
        if let Some(place) = self.others.paths.get_mut(path.number.index() - 1) {
            *place = Some(path);
            self.others.count += 1;
        }
    }

    /// A packet came for a path that is not there. It is there from now on, if the peer may open it.
    pub(in crate::connection) fn expect_path(
        &mut self,
        now: Instant,
        number: PathNumber,
        arrived: Arrived,
    ) -> bool {
        let is_known = self.all_paths().any(|path| path.number == number);
        let may_open = !self.dialled && number.index() < self.others.most && is_open(&self.state);
        if is_known || !may_open {
            return false;
        }
        let opening = Opening::answering(now, self.rng.next_u64());
        let path = self.new_path(now, number, Standing::Opening(opening));
        let Some(mut path) = path else { return false };
        (path.remote, path.local_ip, path.socket) = (arrived.from, arrived.to, arrived.socket);
        self.insert_path(path);
        true
    }

    /// What came for it was not authentic.
    pub(in crate::connection) fn forget_path(&mut self, number: PathNumber) {
        let place =
            number.index().checked_sub(1).and_then(|index| self.others.paths.get_mut(index));
        if place.and_then(Option::take).is_some() {
            self.others.count -= 1;
        }
    }

    /// An authentic packet came on the path that is served, which is not open yet. Tells whether that is so.
    pub(in crate::connection) fn note_opening(&mut self, now: Instant, arrived: Arrived) -> bool {
        let Standing::Opening(opening) = &mut self.path.standing else { return false };
        if opening.is_asking() {
            self.path.local_ip = arrived.to.or(self.path.local_ip);
            return true;
        }
        if self.path.remote != arrived.from {
            opening.on_other_address();
            (self.path.remote, self.path.local_ip) = (arrived.from, arrived.to);
        }
        opening.on_received(arrived.bytes);
        // Who goes on sending has not heard what this side asks.
        opening.ask_if_overdue(now);
        true
    }

    /// The peer asks for the path that is served. Tells whether that is being opened.
    pub(in crate::connection) fn on_opening_challenge(
        &mut self,
        from: SocketAddr,
        token: u64,
    ) -> bool {
        let Standing::Opening(opening) = &mut self.path.standing else { return false };
        opening.ask();
        self.path.response = Some((from, token));
        true
    }

    /// The peer answers. Tells whether the path that is served was being opened.
    pub(in crate::connection) fn on_opening_response(&mut self, now: Instant, token: u64) -> bool {
        let Standing::Opening(opening) = &self.path.standing else { return false };
        if !opening.is_answered_by(token) {
            return true;
        }
        let (round_trip, was_asking) = (opening.round_trip(now), opening.is_asking());
        self.path.standing = Standing::Open;
        self.path.timers.set(TimerKind::Path, None);
        if let Some(sample) = round_trip {
            self.path.recovery.on_handshake_rtt(sample);
            self.path.silence.sample(sample);
        }
        // Its answer tells of the round trip, and the peer that its own question was answered.
        self.path.ping_due |= was_asking;
        self.tell_path(PathEvent::Opened);
        self.take_over();
        true
    }

    /// The question that opens the path that is served, if it is due, and the answer to the peer's.
    pub(in crate::connection) fn transmit_opening(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let limit = self.config.mtu.map_or(BASE_MTU, |mtu| mtu.min(BASE_MTU));
        let Standing::Opening(opening) = &mut self.path.standing else { return None };
        let token = opening.take_due(now, limit.into())?;
        let response = self.path.response.take();
        let mut draft = self.start_packet(now, out, limit.into())?;
        if let Some((_, token)) = response {
            draft.put(out, &Frame::PathResponse(token), None);
        }
        draft.put(out, &Frame::PathChallenge(token), None);
        draft.put(out, &Frame::Ping, None);
        self.offer_ack(now, out, &draft);
        draft.pad(out);
        self.protection.set_ack_now(&mut out[draft.start..]);
        // Its loss says nothing about a path that nobody has used, and it has a timer of its own.
        draft.in_flight = false;
        let size = self.finish_packet(now, out, draft)?;
        Some(self.transmit_to(self.path.remote, size, size))
    }

    /// Asks again for the path that is served. Tells whether it is being opened.
    pub(in crate::connection) fn on_opening_timer(&mut self, now: Instant) -> bool {
        let Standing::Opening(opening) = &mut self.path.standing else { return false };
        if self.path.own_wish.wish == PathUse::Paused {
            return true;
        }
        opening.ask();
        let (next, asked) = (opening.next(now), opening.asked());
        self.path.timers.set(TimerKind::Path, Some(next));
        if asked == UNANSWERED_AFTER {
            self.tell_path(PathEvent::Unanswered);
        }
        true
    }
}
