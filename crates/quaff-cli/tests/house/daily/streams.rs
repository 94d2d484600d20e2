//! The tasks on connections in files: tshark's lists and bytes, and those of quaff.

use crate::daily::page;
use crate::daily::place::{OLD, Place, old_pcap};
use crate::support::{QUAFF, names, run};
use quaff_testpackets as build;
use quaff_testpackets::captures;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::process::{Command, Output};

/// The place with `old.pcap` and `web.pcap`, and what both commands of a task print; `None` after a skip.
fn task(title: &str) -> Option<[Output; 2]> {
    let place = Place::new(title, &["tshark"])?;
    place.input("old.pcap", &old_pcap(0..OLD));
    let web = place.path("web.pcap");
    let made =
        ["generate", "--tcp", "talk", "--size", "300", "--flows", "3", "--pps", "1k", "--count", "90", "-w"];
    run(Command::new(QUAFF).args(made).arg(&web));
    place.input("web.pcap", &std::fs::read(web).expect("a file"));
    place.input("login.pcap", &login_pcap());
    place.input("tls.pcap", &tls_pcap());
    let [pair, ..] = &page::pairs(title)[..] else { panic!("{title}: no commands") };
    let done = place.run(None, pair);
    // Some of its connections lack bytes.
    let ended = done.each_ref().map(|done| done.status.code());
    assert!(ended[0] == Some(0) && matches!(ended[1], Some(0 | 1)), "{title}: {ended:?}");
    Some(done)
}

/// The header of a pcap file.
fn pcap_header() -> Vec<u8> {
    [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 262_144, 1].map(u32::to_le_bytes).concat()
}

/// Adds a connection with payloads of the client, 0, and of the server, 1; a packet each ms.
fn add_connection(file: &mut Vec<u8>, ms: &mut u32, ports: [u16; 2], payloads: &[(usize, Vec<u8>)]) {
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    let hosts = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
    let mut next = [100, 100];
    let syns = [(0, SYN, Vec::new()), (1, SYN | ACK, Vec::new())];
    let data = payloads.iter().map(|(side, payload)| (*side, ACK, payload.clone()));
    for (side, flags, payload) in syns.into_iter().chain(data) {
        let other = 1 - side;
        let acknowledged = if flags == SYN { 0 } else { next[other] };
        let mut tcp = [ports[side].to_be_bytes(), ports[other].to_be_bytes()].concat();
        tcp.extend([u32::to_be_bytes(next[side]), u32::to_be_bytes(acknowledged)].concat());
        tcp.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        tcp.extend(&payload);
        let frame = build::ethernet(&[], 0x0800, &build::ipv4(hosts[side], hosts[other], 6, &[], &tcp));
        let bytes = frame.len() as u32;
        file.extend([1, *ms * 1000, bytes, bytes].map(u32::to_le_bytes).concat());
        file.extend(frame);
        next[side] += payload.len() as u32 + u32::from(flags & SYN != 0);
        *ms += 1;
    }
}

/// Three connections: a client's word in two packets, nothing of it, and the server's in one.
fn login_pcap() -> Vec<u8> {
    let (mut file, mut ms) = (pcap_header(), 0);
    for (port, payloads) in
        (4711..).zip([["pass", "word=s3cret", "no"], ["pass", "port", "ok"], ["a", "b", "password?"]])
    {
        let data = [0, 0, 1].into_iter().zip(payloads);
        let data: Vec<_> = data.map(|(side, payload)| (side, payload.as_bytes().to_vec())).collect();
        add_connection(&mut file, &mut ms, [port, 80], &data);
    }
    file
}

/// A connection of TLS 1.2, one record across two packets and two in one.
fn tls_pcap() -> Vec<u8> {
    let sized = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
    let record = |kind: u8, body: &[u8]| [&[kind, 3, 3][..], &sized(body)].concat();
    let hello = |kind: u8, end: &[u8]| {
        let body = [&[3, 3][..], &[7; 32], &[0], end, &[0, 0]].concat();
        record(22, &[&[kind, 0][..], &sized(&body)].concat())
    };
    let finished = [record(20, &[1]), record(22, &[0; 40])].concat();
    let data = record(23, &[5; 1500]);
    let (first, second) = data.split_at(1000);
    let payloads = [
        (0, hello(1, &[0, 2, 0xc0, 0x2f, 1, 0])),
        (1, hello(2, &[0xc0, 0x2f, 0])),
        (0, finished.clone()),
        (1, finished),
        (0, first.to_vec()),
        (0, second.to_vec()),
        (1, record(21, &[0; 26])),
    ];
    let mut file = pcap_header();
    add_connection(&mut file, &mut 0, [4711, 443], &payloads);
    file
}

fn text(done: &Output) -> String {
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// The bytes that tshark's `follow,…,raw` prints as digits.
fn bytes(done: &Output) -> Vec<u8> {
    let text = text(done);
    let (_, data) = text.split_once("Node 1").expect("two nodes");
    let digits = data.lines().skip(1).take_while(|line| !line.starts_with("===")).map(str::trim);
    let byte = |digits: &str, at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
    digits
        .flat_map(|digits| (0..digits.len()).step_by(2).map(move |at| byte(digits, at)).collect::<Vec<_>>())
        .collect()
}

#[test]
fn listed_connections_are_those_of_tshark() {
    let Some([old, new]) = task("List the connections of a file") else { return };
    // The words around an arrow, in any order.
    let ends = |text: &str, arrow: &str| -> BTreeSet<BTreeSet<String>> {
        let lines = text.lines().filter_map(|line| line.split_once(arrow));
        let end = |word: Option<&str>| word.expect("an end").replace(['[', ']'], "");
        lines
            .map(|(one, other)| {
                [end(one.split_whitespace().last()), end(other.split_whitespace().next())].into()
            })
            .collect()
    };
    let (theirs, ours) = (ends(&text(&old), " <-> "), ends(&text(&new), " → "));
    assert!(ours.len() > 500, "{} connections", ours.len());
    assert_eq!(ours, theirs);
}

#[test]
fn a_followed_connection_has_the_bytes_of_tshark() {
    let Some([old, new]) = task("Read a connection by its number") else { return };
    assert!(new.stdout.len() > 300, "{new:?}");
    assert_eq!(new.stdout, bytes(&old));
}

#[test]
fn followed_datagrams_have_the_bytes_of_tshark() {
    let Some([old, new]) = task("Read the datagrams of two ends") else { return };
    assert!(new.stdout.len() > 300, "{new:?}");
    assert_eq!(new.stdout, bytes(&old));
}

#[test]
fn objects_are_the_files_of_tshark() {
    let title = "Take the files out of HTTP";
    let Some(place) = Place::new(title, &["tshark"]) else { return };
    place.input("web.pcap", &captures::http());
    let [pair] = &page::pairs(title)[..] else { panic!("{title}: not one pair") };
    let done = place.run(None, pair);
    assert!(done.iter().all(|done| done.status.success()), "{done:?}");
    let contents = |side: &str| -> BTreeSet<Vec<u8>> {
        let files = names(&place.path(side).join("files"));
        let read = |name: &String| std::fs::read(place.path(side).join("files").join(name)).expect("a file");
        files.iter().map(read).filter(|bytes| !bytes.is_empty()).collect()
    };
    let (theirs, ours) = (contents("old"), contents("new"));
    let missing = theirs.difference(&ours).count();
    assert!(theirs.len() > 10 && missing == 0, "{missing} of {}", theirs.len());
    assert!(place.path("new/files/index.html").is_file());
}

#[test]
fn connections_with_a_word_are_those_that_tshark_follows() {
    let Some([old, new]) = task("Search in connections") else { return };
    let theirs: Vec<u64> = text(&old).lines().map(|line| line.parse().expect("a number")).collect();
    let shown = text(&new);
    let rows: Vec<&str> = shown.lines().filter(|line| line.contains(" → ")).collect();
    let number = |row: &&str| row.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
    let ours: Vec<_> = rows.iter().map(|row| number(row).expect("a number") - 1).collect();
    assert_eq!((&ours, &theirs), (&vec![0, 2], &vec![0, 2]), "{shown}");
    assert!(rows[0].contains("client 0") && rows[1].contains("server 0"), "{shown}");
}

#[test]
fn records_of_tls_are_those_of_tshark() {
    const TYPES: [&str; 4] = ["change_cipher_spec", "alert", "handshake", "application_data"];
    let Some([old, new]) = task("Read the records of TLS") else { return };
    let numbers =
        |cell: &str| -> Vec<u64> { cell.split(',').map(|word| word.parse().expect("a number")).collect() };
    let pairs = |line: &str| {
        let (types, lengths) = line.split_once('\t').expect("two cells");
        numbers(types).into_iter().zip(numbers(lengths)).collect::<Vec<_>>()
    };
    let theirs: Vec<_> = text(&old).lines().flat_map(pairs).collect();
    let ours = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let kind = TYPES.iter().position(|name| words.get(2) == Some(name))?;
        Some((20 + kind as u64, words[5].replace(',', "").parse::<u64>().expect("a length")))
    };
    let ours: Vec<_> = text(&new).lines().filter_map(ours).collect();
    assert_eq!(ours, theirs);
    assert_eq!(ours.len(), 8, "{}", text(&new));
    assert!(text(&new).contains("server_hello: TLS 1.2; TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), "{new:?}");
}
