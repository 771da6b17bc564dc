// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do panels become a figure: on the page, and as a file of its own?

use maud::{html, Markup, PreEscaped};

use super::draw::{panel, px, HEIGHT, WIDTH};
use super::labels::text_width;
use super::mark::mark;
use super::{Line, Panel};
use crate::report::style::{Mark, Shape, Style, GREY, INK};

/// One or more panels with a legend and a caption.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// Its file name without the ending, unique in a report.
    pub(crate) id: String,
    /// What it shows.
    pub(crate) title: String,
    /// How to read it.
    pub(crate) caption: String,
    /// The scenario, the seed, the repeats and the command.
    pub(crate) origin: String,
    /// What can be seen, for those who cannot see it.
    pub(crate) alt: String,
    /// Links and bounds.
    pub(crate) legend: Vec<Entry>,
    /// In reading order.
    pub(crate) panels: Vec<Panel>,
    /// Whether each two panels belong together.
    pub(crate) paired: bool,
}

/// One line of a legend.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The link or bound.
    pub(crate) name: String,
    /// Colour and mark.
    pub(crate) style: Style,
    /// How its line is drawn.
    pub(crate) line: Line,
    /// Whether it has marks.
    pub(crate) marked: bool,
}

const SAMPLE: f64 = 30.0;
const TEXT: f64 = 12.0;
const EDGE: f64 = 16.0;

impl Figure {
    /// For the page: panels flow into as many columns as there is room for.
    pub(crate) fn on_page(&self) -> Markup {
        html! {
            figure id=(self.id) {
                h4 { (self.title) }
                ul.legend aria-hidden="true" {
                    @for entry in &self.legend {
                        li {
                            svg width=(SAMPLE) height="14" viewBox={ "0 0 " (SAMPLE) " 14" } { (sample(entry, 0.0, 7.0)) }
                            (entry.name)
                        }
                    }
                }
                div class={ "panels " (self.shape()) } role="img" aria-label=(self.alt) {
                    @for one in &self.panels {
                        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } { (panel(one)) }
                    }
                }
                figcaption {
                    p { (self.caption) }
                    p.origin { (self.origin) }
                }
            }
        }
    }

    /// Panels that belong together in pairs stand in pairs, and no panel stands alone in a last row of four.
    fn columns(&self) -> usize {
        match self.panels.len() {
            1 => 1,
            4 => 2,
            _ if self.paired => 2,
            _ => 3,
        }
    }

    fn shape(&self) -> &'static str {
        ["one", "two", "three"][self.columns() - 1]
    }

    /// Whether it is small enough to stand beside another one.
    pub(crate) fn is_small(&self) -> bool {
        self.panels.len() == 1
    }

    /// A file of its own, with title, legend and caption inside.
    pub(crate) fn alone(&self) -> String {
        let columns = self.columns();
        let width = (columns as f64 * WIDTH + 2.0 * EDGE).max(2.0 * WIDTH);
        let rows = self.panels.len().div_ceil(columns);
        let (legend, legend_height) = legend_rows(&self.legend, width);
        let captions: Vec<String> = [&self.caption, &self.origin]
            .iter()
            .flat_map(|text| wrapped(text, width - 2.0 * EDGE))
            .collect();
        let panels_top = 40.0 + legend_height;
        let captions_top = panels_top + rows as f64 * HEIGHT + 18.0;
        let height = captions_top + captions.len() as f64 * 16.0 + 8.0;
        let place = |i: usize| {
            (EDGE + (i % columns) as f64 * WIDTH, panels_top + (i / columns) as f64 * HEIGHT)
        };
        let inside = html! {
            title { (self.title) }
            desc { (self.alt) }
            rect width="100%" height="100%" fill="#ffffff" {}
            g font-family="Noto Sans, Arial, sans-serif" font-size=(TEXT) fill=(INK) {
                text x=(EDGE) y="26" font-size="16" font-weight="bold" { (self.title) }
                (legend)
                @for (i, line) in captions.iter().enumerate() {
                    text x=(EDGE) y=(px(captions_top + i as f64 * 16.0)) fill="#444444" { (line) }
                }
            }
            @for (i, one) in self.panels.iter().enumerate() {
                @let (x, y) = place(i);
                g transform={ "translate(" (px(x)) " " (px(y)) ")" } { (panel(one)) }
            }
        };
        let size = format!(
            r#"width="{w}" height="{h}" viewBox="0 0 {w} {h}""#,
            w = px(width),
            h = px(height)
        );
        format!(r#"<svg xmlns="http://www.w3.org/2000/svg" {size}>{}</svg>"#, inside.into_string())
    }
}

/// The legend from left to right, in as many rows as it needs, and their height.
fn legend_rows(legend: &[Entry], width: f64) -> (Markup, f64) {
    let (mut x, mut y) = (EDGE, 48.0);
    let mut drawn = String::new();
    for entry in legend {
        let wide = SAMPLE + 6.0 + text_width(&entry.name, TEXT) + 18.0;
        if x + wide > width - EDGE && x > EDGE {
            (x, y) = (EDGE, y + 20.0);
        }
        let one = html! { (sample(entry, x, y)) text x=(px(x + SAMPLE + 6.0)) y=(px(y + 4.2)) { (entry.name) } };
        drawn.push_str(&one.into_string());
        x += wide;
    }
    (PreEscaped(drawn), y - 48.0 + 24.0)
}

fn sample(entry: &Entry, x: f64, y: f64) -> Markup {
    let dashes = match entry.line {
        Line::None | Line::Solid => None,
        Line::Dashed => Some("5 3"),
        Line::Dotted => Some("1.5 3"),
    };
    let path = format!("M{} {}h{SAMPLE}", px(x), px(y));
    html! {
        @if entry.line != Line::None {
            path d=(path) fill="none" stroke=(entry.style.colour) stroke-width="1.8" stroke-dasharray=[dashes] {}
        }
        @if entry.marked { (mark(entry.style, x + SAMPLE / 2.0, y, "")) }
    }
}

/// Lines of about this width.
fn wrapped(text: &str, width: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        if !lines[last].is_empty()
            && text_width(&lines[last], TEXT) + text_width(word, TEXT) + 6.0 > width
        {
            lines.push(word.to_owned());
        } else {
            let gap = if lines[last].is_empty() { "" } else { " " };
            lines[last] = format!("{}{gap}{word}", lines[last]);
        }
    }
    lines
}

/// The grey line of a bound.
pub(crate) fn bound(name: &str) -> Entry {
    let mark = Mark { shape: Shape::Circle, filled: true };
    Entry {
        name: name.to_owned(),
        style: Style { colour: GREY, mark },
        line: Line::Dotted,
        marked: false,
    }
}
