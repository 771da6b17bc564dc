// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Files of a listener that are renewed while it listens.

use std::{path::PathBuf, sync::Arc, time::Duration};

use arq_tls::Tls;

use super::files;
use crate::config::{Policy, SecurityConfig};

/// How often the files are looked at.
const PERIOD: Duration = Duration::from_secs(10);

/// Reads the files of a listener again when they have changed. By default there are none.
#[derive(Debug, Default)]
pub(crate) struct Renewal(Option<Watched>);

#[derive(Debug)]
struct Watched {
    tls: Arc<Tls>,
    config: SecurityConfig,
    policy: Policy,
    seen: Vec<Stamp>,
    /// The error that was told last.
    told: String,
}

/// What shows that a file is another one: when it was written, its length, and which file it is.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    is: Option<(std::time::SystemTime, u64, u64)>,
}

impl Renewal {
    /// What a listener accepts by now, and what keeps that up to date.
    pub(super) fn begin(
        config: &SecurityConfig,
        policy: Policy,
    ) -> Result<(Arc<Tls>, Self), String> {
        // Before they are read: what changes meanwhile is read again.
        let seen = stamps(config);
        let (server, psks) = files::server(config, policy)?;
        let tls = Arc::new(Tls::server(server, psks.as_ref()));
        let watched =
            Watched { tls: tls.clone(), config: config.clone(), policy, seen, told: String::new() };
        Ok((tls, Self(Some(watched).filter(|watched| !watched.seen.is_empty()))))
    }

    /// Looks at the files for ever.
    pub(crate) async fn run(mut self) {
        loop {
            tokio::time::sleep(PERIOD).await;
            if let Some(watched) = &mut self.0 {
                watched.look();
            }
        }
    }
}

impl Watched {
    /// Takes what the files hold now, if they have changed and fit together. Otherwise what was there stays in force, and
    /// the next look tries again: files are replaced one after the other.
    fn look(&mut self) {
        let stamps = stamps(&self.config);
        if stamps == self.seen {
            return;
        }
        match files::server(&self.config, self.policy) {
            Ok((server, psks)) => {
                self.tls.renew(server, psks.as_ref());
                (self.seen, self.told) = (stamps, String::new());
                tracing::info!("arq: a listener has read its certificates and keys again");
            }
            Err(error) if error != self.told => {
                tracing::warn!(
                    "arq: a listener goes on with the certificates and keys it has: {error}"
                );
                self.told = error;
            }
            Err(_) => {}
        }
    }
}

fn stamps(config: &SecurityConfig) -> Vec<Stamp> {
    let stamp = |path: PathBuf| {
        let is = path.metadata().ok().and_then(|metadata| {
            #[cfg(unix)]
            let file = std::os::unix::fs::MetadataExt::ino(&metadata);
            #[cfg(not(unix))]
            let file = 0;
            Some((metadata.modified().ok()?, metadata.len(), file))
        });
        Stamp { path, is }
    };
    files::of_listener(config).into_iter().map(stamp).collect()
}

#[cfg(test)]
mod tests;
