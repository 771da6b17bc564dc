// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What does the mark of a link look like?

use maud::{html, Markup};

use crate::report::style::{Mark, Shape, Style};

/// Half the width of a mark, pixels.
const HALF: f64 = 3.6;

/// The mark at a place, with a tip that is shown when it is pointed at.
pub(crate) fn mark(style: Style, x: f64, y: f64, tip: &str) -> Markup {
    let Style { colour, mark: Mark { shape, filled } } = style;
    let fill = if filled { colour } else { "#ffffff" };
    html! {
        path d=(outline(shape, x, y)) fill=(fill) stroke=(colour) stroke-width="1.6" stroke-linejoin="round" {
            @if !tip.is_empty() { title { (tip) } }
        }
    }
}

/// The outline as an SVG path. Circles are two arcs, so that every mark is one path.
fn outline(shape: Shape, x: f64, y: f64) -> String {
    let h = HALF;
    let polygon = |points: &[(f64, f64)]| {
        let corners: Vec<_> =
            points.iter().map(|(dx, dy)| format!("{:.1} {:.1}", x + dx * h, y + dy * h)).collect();
        format!("M{}Z", corners.join("L"))
    };
    match shape {
        Shape::Circle => {
            format!("M{:.1} {y:.1}a{h} {h} 0 1 0 {d} 0a{h} {h} 0 1 0 -{d} 0Z", x - h, d = 2.0 * h)
        }
        Shape::Square => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        Shape::TriangleUp => polygon(&[(0.0, -1.15), (1.1, 0.85), (-1.1, 0.85)]),
        Shape::TriangleDown => polygon(&[(0.0, 1.15), (1.1, -0.85), (-1.1, -0.85)]),
        Shape::Diamond => polygon(&[(0.0, -1.25), (1.1, 0.0), (0.0, 1.25), (-1.1, 0.0)]),
        Shape::Cross => polygon(&turned(0.8)),
        Shape::Plus => polygon(&PLUS),
    }
}

const ARM: f64 = 0.3;

const PLUS: [(f64, f64); 12] = [
    (-ARM, -1.2),
    (ARM, -1.2),
    (ARM, -ARM),
    (1.2, -ARM),
    (1.2, ARM),
    (ARM, ARM),
    (ARM, 1.2),
    (-ARM, 1.2),
    (-ARM, ARM),
    (-1.2, ARM),
    (-1.2, -ARM),
    (-ARM, -ARM),
];

/// The plus on its side: a cross.
fn turned(scale: f64) -> [(f64, f64); 12] {
    PLUS.map(|(x, y)| ((x - y) * scale, (x + y) * scale))
}
