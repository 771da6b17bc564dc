// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! From PEM to the configurations of rustls.

use std::sync::Arc;

use rustls::{
    client::{danger::ServerCertVerifier, Resumption, WebPkiServerVerifier},
    crypto::{ring, CryptoProvider},
    pki_types::{pem::PemObject, CertificateDer, CertificateRevocationListDer, PrivateKeyDer},
    server::{danger::ClientCertVerifier, NoClientAuth, ResolvesServerCert, WebPkiClientVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
    version::TLS13,
    CipherSuite, ClientConfig, Error, InconsistentKeys, KeyLogFile, RootCertStore, ServerConfig,
};

use crate::{
    error::ConfigError,
    peer::subject,
    verify::{Clients, Servers},
};

/// The protocol inside TLS (RFC 7301).
pub const ALPN: &[u8] = b"zenoh-arq";

/// Who vouches for peers.
#[derive(Debug, Clone)]
pub struct Trust {
    roots: RootCertStore,
    revoked: Vec<CertificateRevocationListDer<'static>>,
}

impl Default for Trust {
    /// Nobody.
    fn default() -> Self {
        Self { roots: RootCertStore::empty(), revoked: Vec::new() }
    }
}

impl Trust {
    /// Trusts the authorities of `pem`.
    ///
    /// # Errors
    /// There is no certificate in it, or one that cannot vouch for others.
    pub fn add_authorities(&mut self, pem: &[u8]) -> Result<(), ConfigError> {
        for authority in certificates(pem)? {
            let whose = subject(&authority);
            self.roots.add(authority).map_err(|error| {
                ConfigError::Unusable(format!(
                    "the certificate of {whose} is no authority: {error}"
                ))
            })?;
        }
        Ok(())
    }

    /// Trusts the authorities of the public web (Mozilla's list).
    pub fn add_public_authorities(&mut self) {
        self.roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }

    /// Refuses what the lists of `pem` revoke (RFC 5280 §5). From then on each certificate of a chain must have an issuer
    /// whose list is there. A list counts also when a newer one is due: without clock and network, an old one is better
    /// than none.
    ///
    /// # Errors
    /// There is no list in it.
    pub fn add_revocation_lists(&mut self, pem: &[u8]) -> Result<(), ConfigError> {
        let lists = CertificateRevocationListDer::pem_slice_iter(pem);
        let lists = lists.collect::<Result<Vec<_>, _>>().unwrap_or_default();
        if lists.is_empty() {
            return Err(ConfigError::Missing("certificate revocation list"));
        }
        self.revoked.extend(lists);
        Ok(())
    }
}

/// Which name a server's certificate must have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ServerName {
    /// The one that the client connects to.
    #[default]
    Asked,
    /// This one, whatever the address.
    Fixed(String),
    /// Any, if all else holds.
    Any,
}

/// A certificate with its chain and private key, for [`server_config`] and [`client_config`].
///
/// # Errors
/// Something is missing, or does not belong together.
pub fn certified_key(chain: &[u8], key: &[u8]) -> Result<Arc<SingleCertAndKey>, ConfigError> {
    const ENCRYPTED: &[u8] = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
    let chain = certificates(chain)?;
    let whose = chain.first().map(subject).unwrap_or_default();
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
        match key.windows(ENCRYPTED.len()).any(|window| window == ENCRYPTED) {
            true => ConfigError::EncryptedKey,
            false => ConfigError::Missing("private key"),
        }
    })?;
    let certified = CertifiedKey::from_der(chain, key, &provider());
    let certified = certified.map_err(|error| match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => ConfigError::OtherKey(whose),
        other => ConfigError::Unusable(format!("the certificate of {whose}: {other}")),
    })?;
    Ok(Arc::new(SingleCertAndKey::from(certified)))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let chain = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    chain.ok_or(ConfigError::Missing("certificate"))
}

/// For who accepts. With `clients` each of them must show a certificate from there.
///
/// # Errors
/// No authority is trusted, or a revocation list cannot be used.
pub fn server_config(
    own: Arc<SingleCertAndKey>,
    clients: Option<&Trust>,
) -> Result<ServerConfig, ConfigError> {
    let provider = provider();
    let verifier: Arc<dyn ClientCertVerifier> = match clients {
        None => Arc::new(NoClientAuth),
        Some(trust) => {
            let roots = Arc::new(trust.roots.clone());
            let webpki = WebPkiClientVerifier::builder_with_provider(roots, provider.clone())
                .with_crls(trust.revoked.clone());
            let webpki =
                webpki.build().map_err(|error| ConfigError::Unusable(error.to_string()))?;
            Arc::new(Clients(webpki))
        }
    };
    server(provider, verifier, own)
}

/// For who connects. The server must show a certificate from `servers`.
///
/// # Errors
/// No authority is trusted, or a revocation list cannot be used.
pub fn client_config(
    own: Option<Arc<SingleCertAndKey>>,
    servers: &Trust,
    name: &ServerName,
) -> Result<ClientConfig, ConfigError> {
    let provider = provider();
    let roots = Arc::new(servers.roots.clone());
    let webpki = WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
        .with_crls(servers.revoked.clone());
    let webpki = webpki.build().map_err(|error| ConfigError::Unusable(error.to_string()))?;
    let verifier = Servers { webpki, any_name: *name == ServerName::Any };
    client(provider, Arc::new(verifier), own.map(|own| own as _))
}

/// What all servers have in common: TLS 1.3, our ALPN, no tickets.
pub(crate) fn server(
    provider: Arc<CryptoProvider>,
    clients: Arc<dyn ClientCertVerifier>,
    own: Arc<dyn ResolvesServerCert>,
) -> Result<ServerConfig, ConfigError> {
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| ConfigError::Provider(error.to_string()))?;
    let mut config = builder.with_client_cert_verifier(clients).with_cert_resolver(own);
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.send_tls13_tickets = 0;
    config.key_log = Arc::new(KeyLogFile::new());
    Ok(config)
}

/// What all clients have in common: TLS 1.3, our ALPN, no resumption, no name readable on the wire.
pub(crate) fn client(
    provider: Arc<CryptoProvider>,
    servers: Arc<dyn ServerCertVerifier>,
    own: Option<Arc<dyn rustls::client::ResolvesClientCert>>,
) -> Result<ClientConfig, ConfigError> {
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| ConfigError::Provider(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(servers);
    let mut config = match own {
        Some(own) => builder.with_client_cert_resolver(own),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    // A listener has one certificate, and does not ask for whom.
    config.enable_sni = false;
    config.key_log = Arc::new(KeyLogFile::new());
    Ok(config)
}

/// The crypto provider of the process, or ring, which is zenoh's. Its AES comes last on a processor without instructions
/// for it: there ChaCha20 is several times as fast.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    let installed = CryptoProvider::get_default().map(|provider| provider.as_ref().clone());
    let mut provider = installed.unwrap_or_else(ring::default_provider);
    if !has_aes() {
        let is_aes = |suite| suite != CipherSuite::TLS13_CHACHA20_POLY1305_SHA256;
        provider.cipher_suites.sort_by_key(|suite| is_aes(suite.suite()));
    }
    Arc::new(provider)
}

fn has_aes() -> bool {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}
