// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Asks a process for its statistics.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use prometheus_parse::{Labels, Scrape, Value};
use zenoh_link_arq::metrics::VARIABLE;

use crate::figures::Link;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer, of thousands of links.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// Where a process serves its statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    url: String,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(rest) = text.strip_prefix("http://") {
            let path = if rest.contains('/') { "" } else { "/metrics" };
            return Ok(Self { url: format!("{text}{path}") });
        }
        let address = match text.parse::<u16>() {
            Ok(port) => format!("127.0.0.1:{port}"),
            Err(_) => text.to_owned(),
        };
        let has_port = address.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok_and(|p| p != 0)
        });
        if !has_port {
            return Err("a port, HOST:PORT or http://HOST:PORT/metrics is needed".to_owned());
        }
        Ok(Self { url: format!("http://{address}/metrics") })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl Endpoint {
    /// What the process says of its links.
    ///
    /// # Errors
    /// Why there are no figures, and how to switch them on.
    pub(crate) fn scrape(&self) -> Result<Vec<Link>, String> {
        let text = self.fetch()?;
        parse(&text).ok_or_else(|| {
            format!(
                "what {self} serves are not the statistics of arq/ links: another program's port?"
            )
        })
    }

    /// The text that the process serves.
    ///
    /// # Errors
    /// As [`Self::scrape`].
    pub(crate) fn fetch(&self) -> Result<String, String> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            // The process is here or at the end of a tunnel, never behind a proxy.
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .build()
            .into();
        let mut response = agent.get(&self.url).call().map_err(|error| self.unreachable(&error))?;
        if response.status() != ureq::http::StatusCode::OK {
            return Err(format!("{self} answers {}, not statistics", response.status()));
        }
        let body = response.body_mut().with_config().limit(MAX_ANSWER_BYTES);
        body.read_to_string().map_err(|error| format!("{self}: {error}"))
    }

    fn unreachable(&self, error: &ureq::Error) -> String {
        format!(
            "no statistics at {self}: {error}\n\
             Switch them on in the process to watch, by a locator: arq/0.0.0.0:7447#metrics=9464\n\
             or by its environment: {VARIABLE}=9464. Then: arq-top 9464"
        )
    }
}

/// The links of an answer, in order of their numbers; `None` if it is not about links.
fn parse(text: &str) -> Option<Vec<Link>> {
    let lines = text.lines().map(|line| Ok(line.to_owned()));
    let samples = Scrape::parse(lines).ok()?.samples;
    if !samples.iter().any(|sample| sample.metric == "arq_links") {
        return None;
    }
    let mut links = BTreeMap::new();
    for sample in samples {
        let (Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value)) = sample.value
        else {
            continue;
        };
        let Some(id) = sample.labels.get("link").and_then(|id| id.parse().ok()) else { continue };
        let link: &mut Link = links.entry(id).or_insert_with(|| Link {
            id,
            src: printable(&sample.labels, "src_locator"),
            dst: printable(&sample.labels, "dst_locator"),
            ..Link::default()
        });
        if sample.labels.get("path").is_some() {
            let path = link.paths.entry(printable(&sample.labels, "path")).or_default();
            if sample.metric == "arq_path_state" && value > 0.0 {
                path.state = printable(&sample.labels, "state");
            }
            if let Some(slot) = path.slot(&sample.metric).filter(|_| value.is_finite()) {
                *slot = value;
            }
            continue;
        }
        if let Some(slot) = link.slot(&sample.metric).filter(|_| value.is_finite()) {
            *slot = value;
        }
    }
    Some(links.into_values().collect())
}

/// A label without what a terminal would obey.
fn printable(labels: &Labels, name: &str) -> String {
    labels.get(name).unwrap_or("?").chars().filter(|c| !c.is_control() && *c != ' ').collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_endpoint_is_a_port_an_address_or_a_url() {
        for (text, url) in [
            ("9464", "http://127.0.0.1:9464/metrics"),
            ("robot:9464", "http://robot:9464/metrics"),
            ("[::1]:9464", "http://[::1]:9464/metrics"),
            ("http://robot:9464", "http://robot:9464/metrics"),
            ("http://robot:9464/links", "http://robot:9464/links"),
        ] {
            assert_eq!(text.parse::<Endpoint>().map(|e| e.to_string()), Ok(url.to_owned()));
        }
        for bad in ["", "robot", "99999", ":9464", "robot:0", "https://robot:9464", "0"] {
            assert!(bad.parse::<Endpoint>().is_err(), "{bad}");
        }
    }

    #[test]
    fn figures_come_by_link_and_what_is_unknown_is_left() {
        let text = "# TYPE arq_links gauge\narq_links 2.0\n\
             # TYPE arq_sent_bytes counter\n\
             arq_sent_bytes_total{link=\"2\",src_locator=\"arq/a:1\",dst_locator=\"arq/b\u{1b}[2J:2\"} 7\n\
             arq_sent_bytes_total{link=\"1\",src_locator=\"arq/a:1\",dst_locator=\"arq/c:3\"} NaN\n\
             arq_rtt_smoothed_seconds{link=\"2\",src_locator=\"arq/a:1\",dst_locator=\"arq/b:2\"} 0.02\n\
             arq_path_sent_bytes_total{link=\"2\",path=\"wlan0\"} 5\n\
             arq_path_state{link=\"2\",path=\"wlan0\",state=\"open\"} 0\n\
             arq_path_state{link=\"2\",path=\"wlan0\",state=\"silent\"} 1\n\
             arq_news{link=\"2\"} 1\nnonsense{\n{}} {\n# EOF\n";
        let links = parse(text).expect("it is about links");
        assert_eq!(links.len(), 2);
        assert_eq!((links[0].id, links[0].sent), (1, 0.0));
        assert_eq!((links[1].id, links[1].sent, links[1].rtt), (2, 7.0, 0.02));
        assert_eq!(links[1].dst, "arq/b[2J:2");
        let path = &links[1].paths["wlan0"];
        assert_eq!((path.state.as_str(), path.sent, links[0].paths.len()), ("silent", 5.0, 0));
    }

    #[test]
    fn what_the_link_serves_is_understood_and_others_are_told_apart() {
        assert_eq!(parse(&zenoh_link_arq::metrics::openmetrics()), Some(Vec::new()));
        assert_eq!(parse("# TYPE up gauge\nup 1\n"), None);
        assert_eq!(parse("<html>"), None);
    }

    #[test]
    fn an_unreachable_endpoint_says_how_to_switch_it_on() {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let port = port.expect("a free port").port();
        let endpoint: Endpoint = port.to_string().parse().expect("a port");
        let error = endpoint.scrape().expect_err("nobody is there");
        for said in [&format!("127.0.0.1:{port}"), "#metrics=", "ZENOH_ARQ_METRICS="] {
            assert!(error.contains(said), "{error}");
        }
    }
}
