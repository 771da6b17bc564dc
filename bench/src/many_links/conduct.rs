// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How are both processes led through the four steps, and what follows from their counts?

use std::path::Path;
use std::time::{Duration, Instant};

use arq_report::opponent;
use arq_report::record::{FlowResult, ManyLinks, Measurement, ProcessUse, SideOfMany};
use arq_report::scenario::flow::{Flow, Pattern};

use super::process::{ManyLinksError, Process};
use super::words::{Count, Order, Role, Word};
use super::Plan;
use crate::delivery::{flow_result, Departures, Thinned};
use crate::measure::certificates::Certificates;

/// Messages of each busy link per second, and their length.
const BUSY_RATE_HZ: f64 = 20.0;
const BUSY_BYTES: usize = 1_000;
/// For an order that takes no time.
const AT_ONCE: Duration = Duration::from_secs(60);
/// For opening a link, or for the few messages over one, on a machine with much else to do.
const PER_LINK: Duration = Duration::from_millis(500);
/// After the last message: what the links still do about it is not idleness. Longer than a keep-alive interval and
/// than the age of what controllers remember of a round.
const SETTLE: Duration = Duration::from_secs(3);

/// Both processes.
struct Cast<'a> {
    /// The files live as long as the links.
    _certificates: Option<Certificates>,
    listener: Process,
    connector: Process,
    endpoint: String,
    say: &'a dyn Fn(&str),
}

/// Measures once.
pub(super) fn measure(
    plan: &Plan,
    program: &Path,
    say: &dyn Fn(&str),
) -> Result<Measurement, ManyLinksError> {
    let mut cast = Cast::start(plan, program, say)?;
    cast.open(plan.busy)?;
    say(&format!("{} busy links alone", plan.busy));
    let alone = cast.busy(plan, "busy, alone")?;
    let before = cast.count()?;
    say(&format!("{} more links open, carry a few messages and rest", plan.idle));
    cast.open(plan.idle)?;
    cast.call(plan.busy, plan.idle)?;
    pause(SETTLE);
    let opened = cast.count()?;
    say(&format!("nothing for {} s", plan.idle_s));
    let begin = Instant::now();
    pause(Duration::from_secs(plan.idle_s));
    let rested = cast.count()?;
    let idle_s = begin.elapsed().as_secs_f64();
    say("the busy links beside the idle ones");
    let beside = cast.busy(plan, "busy, beside the idle")?;
    let left = cast.count()?;
    let [listening, connecting] = [0, 1].map(|side| SideOfMany {
        links_lost: (plan.idle + plan.busy).saturating_sub(left[side].links),
        ..side_of_many(plan, &before[side], &opened[side], &rested[side])
    });
    let used = |side: &SideOfMany, count: &Count| ProcessUse {
        cpu_s: side.idle_cpu_s,
        peak_rss_bytes: count.resident_bytes,
    };
    Ok(Measurement {
        flows: vec![alone, beside],
        publisher: used(&connecting, &rested[1]),
        subscriber: used(&listening, &rested[0]),
        many_links: Some(ManyLinks {
            idle_links: plan.idle,
            busy_links: plan.busy,
            idle_s,
            listening,
            connecting,
        }),
        ..Measurement::default()
    })
}

/// What the idle links of one side cost. A link that has ended, and a thread, count no more: a sum can have shrunk.
fn side_of_many(plan: &Plan, before: &Count, opened: &Count, rested: &Count) -> SideOfMany {
    let grown =
        opened.resident_bytes.max(rested.resident_bytes) as f64 - before.resident_bytes as f64;
    SideOfMany {
        bytes_per_idle_link: grown.max(0.0) / plan.idle.max(1) as f64,
        idle_cpu_s: rested.cpu_s - opened.cpu_s,
        wake_ups: rested.sleeps.saturating_sub(opened.sleeps),
        packets_sent: rested.packets_sent.saturating_sub(opened.packets_sent),
        ptos: rested.ptos.saturating_sub(opened.ptos),
        retransmitted: rested.retransmitted.saturating_sub(opened.retransmitted),
        links_lost: (plan.idle + plan.busy).saturating_sub(rested.links),
    }
}

/// The keys that `links.toml` gives a link, with their `#`.
fn keys_of(link: &str) -> String {
    let endpoint = opponent::find(link).map_or_else(|_| String::new(), |link| link.endpoint);
    endpoint.find('#').map_or_else(String::new, |begin| endpoint[begin..].to_owned())
}

impl<'a> Cast<'a> {
    fn start(plan: &Plan, program: &Path, say: &'a dyn Fn(&str)) -> Result<Self, ManyLinksError> {
        let certificates = match plan.link {
            "arq-tls" | "arq-mtls" => Some(Certificates::make(vec!["127.0.0.1".to_owned()])?),
            _ => None,
        };
        let keys = match (&certificates, plan.link) {
            (Some(certificates), "arq-mtls") => certificates.mutual(),
            (Some(certificates), _) => certificates.of_listener(),
            (None, link) => keys_of(link),
        };
        let mut listener = Process::start(Role::Listen, program)?;
        let connector = Process::start(Role::Connect, program)?;
        let listen = Order::Listen { keys: keys.clone() };
        let endpoint = match listener.ask(&listen, AT_ONCE)? {
            Word::Endpoint(locator) => locator + &keys,
            word => return Err(listener.confused(&listen, &word)),
        };
        Ok(Self { _certificates: certificates, listener, connector, endpoint, say })
    }

    /// Opens links beside those that are there.
    fn open(&mut self, links: u64) -> Result<(), ManyLinksError> {
        let begin = Instant::now();
        let open = Order::Open { endpoint: self.endpoint.clone(), links };
        let from = match self.connector.ask(&open, patience(links))? {
            Word::Opened(from) => from,
            word => return Err(self.connector.confused(&open, &word)),
        };
        done(&mut self.listener, &Order::Accept { from }, AT_ONCE)?;
        (self.say)(&format!("{links} links open after {:.1} s", begin.elapsed().as_secs_f64()));
        Ok(())
    }

    /// A few messages and their answers over each of the links from `first` on.
    fn call(&mut self, first: u64, links: u64) -> Result<(), ManyLinksError> {
        let answer = Order::Answer { first };
        self.listener.tell(&answer)?;
        done(&mut self.connector, &Order::Call { first }, patience(links))?;
        match self.listener.answer(&answer, AT_ONCE)? {
            Word::Done => Ok(()),
            word => Err(self.listener.confused(&answer, &word)),
        }
    }

    /// Messages over the busy links in turn, at fixed times.
    fn busy(&mut self, plan: &Plan, name: &str) -> Result<FlowResult, ManyLinksError> {
        let rate_hz = BUSY_RATE_HZ * plan.busy as f64;
        let messages = (rate_hz * plan.busy_s as f64) as u64;
        done(&mut self.listener, &Order::Hear { links: plan.busy }, AT_ONCE)?;
        let send = Order::Send { links: plan.busy, messages, rate_hz, bytes: BUSY_BYTES };
        let time = AT_ONCE + Duration::from_secs(plan.busy_s);
        let first_ns = match self.connector.ask(&send, time)? {
            Word::Sent(first_ns) => first_ns,
            word => return Err(self.connector.confused(&send, &word)),
        };
        let heard = Order::Heard { messages };
        let ledger = match self.listener.ask(&heard, AT_ONCE)? {
            Word::Heard(ledger) => ledger,
            word => return Err(self.listener.confused(&heard, &word)),
        };
        let departures = Departures { offered: messages, first_ns, noted: Thinned::default() };
        let flow = Flow {
            name: name.to_owned(),
            payload_bytes: BUSY_BYTES,
            pattern: Pattern::Periodic { rate_hz, messages },
            priority: Default::default(),
            reliability: Default::default(),
            congestion_control: Default::default(),
            own_session: false,
            link: None,
            start_s: 0.0,
        };
        Ok(flow_result(&flow, &departures, &ledger))
    }

    /// Of the listening side and of the connecting one.
    fn count(&mut self) -> Result<[Count; 2], ManyLinksError> {
        let count = |process: &mut Process| match process.ask(&Order::Count, AT_ONCE)? {
            Word::Counted(count) => Ok(count),
            word => Err(process.confused(&Order::Count, &word)),
        };
        Ok([count(&mut self.listener)?, count(&mut self.connector)?])
    }
}

fn done(process: &mut Process, order: &Order, patience: Duration) -> Result<(), ManyLinksError> {
    match process.ask(order, patience)? {
        Word::Done => Ok(()),
        word => Err(process.confused(order, &word)),
    }
}

fn patience(links: u64) -> Duration {
    AT_ONCE + PER_LINK * u32::try_from(links).unwrap_or(u32::MAX)
}

/// Time in which nothing is to happen is what is measured here.
fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_link_in_clear_has_no_keys() {
        assert_eq!(keys_of("arq"), "");
        assert!(keys_of("arq-psk").starts_with("#psk_base64="));
    }

    #[test]
    fn what_idle_links_cost_is_the_difference_of_the_counts() {
        let plan = Plan { idle: 10, busy: 2, ..Plan::TARGET };
        let count = |n: u64| Count {
            resident_bytes: n * 1_000,
            cpu_s: n as f64,
            sleeps: 10 * n,
            links: 11,
            packets_sent: 100 * n,
            ptos: n,
            retransmitted: 2 * n,
        };
        let side = side_of_many(&plan, &count(1), &count(4), &count(6));
        let expected = SideOfMany {
            bytes_per_idle_link: 500.0,
            idle_cpu_s: 2.0,
            wake_ups: 20,
            packets_sent: 200,
            ptos: 2,
            retransmitted: 4,
            links_lost: 1,
        };
        assert_eq!(side, expected);
        let shrunk = side_of_many(&plan, &count(1), &count(6), &count(4));
        assert_eq!((shrunk.wake_ups, shrunk.packets_sent), (0, 0));
        assert_eq!((shrunk.ptos, shrunk.retransmitted), (0, 0));
    }
}
