// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What went wrong, in words for an operator: cause, subject, and the dates of the certificate and of this host.

use std::{fmt, sync::Arc};

use arq_proto::session::SessionError;
use rustls::{
    pki_types::{CertificateDer, UnixTime},
    AlertDescription, CertificateError, Error, OtherError, PeerIncompatible,
};
use thiserror::Error;
use time::{format_description::well_known::Rfc3339, OffsetDateTime};

use crate::peer::{issuer, parse, printable, subject};

/// Why a configuration cannot be made. No error holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It is not PEM, or holds nothing of the kind.
    #[error("there is no {0} in PEM format")]
    Missing(&'static str),
    /// A private key that a passphrase protects.
    #[error(
        "the private key is encrypted: decrypt it, for nobody is there to type the passphrase"
    )]
    EncryptedKey,
    /// The certificate cannot vouch for others, or the list cannot revoke.
    #[error("{0}")]
    Unusable(String),
    /// The private key is not that of the certificate.
    #[error("the private key is not that of the certificate of {0}")]
    OtherKey(String),
    /// A pre-shared key that could be guessed.
    #[error("line {line} holds fewer than 16 bytes: `openssl rand -base64 32` makes a key")]
    ShortPsk {
        /// Counted from 1.
        line: usize,
    },
    /// A pre-shared key that cannot be read.
    #[error("line {line} is not base64: `openssl rand -base64 32` makes a key")]
    BadPsk {
        /// Counted from 1.
        line: usize,
    },
    /// There is none.
    #[error("there is no key: `openssl rand -base64 32` makes one")]
    NoPsk,
    /// The crypto provider of the process lacks something.
    #[error("the crypto provider: {0}")]
    Provider(String),
}

/// Why a peer's identity is not accepted: an error of rustls that knows the subject.
#[derive(Debug)]
pub(crate) struct Refused {
    alert: AlertDescription,
    text: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Refused {}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        CertificateError::Other(OtherError(Arc::new(refused))).into()
    }
}

impl Refused {
    pub(crate) fn other_psk() -> Self {
        Self {
            alert: AlertDescription::UnknownPSKIdentity,
            text: "the peer holds none of the pre-shared keys of this side".to_owned(),
        }
    }

    /// Of a chain that was refused for `cause`, the peer's own certificate first.
    pub(crate) fn certificate(
        cause: CertificateError,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
    ) -> Self {
        let text = describe(&cause, end_entity, intermediates);
        Self { alert: cause.into(), text }
    }
}

fn describe(
    cause: &CertificateError,
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
) -> String {
    use CertificateError as Cause;
    let whose = subject(end_entity);
    // Of several certificates the one that has the date.
    let dated = |date: UnixTime, of: fn(&x509_parser::prelude::Validity) -> i64| {
        let mut chain = std::iter::once(end_entity).chain(intermediates);
        let dated = chain.find(|certificate| {
            parse(certificate).is_some_and(|parsed| of(parsed.validity()) == seconds(date))
        });
        dated.map_or_else(|| whose.clone(), subject)
    };
    match cause {
        Cause::ExpiredContext { time, not_after } => format!(
            "the certificate of {} is not valid after {}; this host's clock says {}",
            dated(*not_after, |validity| validity.not_after.timestamp()),
            date(*not_after),
            date(*time)
        ),
        Cause::NotValidYetContext { time, not_before } => format!(
            "the certificate of {} is not valid before {}; this host's clock says {}",
            dated(*not_before, |validity| validity.not_before.timestamp()),
            date(*not_before),
            date(*time)
        ),
        Cause::UnknownIssuer => {
            let highest = intermediates.last().unwrap_or(end_entity);
            format!(
                "the certificate of {whose} comes from {}, which is no authority that this side trusts",
                issuer(highest)
            )
        }
        Cause::BadSignature => format!(
            "the certificate of {whose} is not signed by the {} that this side trusts: another authority of the same name",
            issuer(intermediates.last().unwrap_or(end_entity))
        ),
        Cause::NotValidForNameContext { expected, presented } => format!(
            "the certificate of {whose} is for {}, not for {}",
            match presented.as_slice() {
                [] => "no name (it has no subjectAltName)".to_owned(),
                names => printable(&names.join(", ")),
            },
            expected.to_str()
        ),
        Cause::Revoked => format!("the certificate of {whose}, or its issuer's, is revoked"),
        Cause::UnknownRevocationStatus => format!(
            "no revocation list here is by the issuer of the certificate of {whose}, or by that issuer's"
        ),
        Cause::InvalidPurposeContext { required, .. } => format!(
            "the certificate of {whose} is not for this purpose: its extended key usage lacks {required:?}"
        ),
        other => format!("the certificate of {whose} is not accepted: {other}"),
    }
}

fn seconds(time: UnixTime) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

/// A date as RFC 3339 writes it.
fn date(time: UnixTime) -> String {
    let date = OffsetDateTime::from_unix_timestamp(seconds(time)).ok();
    let text = date.and_then(|date| date.format(&Rfc3339).ok());
    text.unwrap_or_else(|| format!("{} s after 1970", time.as_secs()))
}

/// An error of the handshake. rustls names the alert that it would send.
pub(crate) fn session_error(error: &Error, alert: Option<AlertDescription>) -> SessionError {
    let plain = |text: &str| SessionError::new(alert.map(u8::from), text);
    match error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(other))) => {
            match other.downcast_ref::<Refused>() {
                Some(refused) => SessionError::new(Some(refused.alert.into()), &refused.text),
                None => plain(&error.to_string()),
            }
        }
        Error::NoCertificatesPresented => {
            plain("the peer shows no certificate, and this side wants one")
        }
        Error::PeerIncompatible(
            PeerIncompatible::IncorrectCertificateTypeExtension
            | PeerIncompatible::UnsolicitedCertificateTypeExtension,
        ) => plain("one side has certificates, the other one a pre-shared key"),
        other => plain(&other.to_string()),
    }
}
