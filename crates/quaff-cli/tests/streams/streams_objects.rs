//! `quaff streams extract --objects`: files named for their URL with what a browser would have got, decoded as Python
//! encodes them; partial ones, hostile ones; the page, the table and the index; for real captures each object that
//! tshark exports.

use crate::capture::{ACK, Capture, FIN, SYN};
use crate::streams_bodies::{captures, files};
use crate::support::{QUAFF, folder, names, tool};
use quaff_testkit as testing;
use quaff_testkit::test_name;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Captures with HTTP besides those whose bodies are compared: their connections begin with heads, too.
const MORE: [&str; 15] = [
    "6in4tunnel.pcap",
    "EAQ.pcap",
    "dotenv.pcap",
    "gnutella.pcap",
    "http_invalid_server.pcap",
    "mpeg.pcap",
    "punycode-idn.pcap",
    "socks.pcap",
    "softether.pcap",
    "tls_certificate_too_long.pcap",
    "webex.pcap",
    "wow.pcap",
    "http-proxy.pcapng",
    "http_asymmetric.pcapng",
    "http_starting_with_reply.pcapng",
];
/// Captures in which tshark exports what is no object, and the reason. A line whose capture is here and no longer
/// differs is a failure as well.
const DIFFERENT: [(&str, &str); 4] = [
    ("KakaoTalk_chat.pcap", "messages of another protocol on port 8080"),
    ("anydesk.pcapng", "messages of another protocol on port 80"),
    ("avast.pcap", "messages of another protocol on port 80"),
    ("instagram.pcap", "segments of answers that began before the capture"),
];

/// The one that has the packages of the system.
const PYTHON: &str = "/usr/bin/python3";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n image";

/// The output of a command that gets these bytes on stdin; `None` if it fails.
fn filtered(command: &mut Command, input: &[u8]) -> Option<Vec<u8>> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = command.spawn().expect("it starts");
    let (mut stdin, input) = (running.stdin.take().expect("a pipe"), input.to_vec());
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let done = running.wait_with_output().expect("it ends");
    let written = writer.join().expect("no panic");
    (done.status.success() && written.is_ok()).then_some(done.stdout)
}

/// The value of an expression of Python in which the bytes are `body`.
fn python(expression: &str, body: &[u8]) -> Option<Vec<u8>> {
    let program = format!(
        "import sys, gzip, zlib, hashlib\nbody = sys.stdin.buffer.read()\nsys.stdout.buffer.write({expression})"
    );
    filtered(Command::new(PYTHON).args(["-c", &program]), body)
}

/// The result of an extraction.
struct Extracted {
    code: i32,
    sums: Value,
    /// The lines of all bodies in the index.
    bodies: Vec<Value>,
}

/// Extracts into a folder.
fn extract(input: &Path, out: &Path, args: &[&str]) -> Extracted {
    let mut quaff = Command::new(QUAFF);
    quaff.args(["streams", "extract", "--decap", "auto", "--json"]).args(args);
    let done = quaff.arg("--read").arg(input).arg("--dir").arg(out).output().expect("quaff runs");
    let sums = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    let index = std::fs::read_to_string(out.join("index.jsonl")).expect("an index");
    let lines = index.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let sides =
        lines.flat_map(|line| ["from_client", "from_server"].map(|side| line[side]["bodies"].clone()));
    let bodies = sides.flat_map(|bodies| bodies.as_array().cloned().unwrap_or_default()).collect();
    Extracted { code: done.status.code().expect("a status"), sums, bodies }
}

/// Extracts the objects of a capture to DIR/out.
fn objects_of(capture: &Capture, dir: &TempDir) -> Extracted {
    extract(Path::new(&capture.write(dir)), &dir.path().join("out"), &["--objects"])
}

fn read(dir: &TempDir, name: &str) -> Vec<u8> {
    let path = dir.path().join("out").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: b.example\r\n\r\n").into_bytes()
}

fn answer(coding: &str, body: &[u8]) -> Vec<u8> {
    let coding = if coding.is_empty() { String::new() } else { format!("Content-Encoding: {coding}\r\n") };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{coding}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[test]
fn objects_are_decoded_named_for_their_url_and_listed() {
    let test = test_name!();
    let (Some(_), Some(mut zstd)) = (tool(test, PYTHON), tool(test, "zstd")) else { return };
    let dir = folder();
    let page = b"<html>hello</html>".repeat(50);
    let encoded = |expression: &str| python(expression, &page).expect("Python encodes");
    let zstd = filtered(zstd.args(["-q", "-c"]), &page).expect("zstd encodes");
    let asked = ["/", "/a/logo.php?x=1", "/deflate", "/raw.htm", "/zstd", "/<script>.js", "/odd"];
    let answers = [
        answer("gzip", &encoded("gzip.compress(body)")),
        answer("", PNG),
        answer("deflate", &encoded("zlib.compress(body)")),
        answer("deflate", &encoded("zlib.compress(body)[2:-4]")),
        answer("zstd", &zstd),
        answer("br", b"\x0b\x05\x80hello world\x03"),
        answer("compress", b"as it was sent"),
    ];
    let expected: [(&str, &[u8], &str); 7] = [
        ("000001-b.example-index.html", &page, "html"),
        ("000002-b.example-logo.php.png", PNG, "png"),
        ("000003-b.example-deflate.html", &page, "html"),
        ("000004-b.example-raw.htm", &page, "html"),
        ("000005-b.example-zstd.html", &page, "html"),
        ("000006-b.example-_script_.js", b"hello world", "txt"),
        ("000007-b.example-odd.txt", b"as it was sent", "txt"),
    ];
    let mut capture = Capture::new();
    capture.connection(100, &asked.map(get).concat(), &answers.concat());
    let found = objects_of(&capture, &dir);
    assert_eq!(found.bodies.len(), expected.len());
    for (body, (file, bytes, kind)) in found.bodies.iter().zip(expected) {
        let object = &body["object"];
        assert_eq!(
            (&body["file"], &object["kind"], &object["partial"]),
            (&file.into(), &kind.into(), &Value::Null)
        );
        assert_eq!(object["decoded"], body["content_encoding"] != "compress", "{body}");
        assert_eq!((&object["bytes"], read(&dir, file)), (&bytes.len().into(), bytes.to_vec()));
        let digest = python("hashlib.sha256(body).hexdigest().encode()", bytes).expect("a digest");
        assert_eq!(object["sha256"], String::from_utf8(digest).expect("digits"));
    }
    let mut left: Vec<_> = expected.iter().map(|(file, ..)| *file).collect();
    left.extend(["index.html", "index.jsonl", "objects.tsv"]);
    assert_eq!(names(&dir.path().join("out")), left);
    let bytes: usize = expected.iter().map(|(_, bytes, _)| bytes.len()).sum();
    let sums = serde_json::json!({"files": 7, "bytes": bytes, "partial": 0, "damaged": 0, "limited": 0});
    assert_eq!((found.code, &found.sums["objects"], &found.sums["files"]), (0, &sums, &0.into()));
    are_listed(&dir, &found.bodies);
}

/// The page and the table have the objects of the index.
fn are_listed(dir: &TempDir, bodies: &[Value]) {
    let [page, table] =
        ["index.html", "objects.tsv"].map(|name| String::from_utf8(read(dir, name)).expect("text"));
    assert!(page.contains("http://b.example/&lt;script&gt;.js") && !page.contains("<script"), "{page}");
    assert!(
        page.contains("<a href=\"000002-b.example-logo.php.png\">") && page.ends_with("</html>\n"),
        "{page}"
    );
    assert!(!page.contains("href=\"000001"), "a page is a link: {page}");
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    for (row, body) in rows.iter().zip(bodies) {
        let object = &body["object"];
        assert_eq!(
            (row[0], row[1], row[3]),
            (text(&body["file"]), text(&object["kind"]), text(&object["sha256"]))
        );
        assert_eq!((row[4], row[6], row[7], row[8]), ("", "1", "GET", "200"));
        assert_eq!(row[9], format!("http://b.example{}", text(&body["target"])));
        assert!(page.contains(row[3]), "{page}");
    }
    assert_eq!(rows.len(), bodies.len());
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

#[test]
fn br_is_decoded_to_what_python_encoded() {
    let test = test_name!();
    let Some(_) = tool(test, PYTHON) else { return };
    // Text, bytes without a pattern, and more than the window.
    let bodies: [(&str, usize); 3] =
        [("b'many words '", 500), ("bytes(range(256))", 40), ("b'0123456789'", 300_000)];
    let compress = |(bytes, times): &(&str, usize)| {
        python(&format!("__import__('brotli').compress({bytes} * {times}, lgwin=16)"), b"")
    };
    let Some(encoded) = bodies.iter().map(compress).collect::<Option<Vec<_>>>() else {
        testing::skip(test, "python3-brotli is not installed");
        return;
    };
    let (dir, mut capture) = (folder(), Capture::new());
    let asked = bodies.each_ref().map(|_| get("/x"));
    let answers: Vec<_> = encoded.iter().map(|body| answer("br", body)).collect();
    capture.connection(100, &asked.concat(), &answers.concat());
    let found = objects_of(&capture, &dir);
    for (body, (bytes, times)) in found.bodies.iter().zip(bodies) {
        let expected = python(&format!("{bytes} * {times}"), b"").expect("bytes");
        assert!(read(&dir, text(&body["file"])) == expected, "{body}");
    }
    assert_eq!((found.bodies.len(), &found.sums["objects"]["partial"]), (bodies.len(), &0.into()));
}

/// A connection in which a segment of the answer is missing, though the client acknowledged it.
fn add_gap(capture: &mut Capture, asked: &[u8], answer: &[u8], missing: std::ops::Range<usize>) {
    let (after, end) = (101 + asked.len() as u32, 501 + answer.len() as u32);
    capture.client(SYN, [100, 0], b"");
    capture.server(SYN | ACK, [500, 101], b"");
    capture.client(ACK, [101, 501], asked);
    capture.server(ACK, [501, after], &answer[..missing.start]);
    capture.server(ACK, [501 + missing.end as u32, after], &answer[missing.end..]);
    capture.client(ACK, [after, end], b"");
    capture.server(FIN | ACK, [end, after], b"");
    capture.client(FIN | ACK, [after, end + 1], b"");
    capture.server(ACK, [end + 1, after + 1], b"");
}

#[test]
fn an_object_that_lacks_bytes_is_partial_and_has_what_could_be_had() {
    let test = test_name!();
    let Some(_) = tool(test, PYTHON) else { return };
    let (dir, mut capture) = (folder(), Capture::new());
    let words: String = (0..3000).map(|number| format!("{number} words ")).collect();
    let gzip = python("gzip.compress(body)", words.as_bytes()).expect("gzip");
    let half = &gzip[..gzip.len() / 2];
    let answers = [answer("gzip", half), answer("gzip", b"no gzip"), answer("", b"0123456789")].concat();
    // The last one is cut by the end of its connection.
    capture.connection(100, &["/half", "/no", "/cut"].map(get).concat(), &answers[..answers.len() - 3]);
    capture.client.1 += 1;
    let answer = answer("", &[b'a'; 300]);
    add_gap(&mut capture, &get("/gap"), &answer, answer.len() - 200..answer.len() - 50);
    let found = objects_of(&capture, &dir);
    for (target, reason, bytes) in [
        ("/half", "damaged", 1000..words.len()),
        ("/no", "damaged", 0..1),
        ("/cut", "missing", 7..8),
        ("/gap", "missing", 150..151),
    ] {
        let body = found.bodies.iter().find(|body| body["target"] == target).expect("a body");
        let (file, object) = (text(&body["file"]), &body["object"]);
        assert!(object["partial"] == reason && file.ends_with(".partial"), "{body}");
        let left = read(&dir, file);
        let is_begin =
            target == "/gap" || words.as_bytes().starts_with(&left) || b"0123456789".starts_with(&left);
        assert!(is_begin && bytes.contains(&left.len()) && object["bytes"] == left.len(), "{body}");
    }
    let sums = &found.sums["objects"];
    assert_eq!((found.code, &sums["partial"], &sums["damaged"]), (1, &4.into(), &2.into()));
}

#[test]
fn hostile_names_stay_in_the_folder_and_are_unique() {
    let (dir, mut capture) = (folder(), Capture::new());
    let long = format!("/{}/{}", "d/".repeat(200), "x".repeat(900));
    let targets = [
        "/../../etc/passwd",
        "../../etc/passwd",
        "http://h/../../etc/passwd",
        "/a/..",
        "/.",
        "/%2e%2e%2fetc%2fpasswd",
        "/\\..\\..\\x",
        "/con",
        "/index.html",
        "/same",
        "/same",
        "/nul\0byte",
        "/esc\u{1b}[31m\u{202e}",
        "/;rm -rf ~;`id`|$(id)",
        "/x.partial",
        &long,
    ];
    for target in targets {
        let asked = format!("GET {target} HTTP/1.1\r\nHost: ../../\"><script>.example\r\n\r\n");
        capture.client.1 += 1;
        capture.connection(100, asked.as_bytes(), &answer("", b"words"));
    }
    let found = objects_of(&capture, &dir);
    let all: BTreeSet<_> = found.bodies.iter().map(|body| text(&body["file"])).collect();
    let left = names(&dir.path().join("out"));
    // With the page, the table and the index.
    assert_eq!((all.len(), left.len()), (targets.len(), targets.len() + 3), "{left:?}");
    let is_plain = |name: &String| {
        let is_short = name.len() < 200 && name.starts_with(|c: char| c.is_ascii_alphanumeric());
        is_short && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    assert!(left.iter().all(is_plain), "{left:?}");
    assert!(all.iter().all(|name| !name.ends_with(".partial") && read(&dir, name) == b"words"), "{all:?}");
    let is_file = |path: &PathBuf| path.symlink_metadata().expect("a file").is_file();
    assert!(files(&dir.path().join("out")).iter().all(is_file));
    assert_eq!(names(dir.path()), ["in.pcap", "out"]);
    let page = String::from_utf8(read(&dir, "index.html")).expect("text");
    assert!(!page.contains("<script") && !page.contains("\"><"), "{page}");
}

#[test]
fn bombs_are_cut_named_and_counted() {
    let test = test_name!();
    let (Some(_), Some(mut zstd)) = (tool(test, PYTHON), tool(test, "zstd")) else { return };
    let (dir, mut capture) = (folder(), Capture::new());
    let gzip = python("gzip.compress(bytes(64 << 20))", b"").expect("gzip");
    let zeros = vec![0; 32 << 20];
    let zstd = filtered(zstd.args(["-q", "-c"]), &zeros).expect("zstd");
    let small = python("gzip.compress(bytes(1 << 20))", b"").expect("gzip");
    // More than a segment carries: the answers come in several.
    let answers = [answer("gzip", &gzip), answer("zstd", &zstd), answer("gzip", &small)].concat();
    capture.client(SYN, [100, 0], b"");
    capture.server(SYN | ACK, [500, 101], b"");
    let asked = [get("/a"), get("/b"), get("/c")].concat();
    capture.client(ACK, [101, 501], &asked);
    let (mut at, after) = (501, 101 + asked.len() as u32);
    for part in answers.chunks(1400) {
        capture.server(ACK, [at, after], part);
        at += part.len() as u32;
        capture.client(ACK, [after, at], b"");
    }
    capture.server(FIN | ACK, [at, after], b"");
    capture.client(FIN | ACK, [after, at + 1], b"");
    capture.server(ACK, [at + 1, after + 1], b"");
    let found = objects_of(&capture, &dir);
    let object = |at: usize| (text(&found.bodies[at]["file"]), &found.bodies[at]["object"]);
    for at in [0, 1] {
        let (file, object) = object(at);
        let is_cut =
            file.ends_with(".partial") && object["partial"] == "limit" && object["bytes"] == 16 << 20;
        assert!(is_cut && read(&dir, file).len() == 16 << 20, "{file}: {object}");
    }
    let (file, whole) = object(2);
    assert!(whole["partial"].is_null() && read(&dir, file) == vec![0; 1 << 20], "{file}: {whole}");
    assert_eq!((found.code, &found.sums["objects"]["limited"]), (1, &2.into()));
}

/// The objects that tshark exports, decoded.
fn exported(capture: &Path) -> BTreeSet<Vec<u8>> {
    let dir = folder();
    let objects = format!("http,{}", dir.path().display());
    let mut tshark = Command::new("tshark");
    tshark
        .args(["-q", "-o", "tcp.reassemble_out_of_order:TRUE", "--export-objects", &objects, "-r"])
        .arg(capture);
    tshark.output().expect("tshark runs");
    let objects = files(dir.path()).into_iter().map(|file| std::fs::read(file).expect("a file"));
    objects.filter(|bytes| !bytes.is_empty()).collect()
}

/// The objects of a capture, each compared with its body as Python decodes it; and the number of those.
fn decoded_as_python_does(capture: &Path) -> (BTreeSet<Vec<u8>>, usize) {
    let dir = folder();
    let [sent_dir, out] = ["sent", "out"].map(|name| dir.path().join(name));
    let sent = extract(capture, &sent_dir, &["--http-bodies", "-q"]).bodies;
    let objects = extract(capture, &out, &["--objects", "-q"]).bodies;
    assert_eq!(sent.len(), objects.len(), "{}", capture.display());
    let (mut all, mut decoded) = (BTreeSet::new(), 0);
    for (body, object) in sent.iter().zip(&objects) {
        let [sent, ours] = [(&sent_dir, body), (&out, object)]
            .map(|(dir, line)| std::fs::read(dir.join(text(&line["file"]))).expect("a file"));
        let (reason, whats) = (&object["object"]["partial"], format!("{}: {object}", capture.display()));
        assert_eq!(reason == "missing", body["whole"] == false, "{whats}");
        match (&body["whole"], text(&body["content_encoding"])) {
            (Value::Bool(true), "gzip") => {
                let theirs = python("gzip.decompress(body)", &sent);
                assert_eq!(theirs.is_none(), reason == "damaged", "{whats}");
                assert!(theirs.is_none_or(|theirs| theirs == ours), "{whats}");
                decoded += 1;
            }
            (_, "") => assert!(sent == ours, "{whats}"),
            _ => {}
        }
        all.insert(ours);
    }
    (all, decoded)
}

/// Objects of tshark that quaff does not have, in words, and the number of all.
fn missing(capture: &Path, ours: &BTreeSet<Vec<u8>>) -> (Vec<String>, usize) {
    let theirs = exported(capture);
    let words = |bytes: &&Vec<u8>| {
        let begin = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        format!("{}: {} bytes: {begin:?}", capture.display(), bytes.len())
    };
    (theirs.difference(ours).map(|bytes| words(&bytes)).collect(), theirs.len())
}

fn here(name: &str) -> Option<PathBuf> {
    let path = testing::captures().join("protocols").join(name);
    path.exists().then_some(path)
}

#[test]
fn objects_are_those_that_tshark_exports_and_python_decodes() {
    let test = test_name!();
    let (Some(_), Some(_)) = (tool(test, "tshark"), tool(test, PYTHON)) else { return };
    let of_bodies = captures();
    if of_bodies.is_empty() {
        testing::skip(test, &format!("there is no capture with HTTP in {}", testing::captures().display()));
        return;
    }
    let is_real = of_bodies.len() > 1;
    let (mut compared, mut decoded, mut missed) = (0, 0, Vec::new());
    for capture in of_bodies.into_iter().chain(MORE.into_iter().filter_map(here)) {
        let (ours, of_python) = decoded_as_python_does(&capture);
        let (missing, all) = missing(&capture, &ours);
        decoded += of_python;
        compared += all;
        missed.extend(missing);
    }
    assert!(compared > 40 && (decoded > 5 || !is_real), "{compared} compared, {decoded} decoded");
    assert!(missed.is_empty(), "{} of {compared} differ: {missed:#?}", missed.len());
    for (name, reason) in DIFFERENT {
        let Some(capture) = here(name) else { continue };
        let (missing, _) = missing(&capture, &decoded_as_python_does(&capture).0);
        assert!(!missing.is_empty(), "{name} no longer differs: {reason}");
    }
}
