//! `quaff flows report` of stored records: IPFIX files have the numbers of the segments of the same run, and what was
//! not recorded is never unknown.

use crate::made::{Made, UDP};
use crate::sample;
use crate::support::QUAFF;
use quaff_testkit::test_name;
use quaff_testpackets as build;
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Output};

/// All properties of `--by`, and two combinations.
const BY: &str = "flow,host,source,destination,port,application,server,protocol,vlan,source-port,version,tos,flags,icmp,\
    interface,inner-vlan,mpls,tunnel,end,rule,alpn,continued,source+port,application+vlan+flags,source/24,destination/64+port";

fn quaff(args: &[&str]) -> Output {
    Command::new(QUAFF).args(args).output().expect("quaff runs")
}

#[track_caller]
fn report(path: &str, more: &[&str]) -> Value {
    let args = [&["flows", "report", path, "--json", "-q", "--top", "1000000"][..], more].concat();
    let done = quaff(&args);
    serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{args:?}: {done:?}"))
}

/// The messages of a report on stderr, and its status.
fn words(args: &[&str]) -> (Option<i32>, String) {
    let done = quaff(&[&["flows", "report"][..], args].concat());
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

/// Queries of DNS and their answers, from several hosts, some of them tagged, and ICMP.
fn made(dir: &Path) -> String {
    let mut made = Made::default();
    let server = Ipv4Addr::new(10, 0, 1, 53);
    for n in 0..40_u8 {
        let (host, port) = (Ipv4Addr::new(10, 0, 0, n % 8), 40_000 + u16::from(n));
        let mut query = vec![0, n, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        query.extend(b"\x01h\x07example\0\0\x01\0\x01");
        let tags: &[(u16, u16)] = if n % 4 == 0 { &[(0x8100, 5)] } else { &[] };
        let packet = |from, to, ports: [u16; 2], payload: &[u8]| {
            build::ipv4(from, to, UDP, &[], &build::udp(ports[0], ports[1], payload))
        };
        let service = if n % 3 == 0 { 9999 } else { 53 };
        let ms = u64::from(n) * 40;
        made.tagged(ms, tags, &packet(host, server, [port, service], &query));
        made.tagged(ms + 1, tags, &packet(server, host, [service, port], &query));
        made.ip(ms, &build::ipv4(host, server, 1, &[], &[8, 0, 0, 0, 0, n, 0, 1]));
    }
    made.packets.sort_by_key(|(time_ns, _)| *time_ns);
    made.write(dir, "made.pcap").display().to_string()
}

/// Meters a capture into an IPFIX file and into segments.
#[track_caller]
fn stored(file: &str, dir: &Path, more: &[&str]) -> [String; 2] {
    let [ipfix, parquet] = ["flows.ipfix", "segments"].map(|name| dir.join(name).display().to_string());
    let line = ["flows", "--read", file, "--ipfix", &ipfix, "--parquet", &parquet, "--probe", "p", "-q"];
    let done = quaff(&[&line[..], more].concat());
    // A damaged capture has the records before the damage.
    assert!(matches!(done.status.code(), Some(0 | 1)), "{file}: {done:?}");
    [ipfix, parquet]
}

#[test]
fn a_report_of_ipfix_is_that_of_segments_and_of_the_capture() {
    let test = test_name!();
    let dir = tempfile::tempdir().expect("a folder");
    let files = sample::with_made(test, &sample::captures(10, 4 << 20, &[]), made(dir.path()));
    for (number, file) in files.iter().enumerate() {
        let folder = dir.path().join(number.to_string());
        std::fs::create_dir(&folder).expect("a folder");
        let [ipfix, parquet] = stored(file, &folder, &[]);
        for more in
            [&["--by", BY][..], &["--by", BY, "--over", "1s"], &["--by", BY, "--where", "udp or port 443"]]
        {
            let mut all = [&ipfix, &parquet, file].map(|path| report(path, more));
            assert_eq!(all[0]["verdict"], "lossless", "{file}: {:?}", words(&[&ipfix]));
            for report in &mut all {
                // Losses that a capture records are before the meter; segments may be more than one file.
                let report = report.as_object_mut().expect("an object");
                report.retain(|name, _| name != "verdict" && name != "files");
            }
            let [ipfix, parquet, capture] = all;
            assert_eq!(ipfix, parquet, "{file}, {more:?}");
            let groups = |report: &Value| report["by"].as_array().expect("properties").clone();
            for (stored, metered) in groups(&ipfix).iter().zip(groups(&capture)) {
                // The number of an interface is that of the export.
                assert!(
                    *stored == metered || stored["by"] == "interface",
                    "{file}, {more:?}: {stored} {metered}"
                );
            }
        }
    }
}

/// The row of a name by a property.
fn row<'a>(report: &'a Value, by: &str, name: &str) -> Option<&'a Value> {
    let groups = report["by"].as_array()?.iter().find(|groups| groups["by"] == by)?;
    groups["rows"].as_array()?.iter().find(|row| row["name"] == name)
}

#[test]
fn a_property_that_was_not_recorded_is_named_so_with_its_option() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = made(dir.path());
    let by = &["--by", "application,server,host,vlan"][..];
    let with = dir.path().join("with");
    std::fs::create_dir(&with).expect("a folder");
    for path in stored(&file, &with, &[]) {
        let report = report(&path, by);
        assert!(
            row(&report, "application", "dns").is_some() && row(&report, "application", "unknown").is_some()
        );
        assert!(row(&report, "application", "not recorded").is_none(), "{report}");
        assert!(!words(&[&path, "--by", "application"]).1.contains("--applications"));
    }
    let without = dir.path().join("without");
    std::fs::create_dir(&without).expect("a folder");
    for path in stored(&file, &without, &["--no-applications"]) {
        let report = report(&path, by);
        let total = &report["total"]["packets"];
        for property in ["application", "server"] {
            let row = row(&report, property, "not recorded").unwrap_or_else(|| panic!("{path}: {report}"));
            assert_eq!(row["packets"], *total, "{path}");
        }
        assert!(row(&report, "application", "unknown").is_none() && row(&report, "vlan", "vlan 5").is_some());
        let (status, words) = words(&[&path, "--by", "application"]);
        assert!(status == Some(0) && words.contains("quaff flows --applications records"), "{words}");
        let text = quaff(&["flows", "report", &path, "--by", "server", "-q"]);
        let text = String::from_utf8_lossy(&text.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("not recorded: server (recorded by quaff flows --applications)"), "{text}");
    }
    // A template of its own has the properties that it names, and each direction is a record.
    let few = dir.path().join("few.ipfix").display().to_string();
    let template = "%IPV4_SRC_ADDR %IPV4_DST_ADDR %IN_PKTS %IN_BYTES %flowEndMilliseconds";
    let done = quaff(&["flows", "--read", &file, "--ipfix", &few, "-T", template, "-q"]);
    assert!(done.status.success(), "{done:?}");
    let report = report(&few, &["--by", "host,vlan,port,flow"]);
    assert_eq!(row(&report, "vlan", "not recorded").expect("the row")["packets"], report["total"]["packets"]);
    assert_eq!(report["by"][2]["not_recorded"], serde_json::json!(["port"]));
    assert!(row(&report, "host", "10.0.1.53").is_some(), "{report}");
    let (status, words) = words(&[&few]);
    assert!(status == Some(0) && words.contains("has a record of each direction"), "{words}");
}

#[test]
fn the_rest_has_a_row_of_others() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = made(dir.path());
    let args = ["flows", "report", &file, "--json", "-q", "--by", "source,protocol", "--top", "3"];
    let report: Value = serde_json::from_slice(&quaff(&args).stdout).expect("JSON");
    let of_source = &report["by"][0];
    let rows = of_source["rows"].as_array().expect("rows").iter().chain([&of_source["rest"]]);
    let packets: u64 = rows.map(|row| row["packets"].as_u64().expect("a number")).sum();
    assert_eq!(packets, report["total"]["packets"].as_u64().expect("a number"), "{report}");
    assert_eq!((&of_source["rest"]["name"], &of_source["others"]), (&"others".into(), &Value::Null));
    assert_eq!(report["by"][1]["rest"], Value::Null);
    let text = quaff(&["flows", "report", &file, "-q", "--by", "source,protocol", "--top", "3"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert_eq!(text.matches(" others ").count(), 1, "{text}");
}

#[test]
fn a_damaged_or_cut_file_costs_its_own_messages_only() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = made(dir.path());
    let [path, parquet] = stored(&file, dir.path(), &[]);
    let whole = std::fs::read(&path).expect("the file");
    let packets = |path: &str| report(path, &[])["total"]["packets"].as_u64();
    let all = packets(&path);
    // The length of the first set of the last message.
    let mut last = 0;
    let mut at = 0;
    while at < whole.len() {
        last = at;
        at += usize::from(u16::from_be_bytes([whole[at + 2], whole[at + 3]]));
    }
    let mut damaged = whole.clone();
    damaged[last + 18] = 255;
    std::fs::write(&path, &damaged).expect("written");
    let (status, said) = words(&[&path]);
    assert!(status == Some(1) && said.contains(&format!("is damaged at byte {}", last + 20)), "{said}");
    assert_eq!(packets(&path), all);
    std::fs::write(&path, &whole[..last + 9]).expect("written");
    let (status, said) = words(&[&path]);
    assert!(status == Some(1) && said.contains(&format!("ends within a message at byte {last}")), "{said}");
    std::fs::write(&path, &whole).expect("written");
    let (status, said) = words(&[&path, &path]);
    assert!(status == Some(0) && said.contains("is named twice, and counts once"), "{said}");
    let other = dir.path().join("other.ipfix").display().to_string();
    for (bytes, code, expected) in [
        (&b"no IPFIX at all, but long enough"[..], 2, "no message of IPFIX"),
        (b"", 1, "does not have the counters of the end"),
    ] {
        std::fs::write(&other, bytes).expect("written");
        let (status, said) = words(&[&other]);
        assert!(status == Some(code) && said.contains(expected), "{said}");
    }
    for (args, expected) in [
        (&[path.as_str(), parquet.as_str()][..], "one kind at a time"),
        (&[path.as_str(), file.as_str()], "one kind at a time"),
        (&[path.as_str(), "-f", "tcp"], "--filter is for packets"),
    ] {
        let (status, said) = words(args);
        assert!(status == Some(2) && said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn a_property_that_is_unknown_is_refused_with_all_names() {
    let (status, said) = words(&["-", "--by", "source+prot"]);
    assert!(status == Some(2) && said.contains("'prot' is none of flow, host"), "{said}");
    let (status, said) = words(&["-", "--by", "host+port"]);
    assert!(status == Some(2) && said.contains("write source or destination"), "{said}");
}
