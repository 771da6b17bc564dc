// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which sources are answered, and which get a connection, when there is not enough for all?
//!
//! A source gets no more than a multiple of what it leaves to others: switches share their memory among ports by the same
//! rule (Choudhury and Hahne, "Dynamic queue length thresholds", 1998). A source that takes all it can get still leaves
//! room, however many others there are. A source is a prefix, since whoever has one address mostly has its network.

use std::{
    collections::BTreeMap,
    hash::Hasher,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use siphasher::sip128::{Hasher128, SipHasher24};

/// The time over which answers are counted. A client repeats its HELLO within it (ARQ-HS-1).
const WINDOW: Duration = Duration::from_millis(250);
/// Counters of a window. A keyed hash gives each source one, so that nobody can choose to share a victim's.
const SLOTS: usize = 256;
/// Bytes sent to an address that has not answered, per byte received from it (RFC 9000 §8.1).
pub(crate) const MAX_AMPLIFICATION: u64 = 3;
/// Places that a source may hold for each free one.
const HELD_FOR_EACH_FREE: usize = 3;
/// Places that a source may hold in any case, while any is free.
const FEW: usize = 16;

/// The network that an address belongs to: an IPv4 /24, or an IPv6 /48, which is what sites are given (RFC 6177).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Prefix([u8; 6]);

impl Prefix {
    pub(crate) fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => {
                let [a, b, c, _] = ip.octets();
                // No IPv6 address of a host begins like this.
                Self([0, 0, 4, a, b, c])
            }
            IpAddr::V6(ip) => {
                let [a, b, c, d, e, f, ..] = ip.octets();
                Self([a, b, c, d, e, f])
            }
        }
    }
}

/// Limits the answers to sources whose address is not validated yet.
#[derive(Debug)]
pub(crate) struct Answers {
    /// Answers in a window, at most.
    most: u16,
    left: u16,
    since: Instant,
    key: [u8; 16],
    /// Answers of each slot. Empty as long as nobody was answered.
    given: Vec<u16>,
}

impl Answers {
    /// Gives `most` answers in 250 ms.
    pub(crate) fn new(most: u16, key: [u8; 16], now: Instant) -> Self {
        Self { most, left: most, since: now, key, given: Vec::new() }
    }

    /// Whether `ip` is answered now: a source gets at most as many answers as it leaves to others.
    pub(crate) fn take(&mut self, now: Instant, ip: IpAddr) -> bool {
        if now.saturating_duration_since(self.since) >= WINDOW || self.given.is_empty() {
            (self.left, self.since) = (self.most, now);
            self.given.clear();
            self.given.resize(SLOTS, 0);
        }
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(&Prefix::of(ip).0);
        let slot = hasher.finish128().as_u128() as usize % SLOTS;
        let Some(given) = self.given.get_mut(slot).filter(|given| **given < self.left) else {
            return false;
        };
        *given += 1;
        self.left -= 1;
        true
    }
}

/// Accepted connections, by their source.
#[derive(Debug, Default)]
pub(crate) struct Places(BTreeMap<Prefix, usize>);

impl Places {
    /// Whether `ip` may have another of `free` places, and its source no more than `most`.
    pub(crate) fn has_room(&self, ip: IpAddr, free: usize, most: usize) -> bool {
        let held = self.0.get(&Prefix::of(ip)).copied().unwrap_or(0);
        free > 0 && held < most && held < FEW.max(free.saturating_mul(HELD_FOR_EACH_FREE))
    }

    pub(crate) fn take(&mut self, ip: IpAddr) {
        *self.0.entry(Prefix::of(ip)).or_default() += 1;
    }

    pub(crate) fn give_back(&mut self, ip: IpAddr) {
        let prefix = Prefix::of(ip);
        let Some(held) = self.0.get_mut(&prefix) else { return };
        *held -= 1;
        if *held == 0 {
            self.0.remove(&prefix);
        }
    }
}

/// Handshakes at once, by their source.
#[derive(Debug)]
pub(crate) struct Seats {
    most: usize,
    all: Arc<()>,
    sources: BTreeMap<Prefix, Arc<()>>,
}

/// The place of a handshake. Dropped, it is given back.
#[derive(Debug)]
pub(crate) struct Seat {
    _all: Arc<()>,
    _source: Arc<()>,
}

impl Seats {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, all: Arc::new(()), sources: BTreeMap::new() }
    }

    /// A seat, by the rule of [`Places`].
    pub(crate) fn take(&mut self, ip: IpAddr) -> Option<Seat> {
        let free = self.most.saturating_sub(Self::held(&self.all));
        if free == 0 {
            return None;
        }
        if self.sources.len() > self.most {
            self.sources.retain(|_, source| Self::held(source) > 0);
        }
        let source = self.sources.entry(Prefix::of(ip)).or_default();
        let has_room = Self::held(source) < FEW.max(free.saturating_mul(HELD_FOR_EACH_FREE));
        has_room.then(|| Seat { _all: self.all.clone(), _source: source.clone() })
    }

    /// Holders of a place: each has a clone of the owner's `Arc`.
    fn held(owner: &Arc<()>) -> usize {
        Arc::strong_count(owner) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ARQ-ADM-1
    #[test]
    fn a_seat_is_free_again_when_it_is_dropped_and_one_network_gets_not_all() {
        let mut seats = Seats::new(64);
        let one: Vec<_> = (0..100).map_while(|n| seats.take(host(1, n))).collect();
        assert!(one.len() < 64, "{}", one.len());
        let others: Vec<_> = (2..200).map_while(|n| seats.take(host(n, 1))).collect();
        assert_eq!(one.len() + others.len(), 64);
        assert!(seats.take(host(201, 1)).is_none());
        drop(one);
        assert!(seats.take(host(201, 1)).is_some());
        drop(others);
        (0..1_000).for_each(|n| assert!(seats.take(host(n, 1)).is_some()));
        assert!(seats.sources.len() <= 65, "whoever asks");
    }

    fn host(network: u16, host: u8) -> IpAddr {
        let [high, low] = network.to_be_bytes();
        [10, high, low, host].into()
    }

    // ARQ-AMP-2
    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn one_network_gets_half_of_the_answers_and_all_others_the_rest() {
        let now = Instant::now();
        let mut answers = Answers::new(1_000, [7; 16], now);
        let given = (0..10_000_u32).filter(|n| answers.take(now, host(1, *n as u8))).count();
        assert_eq!(given, 500);
        // As many strangers as are left over, but for those who share its slot.
        let given = (2..502).filter(|n| answers.take(now, host(*n, 1))).count();
        assert!(given > 450, "{given}");
        let after = now + WINDOW;
        assert!(answers.take(after, host(1, 1)), "a new window");
        assert!(answers.given.len() <= SLOTS, "whoever asks");
    }

    // ARQ-AMP-2
    #[test]
    fn a_source_that_takes_all_places_leaves_some() {
        let mut places = Places::default();
        let (most, mut total) = (4_096, 0);
        for network in [1, 2, 3] {
            while places.has_room(host(network, 1), most - total, most) {
                places.take(host(network, 1));
                total += 1;
            }
            assert!(total < most && places.has_room(host(9, 1), most - total, most), "{network}");
        }
        assert!(total > most / 2, "{total}");
        for network in [1, 2, 3] {
            while places.0.contains_key(&Prefix::of(host(network, 1))) {
                places.give_back(host(network, 2));
            }
        }
        assert_eq!(places.0.len(), 0, "nothing is left of who is gone");
        let few = (0..FEW).all(|held| {
            let has_room = places.has_room(host(1, 1), FEW - held, FEW);
            places.take(host(1, 1));
            has_room
        });
        assert!(few && !places.has_room(host(1, 1), 0, most), "few have no rule but room");
        assert!(!places.has_room(host(1, 1), 9, FEW) && places.has_room(host(2, 1), 9, FEW));
    }

    #[test]
    fn networks_are_told_apart() {
        let of = |ip: &str| Prefix::of(ip.parse().unwrap());
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.200"));
        assert_ne!(of("192.0.2.1"), of("192.0.3.1"));
        assert_eq!(of("2001:db8:1::1"), of("2001:db8:1:ffff::2"));
        assert_ne!(of("2001:db8:1::1"), of("2001:db8:2::1"));
    }
}
