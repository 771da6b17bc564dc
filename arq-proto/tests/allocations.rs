// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Does anything allocate for each packet, once a connection has run for a while?
//!
//! Two connections exchange messages of many packets without a network between them; the allocator counts. One test
//! in a binary of its own, so nobody else allocates meanwhile.

#[path = "common/direct.rs"]
mod direct;

use bytes::Bytes;
use direct::Link;

const MESSAGE_BYTES: usize = 65_535;
const WARM_UP: u32 = 200;
const MESSAGES: u32 = 200;

#[test]
fn no_packet_allocates_in_steady_state() {
    let message = Bytes::from(vec![7; MESSAGE_BYTES]);
    // A message has some of its own, at both ends; its packets have none.
    for (lose, most_per_message) in [(None, 8.0), (Some(10), 16.0)] {
        let mut link = Link::new();
        link.lose = lose;
        (0..WARM_UP).for_each(|_| link.deliver(&message));
        let before = link.datagrams;
        let counted = allocation_counter::measure(|| {
            (0..MESSAGES).for_each(|_| link.deliver(&message));
        });
        let per_message = counted.count_total as f64 / f64::from(MESSAGES);
        let datagrams = (link.datagrams - before) as f64 / f64::from(MESSAGES);
        println!("lost: one of {lose:?}: {per_message:.2} allocations for the {datagrams:.0} datagrams of a message");
        assert!(per_message <= most_per_message, "{lose:?}: {per_message}");
    }
}
