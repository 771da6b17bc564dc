// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A relay that is always faster than the path, on the way to the server, to the client, or both.

use std::{net::SocketAddr, time::Duration};

use arq_sim::{Datagram, Forged, Pair, Scenario, Verdict};

use super::{check, sealed};
use crate::{
    common::{lossy, seeds, MS},
    stranger,
};

/// Copies what goes to `victims` from an address of his own, a millisecond after it has left, and passes on what comes
/// there.
fn race(pair: &mut Pair, victims: Vec<SocketAddr>) {
    let ends = [pair.world.address(pair.client), pair.world.address(pair.server)];
    let own = move |victim: SocketAddr| stranger(if victim == ends[0] { 8 } else { 9 });
    pair.world.set_tap(move |_: Duration, datagram: &Datagram, forged: &mut Vec<Forged>| {
        let Datagram { from, to, bytes, .. } = datagram.clone();
        let bytes = bytes.to_vec();
        if victims.contains(&to) {
            forged.push(Forged { from: own(to), to, after: MS, bytes });
        } else if victims.contains(&from) && to == own(from) {
            // To his victim he is the other end; to that one he says to be the victim.
            let other = if from == ends[0] { ends[1] } else { ends[0] };
            forged.push(Forged { from, to: other, after: MS, bytes });
        }
        Verdict::Pass
    });
}

// ARQ-PTH-8
#[test]
fn moves_no_end() {
    for seed in seeds(3) {
        for (name, client, server) in
            [("to the server", false, true), ("to the client", true, false), ("both", true, true)]
        {
            // Who relays the first HELLO of all is a hop of the path, and may stay one.
            let mut pair = Pair::new(&Scenario { up: lossy(0.05), ..sealed(seed) });
            let ends = [(client, pair.client), (server, pair.server)];
            let victims = ends.into_iter().filter(|(is_one, _)| *is_one);
            let victims = victims.map(|(_, host)| pair.world.address(host)).collect();
            race(&mut pair, victims);
            let accepted = check(&mut pair, name, seed);
            // He was asked, and answered by who he copies: there was something to be followed.
            for (is_victim, id) in [(client, pair.conn), (server, accepted)] {
                let host = id.host;
                let own = stranger(if host == pair.client { 8 } else { 9 });
                let sent = pair.world.exchanged(host, own).sent_bytes;
                assert_eq!(sent > 0, is_victim, "{name}, seed {seed}: {sent} bytes to him");
            }
        }
    }
}
