// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The cookie stands for the state that a server does not keep. Only this endpoint can have made it.

use std::{
    hash::Hasher,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use siphasher::sip128::{Hasher128, SipHasher24};

use super::{Endpoint, COOKIE_LIFETIME};
use crate::{
    units::ConnectionId,
    wire::{cursor::Reader, packet::Cookie, VERSION},
};

/// What a cookie vouches for.
pub(super) struct Claim {
    pub(super) from: SocketAddr,
    pub(super) client: ConnectionId,
    pub(super) server: ConnectionId,
    pub(super) instance: u64,
    /// Length of the HELLO: the path has carried as much.
    pub(super) hello_bytes: u16,
}

impl Endpoint {
    pub(super) fn issue(&self, now: Instant, claim: &Claim) -> Vec<u8> {
        let issued_us = self.micros(now);
        let mut cookie = Vec::with_capacity(34);
        cookie.extend_from_slice(&issued_us.to_be_bytes());
        cookie.extend_from_slice(&claim.instance.to_be_bytes());
        cookie.extend_from_slice(&claim.hello_bytes.to_be_bytes());
        cookie.extend_from_slice(&self.authenticate(issued_us, claim).to_be_bytes());
        cookie
    }

    /// What the cookie vouches for and its age, if it is ours, fresh and for this client.
    pub(super) fn verify(
        &self,
        now: Instant,
        from: SocketAddr,
        server: ConnectionId,
        cookie: &Cookie<'_>,
    ) -> Option<(Claim, Duration)> {
        let mut reader = Reader::new(cookie.cookie);
        let issued_us = reader.u64("cookie.time").ok()?;
        let instance = reader.u64("cookie.instance").ok()?;
        let hello_bytes = reader.u16("cookie.hello").ok()?;
        let mac = reader.bytes(16, "cookie.mac").ok()?;
        let claim = Claim { from, client: cookie.scid, server, instance, hello_bytes };
        let expected = self.authenticate(issued_us, &claim).to_be_bytes();
        // In constant time: no byte of the code is confirmed to one who guesses.
        let differs = mac.iter().zip(expected).fold(0, |diff, (a, b)| diff | (a ^ b));
        let age = Duration::from_micros(self.micros(now).checked_sub(issued_us)?);
        let valid = differs == 0
            && reader.is_empty()
            && age <= COOKIE_LIFETIME
            && issued_us >= self.cookies_from_us
            && cookie.version == VERSION;
        valid.then_some((claim, age))
    }

    fn authenticate(&self, issued_us: u64, claim: &Claim) -> u128 {
        let mut hasher = SipHasher24::new_with_key(&self.cookie_key);
        let ip = match claim.from.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        hasher.write(&ip.octets());
        hasher.write(&claim.from.port().to_be_bytes());
        for value in [issued_us, claim.client.0, claim.server.0, claim.instance] {
            hasher.write(&value.to_be_bytes());
        }
        hasher.write(&claim.hello_bytes.to_be_bytes());
        hasher.finish128().as_u128()
    }
}
