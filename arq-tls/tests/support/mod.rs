// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Authorities and certificates, and two sessions that hand their flights to each other.

#![allow(dead_code, unreachable_pub, reason = "each test file takes what it needs")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{collections::VecDeque, sync::Arc};

use arq_proto::session::{KeyChange, Keys, Security, Session, SessionError, Updates};
use arq_tls::{rustls::sign::SingleCertAndKey, Peer, Trust};
use rcgen::{
    date_time_ymd, BasicConstraints, CertificateParams, CertificateRevocationListParams,
    DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose, RevocationReason, RevokedCertParams, SerialNumber,
};

/// An authority of one's own.
pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its chain, and its key.
pub struct Identity {
    pub chain: String,
    pub key: String,
    pub serial: SerialNumber,
}

impl Identity {
    pub fn own(&self) -> Arc<SingleCertAndKey> {
        arq_tls::certified_key(self.chain.as_bytes(), self.key.as_bytes()).unwrap()
    }
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new([]).unwrap();
    params.distinguished_name = named(Some(name));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn named(common_name: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "fleet");
    if let Some(common_name) = common_name {
        name.push(DnType::CommonName, common_name);
    }
    name
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let (params, key) = (authority_params(name), KeyPair::generate().unwrap());
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// An authority below this one, with its certificate.
    pub fn intermediate(&self, name: &str) -> Self {
        let (params, key) = (authority_params(name), KeyPair::generate().unwrap());
        let pem = params.signed_by(&key, &self.issuer).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate with `common_name` for `names`, as `change` changes it.
    pub fn identity_with(
        &self,
        common_name: Option<&str>,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Identity {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = named(common_name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let serial = SerialNumber::from_slice(&key.public_key_raw()[1..9]);
        params.serial_number = Some(serial.clone());
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity { chain: certificate.pem(), key: key.serialize_pem(), serial }
    }

    pub fn identity(&self, name: &str) -> Identity {
        self.identity_with(Some(name), &[name], |_| {})
    }

    pub fn trust(&self) -> Trust {
        let mut trust = Trust::default();
        trust.add_authorities(self.pem.as_bytes()).unwrap();
        trust
    }

    /// Its list of revoked certificates.
    pub fn revocation_list(&self, revoked: &[&SerialNumber]) -> String {
        let revoked_certs = revoked.iter().map(|serial| RevokedCertParams {
            serial_number: (*serial).clone(),
            revocation_time: date_time_ymd(2025, 1, 1),
            reason_code: Some(RevocationReason::KeyCompromise),
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2025, 1, 2),
            next_update: date_time_ymd(2025, 2, 2),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked_certs.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}

/// What a side has come to.
#[derive(Debug)]
pub struct Side {
    pub session: Box<dyn Session>,
    pub keys: Option<Keys>,
    pub updates: Option<Box<dyn Updates>>,
    /// Bytes of its flights, by the keys that they are sent under: none, those of the handshake, those of the application.
    pub sent_bytes: [usize; 3],
    level: usize,
}

impl Side {
    fn new(session: Box<dyn Session>) -> Self {
        Self { session, keys: None, updates: None, level: 0, sent_bytes: [0; 3] }
    }

    /// All that it has to say now, in pieces that stay within one level of keys.
    fn flights(&mut self) -> Vec<Vec<u8>> {
        let mut flights = Vec::new();
        loop {
            let mut flight = Vec::new();
            let change = self.session.write(&mut flight);
            if flight.is_empty() && change.is_none() {
                return flights;
            }
            self.sent_bytes[self.level] += flight.len();
            flights.push(flight);
            match change {
                Some(KeyChange::Handshake(_)) => self.level = 1,
                Some(KeyChange::Application { keys, updates }) => {
                    (self.keys, self.updates) = (Some(keys), Some(updates));
                    self.level = 2;
                }
                None => {}
            }
        }
    }

    pub fn peer(&self) -> Option<Peer> {
        let peer = self.session.peer()?;
        Some(peer.downcast_ref::<Peer>().expect("a peer of arq-tls").clone())
    }
}

/// Which side refuses, and why.
pub type Refusal = (&'static str, SessionError);

/// Drives a client of `client` that connects to `name` and a session of `server` against each other.
pub fn handshake(
    client: &dyn Security,
    server: &dyn Security,
    name: &str,
) -> Result<[Side; 2], Refusal> {
    let client = client.connect(name, b"of the client").map_err(|error| ("client", error))?;
    let server = server.accept(b"of the server").map_err(|error| ("server", error))?;
    let mut sides = [Side::new(client), Side::new(server)];
    let mut wire = VecDeque::from_iter(sides[0].flights().into_iter().map(|flight| (0, flight)));
    while let Some((from, flight)) = wire.pop_front() {
        // In pieces, as the network cuts them.
        for piece in flight.chunks(97) {
            let to = 1 - from;
            let read = sides[to].session.read(piece);
            read.map_err(|error| (["client", "server"][to], error))?;
            wire.extend(sides[to].flights().into_iter().map(|flight| (to, flight)));
        }
    }
    Ok(sides)
}
