//! `quaff replay -o` by each way onto the wire: what the file holds arrives, to the byte and in order,
//! and the counts agree.

use crate::support::{PATIENCE, QUAFF, alone};
use quaff_lab::{ChildProcess, Lab, LabPlan, RX, TX};
use quaff_os::Signal;
use quaff_os::rtnl::{self, LinkChange, Rtnl};
use quaff_testkit::{self as testing, Receiver, test_name};
use serde_json::Value;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const WAYS: [&str; 7] =
    ["auto", "sendmmsg", "sendmmsg-qdisc", "tx-ring", "tx-ring-qdisc", "af-xdp", "af-xdp-queue0"];

/// A lab where AF_XDP is permitted too, or a skip.
fn lab(test: &str) -> Option<Lab> {
    let lab = testing::lab_of(test, &LabPlan { mtu: 1500, ..LabPlan::default() })?;
    let open = || {
        let index = rtnl::link(TX.name)?.index;
        quaff_os::xdp::XdpTx::open(index, TX.name, 0, 1518, None).map(drop)
    };
    match lab.tx.run(open).expect("a thread in the namespace") {
        Err(error) if testing::is_refusal(&error) => {
            testing::skip(test, &error.to_string());
            None
        }
        opened => opened.map(|()| lab).map_err(|error| panic!("{error}")).ok(),
    }
}

/// A frame to a MAC of no host, with its number.
fn frame(number: u32, bytes: usize) -> Vec<u8> {
    let mut frame = vec![0x02, b'q', b'u', b'a', b'f', 2, 0x02, b'q', b'u', b'a', b'f', 1, 0x88, 0xb5];
    frame.extend(number.to_be_bytes());
    frame.extend((frame.len()..bytes).map(|at| (at as u32 * 7 + number) as u8));
    frame
}

/// A capture of these frames, `gap_us` apart.
fn pcap(dir: &Path, frames: &[Vec<u8>], gap_us: u32) -> PathBuf {
    write(dir, frames.iter().cloned(), gap_us).expect("written")
}

fn write(dir: &Path, frames: impl Iterator<Item = Vec<u8>>, gap_us: u32) -> std::io::Result<PathBuf> {
    let path = dir.join("frames.pcap");
    let mut file = BufWriter::new(File::create(&path)?);
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.write_all(&word.to_le_bytes())?;
    }
    for (at, frame) in (0u32..).zip(frames) {
        let time_us = at * gap_us;
        let len = frame.len() as u32;
        for word in [1_700_000_000 + time_us / 1_000_000, time_us % 1_000_000, len, len] {
            file.write_all(&word.to_le_bytes())?;
        }
        file.write_all(&frame)?;
    }
    file.flush()?;
    Ok(path)
}

fn command(lab: &Lab, args: &str, file: &Path) -> Command {
    let mut command = lab.tx.command(QUAFF).expect("a command");
    command.arg("replay").args(args.split_whitespace()).arg("--json").arg(file);
    command
}

/// Runs `quaff replay ARGS FILE --json`; its report, and its exit code.
fn replay(lab: &Lab, args: &str, file: &Path) -> (Value, Option<i32>) {
    let running = ChildProcess::start(command(lab, args, file)).expect("quaff runs");
    let done = running.finish(PATIENCE).expect("quaff ends");
    let report = serde_json::from_slice(&done.stdout);
    (report.unwrap_or_else(|error| panic!("{args}: {error}: {done:?}")), done.status.code())
}

fn number(report: &Value, key: &str) -> u64 {
    report[key].as_u64().unwrap_or_else(|| panic!("{key} in {report}"))
}

#[test]
fn a_file_arrives_to_the_byte_by_each_way() {
    let _alone = alone();
    let Some(lab) = lab(test_name!()) else { return };
    let dir = TempDir::new().expect("a folder");
    let frames: Vec<_> = (0..4000).map(|at| frame(at, 60 + at as usize * 37 % 1454)).collect();
    let file = pcap(dir.path(), &frames, 20);
    let bytes: usize = frames.iter().map(Vec::len).sum();
    for way in WAYS {
        for pace in ["-t", "--pps 50k", "-x 2", "-t --loop 3"] {
            let receiver = Receiver::at(&lab, RX.name);
            let (report, code) = replay(&lab, &format!("-o tx0 --via {way} {pace}"), &file);
            let loops = if pace.ends_with('3') { 3 } else { 1 };
            let expected: Vec<_> = frames.iter().cycle().take(frames.len() * loops).cloned().collect();
            for key in ["intended", "sent", "confirmed"] {
                assert_eq!(number(&report, key), expected.len() as u64, "{way} {pace}: {report}");
            }
            assert_eq!(number(&report, "bytes"), (bytes * loops) as u64, "{way} {pace}: {report}");
            assert_eq!(report["interfaces"][0]["sent"], expected.len(), "{way} {pace}: {report}");
            assert_eq!(code, Some(0), "{way} {pace}: {report}");
            assert!(receiver.bytes(expected.len()) == expected, "{way} {pace}");
        }
    }
}

#[test]
fn auto_measures_on_the_frames_of_the_run_and_reports_it() {
    let _alone = alone();
    let Some(lab) = lab(test_name!()) else { return };
    let dir = TempDir::new().expect("a folder");
    let frames: Vec<_> = (0..1000).map(|at| frame(at, 200)).collect();
    let file = pcap(dir.path(), &frames, 20);
    let before = lab.stats(RX).expect("counters").rx_packets;
    let (report, code) = replay(&lab, "-o tx0 -t --loop 0 --duration 1500ms", &file);
    let why = report["why"].as_str().expect("a reason");
    assert!(why.starts_with("not by XDP: the driver accepts no frames"), "{why}");
    assert!(why.contains("; fastest of: sendmmsg "), "{why}");
    assert!(why.contains("af-xdp") && why.contains("tx-ring"), "{why}");
    assert_eq!(number(&report, "confirmed"), number(&report, "sent"), "{report}");
    assert_eq!(lab.stats(RX).expect("counters").rx_packets - before, number(&report, "sent"), "{report}");
    assert_eq!(code, Some(0), "{report}");

    let (report, _) = replay(&lab, "-o tx0 --pps 1000 --limit 10", &file);
    assert_eq!(report["interfaces"][0]["way"]["name"], "sendmmsg", "{report}");
    assert!(report["why"].as_str().expect("a reason").contains("at a given rate"), "{report}");

    // With NAPI at the other end a veth takes frames from XDP programs.
    let gro = lab.rx.command("ethtool").expect("a command").args(["-K", RX.name, "gro", "on"]).status();
    if !gro.is_ok_and(|status| status.success()) {
        return testing::skip("auto: xdp-redirect", "there is no ethtool to switch GRO on with");
    }
    let (report, code) = replay(&lab, "-o tx0 -t --loop 20", &file);
    assert_eq!((&report["via"], code), (&Value::from("xdp-redirect"), Some(0)), "{report}");
    assert_eq!((number(&report, "sent"), number(&report, "confirmed")), (20_000, 20_000), "{report}");
}

#[test]
fn frames_dropped_by_a_full_queue_are_sent_again() {
    let _alone = alone();
    let test = test_name!();
    let Some(lab) = lab(test) else { return };
    let shape =
        ["qdisc", "add", "dev", TX.name, "root", "tbf", "rate", "20mbit", "burst", "10kb", "limit", "30kb"];
    let status = lab.tx.command("tc").expect("a command").args(shape).status();
    if !status.is_ok_and(|status| status.success()) {
        return testing::skip(test, "there is no tc, or no tbf in this kernel");
    }
    let dir = TempDir::new().expect("a folder");
    let frames: Vec<_> = (0..5000).map(|at| frame(at, 500)).collect();
    let file = pcap(dir.path(), &frames, 20);
    for way in ["sendmmsg-qdisc", "tx-ring-qdisc"] {
        let receiver = Receiver::at(&lab, RX.name);
        // A queue that two cores empty in turn hands its frames to two backlogs of the receiver, out of order.
        let (report, code) = replay(&lab, &format!("-o tx0 --via {way} -t --cpu 0"), &file);
        let one = &report["interfaces"][0];
        assert!(number(one, "enobufs") + number(one, "eagain") > 0, "{way}: {report}");
        assert_eq!((number(&report, "confirmed"), code), (5000, Some(0)), "{way}: {report}");
        let arrived = receiver.bytes(frames.len());
        let differs = arrived.iter().zip(&frames).position(|(arrived, sent)| arrived != sent);
        assert_eq!((arrived.len(), differs), (frames.len(), None), "{way}");
    }
}

#[test]
fn a_large_file_streams_through_little_memory() {
    let _alone = alone();
    let test = test_name!();
    let Some(lab) = lab(test) else { return };
    let dir = TempDir::new().expect("a folder");
    if !testing::space(test, dir.path(), 400 << 20) {
        return;
    }
    // Frame by frame, so that we take little memory ourselves.
    let file = write(dir.path(), (0..200_000).map(|at| frame(at, 1514)), 1).expect("written");
    let packed = dir.path().join("packed.pcap.gz");
    let gzip =
        Command::new("gzip").arg("-1c").arg(&file).stdout(File::create(&packed).expect("a file")).status();
    let packed = gzip.is_ok_and(|status| status.success()).then_some(packed);
    if packed.is_none() {
        testing::skip("a_large_file_streams: gzip", "there is no gzip");
    }
    // Twice: the second time it begins to read while the first pass is still sent. A packed file looks
    // as if it could be kept.
    for (way, args, file) in [
        ("sendmmsg", "--loop 2 --memory 64M", Some(&file)),
        ("sendmmsg", "--loop 2 --memory 64M", packed.as_ref()),
        ("tx-ring", "--limit 200k", Some(&file)),
        ("af-xdp", "", Some(&file)),
    ] {
        let Some(file) = file else { continue };
        let args = format!("-o tx0 -t --via {way} {args}");
        let done = ChildProcess::start(command(&lab, &args, file)).expect("quaff runs").finish(PATIENCE);
        let done = done.expect("quaff ends");
        let report: Value = serde_json::from_slice(&done.stdout).expect("a report");
        let loops = if args.contains("--loop 2") { 2 } else { 1 };
        assert_eq!(number(&report, "confirmed"), loops * 200_000, "{way}: {report}");
        assert_eq!(done.status.code(), Some(0), "{way}: {report}");
        let peak_mib = done.usage.memory_bytes_max >> 20;
        assert!(peak_mib < 200, "{way} took {peak_mib} MiB for a file of 300 MB");
    }
}

#[test]
fn auto_sends_frames_that_af_xdp_cannot_carry() {
    let _alone = alone();
    let test = test_name!();
    let Some(lab) = testing::lab_of(test, &LabPlan { mtu: 9000, ..LabPlan::default() }) else { return };
    let dir = TempDir::new().expect("a folder");
    let frames: Vec<_> = (0..1000).map(|at| frame(at, if at % 2 == 0 { 100 } else { 9000 })).collect();
    let file = pcap(dir.path(), &frames, 20);
    let (report, code) = replay(&lab, "-o tx0 -t --loop 0 --duration 600ms", &file);
    let why = report["why"].as_str().expect("a reason");
    assert!(why.contains("af-xdp-queue0 carries no frames over 4096 bytes"), "{why}");
    assert!(why.contains("fastest of"), "{why}");
    assert_eq!(report["interfaces"][0]["failed"], 0, "{report}");
    assert_eq!((number(&report, "confirmed"), code), (number(&report, "sent"), Some(0)), "{report}");
}

#[test]
fn an_interrupt_ends_the_reading_of_what_is_to_be_kept() {
    let _alone = alone();
    let Some(lab) = lab(test_name!()) else { return };
    let dir = TempDir::new().expect("a folder");
    let file = pcap(dir.path(), &[frame(0, 100)], 20);
    let mut command = command(&lab, "-o tx0 -t --loop 0 --via sendmmsg", Path::new("-"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("quaff runs");
    // A file, and then nothing more, nor its end.
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(&std::fs::read(&file).expect("read")).expect("written");
    std::thread::sleep(Duration::from_millis(700));
    quaff_os::process::send(child.id(), Signal::SIGINT).expect("a signal");
    let begun = Instant::now();
    let ended = loop {
        match child.try_wait().expect("a child") {
            None if begun.elapsed() > Duration::from_secs(10) => break None,
            None => std::thread::sleep(Duration::from_millis(5)),
            ended => break ended,
        }
    };
    if ended.is_none() {
        child.kill().expect("killed");
    }
    assert!(ended.is_some(), "it does not end");
}

#[test]
fn an_interrupt_ends_each_way_at_once_with_a_true_report() {
    let _alone = alone();
    let Some(lab) = lab(test_name!()) else { return };
    let dir = TempDir::new().expect("a folder");
    let frames: Vec<_> = (0..1000).map(|at| frame(at, 200)).collect();
    let file = pcap(dir.path(), &frames, 20);
    for way in WAYS {
        for pace in ["-t", "--pps 1000", "--pps 0.1"] {
            let args = format!("-o tx0 --via {way} {pace} --loop 0");
            let before = lab.stats(RX).expect("counters").rx_packets;
            let running = ChildProcess::start(command(&lab, &args, &file)).expect("quaff runs");
            let begun = Instant::now();
            while lab.stats(RX).expect("counters").rx_packets == before {
                assert!(begun.elapsed() < PATIENCE, "{args}: nothing came");
                std::thread::sleep(Duration::from_millis(20));
            }
            std::thread::sleep(Duration::from_millis(50));
            let signalled = Instant::now();
            running.signal(Signal::SIGINT).expect("a signal");
            let done = running.finish(Duration::from_secs(10)).expect("quaff ends soon");
            let took = signalled.elapsed();
            let report: Value = serde_json::from_slice(&done.stdout).expect("a report");
            assert_eq!(report["interrupted"], true, "{args}: {report}");
            let sent = number(&report, "sent");
            assert_eq!(number(&report, "confirmed"), sent, "{args}: {report}");
            assert_eq!(lab.stats(RX).expect("counters").rx_packets - before, sent, "{args}: {report}");
            assert_eq!(done.status.code(), Some(0), "{args}: {report}");
            // 0.2 s on a machine with nothing else to do.
            assert!(took < Duration::from_secs(2), "{args} took {took:?}");
        }
    }
}

#[test]
fn an_interface_that_goes_away_ends_the_run_with_a_word() {
    let _alone = alone();
    let Some(lab) = lab(test_name!()) else { return };
    let dir = TempDir::new().expect("a folder");
    let file = pcap(dir.path(), &[frame(0, 200)], 20);
    for way in ["sendmmsg", "tx-ring", "af-xdp"] {
        let args = format!("-o tx0 --via {way} --pps 1000 --loop 0");
        let running = ChildProcess::start(command(&lab, &args, &file)).expect("quaff runs");
        std::thread::sleep(Duration::from_millis(300));
        set_up(&lab, false);
        let done = running.finish(Duration::from_secs(10)).expect("quaff ends soon");
        set_up(&lab, true);
        assert_eq!(done.status.code(), Some(2), "{way}: {done:?}");
        assert!(done.stderr.contains("ip link set tx0 up"), "{way}: {done:?}");
        let begun = Instant::now();
        while !lab.tx.run(|| rtnl::link(TX.name).expect("a link").running).expect("a thread there") {
            assert!(begun.elapsed() < PATIENCE, "the link stays down");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn set_up(lab: &Lab, up: bool) {
    let set = || {
        let mut rtnl = Rtnl::open()?;
        let index = rtnl.link(TX.name)?.index;
        rtnl.change(index, LinkChange::Up(up))
    };
    lab.tx.run(set).expect("a thread in the namespace").expect("set");
}
