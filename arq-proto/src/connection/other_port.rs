// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Is the peer silent, or only to this port?
//!
//! What stands between may be bound to the port: a NAT, or a load balancer, goes on sending a flow to a host that has been
//! replaced, and lets a new flow pass. So a side that has dialled asks from another port as well. A peer that lives
//! validates that as any address that its peer has moved to (§11.1), and one that has been replaced answers RESET.
//!
//! Requirement, numbered as in `docs/protocol.md`:
//!
//! - **ARQ-PTH-9** A side that opened the association without a configured port also probes a silent peer
//!   (ARQ-PTO-5) from new ports, 250 ms after the first probe and at intervals that double from 500 ms to 1 s,
//!   and stays on a port to which something authentic returns.

use std::time::{Duration, Instant};

use super::{transmit::Transmit, Connection};
use crate::{recovery::pto, wire::frame::Frame};

/// Least silence after the first probe time-out, and the intervals after that, which double.
const FIRST_INTERVAL: Duration = Duration::from_millis(250);
const MAX_INTERVAL: Duration = Duration::from_secs(1);

/// When to ask from another port.
#[derive(Debug, Default)]
pub(super) struct OtherPort {
    next: Option<(Instant, Duration)>,
    due: bool,
}

impl OtherPort {
    /// Whether a question is to be sent.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }
}

impl Connection {
    /// A probe time-out has passed.
    pub(super) fn consider_other_port(&mut self, now: Instant) {
        if !self.config.may_change_port || !self.dialled || self.is_unconfirmed() {
            return;
        }
        let time_outs = self.path.recovery.time_outs();
        let (at, interval) = match self.other_port.next {
            Some(next) if time_outs > 1 => next,
            // The first of a silence.
            _ => (now + FIRST_INTERVAL, FIRST_INTERVAL),
        };
        self.other_port.next = Some((at, interval));
        // Not where bad luck explains it.
        let flat = pto::flat_count(self.path.recovery.loss().upper(), self.path.acks.loss.upper());
        if time_outs > flat && now >= at {
            let interval = (2 * interval).min(MAX_INTERVAL);
            self.other_port = OtherPort { next: Some((now + interval, interval)), due: true };
        }
    }

    /// A question from another port. Not in flight: its loss says nothing about the path in use.
    pub(super) fn transmit_from_other_port(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if !std::mem::take(&mut self.other_port.due) {
            return None;
        }
        let mut draft = self.start_packet(now, out, self.path.mtu.size().into())?;
        let start = draft.start;
        draft.put(out, &Frame::Ping, None);
        self.protection.set_ack_now(&mut out[start..]);
        draft.in_flight = false;
        self.finish_packet(now, out, draft)?;
        Some(Transmit { from_other_port: true, ..self.single(start, out.len()) })
    }
}
