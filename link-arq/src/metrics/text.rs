// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The figures of the process in the OpenMetrics text format.

use std::{fmt, time::UNIX_EPOCH};

use arq_proto::{LaneId, LaneStats, Reliability, VERSION};
use prometheus_client::{
    collector::Collector,
    encoding::{text::encode, DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet},
    metrics::{info::Info, MetricType},
    registry::{Registry, Unit},
};

use crate::statistics::{
    priority_name, process_statistics, statistics, AssociationStats, Figure, Read, FIGURES,
    LANE_FIGURES, PROCESS_FIGURES,
};

/// What every name begins with.
const PREFIX: &str = "arq";
/// What tells which build this is, without the prefix and the ending that OpenMetrics gives it.
const BUILD: &str = "build";
/// What whoever built this said it was made of.
const COMMIT: Option<&str> = option_env!("ARQ_COMMIT");

/// How the `arq/` links of this process stand, in the OpenMetrics text format 1.0.
#[must_use]
pub fn openmetrics() -> String {
    render(statistics())
}

fn render(links: Vec<AssociationStats>) -> String {
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
    registry.register_collector(Box::new(Snapshot(links)));
    let mut text = String::new();
    // A string takes everything.
    let _ = encode(&mut text, &registry);
    text
}

/// The links at one moment.
#[derive(Debug)]
struct Snapshot(Vec<AssociationStats>);

type Label = (&'static str, String);

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let process = process_statistics(&self.0);
        for figure in PROCESS_FIGURES {
            alone(&mut encoder, figure, &process)?;
        }
        let links: Vec<_> = self.0.iter().map(|link| (link_labels(link), link.clone())).collect();
        for figure in FIGURES {
            family(&mut encoder, figure, links.iter())?;
        }
        identities(&mut encoder, &self.0)?;
        let lanes: Vec<_> = self.0.iter().flat_map(used_lanes).collect();
        for figure in LANE_FIGURES {
            family(&mut encoder, figure, lanes.iter())?;
        }
        Ok(())
    }
}

/// One figure of the process.
fn alone<S>(encoder: &mut DescriptorEncoder<'_>, figure: &Figure<S>, stats: &S) -> fmt::Result {
    let unit = unit(figure);
    let metric =
        encoder.encode_descriptor(figure.name, figure.meaning, unit.as_ref(), kind(figure))?;
    value(metric, &figure.read, stats)
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
fn family<'a, L: EncodeLabelSet + 'a, S: 'a>(
    encoder: &mut DescriptorEncoder<'_>,
    figure: &Figure<S>,
    members: impl Iterator<Item = &'a (L, S)>,
) -> fmt::Result {
    let unit = unit(figure);
    let mut family =
        encoder.encode_descriptor(figure.name, figure.meaning, unit.as_ref(), kind(figure))?;
    for (labels, stats) in members {
        value(family.encode_family(labels)?, &figure.read, stats)?;
    }
    Ok(())
}

fn unit<S>(figure: &Figure<S>) -> Option<Unit> {
    figure.unit.map(|unit| Unit::Other(unit.to_owned()))
}

fn kind<S>(figure: &Figure<S>) -> MetricType {
    match figure.read {
        Read::Counter(_) => MetricType::Counter,
        Read::Gauge(_) => MetricType::Gauge,
    }
}

fn value<S>(mut encoder: MetricEncoder<'_>, read: &Read<S>, stats: &S) -> fmt::Result {
    match read {
        Read::Counter(read) => encoder.encode_counter::<NoLabelSet, _, u64>(&read(stats), None),
        Read::Gauge(read) => encoder.encode_gauge(&read(stats)),
    }
}

/// The number tells links apart whose addresses are the same, such as that of a restarted peer and
/// the one before.
fn link_labels(link: &AssociationStats) -> Vec<Label> {
    vec![("link", link.id.to_string()), ("src", link.src_address()), ("dst", link.dst_address())]
}

/// The lanes that have carried something: most links use few of the sixteen.
fn used_lanes(link: &AssociationStats) -> impl Iterator<Item = (Vec<Label>, LaneStats)> + '_ {
    let lanes = LaneId::all().zip(link.stats.lanes);
    lanes.filter(|(_, lane)| *lane != LaneStats::default()).map(|(id, lane)| {
        let reliability = match id.reliability() {
            Reliability::Reliable => "reliable",
            Reliability::BestEffort => "best_effort",
        };
        let mut labels = link_labels(link);
        labels.push(("priority", priority_name(id).to_owned()));
        labels.push(("reliability", reliability.to_owned()));
        (labels, lane)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use arq_proto::Stats;

    use super::*;

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
            security: "mtls",
            peer: Some("router \"7\"".to_owned()),
            certificate_expires: Some(UNIX_EPOCH + Duration::from_secs(2_000_000_000)),
            stats,
        }
    }

    #[test]
    fn names_units_labels_and_values() {
        let text = render(vec![link(1), link(2)]);
        let labels = r#"link="2",src="arq/[::1]:40000",dst="arq/[::1]:7447""#;
        for line in [
            "# TYPE arq_links gauge".to_owned(),
            "arq_links 2.0".to_owned(),
            format!(
                "arq_build_info{{version=\"0.1.0\",commit=\"{}\",protocol=\"0x61727101\"}} 1",
                COMMIT.unwrap_or("unknown")
            ),
            "# UNIT arq_rtt_smoothed_seconds seconds".to_owned(),
            format!("arq_rtt_smoothed_seconds{{{labels}}} 0.02"),
            format!("arq_link_info{{{labels},security=\"mtls\",peer=\"router \\\"7\\\"\"}} 1"),
            format!("arq_certificate_expires_seconds{{{labels}}} 2000000000.0"),
            "# TYPE arq_sent_bytes counter".to_owned(),
            format!("arq_sent_bytes_total{{{labels}}} 18446744073709551613"),
            format!(
                "arq_lane_messages_sent_total{{{labels},priority=\"data\",\
                 reliability=\"best_effort\"}} 7"
            ),
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
        let links = [names(FIGURES), names(LANE_FIGURES)].concat();
        let process = names(PROCESS_FIGURES);
        for name in links.iter().chain(&process) {
            // A type is that of a family, whose name does not say that it only grows.
            let family = name.strip_suffix("_total").unwrap_or(name);
            assert!(none.contains(&format!("\n# TYPE {family} ")), "{name}\n{none}");
        }
        for name in links {
            assert!(one.contains(&format!("\n{name}{{")), "{name}\n{one}");
        }
        for name in process {
            assert!(none.contains(&format!("\n{name} ")), "{name}\n{none}");
        }
    }
}
