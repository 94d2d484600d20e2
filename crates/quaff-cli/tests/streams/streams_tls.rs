//! `quaff streams follow --tls`: the records of made conversations as text and as objects, with bytes missing, and all
//! records that tshark finds.

use crate::capture::{ACK, Capture, FIN, SYN};
use crate::streams_tshark::captures;
use crate::support::{QUAFF, folder, tool};
use quaff_testkit::test_name;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CLIENT: bool = true;
const SERVER: bool = false;
/// Payload of a segment, bytes.
const SEGMENT_BYTES: usize = 1000;

/// Sides of which quaff and tshark (4.0.17) have different records: file, sender and receiver, reason.
const DIFFERENT: [(&str, &str, &str); 1] = [(
    "tls_multiple_synack_different_seq.pcapng",
    "10.10.10.1:443 > 192.168.0.1:59927",
    "tshark takes the first of two SYN-ACKs, and the client acknowledges the second one",
)];

/// A connection that is being made, and the next sequence numbers of the client and of the server.
struct Talk {
    capture: Capture,
    next: [u32; 2],
}

impl Talk {
    fn new() -> Self {
        let mut capture = Capture::new();
        capture.client(SYN, [99, 0], b"");
        capture.server(SYN | ACK, [499, 100], b"");
        Self { capture, next: [100, 500] }
    }

    fn send(&mut self, is_client: bool, bytes: &[u8]) {
        bytes.chunks(SEGMENT_BYTES).for_each(|part| self.segment(is_client, part));
    }

    fn segment(&mut self, is_client: bool, bytes: &[u8]) {
        let [client, server] = self.next;
        match is_client {
            true => self.capture.client(ACK, [client, server], bytes),
            false => self.capture.server(ACK, [server, client], bytes),
        }
        self.lose(is_client, bytes.len());
    }

    /// Sends bytes that are not captured.
    fn lose(&mut self, is_client: bool, bytes: usize) {
        self.next[usize::from(!is_client)] += bytes as u32;
    }

    fn close(mut self) -> Capture {
        let [a, b] = self.next;
        self.capture.client(FIN | ACK, [a, b], b"");
        self.capture.server(FIN | ACK, [b, a + 1], b"");
        self.capture.client(ACK, [a + 1, b + 1], b"");
        self.capture
    }
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
}

fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind, 3, 3][..], &sized(body)].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32).to_be_bytes()[1..], body].concat()
}

fn hello(kind: u8, middle: &[u8], extensions: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let extensions: Vec<u8> =
        extensions.iter().flat_map(|(kind, data)| [&[0, *kind][..], &sized(data)].concat()).collect();
    message(kind, &[&[3, 3][..], &[7; 32], &[0], middle, &sized(&extensions)].concat())
}

fn client_hello(versions: &[u8]) -> Vec<u8> {
    let name = sized(&[&[0][..], &sized(b"b.example")].concat());
    let versions = [&[versions.len() as u8][..], versions].concat();
    let extensions = [(0, name), (16, sized(b"\x02h2\x08http/1.1")), (43, versions)];
    hello(1, &[0, 4, 0x13, 1, 0xc0, 0x2f, 1, 0], &extensions)
}

fn certificate(lengths: &[usize]) -> Vec<u8> {
    let of = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[1..], bytes].concat();
    let list: Vec<u8> = lengths.iter().flat_map(|length| of(&vec![0x30; *length])).collect();
    message(11, &of(&list))
}

/// The flight of a server of TLS 1.2: three messages.
fn flight() -> Vec<u8> {
    let hello = hello(2, &[0xc0, 0x2f, 0], &[(16, sized(b"\x02h2"))]);
    [hello, certificate(&[1200, 800]), message(14, b"")].concat()
}

/// A whole connection of TLS 1.2.
fn tls_12() -> Talk {
    let mut talk = Talk::new();
    let finished = [record(20, &[1]), record(22, &[0; 40])].concat();
    talk.send(CLIENT, &record(22, &client_hello(&[3, 3])));
    talk.send(SERVER, &record(22, &flight()));
    talk.send(CLIENT, &[record(22, &message(16, &[1; 66])), finished.clone()].concat());
    talk.send(SERVER, &finished);
    talk.send(CLIENT, &record(23, &[5; 500]));
    talk.send(SERVER, &record(23, &[6; 3000]));
    talk.send(CLIENT, &record(21, &[9; 26]));
    talk
}

/// A connection of TLS 1.3, which the client refuses at its end.
fn tls_13() -> Talk {
    let mut talk = Talk::new();
    talk.send(CLIENT, &record(22, &client_hello(&[0x7a, 0x7a, 3, 4, 3, 3])));
    let hello = record(22, &hello(2, &[0x13, 1, 0], &[(43, vec![3, 4])]));
    talk.send(SERVER, &[hello, record(20, &[1]), record(23, &[6; 2500])].concat());
    talk.send(CLIENT, &[record(20, &[1]), record(21, &[2, 42])].concat());
    talk
}

fn quaff(args: &[&str]) -> Output {
    Command::new(QUAFF).args(["streams", "follow"]).args(args).output().expect("quaff runs")
}

/// A number of up to six digits as text has it.
fn thousands(number: usize) -> String {
    if number < 1000 { number.to_string() } else { format!("{},{:03}", number / 1000, number % 1000) }
}

/// The exit status and the lines of the first connection, without times and with single spaces.
fn lines(capture: &Capture, words: &[&str]) -> (Option<i32>, Vec<String>) {
    let dir = folder();
    let input = capture.write(&dir);
    let done = quaff(&[&[&input[..], "1", "--tls", "--utc"], words].concat());
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let line = |line: &str| {
        let words = line.split_whitespace().filter(|word| !word.starts_with("1970-01-01T"));
        words.collect::<Vec<_>>().join(" ")
    };
    (done.status.code(), text.lines().map(line).collect())
}

/// The objects of a connection.
fn objects(input: &str, number: &str) -> Vec<Value> {
    let done = quaff(&[input, number, "--tls", "--json", "-q", "--decap", "auto"]);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_conversation_of_tls_12_has_a_line_for_each_record() {
    let (status, shown) = lines(&tls_12().close(), &[]);
    let (hello, flight) = (client_hello(&[3, 3]).len(), flight().len());
    assert_eq!(
        shown,
        [
            "client 10.0.0.1:4711 → server 10.0.0.2:80".to_owned(),
            format!(
                "→ handshake TLS 1.2 {hello} B client_hello: server name b.example; ALPN h2, http/1.1; versions TLS 1.2"
            ),
            format!(
                "← handshake TLS 1.2 {} B server_hello: TLS 1.2; TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256; ALPN h2 | \
                 certificate: 2 certificates of 1,200, 800 B | server_hello_done",
                thousands(flight),
            ),
            "→ handshake TLS 1.2 70 B client_key_exchange".to_owned(),
            "→ change_cipher_spec TLS 1.2 1 B".to_owned(),
            "→ handshake TLS 1.2 40 B encrypted".to_owned(),
            "← change_cipher_spec TLS 1.2 1 B".to_owned(),
            "← handshake TLS 1.2 40 B encrypted".to_owned(),
            "→ application_data TLS 1.2 500 B encrypted".to_owned(),
            "← application_data TLS 1.2 3,000 B encrypted".to_owned(),
            "→ alert TLS 1.2 26 B encrypted".to_owned(),
            format!(
                "→ 6 records, {} bytes, 500 bytes of application_data",
                hello + 70 + 1 + 40 + 500 + 26 + 6 * 5
            ),
            format!(
                "← 4 records, {} bytes, 3,000 bytes of application_data",
                thousands(flight + 41 + 3000 + 4 * 5)
            ),
        ]
    );
    assert_eq!(status, Some(0));
}

#[test]
fn tls_13_and_its_alert_in_the_clear_are_named_and_sides_chosen() {
    let (status, shown) = lines(&tls_13().close(), &["--side", "server"]);
    assert_eq!(status, Some(0));
    assert!(shown[1].ends_with("server_hello: TLS 1.3; TLS_AES_128_GCM_SHA256"), "{shown:#?}");
    assert_eq!(
        shown[2..4],
        ["← change_cipher_spec TLS 1.3 1 B", "← application_data TLS 1.3 2,500 B encrypted"]
    );
    assert!(shown[4].starts_with("← 3 records, ") && shown.len() == 5, "{shown:#?}");
    let (_, shown) = lines(&tls_13().close(), &["--side", "client"]);
    assert!(shown[1].ends_with("; versions TLS 1.3, TLS 1.2"), "{shown:#?}");
    assert_eq!(shown[3], "→ alert TLS 1.3 2 B fatal: bad_certificate");
}

/// A connection of which a segment within a record, a whole record, and another one with its end are missing.
fn with_gaps() -> Talk {
    let mut talk = Talk::new();
    let long = record(23, &[1; 2995]);
    talk.segment(CLIENT, &long[..1000]);
    talk.lose(CLIENT, 1000);
    talk.segment(CLIENT, &long[2000..]);
    talk.lose(CLIENT, 700);
    for byte in [2, 3] {
        talk.segment(CLIENT, &record(23, &[byte; 95]));
    }
    talk.lose(CLIENT, 600);
    talk.segment(CLIENT, &[0xaa; 200]);
    talk.segment(SERVER, &record(23, &[4; 10]));
    talk
}

#[test]
fn missing_bytes_are_shown_at_their_place_and_what_follows_only_if_it_is_sure() {
    let (status, shown) = lines(&with_gaps().close(), &["-q"]);
    let of_client: Vec<_> = shown.iter().filter(|line| line.starts_with('→')).collect();
    assert_eq!(
        of_client,
        [
            "→ 1,000 bytes are missing (acknowledged)",
            "→ application_data TLS 1.2 2,995 B encrypted | 1,000 bytes are missing",
            "→ 700 bytes are missing (acknowledged)",
            "→ application_data TLS 1.2 95 B encrypted",
            "→ application_data TLS 1.2 95 B encrypted",
            "→ 600 bytes are missing (acknowledged)",
            "→ cannot be read further: 200 bytes from offset 4,500 on",
            "→ 3 records, 2,400 bytes, 2,185 bytes of application_data",
        ]
    );
    assert_eq!(status, Some(1), "bytes are missing");
}

/// Each field has a row in `docs/streams.md`.
#[test]
fn objects_have_the_fields_of_the_page() {
    let dir = folder();
    let mut names = BTreeSet::new();
    let refused = {
        let mut talk = Talk::new();
        talk.send(CLIENT, &record(22, &client_hello(&[3, 3])));
        talk.send(SERVER, &record(22, &[flight(), certificate(&[9000])[..5000].to_vec()].concat()));
        talk
    };
    let long = {
        let mut talk = Talk::new();
        talk.send(CLIENT, &record(22, &[client_hello(&[3, 3]), vec![11, 2, 0, 0]].concat()));
        talk
    };
    for talk in [tls_12(), tls_13(), with_gaps(), refused, long] {
        for object in objects(&talk.close().write(&dir), "1") {
            for (name, value) in object.as_object().expect("an object") {
                names.insert(name.clone());
                let members = value.as_array().into_iter().flatten().filter_map(Value::as_object);
                names.extend(
                    members.flat_map(|member| member.keys().map(move |key| format!("{name}[].{key}"))),
                );
            }
        }
    }
    let page = include_str!("../../../../docs/streams.md");
    let (_, section) = page.split_once("### JSON of TLS records").expect("a section");
    let rows = section.lines().take_while(|line| !line.starts_with("## "));
    let rows: Vec<_> = rows.filter(|line| line.starts_with("| `")).collect();
    let missing: Vec<_> = names
        .iter()
        .filter(|name| {
            !rows.iter().any(|row| row.split(" | ").next().unwrap_or(row).contains(&format!("`{name}`")))
        })
        .collect();
    assert!(missing.is_empty() && names.len() > 25, "{missing:?} of {names:?}");
}

#[test]
fn another_protocol_has_no_records_and_what_precedes_tls_is_named() {
    let mut talk = Talk::new();
    talk.send(SERVER, b"220 ready\r\n");
    talk.send(CLIENT, b"STARTTLS\r\n");
    talk.send(CLIENT, &record(22, &client_hello(&[3, 3])));
    let (status, shown) = lines(&talk.close(), &[]);
    assert_eq!(shown[1], "→ 10 bytes before the first record");
    assert!(shown[2].starts_with("→ handshake TLS 1.2"), "{shown:#?}");
    assert!(
        shown.iter().any(|line| line == "← cannot be read: no TLS record begins in 11 bytes"),
        "{shown:#?}"
    );
    assert_eq!(status, Some(0), "nothing is missing");
    let dir = folder();
    let input = Capture::new().write(&dir);
    let said = |args: &[&str]| {
        let done = quaff(args);
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (status, words) = said(&[&input, "u1", "--tls"]);
    assert!(status == Some(2) && words.contains("--tls is for TCP"), "{words}");
    let (status, words) = said(&[&input, "1", "--tls", "--raw"]);
    assert!(status == Some(2) && words.contains("cannot be used with"), "{words}");
}

/// The lengths of whole records of each side, in order, and how many of each type.
type Records = BTreeMap<String, (Vec<u64>, BTreeMap<u64, usize>)>;

fn add(records: &mut Records, side: String, length: u64) {
    records.entry(side).or_default().0.push(length);
}

/// The records of all connections of a capture.
fn ours(capture: &Path) -> Records {
    const TYPES: [&str; 5] = ["change_cipher_spec", "alert", "handshake", "application_data", "heartbeat"];
    let input = capture.display().to_string();
    let mut list = Command::new(QUAFF);
    list.args(["streams", "list", "--json", "-q", "--decap", "auto", &input]);
    let listed = list.output().expect("quaff runs").stdout;
    let rows = String::from_utf8_lossy(&listed).into_owned();
    let rows = rows.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let mut numbers: Vec<_> =
        rows.filter(|row| row["protocol"] == "tcp").filter_map(|row| row["number"].as_u64()).collect();
    numbers.sort_unstable();
    let mut records = Records::new();
    for object in numbers.into_iter().flat_map(|number| objects(&input, &number.to_string())) {
        let Some(kind) = object["type"].as_str().filter(|_| object["missing_bytes"] == 0) else { continue };
        let [from, to] = ["from", "to"].map(|end| object[end].as_str().expect("an end").to_owned());
        let side = format!("{from} > {to}");
        let kind = 20 + TYPES.iter().position(|name| *name == kind).expect("a type") as u64;
        *records.entry(side.clone()).or_default().1.entry(kind).or_default() += 1;
        add(&mut records, side, object["length"].as_u64().expect("a length"));
    }
    records
}

/// Those that tshark has. The types of TLS 1.3's application data are in a field of their own.
fn theirs(capture: &Path) -> Records {
    const FIELDS: [&str; 9] = [
        "ip.src",
        "ipv6.src",
        "tcp.srcport",
        "ip.dst",
        "ipv6.dst",
        "tcp.dstport",
        "tls.record.content_type",
        "tls.record.opaque_type",
        "tls.record.length",
    ];
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(capture).args(["-Y", "tls.record && tcp", "-T", "fields"]);
    if capture.ends_with("in.pcap") {
        tshark.args(["-d", "tcp.port==80,tls"]);
    }
    let printed = tshark.args(FIELDS.iter().flat_map(|field| ["-e", field])).output().expect("tshark runs");
    let mut records = Records::new();
    for line in String::from_utf8_lossy(&printed.stdout).lines() {
        let cells: Vec<&str> = line.split('\t').collect();
        // The innermost of several headers.
        let last = |at: usize| cells[at].rsplit(',').next().unwrap_or_default();
        let end = |four: usize| {
            let address = if last(four).is_empty() { last(four + 1) } else { last(four) };
            let address: IpAddr = address.parse().expect("an address");
            SocketAddr::new(address, last(four + 2).parse().expect("a port")).to_string()
        };
        let side = format!("{} > {}", end(0), end(3));
        let numbers = |at: usize| cells[at].split(',').filter_map(|word| word.parse::<u64>().ok());
        for kind in numbers(6).chain(numbers(7)) {
            *records.entry(side.clone()).or_default().1.entry(kind).or_default() += 1;
        }
        numbers(8).for_each(|length| add(&mut records, side.clone(), length));
    }
    records
}

#[test]
fn records_are_those_of_tshark() {
    let test = test_name!();
    let Some(_) = tool(test, "tshark") else { return };
    let folders = [folder(), folder()];
    let made = [tls_12(), tls_13()].into_iter().zip(&folders);
    let mut files: Vec<PathBuf> = made.map(|(talk, dir)| talk.close().write(dir).into()).collect();
    let is_tls = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name.contains("tls") || name.contains("ssl")) && !name.contains("dtls")
    };
    // DTLS is another protocol, of UDP.
    files.extend(captures().into_iter().filter(is_tls));
    let mut faults = Vec::new();
    for file in &files {
        let (ours, theirs) = (ours(file), theirs(file));
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let sides: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        assert!(!sides.is_empty() || !file.ends_with("in.pcap"), "{name} has no records");
        for side in sides {
            let is_known = DIFFERENT.iter().any(|(file, of, _)| *file == name && *of == side.as_str());
            if (ours.get(side) == theirs.get(side)) == is_known {
                faults.push(format!("{name} {side}: {:?}, tshark {:?}", ours.get(side), theirs.get(side)));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
