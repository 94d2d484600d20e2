//! `quaff split`: every frame comes out once and unchanged, and no conversation at two members, as tshark
//! reads the headers; members that go away are replaced.

use crate::support::{
    Bench, PATIENCE, QUAFF, finish, folder, interrupt, lab_bench, names, run, tool, verify,
};
use quaff_lab::ChildProcess;
use quaff_testkit::{captures, skip, test_name};
use quaff_testpackets as build;
use quaff_wire::decode::{Decoder, Item, Step};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// `quaff split ARGS --json`: exit status, report, words.
fn split(args: &[&str]) -> (i32, Value, String) {
    let done = Command::new(QUAFF).args(["split", "--json"]).args(args).output().expect("quaff runs");
    let json = serde_json::from_slice(&done.stdout).unwrap_or(Value::Null);
    (done.status.code().unwrap_or(-1), json, String::from_utf8_lossy(&done.stderr).into_owned())
}

#[track_caller]
fn assert_exact(report: &Value) {
    let of = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{name}: {report}"));
    let written: u64 =
        report["members"].as_array().unwrap().iter().map(|m| m["written"].as_u64().unwrap()).sum();
    assert_eq!((of("in"), of("out")), (of("out") + of("skipped"), written), "{report}");
}

/// The frames of a capture file, with their times.
fn frames(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut rest, mut decoder, mut frames) = (&bytes[..], Decoder::default(), Vec::new());
    decoder.no_more();
    while let Step::Item(item) = decoder.next(&mut rest).expect("a whole file") {
        if let Item::Frame(frame) = item {
            frames.push((frame.time_ns, frame.data.to_vec()));
        }
    }
    frames
}

fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
    for (at, frame) in frames.iter().enumerate() {
        let (second, fraction, len) =
            (1_700_000_000 + at as u32 / 1000, at as u32 % 1000 * 1000, frame.len() as u32);
        file.extend([second, fraction, len, len].map(u32::to_le_bytes).concat());
        file.extend(frame);
    }
    file
}

/// Frames of many conversations: both ways, in fragments in any order, and ICMP errors about them.
fn made(conversations: u16) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for number in 0..conversations {
        let [a, b] = [
            Ipv4Addr::new(10, 0, (number >> 8) as u8, number as u8),
            Ipv4Addr::new(192, 0, 2, (number % 7) as u8),
        ];
        let packet = |from, to, ports: (u16, u16), len| {
            build::ipv4(from, to, 17, &[], &build::udp(ports.0, ports.1, &vec![number as u8; len]))
        };
        let there = packet(a, b, (number, 53), 40);
        let mut large = packet(a, b, (number, 53), 2000);
        large[4..6].copy_from_slice(&number.to_be_bytes());
        let mut pieces = build::ipv4_fragments(&large, 800);
        let turns = usize::from(number) % pieces.len();
        pieces.rotate_left(turns);
        let error = build::ipv4(
            Ipv4Addr::new(172, 16, 0, 1),
            a,
            1,
            &[],
            &[&[3, 3, 0, 0, 0, 0, 0, 0], &there[..28]].concat(),
        );
        let all = [there, packet(b, a, (53, number), 90), error].into_iter().chain(pieces);
        frames.extend(all.map(|ip| build::ethernet(&[], 0x0800, &ip)));
        frames.push(build::ethernet(&[], 0x0806, &[number as u8; 46]));
    }
    frames
}

/// The number of a frame of [`made`]; `None` for ARP.
fn number_of(frame: &[u8]) -> Option<u16> {
    let ends = [&frame[26..30], &frame[30..34]];
    let end = ends.into_iter().find(|end| end[..2] == [10, 0])?;
    (frame[12..14] == [8, 0]).then_some(u16::from_be_bytes([end[2], end[3]]))
}

#[test]
fn every_frame_comes_out_once_and_conversations_stay_whole() {
    let dir = folder();
    let (feed, out) = (dir.path().join("feed.pcap"), dir.path().join("out"));
    let all = made(500);
    std::fs::write(&feed, pcap(&all)).unwrap();
    for (by, format) in
        [("addresses", "pcapng"), ("ports", "pcap"), ("macs,ports", "pcap-us"), ("macs", "pcapng")]
    {
        let (feed, out) = (feed.to_str().unwrap(), out.to_str().unwrap());
        let args = ["--members", "4", "--by", by, "--read", feed, "--dir", out, "--format", format];
        let (code, report, words) = split(&args);
        assert_eq!((code, report["in"].as_u64()), (0, Some(all.len() as u64)), "{report} {words}");
        assert_exact(&report);
        let mut came = Vec::new();
        let mut homes: HashMap<u16, BTreeSet<usize>> = HashMap::new();
        for (member, name) in names(out.as_ref()).iter().enumerate() {
            assert!(
                *name
                    == format!(
                        "member-{}.{}",
                        member + 1,
                        &format[..format.find('-').unwrap_or(format.len())]
                    )
            );
            for (_, frame) in frames(&Path::new(out).join(name)) {
                if let Some(number) = number_of(&frame) {
                    homes.entry(number).or_default().insert(member);
                }
                came.push(frame);
            }
        }
        came.sort();
        let mut sent = all.clone();
        sent.sort();
        assert!(came == sent, "{by}: {} of {} frames", came.len(), sent.len());
        assert_eq!(homes.len(), 500);
        assert!(homes.values().all(|homes| homes.len() == 1), "{by}");
        if by != "macs" {
            let used: BTreeSet<_> = homes.values().flatten().collect();
            assert_eq!(used.len(), 4, "{by}");
            assert!(report["jain_packets"].as_f64().unwrap() > 0.9, "{report}");
        }
        std::fs::remove_dir_all(out).unwrap();
    }
}

#[test]
fn fragments_after_packets_of_later_times_are_counted() {
    let dir = folder();
    let (feed, out) = (dir.path().join("feed.pcap"), dir.path().join("out.pcapng"));
    let [one, other] = [1, 2].map(|number: u16| {
        let (from, to) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(192, 0, 2, 1));
        let mut large = build::ipv4(from, to, 17, &[], &build::udp(number, 53, &[0; 2000]));
        large[4..6].copy_from_slice(&number.to_be_bytes());
        build::ipv4_fragments(&large, 800)
            .iter()
            .map(|ip| build::ethernet(&[], 0x0800, ip))
            .collect::<Vec<_>>()
    });
    let order = [&one[1], &other[0], &other[1], &one[2], &one[0], &other[2]];
    std::fs::write(&feed, pcap(&order.map(Clone::clone))).unwrap();
    for (by, delayed) in [("addresses", 0), ("ports", 1)] {
        let args =
            ["--by", by, "--members", "1", "--read", feed.to_str().unwrap(), "-w", out.to_str().unwrap()];
        let (code, report, _) = split(&args);
        let times: Vec<u64> = frames(&out).iter().map(|(time_ns, _)| *time_ns).collect();
        let late = times.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert_eq!(
            (code, report["delayed"].as_u64(), late),
            (0, Some(delayed), delayed as usize),
            "{report}"
        );
        let done = Command::new(QUAFF).arg("split").args(args).output().expect("quaff runs");
        let words = String::from_utf8_lossy(&done.stdout).into_owned();
        assert_eq!(words.contains("1 NOT IN ORDER: fragments that were waited for"), delayed == 1, "{words}");
    }
}

#[test]
fn a_plan_says_what_the_split_does_and_writes_nothing() {
    let dir = folder();
    let (feed, out) = (dir.path().join("feed.pcap"), dir.path().join("out"));
    std::fs::write(&feed, pcap(&made(300))).unwrap();
    let (feed, out) = (feed.to_str().unwrap(), out.to_str().unwrap());
    let sorted = ["--by", "ports", "--weights", "3,1,2"];
    let (_, planned, words) = split(&[&["--plan", feed][..], &sorted].concat());
    assert_eq!(names(dir.path()), ["feed.pcap"], "{words}");
    let (code, done, _) = split(&[&["--read", feed, "--dir", out][..], &sorted].concat());
    assert_eq!(code, 0);
    for field in ["in", "out", "jain_bytes", "largest", "peaks", "conversations"] {
        assert_eq!(planned[field], done[field], "{field}");
    }
    let of = |report: &Value, field: &str| {
        let members = report["members"].as_array().unwrap();
        members.iter().map(|member| member[field].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(of(&planned, "packets"), of(&done, "packets"));
    // 150, 50 and 100 by weight; ARP is one more, and its frames are all at one.
    let conversations = of(&done, "conversations");
    assert!(conversations[0] > conversations[2] && conversations[2] > conversations[1], "{conversations:?}");
    let picture = run(Command::new(QUAFF).args(["split", "--plan", feed, "--members", "2"]));
    assert!(picture.contains("would go to 2 members") && picture.contains('█'), "{picture}");
    assert!(picture.contains("Jain's index") && picture.contains("largest: "), "{picture}");
}

#[test]
fn contradictory_split_flags_are_rejected() {
    let dir = folder();
    let feed = dir.path().join("feed.pcap");
    std::fs::write(&feed, pcap(&made(1))).unwrap();
    let (feed, same) = (feed.to_str().unwrap(), dir.path().join("same").display().to_string());
    let other = dir.path().join("other").display().to_string();
    assert_eq!(split(&["--read", feed, "--members", "3", "--dir", &other]).0, 0);
    for (args, said) in [
        (&["--read", feed][..], "set --members"),
        (&["--read", feed, "--dir", &same], "--members"),
        (&["--read", feed, "-w", &same, "-w", &same], "is given twice"),
        (&["--read", feed, "-w", &same, "-w", feed], "read and written at once"),
        (
            &["--read", feed, "--members", "2", "--weights", "1,2,3", "--dir", &same],
            "--weights has 3 values for 2 members",
        ),
        (&["--read", feed, "--weights", "0,2", "--dir", &same], "from 1 on"),
        (&["--read", feed, "--members", "3", "-w", &same], "1 outputs"),
        (&["--read", feed, "--members", "2", "--by", "port", "--dir", &same], "is not a field to split by"),
        (&["-i", "lo", "-o", "lo"], "captured from it again"),
        (&["--read", feed, "-o", "no-such-interface"], "no-such-interface"),
        (&["--read", feed, "--members", "2", "--dir", &other], "from another split"),
    ] {
        let (code, _, words) = split(args);
        assert!(code == 2 && words.contains(said), "{args:?}: {code} {words}");
    }
}

#[test]
fn commands_get_their_shares_and_one_that_ends_is_replaced() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let all = made(400);
    std::fs::write(at("feed.pcap"), pcap(&all)).unwrap();
    let command = format!("cat > '{}'$QUAFF_MEMBER", at("part-"));
    let (code, report, words) =
        split(&["--read", &at("feed.pcap"), "--members", "3", "--by", "ports", "--exec", &command]);
    assert_eq!((code, report["out"].as_u64()), (0, Some(all.len() as u64)), "{report} {words}");
    let parts =
        (1..=3).map(|number| frames(at(&format!("part-{number}")).as_ref()).len()).collect::<Vec<_>>();
    assert!(parts.iter().sum::<usize>() == all.len() && parts.iter().all(|part| *part > 0), "{parts:?}");

    // The second one reads a little and goes; what comes later than that goes to the first.
    let (first, second) = (format!("cat > '{}'", at("first")), "head -c 1000 >/dev/null");
    let mut quaff = Command::new(QUAFF);
    quaff.args(["split", "--json", "--read", "-", "--by", "ports", "--exec", &first, "--exec", second]);
    let mut running =
        quaff.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = running.stdin.take().unwrap();
    let file = pcap(&all);
    let half = 24 + all[..all.len() / 2].iter().map(|frame| frame.len() + 16).sum::<usize>();
    stdin.write_all(&file[..half]).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    stdin.write_all(&file[half..]).unwrap();
    drop(stdin);
    let done = running.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_exact(&report);
    assert_eq!(
        (done.status.code(), &report["members"][1]["gone"]),
        (Some(1), &"output_closed".into()),
        "{report}"
    );
    let later: BTreeSet<_> = frames(at("first").as_ref()).into_iter().map(|(_, frame)| frame).collect();
    assert!(all[all.len() / 2..].iter().all(|frame| later.contains(frame)));
    assert!(!all[..all.len() / 2].iter().all(|frame| later.contains(frame)));
}

#[test]
fn packets_of_commands_that_fail_are_lost() {
    let dir = folder();
    let feed = dir.path().join("feed.pcap");
    std::fs::write(&feed, pcap(&made(400))).unwrap();
    let of = |commands: &[&str]| {
        let mut args = vec!["--read", feed.to_str().unwrap(), "--by", "ports"];
        commands.iter().for_each(|command| args.extend(["--exec", command]));
        let (code, report, words) = split(&args);
        (code, report["lossless"].as_bool().unwrap(), report["out"].as_u64().unwrap(), words)
    };
    // The pipe may take some packets before the shell has noticed that there is no such command.
    let (code, is_lossless, _, words) = of(&["nosuchcmd", "nosuchcmd"]);
    assert_eq!((code, is_lossless), (2, false), "{words}");
    // Nothing is lost only if it was noticed before the first packet: all go to the other command then.
    let (code, report, words) = split(&[
        "--read",
        feed.to_str().unwrap(),
        "--by",
        "ports",
        "--exec",
        "cat >/dev/null",
        "--exec",
        "nosuchcmd",
    ]);
    let all_went_to_cat = report["members"][0]["written"] == 400;
    assert_eq!((code, &report["lossless"]), (1, &all_went_to_cat.into()), "{words} {report}");
    // All packets, and then a failure: what it did with them is unknown.
    let (code, is_lossless, out, words) = of(&["cat >/dev/null; exit 3"]);
    assert_eq!((code, is_lossless), (2, false), "{out} {words}");
    // A reader that has what it wanted is no failure.
    let (code, is_lossless, _, words) = of(&["head -c 1000 >/dev/null"]);
    assert_eq!((code, is_lossless), (0, true), "{words}");
}

#[test]
fn interfaces_get_their_shares_and_one_that_goes_down_is_replaced() {
    const STREAMS: u64 = 8;
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 28) else { return };
    if tool(test, "ip").is_none() {
        return;
    }
    let ip = |args: &str| {
        let mut command = bench.lab.rx.command("ip").expect("a command in the lab");
        run(command.args(args.split_whitespace()));
    };
    for name in ["a", "b"] {
        ip(&format!("link add {name}0 type veth peer name {name}1"));
        ip(&format!("link set {name}0 up"));
        ip(&format!("link set {name}1 up"));
    }
    let capture = |name: &str| {
        let file = bench.path(name);
        let args = ["capture", "-i", name, "-f", "udp", "--buffer", "64M", "-w", &file, "--json"];
        let mut running = ChildProcess::start(bench.quaff(&args)).expect("quaff runs");
        assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
        (running, file)
    };
    let ((on_a, file_a), (on_b, file_b)) = (capture("a1"), capture("b1"));
    let args =
        ["split", "-i", "rx0", "-f", "udp", "--by", "ports", "--buffer", "64M", "-o", "a0,b0", "--json"];
    let mut running = ChildProcess::start(bench.quaff(&args)).expect("quaff runs");
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    let send = || {
        for stream in 1..=STREAMS {
            bench.generate(&format!("--size 100 --count 500 --pps 20000 --stream {stream}"));
        }
        std::thread::sleep(Duration::from_millis(500));
    };
    send();
    ip("link set a0 down");
    assert!(running.hears("a0 is down", PATIENCE), "{}", running.heard);
    send();
    ip("link set a0 up");
    assert!(running.hears("a0 is back", PATIENCE), "{}", running.heard);
    send();
    let ended = interrupt(running);
    let received = [(on_a, file_a), (on_b, file_b)].map(|(running, file)| {
        interrupt(running);
        let found = verify(&[&file]);
        let streams = found["streams"].as_array().cloned().unwrap_or_default();
        let of = |stream: &Value| {
            (
                stream["stream"].as_u64().unwrap(),
                stream["received"].as_u64().unwrap() + stream["duplicates"].as_u64().unwrap_or(0),
            )
        };
        streams.iter().map(of).collect::<BTreeMap<_, _>>()
    });
    assert_exact(&ended.json);
    assert_eq!(
        (ended.code, ended.json["out"].as_u64()),
        (0, Some(3 * 500 * STREAMS)),
        "{} {}",
        ended.json,
        ended.stderr
    );
    let [a, b] = received;
    assert!(!a.is_empty() && a.len() < STREAMS as usize, "{a:?} {b:?}");
    for stream in 1..=STREAMS {
        let (at_a, at_b) = (a.get(&stream).copied().unwrap_or(0), b.get(&stream).copied().unwrap_or(0));
        // Whoever was at b stayed there; whoever was at a went to b, and came back.
        assert!([(0, 1500), (1000, 500)].contains(&(at_a, at_b)), "stream {stream}: {at_a} {at_b}");
    }
}

#[test]
fn an_interface_is_split_into_files() {
    let bench = lab_bench!(1 << 28);
    let dir = bench.path("parts");
    let args =
        ["split", "-i", "rx0", "--members", "3", "--by", "ports", "--buffer", "64M", "--dir", &dir, "--json"];
    let mut running = ChildProcess::start(bench.quaff(&args)).expect("quaff runs");
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    for stream in 1..=6 {
        bench.generate(&format!("--size 200 --count 5000 --pps 100000 --stream {stream}"));
    }
    let ended = interrupt(running);
    assert_exact(&ended.json);
    assert_eq!(
        (ended.code, ended.json["out"].as_u64()),
        (0, Some(30_000)),
        "{} {}",
        ended.json,
        ended.stderr
    );
    let mut streams = BTreeMap::new();
    for name in names(dir.as_ref()) {
        let found = verify(&[&format!("{dir}/{name}")]);
        for stream in found["streams"].as_array().into_iter().flatten() {
            let earlier = streams.insert(stream["stream"].as_u64(), stream["received"].as_u64());
            assert_eq!(earlier, None, "a stream at two members");
        }
    }
    assert!(streams.len() == 6 && streams.values().all(|received| *received == Some(5000)), "{streams:?}");
}

#[test]
fn a_member_that_stands_still_costs_the_others_nothing() {
    let bench = lab_bench!(1 << 28);
    let args = ["split", "-i", "rx0", "--by", "ports", "--buffer", "32M", "--ring", "16M", "--json"];
    let file = bench.path("one.pcapng");
    // The name decides the assignment.
    let commands = ["-w", "one.pcapng", "--exec", "exec sleep 30 >/dev/null 2>&1"];
    let mut command = bench.quaff(&[&args[..], &commands].concat());
    command.current_dir(bench.dir.path());
    let mut running = ChildProcess::start(command).expect("quaff runs");
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    for stream in 1..=16 {
        bench.generate(&format!("--size 1000 --count 10000 --pps 50000 --stream {stream}"));
    }
    // Longer than the flush interval.
    std::thread::sleep(Duration::from_secs(2));
    let in_time = verify(&[&file])["received"].as_u64();
    let asked = std::time::Instant::now();
    let ended = interrupt(running);
    assert!(asked.elapsed() < Duration::from_secs(15), "{:?}", asked.elapsed());
    assert_exact(&ended.json);
    let [one, other] = [0, 1].map(|member| &ended.json["members"][member]);
    let of = |member: &Value, field: &str| member[field].as_u64().unwrap();
    assert_eq!((ended.code, of(&ended.json["skipped_by"], "kernel_dropped")), (1, 0), "{}", ended.json);
    assert!(of(one, "packets") > 10_000 && of(one, "written") == of(one, "packets"), "{one}");
    assert_eq!(in_time, Some(of(one, "packets")), "the other member was late");
    assert!(
        of(other, "lost") > 0 && of(other, "lost") == of(other, "packets") - of(other, "written"),
        "{other}"
    );
    assert!(other["gone"]["write_error"].as_str().unwrap().contains("has stopped reading"), "{other}");
}

/// A frame as tshark prints it: fields separated by `|`, occurrences by commas.
const FIELDS: [&str; 15] = [
    "frame.protocols",
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "tcp.srcport",
    "tcp.dstport",
    "udp.srcport",
    "udp.dstport",
    "ip.proto",
    "ip.flags.mf",
    "ip.frag_offset",
    "ip.id",
    "icmp.type",
    "icmpv6.type",
];

/// The conversation of a frame, as tshark sees it, and the datagram of a fragment.
fn conversation(line: &str, has_ports: bool) -> Option<String> {
    let fields: Vec<Vec<&str>> = line.split('|').map(|field| field.split(',').collect()).collect();
    let first = |at: usize| fields[at].first().copied().unwrap_or_default();
    let protocols = first(0);
    let is_v4 = match (protocols.find(":ip:"), protocols.find(":ipv6")) {
        (Some(v4), Some(v6)) => v4 < v6,
        (v4, _) => v4.is_some() || protocols.ends_with(":ip"),
    };
    let is_error =
        ["3", "4", "5", "11", "12"].contains(&first(13)) || ["1", "2", "3", "4"].contains(&first(14));
    let (from, to) = if is_v4 { (&fields[1], &fields[2]) } else { (&fields[3], &fields[4]) };
    // Of an error, what it quotes.
    let at = if is_error { from.len() - 1 } else { 0 };
    let (from, to) = (from[at], to.get(at).copied()?);
    if from.is_empty() {
        return None;
    }
    if has_ports && is_v4 && (["1", "True"].contains(&first(10)) || first(11) != "0") {
        return Some(format!("datagram {from} {to} {} {}", first(12), first(9)));
    }
    let of = |source: usize, destination: usize| {
        [format!("{from} {}", first(source)), format!("{to} {}", first(destination))]
    };
    let (kind, mut ends) = match (has_ports, first(5), first(7)) {
        (true, port, _) if !port.is_empty() && protocols.contains(":tcp") => ("tcp", of(5, 6)),
        (true, _, port) if !port.is_empty() && protocols.contains(":udp") => ("udp", of(7, 8)),
        _ => (
            if has_ports { fields[9].get(at).copied().unwrap_or_default() } else { "" },
            [from.to_owned(), to.to_owned()],
        ),
    };
    ends.sort();
    Some(format!("{kind} {}", ends.join(" ")))
}

#[test]
fn no_conversation_of_real_traffic_is_at_two_members() {
    let test = test_name!();
    let (captures, dir) = (captures().join("protocols"), folder());
    if !captures.is_dir() {
        return skip(test, &format!("there is no {}; QUAFF_CAPTURES says where to look", captures.display()));
    }
    if tool(test, "tshark").is_none() {
        return;
    }
    let files = names(&captures).into_iter().filter(|name| name.contains("cap"));
    let reads: Vec<_> = files.map(|name| format!("--read={}", captures.join(name).display())).collect();
    for by in ["addresses", "ports", "macs,addresses", "macs,addresses,ports"] {
        let out = dir.path().join(by).display().to_string();
        let args = ["--members", "4", "--by", by, "--dir", &out];
        let (code, report, words) =
            split(&args.into_iter().chain(reads.iter().map(String::as_str)).collect::<Vec<_>>());
        // Losses that the files record make the run lossy.
        assert_eq!(code, i32::from(report["input"]["recorded_drops"] != 0), "{report} {words}");
        assert_exact(&report);
        let (mut packets, mut homes) = (0, HashMap::<String, BTreeSet<usize>>::new());
        for (member, name) in names(out.as_ref()).iter().enumerate() {
            let mut tshark = Command::new("tshark");
            tshark.args([
                "-n",
                "-o",
                "ip.defragment:FALSE",
                "-o",
                "ipv6.defragment:FALSE",
                "-T",
                "fields",
                "-E",
                "separator=|",
            ]);
            tshark
                .args(FIELDS.iter().flat_map(|field| ["-e", field]))
                .arg("-r")
                .arg(Path::new(&out).join(name));
            for line in run(&mut tshark).lines() {
                packets += 1;
                if let Some(conversation) = conversation(line, by.contains("ports")) {
                    homes.entry(conversation).or_default().insert(member);
                }
            }
        }
        assert_eq!(report["in"], packets, "{by}");
        let torn: Vec<_> = homes.iter().filter(|(_, homes)| homes.len() > 1).collect();
        assert!(torn.is_empty() && homes.len() > 2000, "{by}: {torn:?}, of {}", homes.len());
    }
}

/// A named pipe, first without a reader, then with one.
#[test]
fn a_named_pipe_without_a_reader_is_waited_for() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(at("feed.pcap"), pcap(&made(50))).unwrap();
    run(Command::new("mkfifo").arg(at("pipe")));
    let mut quaff = Command::new(QUAFF);
    quaff.args([
        "split",
        "--json",
        "--read",
        &at("feed.pcap"),
        "--by",
        "ports",
        "-w",
        &at("pipe"),
        "-w",
        &at("file"),
    ]);
    let running = ChildProcess::start(quaff).expect("quaff runs");
    std::thread::sleep(Duration::from_millis(300));
    let mut cat = Command::new("sh");
    cat.args(["-c", "exec cat <\"$0\" >\"$1\"", &at("pipe"), &at("copy")]);
    let reader = ChildProcess::start(cat).expect("sh runs");
    let ended = finish(running);
    finish(reader);
    assert_eq!(ended.code, 0, "{} {}", ended.json, ended.stderr);
    assert_exact(&ended.json);
    let both = frames(at("copy").as_ref()).len() + frames(at("file").as_ref()).len();
    assert_eq!(both, made(50).len());
}
