//! One grammar of inputs: every command that reads captures takes them as arguments and with -r, several, of folders,
//! also of one that is being written, from stdin, and compressed; those with a filter take an expression after them.

use crate::support::packets::packets_in;
use crate::support::{PATIENCE, QUAFF, folder, names, run};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Packets of a file.
const COUNT: u64 = 60;

/// The commands that read captures: page, command line with `@` in the place of the inputs and `%` in that of a fresh
/// folder, and the place of the number of packets in the JSON.
const READING: [(&str, &str, &str); 12] = [
    ("capture", "capture @ -w %/out.pcapng --json", "/written"),
    ("split", "split @ --members 2 --dry-run --json", "/out"),
    ("merge", "merge @ -w %/out.pcapng --json", "/packets"),
    ("verify", "verify @ --json", "/received"),
    ("info", "info @ --json", "/total/packets"),
    ("flows", "flows @ --json", "/packets"),
    ("flows-top", "flows top @ --once --json", "/total/packets"),
    ("flows-report", "flows report @ --json", "/packets"),
    ("flows-list", "flows list @ --json", "/packets"),
    ("streams", "streams @ --script %/none.lua --out %/rows --json", "/packets"),
    ("streams-extract", "streams extract @ --dir %/streams --json", "/packets"),
    ("replay", "replay @ -w %/out.pcap --json", "/written"),
];

/// Those that have a filter for files, and take an expression after them.
const FILTERING: [&str; 8] =
    ["capture", "split", "flows", "flows-top", "flows-report", "flows-list", "streams", "streams-extract"];

/// A command that takes one file, and names of connections after it; and one whose rows are its JSON.
const OTHERS: [&str; 2] = ["streams-follow", "streams-list"];

/// The pages of commands with an argument or with -r that names files.
fn pages() -> BTreeSet<String> {
    let dir = folder();
    run(Command::new(QUAFF).arg("man").arg(dir.path()));
    let reads = |page: &String| {
        let text = fs::read_to_string(dir.path().join(page)).unwrap().replace("\\-", "-");
        let text = ["\\fB", "\\fI", "\\fR"].iter().fold(text, |text, mark| text.replace(mark, ""));
        let tops = text.split("\n.TP\n").skip(1).filter_map(|option| option.lines().next());
        tops.into_iter()
            .any(|top| top.contains("--read") || (top.starts_with(['<', '[']) && top.contains("FILE")))
    };
    let found = names(dir.path()).into_iter().filter(reads);
    found.map(|page| page.trim_end_matches(".1").trim_start_matches("quaff-").to_owned()).collect()
}

/// A command that reads captures is in no list by itself: a new one fails here until it is in [`READING`].
#[test]
fn every_command_that_reads_captures_is_in_the_table() {
    let known: BTreeSet<_> =
        READING.iter().map(|(page, ..)| *page).chain(OTHERS).map(str::to_owned).collect();
    let found = pages();
    let missing: Vec<_> = found.difference(&known).collect();
    assert!(found.len() > 10 && missing.is_empty(), "not in READING: {missing:?} of {found:?}");
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(gone.is_empty(), "in READING or OTHERS, and no page has it: {gone:?}");
}

/// A folder with captures of COUNT packets each, of different streams: plain, compressed, and two of them in a folder.
fn captures() -> tempfile::TempDir {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    for (stream, name) in ["a.pcapng", "b.pcap", "c.pcapng"].into_iter().enumerate() {
        let (count, stream) = (COUNT.to_string(), stream.to_string());
        run(Command::new(QUAFF)
            .args(["generate", "-q", "--count", &count, "--pps", "1k", "--stream", &stream, "-w"])
            .arg(at(name)));
    }
    for suffix in ["zst", "gz", "lz4"] {
        let written = at(&format!("a.pcapng.{suffix}"));
        run(Command::new(QUAFF).args(["capture", "-q", "-r"]).arg(at("a.pcapng")).arg("-w").arg(written));
    }
    fs::create_dir(at("ring")).unwrap();
    fs::copy(at("a.pcapng"), at("ring/q-000001.pcapng")).unwrap();
    fs::copy(at("c.pcapng"), at("ring/q-000002.pcapng")).unwrap();
    fs::write(at("ring/notes.txt"), "no capture").unwrap();
    fs::create_dir(at("empty")).unwrap();
    dir
}

/// Runs a line of the table in `dir`, with a folder of its own for what it writes. Each of `inputs` is a word.
fn quaff(dir: &Path, line: &str, inputs: &[&str], stdin: Stdio) -> Output {
    let written = folder();
    fs::write(written.path().join("none.lua"), "on(\"packet\", function(packet) end)\n").unwrap();
    let place = written.path().display().to_string();
    let words = line.split(' ').flat_map(|word| match word {
        "@" => inputs.iter().map(|input| (*input).to_owned()).collect(),
        word => vec![word.replace('%', &place)],
    });
    Command::new(QUAFF).args(words).current_dir(dir).stdin(stdin).output().expect("quaff runs")
}

/// The fault of a run that must have found `count` packets; `None` if nothing is.
fn wrong(done: &Output, place: &str, count: u64) -> Option<String> {
    let stderr = String::from_utf8_lossy(&done.stderr);
    let found = serde_json::from_slice::<Value>(&done.stdout).ok().and_then(|json| {
        // A single file is not in a list.
        json.pointer(place).or_else(|| json.pointer("/files/0/packets")).and_then(Value::as_u64)
    });
    let is_right = done.status.code() == Some(0) && found == Some(count);
    (!is_right).then(|| format!("{:?}, {found:?} packets: {stderr}", done.status.code()))
}

#[test]
fn each_command_takes_its_inputs_in_every_way() {
    let dir = captures();
    let ways: [(&[&str], u64); 12] = [
        (&["a.pcapng"], 1),
        (&["-r", "a.pcapng"], 1),
        (&["--read=a.pcapng"], 1),
        (&["a.pcapng", "b.pcap", "c.pcapng"], 3),
        // As a shell writes -r *.pcap*.
        (&["-r", "a.pcapng", "b.pcap", "c.pcapng"], 3),
        (&["a.pcapng", "-r", "b.pcap", "-r", "c.pcapng"], 3),
        (&["ring"], 2),
        (&["-r", "ring", "b.pcap"], 3),
        (&["-"], 1),
        (&["a.pcapng.zst"], 1),
        (&["-r", "a.pcapng.gz"], 1),
        (&["a.pcapng.lz4"], 1),
    ];
    let mut found = Vec::new();
    for (_, line, place) in READING {
        for (inputs, files) in ways {
            let stdin = match inputs {
                ["-"] => File::open(dir.path().join("a.pcapng")).unwrap().into(),
                _ => Stdio::null(),
            };
            let done = quaff(dir.path(), line, inputs, stdin);
            found.extend(wrong(&done, place, files * COUNT).map(|why| format!("{line} {inputs:?}: {why}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn conversations_are_listed_and_followed_in_every_way() {
    let dir = captures();
    let ways: [(&[&str], u64); 8] = [
        (&["a.pcapng"], 1),
        (&["-r", "a.pcapng"], 1),
        (&["ring"], 2),
        (&["-r", "ring"], 2),
        (&["-"], 1),
        (&["a.pcapng.zst"], 1),
        (&["-r", "a.pcapng.gz"], 1),
        (&["a.pcapng.lz4"], 1),
    ];
    let of = |line: &str, inputs: &[&str]| {
        let stdin = match inputs {
            ["-"] => File::open(dir.path().join("a.pcapng")).unwrap().into(),
            _ => Stdio::null(),
        };
        let done = quaff(dir.path(), line, inputs, stdin);
        assert_eq!(done.status.code(), Some(0), "{line} {inputs:?}: {done:?}");
        done
    };
    let expected = of("streams follow @ u1 --raw", &["a.pcapng"]).stdout;
    assert!(!expected.is_empty());
    for (inputs, files) in ways {
        let listed = of("streams list @ --json", inputs);
        let words = String::from_utf8_lossy(&listed.stderr).into_owned();
        assert!(words.starts_with(&format!("{} packets, ", files * COUNT)), "{inputs:?}: {words}");
        assert_eq!(of("streams follow @ u1 --raw", inputs).stdout, expected, "{inputs:?}");
    }
    let listed = of("streams list @ --json", &["a.pcapng", "-r", "ring", "not", "udp"]);
    assert!(listed.stdout.is_empty(), "{listed:?}");
}

/// A recorder that has written a file of `dir`, and holds another one open with what it has read.
struct Recorder {
    recorder: Child,
    stdin: Option<std::process::ChildStdin>,
}

impl Recorder {
    fn start(captures: &Path, dir: &Path) -> Self {
        let record = |input: &str| {
            let mut command = Command::new(QUAFF);
            command
                .args(["capture", "-q", "--flush", "20ms", "--name", "q", "--dir"])
                .arg(dir)
                .args(["-r", input]);
            command.current_dir(captures);
            command
        };
        fs::create_dir(dir).unwrap();
        run(&mut record("a.pcapng"));
        let mut recorder = record("-").stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut stdin = recorder.stdin.take().unwrap();
        stdin.write_all(&fs::read(captures.join("c.pcapng")).unwrap()).unwrap();
        let part = || names(dir).into_iter().find(|name| name.ends_with(".part"));
        let begun = Instant::now();
        let is_there = |name: String| packets_in(&dir.join(name).display().to_string()).count == COUNT;
        while !part().is_some_and(|name| dir.join(&name).metadata().unwrap().len() > 0 && is_there(name)) {
            assert!(begun.elapsed() < PATIENCE, "{:?}", names(dir));
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { recorder, stdin: Some(stdin) }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.recorder.wait();
    }
}

#[test]
fn a_folder_that_is_being_written_is_read_up_to_its_last_whole_packet() {
    let dir = captures();
    let ring = dir.path().join("live");
    let recorder = Recorder::start(dir.path(), &ring);
    let mut found = Vec::new();
    let mut read_all = |what: &str| {
        for (_, line, place) in READING {
            let done = quaff(dir.path(), line, &["live"], Stdio::null());
            found.extend(wrong(&done, place, 2 * COUNT).map(|why| format!("{what}: {line}: {why}")));
        }
    };
    read_all("while it is written");
    drop(recorder);
    // As a reader sees a write that is half done.
    let last = ring.join(names(&ring).pop().unwrap());
    let part = last.with_extension("pcapng.part");
    fs::rename(&last, &part).unwrap();
    let mut file = File::options().append(true).open(&part).unwrap();
    file.write_all(&[6, 0, 0, 0, 200, 0, 0, 0, 1]).unwrap();
    read_all("half of a packet");
    assert!(found.is_empty(), "{}", found.join("\n"));
    // A file that has its last name is damaged by the same.
    fs::rename(&part, &last).unwrap();
    let done = quaff(dir.path(), "info @ --json", &["live"], Stdio::null());
    assert_eq!(done.status.code(), Some(1));
}

#[test]
fn an_expression_follows_the_inputs() {
    let dir = captures();
    // Files of the names of keywords, of a number and of an address.
    for name in ["port", "udp", "9", "10.0.0.1"] {
        fs::copy(dir.path().join("b.pcap"), dir.path().join(name)).unwrap();
    }
    let words: [(&[&str], u64); 12] = [
        (&["-r", "a.pcapng", "udp"], 1),
        (&["a.pcapng", "udp"], 1),
        (&["a.pcapng", "ring", "not", "tcp", "and", "udp"], 3),
        (&["-r", "a.pcapng", "not", "udp"], 0),
        (&["-r", "ring", "(udp or tcp) and not port 1"], 2),
        (&["-r", "a.pcapng", "./udp"], 2),
        // The first word is a file that is there.
        (&["udp"], 1),
        (&["a.pcapng", "tcp[13]", "=", "2"], 0),
        (&["a.pcapng", "port", "1"], 0),
        // With these no expression begins where a file has the name.
        (&["a.pcapng", "9"], 2),
        (&["a.pcapng", "10.0.0.1", "not", "tcp"], 2),
        (&["a.pcapng", "1", "=", "1"], 1),
    ];
    let mut found = Vec::new();
    for (page, line, place) in READING.iter().filter(|(page, ..)| FILTERING.contains(page)) {
        for (inputs, files) in words {
            let done = quaff(dir.path(), line, inputs, Stdio::null());
            let why = wrong(&done, place, files * COUNT);
            found.extend(why.map(|why| format!("{page} {inputs:?}: {why}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_word_of_an_expression_that_names_an_input_is_pointed_out() {
    let dir = captures();
    for name in ["udp", "tcp"] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::copy(dir.path().join("b.pcap"), dir.path().join(name).join("b.pcap")).unwrap();
    }
    let said = |inputs: &[&str]| {
        let done = quaff(dir.path(), "capture @ -w %/out.pcapng", inputs, Stdio::null());
        assert_eq!(done.status.code(), Some(0), "{inputs:?}");
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    let text = said(&["udp", "tcp"]);
    assert!(text.contains("'tcp' begins the expression; ./tcp names the folder"), "{text}");
    for inputs in [&["udp", "./tcp"][..], &["-q", "udp", "tcp"], &["a.pcapng", "not", "tcp"]] {
        let text = said(inputs);
        assert!(!text.contains("names the folder"), "{text}");
    }
}

#[test]
fn an_option_that_may_be_alone_takes_no_word_of_an_expression() {
    let dir = captures();
    for (line, count) in [("flows @ --json udp", COUNT), ("flows @ --json tcp", 0)] {
        let done = quaff(dir.path(), line, &["a.pcapng"], Stdio::null());
        let why = wrong(&done, "/packets", count);
        assert!(why.is_none(), "{line}: {why:?}");
    }
}

#[test]
fn help_and_unknown_options_are_the_parsers() {
    let said = |line: &str| {
        let done = Command::new(QUAFF).args(line.split(' ')).output().expect("quaff runs");
        let text = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        (done.status.code(), text)
    };
    for line in ["flows help", "streams help extract", "capture --help foo", "capture -r a.pcap -h"] {
        let (code, text) = said(line);
        assert!(code == Some(0) && text.contains("Usage: quaff"), "{line}: {text}");
    }
    for (line, words) in [
        ("capture -r a.pcap --wirte out.pcap", "--wirte"),
        ("capture -r a.pcap -z gzip -w o", "--exec"),
        ("info a.pcap --jsn", "--jsn"),
    ] {
        let (code, text) = said(line);
        assert!(code == Some(2) && text.contains(words), "{line}: {text}");
    }
}

#[test]
fn a_line_without_an_input_is_refused_with_the_words_to_type() {
    let dir = captures();
    let of_all: [(&[&str], &[&str]); 4] = [
        (&[], &["no input is named", "FILE", "-r FILE"]),
        (&["none.pcap"], &["none.pcap", "No such file or directory"]),
        (&["-", "-r", "-"], &["stdin", "2 times"]),
        (&["empty"], &["no capture files (pcap, pcapng)", "empty"]),
    ];
    let of_filtering: [(&[&str], &[&str]); 5] = [
        (&["tcp", "port", "80"], &["no input is named before the expression 'tcp port 80'", "-r FILE"]),
        (&["a.pcapng", "nine.pcap"], &["nine.pcap", "no word that begins an expression", "host", "-f"]),
        (&["a.pcapng", "-f", "udp", "tcp"], &["given twice", "-f", "'tcp'"]),
        (&["a.pcapng", "tcp", "prot", "80"], &["prot", "syntax error"]),
        (&["-r", "a.pcapng", "port", "99999"], &["99999"]),
    ];
    let mut found = Vec::new();
    for (page, line, _) in READING {
        let more: &[(&[&str], &[&str])] = if FILTERING.contains(&page) { &of_filtering } else { &[] };
        for (inputs, words) in of_all.iter().chain(more) {
            let done = quaff(dir.path(), line, inputs, Stdio::null());
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            // libpcap shows the place of a syntax error.
            let is_sentence =
                done.status.code() == Some(2) && (said.lines().count() == 1 || inputs.len() > 2);
            if !is_sentence || !words.iter().all(|word| said.contains(word)) {
                found.push(format!("{line} {inputs:?}: {:?} {said}", done.status.code()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn with_an_interface_all_words_are_the_expression() {
    let dir = captures();
    fs::copy(dir.path().join("b.pcap"), dir.path().join("udp")).unwrap();
    let said = |line: &str| {
        let done =
            Command::new(QUAFF).args(line.split(' ')).current_dir(dir.path()).output().expect("quaff runs");
        (done.status.code(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
    };
    let (code, text) = said("capture -i lo -w x --dump-filter udp port 53");
    assert!(code == Some(0) && text.contains("#0x35"), "{text}");
    let (code, text) = said("capture -i lo -w x --dump-filter udp prot 53");
    assert!(code == Some(2) && text.contains("prot"), "{text}");
    let (code, text) = said("capture -i lo -w x a.pcapng");
    assert!(code == Some(2) && text.contains("a.pcapng is a capture, and -i reads an interface"), "{text}");
    let (code, text) = said("capture -i lo -w x nine.pcap");
    assert!(code == Some(2) && text.contains("nine.pcap is no word that begins an expression"), "{text}");
    let (code, text) = said("capture -i lo -r a.pcapng -w x");
    assert!(code == Some(2) && text.contains("cannot be used with"), "{text}");
    // What only an interface has, and what only files have.
    let (code, text) = said("capture a.pcapng --incoming -w x");
    assert!(code == Some(2) && text.contains("--incoming"), "{text}");
    let (code, text) = said("capture a.pcapng --include 1-5 -w x --json");
    assert!(code == Some(0) && text.contains("\"written\":5"), "{text}");
}

#[test]
fn a_command_that_lacks_its_task_names_them() {
    let said = |line: &str| {
        let done = Command::new(QUAFF).args(line.split(' ')).output().expect("quaff runs");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (code, text) = said("streams");
    assert!(
        code == Some(2) && ["--script", "extract", "follow"].iter().all(|word| text.contains(word)),
        "{text}"
    );
    let (code, text) = said("flows rport x");
    assert!(code == Some(2) && text.contains("no command of this name (top, report, list)"), "{text}");
    let (code, text) = said("streams --script /dev/null --follow");
    assert!(code == Some(2) && text.contains("no input is named"), "{text}");
}

#[test]
fn a_file_that_grows_is_followed_by_name_and_not_by_its_folder() {
    let dir = captures();
    let done = quaff(dir.path(), "capture @ --follow -w %/out", &["ring"], Stdio::null());
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(2) && said.contains("name the file that grows"), "{said}");
}

/// Packets are printed where no output is named, and letters of tcpdump are its own.
#[test]
fn without_an_output_packets_are_printed_as_by_tcpdump() {
    let Some(mut tcpdump) = crate::support::tool(quaff_testkit::test_name!(), "tcpdump") else { return };
    let dir = captures();
    let shown = |command: &mut Command| {
        let done = command.env("TZ", "UTC").current_dir(dir.path()).output().expect("it runs");
        assert!(done.status.success(), "{done:?}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    for letters in ["-n", "-nnetttt", "-vvx", "-XXA", "-ttt -S"] {
        let letters: Vec<_> = letters.split(' ').collect();
        let expected = shown(tcpdump.args(["-n", "-r", "b.pcap"]).args(&letters).arg("udp"));
        let found = shown(Command::new(QUAFF).args(["capture", "-q", "b.pcap"]).args(&letters).arg("udp"));
        assert!(found == expected && found.lines().count() >= COUNT as usize, "{letters:?}: {found}");
        tcpdump = Command::new(tcpdump.get_program());
    }
}

/// Files of `tcpdump -w FILE -C 1 -W 2` and of dumpcap's `-b` are a rotation.
#[test]
fn a_rotation_is_asked_for_as_by_tcpdump_and_dumpcap() {
    let dir = captures();
    run(Command::new(QUAFF)
        .args(["generate", "-q", "--count", "8000", "--size", "1000", "-w"])
        .arg(dir.path().join("large.pcap")));
    for (name, words) in [("t", "-C 3 -W 2"), ("d", "-b filesize:3000 -b files:2")] {
        let place = folder();
        let done = Command::new(QUAFF)
            .args(["capture", "-q", "large.pcap", "-w"])
            .arg(place.path().join(format!("{name}.pcap")))
            .args(words.split(' '))
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        let found = names(place.path());
        assert_eq!(found, [format!("{name}-000001.pcap"), format!("{name}-000002.pcap")], "{words}");
    }
    // The time of a file begins with the first packet, and not at midnight.
    run(Command::new(QUAFF)
        .args(["generate", "-q", "--count", "8000", "--pps", "1k", "-w"])
        .arg(dir.path().join("long.pcap")));
    for (name, words, packets) in [("t", "-G 3 -W 1", 3000), ("d", "-b packets:1500 -a files:2", 3000)] {
        let place = folder();
        let done = Command::new(QUAFF)
            .args(["capture", "long.pcap", "--json", "-w"])
            .arg(place.path().join(format!("{name}.pcap.zst")))
            .args(words.split(' '))
            .current_dir(dir.path())
            .output()
            .unwrap();
        let json: Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!((done.status.code(), &json["written"]), (Some(0), &packets.into()), "{words}: {done:?}");
        let files = names(place.path());
        assert!(files.iter().all(|file| file.ends_with(".pcap.zst")), "{words}: {files:?}");
        let info = run(Command::new(QUAFF).args(["info", "--json"]).arg(place.path()));
        let info: Value = serde_json::from_str(&info).unwrap();
        let found = info.pointer("/total/packets").or_else(|| info.pointer("/files/0/packets"));
        assert_eq!(found, Some(&packets.into()), "{words}: {info}");
    }
    let said = |words: &str| {
        let done = Command::new(QUAFF).args(["capture", "-i", "lo"]).args(words.split(' ')).output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    for (words, instead) in
        [("-B 4096", "--buffer"), ("-Q in", "--incoming"), ("-z gzip", "--exec"), ("-Z daemon", "--user")]
    {
        let (code, text) = said(words);
        assert!(code == Some(2) && text.contains(instead), "{words}: {text}");
    }
}
