// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! From keys and files to TLS. Errors name the key and the file, and nothing of what is in it.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use arq_tls::{
    rustls::{sign::SingleCertAndKey, ClientConfig, ServerConfig},
    Psks, ServerName, Tls, Trust,
};
use base64::{prelude::BASE64_STANDARD, Engine};
use zeroize::Zeroizing;

use crate::config::{Policy, SecurityConfig, Source};

/// Longer than any certificate, key or list: who names a device by mistake hears of it.
const MAX_FILE_BYTES: u64 = 16 << 20;

type Secret = Zeroizing<Vec<u8>>;

/// Connects by certificates or a pre-shared key.
pub(super) fn client(config: &SecurityConfig, policy: Policy) -> Result<Tls, String> {
    if policy == Policy::Psk {
        let psks = psks(config)?;
        let client = psks.client_config().map_err(|error| error.to_string())?;
        return Ok(Tls::client(client, ServerName::Any, Some(&psks)));
    }
    let name = match (config.verify_name_on_connect, config.text("server_name")) {
        (false, _) => ServerName::Any,
        (true, Some(name)) => ServerName::Fixed(name.to_owned()),
        (true, None) => ServerName::Asked,
    };
    let client = by_certificates(config, &name)?;
    Ok(Tls::client(client, name, knock(config, policy)?.as_ref()))
}

fn by_certificates(config: &SecurityConfig, name: &ServerName) -> Result<ClientConfig, String> {
    let own = match config.enable_mtls {
        true => Some(own_certificate(config, "connect_certificate", "connect_private_key")?),
        false => None,
    };
    let mut servers = Trust::default();
    let has_authorities = add_authorities(&mut servers, config)?;
    if config.webpki_roots || !has_authorities {
        servers.add_public_authorities();
    }
    add_revocation_lists(&mut servers, config)?;
    arq_tls::client_config(own, &servers, name).map_err(|error| error.to_string())
}

/// What a listener accepts by, and whom it answers.
pub(super) fn server(
    config: &SecurityConfig,
    policy: Policy,
) -> Result<(ServerConfig, Option<Psks>), String> {
    if policy == Policy::Psk {
        let psks = psks(config)?;
        let server = psks.server_config().map_err(|error| error.to_string())?;
        return Ok((server, Some(psks)));
    }
    let own = own_certificate(config, "listen_certificate", "listen_private_key")?;
    let mut clients = None;
    if config.enable_mtls {
        let mut trust = Trust::default();
        if !add_authorities(&mut trust, config)? {
            return Err(
                "`enable_mtls` needs `root_ca_certificate_file`: the public authorities vouch \
                        for anybody"
                    .to_owned(),
            );
        }
        add_revocation_lists(&mut trust, config)?;
        clients = Some(trust);
    }
    let server =
        arq_tls::server_config(own, clients.as_ref()).map_err(|error| error.to_string())?;
    Ok((server, knock(config, policy)?))
}

fn knock(config: &SecurityConfig, policy: Policy) -> Result<Option<Psks>, String> {
    match policy {
        Policy::Certificates { knock: true } => psks(config).map(Some),
        _ => Ok(None),
    }
}

/// The files that a listener reads.
pub(super) fn of_listener(config: &SecurityConfig) -> Vec<PathBuf> {
    let given = ["listen_certificate", "listen_private_key", "root_ca_certificate", "psk"]
        .into_iter()
        .filter_map(|what| config.given(what))
        .filter(|(_, _, source)| *source == Source::File)
        .map(|(_, path, _)| PathBuf::from(path.expose()));
    given.chain(config.text("crl_file").map(PathBuf::from)).collect()
}

fn own_certificate(
    config: &SecurityConfig,
    certificate: &str,
    key: &str,
) -> Result<Arc<SingleCertAndKey>, String> {
    let missing = |what| format!("`{what}_file` is missing: a secured link needs it");
    let (certificate_key, chain) =
        given(config, certificate)?.ok_or_else(|| missing(certificate))?;
    let (private_key, key) = given(config, key)?.ok_or_else(|| missing(key))?;
    arq_tls::certified_key(&chain, &key)
        .map_err(|error| format!("{certificate_key} and {private_key}: {error}"))
}

fn add_authorities(trust: &mut Trust, config: &SecurityConfig) -> Result<bool, String> {
    let Some((key, pem)) = given(config, "root_ca_certificate")? else { return Ok(false) };
    trust.add_authorities(&pem).map_err(|error| format!("{key}: {error}"))?;
    Ok(true)
}

fn add_revocation_lists(trust: &mut Trust, config: &SecurityConfig) -> Result<(), String> {
    let Some(path) = config.text("crl_file") else { return Ok(()) };
    let key = format!("`crl_file={path}`");
    let pem = read(Path::new(path)).map_err(|error| format!("{key}: {error}"))?;
    trust.add_revocation_lists(&pem).map_err(|error| format!("{key}: {error}"))
}

fn psks(config: &SecurityConfig) -> Result<Psks, String> {
    let Some((key, text)) = given(config, "psk")? else {
        return Err("`psk_file` is missing".to_owned());
    };
    let text = std::str::from_utf8(&text).map_err(|_| format!("{key}: it is no text"))?;
    Psks::parse(text).map_err(|error| format!("{key}: {error}"))
}

/// What is given of `what`, and the words to name it in an error.
fn given(config: &SecurityConfig, what: &str) -> Result<Option<(String, Secret)>, String> {
    let Some((key, value, source)) = config.given(what) else { return Ok(None) };
    let named = match source {
        Source::File => format!("`{key}={}`", value.expose()),
        Source::Text | Source::Base64 => format!("`{key}`"),
    };
    let bytes = match (source, what) {
        // A pre-shared key is base64 wherever it stands.
        (Source::Text, _) | (Source::Base64, "psk") => value.expose().as_bytes().to_vec(),
        (Source::Base64, _) => BASE64_STANDARD
            .decode(value.expose())
            .map_err(|_| format!("{named}: it is not base64"))?,
        (Source::File, _) => {
            let path = Path::new(value.expose());
            let failed = |error: io::Error| format!("{named}: {error}");
            if what == "psk" {
                is_private(path).map_err(failed)?;
            }
            return Ok(Some((named.clone(), read(path).map_err(failed)?)));
        }
    };
    Ok(Some((named, Zeroizing::new(bytes))))
}

fn read(path: &Path) -> io::Result<Secret> {
    let mut bytes = Zeroizing::new(Vec::new());
    let read = File::open(path)?.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    if read as u64 == MAX_FILE_BYTES {
        return Err(io::Error::other("it is too long for what it should be"));
    }
    Ok(bytes)
}

/// Whether only the owner and the group can read the secret at `path`.
#[cfg(unix)]
fn is_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    match path.metadata()?.permissions().mode() & 0o007 {
        0 => Ok(()),
        _ => Err(io::Error::other("all users of this host can use it: `chmod o= FILE`")),
    }
}

#[cfg(not(unix))]
fn is_private(_path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests;
