//! `quaff capture` with real packets: nothing lost, bytes as sent, and files that others read.

use crate::support::{
    Bench, PATIENCE, assert_lossless, finish, interrupt, lab_bench, run, tool, verify, wait_until_resident,
};
use quaff_lab::ChildProcess;
use quaff_os::Signal;
use quaff_testkit::test_name;
use quaff_wire::net::VlanTag;
use quaff_wire::probe::{self, Classified};
use quaff_wire::probe::{OuterHeaders, ProbeFrame};
use std::time::{Duration, Instant};

/// Frames of each full-speed run.
const MANY: u64 = 500_000;

/// As fast as one core sends, into a buffer that is resident: how soon that is, a host decides that may have taken the
/// free memory back.
#[test]
fn every_frame_at_full_speed() {
    let bench = lab_bench!(2 << 30);
    for size in [64, 512, 1500] {
        let file = bench.path("all.pcapng");
        let mut running = bench.capture(&["-w", &file, "--cpu", "1", "--buffer", "1G"]);
        wait_until_resident(&mut running);
        bench.generate(&format!("--size {size} --count {MANY} --cpu 0"));
        let ended = interrupt(running);
        assert_lossless(&ended, &file, MANY);
    }
}

#[test]
fn every_frame_in_every_format() {
    let bench = lab_bench!(1 << 30);
    for format in ["pcapng", "pcap", "pcap-us"] {
        let file = bench.path("all");
        let ended =
            bench.capture_of(&["-w", &file, "--format", format], "--size 300 --count 100000 --pps 200000");
        assert_lossless(&ended, &file, 100_000);
        let bytes = std::fs::metadata(&file).unwrap().len();
        assert_eq!(ended.json["bytes_written"], bytes, "{format}");
    }
}

/// The number of packets that another tool counts in a file, which it reads to the end without an error.
fn counted_by_others(test: &str, file: &str) -> Vec<(&'static str, u64)> {
    let lines = |text: String| text.lines().count() as u64;
    let mut counts = Vec::new();
    if let Some(mut tshark) = tool(test, "tshark") {
        counts.push(("tshark", lines(run(tshark.args(["-r", file, "-T", "fields", "-e", "frame.number"])))));
    }
    if let Some(mut tcpdump) = tool(test, "tcpdump") {
        counts.push(("tcpdump", lines(run(tcpdump.args(["-nn", "-r", file])))));
    }
    if let Some(mut capinfos) = tool(test, "capinfos") {
        let text = run(capinfos.args(["-c", "-M", "-T", "-r", file]));
        counts.push(("capinfos", text.split_whitespace().last().unwrap().parse().unwrap()));
    }
    if let Some(mut python) = tool(test, "/usr/bin/python3") {
        let script = format!(
            "from scapy.utils import RawPcapReader, PcapReader\nprint(sum(1 for _ in PcapReader({file:?})))"
        );
        match python.args(["-c", &script]).output() {
            Ok(done) if done.status.success() => {
                counts.push(("scapy", String::from_utf8_lossy(&done.stdout).trim().parse().unwrap()));
            }
            _ => quaff_testkit::skip(test, "python3-scapy is not installed"),
        }
    }
    counts
}

#[test]
fn other_programs_count_the_same_packets_in_the_files() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 28) else { return };
    for format in ["pcapng", "pcap", "pcap-us"] {
        let file = bench.path("all");
        // Slow enough for several flushes, so that padding lies between packets.
        let capture = ["-w", &file, "--format", format, "--flush", "100ms"];
        let ended = bench.capture_of(&capture, "--size 300 --count 2000 --pps 2000");
        assert_lossless(&ended, &file, 2000);
        for (tool, count) in counted_by_others(test, &file) {
            assert_eq!(count, 2000, "{tool} on {format}");
        }
    }
}

#[test]
fn frames_are_byte_identical_tags_included() {
    let bench = lab_bench!(1 << 28);
    let tags = [
        vec![],
        vec![(0x8100, 0xb064)],
        vec![(0x88a8, 0x2001), (0x8100, 0x6005)],
        vec![(0x8100, 7), (0x8100, 8)],
    ];
    for (stream, tags) in (1u16..).zip(tags) {
        let file = bench.path("tags.pcapng");
        let words: Vec<_> = tags.iter().map(|(tpid, tci)| format!("{tpid:#06x}:{tci:#06x}")).collect();
        let vlan = if tags.is_empty() { String::new() } else { format!("--vlan {}", words.join(",")) };
        let generate = format!(
            "--size 200 --count 500 --stream {stream} {vlan} --src-mac 02:00:00:00:00:01 --dst-mac 02:00:00:00:00:02"
        );
        let ended = bench.capture_of(&["-w", &file], &generate);
        assert_lossless(&ended, &file, 500);
        let headers = OuterHeaders {
            dst_mac: [2, 0, 0, 0, 0, 2],
            src_mac: [2, 0, 0, 0, 0, 1],
            tags: tags.iter().map(|&(tpid, tci)| VlanTag { tpid, tci }).collect(),
            src_ip: [198, 18, 0, 1].into(),
            dst_ip: [198, 18, 0, 2].into(),
            stream,
        };
        assert_frames(&file, &headers, 500);
    }
}

/// Each frame of the file is the one that was sent with its stamp, to the byte.
fn assert_frames(file: &str, headers: &OuterHeaders, count: u64) {
    let mut frame = ProbeFrame::new(headers, 200).expect("a frame");
    let mut capture = quaff_file::read::CaptureFile::open(file.as_ref()).expect("a capture");
    let mut seen = 0;
    while capture
        .pull(|item| {
            let quaff_wire::decode::Item::Frame(packet) = item else { return };
            let Classified::Intact(stamp) = probe::classify(packet.data, packet.wire_len as usize) else {
                panic!("frame {seen} has no stamp: {:02x?}", packet.data)
            };
            frame.set(&stamp);
            assert_eq!(packet.data, frame.bytes);
            seen += 1;
        })
        .expect("a good file")
    {}
    assert_eq!(seen, count);
}

#[test]
fn a_filter_runs_in_the_kernel_and_what_it_keeps_out_is_counted() {
    let bench = lab_bench!(1 << 28);
    for (filter, kept) in
        [("udp src port 7", "--stream 7"), ("vlan 100", "--vlan 0x8100:0xb064"), ("len > 200", "--size 256")]
    {
        let file = bench.path("some.pcapng");
        let running = bench.capture(&["-w", &file, "-f", filter]);
        let kept_size = if kept.starts_with("--size") { "" } else { "--size 128" };
        bench.generate(&format!("{kept_size} --count 1000 --pps 20000 {kept}"));
        bench.generate("--size 128 --count 500 --pps 20000 --stream 9");
        let ended = interrupt(running);
        assert_eq!(
            (ended.code, &ended.json["written"], &ended.json["filtered"]),
            (0, &1000.into(), &500.into()),
            "{filter}: {}",
            ended.json
        );
        assert_eq!(verify(&[&file])["received"], 1000, "{filter}");
    }
}

#[test]
fn a_snaplen_cuts_and_is_reported() {
    let bench = lab_bench!(1 << 28);
    let file = bench.path("short.pcapng");
    for (snaplen, captured) in [("96", 96), ("0", 1500)] {
        let ended = bench.capture_of(&["-w", &file, "-s", snaplen], "--size 1500 --count 100 --vlan 5");
        assert_lossless(&ended, &file, 100);
        let mut capture = quaff_file::read::CaptureFile::open(file.as_ref()).expect("a capture");
        while capture
            .pull(|item| {
                if let quaff_wire::decode::Item::Frame(packet) = item {
                    assert_eq!((packet.data.len(), packet.wire_len), (captured, 1500));
                }
            })
            .expect("a good file")
        {}
    }
}

#[test]
fn count_and_duration_end_it() {
    let bench = lab_bench!(1 << 28);
    let file = bench.path("some.pcapng");
    let running = bench.capture(&["-w", &file, "--count", "777"]);
    bench.generate("--size 64 --count 5000 --pps 50000");
    let ended = finish(running);
    assert_eq!(
        (ended.code, &ended.json["written"], &ended.json["received"]),
        (0, &777.into(), &777.into()),
        "{}",
        ended.json
    );
    assert_eq!(verify(&[&file])["received"], 777);

    let started = Instant::now();
    let ended = finish(bench.capture(&["-w", &file, "--duration", "700ms"]));
    let took = started.elapsed();
    assert_eq!((ended.code, &ended.json["ended_by"]), (0, &"duration".into()));
    assert!(took >= Duration::from_millis(700) && took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn the_half_filled_block_is_on_disk_after_sigterm() {
    let bench = lab_bench!(1 << 28);
    let file = bench.path("few.pcapng");
    for _ in 0..5 {
        let running = bench.capture(&["-w", &file]);
        bench.generate("--size 64 --count 3");
        running.signal(Signal::SIGTERM).unwrap();
        assert_lossless(&finish(running), &file, 3);
    }
}

#[test]
fn a_file_can_be_read_while_it_grows() {
    let bench = lab_bench!(1 << 28);
    let file = bench.path("growing.pcapng");
    let running = bench.capture(&["-w", &file, "--flush", "200ms"]);
    let generator = ChildProcess::start(bench.quaff(&[
        "generate",
        "--inject",
        "rx0",
        "--size",
        "200",
        "--pps",
        "20000",
        "--duration",
        "3s",
    ]));
    let generator = generator.expect("quaff runs");
    let mut received = Vec::new();
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(250));
        let found = verify(&[&file]);
        assert_eq!(
            (&found["lost"], &found["corrupt"], &found["error"]),
            (&0.into(), &0.into(), &serde_json::Value::Null),
            "{found}"
        );
        received.push(found["received"].as_u64().unwrap());
    }
    assert!(received.is_sorted() && received[9] > received[0] && received[9] > 20_000, "{received:?}");
    finish(generator);
    assert_lossless(&interrupt(running), &file, 60_000);
}

#[test]
fn two_interfaces_go_into_one_file() {
    let bench = lab_bench!(1 << 28);
    let file = bench.path("two.pcapng");
    let running = bench.capture(&["-i", "lo", "-w", &file]);
    bench.generate("--size 100 --count 1000 --pps 10000");
    let ended = interrupt(running);
    assert_lossless(&ended, &file, 1000);
    let names: Vec<_> =
        ended.json["interfaces"].as_array().unwrap().iter().map(|lane| lane["interface"].clone()).collect();
    assert_eq!(names, ["rx0", "lo"]);
    let done =
        bench.quaff(&["capture", "-i", "rx0", "-i", "lo", "--format", "pcap", "-w", &file]).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
}

/// The kernel offers a packet on lo twice: when it is sent, and when it is received.
#[test]
fn loopback_gives_each_packet_once() {
    let bench = lab_bench!(1 << 28);
    let script = "import socket
socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
socks[0].bind(('127.0.0.1', 0))
for _ in range(700):
    socks[1].sendto(bytes(200), socks[0].getsockname())
    socks[0].recv(500)";
    let file = bench.path("lo.pcapng");
    // Without a filter, and with filters that keep all and nothing, for which a tap counts as well.
    for (filter, written) in [(None, 700), (Some("udp"), 700), (Some("tcp"), 0)] {
        let mut args = vec!["capture", "-i", "lo", "--buffer", "64M", "--json", "-w", &file];
        args.extend(filter.iter().flat_map(|filter| ["-f", *filter]));
        let mut running = ChildProcess::start(bench.quaff(&args)).expect("quaff runs");
        assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
        run(bench.lab.rx.command("python3").expect("a command").args(["-c", script]));
        let ended = interrupt(running);
        let count = |name: &str| ended.json[name].as_u64().expect("a number");
        assert_eq!((ended.code, count("written")), (0, written), "{filter:?}: {}", ended.json);
        assert_eq!((count("offered"), count("filtered")), (700, 700 - written), "{filter:?}: {}", ended.json);
        assert_eq!(ended.json["lossless"], true, "{filter:?}: {}", ended.json);
    }
}

#[test]
fn both_directions_are_marked() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 28) else { return };
    let Some(mut tshark) = tool(test, "tshark") else { return };
    let file = bench.path("directions.pcapng");
    let running = bench.capture(&["-w", &file]);
    bench.generate("--size 100 --count 10");
    // A datagram of our own goes out of rx0.
    run(bench.lab.rx.command("bash").unwrap().args(["-c", "echo hello >/dev/udp/198.18.0.1/9"]));
    assert_eq!(interrupt(running).code, 0);
    let out = run(tshark.args(["-r", &file, "-T", "fields", "-e", "frame.packet_flags_direction"]));
    let count = |direction: &str| {
        out.lines()
            .filter(|line| {
                u8::from_str_radix(line.trim_start_matches("0x"), 16).unwrap().to_string() == direction
            })
            .count()
    };
    assert_eq!((count("1"), count("2")), (10, 1), "{out}");
}

#[test]
fn the_whole_buffer_becomes_resident_although_nothing_arrives() {
    let bench = lab_bench!(1 << 28);
    let mut running = bench.capture(&["-w", &bench.path("x.pcapng"), "--ring", "16M", "--buffer", "512M"]);
    wait_until_resident(&mut running);
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap();
    // In KiB (proc(5)).
    let bytes = |line: &str| line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10;
    let lines = status.lines().filter_map(|line| line.split_once(':'));
    let lines = lines.filter(|(name, _)| ["RssAnon", "HugetlbPages"].contains(name));
    let resident = lines.map(|(_, value)| bytes(value)).sum::<u64>();
    assert!(resident >= 512 << 20, "{status}");
    let ended = interrupt(running);
    assert_eq!(ended.json["resident_bytes"], 512 << 20, "{}", ended.json);
}

#[test]
fn of_the_default_buffer_an_idle_link_gets_a_gigabyte_at_the_most() {
    let bench = lab_bench!(1 << 28);
    let running = bench.capture_by_default(&["-w", &bench.path("x.pcapng")]);
    // By now a buffer whose size was given would be resident, or be growing.
    std::thread::sleep(Duration::from_secs(3));
    let ended = interrupt(running);
    let resident = ended.json["resident_bytes"].as_u64().expect("a number");
    assert!((4 << 20..=1 << 30).contains(&resident), "{}", ended.json);
}

/// A wake costs up to 8 ms of CPU time on a virtual machine whose host is slow, so the wakes are what is limited
/// tightly; the limit of 1 % is that of an optimized build.
#[test]
fn an_idle_capture_uses_at_most_1_percent_of_a_core() {
    const WAKES_MAX: u64 = 50;
    let cpu_ms_max = if cfg!(debug_assertions) { 400 } else { 100 };
    let bench = lab_bench!(1 << 28);
    let mut running = bench.capture(&["-w", &bench.path("idle.pcapng"), "--ring", "16M", "--buffer", "512M"]);
    wait_until_resident(&mut running);
    let before = use_of(running.pid());
    std::thread::sleep(Duration::from_secs(10));
    let after = use_of(running.pid());
    let (cpu_ms, wakes) = ((after.0 - before.0) / 1_000_000, after.1 - before.1);
    assert!(wakes <= WAKES_MAX, "{wakes} wakes in 10 s, {cpu_ms} ms");
    assert!(cpu_ms <= cpu_ms_max, "{cpu_ms} ms in 10 s, {wakes} wakes");
    interrupt(running);
}

/// The CPU time of a process so far, ns, and the number of its wakes, of all threads (schedstat, proc(5)).
fn use_of(pid: u32) -> (u64, u64) {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    let of_thread = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).expect("its use");
        let numbers: Vec<u64> = text.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        (numbers[0], numbers[2])
    };
    let all = threads.map(|thread| of_thread(thread.expect("a thread")));
    all.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
}
