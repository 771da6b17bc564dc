// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What each side tells the other once, in the handshake: its limits.
//!
//! Encoded as (identifier, length, value); unknown identifiers are skipped, so that later versions
//! can add some.

use std::time::Duration;

use bytes::Bytes;

use super::{
    cursor::{put_varint, varint_len, DecodeError, Reader},
    BASE_MTU, MIN_MTU, MIN_WINDOW_BYTES,
};
use crate::units::PathNumber;

/// The longest opaque application parameter, in bytes.
pub const MAX_APP_PARAMS_BYTES: usize = 64;

const MAX_DATAGRAM: u64 = 1;
const LANE_WINDOW: u64 = 2;
const CONNECTION_WINDOW: u64 = 3;
const HOLD: u64 = 4;
const APP: u64 = 5;
const REPAIR: u64 = 6;
const RESEGMENT: u64 = 7;
const PATHS: u64 = 8;

/// Credits and times above these are not credible: 2^40 bytes, one hour.
const MAX_WINDOW_BYTES: u64 = 1 << 40;
const MAX_HOLD_US: u64 = 3_600_000_000;

/// The limits of one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// The longest datagram that this side takes, in bytes of UDP payload.
    pub max_datagram_bytes: u16,
    /// Receive credit of each reliable lane at the start, in bytes.
    pub lane_window_bytes: u64,
    /// Receive credit of all reliable lanes together at the start, in bytes.
    pub connection_window_bytes: u64,
    /// How long a receiver should hold later best-effort messages for an earlier one.
    pub hold: Duration,
    /// Whether this side takes repair symbols.
    pub repair: bool,
    /// Whether this side takes a message that is resegmented, into smaller chunks, on its way.
    pub resegment: bool,
    /// How many paths this side keeps at once, the one of the handshake included; 1 where it does not say.
    pub paths: u8,
    /// Opaque bytes of the application, at most [`MAX_APP_PARAMS_BYTES`].
    pub app: Bytes,
}

impl Params {
    /// Appends the parameters.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let integers = [
            (MAX_DATAGRAM, u64::from(self.max_datagram_bytes)),
            (LANE_WINDOW, self.lane_window_bytes),
            (CONNECTION_WINDOW, self.connection_window_bytes),
            (HOLD, u64::try_from(self.hold.as_micros()).unwrap_or(MAX_HOLD_US).min(MAX_HOLD_US)),
        ];
        for (id, value) in integers {
            put_varint(out, id);
            put_varint(out, varint_len(value) as u64);
            put_varint(out, value);
        }
        put_varint(out, APP);
        put_varint(out, self.app.len() as u64);
        out.extend_from_slice(&self.app);
        for (id, named) in [(REPAIR, self.repair), (RESEGMENT, self.resegment)] {
            if named {
                put_varint(out, id);
                put_varint(out, 0);
            }
        }
        if self.paths > 1 {
            out.extend_from_slice(&[PATHS as u8, 1, self.paths]);
        }
    }

    /// Reads parameters; those not named keep the value that a peer may always assume.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut params = Self {
            max_datagram_bytes: BASE_MTU,
            lane_window_bytes: 0,
            connection_window_bytes: 0,
            hold: Duration::ZERO,
            repair: false,
            resegment: false,
            paths: 1,
            app: Bytes::new(),
        };
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let id = reader.varint("params.id")?;
            let mut value = Reader::new(reader.prefixed("params.value")?);
            match id {
                MAX_DATAGRAM => {
                    let bytes = value.varint_max(u64::from(u16::MAX), "params.max_datagram")?;
                    // A peer that takes less than every path must carry cannot be served.
                    params.max_datagram_bytes = u16::try_from(bytes)
                        .ok()
                        .filter(|&bytes| bytes >= MIN_MTU)
                        .ok_or(DecodeError::Invalid("params.max_datagram"))?;
                }
                LANE_WINDOW => {
                    params.lane_window_bytes =
                        value.varint_max(MAX_WINDOW_BYTES, "params.lane_window")?;
                }
                CONNECTION_WINDOW => {
                    params.connection_window_bytes =
                        value.varint_max(MAX_WINDOW_BYTES, "params.connection_window")?;
                }
                HOLD => {
                    params.hold =
                        Duration::from_micros(value.varint_max(MAX_HOLD_US, "params.hold")?);
                }
                // Its presence says it; what later versions may add to it is skipped.
                REPAIR => params.repair = true,
                RESEGMENT => params.resegment = true,
                // More than there are numbers for are none that can be used.
                PATHS => {
                    let most = value.varint("params.paths")?.clamp(1, PathNumber::COUNT as u64);
                    params.paths = most as u8;
                }
                APP => {
                    let len = value.remaining();
                    if len > MAX_APP_PARAMS_BYTES {
                        return Err(DecodeError::Invalid("params.app"));
                    }
                    params.app = Bytes::copy_from_slice(value.bytes(len, "params.app")?);
                }
                _ => {}
            }
        }
        let smallest = params.lane_window_bytes.min(params.connection_window_bytes);
        if smallest < MIN_WINDOW_BYTES {
            return Err(DecodeError::Invalid("params.window"));
        }
        Ok(params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Params {
        Params {
            max_datagram_bytes: 1_452,
            lane_window_bytes: 2 << 20,
            connection_window_bytes: 8 << 20,
            hold: Duration::from_millis(50),
            repair: true,
            resegment: true,
            paths: 4,
            app: Bytes::from_static(b"\x01"),
        }
    }

    // ARQ-PAR-1
    #[test]
    fn round_trip_with_an_unknown_parameter() {
        let mut out = Vec::new();
        put_varint(&mut out, 4_711);
        put_varint(&mut out, 3);
        out.extend_from_slice(b"new");
        sample().encode(&mut out);
        assert_eq!(Params::decode(&out), Ok(sample()));
    }

    // ARQ-FEC-4, ARQ-MSG-6
    #[test]
    fn who_does_not_say_so_takes_no_repair_symbols_and_no_smaller_chunks() {
        for (repair, resegment) in [(false, true), (true, false)] {
            let mut out = Vec::new();
            let params = Params { repair, resegment, ..sample() };
            params.encode(&mut out);
            assert_eq!(Params::decode(&out), Ok(params));
        }
    }

    // ARQ-MP-1
    #[test]
    fn paths_that_cannot_be_numbered_are_none() {
        for (said, understood) in [(0, 1), (1, 1), (2, 2), (4, 4), (5, 4), (1 << 40, 4)] {
            let mut out = Vec::new();
            Params { paths: 1, ..sample() }.encode(&mut out);
            put_varint(&mut out, PATHS);
            put_varint(&mut out, varint_len(said) as u64);
            put_varint(&mut out, said);
            assert_eq!(Params::decode(&out).map(|params| params.paths), Ok(understood), "{said}");
        }
    }

    // ARQ-PAR-2
    #[test]
    fn absurd_values_are_refused() {
        let mut out = Vec::new();
        Params { max_datagram_bytes: 100, ..sample() }.encode(&mut out);
        assert_eq!(Params::decode(&out), Err(DecodeError::Invalid("params.max_datagram")));
        let mut out = Vec::new();
        Params { lane_window_bytes: 65_535, ..sample() }.encode(&mut out);
        assert_eq!(Params::decode(&out), Err(DecodeError::Invalid("params.window")));
        let mut out = Vec::new();
        Params { app: Bytes::from(vec![0; 65]), ..sample() }.encode(&mut out);
        assert_eq!(Params::decode(&out), Err(DecodeError::Invalid("params.app")));
    }
}
