// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What a peer tells of itself in the handshake, which may be anything.

use arbitrary::Arbitrary;
use arq_proto::{
    wire::{flight::Terms, Version},
    ConnectionId,
};
use bytes::Bytes;

use super::super::{operations::Limits, paths::params};

/// What the peer tells.
#[derive(Debug, Clone, Arbitrary)]
pub(super) enum TermsOp {
    /// What is true.
    Honest,
    /// Other limits.
    Limits(Limits),
    /// Other ids, each with some bits changed, or none.
    Ids(Option<u8>, Option<u8>),
    /// Versions.
    Versions(Vec<u32>),
    /// More than there should be.
    Appended(Vec<u8>),
    /// What an application says.
    App(Vec<u8>),
    /// Any bytes.
    Bytes(Vec<u8>),
}

impl TermsOp {
    /// As bytes, of the side with this id.
    pub(super) fn encoded(
        &self,
        is_client: bool,
        own: ConnectionId,
        peer: ConnectionId,
    ) -> Vec<u8> {
        let (client, server) = if is_client { (own, None) } else { (peer, Some(own)) };
        let mut terms = Terms {
            params: params(),
            client: Some(client),
            server,
            versions: vec![Version::Sealed.number()],
        };
        match self {
            Self::Honest | Self::Appended(_) => {}
            Self::Limits(limits) => terms.params = limits.params(),
            Self::Ids(client, server) => {
                let changed = |id: Option<ConnectionId>, bits: Option<u8>| {
                    bits.map(|bits| ConnectionId(id.unwrap_or(own).0 ^ u64::from(bits)))
                };
                terms.client = changed(terms.client, *client);
                terms.server = changed(terms.server, *server);
            }
            Self::Versions(versions) => terms.versions.clone_from(versions),
            Self::App(app) => terms.params.app = Bytes::copy_from_slice(app),
            Self::Bytes(bytes) => return bytes.clone(),
        }
        let mut out = terms.encoded();
        if let Self::Appended(more) = self {
            out.extend_from_slice(more);
        }
        out
    }
}
