//! Manual pages, shell completions and the pages in `docs/` say what the commands do, and nothing else.

use crate::support::{QUAFF, lab_bench};
use quaff::cores::Nic;
use quaff::tally::{RunSummary, TERMS};
use quaff_bench::testing::{sample_flow_report, sample_report, sample_service_report};
use quaff_os::packet::CountingTap;
use quaff_os::rtnl;
use quaff_testkit::skip;
use quaff_wire::{Record, pcapng};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The output of `quaff WORDS`.
fn quaff(words: &str) -> String {
    let done = Command::new(QUAFF).args(words.split_whitespace()).output().expect("quaff runs");
    assert!(done.status.success(), "quaff {words}: {done:?}");
    String::from_utf8(done.stdout).expect("text")
}

/// All commands that the help lists, such as `bench list`, and the empty one.
pub(crate) fn commands() -> Vec<String> {
    let mut found = vec![String::new()];
    let mut at = 0;
    while at < found.len() {
        let help = quaff(&format!("{} --help", found[at]));
        // The commands themselves stand in groups, between the usage and the options.
        let is_start = |line: &str| if at == 0 { line.starts_with("Usage:") } else { line == "Commands:" };
        let listed = help.lines().skip_while(|line| !is_start(line)).skip(1);
        let listed = listed.take_while(|line| if at == 0 { *line != "Options:" } else { !line.is_empty() });
        let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
        let names: Vec<_> = names.map(|name| format!("{} {name}", found[at]).trim().to_owned()).collect();
        found.extend(names);
        at += 1;
    }
    found
}

/// The long options in the help of a command.
fn options(command: &str) -> BTreeSet<String> {
    let help = quaff(&format!("{command} --help"));
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = lines.flat_map(|line| line.split_whitespace().take(2));
    let words = words.filter_map(|word| word.strip_prefix("--"));
    words
        .map(|word| word.trim_end_matches(',').split(['[', '=', '.']).next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn each_command_has_a_manual_page_that_man_accepts() {
    let dir = tempfile::tempdir().expect("a folder");
    quaff(&format!("man {}", dir.path().display()));
    let commands = commands();
    assert!(commands.len() > 20, "{commands:?}");
    for command in &commands {
        let page = dir.path().join(format!("quaff {command}.1").replace(" .", ".").replace(' ', "-"));
        let mut man = Command::new("man");
        man.env("LC_ALL", "C.UTF-8").args(["--warnings", "-E", "UTF-8", "-Tutf8", "-l"]).arg(&page);
        let shown = man.output().expect("man is installed");
        assert!(shown.status.success() && shown.stderr.is_empty(), "{}: {shown:?}", page.display());
        let text = std::fs::read_to_string(&page).expect("the page").replace("\\-", "-");
        for option in options(command) {
            assert!(text.contains(&format!("--{option}")), "{}: --{option}", page.display());
        }
    }
    let pages = dir.path().read_dir().expect("the folder").count();
    assert_eq!(pages, commands.len());
}

#[test]
fn completions_are_scripts_with_all_commands() {
    let dir = tempfile::tempdir().expect("a folder");
    for shell in ["bash", "zsh", "fish"] {
        let script = quaff(&format!("completions {shell}"));
        for name in ["capture", "split", "completions", "--keep-free", "--dry-run"] {
            // fish writes options without their dashes.
            assert!(script.contains(name.trim_start_matches('-')), "{shell}: {name}");
        }
        check_syntax(shell, &script, dir.path());
    }
}

/// Has the shell itself read the script, where it is installed.
fn check_syntax(shell: &str, script: &str, dir: &Path) {
    let path = dir.join(shell);
    std::fs::write(&path, script).expect("a file");
    match Command::new(shell).arg("-n").arg(&path).output() {
        Ok(done) => assert!(done.status.success() && done.stderr.is_empty(), "{shell}: {done:?}"),
        // zsh and fish need not be installed.
        Err(_) if shell != "bash" => {}
        Err(error) => panic!("{shell}: {error}"),
    }
}

/// Fields whose content depends on the run (reasons of ends and failures, a count for each kind of damage, counters of
/// a driver or of interfaces below, facts of the machine), or is that of a plan file.
const OPEN: [&str; 12] = [
    "ended_by",
    "failure",
    "members[].gone",
    "interfaces[].decap.damaged",
    "interfaces[].driver_counters",
    "interfaces[].lower_counters",
    "machine",
    "plan",
    "cases[].setting",
    "searches[].setting",
    "bursts[].setting",
    "captures",
];
/// Fields that no small run shows.
const RARE: [&str; 3] = ["input.failure", "input.missing[]", "missing[]"];

/// The paths of all fields of a JSON value: `interfaces[].offered`.
fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        _ if OPEN.contains(&path) => drop(found.insert(path.to_owned())),
        Value::Object(members) if !members.is_empty() => {
            for (name, value) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                fields(value, &path, found);
            }
        }
        Value::Array(items) => {
            found.insert(format!("{path}[]"));
            items.iter().for_each(|item| fields(item, &format!("{path}[]"), found));
        }
        _ => drop(found.insert(path.to_owned())),
    }
}

/// The fields in the table of a page's section. A name with a dot in front continues the object before it.
fn documented(page: &str, section: &str) -> BTreeSet<String> {
    let text = document(&format!("docs/{page}.md"));
    let heading = format!("{section}\n");
    let section = text.split("\n## ").find(|section| section.starts_with(&heading)).expect("a section JSON");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut found = BTreeSet::new();
    for row in rows {
        let cell = row.split(" | ").next().unwrap_or_default();
        let mut object = String::new();
        for name in cell.split('`').step_by(2).filter(|name| !name.is_empty()) {
            let name = if name.starts_with('.') { format!("{object}{name}") } else { name.to_owned() };
            object = name.rsplit_once('.').map(|(object, _)| object.to_owned()).unwrap_or_default();
            found.insert(name);
        }
    }
    found
}

pub(crate) fn document(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs `quaff LINE` in `dir`, and adds the fields of its JSON to `found`.
fn sample(command: Command, line: &str, dir: &Path, found: &mut BTreeSet<String>) {
    sample_as("", command, line, dir, found);
}

/// The same with the fields inside an object of this name.
fn sample_as(name: &str, mut command: Command, line: &str, dir: &Path, found: &mut BTreeSet<String>) {
    let done =
        command.args(line.split_whitespace()).arg("--json").current_dir(dir).output().expect("quaff runs");
    let out = [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let parse = |text: &str| {
        serde_json::from_str(text).ok().filter(|json: &Value| json.is_object() || json.is_array())
    };
    let json = out
        .iter()
        .find_map(|text| parse(text))
        .or_else(|| out.iter().flat_map(|text| text.lines()).find_map(parse));
    fields(&json.unwrap_or_else(|| panic!("{line}: {done:?}")), name, found);
}

/// Runs `quaff LINE --ledger -` in `dir`, and adds the fields of the ledger to `found`.
fn ledger_of(mut command: Command, line: &str, dir: &Path, found: &mut BTreeSet<String>) {
    let done = command.args(line.split_whitespace()).args(["--ledger", "-"]).current_dir(dir).output();
    let done = done.expect("quaff runs");
    let json = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{line}: {done:?}"));
    fields(&json, "", found);
}

/// Compares the fields that runs have shown with those of the page.
fn compare(page: &str, shown: &BTreeSet<String>) {
    compare_section(page, "JSON", shown);
}

/// The row of a page for the common part of all reports, which is on the page of capture.
const SUMMARY: &str = "\n| each field of a [summary](capture.md#json) |";

/// The fields of a summary, as the page of capture has them.
fn of_summary() -> BTreeSet<String> {
    let summary = serde_json::to_value(RunSummary::default()).expect("JSON");
    let is_in = |name: &String| {
        let first = name.split(['.', '[']).next().unwrap_or_default();
        summary.get(first).is_some() || first == "input"
    };
    documented("capture", "JSON").into_iter().filter(is_in).collect()
}

/// A term of the identity has one row on the page of capture, wherever it is in a report. So a new term is in three
/// files: the table, the stage that counts it, and that page.
#[test]
fn each_term_has_a_row_on_the_page_of_capture() {
    let rows = documented("capture", "JSON");
    let missing: Vec<_> = TERMS.iter().filter(|term| !rows.contains(term.name)).collect();
    assert!(missing.is_empty() && TERMS.len() > 9, "docs/capture.md lacks {missing:?}");
}

fn compare_section(page: &str, section: &str, shown: &BTreeSet<String>) {
    let mut documented = documented(page, section);
    let own = documented.clone();
    if document(&format!("docs/{page}.md")).contains(SUMMARY) {
        documented.extend(of_summary());
    }
    let terms: Vec<_> = TERMS.iter().map(|term| term.name).collect();
    let is_term = |name: &str| name.rsplit('.').next().is_some_and(|last| terms.contains(&last));
    let holds = |name: &str, other: &String| {
        other.strip_prefix(name).is_some_and(|rest| rest.starts_with(['.', '[']))
    };
    let is_documented =
        |name: &&String| documented.contains(*name) || documented.iter().any(|other| holds(name, other));
    let is_documented = |name: &&String| is_documented(name) || is_term(name);
    let missing: Vec<_> = shown.iter().filter(|name| !is_documented(name)).collect();
    assert!(missing.is_empty(), "docs/{page}.md lacks {missing:?}");
    let is_shown = |name: &&String| shown.contains(*name) || shown.iter().any(|other| holds(name, other));
    let gone: Vec<_> = own.iter().filter(|name| !is_shown(name) && !RARE.contains(&name.as_str())).collect();
    assert!(gone.is_empty(), "docs/{page}.md has {gone:?}, which no run shows");
}

/// The captures that samples read.
const MADE: [&str; 2] = [
    "generate -w tunnels.pcap --erspan 3 --pps 1k --count 10",
    "generate -w talk.pcap --tcp talk --segments 4 --flows 50 --size 200 --pps 20k --count 4k",
];

/// Command lines of capture, and whether they run at the receiving end of a lab.
const OF_CAPTURE: [(bool, &str); 9] = [
    (false, "capture --read all.pcap -w all.pcapng"),
    (false, "capture --read all.pcap -c 2000 --prove -w short.pcapng"),
    (false, "capture --read all.pcap -w packed.pcapng.zst"),
    (false, "capture --read all.pcap --duplicates mark -w marked.pcapng"),
    (false, "capture --read tunnels.pcap --decap auto -w inner.pcapng"),
    (false, "capture --read all.pcap --tee . -w -"),
    (true, "capture -i rx0 --lanes 2 --buffer 64M -d 300ms -w live.pcapng"),
    (true, "capture -i rx0 --buffer 64M -d 300ms --dir one --dir two"),
    (true, "capture -i rx0 --via xdp --take-from-host --buffer 64M -d 300ms -w xdp.pcapng"),
];

#[test]
fn pages_have_the_fields_of_the_json() {
    let bench = lab_bench!(64 << 20);
    let dir = bench.dir.path();
    let alone = || Command::new(QUAFF);
    let receiving = || bench.lab.rx.command(QUAFF).expect("a command in the lab");
    let sending = || bench.lab.tx.command(QUAFF).expect("a command in the lab");
    let pages: [(&str, &[(bool, &str)]); 9] = [
        ("generate", &[(false, "generate -w all.pcap --size 300 --flows 9 --pps 1k --count 3000")]),
        ("capture", &OF_CAPTURE),
        (
            "verify",
            &[
                (false, "verify all.pcapng"),
                (false, "verify --expect 4000 all.pcapng"),
                (false, "verify --inject-loss 1 talk.pcap"),
                (false, "verify --against all.pcap short.pcapng"),
            ],
        ),
        ("info", &[(false, "info all.pcapng all.pcap broken.pcapng")]),
        ("merge", &[(false, "merge all.pcap tunnels.pcap broken.pcapng backward.pcapng -w merged.pcapng")]),
        ("interfaces", &[(true, "interfaces")]),
        (
            "split",
            &[
                (false, "split --read all.pcap --members 2 --exec cat>member"),
                (true, "split -i rx0 --buffer 64M -d 300ms --members 2 --dir parts"),
            ],
        ),
        ("pipe", &[(false, "pipe --dir .")]),
        ("replay", &[(true, "replay --inject rx0 -q --pps 20k all.pcap")]),
    ];
    ["one", "two"].iter().for_each(|name| std::fs::create_dir(dir.join(name)).expect("a folder"));
    MADE.iter().for_each(|line| sample(alone(), line, dir, &mut BTreeSet::new()));
    std::fs::write(dir.join("broken.pcapng"), broken()).expect("written");
    std::fs::write(dir.join("backward.pcapng"), packets_at(&[9, 7])).expect("written");
    let tap = || CountingTap::open(rtnl::link("rx0").expect("an end of the lab").index, "rx0", None);
    let _tap = bench.lab.rx.run(tap).expect("the namespace").expect("a packet socket");
    for (page, lines) in pages {
        let mut shown = BTreeSet::new();
        for (live, line) in lines {
            sample(if *live { receiving() } else { alone() }, line, dir, &mut shown);
        }
        if page == "generate" {
            sample(receiving(), "generate --inject rx0 --size 64 --count 1000 --pps 10k", dir, &mut shown);
            sample(sending(), "generate -o tx0 --size imix --count 1000 --pps 10k", dir, &mut shown);
        }
        if page == "replay" {
            sample(sending(), "replay -o tx0 -q --pps 20k all.pcap", dir, &mut shown);
        }
        compare(page, &shown);
    }
    let mut shown = BTreeSet::new();
    ledger_of(alone(), "flows --read all.pcap --csv all.csv", dir, &mut shown);
    ledger_of(receiving(), "flows -i rx0 -d 300ms -n udp://127.0.0.1:4739", dir, &mut shown);
    compare("flows", &shown);
    let mut shown = BTreeSet::new();
    sample(receiving(), "tap rx0 lo --forward none --buffer 64M -d 300ms -w tapped.pcapng", dir, &mut shown);
    // The others are on the page of captures.
    let own = ["directions", "forward", "still_forwarding", "not_restored", "redirect_removed"];
    shown.retain(|field| own.iter().any(|name| field.starts_with(name)));
    compare("tap", &shown);
    let mut shown = BTreeSet::new();
    sample(receiving(), "capture -i rx0 --dry-run", dir, &mut shown);
    sample(alone(), "capture --read all.pcap -w dry.pcapng --dry-run", dir, &mut shown);
    compare_section("capture", "JSON of a dry run", &shown);
}

#[test]
fn the_page_of_info_has_the_fields_of_the_traffic() {
    let dir = tempfile::tempdir().expect("a folder");
    let made = "generate -w all.pcap --tcp talk --size 300 --flows 9 --pps 1k --count 300";
    sample(Command::new(QUAFF), made, dir.path(), &mut BTreeSet::new());
    let mut shown = BTreeSet::new();
    sample(Command::new(QUAFF), "info --traffic all.pcap", dir.path(), &mut shown);
    // Without queries and damage these lists are empty; tests of the page have some.
    let of_dns = ["names[].name", "names[].code", "names[].count", "servers[].server", "servers[].queries"];
    let of_dns = of_dns.into_iter().chain(["servers[].unanswered", "servers[].failures"]);
    shown.extend(of_dns.map(|field| format!("dns.{field}")));
    compare_section("info", "JSON of the traffic", &shown);
}

#[test]
fn the_page_of_info_has_the_columns_of_the_table() {
    let dir = tempfile::tempdir().expect("a folder");
    sample(Command::new(QUAFF), "generate -w all.pcap --count 3", dir.path(), &mut BTreeSet::new());
    let done = Command::new(QUAFF).args(["info", "--tsv", "all.pcap"]).current_dir(dir.path()).output();
    let table = String::from_utf8(done.expect("quaff runs").stdout).expect("text");
    let heads: Vec<String> =
        table.lines().next().expect("heads").split('\t').map(|head| format!("`{head}`")).collect();
    let (last, others) = heads.split_last().expect("columns");
    let page = document("docs/info.md").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains(&format!("{} and {last}, in this order", others.join(", "))), "{heads:?}");
}

#[test]
fn the_page_of_flows_has_the_fields_of_the_json() {
    let dir = tempfile::tempdir().expect("a folder");
    let alone = || Command::new(QUAFF);
    sample(
        alone(),
        "generate -w all.pcap --size 300 --flows 9 --pps 1k --count 3000",
        dir.path(),
        &mut BTreeSet::new(),
    );
    let mut shown = BTreeSet::new();
    sample(alone(), "flows top --read all.pcap --once", dir.path(), &mut shown);
    // Names are there only on request.
    shown.extend(["rows[].detail", "rows[].named"].map(str::to_owned));
    compare_section("flows", "JSON of top", &shown);
    let mut shown = BTreeSet::new();
    sample(alone(), "flows report all.pcap --by flow,host,source+port --top 1", dir.path(), &mut shown);
    // Of stored records without applications, and of flows with them.
    shown.extend(["by[].not_recorded[]", "by[].rows[].detail"].map(str::to_owned));
    compare_section("flows", "JSON of a report", &shown);
    let mut shown = BTreeSet::new();
    sample(alone(), "flows list all.pcap --top 3", dir.path(), &mut shown);
    shown.insert("not_recorded[]".to_owned());
    compare_section("flows", "JSON of a list", &shown);
}

#[test]
fn the_page_of_streams_has_the_fields_of_the_json() {
    let dir = tempfile::tempdir().expect("a folder");
    let alone = || Command::new(QUAFF);
    let made = "generate -w all.pcap --tcp talk --size 300 --flows 9 --pps 1k --count 300";
    sample(alone(), made, dir.path(), &mut BTreeSet::new());
    let mut shown = BTreeSet::new();
    sample(alone(), "streams extract --http-bodies --read all.pcap --dir out", dir.path(), &mut shown);
    sample(alone(), "streams extract --objects --read all.pcap --dir objects", dir.path(), &mut shown);
    compare("streams", &shown);
    let index = std::fs::read_to_string(dir.path().join("out/index.jsonl")).expect("an index");
    let mut shown = BTreeSet::new();
    for line in index.lines() {
        fields(&serde_json::from_str(line).expect("JSON"), "", &mut shown);
    }
    // Both sides have the same fields.
    shown.retain(|field| !field.starts_with("from_server."));
    shown.insert("from_server".to_owned());
    let of_lists =
        ["gaps[].offset", "gaps[].bytes", "gaps[].file_offset", "gaps[].cause"].into_iter().chain([
            "differences[].offset",
            "differences[].bytes",
            "differences[].kept",
            "differences[].first",
            "differences[].second",
        ]);
    let of_bodies = [
        "message",
        "file",
        "bytes",
        "lost_bytes",
        "whole",
        "status",
        "method",
        "host",
        "target",
        "content_type",
        "content_encoding",
        "object",
        "object.bytes",
        "object.kind",
        "object.sha256",
        "object.partial",
        "object.decoded",
    ];
    // Lists without entries; tests of streams have some.
    shown.extend(of_lists.map(|field| format!("from_client.{field}")));
    shown.extend(of_bodies.map(|field| format!("from_client.bodies[].{field}")));
    compare_section("streams", "Index", &shown);
    let mut shown = fields_of_lines("streams list all.pcap --json", dir.path());
    // The first match is there with a pattern only.
    shown.extend(fields_of_lines("streams list all.pcap --grep . --json", dir.path()));
    shown.retain(|field| !field.starts_with("from_server."));
    shown.insert("from_server".to_owned());
    compare_section("streams", "List", &shown);
    let mut shown = fields_of_lines("streams follow all.pcap 1 --json", dir.path());
    shown.extend(["gap_bytes", "cause"].map(str::to_owned));
    compare_section("streams", "follow", &shown);
}

/// The fields of the objects that `quaff LINE` prints in `dir`, one per line.
fn fields_of_lines(line: &str, dir: &Path) -> BTreeSet<String> {
    let done = Command::new(QUAFF).args(line.split(' ')).current_dir(dir).output().expect("quaff runs");
    let mut shown = BTreeSet::new();
    for line in String::from_utf8_lossy(&done.stdout).lines() {
        fields(&serde_json::from_str(line).expect("JSON"), "", &mut shown);
    }
    shown
}

#[test]
fn the_page_of_scripts_has_the_fields_of_the_json() {
    let dir = tempfile::tempdir().expect("a folder");
    let alone = || Command::new(QUAFF);
    let made = "generate -w all.pcap --tcp talk --size 300 --flows 9 --pps 1k --count 300";
    sample(alone(), made, dir.path(), &mut BTreeSet::new());
    let text = "on('packet', function(p) error('mine') end) on('line', function() end)";
    std::fs::write(dir.path().join("a.lua"), text).expect("a script");
    let mut shown = BTreeSet::new();
    sample(alone(), "streams --read all.pcap --script a.lua --out out", dir.path(), &mut shown);
    // Those of the reassembly are on the page of streams.
    let (of_streams, own): (BTreeSet<_>, _) =
        shown.into_iter().partition(|field: &String| field.starts_with("streams."));
    let of_extract = documented("streams", "JSON");
    let of_extract = |field: &String| of_extract.contains(field.trim_start_matches("streams."));
    let missing: Vec<_> = of_streams.iter().filter(|field| !of_extract(field)).collect();
    assert!(missing.is_empty() && of_streams.len() > 30, "docs/streams.md lacks {missing:?}");
    compare("scripts", &own.into_iter().chain(["streams".to_owned()]).collect());
}

/// A file with drops at a packet, and with an end that is cut off.
fn broken() -> Vec<u8> {
    let mut file = packets_at(&[1, 2]);
    file.truncate(file.len() - 4);
    file
}

/// A file with packets of these times, and drops at them.
fn packets_at(times: &[u64]) -> Vec<u8> {
    let mut file = Vec::new();
    pcapng::shb(&mut file, &pcapng::Section::default());
    pcapng::idb(&mut file, &pcapng::Interface { linktype: 1, ..pcapng::Interface::default() });
    for time_ns in times {
        let record = Record { time_ns: *time_ns, bytes: &[0; 60], len: 60, dropped: 5, ..Record::default() };
        let mut room = [0; 200];
        let written = pcapng::epb(&mut room, 0, &record);
        file.extend_from_slice(&room[..written]);
    }
    file
}

/// A plan of a few seconds.
const SERVICE: &str = r#"name = "custom"
title = "A second of one service"
tests = [{ performance = { seconds = 1.0 } }]

[[services]]
name = "data"
sizes = [512]
cir_mbps = 1.0
"#;

/// An interface of this machine that has interrupts; many virtual devices have none.
fn card() -> Option<String> {
    let mut names = Path::new("/sys/class/net")
        .read_dir()
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.find(|name| !Nic::read(Path::new("/"), name).irqs.is_empty())
}

/// Of the two that write reports also by what an invented report shows: a search takes minutes.
#[test]
fn pages_of_what_measures_have_the_fields_of_the_json() {
    let bench = lab_bench!(1 << 30);
    let dir = bench.dir.path();
    let own = || Command::new(QUAFF);
    let receiving = || bench.lab.rx.command(QUAFF).expect("a command in the lab");
    let shown_by = |lines: &[&str]| {
        let mut shown = BTreeSet::new();
        lines.iter().for_each(|line| sample(own(), line, dir, &mut shown));
        shown
    };

    let mut shown = BTreeSet::new();
    sample_as("list", own(), "lab list", dir, &mut shown);
    sample_as("probe", own(), "lab probe", dir, &mut shown);
    compare("lab", &shown);

    let of_cores = "the fields of docs/cores.md";
    match card() {
        _ if quaff_os::cpu::allowed().is_ok_and(|cores| cores.len() < 2) => {
            skip(of_cores, "there is one core only");
        }
        None => skip(of_cores, "no interface here has interrupts"),
        Some(card) => compare("cores", &shown_by(&["cores", &format!("cores -i {card}")])),
    }

    let gro = bench
        .lab
        .rx
        .command("ethtool")
        .expect("a command in the lab")
        .args(["-K", "rx0", "gro", "on"])
        .status();
    if gro.is_ok_and(|status| status.success()) {
        let mut shown = BTreeSet::new();
        let ignore = "--ignore clock-sync,clock-source,governor,idle";
        for line in
            ["-i rx0 --dir .", &format!("-i rx0 --fix {ignore} --state state"), "--undo --state state"]
        {
            sample(receiving(), &format!("doctor {line}"), dir, &mut shown);
        }
        compare("doctor", &shown);
    } else {
        skip("the fields of docs/doctor.md", "there is no ethtool to switch GRO on with");
    }

    let keep = |path: &str| dir.join(path);
    quaff_bench::report::write(&sample_report(), &keep("captures")).expect("written");
    quaff_bench::report::write(&sample_service_report(), &keep("services")).expect("written");
    let run = "bench capture --rivals quaff --sizes 64 --pps 20k --count 2k --runs 1 --dir . --out bench";
    compare("bench", &shown_by(&[run, "bench show captures"]));
    // A rival that is not installed leaves a promise open; its fields are the same.
    let promise = "bench promises --only tunnel-file --runs 1 --count 2000 --dir .";
    compare_section("bench", "JSON of the promises", &shown_by(&[promise]));
    quaff_bench::report::write(&sample_flow_report(), &keep("flows")).expect("written");
    compare_section("bench", "JSON of flow meters", &shown_by(&["bench show flows"]));
    std::fs::write(keep("plan.toml"), SERVICE).expect("written");
    compare("service", &shown_by(&["service --plan plan.toml --out service", "service show services"]));
}

/// The command lines of quaff in a document: indented lines, and text in backquotes.
fn lines_of(text: &str) -> Vec<String> {
    let indented = text.lines().filter_map(|line| line.strip_prefix("    "));
    let indented = indented.map(|line| line.strip_prefix("$ ").unwrap_or(line));
    let quoted = text.split('`').skip(1).step_by(2).filter(|words| !words.contains('\n'));
    let lines = indented.chain(quoted).map(|line| line.split("   #").next().unwrap_or_default());
    // One line may have several commands.
    let parts = lines.flat_map(|line| line.split(['|', ';', '&']).flat_map(|part| part.split(" -- ")));
    parts.map(|part| part.trim().to_owned()).filter(|part| part.starts_with("quaff ")).collect()
}

#[test]
fn commands_and_flags_in_documents_exist() {
    let commands = commands();
    let helps: BTreeMap<&str, String> =
        commands.iter().map(|command| (command.as_str(), quaff(&format!("{command} --help")))).collect();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut pages: Vec<String> = docs
        .read_dir()
        .expect("docs")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("docs/{name}"))
        .collect();
    for command in commands.iter().filter(|name| !name.is_empty() && !name.contains(' ')) {
        let page = format!("docs/{command}.md");
        let is_tool = ["man", "completions"].contains(&command.as_str());
        assert!(is_tool || pages.contains(&page), "there is no {page}");
    }
    // Of the changelog the page for users: what follows it is a record of its day.
    pages.extend(["README.md", "CHANGELOG.md"].map(str::to_owned));
    let mut faults = Vec::new();
    for page in &pages {
        for line in lines_of(document(page).split("### Every change").next().unwrap_or_default()) {
            let words: Vec<_> = line.split_whitespace().skip(1).collect();
            let two = words.iter().take(2).copied().collect::<Vec<_>>().join(" ");
            let one = words.first().copied().unwrap_or_default();
            let Some(help) = helps.get(two.as_str()).or(helps.get(one)) else {
                faults.extend(one.starts_with(char::is_alphabetic).then(|| format!("{page}: {line}")));
                continue;
            };
            let flags = words.iter().filter(|word| word.starts_with("--") && word.len() > 2);
            let flags =
                flags.map(|word| word.split('=').next().unwrap_or_default().trim_end_matches([',', '.']));
            faults.extend(
                flags.filter(|flag| !help.contains(*flag)).map(|flag| format!("{page}: {flag} in {line}")),
            );
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The groups of commands by a heading, `None` for a line of a command: the names below each.
fn grouped(
    text: &str,
    heading: impl Fn(&str) -> Option<String>,
    names: impl Fn(&str) -> Vec<String>,
) -> BTreeMap<String, BTreeSet<String>> {
    let mut groups = BTreeMap::<_, BTreeSet<_>>::new();
    let mut group = String::new();
    for line in text.lines() {
        match heading(line) {
            Some(title) => group = title,
            None => groups.entry(group.clone()).or_default().extend(names(line)),
        }
    }
    groups.remove("");
    groups
}

#[test]
fn the_readme_has_the_commands_of_the_help_in_the_same_groups() {
    let help = quaff("--help");
    let commands = help.split("\nOptions:").next().and_then(|text| Some(text.split_once("Usage:")?.1));
    let title = |line: &str| Some(line.strip_suffix(':')?.to_lowercase());
    let name = |line: &str| {
        let word = line.strip_prefix("  ").filter(|line| !line.starts_with(' '));
        Vec::from_iter(word.and_then(|line| line.split_whitespace().next()).map(str::to_owned))
    };
    let mut of_help = grouped(commands.expect("commands"), title, name);
    // They are for installers, and have no page.
    let machine = of_help.get_mut("this machine").expect("a group");
    assert!(machine.remove("man") && machine.remove("completions"));

    let readme = document("README.md");
    let table =
        readme.split("| record | |").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a table");
    let table = format!("| **record** | |{table}");
    let title = |line: &str| Some(line.strip_prefix("| **")?.split("**").next()?.to_owned());
    let names = |line: &str| {
        line.split("[`quaff ").skip(1).filter_map(|after| Some(after.split('`').next()?.to_owned())).collect()
    };
    assert_eq!(grouped(&table, title, names), of_help);
}
