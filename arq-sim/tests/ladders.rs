// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What goes over the wire in the scenes that every reader asks about? The ladders are kept in git,
//! so that one packet more or less shows in the diff. `ARQ_UPDATE_SNAPSHOTS=1` writes them anew.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{fmt::Write as _, fs, path::Path, time::Duration};

use arq_sim::{Datagram, Flow, Forged, Pair, Scenario, Verdict};

const MS: Duration = Duration::from_millis(1);
const SEC: Duration = Duration::from_secs(1);

/// A connection on which both sides have measured the round trip, and have seen so many packets
/// arrive that they do not expect losses.
fn warm() -> Pair {
    let mut pair =
        Pair::new(&Scenario::new(1).both_send([Flow::reliable(6, 100, 400).every(10 * MS)]));
    pair.run_to_delivery(5 * SEC).unwrap();
    pair.world.run_for(100 * MS).unwrap();
    pair
}

fn send(pair: &mut Pair, bytes: usize) {
    let id = pair.conn;
    pair.world.with_conn(id, |clock, _, app| {
        app.add_flow(clock.offset(), Flow::reliable(5, bytes, 1));
    });
}

/// Takes away the `nth` datagram (from 0) that the client sends from now on.
fn withhold(pair: &mut Pair, nth: usize) {
    let client = pair.world.address(pair.client);
    let mut count = 0;
    pair.world.set_tap(move |_: Duration, seen: &Datagram, _: &mut Vec<Forged>| {
        count += usize::from(seen.from == client);
        if seen.from == client && count == nth + 1 {
            Verdict::Withhold
        } else {
            Verdict::Pass
        }
    });
}

fn handshake() -> String {
    let mut pair = Pair::new(&Scenario::new(1).client_sends([Flow::reliable(5, 100, 1)]));
    pair.run_to_delivery(SEC).unwrap();
    pair.world.run_for(100 * MS).unwrap();
    pair.world.log().ladder(20)
}

/// What a scene adds to a warm connection.
fn scene(lost: Option<usize>, act: impl FnOnce(&mut Pair)) -> String {
    let mut pair = warm();
    let before = pair.world.log().total();
    if let Some(nth) = lost {
        withhold(&mut pair, nth);
    }
    act(&mut pair);
    pair.world.run_for(200 * MS).unwrap();
    let lines = pair.world.log().total() - before;
    pair.world.log().ladder(usize::try_from(lines).unwrap())
}

fn render() -> String {
    let scenes = [
        ("Handshake and a first message of 100 bytes", handshake()),
        ("A message of 5,000 bytes", scene(None, |pair| send(pair, 5_000))),
        ("The same without its third packet", scene(Some(2), |pair| send(pair, 5_000))),
        ("The same without its last packet", scene(Some(4), |pair| send(pair, 5_000))),
        (
            "Orderly close",
            scene(None, |pair| {
                let id = pair.conn;
                pair.world.with_conn(id, |clock, connection, _| connection.finish(clock.now()));
            }),
        ),
        (
            "A listener that was restarted",
            scene(None, |pair| {
                let server = pair.server;
                pair.world.restart(server);
                send(pair, 100);
            }),
        ),
    ];
    let mut out = String::from(
        "# Packet ladders, simulated\n\n10 ms one way, no faults but those named. Written by \
         `ARQ_UPDATE_SNAPSHOTS=1 cargo test -p arq-sim --test ladders`.\n",
    );
    for (title, ladder) in scenes {
        write!(out, "\n## {title}\n\n```text\n{ladder}```\n").unwrap();
    }
    out
}

#[test]
fn the_ladders_are_as_they_were() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/ladders.md");
    let now = render();
    if std::env::var_os("ARQ_UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, &now).unwrap();
        return;
    }
    let before = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        before == now,
        "the ladders have changed; if that is meant to be, run with ARQ_UPDATE_SNAPSHOTS=1\n{now}"
    );
}
