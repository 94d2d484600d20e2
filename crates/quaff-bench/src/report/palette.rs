//! Colours for a light and a dark page. All pairs are distinct with every common kind of colour blindness, and have a
//! contrast of 3:1 with the background (WCAG 2.2, 1.4.11).

use std::fmt::Write;

/// Name of a colour, its value on a light page, and on a dark page.
type Colour = (&'static str, &'static str, &'static str);

const RIVALS: [Colour; 9] = [
    ("s0", "#0a4f94", "#49a5ff"),
    ("s1", "#a94400", "#fa8b00"),
    ("s2", "#24957f", "#1f8f5f"),
    ("s3", "#ea28c8", "#d848c0"),
    ("s4", "#a79000", "#dddb90"),
    ("s5", "#8014d2", "#9452ff"),
    ("s6", "#1894ff", "#8fe3ff"),
    ("s7", "#6b3230", "#f0403a"),
    ("s8", "#566169", "#a0a1a4"),
];

/// Shades of loss: none, then from low to total. Lightness alone orders them.
const SHADES: [Colour; 9] = [
    ("h0", "#d6e6f5", "#17354f"),
    ("h1", "#fff3c9", "#3d2c12"),
    ("h2", "#ffe08f", "#5c3d12"),
    ("h3", "#fdbf5c", "#86520f"),
    ("h4", "#f6953d", "#b5680f"),
    ("h5", "#dd612c", "#dd8420"),
    ("h6", "#b53926", "#f4a63e"),
    ("h7", "#7f1d2d", "#fccb6e"),
    ("h8", "#4a0e2e", "#ffeeb5"),
];

/// The colour of text on a shade.
const INKS: [Colour; 9] = [
    ("i0", "#0b3a66", "#bfe0ff"),
    ("i1", "#3a2a00", "#f2dfc0"),
    ("i2", "#3a2a00", "#f7e3c4"),
    ("i3", "#3a1f00", "#ffffff"),
    ("i4", "#2b1200", "#ffffff"),
    ("i5", "#ffffff", "#1b0f00"),
    ("i6", "#ffffff", "#1b0f00"),
    ("i7", "#ffffff", "#1b0f00"),
    ("i8", "#ffffff", "#1b0f00"),
];

const PAPER: [Colour; 11] = [
    ("paper", "#ffffff", "#14171c"),
    ("panel", "#f5f6f8", "#1c2027"),
    ("ink", "#16191d", "#eceff3"),
    ("soft", "#58616b", "#a3adb8"),
    ("grid", "#e6e9ed", "#2b3038"),
    ("rule", "#c9ced5", "#424a55"),
    ("base", "#7d8792", "#78828e"),
    ("link", "#0a4f94", "#6db6ff"),
    ("warn", "#8a4b00", "#ffb45c"),
    ("good", "#1a7f37", "#4cc36a"),
    ("bad", "#b3261e", "#ff7a6e"),
];

/// The style sheet of charts, for the page and for SVG files.
const PICTURE: &str = include_str!("picture.css");

/// The style sheet of charts for the page.
pub(super) fn page_style() -> String {
    let mut out = String::new();
    let _ = writeln!(out, ":root{{color-scheme:light;{}}}", variables(light));
    let dark = variables(|colour| colour.2);
    let _ = writeln!(
        out,
        "@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light])\
         {{color-scheme:dark;{dark}}}}}"
    );
    let _ = writeln!(out, "@media screen{{:root[data-theme=dark]{{color-scheme:dark;{dark}}}}}");
    out + PICTURE + &classes(|name| format!("var(--{name})"))
}

/// The style sheet of charts for SVG files, with literal colours: typesetting programs do not support CSS variables.
pub(super) fn file_style() -> String {
    let mut out = PICTURE.to_owned();
    for colour in all() {
        out = out.replace(&format!("var(--{})", colour.0), light(&colour));
    }
    let value = |name: &str| all().find(|colour| colour.0 == name).map(|colour| light(&colour)).unwrap_or("");
    out += &classes(|name| value(name).into());
    out
}

fn light(colour: &Colour) -> &'static str {
    colour.1
}

fn all() -> impl Iterator<Item = Colour> {
    RIVALS.into_iter().chain(SHADES).chain(INKS).chain(PAPER)
}

fn variables(value: impl Fn(&Colour) -> &'static str) -> String {
    all().map(|colour| format!("--{}:{};", colour.0, value(&colour))).collect()
}

/// One class for each capturer's colour and for each shade.
fn classes(value: impl Fn(&str) -> String) -> String {
    let rivals = RIVALS.iter().map(|(name, ..)| format!(".{name}{{color:{}}}\n", value(name)));
    let shades = SHADES.iter().chain(&INKS).map(|(name, ..)| format!(".{name}{{fill:{}}}\n", value(name)));
    rivals.chain(shades).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_of_the_rules_is_known() {
        assert!(!file_style().contains("var("), "{}", file_style());
    }

    /// Relative luminance (WCAG 2.2).
    fn luminance(hex: &str) -> f64 {
        let part = |i: usize| f64::from(u8::from_str_radix(&hex[i..i + 2], 16).unwrap()) / 255.0;
        let linear = |c: f64| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
        0.2126 * linear(part(1)) + 0.7152 * linear(part(3)) + 0.0722 * linear(part(5))
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        a.max(b) / a.min(b)
    }

    #[test]
    fn all_that_is_drawn_stands_out_from_its_paper() {
        for (name, light, dark) in RIVALS {
            assert!(contrast(light, "#ffffff") >= 3.0 && contrast(dark, "#14171c") >= 3.0, "{name}");
        }
        for (name, light, dark) in
            PAPER.into_iter().filter(|(name, ..)| ["warn", "good", "bad"].contains(name))
        {
            assert!(contrast(light, "#ffffff") >= 4.5 && contrast(dark, "#14171c") >= 4.5, "{name} is text");
        }
        for (shade, ink) in SHADES.iter().zip(INKS) {
            let (on_light, on_dark) = (contrast(shade.1, ink.1), contrast(shade.2, ink.2));
            assert!(on_light >= 3.5 && on_dark >= 3.5, "{}: {on_light}, {on_dark}", shade.0);
        }
    }

    #[test]
    fn shades_of_loss_go_one_way_in_lightness() {
        let falls = |part: fn(&Colour) -> &'static str| {
            SHADES[1..].windows(2).all(|two| luminance(part(&two[0])) > luminance(part(&two[1])))
        };
        let rises = SHADES[1..].windows(2).all(|two| luminance(two[0].2) < luminance(two[1].2));
        assert!(falls(light) && rises);
    }
}
