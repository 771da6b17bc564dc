// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The connection ids of all paths, which both sides compute: nothing that leaves on one path tells of another.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use crate::units::{ConnectionId, PathNumber};

/// What a secret of an association is called that path ids are computed from.
pub(super) type Key = [u8; 16];

/// The ids of an association's paths.
#[derive(Debug)]
pub(super) struct Ids {
    /// What this side calls itself on each path, and the peer.
    pub(super) local: [ConnectionId; PathNumber::COUNT],
    pub(super) remote: [ConnectionId; PathNumber::COUNT],
}

impl Ids {
    /// `first`: what this side and the peer call themselves on the first path. `is_client`: this side has dialled.
    pub(super) fn new(key: &Key, is_client: bool, first: (ConnectionId, ConnectionId)) -> Self {
        let of = |is_client: bool, first: ConnectionId| {
            let mut ids = [first; PathNumber::COUNT];
            for path in PathNumber::all().skip(1) {
                ids[path.index()] = id(key, is_client, path);
            }
            ids
        };
        Self { local: of(is_client, first.0), remote: of(!is_client, first.1) }
    }

    /// The path of packets that name this id of ours.
    pub(super) fn path_of(&self, local: ConnectionId) -> Option<PathNumber> {
        PathNumber::all().find(|path| self.local[path.index()] == local)
    }

    /// The path of packets that name this id of the peer's.
    pub(super) fn path_to(&self, remote: ConnectionId) -> Option<PathNumber> {
        PathNumber::all().find(|path| self.remote[path.index()] == remote)
    }
}

/// Where packets are not sealed there is no secret: who sees one reads them all. The ids of the first path are as hard to
/// guess for everybody else.
pub(super) fn clear_key(client: ConnectionId, server: ConnectionId) -> Key {
    let mut key = Key::default();
    key[..8].copy_from_slice(&client.0.to_be_bytes());
    key[8..].copy_from_slice(&server.0.to_be_bytes());
    key
}

fn id(key: &Key, is_client: bool, path: PathNumber) -> ConnectionId {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(&[if is_client { b'c' } else { b's' }, path.0]);
    ConnectionId(hasher.finish())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    // ARQ-MP-2
    #[test]
    fn both_sides_compute_the_same_ids_and_no_two_are_equal() {
        let (client, server) = (ConnectionId(1), ConnectionId(2));
        let key = clear_key(client, server);
        let at_client = Ids::new(&key, true, (client, server));
        let at_server = Ids::new(&key, false, (server, client));
        assert_eq!((at_client.local, at_client.remote), (at_server.remote, at_server.local));
        let ids: BTreeSet<_> = at_client.local.iter().chain(&at_client.remote).collect();
        assert_eq!(ids.len(), 2 * PathNumber::COUNT);
        for path in PathNumber::all() {
            assert_eq!(at_client.path_of(at_client.local[path.index()]), Some(path));
            assert_eq!(at_client.path_to(at_client.local[path.index()]), None);
        }
    }

    /// Another program has computed these, which knows the document alone.
    // ARQ-MP-2
    #[test]
    fn the_ids_are_those_of_the_examples() {
        let text = include_str!("../../../../docs/protocol-examples.txt");
        let (_, table) = text.split_once("| key | receiver | path | id |").unwrap();
        let rows = table.lines().filter(|line| line.starts_with("| `"));
        let number = |cell: &str| u128::from_str_radix(cell.trim_matches('`'), 16).unwrap();
        let mut count = 0;
        for row in rows {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [key, receiver, path, expected] = cells[..] else { panic!("{row}") };
            let (client, server) = ((number(key) >> 64) as u64, number(key) as u64);
            let key = clear_key(ConnectionId(client), ConnectionId(server));
            let found = id(&key, receiver == "c", PathNumber(number(path) as u8));
            assert_eq!(u128::from(found.0), number(expected), "{row}");
            count += 1;
        }
        assert_eq!(count, 8);
    }
}
