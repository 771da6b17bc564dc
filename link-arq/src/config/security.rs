// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What protects the packets of a link, by the keys of its endpoint. No file is read here.

use std::{collections::BTreeMap, fmt};

use super::{keys::Parsed, ConfigError};

/// What `security` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// What the other keys make possible.
    #[default]
    Auto,
    /// Nothing, in writing.
    Off,
    /// Certificates.
    Tls,
    /// A pre-shared key.
    Psk,
}

/// What a link does. There is no falling back: a peer that does something else is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// It is readable.
    Clear {
        /// There are keys for more, and `security=off` forbids it.
        against_keys: bool,
    },
    /// Certificates say who is who.
    Certificates {
        /// Only who knows a pre-shared key is answered.
        knock: bool,
    },
    /// Who knows the pre-shared key is let in.
    Psk,
}

/// A value that may be secret: it does not print itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    /// The value itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// The keys of an endpoint that belong to security.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityConfig {
    /// What is asked for.
    pub mode: Mode,
    /// Listeners want a certificate of each client; who connects shows its own.
    pub enable_mtls: bool,
    /// The server's certificate must have its name.
    pub verify_name_on_connect: bool,
    /// A link ends when the peer's certificate does.
    pub close_link_on_expiration: bool,
    /// The public authorities are trusted beside one's own.
    pub webpki_roots: bool,
    /// Files, PEM and names, by key.
    texts: BTreeMap<&'static str, Hidden>,
}

impl Default for SecurityConfig {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            enable_mtls: false,
            verify_name_on_connect: true,
            close_link_on_expiration: false,
            webpki_roots: false,
            texts: BTreeMap::new(),
        }
    }
}

/// What a key's value may hold, with the endings of zenoh's names for them; of several the first one counts.
const SOURCES: [(&str, Source); 3] =
    [("_raw", Source::Text), ("_base64", Source::Base64), ("_file", Source::File)];
/// What is read in one of these ways.
const READ: [&str; 6] = [
    "root_ca_certificate",
    "listen_certificate",
    "listen_private_key",
    "connect_certificate",
    "connect_private_key",
    "psk",
];
/// Those of [`READ`] that make a link secured by certificates.
const CERTIFICATES: usize = 5;

/// How a value is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Itself.
    Text,
    /// In base64.
    Base64,
    /// In a file of this path.
    File,
}

impl SecurityConfig {
    /// Sets what a key says that is one of these. The table of keys has checked it.
    pub(super) fn apply(&mut self, key: &'static str, value: &Parsed) {
        match (key, value) {
            ("security", Parsed::Word("off")) => self.mode = Mode::Off,
            ("security", Parsed::Word("tls")) => self.mode = Mode::Tls,
            ("security", Parsed::Word("psk")) => self.mode = Mode::Psk,
            ("security", Parsed::Word(_)) => self.mode = Mode::Auto,
            ("enable_mtls", Parsed::Word(word)) => self.enable_mtls = *word == "true",
            ("verify_name_on_connect", Parsed::Word(word)) => {
                self.verify_name_on_connect = *word == "true"
            }
            ("close_link_on_expiration", Parsed::Word(word)) => {
                self.close_link_on_expiration = *word == "true"
            }
            ("webpki_roots", Parsed::Word(word)) => self.webpki_roots = *word == "true",
            (key, Parsed::Text(text)) => drop(self.texts.insert(key, Hidden(text.clone()))),
            (key, value) => debug_assert!(false, "no meaning for {key}={value:?}"),
        }
    }

    /// What the link does, of a listener and of who connects alike.
    ///
    /// # Errors
    /// It asks for what it does not have.
    pub fn policy(&self) -> Result<Policy, ConfigError> {
        let has = |what: &&str| self.given(what).is_some();
        let has_certificates = READ[..CERTIFICATES].iter().any(has);
        let has_psk = has(&"psk");
        match self.mode {
            Mode::Off => Ok(Policy::Clear { against_keys: has_certificates || has_psk }),
            Mode::Tls => Ok(Policy::Certificates { knock: has_psk }),
            Mode::Psk if has_psk => Ok(Policy::Psk),
            Mode::Psk => {
                let text = "`security=psk` needs `psk_file` or `psk_base64`";
                Err(ConfigError::Conflict(text.to_owned()))
            }
            Mode::Auto if has_certificates => Ok(Policy::Certificates { knock: has_psk }),
            Mode::Auto if has_psk => Ok(Policy::Psk),
            Mode::Auto => Ok(Policy::Clear { against_keys: false }),
        }
    }

    /// The key and the value of `what`, one of `READ`, and how it is given.
    #[must_use]
    pub fn given(&self, what: &str) -> Option<(&'static str, &Hidden, Source)> {
        SOURCES.iter().find_map(|(ending, source)| {
            let named = |key: &&str| key.strip_prefix(what) == Some(*ending);
            let (key, value) = self.texts.iter().find(|(key, _)| named(key))?;
            Some((*key, value, *source))
        })
    }

    /// The value of a key that has no other names.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.texts.get(key).map(Hidden::expose)
    }
}

/// The keys after `#` whose values are to be kept from whoever asks for an endpoint.
#[must_use]
pub fn is_secret(key: &str) -> bool {
    ["psk", "listen_private_key", "connect_private_key"].iter().any(|what| {
        [format!("{what}_raw"), format!("{what}_base64")].iter().any(|secret| secret == key)
    })
}
