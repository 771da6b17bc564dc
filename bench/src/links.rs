// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Can a link that somebody has written down be opened at all? Asked of zenoh before anything is measured.

use arq_report::opponent::{Carrier, Opponent};
use arq_report::scenario::Scenario;
use zenoh::config::EndPoint;
use zenoh_link_arq::config::LinkConfig;
use zenoh_link_arq::ARQ_LOCATOR_PREFIX;

/// A link of a scenario that cannot be opened as it is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("scenario `{scenario}`, link `{link}`: {flaw}")]
pub struct FlawedLink {
    /// The scenario's name.
    pub scenario: String,
    /// The link's.
    pub link: String,
    /// What is wrong.
    pub flaw: Flaw,
}

/// What is wrong with a link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// No place for the address.
    #[error("its `endpoint` must hold {{host}} and {{port}}")]
    NoAddress,
    /// Not a locator, or with keys that `arq/` does not have.
    #[error("`endpoint`: {0}")]
    Endpoint(String),
    /// A protocol that no scenario measures: a first build does not wait for it.
    #[error("this program is built without `ws/`: build it with `--features ws`")]
    LeftOut,
    /// Not in zenoh's configuration.
    #[error("`zenoh.\"{key}\"`: {why}")]
    Zenoh {
        /// The path of the key.
        key: String,
        /// Zenoh's words.
        why: String,
    },
}

/// Checks the links of a scenario, and those that it only brings along.
///
/// # Errors
/// The first that its carrier would refuse, or that this program is built without.
pub fn check(scenario: &Scenario) -> Result<(), FlawedLink> {
    let all = scenario.links.iter().chain(&scenario.rivals).chain(scenario.own_links());
    all.into_iter().try_for_each(|link| {
        check_link(link).map_err(|flaw| FlawedLink {
            scenario: scenario.name.clone(),
            link: link.name.clone(),
            flaw,
        })
    })
}

/// Reads what a link is made of as its carrier would, without opening anything.
fn check_link(link: &Opponent) -> Result<(), Flaw> {
    if link.carrier != Carrier::Zenoh {
        return Ok(());
    }
    if !["{host}", "{port}"].iter().all(|place| link.endpoint.contains(place)) {
        return Err(Flaw::NoAddress);
    }
    let somewhere = link.endpoint.replace("{host}", "127.0.0.1").replace("{port}", "7447");
    let endpoint: EndPoint =
        somewhere.parse().map_err(|e: zenoh::Error| Flaw::Endpoint(e.to_string()))?;
    if endpoint.protocol().as_str() == "ws" && !cfg!(feature = "ws") {
        return Err(Flaw::LeftOut);
    }
    if endpoint.protocol().as_str() == ARQ_LOCATOR_PREFIX {
        LinkConfig::parse(&endpoint).map_err(|e| Flaw::Endpoint(e.to_string()))?;
    }
    let mut config = zenoh::Config::default();
    link.zenoh.iter().try_for_each(|(key, value)| {
        let taken = config.insert_json5(key, value);
        taken.map_err(|why| Flaw::Zenoh { key: key.clone(), why: why.to_string() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_link_can_be_opened() {
        for link in arq_report::opponent::all() {
            let is_there = cfg!(feature = "ws") || link.name != "ws";
            let expected = if is_there { Ok(()) } else { Err(Flaw::LeftOut) };
            assert_eq!(check_link(&link), expected, "{}", link.name);
        }
    }

    #[test]
    fn what_zenoh_would_refuse_is_named() {
        for (link, expected) in [
            ("name = 'x'\nendpoint = 'udp/1.2.3.4:5'", "`endpoint` must hold {host} and {port}"),
            ("name = 'x'\nendpoint = 'udp:{host}:{port}'", "`endpoint`: "),
            (
                "name = 'arq-x'\nours = true\nendpoint = 'arq/{host}:{port}#quue_age_ms=5'",
                "unknown key `quue_age_ms`",
            ),
            (
                "name = 'x'\nendpoint = 'tcp/{host}:{port}'\nzenoh = { 'transport/lnk' = '1' }",
                "`zenoh.\"transport/lnk\"`: ",
            ),
        ] {
            let quick = arq_report::scenario::find("quick").unwrap().text;
            let text = format!("{quick}\n[[link]]\nabout = 'x'\n{link}");
            let scenario = arq_report::scenario::read("mine", "mine.toml", &text).unwrap();
            let error = check(&scenario).unwrap_err().to_string();
            assert!(error.starts_with("scenario `mine`, link `"), "{error}");
            assert!(error.contains(expected), "{link}: {error}");
        }
    }
}
