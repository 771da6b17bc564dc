// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How the links look in the terminal.

use std::collections::VecDeque;
use std::time::Duration;

use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Cell, Paragraph, Row as TableRow, Sparkline, Table, TableState};
use ratatui::Frame;
use zenoh_link_arq::statistics::human::{Bytes, Time};

use crate::figures::Path;
use crate::history::{History, Row};

/// What is on the screen.
pub(crate) struct Screen<'a> {
    /// Where the figures come from.
    pub endpoint: &'a str,
    /// The links.
    pub history: &'a History,
    /// Why there are no newer figures.
    pub trouble: Option<&'a str>,
}

/// Lines of the detail below the table, where there is room for it.
const DETAIL_HEIGHT: u16 = 9;
/// Paths that are shown.
const MOST_PATHS: usize = 4;
/// Lines that the table has at least beside the detail.
const TABLE_HEIGHT: u16 = 6;
/// Columns of the curve in the table.
const CURVE_WIDTH: u16 = 20;

/// Draws everything.
pub(crate) fn draw(frame: &mut Frame, screen: &Screen) {
    let area = frame.area();
    let selected = screen.history.selected().and_then(|at| screen.history.rows().get(at));
    // A line for each path.
    let paths = selected.map_or(0, |row| row.link.paths.len().min(MOST_PATHS) as u16);
    let detail_height = DETAIL_HEIGHT + paths;
    let has_detail = area.height >= detail_height + TABLE_HEIGHT + 2;
    let detail = if has_detail { detail_height } else { 0 };
    let [title, table, below, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(detail),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_title(frame, title, screen);
    draw_table(frame, table, screen.history);
    if let Some(row) = selected.filter(|_| has_detail) {
        draw_detail(frame, below, row);
    }
    let help = "q quit   s sort   up, down choose   loss in %, an upper estimate: 1.0 is none";
    frame.render_widget(Line::from(help).dark_gray(), keys);
}

fn draw_title(frame: &mut Frame, area: Rect, screen: &Screen) {
    let links = screen.history.rows().len();
    let plural = if links == 1 { "" } else { "s" };
    let state = match screen.trouble {
        // The rest of it says how to switch the statistics on, which they were.
        Some(trouble) => trouble.lines().next().unwrap_or_default().to_owned(),
        None => format!("{links} link{plural} by {}", screen.history.order.name()),
    };
    let style = if screen.trouble.is_some() { Color::Red } else { Color::Reset };
    let left = Line::from(vec!["arq-top ".bold(), screen.endpoint.into()]);
    let room = area.width.saturating_sub(left.width() as u16 + 2);
    frame.render_widget(left, area);
    let right = Rect { x: area.right() - room.min(area.width), width: room, ..area };
    frame.render_widget(Paragraph::new(state).style(style).alignment(Alignment::Right), right);
}

/// A column of the table: heading, width, and what stands in it.
type Column = (&'static str, u16, fn(&Row) -> String);

/// In order of appearance. On a narrow terminal the last go first.
const COLUMNS: &[Column] = &[
    ("link", 5, |row| row.link.id.to_string()),
    ("peer", 24, |row| row.link.dst.trim_start_matches("arq/").to_owned()),
    ("rtt", 9, |row| time(row.link.rtt)),
    ("loss out, in", 12, |row| {
        format!("{:.1} {:>4.1}", row.link.loss * 1e2, row.link.reverse_loss * 1e2)
    }),
    ("sent/s", 8, |row| bytes(row.rates.sent)),
    ("recv/s", 8, |row| bytes(row.rates.received)),
    ("queue", 8, |row| time(row.link.queue_age)),
    ("again/s", 7, |row| format!("{:.0}", row.rates.again)),
    ("parity/s", 8, |row| format!("{:.0}", row.rates.parity)),
    ("window", 8, |row| bytes(row.link.window)),
    ("sent/s", CURVE_WIDTH, |row| curve(&row.sent, CURVE_WIDTH.into())),
];

fn draw_table(frame: &mut Frame, area: Rect, history: &History) {
    if history.rows().is_empty() {
        let text = "The process has no arq/ links at the moment.";
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let mut room = area.width;
    let mut columns = Vec::new();
    for column in COLUMNS {
        let Some(left) = room.checked_sub(column.1) else { break };
        room = left.saturating_sub(1);
        columns.push(column);
    }
    let heading = TableRow::new(columns.iter().map(|(name, _, _)| right(name, name)))
        .style(Style::new().add_modifier(Modifier::BOLD));
    let rows = history.rows().iter().map(|row| {
        let cells = columns.iter().map(|(name, _, value)| right(name, &value(row)));
        let style = if row.rates.lost >= 0.05 { Color::Yellow } else { Color::Reset };
        TableRow::new(cells.collect::<Vec<_>>()).style(style)
    });
    let widths: Vec<_> = columns
        .iter()
        .map(|(name, width, _)| match *name {
            "peer" => Constraint::Min(*width),
            _ => Constraint::Length(*width),
        })
        .collect();
    let table = Table::new(rows, widths)
        .header(heading)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(history.selected());
    frame.render_stateful_widget(table, area, &mut state);
}

/// Text stands left, figures right.
fn right(column: &str, text: &str) -> Cell<'static> {
    let text = Text::from(text.to_owned());
    Cell::from(if column == "peer" { text } else { text.alignment(Alignment::Right) })
}

fn draw_detail(frame: &mut Frame, area: Rect, row: &Row) {
    let link = &row.link;
    let title =
        format!(" link {}: {} -> {}, open for {} ", link.id, link.src, link.dst, time(link.age));
    let block = Block::bordered().title(title);
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let [text, curves] = Layout::vertical([
        Constraint::Length(3 + link.paths.len().min(MOST_PATHS) as u16),
        Constraint::Min(0),
    ])
    .areas(inside);
    let mut lines = vec![
        Line::from(format!(
            "rtt at least {}, varies by {}; window {}, in flight {}",
            time(link.rtt_min),
            time(link.rtt_variation),
            bytes(link.window),
            bytes(link.in_flight),
        )),
        Line::from(format!(
            "rate {}/s, queued {}; {:.0} parity sent, {:.0} chunks recovered",
            bytes(link.pacing),
            bytes(link.queued),
            link.parity,
            link.recovered,
        )),
        Line::from(format!(
            "of {:.0} packets {:.0} were lost ({:.0} wrongly); {:.0} chunks sent again",
            link.packets_sent, link.lost, link.spurious, link.again,
        )),
    ];
    lines.extend(link.paths.iter().take(MOST_PATHS).map(|(name, path)| path_line(name, path)));
    frame.render_widget(Paragraph::new(lines), text);
    let [sent, received, rtt, lost] =
        Layout::horizontal([Constraint::Fill(1); 4]).spacing(2).areas(curves);
    let rate = |value: u64| format!("{}/s", Bytes(value));
    draw_curve(frame, sent, &row.sent, "sent", Color::Green, rate);
    draw_curve(frame, received, &row.received, "received", Color::Cyan, rate);
    draw_curve(frame, rtt, &row.rtt, "rtt", Color::Blue, |us| {
        Time(Duration::from_micros(us)).to_string()
    });
    draw_curve(frame, lost, &row.lost, "lost", Color::Yellow, |tenths| {
        format!("{}.{} %", tenths / 10, tenths % 10)
    });
}

fn path_line(name: &str, path: &Path) -> Line<'static> {
    let text = format!(
        "{name:<8} {}: rtt {}, loss {:.1} %; sent {}, received {}; silent {:.0} times, {} in all",
        path.state,
        time(path.rtt),
        path.loss * 1e2,
        bytes(path.sent),
        bytes(path.received),
        path.silences,
        time(path.silent),
    );
    let colour = if path.state == "open" { Color::Reset } else { Color::Yellow };
    Line::from(text).style(colour)
}

/// The newest values that fit, above them the newest and the greatest.
fn draw_curve(
    frame: &mut Frame,
    area: Rect,
    past: &VecDeque<u64>,
    name: &str,
    colour: Color,
    text: impl Fn(u64) -> String,
) {
    let shown = newest(past, area.width.into());
    let most = shown.iter().copied().max().unwrap_or_default();
    let newest = format!("{name} {}", text(past.back().copied().unwrap_or_default()));
    let both = format!("{newest}, max {}", text(most));
    let title = if both.len() <= area.width.into() { both } else { newest };
    let block = Block::new().title(title);
    let curve = Sparkline::default().data(&shown).max(most.max(1)).style(colour).block(block);
    frame.render_widget(curve, area);
}

/// The newest values as a line of bars.
fn curve(past: &VecDeque<u64>, width: usize) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = newest(past, width);
    let most = shown.iter().copied().max().unwrap_or_default().max(1);
    shown.iter().map(|value| BARS[(value.saturating_mul(8) / most).min(8) as usize]).collect()
}

fn newest(past: &VecDeque<u64>, width: usize) -> Vec<u64> {
    past.iter().skip(past.len().saturating_sub(width)).copied().collect()
}

fn bytes(value: f64) -> String {
    Bytes(value.max(0.0) as u64).to_string()
}

fn time(seconds: f64) -> String {
    Time(Duration::try_from_secs_f64(seconds).unwrap_or_default()).to_string()
}

#[cfg(test)]
mod tests {
    use ratatui::backend::TestBackend;
    use ratatui::Terminal;

    use super::*;
    use crate::figures::{Link, Order, Path};

    fn link(id: u64, sent: f64) -> Link {
        let path = Path { state: "silent".into(), rtt: 0.03, silences: 3.0, ..Path::default() };
        Link {
            id,
            src: "arq/192.168.1.2:40000".into(),
            dst: format!("arq/192.168.1.{id}:7447"),
            rtt: 0.0201,
            rtt_min: 0.02,
            loss: 0.102,
            reverse_loss: 0.01,
            sent,
            packets_sent: sent / 1e3,
            lost: sent / 1e4,
            window: 65_536.0,
            queue_age: 0.0031,
            paths: [("wlan0".to_owned(), path)].into(),
            ..Link::default()
        }
    }

    fn history(links: u64, looks: u32) -> History {
        let at = |look: u32| {
            let seconds = f64::from(look);
            let link =
                |id: u64| Link { age: 46.0 + seconds, ..link(id, seconds * 1e6 * id as f64) };
            (1..=links).map(link).collect::<Vec<_>>()
        };
        let mut history = History::new(at(0), Order::Sent);
        (1..looks).for_each(|look| history.look(at(look)));
        history
    }

    fn screen(width: u16, height: u16, history: &History, trouble: Option<&str>) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
        let screen = Screen { endpoint: "http://127.0.0.1:9464/metrics", history, trouble };
        terminal.draw(|frame| draw(frame, &screen)).expect("it draws");
        let cells = terminal.backend().buffer().content();
        let lines = cells.chunks(width.into());
        lines.map(|line| line.iter().map(|cell| cell.symbol()).collect()).collect()
    }

    #[test]
    fn the_busiest_link_is_first_with_its_figures_and_its_past() {
        let lines = screen(130, 24, &history(2, 30), None);
        let text = lines.join("\n");
        assert!(lines[0].starts_with("arq-top http://127.0.0.1:9464/metrics"), "{text}");
        assert!(lines[0].trim_end().ends_with("2 links by sent"), "{text}");
        for (line, words) in [
            (
                &lines[1],
                &["link", "peer", "rtt", "loss out, in", "sent/s", "queue", "parity/s"][..],
            ),
            (&lines[2], &["192.168.1.2:7447", "20.1 ms", "10.2  1.0", "2.0 MB", "3.10 ms", "█"]),
            (&lines[3], &["192.168.1.1:7447", "1.0 MB"]),
        ] {
            assert!(words.iter().all(|word| line.contains(word)), "{words:?} in\n{text}");
        }
        for words in [
            "link 2: arq/192.168.1.2:40000 -> arq/192.168.1.2:7447, open for 75.0 s",
            "window 65.5 kB",
            "wlan0    silent: rtt 30.0 ms",
            "silent 3 times",
            "sent 2.0 MB/s, max 2.0 MB/s",
            "rtt 20.1 ms, max 20.1 ms",
            "lost 10.0 %, max 10.0 %",
            "q quit",
        ] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
    }

    #[test]
    fn trouble_is_said_and_the_links_stay() {
        let text =
            screen(100, 24, &history(1, 3), Some("no statistics: refused\nhow to")).join("\n");
        assert!(text.contains("no statistics: refused") && !text.contains("how to"), "{text}");
        assert!(text.contains("192.168.1.1:7447"), "{text}");
    }

    #[test]
    fn a_process_without_links_is_no_empty_screen() {
        let text = screen(80, 24, &history(0, 2), None).join("\n");
        assert!(text.contains("no arq/ links at the moment"), "{text}");
    }

    #[test]
    fn a_figure_that_no_link_has_is_drawn() {
        for age in [1e300, f64::INFINITY, f64::NAN, -1.0] {
            let mut history = History::new(vec![Link { age, ..link(1, 0.0) }], Order::Sent);
            history.look(vec![Link { age, ..link(1, 0.0) }]);
            let text = screen(130, 24, &history, None).join("\n");
            assert!(text.contains("open for 0 ms"), "{age}: {text}");
        }
    }

    #[test]
    fn every_size_of_terminal_is_drawn() {
        let history = history(40, 300);
        for width in [1, 2, 3, 5, 8, 13, 21, 34, 55, 79, 80, 81] {
            for height in [1, 2, 3, 7, 15, 16, 17, 40] {
                screen(width, height, &history, Some("trouble"));
            }
        }
        let narrow = screen(80, 24, &history, None).join("\n");
        assert!(narrow.contains("192.168.1.40:7447") && narrow.contains("recv/s"), "{narrow}");
    }
}
