// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! The `arq/` links of a node in zenoh's admin space, where `zenoh`'s own links are looked for, too.
//!
//! | key | value |
//! |---|---|
//! | `@/ZID/arq/link/N` | link number *N* as JSON: its locators and figures; of lanes and paths a list for each figure |
//! | `@/ZID/arq/metrics` | all as OpenMetrics text |
//!
//! What each figure means: `docs/statistics.md`.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::mpsc::sync_channel;
use std::thread;

use prometheus_parse::{Labels, Sample, Scrape, Value};
use serde_json::{json, Map};
use zenoh::bytes::Encoding;
use zenoh::key_expr::KeyExpr;
use zenoh::query::{Query, Queryable};
use zenoh::session::ZenohId;
use zenoh::{Session, Wait};

/// Queries that may wait for their answer; further ones get none.
const MOST_QUERIES: usize = 64;
/// Labels that every figure of a link has, and its JSON once.
const OF_LINK: [&str; 3] = ["link", "src_locator", "dst_locator"];

/// Shows the links of this process in the admin space of `session`, until the result is dropped.
///
/// # Errors
/// What zenoh answers, for example where the session is closed.
pub fn publish(session: &Session) -> zenoh::Result<Queryable<()>> {
    let zid = session.info().zid().wait();
    publish_as(session, zid, || Some(zenoh_link_arq::metrics::openmetrics()))
}

/// The same of the node `zid`, of which `openmetrics` tells how its links stand, on a thread of its own; where it tells
/// nothing, queries have no answer.
///
/// # Errors
/// As [`publish`].
pub fn publish_as(
    session: &Session,
    zid: ZenohId,
    openmetrics: impl Fn() -> Option<String> + Send + 'static,
) -> zenoh::Result<Queryable<()>> {
    let (sender, queries) = sync_channel::<Query>(MOST_QUERIES);
    // zenoh's threads do not wait for the figures.
    let take = move |query| drop(sender.try_send(query));
    let queryable = session.declare_queryable(format!("@/{zid}/arq/**")).callback(take).wait()?;
    thread::Builder::new().name("arq-admin".to_owned()).spawn(move || {
        for query in queries {
            let Some(text) = openmetrics() else { continue };
            if let Err(error) = answer(&query, zid, text) {
                // Whoever asked has gone, or the session ends.
                eprintln!("{query}: {error}");
            }
        }
    })?;
    Ok(queryable)
}

fn answer(query: &Query, zid: ZenohId, text: String) -> zenoh::Result<()> {
    let reply = |key: String, value: String, encoding: Encoding| -> zenoh::Result<()> {
        let key = KeyExpr::try_from(key)?;
        if query.key_expr().intersects(&key) {
            query.reply(key, value).encoding(encoding).wait()?;
        }
        Ok(())
    };
    for (number, link) in links(&text) {
        reply(format!("@/{zid}/arq/link/{number}"), link.to_string(), Encoding::APPLICATION_JSON)?;
    }
    reply(format!("@/{zid}/arq/metrics"), text, Encoding::TEXT_PLAIN)
}

/// The figures of each link.
fn links(openmetrics: &str) -> BTreeMap<u64, serde_json::Value> {
    let lines = openmetrics.lines().map(|line| Ok(line.to_owned()));
    let samples = Scrape::parse(lines).map(|scrape| scrape.samples).unwrap_or_default();
    let mut links = BTreeMap::<u64, Map<String, serde_json::Value>>::new();
    for Sample { metric, value, labels, .. } in samples {
        let (Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value)) = value else {
            continue;
        };
        let Some(number) = labels.get("link").and_then(|number| number.parse().ok()) else {
            continue;
        };
        let link = links.entry(number).or_default();
        for name in &OF_LINK[1..] {
            link.entry(*name).or_insert_with(|| labels.get(name).into());
        }
        let mut part = rest(&labels);
        if part.is_empty() {
            link.insert(metric, value.into());
        } else if let Some(parts) = link.entry(metric).or_insert_with(|| json!([])).as_array_mut() {
            part.insert("value".to_owned(), value.into());
            parts.push(part.into());
        }
    }
    links.into_iter().map(|(number, link)| (number, link.into())).collect()
}

/// What tells the parts of a link apart that have the figure.
fn rest(labels: &Labels) -> Map<String, serde_json::Value> {
    let rest = labels.iter().filter(|(name, _)| !OF_LINK.contains(&name.as_str()));
    rest.map(|(name, value)| (name.clone(), value.as_str().into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_an_object_and_its_lanes_are_lists() {
        let text = "# TYPE arq_links gauge\narq_links 1.0\n\
             # TYPE arq_rtt_smoothed_seconds gauge\n\
             arq_rtt_smoothed_seconds{link=\"7\",src_locator=\"arq/a:1\",dst_locator=\"arq/b:2\"} 0.02\n\
             # TYPE arq_lane_messages_sent counter\n\
             arq_lane_messages_sent_total{link=\"7\",src_locator=\"arq/a:1\",dst_locator=\"arq/b:2\",priority=\"data\"} 3\n\
             nonsense{\n# EOF\n";
        let expected = json!({
            "src_locator": "arq/a:1",
            "dst_locator": "arq/b:2",
            "arq_rtt_smoothed_seconds": 0.02,
            "arq_lane_messages_sent_total": [{ "priority": "data", "value": 3.0 }],
        });
        assert_eq!(links(text), BTreeMap::from([(7, expected)]));
        assert_eq!(links("<html>"), BTreeMap::new());
    }
}
