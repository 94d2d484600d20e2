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
    let [pair, ..] = &page::pairs(title)[..] else { panic!("{title}: no commands") };
    let done = place.run(None, pair);
    // Some of its connections lack bytes.
    let ended = done.each_ref().map(|done| done.status.code());
    assert!(ended[0] == Some(0) && matches!(ended[1], Some(0 | 1)), "{title}: {ended:?}");
    Some(done)
}

/// Three connections: a client's word in two packets, nothing of it, and the server's in one.
fn login_pcap() -> Vec<u8> {
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    let ends = [(Ipv4Addr::new(10, 0, 0, 1), 4711u16), (Ipv4Addr::new(10, 0, 0, 2), 80)];
    let mut file = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 262_144, 1].map(u32::to_le_bytes).concat();
    let mut ms = 0;
    for (connection, payloads) in
        [["pass", "word=s3cret", "no"], ["pass", "port", "ok"], ["a", "b", "password?"]]
            .into_iter()
            .enumerate()
    {
        let mut next = [100, 100];
        let syns = [(0, SYN, ""), (1, SYN | ACK, "")];
        let data = payloads.into_iter().zip([0, 0, 1]).map(|(payload, side)| (side, ACK, payload));
        for (side, flags, payload) in syns.into_iter().chain(data) {
            let [mut from, mut to] = [ends[side], ends[1 - side]];
            if side == 0 {
                from.1 += connection as u16
            } else {
                to.1 += connection as u16
            }
            let acknowledged = if flags == SYN { 0 } else { next[1 - side] };
            let mut tcp = [from.1.to_be_bytes(), to.1.to_be_bytes()].concat();
            tcp.extend([u32::to_be_bytes(next[side]), u32::to_be_bytes(acknowledged)].concat());
            tcp.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
            tcp.extend(payload.as_bytes());
            let frame = build::ethernet(&[], 0x0800, &build::ipv4(from.0, to.0, 6, &[], &tcp));
            file.extend(
                [1, ms * 1000, frame.len() as u32, frame.len() as u32].map(u32::to_le_bytes).concat(),
            );
            file.extend(frame);
            next[side] += payload.len() as u32 + u32::from(flags & SYN != 0);
            ms += 1;
        }
    }
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
