// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Pre-shared keys as raw public keys.
//!
//! rustls has no external PSK (RFC 8446 §4.2.11), but raw public keys (RFC 7250). Both sides derive the same two Ed25519
//! keys from the secret, one for each role, and who proves the key of the other role knows the secret. Two roles, so that
//! no side can be answered with its own words (RFC 9257 §4.1). The keys of the packets come of an ephemeral exchange: who
//! learns the secret later does not read what was recorded before.

use std::sync::Arc;

use arq_proto::session::KNOCK_BYTES;
use base64::{prelude::BASE64_STANDARD, Engine};
use ring::{
    hkdf::{KeyType, Salt, HKDF_SHA256},
    hmac::{self, HMAC_SHA256},
};
use rustls::{
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        AlwaysResolvesClientRawPublicKeys,
    },
    crypto::{verify_tls13_signature_with_raw_key, CryptoProvider, WebPkiSupportedAlgorithms},
    pki_types::{
        CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer,
        UnixTime,
    },
    server::{
        danger::{ClientCertVerified, ClientCertVerifier},
        AlwaysResolvesServerRawPublicKeys,
    },
    sign::CertifiedKey,
    ClientConfig, DigitallySignedStruct, DistinguishedName, PeerIncompatible, ServerConfig,
    SignatureScheme,
};
use zeroize::Zeroizing;

use crate::{config, error::ConfigError, error::Refused};

/// Bytes of the shortest key: whoever connects to a listener could guess a shorter one at leisure.
const MIN_PSK_BYTES: usize = 16;
/// Bytes of what is derived.
const DERIVED_BYTES: usize = 32;
/// A private Ed25519 key in PKCS#8 up to its seed (RFC 8410 §7).
const PKCS8_PREFIX: [u8; 16] = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";

/// The key by which packets show, before any state is kept, that their sender knows the secret.
#[derive(Debug, Clone)]
pub(crate) struct KnockKey(hmac::Key);

impl KnockKey {
    /// HMAC-SHA256-128 (RFC 4868 §2.1.1) over `packet`.
    pub(crate) fn code(&self, packet: &[u8]) -> Option<[u8; KNOCK_BYTES]> {
        hmac::sign(&self.0, packet).as_ref().first_chunk().copied()
    }
}

/// Pre-shared keys: the first one is shown to peers, all are accepted from them. So a fleet changes its key without an
/// outage: append the new one everywhere, then move it to the front everywhere, then remove the old one.
#[derive(Debug, Clone)]
pub struct Psks {
    provider: Arc<CryptoProvider>,
    server: Role,
    client: Role,
    knock: Vec<KnockKey>,
}

/// What serves one of the two roles.
#[derive(Debug, Clone)]
struct Role {
    own: Arc<CertifiedKey>,
    accepted: Vec<CertificateDer<'static>>,
}

impl Psks {
    /// Reads keys in base64, one a line. Empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    /// There is no key, or one is shorter than 16 bytes or not base64. The error names the line and nothing of what is in it.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let lines = text.lines().map(str::trim).zip(1..);
        let keys = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
        let decoded = keys.map(|(line, number)| {
            let key = BASE64_STANDARD.decode(line).map(Zeroizing::new);
            match key {
                Ok(key) if key.len() >= MIN_PSK_BYTES => Ok(key),
                Ok(_) => Err(ConfigError::ShortPsk { line: number }),
                Err(_) => Err(ConfigError::BadPsk { line: number }),
            }
        });
        Self::new(&decoded.collect::<Result<Vec<_>, _>>()?)
    }

    fn new(keys: &[Zeroizing<Vec<u8>>]) -> Result<Self, ConfigError> {
        let provider = config::provider();
        let role = |label| -> Result<_, ConfigError> {
            let pairs = keys.iter().map(|key| key_pair(&provider, &*derive(key, label)?));
            let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
            let own = pairs.first().cloned().ok_or(ConfigError::NoPsk)?;
            let accepted = pairs.iter().filter_map(|pair| pair.cert.first().cloned());
            Ok(Role { own, accepted: accepted.collect() })
        };
        let knock = keys.iter().map(|key| derive(key, b"arq psk 1 knock"));
        Ok(Self {
            server: role(b"arq psk 1 server")?,
            client: role(b"arq psk 1 client")?,
            knock: knock
                .map(|key| Ok(KnockKey(hmac::Key::new(HMAC_SHA256, &*key?))))
                .collect::<Result<_, ConfigError>>()?,
            provider,
        })
    }

    /// What an endpoint that accepts needs.
    ///
    /// # Errors
    /// The installed crypto provider lacks what TLS 1.3 needs.
    pub fn server_config(&self) -> Result<ServerConfig, ConfigError> {
        let clients = Arc::new(Holders::new(self, &self.client));
        let own = Arc::new(AlwaysResolvesServerRawPublicKeys::new(self.server.own.clone()));
        config::server(self.provider.clone(), clients, own)
    }

    /// What an endpoint that connects needs.
    ///
    /// # Errors
    /// The installed crypto provider lacks what TLS 1.3 needs.
    pub fn client_config(&self) -> Result<ClientConfig, ConfigError> {
        let servers = Arc::new(Holders::new(self, &self.server));
        let own = Arc::new(AlwaysResolvesClientRawPublicKeys::new(self.client.own.clone()));
        config::client(self.provider.clone(), servers, Some(own))
    }

    /// The keys to knock with: the first one on one's own, all from others.
    pub(crate) fn knock_keys(&self) -> &[KnockKey] {
        &self.knock
    }
}

/// HKDF (RFC 5869) without a salt.
fn derive(psk: &[u8], label: &[u8]) -> Result<Zeroizing<[u8; DERIVED_BYTES]>, ConfigError> {
    struct Length;
    impl KeyType for Length {
        fn len(&self) -> usize {
            DERIVED_BYTES
        }
    }
    let mut derived = Zeroizing::new([0; DERIVED_BYTES]);
    let key = Salt::new(HKDF_SHA256, &[]).extract(psk);
    let filled = key.expand(&[label], Length).and_then(|okm| okm.fill(&mut *derived));
    filled.map_err(|_| ConfigError::Provider("HKDF-SHA256 failed".to_owned()))?;
    Ok(derived)
}

fn key_pair(
    provider: &CryptoProvider,
    seed: &[u8; DERIVED_BYTES],
) -> Result<Arc<CertifiedKey>, ConfigError> {
    let failed = |error: rustls::Error| ConfigError::Provider(error.to_string());
    let pkcs8 = Zeroizing::new([PKCS8_PREFIX.as_slice(), seed].concat());
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pkcs8.as_slice())).clone_key();
    let key = provider.key_provider.load_private_key(private).map_err(failed)?;
    let public = key.public_key().map(|public| CertificateDer::from(public.to_vec()));
    let public = public.ok_or_else(|| ConfigError::Provider("no Ed25519".to_owned()))?;
    Ok(Arc::new(CertifiedKey::new(vec![public], key)))
}

/// Verifies that a peer holds one of the keys of its role.
#[derive(Debug)]
struct Holders {
    accepted: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Holders {
    fn new(psks: &Psks, role: &Role) -> Self {
        Self {
            accepted: role.accepted.clone(),
            algorithms: psks.provider.signature_verification_algorithms,
        }
    }

    fn check(&self, public: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        match self.accepted.contains(public) {
            true => Ok(()),
            false => Err(Refused::other_psk().into()),
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        public: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let public = SubjectPublicKeyInfoDer::from(public.as_ref());
        verify_tls13_signature_with_raw_key(message, &public, signed, &self.algorithms)
    }
}

impl ServerCertVerifier for Holders {
    fn verify_server_cert(
        &self,
        public: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(public).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _public: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::Tls13RequiredForQuic.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        public: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, public, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Holders {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        public: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(public).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _public: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::Tls13RequiredForQuic.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        public: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, public, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn psks(text: &str) -> Psks {
        Psks::parse(text).unwrap()
    }

    /// Who reflects what it is shown shows the key of the wrong role.
    #[test]
    fn no_side_accepts_the_key_that_it_shows_itself() {
        let psks = psks("AAECAwQFBgcICQoLDA0ODw==");
        for (verifier, shown) in [(&psks.client, &psks.server), (&psks.server, &psks.client)] {
            let holders = Holders::new(&psks, verifier);
            assert!(holders.check(&shown.own.cert[0]).is_err());
            assert!(holders.check(&verifier.own.cert[0]).is_ok());
        }
    }

    /// What two builds derive must be the same, or they do not meet. Computed with Python's `cryptography`.
    #[test]
    fn the_keys_of_a_secret_are_these() {
        let psks = psks("AAECAwQFBgcICQoLDA0ODw==");
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(&psks.server.own.cert[0]), SERVER_KEY);
        assert_eq!(hex(&psks.client.own.cert[0]), CLIENT_KEY);
        assert_eq!(hex(&psks.knock[0].code(b"packet").unwrap()), KNOCK);
    }

    const SERVER_KEY: &str =
        "302a300506032b6570032100494a727fe475188047b8c7768ae13ada45b4dea3bf62da3f0a7dc467c049e403";
    const CLIENT_KEY: &str =
        "302a300506032b6570032100d0fb14482dd5073be199875bab61aad85a8acda484dfa7ec71acaf7b3bb09129";
    const KNOCK: &str = "7d12454bc12c01f8ae8096a2dc69719b";
}
