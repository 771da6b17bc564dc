// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which colour and which mark does a link have, in every figure alike?
//!
//! The colours are Okabe and Ito's, told apart by people with any colour vision; yellow is left out because it
//! vanishes on white. No two links of a figure share both colour and mark, so a black and white print is readable.

/// How a link is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    /// `#rrggbb`.
    pub(crate) colour: &'static str,
    /// Drawn at each point.
    pub(crate) mark: Mark,
}

/// The shape of a mark and whether it is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Its outline.
    pub(crate) shape: Shape,
    /// Filled with the colour, else with white.
    pub(crate) filled: bool,
}

/// Outlines that stay apart at small sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Circle,
    Square,
    TriangleUp,
    TriangleDown,
    Diamond,
    Cross,
    Plus,
}

/// What is not a link: bounds, axes, text.
pub(crate) const GREY: &str = "#6b6b6b";
/// Text and axes.
pub(crate) const INK: &str = "#1d1d1f";

pub(crate) const BLUE: &str = "#0072B2";
pub(crate) const VERMILION: &str = "#D55E00";
pub(crate) const ORANGE: &str = "#E69F00";
pub(crate) const GREEN: &str = "#009E73";
const PURPLE: &str = "#CC79A7";
const SKY: &str = "#56B4E9";
const BLACK: &str = "#000000";

const COLOURS: [&str; 7] = [BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK];
const SHAPES: [Shape; 7] = [
    Shape::Plus,
    Shape::Cross,
    Shape::TriangleDown,
    Shape::Diamond,
    Shape::TriangleUp,
    Shape::Square,
    Shape::Circle,
];

/// Links that every reader of several reports meets again.
const KNOWN: [(&str, &str, Shape, bool); 15] = [
    ("arq", BLUE, Shape::Circle, true),
    ("arq-no-fec", BLUE, Shape::Circle, false),
    ("arq-tls", BLUE, Shape::Plus, true),
    ("tcp-cubic", VERMILION, Shape::Square, true),
    ("tcp", VERMILION, Shape::Square, true),
    ("tcp-bbr", ORANGE, Shape::Square, false),
    ("tcp-cubic-nosack", BLACK, Shape::Square, false),
    ("quic", PURPLE, Shape::Diamond, true),
    ("quic-rel0", PURPLE, Shape::Diamond, false),
    ("udp", SKY, Shape::TriangleDown, true),
    ("udp-rel", GREEN, Shape::TriangleUp, true),
    ("kcp", BLACK, Shape::Cross, true),
    ("tls", VERMILION, Shape::Plus, true),
    ("ws", BLACK, Shape::Plus, true),
    ("tcp-reno", ORANGE, Shape::TriangleUp, false),
];

/// One style for each name, in the same order. A known name always has its own; others take what is free, decided by
/// their order alone.
pub(crate) fn styles<S: AsRef<str>>(names: &[S]) -> Vec<Style> {
    let mut taken: Vec<Style> = names.iter().filter_map(|name| known(name.as_ref())).collect();
    let mut style_of = |name: &S| {
        known(name.as_ref()).unwrap_or_else(|| {
            let style = free(&taken);
            taken.push(style);
            style
        })
    };
    names.iter().map(&mut style_of).collect()
}

fn known(name: &str) -> Option<Style> {
    let (_, colour, shape, filled) = KNOWN.iter().find(|(known, ..)| *known == name)?;
    Some(Style { colour, mark: Mark { shape: *shape, filled: *filled } })
}

/// Of the styles that nobody has, the one whose colour and shape are used least.
fn free(taken: &[Style]) -> Style {
    let colours = COLOURS.into_iter();
    let all = colours.flat_map(|colour| {
        SHAPES.into_iter().flat_map(move |shape| {
            [true, false].map(|filled| Style { colour, mark: Mark { shape, filled } })
        })
    });
    let uses = |style: &Style| {
        let alike = |other: &&Style| other.colour == style.colour;
        let same_shape = |other: &&Style| other.mark.shape == style.mark.shape;
        taken.iter().filter(alike).count() + taken.iter().filter(same_shape).count()
    };
    let unused = all.filter(|style| !taken.contains(style));
    unused.min_by_key(|style| (uses(style), !style.mark.filled)).unwrap_or(LAST)
}

/// When all the others are taken.
const LAST: Style = Style { colour: BLACK, mark: Mark { shape: Shape::Circle, filled: false } };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_keeps_its_style_whatever_stands_beside_it() {
        assert_eq!(styles(&["arq", "mine", "quic"])[0], styles(&["kcp", "arq"])[1]);
        assert_eq!(styles(&["arq", "mine", "quic"]), styles(&["arq", "mine", "quic"]));
    }

    #[test]
    fn no_two_links_look_alike() {
        let known: Vec<_> = KNOWN
            .iter()
            .map(|(name, ..)| (*name).to_owned())
            .filter(|name| name != "tcp")
            .collect();
        let others = (0..20).map(|i| format!("link-{i}"));
        let names: Vec<_> = known.into_iter().chain(others).collect();
        let styles = styles(&names);
        for (i, style) in styles.iter().enumerate() {
            assert!(!styles[..i].contains(style), "{} looks like another", names[i]);
        }
    }
}
