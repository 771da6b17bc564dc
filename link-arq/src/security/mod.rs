// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What protects a link, and who is at its other end?
//!
//! The policy is in [`config`](crate::config::SecurityConfig::policy): here files become what the core asks of
//! [`Protection`], and what a peer has proved becomes zenoh's `LinkAuthId`. With certificates a link is to zenoh what
//! `quic/` is, so that rules of access by name hold for both.

#[cfg(feature = "tls")]
mod files;
mod identity;
#[cfg(feature = "tls")]
mod renewal;
mod section;

use std::sync::Once;

use arq_proto::session::Protection;

pub(crate) use identity::{expire, Identity};
pub use section::ArqConfigurator;

use crate::config::{Policy, SecurityConfig};

/// What protects the packets of a link that connects.
///
/// # Errors
/// Names the key, and its file, that cannot be used. No error holds a secret.
pub(crate) fn to_connect(config: &SecurityConfig) -> Result<Protection, String> {
    match config.policy().map_err(|error| error.to_string())? {
        Policy::Clear { against_keys } => {
            static TOLD: [Once; 2] = [Once::new(), Once::new()];
            tell_of_clear(&TOLD, "links that connect", against_keys);
            Ok(Protection::Clear)
        }
        #[cfg(feature = "tls")]
        policy => {
            warn_of_key_log();
            Ok(Protection::Sealed(std::sync::Arc::new(files::client(config, policy)?)))
        }
        #[cfg(not(feature = "tls"))]
        _ => Err(NO_TLS.to_owned()),
    }
}

/// What protects the packets of those that a listener accepts, and what keeps it up to date.
///
/// # Errors
/// As [`to_connect`].
pub(crate) fn to_listen(config: &SecurityConfig) -> Result<(Protection, Renewal), String> {
    match config.policy().map_err(|error| error.to_string())? {
        Policy::Clear { against_keys } => {
            static TOLD: [Once; 2] = [Once::new(), Once::new()];
            tell_of_clear(&TOLD, "links of listeners", against_keys);
            Ok((Protection::Clear, Renewal::default()))
        }
        #[cfg(feature = "tls")]
        policy => {
            warn_of_key_log();
            let (tls, renewal) = Renewal::begin(config, policy)?;
            if config.close_link_on_expiration && policy != Policy::Psk && !config.enable_mtls {
                tracing::warn!(
                    "arq: `close_link_on_expiration` ends no link of a listener without `enable_mtls`: clients \
                     show no certificates"
                );
            }
            Ok((Protection::Sealed(tls), renewal))
        }
        #[cfg(not(feature = "tls"))]
        _ => Err(NO_TLS.to_owned()),
    }
}

/// Once for each side of a process: of a node with a hundred links that is enough.
fn tell_of_clear([plain, despite]: &[Once; 2], which: &str, against_keys: bool) {
    if against_keys {
        despite.call_once(|| {
            tracing::warn!(
                "arq: {which} are not encrypted, by `security=off`, although there are keys"
            );
        });
    } else {
        plain.call_once(|| {
            tracing::info!(
                "arq: {which} are not encrypted: configure transport/link/tls or psk_file to seal them"
            );
        });
    }
}

/// rustls writes the secrets of all links to the file that this variable names, for who looks into a capture.
#[cfg(feature = "tls")]
fn warn_of_key_log() {
    static ONCE: Once = Once::new();
    const VARIABLE: &str = "SSLKEYLOGFILE";
    if let Some(path) = std::env::var_os(VARIABLE) {
        ONCE.call_once(|| {
            tracing::warn!("arq: {VARIABLE} is set: who reads {path:?} reads all secured links");
        });
    }
}

#[cfg(feature = "tls")]
pub(crate) use renewal::Renewal;

/// Nothing that could be renewed.
#[cfg(not(feature = "tls"))]
#[derive(Debug, Default)]
pub(crate) struct Renewal(());

#[cfg(not(feature = "tls"))]
impl Renewal {
    /// Never ends.
    pub(crate) async fn run(self) {
        std::future::pending().await
    }
}

#[cfg(not(feature = "tls"))]
const NO_TLS: &str =
    "there are keys for encrypted links, and this build has none: build with the cargo feature \
                      transport_arq_tls, or write security=off";
