// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How long does it take to open a session and to bring the first message across?

use std::sync::Arc;
use std::time::Duration;

use arq_report::scenario::flow::Pattern;

use super::clock::{be_punctual, now_ns, sleep_until};
use super::patterns::{in_time, Outlet, ANSWER_PATIENCE};
use super::payload::Stamp;
use super::publisher::{CarrierError, FlowLog};
use super::zenoh_link::ZenohOutlet;
use super::Link;

/// Opens sessions one after the other, each for one message that is due when the opening begins.
pub(super) fn run(
    log: &Arc<FlowLog>,
    link: &Link,
    first_ns: u64,
    patience: Duration,
) -> Result<(), CarrierError> {
    let Pattern::Opening { messages } = log.flow.pattern else {
        return Err("only an opening flow opens its sessions itself".into());
    };
    be_punctual();
    let begin_ns = log.begin_ns(first_ns);
    sleep_until(begin_ns);
    let end_ns = begin_ns.saturating_add(log.limit_ns);
    for sequence in in_time(messages, end_ns) {
        let stamp = Stamp { sequence, intended_ns: now_ns() };
        log.note_departure(sequence, stamp.intended_ns);
        log.set_sent(sequence + 1);
        // A session that does not open in time has lost its message: that is a result, not an end.
        let _ = one_session(log, link, stamp, patience);
    }
    Ok(())
}

fn one_session(
    log: &Arc<FlowLog>,
    link: &Link,
    stamp: Stamp,
    patience: Duration,
) -> Result<(), CarrierError> {
    let mut outlet = ZenohOutlet::open_session(link, log)?;
    outlet.wait_for_subscriber(patience)?;
    outlet.send(log.payloads.make(stamp))?;
    if let Some(answers) = outlet.answers() {
        // The farewell must not overtake the message; when the answer is lost, so be it.
        let _ = answers.recv_timeout(ANSWER_PATIENCE);
    }
    outlet.close()
}
