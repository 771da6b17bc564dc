// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What is kept of each measurement: one [`Record`], one line of `results.jsonl`.

use std::fmt;

use netlab::wire::{Conditions, WireCount};
use serde::{Deserialize, Serialize};

use crate::scenario::flow::Flow;

/// One link, in one setting of a scenario, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The scenario's name.
    pub scenario: String,
    /// The setting and the link.
    pub cell: Cell,
    /// From 0.
    pub repeat: u32,
    /// Decides losses, delays and payloads of this repeat; the same for every link in it.
    pub seed: u64,
    /// Seconds since 1970.
    pub started_unix_s: u64,
    /// The network as it was set.
    pub network: Conditions,
    /// What became of it.
    pub outcome: Outcome,
}

/// One link in one setting.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    /// The name of the link.
    pub link: String,
    /// The values of the scenario's axes, as they are written there: `[("drop_percent", "10")]`.
    pub setting: Vec<(String, String)>,
}

/// What became of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It ran.
    Measured(Box<Measurement>),
    /// It did not, and why; a link that cannot open a session is a result too.
    Failed(String),
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// One for each flow of the scenario, in its order.
    pub flows: Vec<FlowResult>,
    /// What crossed the emulated network from the publisher's host, by all its radios, from the first message to the end.
    pub forward: WireCount,
    /// The same from the subscriber's host.
    pub backward: WireCount,
    /// The publishing process.
    pub publisher: ProcessUse,
    /// The subscribing process.
    pub subscriber: ProcessUse,
    /// Segments that the publisher's kernel sent again over TCP; `None` for other links.
    pub tcp_retransmissions: Option<u64>,
    /// Packets that `arq/` sent again or as redundancy (repair symbols); `None` for other links.
    pub arq_retransmissions: Option<u64>,
    /// Of the bytes that the publisher's `arq/` link sent over several paths, per cent that were copies of what arrived
    /// anyway; `None` for links over one path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needless_percent: Option<f64>,
    /// Bytes in flight over time at the publisher, where the link or the kernel tells.
    pub in_flight: Vec<InFlight>,
    /// Of the time of this machine's processors, per cent for which they had work and waited for its hypervisor (steal
    /// time, proc_stat(5)); `None` where the kernel did not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_percent: Option<f64>,
    /// Seconds in which this machine's processors were not idle: with the emulator, and with what the kernel does for a
    /// link outside of both processes, as much of TCP. `None` where the kernel did not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_cpu_s: Option<f64>,
    /// When the first message was due, milliseconds after the clock of the emulator's events and fades began; `None`
    /// where nobody told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_message_ms: Option<f64>,
    /// Begin and end of each fade of the publisher's (first) radio, milliseconds after the first message was due: those
    /// that began before it are negative.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fades_ms: Vec<(f64, f64)>,
    /// Of [`crate::many_links`] only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub many_links: Option<ManyLinks>,
}

/// A process at each end that holds many links, most of them idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ManyLinks {
    /// Links that rested.
    pub idle_links: u64,
    /// Links that carried messages before and after, and rested with the others.
    pub busy_links: u64,
    /// How long all of them rested, seconds.
    pub idle_s: f64,
    /// The process that accepted them, over one socket.
    pub listening: SideOfMany,
    /// The process that opened them, each over a socket of its own.
    pub connecting: SideOfMany,
}

/// What idle links cost one process. All but the memory is of the time in which all links rested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SideOfMany {
    /// Resident memory that each idle link has added after it had carried a few messages, bytes.
    pub bytes_per_idle_link: f64,
    /// CPU of the whole process, seconds.
    pub idle_cpu_s: f64,
    /// Times that a thread of the process was woken.
    pub wake_ups: u64,
    /// Datagrams that the process sent.
    pub packets_sent: u64,
    /// Probe time-outs.
    pub ptos: u64,
    /// Chunks sent again, and packets taken for lost.
    pub retransmitted: u64,
    /// Links that were gone in the end.
    pub links_lost: u64,
}

/// One flow of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowResult {
    /// As the scenario has it, with this cell's payload and rate.
    pub flow: Flow,
    /// Messages that were meant to be sent, those for which no time was left included; of a flood, those that were
    /// handed over.
    pub offered: u64,
    /// Messages that came, each counted once.
    pub delivered: u64,
    /// Copies beyond the first.
    pub duplicates: u64,
    /// Arrivals after a message of a higher number.
    pub out_of_order: u64,
    /// The longest time without any arrival while messages were due, milliseconds.
    pub longest_silence_ms: f64,
    /// From the first intended departure to the last arrival, seconds.
    pub duration_s: f64,
    /// Payload that arrived, bytes per 100 ms from the first intended departure.
    pub arrived_bytes: Vec<u64>,
    /// For each message in order of its number: when it was meant to leave, ms after the flow's first, and its latency,
    /// milliseconds; `None` when it never came. Long flows keep every n-th message (see `kept_every`).
    pub messages: Vec<(f64, Option<f64>)>,
    /// 1 when `messages` has them all.
    pub kept_every: u64,
    /// Latency percentiles over *all* offered messages, milliseconds, a lost one being later than any; `None`
    /// where that rank is lost.
    pub percentiles: Percentiles,
    /// What an ideal selective repeat would have reached on this very network.
    pub ideal: Option<Ideal>,
}

/// Latency percentiles in milliseconds; `None` where the rank falls on a lost message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Percentiles {
    pub mean_of_delivered: Option<f64>,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p99: Option<f64>,
    pub p99_9: Option<f64>,
    pub max: Option<f64>,
}

/// The smallest value that `percent` of `total` do not exceed, those beyond `sorted` being greater than any.
pub fn nearest_rank(sorted: &[f64], total: usize, percent: f64) -> Option<f64> {
    // The product can exceed a whole number by a rounding error, which must not become a rank.
    let rank = (total as f64 * percent / 100.0 - 1e-9).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied()
}

/// The bounds beside a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ideal {
    /// Closed form of the ideal selective repeat, from the network as it was set.
    pub closed_form: Option<Percentiles>,
    /// The ideal selective repeat through the losses that this run really had. Where the radio fades by the clock: the
    /// earliest arrivals over it, of each message at once or at the end of the fade that it was due in.
    pub this_run: Option<Percentiles>,
    /// The erasure channel's capacity, rate x (1 - loss), Mb/s of payload; `None` without a rate.
    pub capacity_mbps: Option<f64>,
}

/// What a process used, from the moment when its sessions were open to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessUse {
    /// Seconds of CPU, user and system.
    pub cpu_s: f64,
    /// Peak of the resident memory, bytes.
    pub peak_rss_bytes: u64,
}

/// One reading of what is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct InFlight {
    /// Seconds after the first message.
    pub at_s: f64,
    /// Bytes sent and not acknowledged.
    pub bytes: u64,
    /// The congestion window, bytes.
    pub window_bytes: Option<u64>,
}

/// `net.core.rmem_max` and `net.core.wmem_max`. Links over UDP feel them in floods; the kernel's TCP does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketBuffers {
    /// Bytes for receiving.
    pub receive_bytes: u64,
    /// Bytes for sending.
    pub send_bytes: u64,
}

impl fmt::Display for SocketBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { receive_bytes, send_bytes } = self;
        write!(f, "{receive_bytes} bytes for receiving, {send_bytes} for sending")
    }
}

/// What a set of results was measured on: `environment.json` beside them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// `arq-bench`'s version and, where it is known, commit.
    pub version: String,
    /// zenoh's version.
    pub zenoh: String,
    /// The command that made it.
    pub command: String,
    /// Operating system and kernel.
    pub kernel: String,
    /// Processor and number of cores.
    pub processor: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The largest buffers that a socket is granted; unknown where the kernel does not tell.
    pub socket_buffers: Option<SocketBuffers>,
    /// Load average when it began.
    pub load: f64,
    /// Whether the program was built with optimisation.
    pub optimised: bool,
    /// Whether it ran as root or in a user namespace.
    pub privilege: String,
    /// The seed of the whole run.
    pub seed: u64,
}

#[cfg(test)]
mod tests {
    use super::nearest_rank;

    #[test]
    fn a_rank_is_not_pushed_up_by_rounding() {
        let thousand: Vec<_> = (1..=1000).map(f64::from).collect();
        assert_eq!(nearest_rank(&thousand, 1000, 99.9), Some(999.0));
        assert_eq!(nearest_rank(&thousand, 1000, 0.0), Some(1.0));
        assert_eq!(nearest_rank(&[], 0, 50.0), None);
    }
}
