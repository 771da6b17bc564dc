// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What has arrived, and when is it acknowledged?

use std::{net::SocketAddr, time::Duration};

use super::PAYLOAD_BYTES;
use crate::Guest;

const DATA: u8 = 0;
const ACK: u8 = 1;
/// What an acknowledgement names at most.
const MAX_RANGES: usize = 32;
/// Packets that one acknowledgement answers, if they come one by one.
const ACK_EVERY: u64 = 2;
/// How long an acknowledgement waits for a second packet.
const ACK_DELAY: Duration = Duration::from_millis(25);

/// The receiving side.
#[derive(Debug, Default)]
pub struct Receiver {
    peer: Option<SocketAddr>,
    /// Numbers that have arrived, first and last, the lowest first.
    ranges: Vec<(u64, u64)>,
    delivered: u64,
    unacknowledged: u64,
    ack_at: Option<Duration>,
}

impl Receiver {
    /// Notes a number; returns whether it is the next one.
    fn insert(&mut self, number: u64) -> bool {
        let index = self.ranges.partition_point(|&(_, last)| last + 1 < number);
        match self.ranges.get_mut(index) {
            Some((first, last)) if *first <= number && number <= *last => return true,
            Some((_, last)) if *last + 1 == number => *last = number,
            Some((first, _)) if *first == number + 1 => *first = number,
            _ => self.ranges.insert(index, (number, number)),
        }
        self.delivered += 1;
        if self.ranges.len() > MAX_RANGES {
            self.ranges.remove(0);
        }
        index + 1 >= self.ranges.len() && self.ranges.last().is_some_and(|r| r.0 < number)
    }
}

impl Guest for Receiver {
    fn handle_datagram(&mut self, now: Duration, from: SocketAddr, bytes: &[u8]) {
        let Some((&DATA, rest)) = bytes.split_first() else { return };
        let Some(number) = number(rest) else { return };
        self.peer = Some(from);
        let in_order = self.insert(number);
        self.unacknowledged += 1;
        let at = if in_order { now + ACK_DELAY } else { now };
        self.ack_at = Some(self.ack_at.map_or(at, |earlier| earlier.min(at)));
    }

    fn poll_transmit(&mut self, now: Duration) -> Option<(SocketAddr, Vec<u8>)> {
        let is_due = self.ack_at.is_some_and(|at| at <= now) || self.unacknowledged >= ACK_EVERY;
        if !is_due {
            return None;
        }
        (self.unacknowledged, self.ack_at) = (0, None);
        let mut bytes = vec![ACK];
        for (first, last) in self.ranges.iter().rev() {
            bytes.extend(first.to_le_bytes());
            bytes.extend(last.to_le_bytes());
        }
        Some((self.peer?, bytes))
    }

    fn poll_timeout(&self) -> Option<Duration> {
        self.ack_at
    }

    fn delivered_bytes(&self) -> u64 {
        self.delivered * PAYLOAD_BYTES
    }
}

/// The packet with this number.
pub(super) fn data(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    bytes[0] = DATA;
    bytes[1..9].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The numbers that an acknowledgement names, first and last, the highest first.
pub(super) fn ranges(bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> + '_ {
    let ranges = bytes.strip_prefix(&[ACK]).unwrap_or_default();
    ranges.chunks_exact(16).filter_map(|range| number(range).zip(number(&range[8..])))
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_ranges() {
        let mut receiver = Receiver::default();
        let in_order: Vec<_> = [0, 1, 3, 2, 7, 8, 8].map(|n| receiver.insert(n)).to_vec();
        assert_eq!(in_order, [false, true, false, false, false, true, true]);
        assert_eq!((receiver.delivered, receiver.ranges.len()), (6, 3));
        let address = SocketAddr::from(([10, 0, 0, 1], 1));
        receiver.handle_datagram(Duration::ZERO, address, &data(9, 20));
        assert!(receiver.poll_transmit(Duration::ZERO).is_none(), "one alone waits");
        let (_, ack) = receiver.poll_transmit(ACK_DELAY).unwrap();
        assert_eq!(ranges(&ack).next(), Some((7, 9)));
    }
}
