// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What must hold after every single step, whatever the wire did.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use arq_proto::{
    config::MIN_WINDOW_BYTES, LaneId, PathStats, Stats, TimerKind, Transmit, MAX_MESSAGE_BYTES,
};

use crate::{host::Conn, Clock};

/// Timers that a connection may have fired within a virtual second without any traffic.
const QUIET_TIMERS_PER_SECOND: u64 = 1_000;
/// And for each datagram sent or received in that second.
const TIMERS_PER_DATAGRAM: u64 = 4;
/// How often in a row timers may fire at the very same instant.
const TIMERS_PER_INSTANT: u32 = 4;

/// Everything that can be said of a connection at rest.
pub(crate) fn check(conn: &Conn) -> Result<(), String> {
    if let Some(violation) = conn.app.violation() {
        return Err(violation.into());
    }
    let stats = conn.connection.stats();
    let config = &conn.config;
    if stats.clock_regressions > 0 {
        return Err("the connection's time went backwards".into());
    }
    for lane in LaneId::all() {
        let lane_stats = &stats.lanes[lane.index()];
        let (read, accepted) = (conn.app.inbox(lane).messages, conn.app.messages_accepted(lane));
        if (lane_stats.messages_delivered, lane_stats.messages_sent) != (read, accepted) {
            return Err(format!(
                "{lane:?}: counted {lane_stats:?}, was {accepted} sent, {read} read"
            ));
        }
    }
    // One message is always taken, so a lane may exceed its bound by less than one.
    let lane_bound = u64::from(config.queue_bytes.unwrap_or(256 << 10)) + MAX_MESSAGE_BYTES as u64;
    let rest_bound = match config.queue_bytes {
        Some(_) => 0,
        None => u64::from(config.connection_window_bytes) + MAX_MESSAGE_BYTES as u64,
    };
    let queue_bound = LaneId::COUNT as u64 * lane_bound + rest_bound;
    bounded("queued_bytes", stats.queued_bytes, queue_bound)?;
    // Beyond what is queued there is only what the peer's credit and the window let out.
    let send_bound = queue_bound + u64::from(config.connection_window_bytes) + stats.window_bytes;
    bounded("send_buffer_bytes", stats.send_buffer_bytes, send_bound)?;
    // What reliable lanes may hold is advertised; best-effort lanes have an equal share each of as
    // much again.
    let window = u64::from(config.connection_window_bytes);
    let priorities = u64::from(LaneId::PRIORITIES);
    let receive_bound = window + priorities * (window / priorities).max(MIN_WINDOW_BYTES);
    bounded("receive_buffer_bytes", stats.receive_buffer_bytes, receive_bound)
}

fn bounded(what: &str, value: u64, bound: u64) -> Result<(), String> {
    if value > bound {
        return Err(format!("{what} is {value}, more than its bound {bound}"));
    }
    Ok(())
}

/// A connection before a transmission: what is in flight, and what shows later that chunks left.
pub(crate) struct InFlight {
    /// Of each path.
    bytes: Vec<u64>,
    queued_bytes: u64,
    repairs: u64,
    expired: u64,
}

impl InFlight {
    pub(crate) fn of(conn: &Conn) -> Self {
        let stats = conn.connection.stats();
        Self {
            bytes: conn.connection.paths().map(|path| path.in_flight_bytes).collect(),
            queued_bytes: stats.queued_bytes,
            repairs: repairs(&stats),
            expired: stats.messages_expired,
        }
    }

    /// Chunks leave while the window has room. Beyond it there may be pings and credit, with as much of
    /// an acknowledgement or of padding as their packet holds, and after a probe time-out one packet of chunks (RFC
    /// 9002 §7.5).
    pub(crate) fn check_after(&self, conn: &mut Conn) -> Result<(), String> {
        let stats = conn.connection.stats();
        // What has expired is not queued any more either.
        let expired = stats.messages_expired > self.expired;
        let left = stats.queued_bytes < self.queued_bytes && !expired;
        let chunks = left || repairs(&stats) > self.repairs;
        for (path, &before) in conn.connection.paths().zip(&self.bytes) {
            let PathStats { in_flight_bytes, window_bytes, .. } = path;
            // A flight of the handshake may leave before the probe, and is none.
            if in_flight_bytes == before {
                continue;
            }
            let seen = &mut conn.ptos_seen[usize::from(path.number.0)];
            let probed = path.ptos != std::mem::replace(seen, path.ptos);
            // An empty window takes one packet, whatever its size.
            let one_beyond = probed || before == 0;
            let packet = u64::from(path.path_mtu_bytes);
            let beyond = packet + if one_beyond { packet } else { 0 };
            let had_room = before < window_bytes || one_beyond || !chunks;
            if !had_room || in_flight_bytes > window_bytes.max(before) + beyond {
                return Err(format!(
                    "path {}: {in_flight_bytes} bytes in flight after {before}, {}, where the window is {window_bytes}",
                    path.number,
                    if chunks { "with chunks" } else { "without chunks" },
                ));
            }
        }
        Ok(())
    }
}

fn repairs(stats: &Stats) -> u64 {
    stats.chunks_retransmitted + stats.repair_symbols_sent
}

/// A transmission must be what it says.
pub(crate) fn check_transmit(
    transmit: &Transmit,
    buffered: usize,
    max_segments: usize,
) -> Result<(), String> {
    let Transmit { size, segment_size, .. } = *transmit;
    if size != buffered || segment_size == 0 || size == 0 {
        return Err(format!("{transmit:?}, but {buffered} bytes are in the buffer"));
    }
    if size.div_ceil(segment_size) > max_segments {
        return Err(format!("{transmit:?} where {max_segments} segments were allowed"));
    }
    Ok(())
}

/// Counts the timers of a connection and notices storms.
#[derive(Debug, Default)]
pub(crate) struct TimerWatch {
    fired: BTreeMap<TimerKind, u64>,
    second: u64,
    timers: u64,
    datagrams: u64,
    last: Option<Instant>,
    at_last: u32,
}

impl TimerWatch {
    pub(crate) fn fired(&self) -> &BTreeMap<TimerKind, u64> {
        &self.fired
    }

    pub(crate) fn on_datagrams(&mut self, clock: &Clock, count: usize) {
        self.turn_to(clock.offset());
        self.datagrams += count as u64;
    }

    pub(crate) fn on_timer(&mut self, clock: &Clock, kind: TimerKind) -> Result<(), String> {
        self.turn_to(clock.offset());
        *self.fired.entry(kind).or_default() += 1;
        self.timers += 1;
        let allowed = QUIET_TIMERS_PER_SECOND + TIMERS_PER_DATAGRAM * self.datagrams;
        if self.timers > allowed {
            return Err(format!("timer storm: {} timers in a second, {kind:?} last", self.timers));
        }
        if self.last == Some(clock.now()) {
            self.at_last += 1;
        } else {
            (self.last, self.at_last) = (Some(clock.now()), 1);
        }
        if self.at_last > TIMERS_PER_INSTANT {
            return Err(format!("the next timeout does not move forward: {kind:?} again"));
        }
        Ok(())
    }

    fn turn_to(&mut self, offset: Duration) {
        if self.second != offset.as_secs() {
            (self.second, self.timers, self.datagrams) = (offset.as_secs(), 0, 0);
        }
    }
}
