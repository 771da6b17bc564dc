// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Frames of paths from a peer that does as it likes.

use arq_proto::{
    wire::{
        ack::Ack,
        frame::{Frame, PathUse},
        params::Params,
    },
    Config, ConnectionError, EcnCounts, PathNumber, Violation,
};
use smallvec::smallvec;

use crate::client::{params, Client};

/// A client of a server that keeps so many paths.
fn client(paths: u8) -> Client {
    let config = Config { paths: 4, ..Config::default() }.validate().unwrap();
    Client::of_server(config, Params { paths, ..params() })
}

fn path_ack(path: u8, largest: u64) -> Frame<'static> {
    let ack = Ack { delay_us: 0, ranges: smallvec![(largest, largest)], ecn: None };
    Frame::PathAck { path: PathNumber(path), ack }
}

fn path_state(path: u8, sequence: u64, wish: PathUse) -> Frame<'static> {
    Frame::PathState { path: PathNumber(path), sequence, wish }
}

// ARQ-MP-1, ARQ-MP-4
#[test]
fn frames_of_paths_end_an_association_that_has_one() {
    for frame in [path_ack(1, 0), path_state(1, 1, PathUse::Paused)] {
        let mut alone = client(1);
        alone.say(&frame);
        let error = alone.error().unwrap().to_string();
        assert!(error.contains("frame.kind"), "{error}");
    }
}

// ARQ-MP-4
#[test]
fn what_was_never_sent_on_a_path_cannot_be_acknowledged() {
    for (path, largest) in [(1, 0), (3, 7), (0, 0)] {
        let mut client = client(4);
        client.say(&path_ack(path, largest));
        assert!(matches!(client.error(), Some(ConnectionError::Violation(_))), "{path}, {largest}");
    }
    let mut client = client(4);
    client.say(&path_ack(2, 1 << 40));
    assert_eq!(client.error(), Some(&ConnectionError::Violation(Violation::AckOfUnsent)));
}

/// The largest number of a path is 3. What names another one says so.
// ARQ-MP-1, ARQ-MP-4, ARQ-MP-8
#[test]
fn a_frame_about_a_path_that_cannot_be_is_malformed() {
    for path in [4, 5, 63, 64, 255] {
        let ack = Ack { delay_us: 0, ranges: smallvec![(0, 0)], ecn: Some(EcnCounts::NONE) };
        let counted = Frame::PathAck { path: PathNumber(path), ack };
        for frame in [path_ack(path, 0), counted, path_state(path, 1, PathUse::Paused)] {
            let mut client = client(4);
            client.say(&frame);
            let error = client.error().unwrap().to_string();
            assert!(error.contains("path.number"), "{path}: {error}");
        }
    }
}

// ARQ-MP-8
#[test]
fn a_storm_of_wishes_changes_little_and_ends_nothing() {
    let mut client = client(4);
    let before = client.connection.stats();
    for n in 0..10_000_u64 {
        let wishes = [PathUse::Paused, PathUse::Available, PathUse::Backup, PathUse::Control];
        let wish = wishes[n as usize % 4];
        // The path of the handshake, one that is not there, and one told out of order.
        client.say(&path_state(0, n + 1, wish));
        client.say(&path_state(3, n + 1, wish));
        client.say(&path_state(0, n / 2, wish));
    }
    assert_eq!(client.error(), None);
    let sent = client.connection.stats().packets_sent - before.packets_sent;
    assert!(sent <= 70_000, "an acknowledgement for each packet, and a ping: {sent}");
    assert_eq!(client.connection.paths().count(), 1);
}
