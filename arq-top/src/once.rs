// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! The links as a table of plain numbers: a heading and a line for each, columns parted by spaces.

use std::fmt::Write;

use crate::figures::{Link, Order};

type Column = (&'static str, fn(&Link) -> String);

/// Each says its unit. New ones go to the end, so that scripts can count.
const COLUMNS: &[Column] = &[
    ("link", |l| l.id.to_string()),
    ("src", |l| l.src.clone()),
    ("dst", |l| l.dst.clone()),
    ("age_s", |l| format!("{:.0}", l.age)),
    ("rtt_ms", |l| format!("{:.3}", l.rtt * 1e3)),
    ("rtt_min_ms", |l| format!("{:.3}", l.rtt_min * 1e3)),
    ("rtt_var_ms", |l| format!("{:.3}", l.rtt_variation * 1e3)),
    ("loss_out_%", |l| format!("{:.1}", l.loss * 1e2)),
    ("loss_in_%", |l| format!("{:.1}", l.reverse_loss * 1e2)),
    ("sent_B", |l| whole(l.sent)),
    ("received_B", |l| whole(l.received)),
    ("packets", |l| whole(l.packets_sent)),
    ("lost", |l| whole(l.lost)),
    ("spurious", |l| whole(l.spurious)),
    ("again", |l| whole(l.again)),
    ("parity", |l| whole(l.parity)),
    ("recovered", |l| whole(l.recovered)),
    ("window_B", |l| whole(l.window)),
    ("in_flight_B", |l| whole(l.in_flight)),
    ("pacing_B/s", |l| whole(l.pacing)),
    ("queued_B", |l| whole(l.queued)),
    ("queue_ms", |l| format!("{:.1}", l.queue_age * 1e3)),
    ("paths", paths),
];

/// Such as `wlan0=open,wwan0=silent`; a link with one path has a dash.
fn paths(link: &Link) -> String {
    let paths: Vec<_> =
        link.paths.iter().map(|(name, path)| format!("{name}={}", path.state)).collect();
    match paths.is_empty() {
        true => "-".to_owned(),
        false => paths.join(","),
    }
}

/// The links in `order`.
pub(crate) fn table(links: &[Link], order: Order) -> String {
    let mut links: Vec<_> = links.iter().collect();
    links.sort_by(|a, b| order.compare((a, [a.sent, a.received]), (b, [b.sent, b.received])));
    let columns: Vec<Vec<String>> = COLUMNS
        .iter()
        .map(|(name, value)| {
            let values = links.iter().map(|link| value(link));
            std::iter::once((*name).to_owned()).chain(values).collect()
        })
        .collect();
    let widths: Vec<_> =
        columns.iter().map(|cells| cells.iter().map(String::len).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for line in 0..=links.len() {
        let cells = columns.iter().zip(&widths);
        let cells: Vec<_> =
            cells.map(|(column, width)| format!("{:>width$}", column[line])).collect();
        // A string takes everything.
        let _ = writeln!(text, "{}", cells.join("  "));
    }
    text
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Path;

    #[test]
    fn a_heading_and_a_line_for_each_link_with_as_many_words() {
        let link = |id, sent| Link {
            id,
            src: "arq/127.0.0.1:40000".into(),
            dst: "arq/127.0.0.1:7447".into(),
            sent,
            rtt: 0.0201,
            loss: 0.102,
            ..Link::default()
        };
        let mut two = link(2, 12_345_678.0);
        let path = |state: &str| Path { state: state.to_owned(), ..Path::default() };
        two.paths = [("wlan0", path("open")), ("wwan0", path("silent"))]
            .map(|(name, path)| (name.to_owned(), path))
            .into();
        let text = table(&[link(1, 5.0), two], Order::Sent);
        let lines: Vec<Vec<_>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.len() == COLUMNS.len()), "{text}");
        let column = |name: &str| lines[0].iter().position(|cell| *cell == name).expect(name);
        assert_eq!(lines[1][column("link")], "2");
        assert_eq!(lines[1][column("sent_B")], "12345678");
        assert_eq!(lines[2][column("rtt_ms")], "20.100");
        assert_eq!(lines[2][column("loss_out_%")], "10.2");
        assert_eq!(lines[1][column("paths")], "wlan0=open,wwan0=silent");
        assert_eq!(lines[2][column("paths")], "-");
        let widths: Vec<_> = text.lines().map(str::len).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
    }

    #[test]
    fn without_links_there_is_the_heading() {
        assert_eq!(table(&[], Order::Link).lines().count(), 1);
    }
}
