// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The keys of rustls as those of the core.

use std::fmt;

use arq_proto::session::{
    DirectionKeys, HeaderKey, KeyChange, Keys, PacketKey, Updates, SAMPLE_BYTES, TAG_BYTES,
};
use rustls::quic;

pub(crate) fn key_change(change: quic::KeyChange) -> KeyChange {
    match change {
        quic::KeyChange::Handshake { keys } => KeyChange::Handshake(self::keys(keys)),
        quic::KeyChange::OneRtt { keys, next } => KeyChange::Application {
            keys: self::keys(keys),
            updates: Box::new(TrafficSecrets(next)),
        },
    }
}

fn keys(keys: quic::Keys) -> Keys {
    let direction = |keys: quic::DirectionalKeys| DirectionKeys {
        packet: packet(keys.packet),
        header: Box::new(NumberMask(keys.header)),
    };
    Keys { local: direction(keys.local), remote: direction(keys.remote) }
}

fn packet(key: Box<dyn quic::PacketKey>) -> Box<dyn PacketKey> {
    Box::new(Aead(key))
}

/// Secrets do not belong into logs.
macro_rules! without_its_secret {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )*};
}

without_its_secret!(Aead, NumberMask, TrafficSecrets);

struct TrafficSecrets(quic::Secrets);

impl Updates for TrafficSecrets {
    fn next(&mut self) -> (Box<dyn PacketKey>, Box<dyn PacketKey>) {
        let next = self.0.next_packet_keys();
        (packet(next.local), packet(next.remote))
    }
}

struct Aead(Box<dyn quic::PacketKey>);

impl PacketKey for Aead {
    fn seal(&self, path: u32, number: u64, header: &[u8], payload: &mut [u8]) -> [u8; TAG_BYTES] {
        let tag = self.0.encrypt_in_place_for_path(path, number, header, payload).ok();
        tag.and_then(|tag| tag.as_ref().try_into().ok()).unwrap_or_else(|| {
            // The AEAD refuses only what is longer than any packet: that is lost, and does not leave readable.
            payload.fill(0);
            [0; TAG_BYTES]
        })
    }

    fn open<'a>(
        &self,
        path: u32,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Option<&'a mut [u8]> {
        let plain = self.0.decrypt_in_place_for_path(path, number, header, payload).ok()?;
        let plain_bytes = plain.len();
        payload.get_mut(..plain_bytes)
    }

    fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.0.integrity_limit()
    }
}

struct NumberMask(Box<dyn quic::HeaderProtectionKey>);

impl HeaderKey for NumberMask {
    fn mask(&self, sample: &[u8; SAMPLE_BYTES]) -> [u8; 5] {
        // rustls masks a QUIC header and gives no bare mask. This header is short, with a number of four bytes, all of
        // them zero: what comes back of the number is its mask, of the flags the five low bits (RFC 9001 §5.4.1).
        const FLAGS: u8 = 0x03;
        let (mut flags, mut number) = (FLAGS, [0; 4]);
        // It fails only for samples and numbers of other lengths.
        let masked = self.0.encrypt_in_place(sample, &mut flags, &mut number);
        debug_assert_eq!(masked, Ok(()));
        let [a, b, c, d] = number;
        [flags ^ FLAGS, a, b, c, d]
    }
}

#[cfg(test)]
mod tests;
