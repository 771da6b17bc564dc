// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The section `transport/link/tls` of zenoh's configuration, for `arq/` endpoints.

use zenoh_config::Config;
use zenoh_link_commons::ConfigurationInspector;
use zenoh_result::ZResult;

/// Gives each `arq/` endpoint what its node has for `tls/` and `quic/`. The keys of an endpoint win over it; it wins over
/// those of the file that `config` names, since zenoh hands it over as if it stood in the locator.
#[derive(Debug, Default, Clone, Copy)]
pub struct ArqConfigurator;

impl ConfigurationInspector<Config> for ArqConfigurator {
    #[cfg(feature = "tls")]
    fn inspect_config(&self, config: &Config) -> ZResult<String> {
        zenoh_link_commons::quic::TlsConfigurator.inspect_config(config)
    }

    /// Certificates that this build cannot use must not end in clear links.
    #[cfg(not(feature = "tls"))]
    fn inspect_config(&self, config: &Config) -> ZResult<String> {
        let tls = config.transport().link().tls();
        let files = [
            tls.root_ca_certificate(),
            tls.listen_certificate(),
            tls.listen_private_key(),
            tls.connect_certificate(),
            tls.connect_private_key(),
        ];
        let embedded = [
            tls.root_ca_certificate_base64(),
            tls.listen_certificate_base64(),
            tls.listen_private_key_base64(),
            tls.connect_certificate_base64(),
            tls.connect_private_key_base64(),
        ];
        let has_certificates =
            files.iter().any(|file| file.is_some()) || embedded.iter().any(|pem| pem.is_some());
        Ok(if has_certificates { "security=tls".to_owned() } else { String::new() })
    }
}
