//! All objects as a table for programs: a line each, with fields between tabs.

use super::line::{Body, Object};

/// The name of the table in the folder.
pub(crate) const TABLE: &str = "objects.tsv";

/// The first line.
pub(super) const HEAD: &str = "file\tkind\tbytes\tsha256\tpartial\tdecoded\tconnection\tmethod\tstatus\turl\t\
    content_type\tcontent_encoding\n";

/// The line of an object. The texts of others are printable ASCII: they have no tab and no line end.
pub(super) fn row(object: &Object, body: &Body) -> String {
    let Object { file, bytes, kind, sha256, decoded, .. } = object;
    let Body { connection, method, content_type, coding, .. } = body;
    let status = body.status.map(|status| status.to_string()).unwrap_or_default();
    let (lack, url) = (object.lack(), body.url());
    let of_file = format!("{file}\t{kind}\t{bytes}\t{sha256}\t{lack}\t{decoded}");
    format!("{of_file}\t{connection}\t{method}\t{status}\t{url}\t{content_type}\t{coding}\n")
}
