// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Who is at the other end?

use rustls::pki_types::CertificateDer;
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Characters of a name that are told: the upper bound of a common name (RFC 5280 appendix A.1).
const NAME_CHARS: usize = 64;

/// An authenticated peer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Peer {
    /// By a certificate.
    Certificate {
        /// What it showed, its own certificate first.
        chain: Vec<CertificateDer<'static>>,
        /// The first common name of its own certificate, if there is one.
        common_name: Option<String>,
        /// When the first of the chain expires; long ago if one cannot be parsed.
        not_after: OffsetDateTime,
    },
    /// By a pre-shared key.
    Psk,
}

impl Peer {
    /// The peer that proved the key of `chain`'s first certificate.
    #[must_use]
    pub(crate) fn with_certificates(chain: &[CertificateDer<'_>]) -> Self {
        let not_after = chain.iter().map(|certificate| {
            parse(certificate).map_or(OffsetDateTime::UNIX_EPOCH, |certificate| {
                certificate.validity().not_after.to_datetime()
            })
        });
        Self::Certificate {
            common_name: chain.first().and_then(parse).and_then(|leaf| common_name(&leaf)),
            not_after: not_after.min().unwrap_or(OffsetDateTime::UNIX_EPOCH),
            chain: chain.iter().map(|certificate| certificate.clone().into_owned()).collect(),
        }
    }

    /// The name for access control.
    #[must_use]
    pub fn common_name(&self) -> Option<&str> {
        match self {
            Self::Certificate { common_name, .. } => common_name.as_deref(),
            Self::Psk => None,
        }
    }

    /// When its certificates expire.
    #[must_use]
    pub const fn not_after(&self) -> Option<OffsetDateTime> {
        match self {
            Self::Certificate { not_after, .. } => Some(*not_after),
            Self::Psk => None,
        }
    }
}

pub(crate) fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    X509Certificate::from_der(certificate).ok().map(|(_, certificate)| certificate)
}

fn common_name(certificate: &X509Certificate<'_>) -> Option<String> {
    let mut names = certificate.subject.iter_common_name();
    names.next().and_then(|name| name.as_str().ok()).map(str::to_owned)
}

/// The subject of a certificate, for a person: who showed it may have written anything into it.
pub(crate) fn subject(certificate: &CertificateDer<'_>) -> String {
    let Some(certificate) = parse(certificate) else {
        return "(not a certificate)".to_owned();
    };
    let name = common_name(&certificate).unwrap_or_else(|| certificate.subject.to_string());
    printable(if name.is_empty() { "(no subject)" } else { &name })
}

pub(crate) fn issuer(certificate: &CertificateDer<'_>) -> String {
    let issuer = parse(certificate).map(|certificate| certificate.issuer.to_string());
    printable(issuer.as_deref().unwrap_or("(not a certificate)"))
}

/// `text` on one line, and not too long.
pub(crate) fn printable(text: &str) -> String {
    text.chars().take(NAME_CHARS).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_strangers_are_printed_on_one_line() {
        assert_eq!(printable("router\n\u{1b}[2J"), "router\\n\\u{1b}[2J");
        assert_eq!(printable(&"x".repeat(10_000)).len(), NAME_CHARS);
    }

    #[test]
    fn what_is_no_certificate_has_expired_long_ago() {
        let peer = Peer::with_certificates(&[CertificateDer::from(vec![0x30, 0x03, 1, 2, 3])]);
        assert_eq!(peer.not_after(), Some(OffsetDateTime::UNIX_EPOCH));
        assert_eq!(peer.common_name(), None);
    }
}
