// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! HELLOs as they were seen, under other ids: does who has a place lose it to one who never comes?

use std::cell::RefCell;

use arq_proto::wire::packet::PacketKind;
use arq_sim::{hostile, Datagram, Forged, Pair};

use super::{ahead, check, play, sealed, Forger, STRANGER};
use crate::common::seeds;

/// Each so many sealed packets of the client's there is a newcomer: one is asked about in a second.
const INTERVAL: usize = 20;

/// Says HELLO again as another client of the same address, once the true one is open.
fn newcomers() -> impl Fn(&mut Forger, &Datagram, PacketKind) -> Vec<Forged> {
    let hello = RefCell::new(None);
    let packets = RefCell::new(0_usize);
    move |forger, datagram, kind| {
        let mut hello = hello.borrow_mut();
        match (kind, &*hello) {
            (PacketKind::Hello, _) => *hello = Some(datagram.clone()),
            (PacketKind::Sealed, Some(hello)) if hello.to == datagram.to => {
                *packets.borrow_mut() += 1;
                if packets.borrow().is_multiple_of(INTERVAL) {
                    let mut bytes = hello.bytes.to_vec();
                    bytes[1..9].copy_from_slice(&forger.rng.u64(..).to_be_bytes());
                    return ahead(datagram, hostile::resealed(&bytes));
                }
            }
            _ => {}
        }
        Vec::new()
    }
}

// ARQ-RPL-1, ARQ-SUS-1, ARQ-SUS-4
#[test]
fn has_the_one_that_lives_asked_and_ends_nothing() {
    for from in [None, STRANGER] {
        for seed in seeds(3) {
            let mut pair = Pair::new(&sealed(seed));
            let said = play(&mut pair, newcomers(), from.map(Into::into), seed);
            let accepted = check(&mut pair, &format!("newcomers, from {from:?}"), seed);
            assert!(said.get() >= 3, "{from:?}, seed {seed}: {} newcomers", said.get());
            let strangers = pair.world.accepted(pair.server).len() - 1;
            assert!(strangers >= 3, "{from:?}, seed {seed}: {strangers} got an answer");
            let asked = pair.world.conn(accepted).connection().stats().suspicions;
            // Of another address it is no news about this one.
            assert_eq!(asked > 0, from.is_none(), "{from:?}, seed {seed}: asked {asked} times");
        }
    }
}
