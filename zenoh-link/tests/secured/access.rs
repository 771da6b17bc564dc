// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! zenoh's rules of access by the names in certificates hold for `arq/` as for `quic/`.

use crate::{
    chosen_port, connect, listen,
    pki::{Fleet, Wanted, VEHICLE},
    settings::Settings,
    support::patiently,
};

const OTHER: &str = "vehicle-8";

/// What the first of two subjects may say, and the second.
fn rules_for(subjects: [&str; 2]) -> String {
    let [first, second] = subjects;
    format!(
        r#"{{
            enabled: true,
            default_permission: "deny",
            rules: [
                {{ id: "own", permission: "allow", messages: ["put"], key_exprs: ["fleet/own"] }},
                {{ id: "sign", permission: "allow", messages: ["put"], key_exprs: ["fleet/sign"] }},
            ],
            subjects: [{{ id: "first", {first} }}, {{ id: "second", {second} }}],
            policies: [
                {{ rules: ["own", "sign"], subjects: ["first"] }},
                {{ rules: ["sign"], subjects: ["second"] }},
            ],
        }}"#
    )
}

/// What a router with these rules hears of a vehicle that says both.
async fn heard(
    protocol: &str,
    keys: &str,
    rules: &str,
    [router, vehicle]: [Settings; 2],
) -> Vec<String> {
    let endpoint = format!("{protocol}/localhost:0{keys}");
    let router = listen(&endpoint, &router.with("access_control", rules).pairs()).await;
    let heard = router.declare_subscriber("fleet/**").await.unwrap();
    let there = chosen_port(&endpoint, &router).await;
    let vehicle = connect(&there, &vehicle.pairs()).await.unwrap();
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

/// The same of a vehicle of this name.
async fn heard_of(protocol: &str, name: &'static str) -> Vec<String> {
    let fleet = Fleet::new();
    fleet.certify("vehicle", &Wanted::of(name));
    let ends = [Settings::router(&fleet), Settings::vehicle(&fleet)];
    let subjects = [VEHICLE, OTHER]
        .map(|name| format!("cert_common_names: [{name:?}], link_protocols: [\"quic\"]"));
    let rules = rules_for(subjects.each_ref().map(String::as_str));
    heard(protocol, "", &rules, ends).await
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_by_name_hold_for_both_links() {
    for protocol in ["arq", "quic"] {
        assert_eq!(heard_of(protocol, VEHICLE).await, ["fleet/own", "fleet/sign"], "{protocol}");
        assert_eq!(heard_of(protocol, OTHER).await, ["fleet/sign"], "{protocol}");
    }
}

/// To zenoh a link that can be read is one of `udp`, a sealed one is one of `quic`, by whatever it is sealed.
#[tokio::test(flavor = "multi_thread")]
async fn rules_by_protocol_tell_clear_links_from_sealed_ones() {
    let fleet = Fleet::new();
    fleet.psk("psk");
    let psk = format!("#psk_file={}", fleet.path("psk").display());
    let certificates = [Settings::router(&fleet), Settings::vehicle(&fleet)];
    let nothing = [Settings::default(), Settings::default()];
    for (keys, ends, kind) in
        [("", &nothing, "udp"), (psk.as_str(), &nothing, "quic"), ("", &certificates, "quic")]
    {
        for (first, second) in [("udp", "quic"), ("quic", "udp")] {
            let subjects = [first, second].map(|kind| format!("link_protocols: [{kind:?}]"));
            let rules = rules_for(subjects.each_ref().map(String::as_str));
            let expected: &[_] =
                if kind == first { &["fleet/own", "fleet/sign"] } else { &["fleet/sign"] };
            let heard = heard("arq", keys, &rules, ends.clone()).await;
            assert_eq!(heard, expected, "{first} may say more, over a link of {kind}");
        }
    }
}
