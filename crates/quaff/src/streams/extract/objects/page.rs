//! All objects as a page: a table with links, which runs nothing, loads nothing, and which no text of others can leave.
//!
//! Only pictures and plain text are links. A browser decides by the suffix what a file is: an HTML page of a stranger,
//! opened here, would run its scripts.

use super::line::{Body, Object};
use quaff_wire::printable;

/// The name of the page in the folder.
pub(crate) const PAGE: &str = "index.html";

/// Suffixes of files that a browser shows and does not run.
const SHOWN: [&str; 8] = ["png", "jpg", "jpeg", "gif", "webp", "ico", "txt", "json"];

pub(super) const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
    <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
    <meta name=\"viewport\" content=\"width=device-width\">\n\
    <title>Objects of HTTP</title>\n\
    <style>body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}\
    td,th{padding:.2em .8em;text-align:left;vertical-align:top;border-bottom:1px solid #ccc}\
    td:nth-child(1),td:nth-child(5),code{overflow-wrap:anywhere}td:nth-child(3){text-align:right}\
    .partial{color:#a00}code{font-size:11px}</style>\n</head>\n<body>\n<h1>Objects of HTTP</h1>\n\
    <p>These files came over a network. Only pictures and plain text are links: \
    a browser would run the scripts of a page.</p>\n<table>\n<tr><th>File<th>Kind<th>Bytes<th>Partial<th>URL<th>Connection<th>SHA-256\n";
pub(super) const TAIL: &str = "</table>\n</body>\n</html>\n";

/// The row of an object.
pub(super) fn row(object: &Object, body: &Body) -> String {
    let Object { file, bytes, kind, sha256, .. } = object;
    let class = if object.partial.is_some() { " class=\"partial\"" } else { "" };
    let name = escaped(file);
    // A name is its own address: it has letters, digits, dots, dashes and underscores alone.
    let link = if is_shown(file) { format!("<a href=\"{name}\">{name}</a>") } else { name };
    let (url, connection, lack) = (escaped(&body.url()), body.connection, object.lack());
    format!(
        "<tr{class}><td>{link}<td>{kind}<td>{bytes}<td>{lack}<td>{url}<td>{connection}<td><code>{sha256}</code>\n"
    )
}

fn is_shown(file: &str) -> bool {
    let suffix = file.rsplit_once('.').map(|(_, suffix)| suffix.to_ascii_lowercase());
    suffix.is_some_and(|suffix| SHOWN.contains(&suffix.as_str()))
}

/// Text of others in a page: its signs are no markup, and it cannot change the order of what is shown.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in printable::name(text).chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::line::Lack;
    use super::*;

    fn shown(file: &str, target: &str, partial: Option<Lack>) -> String {
        let (sha256, kind) = ("00".repeat(32), "png");
        let object = Object { file: file.into(), bytes: 7, kind, sha256, partial, decoded: true };
        let body = Body {
            file: "body",
            bytes: 7,
            is_whole: true,
            coding: "",
            content_type: "",
            connection: 3,
            method: "GET",
            host: "a",
            target,
            status: Some(200),
        };
        row(&object, &body)
    }

    #[test]
    fn text_of_others_is_no_markup() {
        let row = shown("000001-a.png", "/<script>alert('1')</script>\"&\u{202e}", None);
        assert!(
            row.starts_with("<tr><td><a href=\"000001-a.png\">000001-a.png</a><td>png<td>7<td><td>"),
            "{row}"
        );
        assert!(
            row.contains("http://a/&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;&amp;\u{fffd}"),
            "{row}"
        );
        assert_eq!(row.matches('\n').count(), 1, "{row}");
    }

    #[test]
    fn only_what_a_browser_does_not_run_is_a_link() {
        for (file, is_link) in [
            ("1.png", true),
            ("1.JPEG", true),
            ("1.txt", true),
            ("1.html", false),
            ("1.svg", false),
            ("1.js", false),
            ("1.png.partial", false),
            ("1", false),
        ] {
            assert_eq!(shown(file, "/", None).contains("<a "), is_link, "{file}");
        }
        let row = shown("1.png.partial", "/", Some(Lack::Limit));
        assert!(row.starts_with("<tr class=\"partial\">") && row.contains("<td>limit<td>"), "{row}");
    }
}
