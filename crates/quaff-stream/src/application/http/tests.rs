//! Realistic messages, gaps at every place, and arbitrary bytes in arbitrary pieces.

use super::message::PENDING_MAX;
use super::*;
use crate::event::Sender::{A, B};
use proptest::prelude::*;

/// A step: bytes, missing bytes, or the end of a side.
#[derive(Debug, Clone)]
enum Step {
    Data(Sender, Vec<u8>),
    Gap(Sender, u64),
    End(Sender),
}

fn a(bytes: &str) -> Step {
    Step::Data(A, bytes.as_bytes().to_vec())
}

fn b(bytes: &str) -> Step {
    Step::Data(B, bytes.as_bytes().to_vec())
}

/// Found messages, each as one line of text.
#[derive(Debug, Default)]
struct Found {
    lines: Vec<String>,
    /// With marks for gaps; and the number of marks.
    bodies: [Vec<u8>; 2],
    missing: [usize; 2],
    open: [Option<u64>; 2],
}

impl Found {
    fn take(&mut self, sender: Sender, event: HttpEvent<'_>) {
        let at = sender.index();
        match event {
            HttpEvent::Head(message) => {
                assert!(self.open[at].replace(message.number).is_none(), "the one before has ended");
                self.bodies[at].clear();
                self.missing[at] = 0;
            }
            HttpEvent::Body(message, bytes) => {
                assert_eq!(self.open[at], Some(message.number));
                self.bodies[at].extend_from_slice(bytes);
                let missing = self.missing[at];
                assert_eq!((self.bodies[at].len() - missing) as u64, message.body_bytes);
            }
            HttpEvent::Gap(message, lost) => {
                assert_eq!(self.open[at], Some(message.number));
                let marks = lost.min(5) as usize;
                self.missing[at] += marks;
                self.bodies[at].extend(std::iter::repeat_n(b'?', marks));
            }
            HttpEvent::End(message) => {
                assert_eq!(self.open[at].take(), Some(message.number));
                let body = String::from_utf8_lossy(&self.bodies[at]);
                let cut = if message.is_whole { "" } else { " cut" };
                self.lines.push(format!("{} [{body}]{cut}", words(message)));
            }
        }
    }
}

fn words(message: &HttpMessage) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let head = &message.head;
    match (head.status(), &message.request) {
        (None, _) => {
            format!(
                "{} {} {}",
                text(head.method()),
                text(head.target()),
                text(head.field("host").unwrap_or_default())
            )
        }
        (Some(status), Some(request)) => {
            format!(
                "{status} {} < {} {} {}",
                text(head.reason()),
                text(&request.method),
                text(&request.target),
                request.number
            )
        }
        (Some(status), None) => format!("{status} {}", text(head.reason())),
    }
}

fn read(steps: &[Step]) -> (Vec<String>, HttpTally) {
    let (mut reader, mut found) = (HttpReader::default(), Found::default());
    let mut sink = |sender: Sender, event: HttpEvent<'_>| found.take(sender, event);
    for step in steps {
        match step {
            Step::Data(sender, bytes) => reader.data(*sender, bytes, &mut sink),
            Step::Gap(sender, lost) => reader.gap(*sender, *lost, &mut sink),
            Step::End(sender) => reader.end(*sender, &mut sink),
        }
        assert!(reader.tally().is_balanced(), "{:?}", reader.tally());
    }
    for sender in [A, B] {
        reader.end(sender, &mut sink);
    }
    assert!(reader.is_over() && found.open == [None; 2]);
    (found.lines, *reader.tally())
}

fn lines(steps: &[Step]) -> Vec<String> {
    read(steps).0
}

#[test]
fn bodies_end_where_the_rules_say() {
    let get = a("GET /x HTTP/1.1\r\nHost: h.example\r\n\r\n");
    let asked = "GET /x h.example []";
    let answer = |response: &str, expected: &str| {
        let found = lines(&[
            get.clone(),
            b(response),
            get.clone(),
            b("HTTP/1.1 404 no\r\nContent-Length: 0\r\n\r\n"),
        ]);
        assert_eq!(found, [asked, expected, asked, "404 no < GET /x 2 []"], "{response}");
    };
    answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "200 OK < GET /x 1 [hello]");
    answer("HTTP/1.1 200\r\nContent-Length: 2, 2\r\ncontent-length: 2\r\n\r\nhi", "200  < GET /x 1 [hi]");
    answer("HTTP/1.1 204 -\r\nContent-Length: 5\r\n\r\n", "204 - < GET /x 1 []");
    answer("HTTP/1.0 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "304 Not Modified < GET /x 1 []");
    answer(
        "HTTP/1.1 200 OK\nTransfer-Encoding: gzip,\n Chunked\nContent-Length: 9\n\n3;x=\"y\"\r\nabc\r\n0A \n0123456789\n0\nT: 1\n\n",
        "200 OK < GET /x 1 [abc0123456789]",
    );
    let until = [get, b("HTTP/1.0 200 OK\r\n\r\none\r\n"), b("HTTP/1.1 200 OK\r\n"), Step::End(B)];
    assert_eq!(lines(&until), [asked, "200 OK < GET /x 1 [one\r\nHTTP/1.1 200 OK\r\n]"]);
}

#[test]
fn responses_find_their_requests() {
    let pipelined = [
        a(
            "HEAD /1 HTTP/1.1\r\n\r\n\r\nPOST /2 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /3 HTTP/1.1\r\n\r\n",
        ),
        b("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"),
        b(
            "HTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\n!HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        b("HTTP/1.1 408 Timeout\r\nContent-Length: 0\r\n\r\n"),
    ];
    let (found, tally) = read(&pipelined);
    assert_eq!(
        found,
        [
            "HEAD /1  []",
            "POST /2  [abc]",
            "GET /3  []",
            "200 OK < HEAD /1 1 []",
            "100 Continue < POST /2 2 []",
            "201 Created < POST /2 2 [!]",
            "200 OK < GET /3 3 []",
            "408 Timeout []"
        ]
    );
    assert_eq!((tally.requests, tally.responses, tally.unpaired, tally.malformed), (3, 5, 1, 0));
    let requests: String = (0..=PENDING_MAX).map(|_| "GET / HTTP/1.1\r\n\r\n").collect();
    let (_, tally) = read(&[a(&requests), b("HTTP/1.1 204 OK\r\n\r\n")]);
    assert_eq!((tally.requests, tally.unpaired), (PENDING_MAX as u64 + 1, 1), "too many wait");
}

#[test]
fn tunnels_are_not_read() {
    let request = "CONNECT h:443 HTTP/1.1\r\nContent-Length: 7\r\n\r\n";
    let steps = [a(request), b("HTTP/1.1 200 OK\r\n\r\nGET / HTTP/1.1\r\n\r\n"), a("GET / HTTP/1.1\r\n\r\n")];
    let (found, tally) = read(&steps);
    assert_eq!((found.len(), tally.tunnels, tally.skipped_bytes), (2, 2, 36));
    let refused =
        [a(request), b("HTTP/1.1 403 no\r\nContent-Length: 0\r\n\r\n"), a("GET / HTTP/1.1\r\n\r\n")];
    assert_eq!(read(&refused).1.requests, 2);
    let upgrade =
        [a("GET /ws HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"), b("HTTP/1.1 101 S\r\n\r\n\x01\n"), a("\n\n")];
    assert_eq!((read(&upgrade).0.len(), read(&upgrade).1.tunnels), (2, 2));
    let early = [a("PUT / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"), b("HTTP/1.1 101 S\r\n\r\n"), a("more")];
    assert_eq!(lines(&early), ["101 S < PUT / 1 []", "PUT /  [abc] cut"]);
}

#[test]
fn a_gap_costs_the_messages_that_it_touches() {
    let get = a("GET /x HTTP/1.1\r\n\r\n");
    let head = b("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
    let next = b("HTTP/1.1 404 no\r\nContent-Length: 0\r\n\r\n");
    let after = |steps: &[Step]| lines(&[&[get.clone(), get.clone()], steps].concat())[2..].to_vec();
    let within = [head.clone(), Step::Gap(B, 4), b("hi"), next.clone()];
    assert_eq!(after(&within), ["200 OK < GET /x 1 [abc????hi] cut", "404 no < GET /x 2 []"]);
    let to_its_end = [head.clone(), Step::Gap(B, 6), next.clone()];
    assert_eq!(after(&to_its_end), ["200 OK < GET /x 1 [abc?????] cut", "404 no < GET /x 2 []"]);
    let beyond = [head.clone(), Step::Gap(B, 60), b("tail\r\n"), next.clone()];
    assert_eq!(after(&beyond), ["200 OK < GET /x 1 [abc?????] cut", "404 no < GET /x 2 []"]);
    let in_head = [b("HTTP/1.1 200 O"), Step::Gap(B, 60), next.clone()];
    assert_eq!(after(&in_head), ["404 no < GET /x 2 []"], "the last request is that which waits");
    let chunks = b("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\na");
    let in_chunk = [chunks.clone(), Step::Gap(B, 3), b("e\r\n0\r\n\r\n"), next.clone()];
    assert_eq!(after(&in_chunk), ["200 OK < GET /x 1 [a???e] cut", "404 no < GET /x 2 []"]);
    let over_chunk = [chunks, Step::Gap(B, 7), b("7\r\n"), next.clone()];
    assert_eq!(after(&over_chunk), ["200 OK < GET /x 1 [a????] cut", "404 no < GET /x 2 []"]);
    let of_requests =
        [get.clone(), Step::Gap(A, 5), b("HTTP/1.1 204 a\r\n\r\nHTTP/1.1 204 b\r\n\r\n"), get, next];
    let (found, tally) = read(&of_requests);
    assert_eq!(found[1..], ["204 a < GET /x 1 []", "204 b []", "GET /x  []", "404 no < GET /x 2 []"]);
    assert_eq!((tally.resumed, tally.unpaired), (1, 1));
}

#[test]
fn another_protocol_is_searched_and_abandoned() {
    let (found, tally) = read(&[a("SSH-2.0-x\r\n"), a("GET /late HTTP/1.1\r\n\r\n")]);
    assert_eq!((found.len(), tally.resumed, tally.malformed), (1, 1, 0));
    let noise = "some words\n".repeat(30_000);
    let (found, tally) = read(&[a(&noise), a("GET /late HTTP/1.1\r\n\r\n")]);
    assert_eq!((found.len(), tally.abandoned), (0, 1));
    for broken in [
        "Content-Length: 1\r\nContent-Length: 2",
        "Content-Length: -1",
        "Content-Length: 1f",
        "Transfer-Encoding: x",
    ] {
        let steps = [a(&format!("POST / HTTP/1.1\r\n{broken}\r\n\r\nbody\nGET /next HTTP/1.0\r\n\r\n"))];
        let (found, tally) = read(&steps);
        assert_eq!(found, ["POST /  [] cut", "GET /next  []"], "{broken}");
        assert_eq!((tally.malformed, tally.resumed), (1, 1));
    }
    let chunk = [a("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n")];
    assert_eq!(lines(&chunk), ["POST /  [ab] cut"]);
}

#[test]
fn heads_are_bounded() {
    let long_line = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(20_000));
    let long_field = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(20_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(300));
    let large = format!("GET / HTTP/1.1\r\n{}\r\n", format!("A: {}\r\n", "x".repeat(10_000)).repeat(8));
    for head in [long_line, long_field, many, large] {
        let (found, tally) = read(&[a(&head), a("GET /next HTTP/1.1\r\n\r\n")]);
        assert_eq!(found, ["GET /next  []"]);
        assert_eq!((tally.resumed, tally.requests), (1, 1));
    }
}

#[test]
fn fields_are_found_in_any_case_and_folds_are_joined() {
    let mut seen = Vec::new();
    let mut reader = HttpReader::default();
    let head = b"GET / HTTP/1.1\r\nA: 1\r\nno colon\r\nb : 2\r\n\t3 \r\nA: 4\r\n\r\n";
    reader.data(A, head, &mut |_, event| {
        if let HttpEvent::End(message) = event {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(message.head.field("B"), Some(&b"2 3"[..]));
            assert_eq!((message.head.minor_version(), message.head.reason()), (1, &b""[..]));
            seen = message.head.fields().map(|(name, value)| (text(name), text(value))).collect();
        }
    });
    let expected =
        [("A", "1"), ("b", "2 3"), ("A", "4")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(seen, expected);
}

/// Pieces of messages in any order.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let texts = [
        "GET / HTTP/1.1\r\n",
        "HEAD /a HTTP/1.0\r\n",
        "CONNECT a:1 HTTP/1.1\r\n",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 204 \r\n",
        "HTTP/1.1 100 C\r\n",
        "Content-Length: 5\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Transfer-Encoding: chunked\r\n",
        "\r\n",
        "3\r\nabc\r\n",
        "0\r\n\r\n",
        "ffffffffffffffff\r\n",
        "12345",
    ];
    prop_oneof![
        8 => prop::sample::select(texts.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let side = || prop::sample::select(vec![A, B]);
    prop_oneof![
        12 => (side(), piece()).prop_map(|(side, bytes)| Step::Data(side, bytes)),
        1 => (side(), prop_oneof![0u64..9, any::<u64>()]).prop_map(|(side, lost)| Step::Gap(side, lost)),
    ]
}

proptest! {
    /// The messages do not depend on how the bytes are split.
    #[test]
    fn any_bytes_in_any_pieces(steps in prop::collection::vec(step(), 0..40)) {
        let together = read(&steps);
        let single: Vec<Step> = steps
            .iter()
            .flat_map(|step| match step {
                Step::Data(side, bytes) => bytes.iter().map(|byte| Step::Data(*side, vec![*byte])).collect(),
                other => vec![other.clone()],
            })
            .collect();
        prop_assert_eq!(read(&single), together);
    }
}
