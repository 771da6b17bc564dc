// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Are the project's targets met?
//!
//! [`NEEDS`] says which scenarios and links the targets are judged by (T10 by [`crate::many_links`]), [`judge`]
//! judges. A target is met only by the data that it names: all its cells, each with at least five sound repeats, compared
//! by medians; what T10 allows none of is counted in the worst run. A cell that is missing makes it *not measured*, which
//! is not met; a run of ours that failed makes it missed, and so does one cell beyond its bound. Rivals count as they
//! ran: a rank that they lost is later than any.

mod delivery;
mod evidence;
mod fades;
mod idle;
mod latency;
mod published;
mod radios;
mod recorded;
mod sealed;
mod sharing;
mod table;
mod tally;
mod throughput;

use crate::record::Record;

use evidence::Evidence;
use tally::Tally;

pub use table::table;

/// A scenario, the targets that it helps to decide, and the links that it must have been run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The scenario's name.
    pub scenario: &'static str,
    /// The names of the targets.
    pub targets: &'static [&'static str],
    /// The names of the links.
    pub links: &'static [&'static str],
}

/// The default configuration.
const ARQ: &str = "arq";
/// Without redundancy: what retransmission alone can do.
const ARQ_NO_FEC: &str = "arq-no-fec";
/// Sealed, with a certificate and with a key.
const SEALED: [&str; 2] = ["arq-tls", "arq-psk"];
/// Over two radios at once, and over each of them.
const ARQ_PATHS: &str = "arq-paths";
const ARQ_A: &str = "arq-a";
const ARQ_B: &str = "arq-b";
/// What a zenoh user gets without choosing anything but the protocol.
const DEFAULTS: [&str; 3] = ["tcp-cubic", "quic", "udp-rel"];
/// The stock links among which T3 looks for the best: those that its scenario is measured with. Of the others `tls` and
/// `ws` are `tcp` with more to do, and `quic-rel0` is, like `udp`, a link that repairs nothing.
const STOCK: [&str; 5] = ["tcp-cubic", "tcp-bbr", "udp", "udp-rel", "quic"];
/// Medians of fewer repeats are worth little.
pub const REPEATS: u32 = 5;

const fn need(
    scenario: &'static str,
    targets: &'static [&'static str],
    links: &'static [&'static str],
) -> Need {
    Need { scenario, targets, links }
}

/// What has to be measured for all targets.
pub const NEEDS: [Need; 27] = [
    need(
        "drop-rate",
        &["T1", "T3", "T11", "E1"],
        &[ARQ, ARQ_NO_FEC, SEALED[0], SEALED[1], "tcp-cubic", "tcp-bbr", "udp", "udp-rel", "quic"],
    ),
    need("one-round-trip", &["T2"], &[ARQ]),
    need("drop-rate-500kb", &["T11"], &[ARQ]),
    need("payload", &["T11"], &[ARQ]),
    need("goodput", &["T4", "W2"], &[ARQ, "tcp-bbr", "quic"]),
    need(
        "loopback",
        &["T5", "T5b", "T6", "E1"],
        &[ARQ, SEALED[0], SEALED[1], "tcp-cubic", "udp-rel", "quic"],
    ),
    need("fast-wire", &["W1"], &[ARQ, "tcp-cubic", "quic"]),
    need("mixed-priority", &["T7"], &[ARQ]),
    need("ping-pong", &["T8"], &[ARQ, "udp"]),
    need("fairness", &["T9"], &[ARQ]),
    need("fairness-cubic", &["T9"], &[ARQ]),
    need("arq-schemes", &["T11"], &[ARQ]),
    need("sack", &["T11"], &[ARQ]),
    need("window-vs-aimd", &["T11"], &[ARQ, "arq-aimd"]),
    need("reliable-sheet", &["T11"], &[ARQ]),
    need("wifi-burst", &["T11"], &[ARQ]),
    need("wifi-bad", &["T11"], &[ARQ]),
    need("blackout", &["T12"], &[ARQ]),
    need("opening", &["E1"], &SEALED),
    need("two-radios", &["M1"], &[ARQ_PATHS, ARQ_A, ARQ_B]),
    need("shared-bottleneck", &["S1"], &[ARQ]),
    need("beside-cubic", &["S1"], &[ARQ]),
    need("beside-bbr", &["S1"], &[ARQ]),
    need("recorded", &["R1", "R2"], &[ARQ, "tcp-cubic", "tcp-bbr", "quic"]),
    need("fades", &["R3"], &[ARQ]),
    need("thin-radio", &["R4"], &[ARQ]),
    need("commands", &["B1"], &[ARQ]),
];

/// What became of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every cell is within its bound.
    Met,
    /// At least one is not.
    Missed,
    /// No cell is beyond its bound, but not all were measured.
    NotMeasured,
}

/// A target and how far it is met.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// `T1` to `T12`, `W1`, `W2`, `E1`, `M1`, `R1` to `R4`, `S1`, `B1`; `T5b` is the second stage of T5.
    pub target: &'static str,
    /// What is asked for.
    pub claim: &'static str,
    /// Whether it is so.
    pub outcome: Outcome,
    /// The worst of all cells as a share of what is allowed: above 1 the target is missed.
    pub worst_ratio: Option<f64>,
    /// The worst cell in words; empty when nothing was measured.
    pub worst: String,
    /// Cells beyond their bound.
    pub missed: Vec<String>,
    /// What is not there, and why.
    pub missing: Vec<String>,
}

/// How a target is judged.
type Judge = fn(&Evidence<'_>) -> Tally;

/// Name, claim, and how it is judged.
const TARGETS: [(&str, &str, Judge); 23] = [
    (
        "T1",
        "without redundancy: p50 <= 1.15 x, p99 <= 1.3 x the ideal selective repeat, + 1 ms",
        latency::near_the_ideal,
    ),
    (
        "T2",
        "10 KB, 10 ms, 10 %: p99 <= one round trip, <= 1.5 bytes on the wire per byte",
        latency::within_a_round_trip,
    ),
    (
        "T3",
        "p99 at 10 and 25 %: 10 x below the stock defaults, 3 x below the best; never 5 % later",
        latency::ahead_of_the_stock_links,
    ),
    (
        "T4",
        "goodput >= 90 % of rate x (1 - loss) at 100 Mb/s, 20 ms round trip, 0 to 25 %",
        throughput::near_the_capacity,
    ),
    ("T5", "loopback: >= 3 x quic and udp rel=1, >= 0.7 x tcp", throughput::fast_on_loopback),
    ("T5b", "loopback: >= 1.0 x tcp", throughput::as_fast_as_tcp),
    (
        "T6",
        "loopback, floods of 1 MB messages: CPU per GB <= 1.5 x tcp, <= 0.5 x quic",
        throughput::thrifty,
    ),
    ("T7", "a beacon beside 100 KB at 10 %: p99 <= 1.2 x the beacon alone", latency::urgent_first),
    ("T8", "ping-pong without loss: p50 <= 1.1 x plain udp", latency::quick_to_answer),
    (
        "T9",
        "50 Mb/s, a queue of one bandwidth-delay product: 25 to 75 % of the payload delivered beside one flow of \
         cubic; Jain >= 0.95 between two of ours",
        sharing::fair,
    ),
    ("T10", "1,000 idle links: <= 64 KiB each, no timer but the keep-alive", idle::idle),
    (
        "T11",
        "every published figure beaten or matched, by the worst of like flows, of a range the better end; >= 99 % \
         delivered where the source does not say how much; all in order on the reliable sheet",
        published::beaten_or_matched,
    ),
    (
        "T12",
        "after 8 s of blackout: all is delivered, the first message within 1.5 PTO (1 s by then)",
        delivery::back_after_a_blackout,
    ),
    (
        "W1",
        "a fast wire of 1,500 bytes, 1 MB messages: goodput >= 1.3 x quic, >= 0.8 x tcp, the machine's CPU per GB <= 1.3 x tcp",
        throughput::fast_on_a_wire,
    ),
    (
        "W2",
        "100 Mb/s, 20 ms round trip, 0 and 10 %: the machine's CPU per GB <= 1.2 x tcp bbr, <= 0.5 x quic",
        throughput::thrifty_on_a_wire,
    ),
    (
        "E1",
        "sealed: 99 of 100 open within 1 s at 25 %; p99 <= 1.1 x clear at any drop rate; loopback >= 0.7 x clear, \
         >= 2 x quic, CPU per GB <= 1.4 x clear",
        sealed::as_good_as_in_clear,
    ),
    (
        "M1",
        "two recorded radios: p99 <= 1.2 x the better one's without outages, <= 5 % more packets; one dies: no message \
         later than 1.5 round trips of the other, beyond its way",
        radios::as_the_better_one,
    ),
    (
        "R1",
        "recorded radios, a command beside video: p50 and p99 within 5 % of the best stock link, 20 % better in the \
         sum; <= 1.15 bytes on the wire per byte",
        recorded::commands_in_time,
    ),
    (
        "R2",
        "recorded radios, a beacon beside bulk: p99 <= 1.5 x the beacon alone; bulk >= 90 % of the best stock link's",
        recorded::beacons_in_time,
    ),
    (
        "R3",
        "fades by the clock, of 20 to 200 ms: p99 <= 1.15 x the end of the fade and the way, by the fades of each run",
        fades::commands_right_behind_them,
    ),
    (
        "R4",
        "6 Mb/s, 12 % lost, an urgent message beside large ones: p99 <= 15 ms",
        recorded::urgent_on_a_thin_radio,
    ),
    (
        "S1",
        "four of ours at a bottleneck: <= 1.08 bytes on the wire per byte, Jain >= 0.9, none below a quarter of its share; \
         30 to 70 % beside one kernel flow of cubic or bbr",
        sharing::no_harm_to_others,
    ),
    (
        "B1",
        "200 bytes at 50 Hz, 60 ms round trip: <= 1.7 bytes on the wire per byte at 0 %, <= 2.5 at 10 %; p99 no later",
        recorded::small_messages_are_cheap,
    ),
];

/// Judges all targets by the records of each scenario, of which each cell must have been measured `repeats` times.
/// Records of other scenarios do no harm.
pub fn judge(results: &[(String, Vec<Record>)], repeats: u32) -> Vec<Verdict> {
    let evidence = Evidence::of(results, repeats as usize);
    TARGETS.map(|(target, claim, judge)| judge(&evidence).verdict(target, claim)).into()
}

#[cfg(test)]
mod tests;
