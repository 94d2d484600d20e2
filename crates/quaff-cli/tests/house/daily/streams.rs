//! The tasks on connections in files: tshark's lists and bytes, and those of quaff.

use crate::daily::page;
use crate::daily::place::{OLD, Place, old_pcap};
use crate::support::{QUAFF, names, run};
use quaff_testpackets::captures;
use std::collections::BTreeSet;
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
    let [pair, ..] = &page::pairs(title)[..] else { panic!("{title}: no commands") };
    let done = place.run(None, pair);
    // Some of its connections lack bytes.
    let ended = done.each_ref().map(|done| done.status.code());
    assert!(ended[0] == Some(0) && matches!(ended[1], Some(0 | 1)), "{title}: {ended:?}");
    Some(done)
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
