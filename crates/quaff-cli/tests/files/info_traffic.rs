//! `quaff info --traffic`: protocols and conversations are those of tshark, the verdict is that of `quaff verify`, and
//! each command that the page names runs. `--hash` and `--tsv` are compared with sha256sum and with the JSON.

use super::info::files_below;
use crate::support::{QUAFF, folder, tool};
use crate::traffic::{START_NS, pcap};
use quaff_testkit::{captures, skip, test_name};
use quaff_testpackets as build;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Protocols that are compared: link, network, transport and tunnels, with what is beside IP. tshark dissects what is
/// above them further and by other rules.
const COMPARED: [&str; 40] = [
    "eth",
    "sll",
    "raw",
    "null",
    "ppp",
    "chdlc",
    "fr",
    "vlan",
    "ieee8021ad",
    "mpls",
    "pppoes",
    "pppoed",
    "llc",
    "ieee8021ah",
    "arp",
    "lldp",
    "stp",
    "cdp",
    "eapol",
    "ip",
    "ipv6",
    "tcp",
    "udp",
    "icmp",
    "icmpv6",
    "igmp",
    "sctp",
    "gre",
    "esp",
    "ah",
    "ospf",
    "pim",
    "vrrp",
    "eigrp",
    "dccp",
    "erspan",
    "vxlan",
    "geneve",
    "gtp",
    "tzsp",
];

/// Packets and bytes of a protocol, by its path.
type Protocols = BTreeMap<String, [u64; 2]>;

/// Packets of the lower address and of the higher one, and all bytes where they are printed as they are.
type Conversations = BTreeMap<(IpAddr, IpAddr), ([u64; 2], Option<u64>)>;

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const RESOLVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 53);

fn info(args: &[&str]) -> Output {
    Command::new(QUAFF).arg("info").args(args).output().expect("quaff runs")
}

fn json(done: &Output) -> Value {
    serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

fn traffic(file: &Path) -> Value {
    json(&info(&["--traffic", "--json", &file.display().to_string()]))
}

/// A segment of TCP.
fn tcp(ports: [u16; 2], numbers: [u32; 2], flags: u8, payload: &[u8]) -> Vec<u8> {
    let [source, destination] = ports.map(u16::to_be_bytes);
    let [sequence, acknowledgment] = numbers.map(u32::to_be_bytes);
    let rest = [0x50, flags, 0xff, 0xff, 0, 0, 0, 0];
    [&source[..], &destination, &sequence, &acknowledgment, &rest, payload].concat()
}

/// A query for `wpad.example`, or its answer with these flags.
fn dns(id: u16, flags: u16) -> Vec<u8> {
    let header = [id, flags, 1, 0, 0, 0].map(u16::to_be_bytes).concat();
    [&header[..], b"\x04wpad\x07example\0\0\x01\0\x01"].concat()
}

fn ip(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    build::ipv4(from, to, protocol, &[], payload)
}

fn ethernet(packet: &[u8]) -> Vec<u8> {
    build::ethernet(&[], 0x0800, packet)
}

/// A connection to port 80 that is answered, one to port 81 that is refused, one to port 82 without an answer; with ms.
fn connections() -> Vec<(u64, Vec<u8>)> {
    let [syn, rst, ack, fin, psh] = [2, 4, 16, 1, 8_u8];
    let request = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
    let sent = 1001 + request.len() as u32;
    let read = 5001 + answer.len() as u32;
    let there = |ports, numbers, flags, payload: &[u8]| {
        ethernet(&ip(CLIENT, SERVER, 6, &tcp(ports, numbers, flags, payload)))
    };
    let back = |ports, numbers, flags, payload: &[u8]| {
        ethernet(&ip(SERVER, CLIENT, 6, &tcp(ports, numbers, flags, payload)))
    };
    let (up, down) = ([40_000, 80], [80, 40_000]);
    vec![
        (0, there(up, [1000, 0], syn, b"")),
        (2, back(down, [5000, 1001], syn | ack, b"")),
        (3, there(up, [1001, 5001], ack, b"")),
        (4, there(up, [1001, 5001], ack | psh, request)),
        (204, there(up, [1001, 5001], ack | psh, request)),
        (206, back(down, [5001, sent], ack | psh, answer)),
        (207, there(up, [sent, read], ack | fin, b"")),
        (208, back(down, [read, sent + 1], ack | fin, b"")),
        (209, there(up, [sent + 1, read + 1], ack, b"")),
        (220, there([40_001, 81], [7, 0], syn, b"")),
        (221, back([81, 40_001], [0, 8], rst | ack, b"")),
        (230, there([40_002, 82], [9, 0], syn, b"")),
        (1230, there([40_002, 82], [9, 0], syn, b"")),
    ]
}

/// A query that fails, one without an answer, ARP, tags, and frames in tunnels; with ms.
fn others() -> Vec<(u64, Vec<u8>)> {
    let query = |id| ethernet(&ip(CLIENT, RESOLVER, 17, &build::udp(5000, 53, &dns(id, 0x0100))));
    let failure = ethernet(&ip(RESOLVER, CLIENT, 17, &build::udp(53, 5000, &dns(1, 0x8183))));
    let arp = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &[2; 6], &[10, 0, 0, 1], &[0; 6], &[10, 0, 0, 2]].concat();
    let plain = ip(SERVER, RESOLVER, 17, &build::udp(4000, 4001, b"payload"));
    let frame = ethernet(&plain);
    let vxlan = ip(CLIENT, SERVER, 17, &build::udp(50_000, 4789, &build::vxlan(5, &frame)));
    let gre = ip(CLIENT, SERVER, 47, &build::gre(&build::Gre::default(), 0x0800, &plain));
    let echo = ip(CLIENT, SERVER, 1, &[8, 0, 0xf7, 0xfd, 0, 1, 0, 1]);
    vec![
        (2000, query(1)),
        (2005, failure),
        (2010, query(2)),
        (2020, build::ethernet(&[], 0x0806, &arp)),
        (2030, build::ethernet(&[(0x8100, 7)], 0x0800, &plain)),
        (2040, ethernet(&vxlan)),
        (2050, ethernet(&gre)),
        (2060, ethernet(&ip(CLIENT, SERVER, 4, &plain))),
        (9000, ethernet(&echo)),
    ]
}

/// A file with all of them.
fn made(dir: &Path) -> PathBuf {
    changed(dir, "made.pcap", connections().into_iter().chain(others()), <[u8]>::to_vec)
}

/// A file with these frames, each changed.
fn changed(
    dir: &Path,
    name: &str,
    frames: impl Iterator<Item = (u64, Vec<u8>)>,
    change: impl Fn(&[u8]) -> Vec<u8>,
) -> PathBuf {
    let path = dir.join(name);
    let frames = frames.map(|(ms, frame)| (START_NS + ms * 1_000_000, change(&frame)));
    std::fs::write(&path, pcap(frames)).expect("a file");
    path
}

/// The frame with a VLAN tag.
fn tagged(frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat()
}

/// The IP packet of a frame after a label of MPLS.
fn labelled(frame: &[u8]) -> Vec<u8> {
    build::ethernet(&[], 0x8847, &build::mpls(&[70_000], &frame[14..]))
}

fn ipv6_address(last: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into())
}

/// The frame with IPv6 in the place of IPv4. Addresses keep their last byte.
fn of_ipv6(frame: &[u8]) -> Vec<u8> {
    let [from, to] = [frame[29], frame[33]].map(ipv6_address);
    build::ethernet(&[], 0x86dd, &build::ipv6(from, to, frame[23], &frame[34..]))
}

#[test]
fn the_page_has_the_fates_of_connections_and_queries() {
    let dir = folder();
    let file = made(dir.path());
    let found = traffic(&file);
    let tcp = &found["tcp"];
    let fates = ["attempts", "answered", "refused", "unanswered", "undecided", "repeated_syns"];
    assert_eq!(fates.map(|name| tcp[name].as_u64()), [3, 1, 1, 1, 0, 1].map(Some), "{tcp}");
    assert_eq!((&tcp["rtt_ns"]["count"], &tcp["rtt_ns"]["max"]), (&1.into(), &2_000_000.into()));
    assert_eq!(tcp["retransmitted_bytes"], 35);
    let servers: Vec<_> = tcp["servers"].as_array().expect("rows").iter().map(|row| &row["server"]).collect();
    assert_eq!(servers, ["10.0.0.2:81", "10.0.0.2:82", "10.0.0.2:80"]);
    let dns = &found["dns"];
    let fates = ["queries", "answered", "unanswered", "undecided", "failures", "nxdomain"];
    assert_eq!(fates.map(|name| dns[name].as_u64()), [2, 1, 1, 0, 1, 1].map(Some), "{dns}");
    assert_eq!(dns["names"][0]["name"], "wpad.example");
    assert_eq!((&found["packets"], &found["failure"]), (&22.into(), &Value::Null));
    let text = String::from_utf8(info(&["--traffic", &file.display().to_string()]).stdout).expect("text");
    for words in
        ["3: 1 answered, 1 refused, 1 unanswered", "wpad.example (NXDOMAIN, 1)", "35 B came more than once"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn each_list_that_is_cut_says_how_to_see_the_rest() {
    let dir = folder();
    let file = made(dir.path()).display().to_string();
    let page = |more: &[&str]| {
        let done = info(&[&["--traffic", &file], more].concat());
        String::from_utf8(done.stdout).expect("text")
    };
    let [one, all] = [page(&["--top", "1"]), page(&["--top", "0"])];
    for noun in ["more rows", "others: ", "more hosts", "more server"] {
        let line = one.lines().find(|line| line.contains(noun)).unwrap_or_else(|| panic!("{noun}: {one}"));
        assert!(line.ends_with("; --top 0 lists all"), "{line}");
    }
    assert!(!all.contains("--top 0") && all.lines().count() > one.lines().count(), "{all}");
    // Segments without payload are below TCP, beside HTTP.
    assert!(all.contains("(ends here)") && !one.contains("(ends here)"), "{all}");
    assert_eq!(json(&info(&["--traffic", "--json", "--top", "1", &file])), traffic(Path::new(&file)));
    assert_eq!(info(&["--top", "1", &file]).status.code(), Some(2));
}

#[test]
fn the_verdict_is_that_of_verify() {
    let dir = folder();
    let file = made(dir.path());
    let mut files = vec![file];
    files.extend(
        ["mix.pcap", "http.pcap"].map(|name| captures().join(name)).into_iter().filter(|path| path.is_file()),
    );
    for file in files {
        let found = traffic(&file);
        let verified =
            json(&Command::new(QUAFF).args(["verify", "--json"]).arg(&file).output().expect("quaff runs"));
        assert_eq!(found["verify"]["verdict"], verified["verdict"], "{}", file.display());
        assert_eq!(found["verify"]["reasons"], verified["reasons"], "{}", file.display());
        assert_eq!(found["packets"], verified["frames"], "{}", file.display());
        let tcp = &verified["tcp"];
        assert_eq!(found["tcp"]["retransmitted_bytes"], tcp["retransmitted_bytes"], "{}", file.display());
        assert_eq!(found["tcp"]["late_bytes"], tcp["filled_bytes"], "{}", file.display());
    }
}

#[test]
fn several_files_are_one_capture_and_damage_is_in_the_exit_status() {
    let dir = folder();
    let whole = made(dir.path());
    let bytes = std::fs::read(&whole).expect("a file");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (one, other, cut) = (path("one.pcap"), path("other.pcap"), path("cut.pcap"));
    // The second record begins after the first one: 16 bytes and its frame.
    let at = 24 + 16 + u32::from_le_bytes(bytes[32..36].try_into().expect("a length")) as usize;
    std::fs::write(&one, &bytes[..at]).expect("a file");
    std::fs::write(&other, [&bytes[..24], &bytes[at..]].concat()).expect("a file");
    std::fs::write(&cut, &bytes[..bytes.len() - 3]).expect("a file");
    let done = info(&["--traffic", "--json", &one, &other]);
    let [parts, all] = [json(&done), traffic(&whole)];
    for part in ["packets", "protocols", "conversations", "tcp", "dns"] {
        assert_eq!(parts[part], all[part], "{part}");
    }
    assert_eq!(done.status.code(), Some(0));
    let done = info(&["--traffic", "--json", &cut]);
    assert_eq!((done.status.code(), &json(&done)["packets"]), (Some(1), &21.into()));
    assert_eq!(info(&["--traffic", &path("gone.pcap")]).status.code(), Some(2));
    let done = info(&["--traffic", "--each", &one]);
    assert_eq!(done.status.code(), Some(2), "{done:?}");
}

/// The page is of a capture with something to look at in each part.
#[test]
fn each_command_of_the_page_runs() {
    let test = test_name!();
    if tool(test, "tcpdump").is_none() {
        return;
    }
    let dir = folder();
    let found = traffic(&made(dir.path()));
    let commands = found["commands"].as_array().expect("commands");
    let parts: Vec<_> = commands.iter().filter_map(|command| command["part"].as_str()).collect();
    let expected = ["protocols", "conversations", "hosts", "connections", "retransmissions", "dns", "verify"];
    assert_eq!(parts, expected);
    for command in commands {
        let line = command["command"].as_str().expect("a line").replacen("quaff", QUAFF, 1);
        let done = Command::new("sh").args(["-c", &line]).output().expect("a shell");
        assert!(matches!(done.status.code(), Some(0 | 1)), "{line}: {done:?}");
        assert!(!done.stdout.is_empty(), "{line}: {done:?}");
    }
}

/// A filter of plain frames finds none of these packets.
#[test]
fn the_commands_find_packets_with_tags_labels_and_ipv6() {
    let test = test_name!();
    if tool(test, "tcpdump").is_none() {
        return;
    }
    let dir = folder();
    let frames = || connections().into_iter().chain(others().into_iter().take(3));
    let with_tags_and_without = |frame: &[u8]| if frame[23] == 6 { tagged(frame) } else { frame.to_vec() };
    let files = [
        changed(dir.path(), "tagged.pcap", frames(), tagged),
        changed(dir.path(), "some.pcap", frames(), with_tags_and_without),
        changed(dir.path(), "twice.pcap", frames(), |frame| tagged(&tagged(frame))),
        changed(dir.path(), "labelled.pcap", frames(), labelled),
        changed(dir.path(), "ipv6.pcap", frames(), of_ipv6),
    ];
    for file in files {
        let is_v6 = file.ends_with("ipv6.pcap");
        let [client, server, resolver] = [CLIENT, SERVER, RESOLVER].map(|address| match is_v6 {
            true => IpAddr::V6(ipv6_address(address.octets()[3])),
            false => IpAddr::V4(address),
        });
        let found = traffic(&file);
        assert_eq!((&found["tcp"]["refused"], &found["dns"]["nxdomain"]), (&1.into(), &1.into()), "{found}");
        for (part, address) in [("connections", server), ("retransmissions", client), ("dns", resolver)] {
            let commands = found["commands"].as_array().expect("commands");
            let command = commands.iter().find(|command| command["part"] == part).expect("a command");
            let line = command["command"].as_str().expect("a line").replacen("quaff", QUAFF, 1);
            let done = Command::new("sh").args(["-c", &line]).output().expect("a shell");
            let text = String::from_utf8_lossy(&done.stdout);
            assert!(text.contains(&address.to_string()), "{line}: {done:?}");
        }
    }
}

/// A block of pcapng.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
    let length = ((12 + body.len() + padding.len()) as u32).to_le_bytes();
    [&kind.to_le_bytes()[..], &length, body, &padding, &length].concat()
}

/// In pcap 0 is a time as any other; in pcapng it is none, and packets of Simple Packet Blocks have none.
#[test]
fn times_are_those_of_the_summary() {
    let dir = folder();
    let frame = ethernet(&ip(CLIENT, SERVER, 17, &build::udp(4000, 4001, b"payload")));
    let of_pcap = pcap([0, 5_000_000_000, 3_000_000_000].map(|time_ns| (time_ns, frame.clone())));
    let bytes = (frame.len() as u32).to_le_bytes();
    let with_time = |time_us: u32| [&[0; 8][..], &time_us.to_le_bytes(), &bytes, &bytes, &frame].concat();
    let of_pcapng = [
        block(0x0a0d_0d0a, &[&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], &[0xff; 8]].concat()),
        block(1, &[1, 0, 0, 0, 0, 0, 0, 0]),
        block(3, &[&bytes[..], &frame].concat()),
        block(6, &with_time(0)),
        block(6, &with_time(7)),
    ]
    .concat();
    for (name, bytes, untimed, backward) in [("a.pcap", of_pcap, 0, 1), ("a.pcapng", of_pcapng, 2, 0)] {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        let summary = json(&info(&["--json", &path.display().to_string()]));
        let (summary, found) = (&summary["files"][0], traffic(&path));
        for field in ["packets", "first_ns", "last_ns", "seconds", "untimed", "backward"] {
            assert_eq!(found[field], summary[field], "{name}: {field}");
        }
        assert_eq!((&found["untimed"], &found["backward"]), (&untimed.into(), &backward.into()), "{name}");
        let text = String::from_utf8(info(&["--traffic", &path.display().to_string()]).stdout).expect("text");
        assert_eq!(text.contains("2 without a time"), untimed == 2, "{text}");
        assert_eq!(text.contains("1 packet earlier than the one before"), backward == 1, "{text}");
    }
}

/// The counts of a file, which are equal on one core and on all.
fn counted_by_all(path: &Path) -> Value {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc(5)");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list");
    let first: String = list.trim().chars().take_while(char::is_ascii_digit).collect();
    let mut alone = Command::new("taskset");
    alone.args(["-c", &first, QUAFF, "info", "--traffic", "--json"]).arg(path);
    let mut one = json(&alone.output().expect("taskset runs"));
    let mut all = traffic(path);
    // The secrets of tables decide which copies of packets are found.
    for found in [&mut one, &mut all] {
        found["verify"] = Value::Null;
        found["tcp"]["retransmitted_bytes"] = Value::Null;
        found["tcp"]["late_bytes"] = Value::Null;
    }
    assert!(one == all, "{one}\n{all}");
    all
}

/// One core and several count the same. The file is repeated until threads have several parts to look at.
#[test]
fn all_cores_count_as_one_does() {
    let dir = folder();
    let bytes = std::fs::read(made(dir.path())).expect("a file");
    let (head, body) = bytes.split_at(24);
    let path = dir.path().join("long.pcap");
    std::fs::write(&path, [head, &body.repeat((3 << 20) / body.len())].concat()).expect("a file");
    let found = counted_by_all(&path);
    assert!(found["packets"].as_u64() > Some(10_000), "{found}");
}

/// Each client connects once, to one of many servers. A third of them is answered, and another third is refused.
#[test]
fn many_hosts_are_each_counted_once() {
    const CLIENTS: u32 = 30_000;
    const SERVERS: u32 = 1000;
    let [syn, rst, ack] = [2, 4, 16_u8];
    let connection = |number: u32| {
        let client = Ipv4Addr::from(0x0a01_0000 + number);
        let server = Ipv4Addr::from(0x0a08_0000 + number % SERVERS);
        let there = ethernet(&ip(client, server, 6, &tcp([5000, 80], [7, 0], syn, b"")));
        let back = |flags| ethernet(&ip(server, client, 6, &tcp([80, 5000], [9, 8], flags, b"")));
        let answer = match number % 3 {
            0 => Some(back(syn | ack)),
            1 => Some(back(rst | ack)),
            _ => None,
        };
        let ms = u64::from(number / 100);
        [there].into_iter().chain(answer).map(move |frame| (ms, frame))
    };
    // It is so late that no attempt is undecided.
    let last = (9000, build::ethernet(&[], 0x0806, &[0; 28]));
    let dir = folder();
    let frames = (0..CLIENTS).flat_map(connection).chain([last]);
    let found = counted_by_all(&changed(dir.path(), "many.pcap", frames, <[u8]>::to_vec));
    let (tcp, hosts, conversations) = (&found["tcp"], &found["hosts"], &found["conversations"]);
    let fates = ["attempts", "answered", "refused", "unanswered", "undecided", "server_count"];
    let expected = [CLIENTS, CLIENTS / 3, CLIENTS / 3, CLIENTS / 3, 0, SERVERS];
    assert_eq!(fates.map(|name| tcp[name].as_u64()), expected.map(|count| Some(u64::from(count))), "{tcp}");
    assert_eq!(conversations["count"], CLIENTS);
    assert_eq!(hosts["count"], CLIENTS + SERVERS);
    // Each server has 30 clients, of which 20 had an answer: they come first, by their addresses.
    let rows = hosts["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 10_000);
    for (number, row) in (0..SERVERS).zip(rows) {
        assert_eq!(row["address"], Ipv4Addr::from(0x0a08_0000 + number).to_string(), "{row}");
        let count = |name: &str| row[name]["packets"].as_u64();
        assert_eq!([count("sent"), count("received")], [Some(20), Some(30)], "{row}");
    }
    let packets = |row: &Value| row["packets"].as_u64().expect("a number");
    let listed: u64 = conversations["rows"].as_array().expect("rows").iter().map(packets).sum();
    let all = u64::from(CLIENTS / 3 * 5);
    assert_eq!(listed + packets(&conversations["others"]), all);
    assert_eq!(found["packets"], all + 1);
}

/// The protocols of the page.
fn our_protocols(found: &Value) -> Protocols {
    let row = |row: &Value| {
        let numbers = ["packets", "bytes"].map(|name| row[name].as_u64().expect("a number"));
        (row["path"].as_str().expect("a path").to_owned(), numbers)
    };
    found["protocols"].as_array().expect("rows").iter().map(row).collect()
}

/// The conversations of the page.
fn our_conversations(found: &Value) -> Conversations {
    let address = |value: &Value| value.as_str().and_then(|text| text.parse().ok()).expect("an address");
    let row = |row: &Value| {
        let ends = (address(&row["address_a"]), address(&row["address_b"]));
        let packets = ["a_to_b", "b_to_a"].map(|way| row[way]["packets"].as_u64().expect("a number"));
        (ends, (packets, row["bytes"].as_u64()))
    };
    found["conversations"]["rows"].as_array().expect("rows").iter().map(row).collect()
}

/// tshark's hierarchy: a line for each protocol, indented by two spaces more than the one around it.
fn their_protocols(text: &str) -> Protocols {
    let (mut found, mut path) = (Protocols::new(), Vec::<&str>::new());
    let lines = text.lines().skip_while(|line| *line != "Protocol Hierarchy Statistics").skip(3);
    for line in lines.take_while(|line| !line.starts_with("===")) {
        let depth = (line.len() - line.trim_start().len()) / 2;
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, packets, bytes] = words[..] else { continue };
        path.truncate(depth);
        path.push(name);
        let number =
            |word: &str| word.split(':').nth(1).and_then(|digits| digits.parse().ok()).expect("a number");
        found.insert(path.join(":"), [number(packets), number(bytes)]);
    }
    found
}

/// tshark's conversations of both versions: `A <-> B`, then frames and bytes of B, of A, and of both.
fn their_conversations(text: &str) -> Conversations {
    let rows = text.lines().filter_map(|line| line.split_once("<->"));
    let row = |(one, rest): (&str, &str)| {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let one: IpAddr = one.trim().parse().expect("an address");
        let other: IpAddr = words[0].parse().expect("an address");
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let (to_one, to_other) = (number(1), number(4));
        let bytes = (words[9] == "bytes").then(|| number(8));
        match one <= other {
            true => ((one, other), ([to_other, to_one], bytes)),
            false => ((other, one), ([to_one, to_other], bytes)),
        }
    };
    rows.map(row).collect()
}

fn is_compared(path: &str) -> bool {
    path.split(':').all(|name| COMPARED.contains(&name))
}

/// Differences between the page and tshark's statistics, each `FILE WHAT`, and all that was compared.
fn differences(file: &Path) -> [BTreeSet<String>; 2] {
    let whole = ["ip.defragment:FALSE", "ipv6.defragment:FALSE", "tcp.desegment_tcp_streams:FALSE"];
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-q", "-z", "io,phs", "-z", "conv,ip", "-z", "conv,ipv6", "-r"]).arg(file);
    for option in whole {
        tshark.args(["-o", option]);
    }
    let done = tshark.output().expect("tshark runs");
    let text = String::from_utf8_lossy(&done.stdout);
    let found = traffic(file);
    let name = file.file_name().expect("a name").to_string_lossy();
    let mut all = [BTreeSet::new(), BTreeSet::new()];
    let mut compare = |what: String, is_equal: bool| {
        let what = format!("{name} {what}");
        if !is_equal {
            all[0].insert(what.clone());
        }
        all[1].insert(what);
    };
    let (ours, theirs) = (our_protocols(&found), their_protocols(&text));
    let paths: BTreeSet<_> = ours.keys().chain(theirs.keys()).filter(|path| is_compared(path)).collect();
    paths.into_iter().for_each(|path| compare(path.clone(), ours.get(path) == theirs.get(path)));
    let (ours, theirs) = (our_conversations(&found), their_conversations(&text));
    for ends in ours.keys().chain(theirs.keys()).collect::<BTreeSet<_>>() {
        let is_equal = match (ours.get(ends), theirs.get(ends)) {
            (Some((packets, bytes)), Some((others, other_bytes))) => {
                // Of a host that talks to itself tshark counts one direction.
                let sums = [packets, others].map(|both| both.iter().sum::<u64>());
                let is_same = if ends.0 == ends.1 { sums[0] == sums[1] } else { packets == others };
                is_same && (other_bytes.is_none() || bytes == other_bytes)
            }
            _ => false,
        };
        compare(format!("{} {}", ends.0, ends.1), is_equal);
    }
    all
}

/// The known differences: file and place, and the reason after them.
fn known() -> BTreeSet<String> {
    let lines = include_str!("info_differences.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split(" | ").next().unwrap_or_default().trim().to_owned()).collect()
}

#[test]
fn protocols_and_conversations_are_those_of_tshark() {
    let test = test_name!();
    if tool(test, "tshark").is_none() {
        return;
    }
    let dir = folder();
    let mut files = vec![made(dir.path())];
    let of_others = files.len();
    files_below(&captures(), &mut files);
    if files.len() == of_others {
        skip(test, "there are no captures; QUAFF_CAPTURES says where to look");
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let [mut differing, mut compared] = [BTreeSet::new(), BTreeSet::new()];
        // Each thread takes the next file: a number only, so Relaxed.
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let [found, all] = differences(file);
            differing.extend(found);
            compared.extend(all);
        }
        [differing, compared]
    };
    let [one, other] = std::thread::scope(|scope| {
        let threads = [0; 2].map(|_| scope.spawn(work));
        threads.map(|thread| thread.join().expect("no panic"))
    });
    let [differing, compared] = [0, 1].map(|at| one[at].union(&other[at]).cloned().collect::<BTreeSet<_>>());
    let known = known();
    let new: Vec<_> = differing.difference(&known).collect();
    assert!(new.is_empty(), "{} new differences: {new:#?}", new.len());
    let gone: Vec<_> =
        known.iter().filter(|what| compared.contains(*what) && !differing.contains(*what)).collect();
    // The differences are those of real captures. Made ones have a mix.pcap too, and no teredo.pcap.
    let are_real = captures().join("protocols/teredo.pcap").is_file();
    assert!(gone.is_empty() || !are_real, "they agree now: {gone:#?}");
    assert!(compared.len() > 15, "{compared:?}");
}

#[test]
fn digests_are_those_of_sha256sum_and_the_table_has_the_values_of_the_json() {
    let dir = folder();
    let file = made(dir.path()).display().to_string();
    let sum = Command::new("sha256sum").arg(&file).output().expect("sha256sum runs");
    let expected = String::from_utf8_lossy(&sum.stdout).split_whitespace().next().map(str::to_owned);
    let report = json(&info(&["--hash", "--json", &file]));
    let of_json = &report["files"][0];
    assert_eq!(of_json["sha256"].as_str(), expected.as_deref());
    assert_eq!(json(&info(&["--json", &file]))["files"][0]["sha256"], Value::Null);
    // Of several files the digests are below the table, as sha256sum prints them.
    let text = String::from_utf8(info(&["--hash", &file, &file]).stdout).expect("text");
    let line = String::from_utf8_lossy(&sum.stdout).into_owned();
    assert_eq!(text.matches(line.trim_end()).count(), 2, "{text}");
    let table = String::from_utf8(info(&["--hash", "--tsv", &file, &file]).stdout).expect("text");
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!((lines.len(), lines[1].len()), (3, lines[0].len()));
    for (name, cell) in lines[0].iter().zip(&lines[1]) {
        match (*name, &of_json[*name]) {
            ("drops", _) | (_, Value::Null) => assert_eq!(*cell, "", "{name}"),
            (_, Value::String(text)) => assert_eq!(cell, text, "{name}"),
            (_, value) => assert_eq!(cell.parse().ok(), value.as_f64(), "{name}"),
        }
    }
}
