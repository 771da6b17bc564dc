// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How is one panel drawn?

use std::fmt::Write as _;

use maud::{html, Markup};

use super::labels::{spread_out, text_width, that_fit};
use super::mark::mark;
use super::scale::Tick;
use super::{Axis, Line, Marks, Panel, Point, Series};
use crate::report::style::{GREY, INK};

/// Width of a panel, pixels.
pub(crate) const WIDTH: f64 = 400.0;
/// Height of a panel, pixels.
pub(crate) const HEIGHT: f64 = 290.0;

const FONT: &str =
    "Noto Sans, system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif";
const TEXT: f64 = 11.0;
const TITLE: f64 = 12.5;
const GRID: &str = "#e3e3e6";
const WASH: &str = "#f1f1f3";
/// Height (or width) of the strip for infinite values.
const STRIP: f64 = 20.0;

/// The plotting area inside a panel, and how values become pixels in it.
struct Frame<'a> {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    panel: &'a Panel,
}

impl<'a> Frame<'a> {
    fn of(panel: &'a Panel) -> Self {
        let ticks =
            panel.y.ticks.iter().map(|tick| text_width(&tick.label, TEXT)).fold(24.0, f64::max);
        let labels =
            panel.series.iter().map(|series| text_width(&series.name, TEXT)).fold(0.0, f64::max);
        let right = if panel.end_labels { labels + 20.0 } else { 18.0 };
        let top = if panel.title.is_empty() { 12.0 } else { 30.0 };
        Self { left: ticks + 26.0, right: WIDTH - right, top, bottom: HEIGHT - 40.0, panel }
    }

    /// The far end of the finite part of the y axis.
    fn finite_top(&self) -> f64 {
        self.top + if self.panel.y.lost.is_some() { STRIP } else { 0.0 }
    }

    fn finite_right(&self) -> f64 {
        self.right - if self.panel.x.lost.is_some() { STRIP + 8.0 } else { 0.0 }
    }

    fn x(&self, value: f64) -> f64 {
        match value.is_finite() {
            true => {
                self.left
                    + self.panel.x.scale.place(value).clamp(0.0, 1.0)
                        * (self.finite_right() - self.left)
            }
            false => self.right - STRIP / 2.0,
        }
    }

    fn y(&self, value: f64) -> f64 {
        match value.is_finite() {
            true => {
                self.bottom
                    - self.panel.y.scale.place(value).clamp(0.0, 1.0)
                        * (self.bottom - self.finite_top())
            }
            false => self.top + STRIP / 2.0,
        }
    }
}

/// The panel as the inside of an `svg` element of [`WIDTH`] by [`HEIGHT`].
pub(crate) fn panel(panel: &Panel) -> Markup {
    let frame = Frame::of(panel);
    html! {
        g font-family=(FONT) font-size=(TEXT) fill=(INK) {
            text x=(px(frame.left)) y="17" font-size=(TITLE) font-weight="bold" { (panel.title) }
            (y_axis(&frame))
            (x_axis(&frame))
            @for series in &panel.series { (line(&frame, series)) }
            @for series in &panel.series { (marks(&frame, series)) }
            @if panel.end_labels { (end_labels(&frame)) }
        }
    }
}

fn y_axis(frame: &Frame<'_>) -> Markup {
    let axis = &frame.panel.y;
    let middle = (frame.top + frame.bottom) / 2.0;
    html! {
        @if axis.lost.is_some() {
            rect x=(px(frame.left)) y=(px(frame.top)) width=(px(frame.right - frame.left)) height=(STRIP) fill=(WASH) {}
        }
        @for tick in readable(axis, |value| frame.y(value), |_| TEXT) {
            @if !tick.lost { (segment(frame.left, tick.place, frame.right, tick.place, GRID)) }
            text x=(px(frame.left - 6.0)) y=(px(tick.place + 3.8)) text-anchor="end" font-style=[tick.lost.then_some("italic")] { (tick.label) }
        }
        (segment(frame.left, frame.top, frame.left, frame.bottom, INK))
        text transform={ "translate(12 " (px(middle)) ") rotate(-90)" } text-anchor="middle" { (axis.label) }
    }
}

fn x_axis(frame: &Frame<'_>) -> Markup {
    let axis = &frame.panel.x;
    html! {
        @for tick in &axis.ticks {
            (segment(frame.x(tick.value), frame.bottom, frame.x(tick.value), frame.bottom + 4.0, INK))
        }
        @if axis.lost.is_some() {
            rect x=(px(frame.right - STRIP)) y=(px(frame.top)) width=(STRIP) height=(px(frame.bottom - frame.top)) fill=(WASH) {}
        }
        @for tick in readable(axis, |value| frame.x(value), |label| text_width(label, TEXT)) {
            text x=(px(tick.place)) y=(px(frame.bottom + 16.0)) text-anchor="middle" font-style=[tick.lost.then_some("italic")] { (tick.label) }
        }
        (segment(frame.left, frame.bottom, frame.right, frame.bottom, INK))
        text x=(px((frame.left + frame.right) / 2.0)) y=(px(HEIGHT - 8.0)) text-anchor="middle" { (axis.label) }
    }
}

/// A label at its place.
struct Label<'a> {
    place: f64,
    label: &'a str,
    /// It names the strip for infinite values.
    lost: bool,
}

/// The labels that do not touch each other.
fn readable(axis: &Axis, place: impl Fn(f64) -> f64, size: impl Fn(&str) -> f64) -> Vec<Label<'_>> {
    let tick = |tick: &'_ Tick| place(tick.value);
    let finite =
        axis.ticks.iter().map(|t| Label { place: tick(t), label: t.label.as_str(), lost: false });
    let strip = axis.lost.map(|label| Label { place: place(f64::INFINITY), label, lost: true });
    let all: Vec<Label<'_>> = finite.chain(strip).collect();
    let places: Vec<f64> = all.iter().map(|label| label.place).collect();
    let sizes: Vec<f64> = all.iter().map(|label| size(label.label)).collect();
    let fits = that_fit(&places, &sizes, 3.0);
    all.into_iter().zip(fits).filter(|(_, fits)| *fits).map(|(label, _)| label).collect()
}

fn line(frame: &Frame<'_>, series: &Series) -> Markup {
    let dashes = match series.line {
        Line::None => return html! {},
        Line::Solid => None,
        Line::Dashed => Some("5 3"),
        Line::Dotted => Some("1.5 3"),
    };
    let mut path = String::new();
    for (i, point) in series.points.iter().enumerate() {
        let letter = if i == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{letter}{} {}", px(frame.x(point.x)), px(frame.y(point.y)));
    }
    html! {
        path d=(path) fill="none" stroke=(series.style.colour) stroke-width="1.7" stroke-linejoin="round"
            stroke-dasharray=[dashes] {}
    }
}

fn marks(frame: &Frame<'_>, series: &Series) -> Markup {
    let shown: Vec<&Point> = match series.marks {
        Marks::None => return html! {},
        Marks::Dots => return dots(frame, series),
        Marks::All => series.points.iter().collect(),
        Marks::Some(count) => {
            let all = &frame.panel.series;
            let order = all.iter().position(|other| other.name == series.name).unwrap_or(0);
            spaced(frame, &series.points, count, order as f64 / all.len() as f64)
        }
    };
    html! {
        @for point in &shown { (range(frame, series, point)) }
        @for point in shown { (mark(series.style, frame.x(point.x), frame.y(point.y), &point.tip)) }
    }
}

/// The range over repeats.
fn range(frame: &Frame<'_>, series: &Series, point: &Point) -> Markup {
    let Some((low, high)) = point.range else { return html! {} };
    let (x, low, high) = (frame.x(point.x), frame.y(low), frame.y(high));
    let colour = series.style.colour;
    html! {
        @if (low - high).abs() > 1.0 {
            (segment(x, low, x, high, colour))
            (segment(x - 2.5, low, x + 2.5, low, colour))
            (segment(x - 2.5, high, x + 2.5, high, colour))
        }
    }
}

/// Points at about equal distances along the panel, from a part of that distance on, so that the marks of lines which
/// run together stand one behind the other.
fn spaced<'p>(frame: &Frame<'_>, points: &'p [Point], count: usize, shift: f64) -> Vec<&'p Point> {
    let gap = (frame.right - frame.left) / count as f64;
    let mut next = frame.left + gap * shift;
    let mut shown = Vec::new();
    for point in points {
        let x = frame.x(point.x);
        if x >= next {
            shown.push(point);
            next = x + gap;
        }
    }
    shown
}

/// All points as one path of round caps: a few bytes each. Lost ones are strokes, since they all share one height.
fn dots(frame: &Frame<'_>, series: &Series) -> Markup {
    let (mut arrived, mut lost) = (String::new(), String::new());
    for point in &series.points {
        let (x, y) = (px(frame.x(point.x)), frame.y(point.y));
        let _ = match point.y.is_finite() {
            true => write!(arrived, "M{x} {}h.01", px(y)),
            false => write!(lost, "M{x} {}v9", px(y - 4.5)),
        };
    }
    let colour = series.style.colour;
    html! {
        @if !arrived.is_empty() { path d=(arrived) stroke=(colour) stroke-width="2.6" stroke-linecap="round" fill="none" {} }
        @if !lost.is_empty() { path d=(lost) stroke=(colour) stroke-width="1" fill="none" {} }
    }
}

/// A line that ends further from the right edge is not named there.
const END_REACH: f64 = 60.0;

/// The name of each line at its right end, in ink so that it is readable.
fn end_labels(frame: &Frame<'_>) -> Markup {
    let series = frame.panel.series.iter();
    let ends = series.filter_map(|series| Some((series, series.points.last()?)));
    let ends: Vec<(&Series, &Point)> =
        ends.filter(|(_, end)| frame.right - frame.x(end.x) < END_REACH).collect();
    let wanted: Vec<f64> = ends.iter().map(|(_, point)| frame.y(point.y)).collect();
    let places = spread_out(&wanted, TEXT + 2.0, frame.top + 4.0, frame.bottom - 2.0);
    let x = frame.right + 8.0;
    html! {
        @for (((series, point), from), to) in ends.iter().zip(&wanted).zip(&places) {
            @let begin = frame.x(point.x) + 5.0;
            path d={ "M" (px(begin)) " " (px(*from)) "L" (px(x - 1.0)) " " (px(*to)) } fill="none" stroke=(series.style.colour) stroke-width="0.8" {}
            text x=(px(x + 2.0)) y=(px(to + 3.8)) fill=(if series.style.colour == GREY { GREY } else { INK }) { (series.name) }
        }
    }
}

fn segment(x1: f64, y1: f64, x2: f64, y2: f64, colour: &str) -> Markup {
    html! { path d={ "M" (px(x1)) " " (px(y1)) "L" (px(x2)) " " (px(y2)) } stroke=(colour) stroke-width="1" fill="none" {} }
}

/// A tenth of a pixel is as fine as anyone sees.
pub(crate) fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some(whole) => whole.to_owned(),
        None => text,
    }
}
