// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Who is told that nothing is to be sent asks no more until something happens: a datagram, a timer, the application.

#[path = "common/direct.rs"]
mod direct;

use bytes::Bytes;
use direct::Link;

/// Where so much is lost, bursts leave packet by packet now and then, all of the length of the first. What follows a
/// short one may be longer.
#[test]
fn what_is_to_be_sent_is_not_denied() {
    let message = |number: usize| Bytes::from(vec![7; 20_000 + 997 * number]);
    let messages: Vec<_> = (0..8).map(message).collect();
    for lose in 5..15 {
        let mut link = Link::new();
        link.lose = Some(lose);
        (0..200).for_each(|_| link.deliver_all(&messages));
    }
}
