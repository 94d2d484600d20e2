//! Realistic messages, gaps at every place, and arbitrary bytes in arbitrary pieces.

use super::message::PENDING_MAX;
use super::*;
use crate::event::EndReason::{Fin, Finished, Reset};
use crate::event::Sender::{A, B};
use proptest::prelude::*;

/// A step: bytes, missing bytes, or the end of a side.
#[derive(Debug, Clone)]
enum Step {
    Data(Sender, Vec<u8>),
    Gap(Sender, u64),
    End(Sender, EndReason),
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
            Step::End(sender, reason) => reader.end(*sender, *reason, &mut sink),
        }
        assert!(reader.tally().is_balanced(), "{:?}", reader.tally());
    }
    for sender in [A, B] {
        reader.end(sender, Fin, &mut sink);
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
    let until = [get, b("HTTP/1.0 200 OK\r\n\r\none\r\n"), b("HTTP/1.1 200 OK\r\n"), Step::End(B, Fin)];
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

/// RFC 9112, section 8: only an orderly end is the end of a body without a length.
#[test]
fn a_body_without_a_length_is_whole_after_a_fin_only() {
    for (reason, end) in [(Fin, ""), (Reset, " cut"), (Finished, " cut"), (EndReason::Cutoff, " cut")] {
        let steps =
            [a("GET / HTTP/1.0\r\n\r\n"), b("HTTP/1.0 200 OK\r\n\r\n0123456789"), Step::End(B, reason)];
        assert_eq!(lines(&steps)[1], format!("200 OK < GET / 1 [0123456789]{end}"), "{reason:?}");
        let known = [
            a("GET / HTTP/1.0\r\n\r\n"),
            b("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
            Step::End(B, reason),
        ];
        assert_eq!(lines(&known)[1], "200 OK < GET / 1 [ok]", "{reason:?}");
    }
}

#[test]
fn tunnels_of_other_protocols_are_not_read() {
    let request = "CONNECT h:443 HTTP/1.1\r\nContent-Length: 7\r\n\r\n";
    let tls = "\u{16}\u{3}\u{1}\0\u{5}\n\n";
    let steps = [a(request), b("HTTP/1.1 200 OK\r\n\r\n"), a(tls), b(tls), a("GET / HTTP/1.1\r\n\r\n")];
    let (found, tally) = read(&steps);
    assert_eq!((found.len(), tally.tunnels, tally.skipped_bytes), (2, 2, 32));
    let text = [a(request), b("HTTP/1.1 200 OK\r\n\r\n220 mail\r\n"), a("EHLO a\r\nGET / HTTP/1.1\r\n\r\n")];
    assert_eq!((read(&text).0.len(), read(&text).1.malformed), (2, 0));
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
fn messages_in_a_tunnel_and_after_the_header_of_a_proxy_are_read() {
    let get = "GET /x HTTP/1.1\r\nHost: h.example\r\n\r\n";
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let inside = ["GET /x h.example []", "200 OK < GET /x 1 [ok]"];
    let connect = "CONNECT h.example:80 HTTP/1.1\r\n\r\n";
    let tunnel = [
        a(connect),
        b("HTTP/1.1 407 no\r\nContent-Length: 1\r\n\r\n!"),
        a(connect),
        b("HTTP/1.1 200 OK\r\n\r\n"),
        a(get),
        b(answer),
    ];
    let (found, tally) = read(&tunnel);
    assert_eq!(found[4..], ["GET /x h.example []", "200 OK < GET /x 3 [ok]"], "numbers continue");
    assert_eq!((tally.tunnels, tally.malformed, tally.resumed, tally.skipped_bytes), (2, 0, 0, 0));
    for [client, server] in [
        ["PROXY TCP4 192.0.2.1 192.0.2.2 4711 80\r\n", ""],
        ["\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c............", ""],
        ["\x04\x01\0\x50\0\0\0\x01\0h.example\0", "\0\x5a\0\x50...."],
        ["\x05\x01\0\x05\x01\0\x03\x09h.example\0\x50", "\x05\0\x05\0\0\x01....\0\x50"],
    ] {
        let steps = [a(client), b(server), a(get), b(answer)];
        let (found, tally) = read(&steps);
        assert_eq!(found, inside, "{client:?}");
        let skipped = (client.len() + server.len()) as u64;
        assert_eq!((tally.skipped_bytes, tally.resumed, tally.malformed), (skipped, 0, 0), "{client:?}");
        assert_eq!(lines(&[a(&format!("{client}{get}")), b(&format!("{server}{answer}"))]), inside);
        let bytes = |text: &str, side: fn(&str) -> Step| {
            text.chars().map(|c| side(&c.to_string())).collect::<Vec<_>>()
        };
        let single = [bytes(&format!("{client}{get}"), a), bytes(&format!("{server}{answer}"), b)].concat();
        assert_eq!(lines(&single), inside, "{client:?}");
    }
    // The first bytes of a header, and then a message.
    assert_eq!(lines(&[a("P"), a("OST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n.")]), ["POST /  [.]"]);
}

/// As other readers of captures take them.
#[test]
fn odd_versions_are_messages() {
    for version in ["1.0.8", "1", "1.10", "0.9", "2.0", "11.22.33"] {
        let steps = [
            a(&format!("GET /x?y=1 HTTP/{version}\r\nHost: h\r\n\r\n")),
            b(&format!("HTTP/{version}  200 OK\r\nContent-Length: 2\r\n\r\nok")),
        ];
        assert_eq!(lines(&steps), ["GET /x?y=1 h []", "200 OK < GET /x?y=1 1 [ok]"], "{version}");
    }
    for other in [
        "GET / HTTP/",
        "GET / HTTP/1.",
        "GET / HTTP/x",
        "PRI * HTTP/2.0",
        "GET / FTP/1.1",
        "GET / HTTP/1.1.1.1.1.1.1.1.1",
    ] {
        assert_eq!(lines(&[a(&format!("{other}\r\n\r\n"))]), [""; 0], "{other}");
    }
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

/// The parts beyond the limits are missing, and the message is not.
#[test]
fn heads_are_bounded() {
    let x = |count| "x".repeat(count);
    let length = "Content-Length: 4\r\n\r\nbody";
    let long_line = format!("PUT /{} HTTP/1.1\r\nHost: a\r\n{length}", x(20_000));
    let long_field = format!("PUT / HTTP/1.1\r\nA: {}\r\nHost: a\r\n{length}", x(20_000));
    let many = format!("PUT / HTTP/1.1\r\nHost: a\r\n{}{length}", "A: b\r\n".repeat(300));
    let large = format!("PUT / HTTP/1.1\r\nHost: a\r\n{}{length}", format!("A: {}\r\n", x(10_000)).repeat(8));
    let folded =
        format!("PUT / HTTP/1.1\r\nHost: a\r\nA: b\r\n{}{length}", format!(" {}\r\n", x(10_000)).repeat(20));
    for head in [long_line, long_field, many, large, folded] {
        let pieces: Vec<Step> =
            head.as_bytes().chunks(1000).map(|piece| Step::Data(A, piece.to_vec())).collect();
        for steps in [vec![a(&head)], pieces] {
            let (found, tally) = read(&[&steps[..], &[a("GET /next HTTP/1.1\r\n\r\n")]].concat());
            assert_eq!(found.len(), 2, "{}", &head[..60]);
            assert!(found[0].starts_with("PUT /") && found[0].ends_with(" a [body]"), "{}", &found[0][..60]);
            assert!(found[0].len() < 17_000 && found[1] == "GET /next  []");
            assert_eq!((tally.resumed, tally.requests, tally.oversized, tally.malformed), (0, 2, 1, 0));
        }
    }
    let response = format!("HTTP/1.1 200 {}\r\nB: {}\r\n{length}", x(20_000), x(20_000));
    let (found, tally) = read(&[b(&response), b("HTTP/1.1 204 x\r\n\r\n")]);
    assert!(found[0].ends_with("x [body]") && found.len() == 2 && tally.oversized == 1);
    // A line of exactly the limit is whole.
    let (_, tally) = read(&[a(&format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", x((16 << 10) - 3)))]);
    assert_eq!((tally.requests, tally.oversized), (1, 0));
    // The end of a body whose length was cut is unknown.
    let unknown = format!("PUT / HTTP/1.1\r\nContent-Length: {}4\r\n\r\nbody", "0".repeat(20_000));
    assert_eq!(lines(&[a(&unknown), a("\nGET /next HTTP/1.1\r\n\r\n")]), ["PUT /  [] cut", "GET /next  []"]);
    let endless = format!("GET /{}", x(40_000));
    assert_eq!(lines(&[a(&endless), a("\r\nGET /next HTTP/1.1\r\n\r\n")]), ["GET /next  []"], "no version");
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
            assert_eq!((message.head.version(), message.head.reason()), ("1.1", &b""[..]));
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
        "PROXY TCP4 a\r\n",
        "\x05\x01\0",
        "\x05\x01\0\x01....\0\x50",
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
