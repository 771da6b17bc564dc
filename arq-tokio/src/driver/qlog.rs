// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A log of each connection for qvis and scripts: qlog 0.3 (draft-ietf-quic-qlog-main-schema-02) as JSON text sequences,
//! one file for each association, in the folder that [`VARIABLE`] names.
//!
//! What QUIC has, too, has the names of draft-ietf-quic-qlog-quic-events-02, for which qvis was made; what it has not is in
//! the category `arq`. Times are milliseconds since the begin of the association (`reference_time`: Unix time).
//!
//! | event | fields |
//! |---|---|
//! | `transport:packet_sent`, `transport:packet_received` | `header.packet_number`, `raw.length` (bytes of UDP payload), `frames`. All are of type `1RTT`; handshake packets have no number and are not in it. |
//! | `recovery:packet_lost` | `header.packet_number`, `raw.length`, `trigger`: `reordering_threshold` (later packets were acknowledged) or `pto_expired` |
//! | `recovery:metrics_updated` | changes of `smoothed_rtt`, `min_rtt`, `rtt_variance` (ms), `congestion_window`, `bytes_in_flight` (bytes), `pacing_rate` (bit/s) |
//! | `arq:metrics_updated` | changes of `loss`, `reverse_loss` (upper estimates, 0 to 1), `queued_bytes`, `send_buffer_bytes`, `receive_buffer_bytes`, `path_mtu_bytes`, `chunk_bytes`, and the counts `chunks_retransmitted`, `repair_symbols_sent`, `messages_expired`, `ptos` |
//! | `arq:closed` | `reason` |
//!
//! Metrics are written when packets are acknowledged or declared lost. Each path numbers its packets by itself, and a log
//! does not tell of which path a packet is.
//!
//! Frames have QUIC's names where they mean the same: `ack` (with `ect0`, `ect1`, `ce` once ECN was seen), `ping`, `padding`, `max_data`, `path_challenge`,
//! `path_response`, `connection_close`. A lane is shown as a stream: `max_stream_data`, and `stream` for MESSAGE and CHUNK
//! with `stream_id` (the lane's number), `message`, `message_length`, `index`, `chunks`, `length`; so is `repair`, a repair
//! symbol. `forget` and `timestamp` are ARQ's own.

use std::{
    env,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::LazyLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use arq_proto::{
    observer::{Frame, LostPacket, Observer, Packet, Piece},
    Connection, ConnectionError, EcnCounts, LaneId, Reliability, Stats,
};
use serde_json::{json, Map, Value};

/// The environment variable that names the folder; unset or empty is off. It is read once.
const VARIABLE: &str = "QLOGDIR";
/// What is buffered is written at least this often while anything happens, for those who watch.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// Before each record (RFC 7464).
const RECORD_SEPARATOR: u8 = 0x1e;
/// To be added to the times of both sides, in milliseconds. Not 0: qvis takes that for none, and then draws the server half a
/// round trip late, since it finds no Initial packet.
const TIME_OFFSET: f64 = 0.001;

/// Begins a log of `connection`, where the environment asks for one.
pub(super) fn begin(connection: &mut Connection, now: Instant) {
    static FOLDER: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from));
    let Some(folder) = &*FOLDER else { return };
    match Log::create(folder, connection, now) {
        Ok(log) => connection.observe(Box::new(log)),
        Err(error) => tracing::warn!(folder = %folder.display(), %error, "no qlog"),
    }
}

/// The log of a connection.
#[derive(Debug)]
struct Log {
    /// `None` once something could not be written.
    out: Option<BufWriter<File>>,
    begin: Instant,
    flushed_at: Instant,
    /// From here on each event is written at once, because any may be the last.
    has_ended: bool,
    /// The latest value of each figure: only changes are written.
    metrics: Map<String, Value>,
    own_metrics: Map<String, Value>,
}

impl Log {
    fn create(folder: &Path, connection: &Connection, now: Instant) -> io::Result<Self> {
        let side = if connection.is_client() { "client" } else { "server" };
        let id = format!("{:016x}", connection.client_id());
        fs::create_dir_all(folder)?;
        let file = File::create_new(folder.join(format!("{id}_{side}.sqlog")))?;
        let mut log = Self {
            out: Some(BufWriter::new(file)),
            begin: now,
            flushed_at: now,
            has_ended: false,
            metrics: Map::new(),
            own_metrics: Map::new(),
        };
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        log.write(&json!({
            "qlog_version": "0.3",
            "qlog_format": "JSON-SEQ",
            "title": "an association of ARQ, in the terms of QUIC where they fit",
            "trace": {
                "vantage_point": { "name": concat!("arq-tokio ", env!("CARGO_PKG_VERSION")), "type": side },
                "configuration": { "time_offset": TIME_OFFSET },
                "common_fields": {
                    "ODCID": id,
                    "protocol_type": ["ARQ"],
                    "time_format": "relative",
                    "reference_time": millis(unix),
                },
            },
        }));
        Ok(log)
    }

    fn event(&mut self, at: Instant, name: &str, data: Value) {
        let time = millis(at.saturating_duration_since(self.begin));
        self.write(&json!({ "time": time, "name": name, "data": data }));
        if self.has_ended || at.saturating_duration_since(self.flushed_at) >= FLUSH_INTERVAL {
            self.flushed_at = at;
            self.try_to(|out| out.flush());
        }
    }

    fn write(&mut self, record: &Value) {
        self.try_to(|out| {
            out.write_all(&[RECORD_SEPARATOR])?;
            serde_json::to_writer(&mut *out, record)?;
            out.write_all(b"\n")
        });
    }

    /// A full disk ends the log, not the connection.
    fn try_to(&mut self, act: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        let Some(out) = &mut self.out else { return };
        if let Err(error) = act(out) {
            tracing::warn!(%error, "a qlog ends early");
            // Dropping it would try again to write the buffer.
            if let Some(out) = self.out.take() {
                drop(out.into_parts());
            }
        }
    }

    fn packet(&mut self, at: Instant, name: &str, packet: &Packet<'_>) {
        let frames: Vec<_> = packet.frames().map(|frame| frame_record(&frame)).collect();
        let data = json!({
            "header": { "packet_type": "1RTT", "packet_number": packet.number },
            "raw": { "length": packet.bytes },
            "frames": frames,
        });
        self.event(at, name, data);
    }
}

impl Observer for Log {
    fn packet_sent(&mut self, at: Instant, packet: &Packet<'_>) {
        self.packet(at, "transport:packet_sent", packet);
    }

    fn packet_received(&mut self, at: Instant, packet: &Packet<'_>) {
        self.packet(at, "transport:packet_received", packet);
    }

    fn packet_lost(&mut self, at: Instant, lost: &LostPacket) {
        let trigger = if lost.by_time_out { "pto_expired" } else { "reordering_threshold" };
        let data = json!({
            "header": { "packet_type": "1RTT", "packet_number": lost.number },
            "raw": { "length": lost.bytes },
            "trigger": trigger,
        });
        self.event(at, "recovery:packet_lost", data);
    }

    fn stats_updated(&mut self, at: Instant, stats: &Stats) {
        let changed = take_changed(&mut self.metrics, metrics(stats));
        if !changed.is_empty() {
            self.event(at, "recovery:metrics_updated", changed.into());
        }
        let changed = take_changed(&mut self.own_metrics, own_metrics(stats));
        if !changed.is_empty() {
            self.event(at, "arq:metrics_updated", changed.into());
        }
    }

    fn closed(&mut self, at: Instant, reason: &ConnectionError) {
        self.has_ended = true;
        self.event(at, "arq:closed", json!({ "reason": reason.to_string() }));
    }
}

/// What QUIC knows, in its units: times in milliseconds, the rate in bits per second.
fn metrics(stats: &Stats) -> Value {
    json!({
        "min_rtt": millis(stats.min_rtt),
        "smoothed_rtt": millis(stats.srtt),
        "rtt_variance": millis(stats.rtt_variation),
        "congestion_window": stats.window_bytes,
        "bytes_in_flight": stats.in_flight_bytes,
        "pacing_rate": stats.pacing_bytes_per_sec.saturating_mul(8),
    })
}

fn own_metrics(stats: &Stats) -> Value {
    json!({
        "loss": stats.loss.as_f64(),
        "reverse_loss": stats.reverse_loss.as_f64(),
        "queued_bytes": stats.queued_bytes,
        "send_buffer_bytes": stats.send_buffer_bytes,
        "receive_buffer_bytes": stats.receive_buffer_bytes,
        "path_mtu_bytes": stats.path_mtu_bytes,
        "chunk_bytes": stats.chunk_bytes,
        "chunks_retransmitted": stats.chunks_retransmitted,
        "repair_symbols_sent": stats.repair_symbols_sent,
        "messages_expired": stats.messages_expired,
        "ptos": stats.ptos,
    })
}

/// The entries of `new` that differ from `old`, which is brought up to date.
fn take_changed(old: &mut Map<String, Value>, new: Value) -> Map<String, Value> {
    let Value::Object(mut changed) = new else { return Map::new() };
    changed.retain(|name, value| old.get(name) != Some(value));
    old.extend(changed.clone());
    changed
}

fn frame_record(frame: &Frame<'_>) -> Value {
    match frame {
        Frame::Padding => json!({ "frame_type": "padding" }),
        Frame::Ping => json!({ "frame_type": "ping" }),
        Frame::Ack { delay_us, ranges, ecn } => with_counts(
            ecn.as_ref(),
            json!({
                "frame_type": "ack",
                "ack_delay": *delay_us as f64 / 1e3,
                // QUIC's lists begin with the lowest.
                "acked_ranges": ranges.iter().rev().map(|&(first, last)| [first, last]).collect::<Vec<_>>(),
            }),
        ),
        Frame::Close { reason } => {
            json!({ "frame_type": "connection_close", "error_space": "application", "reason": reason })
        }
        Frame::MaxData(bytes) => json!({ "frame_type": "max_data", "maximum": bytes }),
        Frame::MaxLaneData(lane, bytes) => {
            json!({ "frame_type": "max_stream_data", "stream_id": lane.index(), "maximum": bytes })
        }
        Frame::PathChallenge(token) => {
            json!({ "frame_type": "path_challenge", "data": format!("{token:016x}") })
        }
        Frame::PathResponse(token) => {
            json!({ "frame_type": "path_response", "data": format!("{token:016x}") })
        }
        Frame::Forget(lane, below) => {
            json!({ "frame_type": "forget", "stream_id": lane.index(), "below": below })
        }
        Frame::Timestamp(lane, ms) => {
            json!({ "frame_type": "timestamp", "stream_id": lane.index(), "time": ms })
        }
        Frame::Chunk(piece) => piece_record("stream", piece),
        Frame::Repair(piece) => piece_record("repair", piece),
        // A frame that is added later.
        Frame::PathAck { path, delay_us, ranges, ecn } => with_counts(
            ecn.as_ref(),
            json!({
                "frame_type": "path_ack",
                "path_id": path.0,
                "ack_delay": *delay_us as f64 / 1_000.0,
                "acked_ranges": ranges,
            }),
        ),
        Frame::PathState { path, sequence, wish } => {
            json!({ "frame_type": "path_state", "path_id": path.0, "sequence": sequence, "use": wish })
        }
        _ => json!({ "frame_type": "unknown" }),
    }
}

/// The counts of ECN, if there are any, with the names of QUIC's `AckFrame`.
fn with_counts(counts: Option<&EcnCounts>, mut ack: Value) -> Value {
    if let (Some(EcnCounts { ect0, ect1, ce }), Some(ack)) = (counts, ack.as_object_mut()) {
        ack.extend(
            [("ect0", ect0), ("ect1", ect1), ("ce", ce)]
                .map(|(name, count)| (name.to_owned(), json!(count))),
        );
    }
    ack
}

/// A lane is shown as the stream of its number.
fn piece_record(kind: &str, piece: &Piece) -> Value {
    json!({
        "frame_type": kind,
        "stream_id": piece.lane.index(),
        "lane": lane_name(piece.lane),
        "message": piece.message,
        "message_length": piece.message_bytes,
        "index": piece.index,
        "chunks": piece.chunks,
        "length": piece.bytes,
    })
}

fn lane_name(lane: LaneId) -> String {
    let reliability = match lane.reliability() {
        Reliability::Reliable => "reliable",
        Reliability::BestEffort => "best-effort",
    };
    format!("{} {reliability}", lane.priority())
}

/// Milliseconds, to the microsecond.
fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}
