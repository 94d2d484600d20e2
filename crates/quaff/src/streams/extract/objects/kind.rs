//! The kind of a file by its first bytes, whatever its name or the server says.

/// A mark at an offset, and the suffixes of files that have it; the first one is the name of the kind.
type Mark = (usize, &'static [u8], &'static [&'static str]);

const MARKS: [Mark; 29] = [
    (0, b"\x89PNG\r\n\x1a\n", &["png"]),
    (0, b"\xff\xd8\xff", &["jpg", "jpeg", "jpe", "jfif"]),
    (0, b"GIF87a", &["gif"]),
    (0, b"GIF89a", &["gif"]),
    (8, b"WEBP", &["webp"]),
    (8, b"WAVE", &["wav"]),
    (8, b"AVI ", &["avi"]),
    (4, b"ftyp", &["mp4", "m4a", "m4v", "m4s", "mov", "3gp", "heic", "avif"]),
    (0, b"\0\0\x01\0", &["ico"]),
    (0, b"%PDF-", &["pdf"]),
    (0, b"PK\x03\x04", &["zip", "jar", "apk", "docx", "xlsx", "pptx", "odt", "ods", "epub", "xpi", "crx"]),
    (0, b"\x1f\x8b\x08", &["gz", "tgz", "svgz"]),
    (0, b"BZh", &["bz2", "tbz2"]),
    (0, b"\xfd7zXZ\0", &["xz", "txz"]),
    (0, b"\x28\xb5\x2f\xfd", &["zst"]),
    (0, b"7z\xbc\xaf\x27\x1c", &["7z"]),
    (0, b"Rar!\x1a\x07", &["rar"]),
    (0, b"MSCF", &["cab"]),
    (0, b"MZ", &["exe", "dll", "sys", "scr", "ocx", "cpl"]),
    (0, b"\x7fELF", &["elf", "so", "o", "ko"]),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", &["ole", "doc", "xls", "ppt", "msi", "msg"]),
    (0, b"CWS", &["swf"]),
    (0, b"FWS", &["swf"]),
    (0, b"FLV\x01", &["flv"]),
    (0, b"ID3", &["mp3"]),
    (0, b"OggS", &["ogg", "oga", "ogv", "opus"]),
    (0, b"wOF2", &["woff2"]),
    (0, b"wOFF", &["woff"]),
    (0, b"\0asm", &["wasm"]),
];
/// The same of texts, by how they begin, in small letters.
const TEXTS: [(&[u8], &[&str]); 7] = [
    (b"<!doctype html", HTML),
    (b"<html", HTML),
    (b"<head", HTML),
    (b"<?xml", &["xml", "svg", "rss", "atom", "xsd", "xsl", "xhtml", "plist"]),
    (b"<svg", &["svg"]),
    (b"#!/bin/sh", &["sh"]),
    (b"#!/bin/bash", &["sh", "bash"]),
];
const HTML: &[&str] = &["html", "htm", "xhtml", "shtml"];
const JSON: &[&str] = &["json", "js", "map", "geojson"];

/// Bytes of a file by which its kind is known.
const BYTES: usize = 512;

/// A kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// Suffixes of its files; any one if there are none.
    suffixes: &'static [&'static str],
}

impl Kind {
    /// Bytes of no known kind.
    pub(super) const DATA: Self = Self { name: "data", suffixes: &[] };
    /// Text of no known kind.
    const TEXT: Self = Self { name: "txt", suffixes: &[] };

    const fn of(suffixes: &'static [&'static str]) -> Self {
        Self { name: suffixes[0], suffixes }
    }

    /// The kind of a file that begins with these bytes.
    pub(super) fn by_content(begin: &[u8]) -> Self {
        let begin = &begin[..begin.len().min(BYTES)];
        let is_text = is_text(begin);
        let is_marked = |(at, mark, _): &&Mark| {
            // Words may begin with three letters of a mark, or have it in the midst of them.
            let is_clear = *at == 0 && mark.len() > 3;
            (is_clear || !is_text) && begin.get(*at..).is_some_and(|rest| rest.starts_with(mark))
        };
        match MARKS.iter().find(is_marked) {
            Some((.., suffixes)) => Self::of(suffixes),
            None if is_text => Self::of_text(begin),
            None => Self::DATA,
        }
    }

    fn of_text(begin: &[u8]) -> Self {
        let text =
            begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begin).trim_ascii_start().to_ascii_lowercase();
        match TEXTS.iter().find(|(start, _)| text.starts_with(start)) {
            Some((_, suffixes)) => Self::of(suffixes),
            None if is_json(&text) => Self::of(JSON),
            None => Self::TEXT,
        }
    }

    /// Returns whether files of the kind have the suffix.
    pub(super) fn has_suffix(self, suffix: &str) -> bool {
        self.suffixes.is_empty() || self.suffixes.iter().any(|own| own.eq_ignore_ascii_case(suffix))
    }

    /// The suffix of a file that has none.
    pub(super) fn suffix(self) -> &'static str {
        if self == Self::DATA { "bin" } else { self.name }
    }
}

/// True for bytes without control characters that no text has.
fn is_text(begin: &[u8]) -> bool {
    !begin.is_empty()
        && begin.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x20..=0x7e | 0x80..))
}

/// True for the begin of an object or of a list. `[` alone begins files of settings, too.
fn is_json(text: &[u8]) -> bool {
    let Some((first, rest)) = text.split_first() else { return false };
    match (first, rest.trim_ascii_start().first()) {
        (b'{', Some(b'"' | b'}')) => true,
        (b'[', Some(next)) => matches!(next, b'{' | b'[' | b']' | b'"' | b'-' | b'0'..=b'9'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_that_of_the_content() {
        for (begin, expected) in [
            (&b"\x89PNG\r\n\x1a\n\0\0"[..], "png"),
            (b"RIFF\x10\0\0\0WEBPVP8 ", "webp"),
            (b"\0\0\0\x20ftypisom", "mp4"),
            (b"MZ\x90\0", "exe"),
            (b"MZ is no program", "txt"),
            (b"Ten on  WAVE words", "txt"),
            (b"%PDF-1.4\n", "pdf"),
            (b"\xef\xbb\xbf \n<!DOCTYPE HTML>", "html"),
            (b"{\"a\":1}", "json"),
            (b"[\n{}]", "json"),
            (b"[settings]\na=1", "txt"),
            (b"#!/bin/sh\n", "sh"),
            (b"just words", "txt"),
            (b"\0\x01\x02", "data"),
            (b"", "data"),
        ] {
            assert_eq!(Kind::by_content(begin).name, expected, "{begin:?}");
        }
    }

    #[test]
    fn a_suffix_is_one_of_the_kind() {
        let png = Kind::by_content(b"\x89PNG\r\n\x1a\n");
        assert!(png.has_suffix("PNG") && !png.has_suffix("php"));
        assert!(Kind::DATA.has_suffix("dat") && Kind::TEXT.has_suffix("css"));
        assert_eq!((png.suffix(), Kind::DATA.suffix(), Kind::TEXT.suffix()), ("png", "bin", "txt"));
    }
}
