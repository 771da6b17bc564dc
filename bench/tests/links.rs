// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Does every link of `bench/links.toml` mean something to zenoh and to `arq/`?
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use arq_bench::opponent::{self, Carrier};
use zenoh::config::EndPoint;
use zenoh_link_arq::config::LinkConfig;

fn endpoint(text: &str) -> EndPoint {
    text.replace("{host}", "127.0.0.1").replace("{port}", "7447").parse().unwrap()
}

#[test]
fn zenoh_reads_every_locator() {
    for link in opponent::all().iter().filter(|link| link.carrier == Carrier::Zenoh) {
        let endpoint = endpoint(&link.endpoint);
        assert_eq!(endpoint.protocol().as_str(), link.endpoint.split('/').next().unwrap());
    }
}

#[test]
fn arq_knows_every_key_of_its_locators() {
    for link in opponent::all().iter().filter(|link| link.ours) {
        let parsed = LinkConfig::parse(&endpoint(&link.endpoint));
        assert!(parsed.is_ok(), "{}: {}", link.name, parsed.unwrap_err());
    }
}

#[test]
fn zenoh_takes_the_configuration_of_every_link() {
    for link in opponent::all() {
        let mut config = zenoh::Config::default();
        for (key, value) in &link.zenoh {
            let taken = config.insert_json5(key, value);
            assert!(taken.is_ok(), "{}: {key}: {}", link.name, taken.unwrap_err());
        }
    }
}
