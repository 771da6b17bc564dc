// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! When is each message of a flow handed over?

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use arq_report::scenario::flow::Pattern;

use super::clock::{be_punctual, now_ns, sleep_until};
use super::payload::Stamp;
use super::publisher::{CarrierError, FlowLog};
use crate::delivery::after;

/// The answer to a ping that has not come by then is lost: the next ping leaves, so that one lost packet does not end
/// a flow over a link that repairs nothing. If the answer comes after all it counts, as late as it is.
pub(super) const ANSWER_PATIENCE: Duration = Duration::from_secs(1);

/// Where the messages of a flow go.
pub(super) trait Outlet: Send {
    /// Hands a message over; returns when the link has taken it.
    fn send(&mut self, payload: Vec<u8>) -> Result<(), CarrierError>;

    /// The numbers of the answers that have come, where the flow is answered.
    fn answers(&self) -> Option<&Receiver<u64>>;
}

/// Sends a whole flow.
pub(super) fn run(
    log: &FlowLog,
    outlet: &mut dyn Outlet,
    first_ns: u64,
) -> Result<(), CarrierError> {
    be_punctual();
    let begin_ns = log.begin_ns(first_ns);
    let flow = Sending { log, outlet, begin_ns, end_ns: begin_ns.saturating_add(log.limit_ns) };
    sleep_until(begin_ns);
    match log.flow.pattern {
        Pattern::Periodic { rate_hz, messages } => flow.periodic(rate_hz, messages),
        Pattern::Flood { seconds } => flow.flood(seconds),
        Pattern::Transfer { messages } => flow.transfer(messages),
        Pattern::PingPong { messages } => flow.ping_pong(messages),
        Pattern::Opening { .. } => Err("an opening flow has no session to send on".into()),
    }
}

/// The numbers of the messages, until it is too late to hand over anything more.
pub(super) fn in_time(messages: u64, end_ns: u64) -> impl Iterator<Item = u64> {
    (0..messages).take_while(move |_| now_ns() < end_ns)
}

struct Sending<'a> {
    log: &'a FlowLog,
    outlet: &'a mut dyn Outlet,
    begin_ns: u64,
    /// When it is too late to hand over anything more.
    end_ns: u64,
}

impl Sending<'_> {
    /// At fixed times: a late hand-over does not shift the ones after it.
    fn periodic(mut self, rate_hz: f64, messages: u64) -> Result<(), CarrierError> {
        for sequence in in_time(messages, self.end_ns) {
            let intended_ns = self.begin_ns + after(sequence, rate_hz);
            sleep_until(intended_ns);
            self.send(Stamp { sequence, intended_ns })?;
        }
        Ok(())
    }

    fn flood(mut self, seconds: f64) -> Result<(), CarrierError> {
        let end_ns = self.begin_ns + (seconds * 1e9) as u64;
        for sequence in 0.. {
            let intended_ns = now_ns();
            if intended_ns >= end_ns {
                break;
            }
            self.log.note_departure(sequence, intended_ns);
            self.send(Stamp { sequence, intended_ns })?;
        }
        Ok(())
    }

    /// All are due at once.
    fn transfer(mut self, messages: u64) -> Result<(), CarrierError> {
        for sequence in in_time(messages, self.end_ns) {
            self.send(Stamp { sequence, intended_ns: self.begin_ns })?;
        }
        Ok(())
    }

    fn ping_pong(mut self, messages: u64) -> Result<(), CarrierError> {
        for sequence in in_time(messages, self.end_ns) {
            let intended_ns = now_ns();
            self.log.note_departure(sequence, intended_ns);
            self.send(Stamp { sequence, intended_ns })?;
            self.wait_for_answer(sequence)?;
        }
        Ok(())
    }

    fn wait_for_answer(&self, sequence: u64) -> Result<(), CarrierError> {
        let answers = self.outlet.answers().ok_or("the link has no way back")?;
        loop {
            match answers.recv_timeout(ANSWER_PATIENCE) {
                Ok(answered) if answered < sequence => {}
                Ok(_) | Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => return Err("the way back has ended".into()),
            }
        }
    }

    fn send(&mut self, stamp: Stamp) -> Result<(), CarrierError> {
        self.outlet.send(self.log.payloads.make(stamp))?;
        self.log.set_sent(stamp.sequence + 1);
        Ok(())
    }
}
