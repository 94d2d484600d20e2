//! The name of an object, by its URL: safe for any file system, shell and page, and never that of another file.
//!
//! `000012-b.example-logo.png`: the number of the object, the host, the last part of the path. Nothing but letters,
//! digits, dots, dashes and underscores; the number makes it unique, and no name begins with a dot or a dash.

use super::kind::Kind;
use super::line::Body;

/// Characters that a name takes from the host, and from the path.
const HOST_CHARS: usize = 60;
const PATH_CHARS: usize = 80;
/// The longest suffix that a URL gives a name.
const SUFFIX_CHARS: usize = 5;
/// The suffix of an object that lacks bytes. A URL cannot give it: it is longer.
const PARTIAL: &str = ".partial";

/// The name of object `number`. It ends as the content does: a suffix that is not one of the kind gets another one.
pub(super) fn name(number: u64, body: &Body, kind: Kind) -> String {
    let stem = stem(number, body);
    let is_suffix = |suffix: &&str| {
        (1..=SUFFIX_CHARS).contains(&suffix.len()) && suffix.chars().all(|c| c.is_ascii_alphanumeric())
    };
    let suffix = stem.rsplit_once('.').map(|(_, suffix)| suffix).filter(is_suffix);
    let is_its = suffix.is_some_and(|suffix| kind.has_suffix(suffix));
    if is_its { stem } else { format!("{stem}.{}", kind.suffix()) }
}

/// The name of an object that lacks bytes.
pub(super) fn partial(name: &str) -> String {
    format!("{name}{PARTIAL}")
}

/// The name without the suffix of the kind.
fn stem(number: u64, body: &Body) -> String {
    let path = body.target.split(['?', '#']).next().unwrap_or_default();
    let path =
        path.split_once("://").map_or(path, |(_, rest)| rest.split_once('/').map_or("", |(_, path)| path));
    let last = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("index");
    // The end of a name has its suffix.
    let skipped = last.chars().count().saturating_sub(PATH_CHARS);
    let last: String = last.chars().skip(skipped).map(plain).collect();
    let host: String = body.host.chars().take(HOST_CHARS).map(plain).collect();
    format!("{number:06}-{host}-{last}")
}

/// A character that a name may have.
fn plain(c: char) -> char {
    if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(host: &str, target: &str, content: &[u8]) -> String {
        let body = Body {
            file: "body",
            bytes: 0,
            is_whole: true,
            coding: "",
            content_type: "",
            connection: 1,
            method: "GET",
            host,
            target,
            status: None,
        };
        name(7, &body, Kind::by_content(content))
    }

    #[test]
    fn names_come_from_the_url_and_are_plain() {
        for (host, target, expected) in [
            ("a.example", "/img/logo.css?x=/1", "000007-a.example-logo.css"),
            ("a.example:8080", "/", "000007-a.example_8080-index.txt"),
            ("", "/a/b/", "000007--b.txt"),
            ("p", "http://h/x/../../etc/passwd", "000007-p-passwd.txt"),
            ("p", "../../../etc/shadow", "000007-p-shadow.txt"),
            ("p", "..%2f..%2fetc%2fpasswd", "000007-p-..%2f..%2fetc%2fpasswd.txt"),
            ("..", "/..", "000007-..-...txt"),
            ("../..", "/a\\..\\b", "000007-.._..-a_.._b.txt"),
            ("a", "/\u{202e}gpj.exe%00\n", "000007-a-_gpj.exe_00_.txt"),
            ("a", "/con", "000007-a-con.txt"),
            ("a", "/index.jsonl", "000007-a-index.jsonl"),
            ("a", "/x.partial", "000007-a-x.partial.txt"),
        ] {
            assert_eq!(named(host, target, b"words"), expected.replace('%', "_"));
        }
        let name = named(&"h".repeat(500), &format!("/{}.css", "x".repeat(500)), b"words");
        assert!(name.len() <= 160 && name.ends_with("x.css"), "{name}");
    }

    #[test]
    fn a_name_ends_as_the_content_does() {
        let png = b"\x89PNG\r\n\x1a\n";
        for (target, content, expected) in [
            ("/logo.PNG", &png[..], "000007-a-logo.PNG"),
            ("/logo.php", png, "000007-a-logo.php.png"),
            ("/invoice.pdf", b"MZ\x90\0", "000007-a-invoice.pdf.exe"),
            ("/page", b"<html>", "000007-a-page.html"),
            ("/page.asp", b"<html>", "000007-a-page.asp.html"),
            ("/style.css", b"a{}", "000007-a-style.css"),
            ("/data", b"\0\0", "000007-a-data.bin"),
            ("/data.v1.2", b"\0\0", "000007-a-data.v1.2"),
        ] {
            assert_eq!(named("a", target, content), expected);
        }
    }

    proptest! {
        #[test]
        fn any_url_has_a_name_that_is_one_file_of_the_folder(host in ".{0,100}", target in "(/|\\.|%|[a-z]|.){0,200}") {
            let name = partial(&named(&host, &target, b"words"));
            prop_assert!(name.starts_with("000007-") && name.len() < 200, "{}", name);
            prop_assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)), "{}", name);
        }
    }
}
