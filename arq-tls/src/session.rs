// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The sessions of an endpoint.

use std::{
    any::Any,
    fmt,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use arq_proto::session::{is_equal, KeyChange, Security, Session, SessionError, KNOCK_BYTES};
use rustls::{
    pki_types,
    quic::{ClientConnection, Connection, ServerConnection, Version},
    ClientConfig, ServerConfig,
};

use crate::{
    error::session_error, keys::key_change, peer::printable, psk::KnockKey, Peer, Psks, ServerName,
};

/// The security of an endpoint that accepts, connects, or both.
#[derive(Debug)]
pub struct Tls {
    /// Replaced when the files behind it are.
    held: RwLock<Held>,
    client: Option<Arc<ClientConfig>>,
    server_name: ServerName,
}

#[derive(Debug, Default)]
struct Held {
    server: Option<Arc<ServerConfig>>,
    /// Answers only to who knocks with one of these; the first is one's own.
    knock: Vec<KnockKey>,
}

impl Held {
    fn new(server: Option<ServerConfig>, knock: Option<&Psks>) -> Self {
        let knock = knock.map(|psks| psks.knock_keys().to_vec()).unwrap_or_default();
        Self { server: server.map(Arc::new), knock }
    }
}

impl Tls {
    /// For who accepts. With `knock`, also beside certificates, only those who know one of these secrets are answered.
    #[must_use]
    pub fn server(config: ServerConfig, knock: Option<&Psks>) -> Self {
        let held = RwLock::new(Held::new(Some(config), knock));
        Self { held, client: None, server_name: ServerName::Any }
    }

    /// For who connects. The server's name is checked by a configuration of [`client_config`](crate::client_config), and
    /// does not matter to one for pre-shared keys. With `knock` it asks a listener that wants that.
    #[must_use]
    pub fn client(config: ClientConfig, server_name: ServerName, knock: Option<&Psks>) -> Self {
        let held = RwLock::new(Held::new(None, knock));
        Self { held, client: Some(Arc::new(config)), server_name }
    }

    /// From now on accepts by `config` those who knock with `knock`; handshakes that have begun go on as they began.
    pub fn renew(&self, config: ServerConfig, knock: Option<&Psks>) {
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = Held::new(Some(config), knock);
    }

    fn held(&self) -> RwLockReadGuard<'_, Held> {
        self.held.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn name<'a>(&'a self, asked: &'a str) -> &'a str {
        match &self.server_name {
            ServerName::Asked => asked,
            ServerName::Fixed(name) => name,
            // rustls wants one. No name of the DNS ends like this (RFC 6761 §6.4).
            ServerName::Any => "any.invalid",
        }
    }
}

/// A locator's host as TLS knows it: a DNS name or an address, also in brackets.
fn tls_name(host: &str) -> Result<pki_types::ServerName<'static>, SessionError> {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    // The scope of a link-local address means something on this host alone.
    let bare = inner.unwrap_or(host).split('%').next().unwrap_or_default();
    pki_types::ServerName::try_from(bare).map(|name| name.to_owned()).map_err(|_| {
        let text = format!("`{}` cannot be the name of a certificate", printable(host));
        SessionError::new(None, text)
    })
}

impl Security for Tls {
    fn connect(&self, name: &str, params: &[u8]) -> Result<Box<dyn Session>, SessionError> {
        let Some(config) = self.client.clone() else {
            return Err(SessionError::new(None, "this side has nothing to connect with"));
        };
        let has_raw_keys = config.client_auth_cert_resolver.only_raw_public_keys();
        let name = tls_name(self.name(name))?;
        let connection = ClientConnection::new(config, Version::V1, name, params.to_vec())
            .map_err(|error| session_error(&error, None))?;
        Ok(Box::new(TlsSession { connection: connection.into(), has_raw_keys }))
    }

    fn accept(&self, params: &[u8]) -> Result<Box<dyn Session>, SessionError> {
        let config = self.held().server.clone();
        let Some(config) = config else {
            return Err(SessionError::new(None, "this side has nothing to accept with"));
        };
        let has_raw_keys = config.cert_resolver.only_raw_public_keys();
        let connection = ServerConnection::new(config, Version::V1, params.to_vec())
            .map_err(|error| session_error(&error, None))?;
        Ok(Box::new(TlsSession { connection: connection.into(), has_raw_keys }))
    }

    fn knock(&self, packet: &[u8]) -> Option<[u8; KNOCK_BYTES]> {
        self.held().knock.first().and_then(|key| key.code(packet))
    }

    fn is_knock(&self, packet: &[u8], code: &[u8; KNOCK_BYTES]) -> bool {
        let keys = &self.held().knock;
        let is_of =
            |key: &KnockKey| key.code(packet).is_some_and(|expected| is_equal(code, &expected));
        // All of them, so that the time does not tell which one it is.
        keys.is_empty() || keys.iter().filter(|key| is_of(key)).count() > 0
    }
}

struct TlsSession {
    connection: Connection,
    /// Pre-shared keys instead of certificates.
    has_raw_keys: bool,
}

impl fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSession").field("is_handshaking", &self.is_handshaking()).finish()
    }
}

impl Session for TlsSession {
    fn read(&mut self, flight: &[u8]) -> Result<(), SessionError> {
        self.connection
            .read_hs(flight)
            .map_err(|error| session_error(&error, self.connection.alert()))
    }

    fn write(&mut self, flight: &mut Vec<u8>) -> Option<KeyChange> {
        self.connection.write_hs(flight).map(key_change)
    }

    fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    fn peer_params(&self) -> Option<&[u8]> {
        self.connection.quic_transport_parameters()
    }

    fn export(&self) -> Option<[u8; 16]> {
        const LABEL: &[u8] = b"EXPORTER-zenoh-arq-paths";
        self.connection.export_keying_material([0; 16], LABEL, None).ok()
    }

    fn peer_credential(&self) -> Option<&[u8]> {
        self.connection.peer_certificates()?.first().map(AsRef::as_ref)
    }

    fn peer(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        let shown = self.connection.peer_certificates()?;
        let peer = match self.has_raw_keys {
            true => Peer::Psk,
            false => Peer::with_certificates(shown),
        };
        Some(Arc::new(peer))
    }
}
