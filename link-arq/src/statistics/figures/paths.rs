// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The figures of a path.

use arq_proto::PathState;
use arq_tokio::PathInfo;

use super::{ecn_state, Figure, Read, BYTES, RATIO, SECONDS};

/// The figures of a path, of a link that leads over several interfaces.
pub const PATH_FIGURES: &[Figure<PathInfo>] = &[
    gauge!(
        "path_rtt_smoothed",
        SECONDS,
        srtt,
        |path| path.stats.srtt.as_secs_f64(),
        "Round-trip time of the path, smoothed"
    ),
    gauge!(
        "path_loss",
        RATIO,
        loss,
        |path| path.stats.loss.as_f64(),
        "Share of our packets that the path loses, an upper estimate of at least 0.01"
    ),
    gauge!(
        "path_ecn_state",
        None,
        ecn,
        |path| ecn_state(path.stats.ecn),
        "Whether our packets on the path are marked as capable of ECN: 0 off, 1 being tested, 2 yes, 3 it does not carry it"
    ),
    counter!(
        "path_packets_marked",
        None,
        packets_marked,
        |path| path.stats.packets_marked,
        "Packets of ours that queues of the path have marked (CE) instead of dropping them"
    ),
    counter!(
        "path_sent",
        BYTES,
        bytes_sent,
        |path| path.stats.bytes_sent,
        "UDP payload sent on the path"
    ),
    counter!(
        "path_received",
        BYTES,
        bytes_received,
        |path| path.stats.bytes_received,
        "UDP payload received on the path"
    ),
    counter!(
        "path_silences",
        None,
        silences,
        |path| path.stats.silences,
        "Times that the path did not answer, and others carried what it should"
    ),
    gauge!(
        "path_silent",
        SECONDS,
        silent_time,
        |path| path.stats.silent_time.as_secs_f64(),
        "How long that was in all"
    ),
    gauge!(
        "path_common_silence",
        RATIO,
        common_silence,
        |path| path.stats.common_silence.as_f64(),
        "Share of the last 32 silences of the link's paths in which two were silent at once; 0 before there were ten"
    ),
    counter!(
        "path_needless",
        BYTES,
        needless_bytes,
        |path| path.stats.needless_bytes,
        "Bytes that the path had delivered although they left on another as well"
    ),
    gauge!(
        "path_primary",
        None,
        is_primary,
        |path| f64::from(u8::from(path.stats.is_primary)),
        "Whether small messages begin on the path"
    ),
    gauge!(
        "path_backup",
        None,
        is_backup,
        |path| f64::from(u8::from(path.stats.is_backup)),
        "Whether the path is for when no other answers"
    ),
    gauge!(
        "path_budget",
        BYTES,
        budget_bytes,
        |path| path.stats.budget_bytes.map_or(f64::NAN, |bytes| bytes as f64),
        "What may pass a metered path now, IP and UDP headers included"
    ),
    gauge!(
        "path_window",
        BYTES,
        window_bytes,
        |path| path.stats.window_bytes as f64,
        "What the congestion control of the path allows in flight"
    ),
    gauge!(
        "path_in_flight",
        BYTES,
        in_flight_bytes,
        |path| path.stats.in_flight_bytes as f64,
        "Sent on the path, and neither acknowledged nor lost"
    ),
    counter!(
        "path_ptos",
        None,
        ptos,
        |path| path.stats.ptos,
        "Times that the end of a flight on the path was unanswered"
    ),
    gauge!(
        "path_longest",
        BYTES,
        path_mtu_bytes,
        |path| f64::from(path.stats.path_mtu_bytes),
        "The longest datagram that this path is known to carry"
    ),
];

/// The states of a path, of which it is in one.
pub(crate) const PATH_STATES: [PathState; 4] =
    [PathState::Opening, PathState::Open, PathState::Silent, PathState::Paused];
