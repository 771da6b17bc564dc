// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Paths whose bytes cost money: [`meter`](crate::connection::path::meter) says what may pass each.

use std::time::Instant;

use super::{Interface, InterfaceUse, PathEvent};
use crate::{
    connection::{
        path::{meter::Meter, Path},
        transmit::Transmit,
        Connection,
    },
    units::{PathNumber, SocketId},
};

impl Path {
    /// The path leads through this interface.
    pub(super) fn follow_interface(&mut self, interface: &Interface) {
        match (&interface.purpose, &mut self.meter) {
            (InterfaceUse::Metered(budget), Some(meter)) if meter.budget == *budget => {
                meter.is_up = interface.is_up;
            }
            (InterfaceUse::Metered(budget), meter) => {
                *meter = Some(Meter::new(budget.clone(), interface.is_up));
            }
            (InterfaceUse::Always | InterfaceUse::Backup, meter) => *meter = None,
        }
    }
}

impl Connection {
    /// From the first packet on: also what a handshake sends there counts.
    pub(super) fn meter_path_of(&mut self, interface: &Interface) {
        let through = |path: &&mut Path| path.socket == interface.socket;
        let mut paths = std::iter::once(self.path.as_mut()).chain(self.others.iter_mut());
        if let Some(path) = paths.find(through) {
            path.follow_interface(interface);
        }
    }

    /// Looks at all budgets.
    pub(super) fn follow_meters(&mut self, now: Instant) {
        if self.all_paths().all(|path| path.meter.is_none()) {
            return;
        }
        for number in PathNumber::all() {
            self.with_path(number, |connection| connection.follow_meter(now));
        }
    }

    /// Looks at the budget of the path that is served, if it has one, and tells the peer what follows.
    pub(super) fn follow_meter(&mut self, now: Instant) {
        let Some(meter) = &mut self.path.meter else { return };
        let was_used_up = meter.is_used_up();
        let wish = meter.follow(now);
        if meter.is_used_up() && !was_used_up {
            self.tell_path(PathEvent::UsedUp);
        }
        self.wish_of_path(now, wish);
    }

    /// What leaves of the path that is served beside its turn: if its budget covers that.
    pub(in crate::connection) fn if_granted(
        &mut self,
        now: Instant,
        send: impl FnOnce(&mut Self) -> Option<Transmit>,
    ) -> Option<Transmit> {
        match self.path.grant(now, 1) {
            0 => None,
            granted => {
                let transmit = send(self);
                self.path.settle_grant(now, granted, transmit.as_ref());
                transmit
            }
        }
    }

    /// A datagram has arrived through a socket.
    pub(in crate::connection) fn charge_received(
        &mut self,
        now: Instant,
        socket: SocketId,
        bytes: u64,
    ) {
        if self.others.is_empty() && self.path.meter.is_none() {
            return;
        }
        if let Some(path) = self.all_paths().find(|path| path.socket == socket) {
            path.charge_received(now, bytes);
        }
    }
}
