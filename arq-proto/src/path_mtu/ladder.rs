// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which sizes are worth asking about? Those of real networks, as UDP payload (RFC 8899 §5.3.2).
//!
//! Paths have few sizes, and each question that goes wrong costs several lost packets: bisecting to the
//! byte would ask ten times for what a table knows.

use crate::config::MAX_MTU_IPV6;

/// Ascending. In brackets the IP packet, by the version of IP; what is below the least MTU of IPv6 has no usual sizes.
const SIZES: [u16; 28] = [
    672,
    772,
    872,
    972,    // 700 to 1,000 over IPv4
    1_072,  // 1,100
    1_096,  // 1,124
    1_172,  // 1,200
    1_232,  // the least MTU of IPv6 (1,280)
    1_252,  // the same over IPv4
    1_332,  // several tunnels in each other
    1_372,  // WireGuard over IPv6 (1,420), 1,400 over IPv4
    1_392,  // WireGuard over IPv4 (1,420)
    1_412,  // GRE and IPsec (1,440)
    1_432,  // a tunnel of 20 bytes over IPv6 (1,480), 1,460 over IPv4
    1_444,  // PPPoE over IPv6 (1,492)
    1_452,  // Ethernet over IPv6 (1,500), 1,480 over IPv4
    1_464,  // PPPoE over IPv4 (1,492)
    1_472,  // Ethernet over IPv4 (1,500)
    2_276,  // 802.11 (2,304)
    4_052,  // half a jumbo frame (4,080)
    4_324,  // FDDI (4,352)
    7_952,  // 8,000 over IPv6
    8_868,  // a large cloud (8,896)
    8_922,  // VXLAN in jumbo frames (8,950)
    8_952,  // jumbo frames over IPv6 (9,000)
    8_972,  // jumbo frames over IPv4 (9,000)
    16_356, // 16,384
    MAX_MTU_IPV6,
];

/// The sizes above `low` and up to `high`, which is one itself, ascending.
pub(super) fn between(low: u16, high: u16) -> impl Iterator<Item = u16> {
    let known = SIZES.into_iter().filter(move |&size| low < size && size < high);
    known.chain((high > low).then_some(high))
}

/// The largest size below `high`.
pub(super) fn below(high: u16) -> Option<u16> {
    SIZES.into_iter().rev().find(|&size| size < high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceiling_is_always_a_candidate() {
        let sizes = |low, high| between(low, high).collect::<Vec<_>>();
        assert_eq!(sizes(1_200, 1_300), [1_232, 1_252, 1_300]);
        assert_eq!(sizes(1_464, 1_472), [1_472]);
        assert!(sizes(1_472, 1_472).is_empty());
        assert_eq!((below(1_200), below(672)), (Some(1_172), None));
        assert!(SIZES.is_sorted());
    }
}
