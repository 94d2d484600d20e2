//! SVG, written by hand: a few shapes, and the one place where text is escaped.

use crate::report::escape::clean;
use std::fmt::Write;

/// The elements of a drawing so far.
#[derive(Debug, Default)]
pub(crate) struct Svg {
    body: String,
}

/// The alignment of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub(crate) fn line(&mut self, class: &str, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
        let (x1, y1, x2, y2) = (n(x1), n(y1), n(x2), n(y2));
        let _ = write!(self.body, "<path class=\"{class}\" d=\"M{x1} {y1}L{x2} {y2}\"/>");
    }

    pub(crate) fn path(&mut self, class: &str, d: &str) {
        let _ = write!(self.body, "<path class=\"{class}\" d=\"{d}\"/>");
    }

    pub(crate) fn rect(&mut self, class: &str, [x, y]: [f64; 2], [width, height]: [f64; 2]) {
        let (x, y, width, height) = (n(x), n(y), n(width.max(0.0)), n(height.max(0.0)));
        let _ = write!(
            self.body,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
        );
    }

    pub(crate) fn text(&mut self, class: &str, anchor: Anchor, [x, y]: [f64; 2], words: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " mid",
            Anchor::End => " end",
        };
        let (x, y, words) = (n(x), n(y), escape(words));
        let _ = write!(self.body, "<text class=\"{class}{anchor}\" x=\"{x}\" y=\"{y}\">{words}</text>");
    }

    /// Opens a group: `attributes` are names and values.
    pub(crate) fn open(&mut self, class: &str, attributes: &[(&str, &str)]) {
        let _ = write!(self.body, "<g class=\"{class}\"");
        for (name, value) in attributes {
            let _ = write!(self.body, " {name}=\"{}\"", escape(value));
        }
        self.body.push('>');
    }

    /// The tooltip of the group that contains it.
    pub(crate) fn title(&mut self, words: &str) {
        let _ = write!(self.body, "<title>{}</title>", escape(words));
    }

    pub(crate) fn close(&mut self) {
        self.body.push_str("</g>\n");
    }

    pub(crate) fn into_body(self) -> String {
        self.body
    }
}

/// Text escaped for an element or an attribute. Control characters, which XML forbids, become U+FFFD.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in clean(text).chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Width of bold text, as a multiple of the same text in regular weight.
pub(crate) const BOLD: f64 = 1.15;

/// The approximate width of a text of `px` in a wide sans-serif font (DejaVu Sans): the font of the reader is not
/// known, and most are narrower.
pub(crate) fn width_of(words: &str, px: f64) -> f64 {
    let em = |char: char| match char {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | '\'' | '|' => 0.33,
        'f' | 't' | 'r' | ' ' | '-' | '(' | ')' | '/' => 0.41,
        'm' | 'w' | 'M' | 'W' | '%' => 0.96,
        c if c.is_uppercase() => 0.74,
        _ => 0.63,
    };
    words.chars().map(em).sum::<f64>() * px
}

/// `words`, or as much of them as fits `width`, with an ellipsis.
pub(crate) fn fitted(words: &str, px: f64, width: f64) -> String {
    if width_of(words, px) <= width {
        return words.into();
    }
    let mut short: String = words.into();
    while !short.is_empty() && width_of(&short, px) > width - px * 0.8 {
        short.pop();
    }
    short.trim_end().to_owned() + "…"
}

/// A coordinate with one decimal.
pub(crate) fn n(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_escapes() {
        assert_eq!(escape("<script>'&\"\u{1}\n"), "&lt;script&gt;&#39;&amp;&quot;\u{fffd} ");
    }

    /// By the tables of DejaVu Sans and DejaVu Sans Bold, which Linux has where it has no other font.
    #[test]
    fn the_widest_font_fits() {
        for (words, regular, bold) in [("stenographer", 80.8, 91.6), ("0 % of 1.64 Mpps", 104.4, 116.4)] {
            let [needed, needed_bold] = [12.0, 12.0 * BOLD].map(|px| width_of(words, px));
            assert!(needed >= regular && needed_bold >= bold, "{words}: {needed}, {needed_bold}");
        }
    }

    #[test]
    fn long_words_are_cut_to_fit() {
        assert_eq!(fitted("quaff", 12.0, 100.0), "quaff");
        let cut = fitted("a very long name of a capturer", 12.0, 80.0);
        assert!(cut.ends_with('…') && width_of(&cut, 12.0) <= 82.0, "{cut}");
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!([n(1.0), n(1.26), n(-0.01)], ["1", "1.3", "0"]);
    }
}
