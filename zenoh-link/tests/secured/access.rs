// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! zenoh's rules of access by the names in certificates hold for `arq/` as for `quic/`.

use crate::{
    chosen_port, connect, listen,
    pki::{Fleet, Settings, Wanted, VEHICLE},
    support::patiently,
};

const OTHER: &str = "vehicle-8";

/// One vehicle may say two things, the other one of them.
const RULES: &str = r#"{
    enabled: true,
    default_permission: "deny",
    rules: [
        { id: "own", permission: "allow", messages: ["put"], key_exprs: ["fleet/own"] },
        { id: "sign", permission: "allow", messages: ["put"], key_exprs: ["fleet/sign"] },
    ],
    subjects: [
        { id: "seven", cert_common_names: ["vehicle-7"], link_protocols: ["quic"] },
        { id: "eight", cert_common_names: ["vehicle-8"], link_protocols: ["quic"] },
    ],
    policies: [
        { rules: ["own", "sign"], subjects: ["seven"] },
        { rules: ["sign"], subjects: ["eight"] },
    ],
}"#;

/// What a router hears of a vehicle that says both.
async fn heard_of(protocol: &str, name: &'static str) -> Vec<String> {
    let fleet = Fleet::new();
    fleet.certify("vehicle", &Wanted::of(name));
    let endpoint = format!("{protocol}/localhost:0");
    let router = Settings::router(&fleet).with("access_control", RULES);
    let router = listen(&endpoint, &router.pairs()).await;
    let heard = router.declare_subscriber("fleet/**").await.unwrap();
    let there = chosen_port(&endpoint, &router).await;
    let vehicle = connect(&there, &Settings::vehicle(&fleet).pairs()).await.unwrap();
    for key in ["fleet/own", "fleet/sign"] {
        vehicle.put(key, "").await.unwrap();
    }
    let mut keys = Vec::new();
    while keys.last().is_none_or(|key| key != "fleet/sign") {
        let sample = patiently("the sign", heard.recv_async()).await.unwrap();
        keys.push(sample.key_expr().to_string());
    }
    keys
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_by_name_hold_for_both_links() {
    for protocol in ["arq", "quic"] {
        assert_eq!(heard_of(protocol, VEHICLE).await, ["fleet/own", "fleet/sign"], "{protocol}");
        assert_eq!(heard_of(protocol, OTHER).await, ["fleet/sign"], "{protocol}");
    }
}
