// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What zenoh's configuration says of certificates.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::path::Path;

use crate::pki::Fleet;

/// Settings of a session, by path.
#[derive(Clone, Default)]
pub(crate) struct Settings(Vec<(&'static str, String)>);

impl Settings {
    pub(crate) fn with(mut self, path: &'static str, value: impl ToString) -> Self {
        self.0.push((path, value.to_string()));
        self
    }

    fn file(self, path: &'static str, file: &Path) -> Self {
        self.with(path, format!("{:?}", file.to_str().unwrap()))
    }

    pub(crate) fn pairs(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(path, value)| (*path, value.as_str())).collect()
    }

    /// A router of `fleet` that wants certificates.
    pub(crate) fn router(fleet: &Fleet) -> Self {
        Self::trusting(fleet)
            .file("transport/link/tls/listen_certificate", &fleet.path("router.pem"))
            .file("transport/link/tls/listen_private_key", &fleet.path("router.key"))
            .with("transport/link/tls/enable_mtls", true)
    }

    /// A vehicle of `fleet` that shows its certificate.
    pub(crate) fn vehicle(fleet: &Fleet) -> Self {
        Self::trusting(fleet).showing(fleet)
    }

    /// One that shows none.
    pub(crate) fn trusting(fleet: &Fleet) -> Self {
        Self::default().file("transport/link/tls/root_ca_certificate", &fleet.path("ca.pem"))
    }

    /// The same that shows the certificate of the vehicle of `fleet`.
    pub(crate) fn showing(self, fleet: &Fleet) -> Self {
        self.file("transport/link/tls/connect_certificate", &fleet.path("vehicle.pem"))
            .file("transport/link/tls/connect_private_key", &fleet.path("vehicle.key"))
            .with("transport/link/tls/enable_mtls", true)
    }
}
