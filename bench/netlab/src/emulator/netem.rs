// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does the kernel's netem emulate the same wire, to check one emulator against the other?
//!
//! A bridge joins two hosts, and each port has a netem queue towards its host. netem
//! knows no seed that holds across kernels, no packet log and no events; what it cannot express is refused by name.
//! Its order of stages differs (loss before the queue), and its limit counts packets, those in flight included.

use serde_json::Value;

use super::EmulatorError;
use crate::lab::{run, Cabling};
use crate::wire::{Conditions, Loss, Wire, WireCount};

/// Bytes of an Ethernet header, which tc counts and we do not.
const ETHERNET_BYTES: u64 = 14;

/// Two hosts joined by netem.
pub(super) struct Netem {
    /// Towards each host: what tc had counted when the counts began.
    before: [Counters; 2],
}

/// What tc counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    packets: u64,
    bytes: u64,
    drops: u64,
}

impl Netem {
    pub(super) fn start(cabling: &Cabling) -> Result<Self, EmulatorError> {
        if cabling.hosts.len() != 2 {
            return Err(EmulatorError::NotWithNetem("network of more than two hosts"));
        }
        let bridge = "link add name switch type bridge mcast_snooping 0\n\
                      link set dev switch addrgenmode none up\n\
                      link set dev port0 master switch\nlink set dev port1 master switch\n";
        run(cabling.middle.command("ip").args(["-batch", "-"]), bridge)?;
        let netem = Self { before: [Counters::default(); 2] };
        for to in [0, 1] {
            netem.set_wire(cabling, to, &Wire::default())?;
        }
        Ok(netem)
    }

    /// Sets the wire towards host `to`.
    pub(super) fn set_wire(
        &self,
        cabling: &Cabling,
        to: usize,
        wire: &Wire,
    ) -> Result<(), EmulatorError> {
        let arguments = arguments(wire)?;
        let port = format!("port{to}");
        let mut tc = cabling.middle.command("tc");
        tc.args(["qdisc", "replace", "dev", &port, "root", "netem"]).args(arguments);
        run(&mut tc, "").map(drop).map_err(EmulatorError::NoNetem)
    }

    /// Sets both wires and begins the counts anew.
    pub(super) fn begin(
        &mut self,
        cabling: &Cabling,
        asked: &Conditions,
    ) -> Result<(), EmulatorError> {
        if !asked.events.is_empty() {
            return Err(EmulatorError::NotWithNetem("events"));
        }
        self.set_wire(cabling, 1, &asked.forward)?;
        self.set_wire(cabling, 0, &asked.backward)?;
        self.restart(cabling)
    }

    /// Begins the counts anew.
    pub(super) fn restart(&mut self, cabling: &Cabling) -> Result<(), EmulatorError> {
        for to in [0, 1] {
            self.before[to] = counters(cabling, to)?;
        }
        Ok(())
    }

    /// What went towards host `to`. netem does not tell a loss from a full queue: both are `lost`, and the bytes that
    /// entered are those that left.
    pub(super) fn count(&self, cabling: &Cabling, to: usize) -> Result<WireCount, EmulatorError> {
        let (now, before) = (counters(cabling, to)?, self.before[to]);
        let packets = now.packets - before.packets;
        let bytes = now.bytes - before.bytes - packets * ETHERNET_BYTES;
        let lost = now.drops - before.drops;
        Ok(WireCount {
            entered_packets: packets + lost,
            entered_bytes: bytes,
            left_packets: packets,
            left_bytes: bytes,
            lost,
            ..WireCount::default()
        })
    }
}

fn counters(cabling: &Cabling, to: usize) -> Result<Counters, EmulatorError> {
    let port = format!("port{to}");
    let mut tc = cabling.middle.command("tc");
    let shown = run(tc.args(["-s", "-j", "qdisc", "show", "dev", &port]), "")?;
    Ok(read_counters(&shown))
}

fn read_counters(json: &str) -> Counters {
    let queues: Value = serde_json::from_str(json).unwrap_or_default();
    let figure = |name| queues[0][name].as_u64().unwrap_or(0);
    Counters { packets: figure("packets"), bytes: figure("bytes"), drops: figure("drops") }
}

/// netem's words for a wire.
fn arguments(wire: &Wire) -> Result<Vec<String>, EmulatorError> {
    refuse_what_it_lacks(wire)?;
    let mut words = vec!["limit".into(), limit(wire).to_string()];
    if wire.delay_ms > 0.0 || wire.jitter_ms > 0.0 {
        words.extend(["delay".into(), format!("{}ms", wire.delay_ms)]);
        if wire.jitter_ms > 0.0 {
            let jitter = format!("{}ms", wire.jitter_ms);
            words.extend([jitter, "distribution".into(), "normal".into()]);
        }
    }
    words.extend(loss(&wire.loss));
    if wire.duplicate_percent > 0.0 {
        words.extend(["duplicate".into(), format!("{}%", wire.duplicate_percent)]);
    }
    if let Some(rate) = wire.rate_mbps {
        words.extend(["rate".into(), format!("{}bit", (rate * 1e6).round())]);
    }
    Ok(words)
}

fn refuse_what_it_lacks(wire: &Wire) -> Result<(), EmulatorError> {
    let lacking = [
        (wire.bit_error_rate > 0.0, "bit errors by packet length"),
        (wire.policer.is_some(), "policer"),
        (wire.mtu_bytes.is_some(), "MTU"),
        (wire.fade.is_some(), "fades"),
        (wire.recording.is_some(), "recorded radios"),
        (wire.reorder_percent > 0.0, "holding back of packets (its reorder sends them early)"),
        (wire.jitter_ms > 0.0 && !wire.jitter_reorders, "jitter that keeps the order"),
    ];
    lacking
        .iter()
        .find(|(asked, _)| *asked)
        .map_or(Ok(()), |(_, what)| Err(EmulatorError::NotWithNetem(what)))
}

fn loss(loss: &Loss) -> Vec<String> {
    let words = match *loss {
        Loss::None => return Vec::new(),
        Loss::Random { percent } => format!("loss {percent}%"),
        Loss::Correlated { percent, correlation_percent } => {
            format!("loss {percent}% {correlation_percent}%")
        }
        Loss::Gilbert { percent, burst_packets } => {
            let leave = 100.0 / burst_packets;
            let enter = leave * percent / (100.0 - percent);
            format!("loss gemodel {enter:.6}% {leave:.6}% 100% 0%")
        }
        Loss::State { enter_percent, leave_percent } => {
            format!("loss state {enter_percent}% {leave_percent}%")
        }
    };
    words.split(' ').map(str::to_owned).collect()
}

/// Packets that wait or are in flight: netem counts both.
fn limit(wire: &Wire) -> u64 {
    let Some(rate) = wire.rate_mbps else {
        return 100_000;
    };
    let in_flight_bytes = rate * 1e6 / 8.0 * (wire.delay_ms + 3.0 * wire.jitter_ms) / 1e3;
    ((in_flight_bytes + f64::from(wire.queue_bytes)) / 1_500.0).ceil() as u64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(wire: &Wire) -> String {
        arguments(wire).unwrap().join(" ")
    }

    #[test]
    fn a_wire_becomes_the_words_of_tc() {
        assert_eq!(words(&Wire::default()), "limit 100000");
        let wire = Wire {
            delay_ms: 50.0,
            jitter_ms: 10.0,
            loss: Loss::State { enter_percent: 1.0, leave_percent: 5.0 },
            duplicate_percent: 2.0,
            ..Wire::default()
        };
        let expected =
            "limit 100000 delay 50ms 10ms distribution normal loss state 1% 5% duplicate 2%";
        assert_eq!(words(&wire), expected);
        let loss = Loss::Gilbert { percent: 10.0, burst_packets: 5.0 };
        let wire = Wire { loss, rate_mbps: Some(6.0), queue_bytes: 30_000, ..Wire::default() };
        let expected = "limit 21 loss gemodel 2.222222% 20.000000% 100% 0% rate 6000000bit";
        assert_eq!(words(&wire), expected);
    }

    #[test]
    fn what_netem_lacks_is_refused_by_name() {
        let wire = Wire { mtu_bytes: Some(1_200), ..Wire::default() };
        let error = arguments(&wire).unwrap_err().to_string();
        assert!(error.contains("no MTU"), "{error}");
    }

    #[test]
    fn the_counters_of_tc_are_read() {
        let shown = r#"[{"kind":"netem","root":true,"bytes":1514,"packets":1,"drops":2}]"#;
        assert_eq!(read_counters(shown), Counters { packets: 1, bytes: 1514, drops: 2 });
    }
}
