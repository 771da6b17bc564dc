// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The figures of the process in the OpenMetrics text format, and in the older one of Prometheus.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, UNIX_EPOCH},
};

use arq_proto::{Histogram, LaneId, LaneStats, Reliability, VERSION};
use arq_tokio::PathInfo;
use prometheus_client::{
    collector::Collector,
    encoding::{text::encode, DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet},
    metrics::{info::Info, MetricType},
    registry::{Registry, Unit},
};

use crate::statistics::{
    priority_name, process_statistics, statistics, totals, AssociationStats, Figure, Read, Totals,
    FIGURES, LANE_FIGURES, PATH_FIGURES, PATH_STATES, PROCESS_FIGURES,
};

/// What every name begins with.
const PREFIX: &str = "arq";
/// What tells which build this is, without the prefix and the ending that OpenMetrics gives it.
const BUILD: &str = "build";
/// What the names of sums over all links begin with.
const PROCESS: &str = "process_";
/// What whoever built this said it was made of.
const COMMIT: Option<&str> = option_env!("ARQ_COMMIT");

/// How the `arq/` links of this process stand, in the OpenMetrics text format 1.0.
#[must_use]
pub fn openmetrics() -> String {
    let (totals, links) = totals(statistics);
    render(links, totals)
}

/// The same in Prometheus' text format 0.0.4: there a family of counters has the name of its samples, and units are
/// comments.
pub(super) fn plain(openmetrics: &str) -> String {
    let described = |line: &'_ str| -> Option<(String, String, String)> {
        let mut words = line.strip_prefix("# ")?.splitn(3, ' ').map(str::to_owned);
        Some((words.next()?, words.next()?, words.next()?))
    };
    let types: BTreeMap<_, _> = openmetrics
        .lines()
        .filter_map(described)
        .filter(|(keyword, ..)| keyword == "TYPE")
        .map(|(_, name, kind)| (name, kind))
        .collect();
    let mut text = String::with_capacity(openmetrics.len());
    for line in openmetrics.lines() {
        let Some((keyword, name, rest)) = described(line) else {
            if !line.starts_with('#') {
                text.extend([line, "\n"]);
            }
            continue;
        };
        let (ending, kind) = match types.get(&name).map(String::as_str) {
            Some("counter") => ("_total", "counter"),
            Some("info") => ("_info", "gauge"),
            Some("histogram") => ("", "histogram"),
            Some(_) | None => ("", "gauge"),
        };
        match keyword.as_str() {
            "TYPE" => text.push_str(&format!("# TYPE {name}{ending} {kind}\n")),
            "HELP" => text.push_str(&format!("# HELP {name}{ending} {rest}\n")),
            _ => {}
        }
    }
    text
}

fn render(links: Vec<AssociationStats>, totals: Totals) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    let build = vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("commit", COMMIT.unwrap_or("unknown").to_owned()),
        ("protocol", format!("{VERSION:#010x}")),
    ];
    registry.register(
        BUILD,
        "What the link was made of, and the protocol that it speaks",
        Info::new(build),
    );
    registry.register_collector(Box::new(Snapshot { links, totals }));
    let mut text = String::new();
    // A string takes everything.
    let _ = encode(&mut text, &registry);
    text
}

/// The links at one moment.
#[derive(Debug)]
struct Snapshot {
    links: Vec<AssociationStats>,
    totals: Totals,
}

type Label = (&'static str, String);

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let process = process_statistics(&self.links);
        for figure in PROCESS_FIGURES {
            let unit = unit(figure);
            let (name, help) = (figure.name, figure.meaning);
            let metric = encoder.encode_descriptor(name, help, unit.as_ref(), kind(figure))?;
            value(metric, &figure.read, &process)?;
        }
        self.encode_totals(&mut encoder)?;
        let links: Vec<_> =
            self.links.iter().map(|link| (link_labels(link), link.clone())).collect();
        for figure in FIGURES {
            family(&mut encoder, figure, &links)?;
        }
        identities(&mut encoder, &self.links)?;
        let lanes: Vec<_> = self.links.iter().flat_map(used_lanes).collect();
        for figure in LANE_FIGURES {
            family(&mut encoder, figure, &lanes)?;
        }
        let paths: Vec<_> = self.links.iter().flat_map(paths).collect();
        for figure in PATH_FIGURES {
            family(&mut encoder, figure, &paths)?;
        }
        path_states(&mut encoder, &paths)
    }
}

impl Snapshot {
    /// The sums of the figures that only grow.
    fn encode_totals(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (figure, sum) in self.totals.links() {
            let (name, help) = in_all(figure);
            let unit = unit(figure);
            let metric =
                encoder.encode_descriptor(&name, &help, unit.as_ref(), MetricType::Counter)?;
            counter(metric, sum)?;
        }
        for (figure, sums) in self.totals.lanes() {
            let (name, help) = in_all(figure);
            let mut metric = encoder.encode_descriptor(&name, &help, None, MetricType::Counter)?;
            for (lane, sum) in LaneId::all().zip(sums).filter(|(_, sum)| *sum > 0) {
                counter(metric.encode_family(&lane_labels(lane))?, sum)?;
            }
        }
        Ok(())
    }
}

/// What the sum of a figure over all links is called, and what it says.
fn in_all<S>(figure: &Figure<S>) -> (String, String) {
    let help = format!("{}; by all links since the process began", figure.meaning);
    (format!("{PROCESS}{}", figure.name), help)
}

/// What protects each link, whom it leads to, and until when.
fn identities(encoder: &mut DescriptorEncoder<'_>, links: &[AssociationStats]) -> fmt::Result {
    let meaning = "What protects the link, and the common name of the peer";
    let mut info = encoder.encode_descriptor("link", meaning, None, MetricType::Info)?;
    for link in links {
        let mut labels = link_labels(link);
        labels.push(("security", link.security.to_owned()));
        labels.push(("peer", link.peer.clone().unwrap_or_default()));
        info.encode_info(&labels)?;
    }
    let meaning = "When the first certificate of the peer's chain expires, since 1970";
    let seconds = Unit::Seconds;
    let mut expires = encoder.encode_descriptor(
        "certificate_expires",
        meaning,
        Some(&seconds),
        MetricType::Gauge,
    )?;
    for link in links {
        let Some(at) = link.certificate_expires else { continue };
        let since_1970 = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        expires.encode_family(&link_labels(link))?.encode_gauge(&since_1970.as_secs_f64())?;
    }
    Ok(())
}

/// One figure of everything that has it.
fn family<L: EncodeLabelSet, S>(
    encoder: &mut DescriptorEncoder<'_>,
    figure: &Figure<S>,
    members: &[(L, S)],
) -> fmt::Result {
    let unit = unit(figure);
    let mut family =
        encoder.encode_descriptor(figure.name, figure.meaning, unit.as_ref(), kind(figure))?;
    for (labels, stats) in members {
        let is_none = matches!(figure.read, Read::Gauge(read) if read(stats).is_nan());
        if !is_none {
            value(family.encode_family(labels)?, &figure.read, stats)?;
        }
    }
    Ok(())
}

fn unit<S>(figure: &Figure<S>) -> Option<Unit> {
    figure.unit.map(|unit| Unit::Other(unit.to_owned()))
}

fn kind<S>(figure: &Figure<S>) -> MetricType {
    match figure.read {
        Read::Counter(_) | Read::By(..) => MetricType::Counter,
        Read::Gauge(_) => MetricType::Gauge,
        Read::Times(_) => MetricType::Histogram,
    }
}

fn value<S>(mut metric: MetricEncoder<'_>, read: &Read<S>, stats: &S) -> fmt::Result {
    match read {
        Read::Counter(read) => counter(metric, read(stats)),
        Read::Gauge(read) => metric.encode_gauge(&read(stats)),
        Read::Times(read) => histogram(metric, &read(stats)),
        Read::By(label, read) => read(stats)
            .into_iter()
            .try_for_each(|(name, count)| counter(metric.encode_family(&[(*label, name)])?, count)),
    }
}

fn counter(mut metric: MetricEncoder<'_>, value: u64) -> fmt::Result {
    metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn histogram(mut metric: MetricEncoder<'_>, times: &Histogram) -> fmt::Result {
    let seconds =
        |bound: Duration| if bound == Duration::MAX { f64::INFINITY } else { bound.as_secs_f64() };
    let buckets: Vec<_> = times.buckets().map(|(bound, count)| (seconds(bound), count)).collect();
    metric.encode_histogram::<NoLabelSet>(times.sum().as_secs_f64(), times.count(), &buckets, None)
}

/// The number tells links apart whose addresses are the same, such as that of a restarted peer and
/// the one before. The names of the others are those of zenoh's own metrics.
fn link_labels(link: &AssociationStats) -> Vec<Label> {
    vec![
        ("link", link.id.to_string()),
        ("src_locator", link.src_address()),
        ("dst_locator", link.dst_address()),
    ]
}

fn lane_labels(lane: LaneId) -> [Label; 2] {
    let reliability = match lane.reliability() {
        Reliability::Reliable => "reliable",
        Reliability::BestEffort => "best-effort",
    };
    [("priority", priority_name(lane)), ("reliability", reliability.to_owned())]
}

/// The lanes that have carried something: most links use few of the sixteen.
fn used_lanes(link: &AssociationStats) -> impl Iterator<Item = (Vec<Label>, LaneStats)> + '_ {
    let lanes = LaneId::all().zip(link.stats.lanes.iter().cloned());
    lanes.filter(|(_, lane)| *lane != LaneStats::default()).map(|(id, lane)| {
        let labels = link_labels(link).into_iter().chain(lane_labels(id)).collect();
        (labels, lane)
    })
}

/// The paths of a link that leads over several interfaces.
fn paths(link: &AssociationStats) -> impl Iterator<Item = (Vec<Label>, PathInfo)> + '_ {
    link.paths.iter().map(|path| {
        let mut labels = link_labels(link);
        // The side that did not choose the interfaces knows them by number.
        let name = path.interface.clone().unwrap_or_else(|| path.stats.number.to_string());
        labels.push(("path", name));
        (labels, path.clone())
    })
}

/// The state of each path: 1 for the one that it is in.
fn path_states(
    encoder: &mut DescriptorEncoder<'_>,
    paths: &[(Vec<Label>, PathInfo)],
) -> fmt::Result {
    let meaning = "Whether the path is in this state";
    let mut family = encoder.encode_descriptor("path_state", meaning, None, MetricType::Gauge)?;
    for (labels, path) in paths {
        for state in PATH_STATES {
            let mut labels = labels.clone();
            labels.push(("state", state.to_string()));
            let is_in = u8::from(path.stats.state == state);
            family.encode_family(&labels)?.encode_gauge(&f64::from(is_in))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arq_proto::Stats;

    use super::*;

    fn render(links: Vec<AssociationStats>) -> String {
        let (totals, links) = totals(|| links);
        super::render(links, totals)
    }

    fn link(id: u64) -> AssociationStats {
        let mut stats = Stats::default();
        stats.srtt = Duration::from_millis(20);
        stats.bytes_sent = u64::MAX - id;
        stats.lanes[11].messages_sent = 7;
        AssociationStats {
            id,
            src: "arq/[::1]:40000".parse().unwrap(),
            dst: "arq/[::1]:7447?rel=1".parse().unwrap(),
            age: Duration::from_secs(5),
            opened_at: UNIX_EPOCH + Duration::from_secs(1_700_000_000),
            security: "mtls",
            peer: Some("router \"7\"".to_owned()),
            certificate_expires: Some(UNIX_EPOCH + Duration::from_secs(2_000_000_000)),
            stats,
            paths: vec![crate::statistics::test_path()],
        }
    }

    #[test]
    fn names_units_labels_and_values() {
        let text = render(vec![link(1), link(2)]);
        let labels = r#"link="2",src_locator="arq/[::1]:40000",dst_locator="arq/[::1]:7447""#;
        for line in [
            "# TYPE arq_links gauge".to_owned(),
            "arq_links 2.0".to_owned(),
            format!(
                "arq_build_info{{version=\"0.1.0\",commit=\"{}\",protocol=\"0x61727101\"}} 1",
                COMMIT.unwrap_or("unknown")
            ),
            "# UNIT arq_rtt_smoothed_seconds seconds".to_owned(),
            format!("arq_link_start_time_seconds{{{labels}}} 1700000000.0"),
            format!("arq_rtt_smoothed_seconds{{{labels}}} 0.02"),
            format!("arq_link_info{{{labels},security=\"mtls\",peer=\"router \\\"7\\\"\"}} 1"),
            format!("arq_certificate_expires_seconds{{{labels}}} 2000000000.0"),
            "# TYPE arq_sent_bytes counter".to_owned(),
            format!("arq_sent_bytes_total{{{labels}}} 18446744073709551613"),
            format!(
                "arq_lane_messages_sent_total{{{labels},priority=\"data\",\
                 reliability=\"best-effort\"}} 7"
            ),
            "# TYPE arq_links_closed counter".to_owned(),
            format!("arq_path_state{{{labels},path=\"0\",state=\"open\"}} 1.0"),
            format!("arq_path_state{{{labels},path=\"0\",state=\"silent\"}} 0.0"),
            format!("arq_path_primary{{{labels},path=\"0\"}} 1.0"),
        ] {
            assert!(text.lines().any(|have| have == line), "{line}\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n"));
        assert!(!text.contains("priority=\"background\""), "an unused lane is not shown");
    }

    #[test]
    fn every_figure_is_in_the_text_even_without_links() {
        fn names<S>(figures: &[Figure<S>]) -> Vec<String> {
            figures.iter().map(Figure::exported_name).collect()
        }
        let (none, one) = (render(Vec::new()), render(vec![link(1)]));
        assert!(none.contains("\narq_links 0.0\n"), "{none}");
        let links = [names(FIGURES), names(LANE_FIGURES), names(PATH_FIGURES)].concat();
        let process = names(PROCESS_FIGURES);
        for name in links.iter().chain(&process) {
            // A type is that of a family, whose name does not say that it only grows.
            let family = name.strip_suffix("_total").unwrap_or(name);
            assert!(none.contains(&format!("\n# TYPE {family} ")), "{name}\n{none}");
        }
        for name in links {
            let has = |series: String| one.contains(&format!("\n{series}{{"));
            assert!(has(name.clone()) || has(format!("{name}_bucket")), "{name}\n{one}");
        }
        for name in process {
            let alone = none.contains(&format!("\n{name} "));
            let first = [("reason", "other"), ("result", "ok")];
            let by_label = first
                .iter()
                .any(|(label, value)| none.contains(&format!("\n{name}{{{label}=\"{value}\"}} ")));
            assert!(alone || by_label, "{name}\n{none}");
        }
        for figure in FIGURES.iter().filter(|figure| figure.is_counter()) {
            let name = figure.exported_name().replacen("arq_", "arq_process_", 1);
            assert!(none.contains(&format!("\n{name} ")), "{name}\n{none}");
        }
    }

    #[test]
    fn plain_text_names_families_as_their_samples_and_has_no_comments() {
        let text = plain(&render(vec![link(1)]));
        let families: Vec<_> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        for line in [
            "arq_sent_bytes_total counter",
            "arq_links gauge",
            "arq_build_info gauge",
            "arq_handshakes_failed_total counter",
            "arq_lane_delivery_seconds histogram",
        ] {
            assert!(families.contains(&line), "{line}\n{text}");
        }
        let mut described = String::new();
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                help.split(' ').next().unwrap_or_default().clone_into(&mut described);
            } else if !line.starts_with("# TYPE ") {
                let name = line.split(['{', ' ']).next().unwrap_or_default();
                let of_histogram = ["_bucket", "_count", "_sum"];
                let family = of_histogram.iter().find_map(|part| name.strip_suffix(part));
                assert!([name, family.unwrap_or_default()].contains(&described.as_str()), "{line}");
            }
        }
    }
}
