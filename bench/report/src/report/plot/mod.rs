// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does a figure become SVG?
//!
//! A [`Panel`] is a pair of axes with [`Series`] in it; a [`Figure`](figure::Figure) is one or more panels that share a
//! legend and a caption. Panels are small (about a phone's width), so that the page can set them in as many columns as
//! fit. Values may be infinite: those are lost ranks, drawn on a strip of their own at the axis' far end.
//!
//! `plotters`, the one kept crate that draws without a browser, would replace some 250 lines of axes and ticks. It places on whole
//! pixels and in three shapes of marks; it has no title on a mark, no strip for lost ranks, no names at line ends that give way to
//! each other, and no legend outside its axes. Vega-Lite has all that, with a script; a report is one file without any.

pub(crate) mod draw;
pub(crate) mod figure;
pub(crate) mod labels;
pub(crate) mod mark;
pub(crate) mod scale;

use scale::{Scale, Tick};

use crate::report::style::Style;

/// A pair of axes with what is drawn between them.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    /// Above the panel.
    pub(crate) title: String,
    /// To the right.
    pub(crate) x: Axis,
    /// Upwards.
    pub(crate) y: Axis,
    /// From the back to the front.
    pub(crate) series: Vec<Series>,
    /// Room for names at the lines' right ends.
    pub(crate) end_labels: bool,
}

/// One axis.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// With its unit.
    pub(crate) label: String,
    /// Where values stand.
    pub(crate) scale: Scale,
    /// What is written beside it.
    pub(crate) ticks: Vec<Tick>,
    /// The name of the strip for infinite values; none without.
    pub(crate) lost: Option<&'static str>,
}

/// What is drawn for one link (or one bound).
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// As the legend has it.
    pub(crate) name: String,
    /// Colour and mark.
    pub(crate) style: Style,
    /// How the points are joined.
    pub(crate) line: Line,
    /// Which points have marks.
    pub(crate) marks: Marks,
    /// In the order of x.
    pub(crate) points: Vec<Point>,
}

/// How points are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Not at all.
    None,
    /// Without gaps.
    Solid,
    /// Dashes.
    Dashed,
    /// Dots: a bound, not a measurement.
    Dotted,
}

/// Which points have marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    /// None.
    None,
    /// All.
    All,
    /// About so many, evenly spread over the panel's width.
    Some(usize),
    /// Dots too small to have a shape.
    Dots,
}

/// One value; `y` (or `x`) is infinite when it is lost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Point {
    /// To the right.
    pub(crate) x: f64,
    /// Upwards.
    pub(crate) y: f64,
    /// The range over repeats, in y.
    pub(crate) range: Option<(f64, f64)>,
    /// Shown when pointed at.
    pub(crate) tip: String,
}

impl Point {
    /// Without a range or a tip.
    pub(crate) fn at(x: f64, y: f64) -> Self {
        Self { x, y, ..Self::default() }
    }
}
