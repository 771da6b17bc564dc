// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does a figure become a PNG that looks the same on every machine?
//!
//! With a font of our own: a machine without fonts would otherwise draw figures without a word.

use std::sync::{Arc, OnceLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{fontdb, Options, Tree};

/// Pixels of the PNG for each pixel of the figure: sharp on dense screens and in print.
const SCALE: f32 = 2.0;

/// The figure as PNG; the error says what of the SVG was refused.
pub(crate) fn png(svg: &str) -> Result<Vec<u8>, String> {
    let options =
        Options { font_family: "Noto Sans".to_owned(), fontdb: fonts(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|e| e.to_string())?;
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or("the figure has no size")?;
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or("the figure is too large")?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| e.to_string())
}

fn fonts() -> Arc<fontdb::Database> {
    static FONTS: OnceLock<Arc<fontdb::Database>> = OnceLock::new();
    let load = || {
        let mut fonts = fontdb::Database::new();
        for face in [notosans::REGULAR_TTF, notosans::BOLD_TTF, notosans::ITALIC_TTF] {
            fonts.load_font_data(face.to_vec());
        }
        fonts.set_sans_serif_family("Noto Sans");
        Arc::new(fonts)
    };
    Arc::clone(FONTS.get_or_init(load))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ink(svg: &str) -> usize {
        let options = Options { fontdb: fonts(), ..Options::default() };
        let tree = Tree::from_str(svg, &options).unwrap();
        let mut pixels = Pixmap::new(100, 40).unwrap();
        resvg::render(&tree, Transform::identity(), &mut pixels.as_mut());
        pixels.pixels().iter().filter(|pixel| pixel.alpha() > 128).count()
    }

    fn svg(inside: &str) -> String {
        format!(r#"<svg xmlns="http://www.w3.org/2000/svg" width="100" height="40">{inside}</svg>"#)
    }

    #[test]
    fn text_leaves_ink_whatever_fonts_the_machine_has() {
        let text = |style: &str| {
            svg(&format!(
                r#"<text x="2" y="25" font-family="Noto Sans, Arial" {style}>latency</text>"#
            ))
        };
        assert!(ink(&text("")) > 50);
        assert!(ink(&text(r#"font-weight="bold""#)) > ink(&text("")));
        assert_eq!(ink(&svg("")), 0);
    }

    #[test]
    fn dots_of_no_length_leave_ink() {
        let dots = r#"<path d="M10 10h.01M30 10h.01" stroke="black" stroke-width="6" stroke-linecap="round" fill="none"/>"#;
        assert!(ink(&svg(dots)) > 40);
    }

    #[test]
    fn what_is_no_svg_is_refused_with_a_reason() {
        assert!(!png("<svg").unwrap_err().is_empty());
    }
}
