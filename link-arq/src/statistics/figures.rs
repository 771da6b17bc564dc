// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which figures are there, what is each called, and where does it come from? One table:
//! exporters take names and meanings from it, and `docs/statistics.md` is tested against it.

use std::time::UNIX_EPOCH;

use arq_proto::{EcnState, Histogram, LaneStats};

use super::{AssociationStats, Counts, ProcessStats};

/// One figure of a snapshot `S`.
#[derive(Debug)]
pub struct Figure<S> {
    /// Its name, without prefix and unit.
    pub name: &'static str,
    /// Its unit as OpenMetrics writes it behind the name, if it has one.
    pub unit: Option<&'static str>,
    /// The field of the snapshot that it shows.
    pub field: &'static str,
    /// What it says, in a few words.
    pub meaning: &'static str,
    /// How it is read.
    pub read: Read<S>,
}

/// How a figure is read.
#[derive(Debug)]
pub enum Read<S> {
    /// Only grows while the link lives.
    Counter(fn(&S) -> u64),
    /// Goes up and down; not a number: there is none.
    Gauge(fn(&S) -> f64),
    /// Only grows, and is counted by the label of this name.
    By(&'static str, fn(&S) -> Counts),
    /// Times that are counted by length.
    Times(fn(&S) -> Histogram),
}

impl<S> Figure<S> {
    /// The name as exporters show it: `arq_name_unit`, and `_total` where it only grows.
    #[must_use]
    pub fn exported_name(&self) -> String {
        let unit = self.unit.map(|unit| format!("_{unit}")).unwrap_or_default();
        let total = if self.is_counter() { "_total" } else { "" };
        format!("arq_{}{unit}{total}", self.name)
    }

    /// Whether it only grows.
    #[must_use]
    pub fn is_counter(&self) -> bool {
        !matches!(self.read, Read::Gauge(_) | Read::Times(_))
    }
}

const SECONDS: Option<&str> = Some("seconds");
const BYTES: Option<&str> = Some("bytes");
const BYTES_PER_SECOND: Option<&str> = Some("bytes_per_second");
const RATIO: Option<&str> = Some("ratio");
const PACKETS: Option<&str> = Some("packets");

macro_rules! gauge {
    ($name:literal, $unit:expr, $field:ident, $read:expr, $meaning:literal) => {
        Figure {
            name: $name,
            unit: $unit,
            field: stringify!($field),
            meaning: $meaning,
            read: Read::Gauge($read),
        }
    };
}

macro_rules! counter {
    ($name:literal, $unit:expr, $field:ident, $read:expr, $meaning:literal) => {
        Figure {
            name: $name,
            unit: $unit,
            field: stringify!($field),
            meaning: $meaning,
            read: Read::Counter($read),
        }
    };
}

macro_rules! by {
    ($label:literal, $name:literal, $field:ident, $read:expr, $meaning:literal) => {
        Figure {
            name: $name,
            unit: None,
            field: stringify!($field),
            meaning: $meaning,
            read: Read::By($label, $read),
        }
    };
}

macro_rules! times {
    ($name:literal, $field:ident, $read:expr, $meaning:literal) => {
        Figure {
            name: $name,
            unit: SECONDS,
            field: stringify!($field),
            meaning: $meaning,
            read: Read::Times($read),
        }
    };
}

fn ecn_state(state: EcnState) -> f64 {
    match state {
        EcnState::Off => 0.0,
        EcnState::Testing => 1.0,
        EcnState::Capable => 2.0,
        EcnState::Failed => 3.0,
    }
}

// Behind the macros, which it uses.
mod paths;

pub use paths::PATH_FIGURES;
pub(crate) use paths::PATH_STATES;

/// The figures of a link, in the order of the documentation.
pub const FIGURES: &[Figure<AssociationStats>] = &[
    gauge!("age", SECONDS, age, |a| a.age.as_secs_f64(), "Since the link was opened"),
    gauge!(
        "link_start_time",
        SECONDS,
        opened_at,
        |a| a.opened_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
        "When the link was opened, since the Unix epoch"
    ),
    gauge!(
        "rtt_smoothed",
        SECONDS,
        srtt,
        |a| a.stats.srtt.as_secs_f64(),
        "Round-trip time, smoothed"
    ),
    gauge!(
        "rtt_min",
        SECONDS,
        min_rtt,
        |a| a.stats.min_rtt.as_secs_f64(),
        "Smallest round-trip time seen"
    ),
    gauge!(
        "rtt_variation",
        SECONDS,
        rtt_variation,
        |a| a.stats.rtt_variation.as_secs_f64(),
        "Mean deviation of the round-trip time"
    ),
    gauge!(
        "loss",
        RATIO,
        loss,
        |a| a.stats.loss.as_f64(),
        "Share of our packets that are lost, an upper estimate of at least 0.01"
    ),
    gauge!(
        "reverse_loss",
        RATIO,
        reverse_loss,
        |a| a.stats.reverse_loss.as_f64(),
        "Share of the peer's packets that are lost, an upper estimate of at least 0.01"
    ),
    gauge!(
        "loss_run",
        PACKETS,
        loss_run_hundredths,
        |a| f64::from(a.stats.loss_run_hundredths) / 100.0,
        "Mean number of packets lost in a row"
    ),
    gauge!(
        "window",
        BYTES,
        window_bytes,
        |a| a.stats.window_bytes as f64,
        "What the congestion control allows in flight"
    ),
    gauge!(
        "in_flight",
        BYTES,
        in_flight_bytes,
        |a| a.stats.in_flight_bytes as f64,
        "Sent, and neither acknowledged nor lost"
    ),
    gauge!(
        "pacing",
        BYTES_PER_SECOND,
        pacing_bytes_per_sec,
        |a| a.stats.pacing_bytes_per_sec as f64,
        "The rate at which packets leave when there are enough, 0 when unpaced"
    ),
    gauge!(
        "queued",
        BYTES,
        queued_bytes,
        |a| a.stats.queued_bytes as f64,
        "Taken from zenoh and not yet wholly sent"
    ),
    gauge!(
        "queue_age",
        SECONDS,
        queue_age,
        |a| a.stats.queue_age.as_secs_f64(),
        "How long the oldest message has waited to be sent"
    ),
    gauge!(
        "send_buffer",
        BYTES,
        send_buffer_bytes,
        |a| a.stats.send_buffer_bytes as f64,
        "Kept for sending: queued, in flight and lost"
    ),
    gauge!(
        "receive_buffer",
        BYTES,
        receive_buffer_bytes,
        |a| a.stats.receive_buffer_bytes as f64,
        "Received, whole or in part, and not yet taken by zenoh"
    ),
    counter!("packets_sent", None, packets_sent, |a| a.stats.packets_sent, "Datagrams sent"),
    counter!("sent", BYTES, bytes_sent, |a| a.stats.bytes_sent, "UDP payload sent"),
    counter!(
        "packets_received",
        None,
        packets_received,
        |a| a.stats.packets_received,
        "Datagrams received and accepted"
    ),
    counter!(
        "received",
        BYTES,
        bytes_received,
        |a| a.stats.bytes_received,
        "UDP payload received and accepted"
    ),
    counter!(
        "batches_sent",
        None,
        batches_sent,
        |a| a.stats.batches_sent,
        "Transmissions of two datagrams and more in one system call"
    ),
    counter!(
        "batches_stopped",
        None,
        batches_stopped,
        |a| a.stats.batches_stopped,
        "Times that these were found to be lost where single datagrams arrive, so that none leave any more"
    ),
    counter!(
        "breaker_openings",
        None,
        breaker_openings,
        |a| a.stats.breaker_openings,
        "Times that far more was sent than arrived, so that the rate was limited to what arrives"
    ),
    counter!(
        "packets_lost",
        None,
        packets_lost,
        |a| a.stats.packets_lost,
        "Packets of ours declared lost"
    ),
    counter!(
        "packets_spuriously_lost",
        None,
        packets_spuriously_lost,
        |a| a.stats.packets_spuriously_lost,
        "Packets declared lost that were acknowledged later"
    ),
    gauge!(
        "ecn_state",
        None,
        ecn,
        |a| ecn_state(a.stats.ecn),
        "Whether our packets are marked as capable of ECN: 0 off, 1 being tested, 2 yes, 3 the path does not carry it"
    ),
    counter!(
        "packets_marked",
        None,
        packets_marked,
        |a| a.stats.packets_marked,
        "Packets of ours that queues have marked (CE) instead of dropping them"
    ),
    counter!(
        "marks_received",
        None,
        marks_received,
        |a| a.stats.marks_received,
        "Packets of the peer that queues have marked (CE)"
    ),
    counter!(
        "chunks_retransmitted",
        None,
        chunks_retransmitted,
        |a| a.stats.chunks_retransmitted,
        "Chunks of messages sent again"
    ),
    counter!(
        "chunks_bundled",
        None,
        chunks_bundled,
        |a| a.stats.chunks_bundled,
        "Small messages that were sent again in a later packet, ahead of any loss (bundling)"
    ),
    counter!(
        "chunks_duplicate",
        None,
        chunks_duplicate,
        |a| a.stats.chunks_duplicate,
        "Chunks and repair symbols received that brought nothing new"
    ),
    counter!(
        "repair_symbols_sent",
        None,
        repair_symbols_sent,
        |a| a.stats.repair_symbols_sent,
        "Repair symbols (parity) sent"
    ),
    counter!(
        "repair_symbols_received",
        None,
        repair_symbols_received,
        |a| a.stats.repair_symbols_received,
        "Repair symbols (parity) received"
    ),
    counter!(
        "chunks_recovered",
        None,
        chunks_recovered,
        |a| a.stats.chunks_recovered,
        "Chunks computed from parity instead of received"
    ),
    counter!("ptos", None, ptos, |a| a.stats.ptos, "Times that the end of a flight was unanswered"),
    counter!("acks_sent", None, acks_sent, |a| a.stats.acks_sent, "Acknowledgements sent"),
    counter!(
        "datagrams_dropped",
        None,
        datagrams_dropped,
        |a| a.stats.datagrams_dropped,
        "Datagrams dropped as damaged, malformed, replayed or foreign"
    ),
    counter!(
        "unreachable_reports",
        None,
        unreachable_reports,
        |a| a.stats.unreachable_reports,
        "Reports that a datagram did not reach the peer, true or made up"
    ),
    counter!(
        "suspicions",
        None,
        suspicions,
        |a| a.stats.suspicions,
        "Times that something said that the peer is gone, and the peer was asked"
    ),
    counter!(
        "packets_forged",
        None,
        packets_forged,
        |a| a.stats.packets_forged,
        "Packets that the keys did not open"
    ),
    counter!(
        "key_updates",
        None,
        key_updates,
        |a| a.stats.key_updates,
        "Times that the keys changed"
    ),
    counter!(
        "handshakes_spoiled",
        None,
        handshakes_spoiled,
        |a| a.stats.handshakes_spoiled,
        "Attempts at a secured handshake that came to nothing, and were followed by another"
    ),
    counter!(
        "messages_expired",
        None,
        messages_expired,
        |a| a.stats.messages_expired,
        "Best-effort messages given up after their deadline"
    ),
    counter!(
        "messages_stale",
        None,
        messages_stale,
        |a| a.stats.messages_stale,
        "Best-effort messages of the peer dropped here after their deadline"
    ),
    counter!(
        "host_sleeps",
        None,
        host_sleeps,
        |a| a.stats.host_sleeps,
        "Times that the host gave this link no processor for 5 ms to 1 s"
    ),
    counter!(
        "clock_regressions",
        None,
        clock_regressions,
        |a| a.stats.clock_regressions,
        "Times that the clock went backwards"
    ),
    gauge!(
        "path_mtu",
        BYTES,
        path_mtu_bytes,
        |a| f64::from(a.stats.path_mtu_bytes),
        "The longest datagram that the path is known to carry"
    ),
    gauge!(
        "chunk",
        BYTES,
        chunk_bytes,
        |a| f64::from(a.stats.chunk_bytes),
        "The largest chunk of the next message"
    ),
    counter!(
        "chunk_size_changes",
        None,
        chunk_size_changes,
        |a| a.stats.chunk_size_changes,
        "Times that the chunk size was changed because loss grew with the size of packets, or did not any more"
    ),
    counter!(
        "mtu_probes_sent",
        None,
        mtu_probes_sent,
        |a| a.stats.mtu_probes_sent,
        "Datagrams sent only to ask whether their size passes"
    ),
    counter!(
        "mtu_probes_lost",
        None,
        mtu_probes_lost,
        |a| a.stats.mtu_probes_lost,
        "Those of them that did not pass"
    ),
    counter!(
        "mtu_probe",
        BYTES,
        mtu_probe_bytes,
        |a| a.stats.mtu_probe_bytes,
        "UDP payload in all of them"
    ),
    counter!(
        "black_holes",
        None,
        black_holes,
        |a| a.stats.black_holes,
        "Times that large datagrams were found to vanish where small ones passed"
    ),
];

/// The figures of a lane: one priority, reliable or best effort.
pub const LANE_FIGURES: &[Figure<LaneStats>] = &[
    counter!(
        "lane_messages_sent",
        None,
        messages_sent,
        |lane| lane.messages_sent,
        "Batches taken from zenoh"
    ),
    counter!(
        "lane_messages_delivered",
        None,
        messages_delivered,
        |lane| lane.messages_delivered,
        "Batches handed to zenoh"
    ),
    times!(
        "lane_queue_wait",
        queue_wait,
        |lane| lane.queue_wait.clone(),
        "How long a batch waited until its first byte left"
    ),
    times!(
        "lane_delivery",
        delivery,
        |lane| lane.delivery.clone(),
        "How long it took until the peer had acknowledged a batch that is repaired, and all before it"
    ),
];

/// The figures of the process.
pub const PROCESS_FIGURES: &[Figure<ProcessStats>] = &[
    gauge!("links", None, links, |process| process.links as f64, "Links that are open"),
    counter!(
        "links_opened",
        None,
        links_opened,
        |process| process.links_opened,
        "Links opened since the process began"
    ),
    by!(
        "reason",
        "links_closed",
        links_closed,
        |process| process.links_closed.clone(),
        "Links that have ended, by reason"
    ),
    by!(
        "reason",
        "handshakes_failed",
        handshakes_failed,
        |process| process.handshakes_failed.clone(),
        "Attempts to open a link that have failed, by reason"
    ),
    by!(
        "result",
        "handshakes",
        handshakes,
        |process| process.handshakes.clone(),
        "Handshakes that listeners were asked for, by result"
    ),
];

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fmt::Debug};

    use arq_proto::Stats;

    use super::{
        super::{process_statistics, test_path},
        *,
    };

    /// The fields of a struct, from what `derive(Debug)` prints of it.
    fn fields(value: &impl Debug) -> BTreeSet<String> {
        let text = format!("{value:#?}");
        let lines = text.lines().filter_map(|line| line.strip_prefix("    "));
        let names = lines.filter(|line| !line.starts_with([' ', '}', ']', ')']));
        names.filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
    }

    fn shown<S>(figures: &[Figure<S>]) -> BTreeSet<String> {
        figures.iter().map(|figure| figure.field.to_owned()).collect()
    }

    #[test]
    fn every_field_of_the_snapshots_is_a_figure() {
        let mut of_link = fields(&Stats::default());
        assert!(of_link.contains("srtt") && of_link.len() > 20, "{of_link:?}");
        of_link.remove("lanes");
        of_link.extend(["age", "opened_at"].map(str::to_owned));
        assert_eq!(shown(FIGURES), of_link);
        assert_eq!(shown(LANE_FIGURES), fields(&LaneStats::default()));
        let mut of_path = fields(&test_path().stats);
        // Its labels, and what is shown as a figure each.
        for label in ["number", "socket", "remote", "state"] {
            assert!(of_path.remove(label), "{label}");
        }
        assert_eq!(shown(PATH_FIGURES), of_path);
        assert_eq!(shown(PROCESS_FIGURES), fields(&process_statistics(&[])));
    }

    #[test]
    fn names_are_unique_and_as_openmetrics_wants_them() {
        let names: Vec<_> = FIGURES
            .iter()
            .map(Figure::exported_name)
            .chain(LANE_FIGURES.iter().map(Figure::exported_name))
            .chain(PATH_FIGURES.iter().map(Figure::exported_name))
            .chain(PROCESS_FIGURES.iter().map(Figure::exported_name))
            .collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        for name in names {
            assert!(name.bytes().all(|c| c.is_ascii_lowercase() || c == b'_'), "{name}");
        }
    }
}
