// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What does each message carry so that its latency can be told where it arrives?

use std::time::Duration;

use nix::time::{clock_gettime, ClockId};

/// The bytes of a stamp: number and intended departure.
pub(super) const LENGTH: usize = 16;

/// The time that all processes of one machine share.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

/// Writes the stamp over the first bytes of a payload, which must have that many.
pub(super) fn write(payload: &mut [u8], sequence: u64, intended_ns: u64) {
    payload[..8].copy_from_slice(&sequence.to_be_bytes());
    payload[8..LENGTH].copy_from_slice(&intended_ns.to_be_bytes());
}

/// Reads sequence and intended departure; `None` when the payload is too short to be ours.
pub(super) fn read(payload: &[u8]) -> Option<(u64, u64)> {
    let sequence = payload.first_chunk::<8>()?;
    let intended = payload.get(8..)?.first_chunk::<8>()?;
    Some((u64::from_be_bytes(*sequence), u64::from_be_bytes(*intended)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stamped_is_read() {
        let mut payload = [7; LENGTH + 1];
        write(&mut payload, 3, u64::MAX);
        assert_eq!(read(&payload), Some((3, u64::MAX)));
        assert_eq!(read(&payload[..LENGTH - 1]), None);
    }

    #[test]
    fn the_clock_runs() {
        let before = now_ns();
        assert!(before > 0);
        assert!(now_ns() >= before);
    }
}
