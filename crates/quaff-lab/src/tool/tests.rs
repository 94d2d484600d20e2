//! Real output of the tools, placeholders in arguments, and errors in descriptions.

use super::resolve::{VERSION_MAX, version_in};
use super::*;

fn of(name: &str) -> Tool {
    let all = shipped(Path::new("/opt/quaff"));
    all.into_iter().find(|tool| tool.name == name).expect("it is shipped")
}

fn drops(name: &str, output: &str) -> Option<u64> {
    of(name).drops.and_then(|drops| drops.read(output))
}

fn captured(name: &str, output: &str) -> Option<u64> {
    of(name).captured.and_then(|captured| captured.read(output))
}

fn line(name: &str, setting: &Setting) -> String {
    let tool = of(name);
    let places = Places { interface: "rx0", other: "b0", dir: Path::new("/data/7"), core: 1, setting };
    let (program, args) = tool.command_line(&tool.program, &places);
    let words: Vec<_> = [program].into_iter().chain(args).map(|word| word.into_string()).collect();
    words.into_iter().collect::<Result<Vec<_>, _>>().expect("UTF-8").join(" ")
}

fn buffer(mib: u64) -> Setting {
    Setting { buffer_mib: Some(mib), ..Setting::default() }
}

#[test]
fn every_shipped_description_is_read() {
    let names: Vec<_> = shipped(Path::new("/opt/quaff")).into_iter().map(|tool| tool.name).collect();
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tools")).expect("they are here");
    assert_eq!(names.len(), files.count(), "{names:?}");
    assert!(names.iter().any(|name| name == "tcpdump | quaff pipe"));
}

#[test]
fn places_are_filled() {
    let all = Setting { snaplen: Some(76), filter: Filter::RejectAll, ..buffer(256) };
    assert_eq!(
        line("quaff", &all),
        "/opt/quaff capture -i rx0 --json -w /data/7/capture --ring 192M --buffer 64M -s 76 -f len > 1000000"
    );
    assert_eq!(line("quaff", &Setting::default()), "/opt/quaff capture -i rx0 --json -w /data/7/capture");
    assert_eq!(
        line("tcpdump", &all),
        "tcpdump -i rx0 -s0 -n -Z root -w /data/7/capture -B 262144 -s 76 len > 1000000"
    );
    assert_eq!(line("dumpcap", &buffer(256)), "dumpcap -i rx0 -q -w /data/7/capture -B 256");
    assert_eq!(
        line("netsniff-ng", &buffer(256)),
        "netsniff-ng --in rx0 -s --out /data/7/capture --ring-size 256MiB"
    );
    assert!(line("stenographer", &buffer(256)).ends_with(" --dir=/data/7 --blocks=256 --aiops=128"));
    assert_eq!(line("gulp", &buffer(256)), "gulp -i rx0 -o /data/7 -n capture -r 256");
    let load = Setting { copies: 25, compression: 3, ..Setting::default() };
    assert_eq!(
        line("recvfrom", &load),
        "/opt/quaff lab recvfrom -i rx0 -w /data/7/capture --copies 25 --compress 3"
    );
    assert!(
        line("tcpdump | quaff pipe", &buffer(1)).contains("exec '/opt/quaff' pipe -q > '/data/7/capture'")
    );
}

#[test]
fn a_tool_that_forwards_has_two_ports_and_shares_the_buffer_among_two_rings() {
    assert_eq!(
        line(OWN_TAP, &buffer(256)),
        "/opt/quaff tap rx0 b0 --json --dir /data/7 --ring 64M --buffer 128M"
    );
    let in_line = shipped(Path::new("/opt/quaff")).into_iter().filter(Tool::is_in_line);
    assert_eq!(in_line.map(|tool| tool.name).collect::<Vec<_>>(), [OWN_TAP]);
}

#[test]
fn each_output_has_its_own_words() {
    let to = |output| Setting { output, ..Setting::default() };
    assert_eq!(line("tcpdump", &to(Output::Screen)), "tcpdump -i rx0 -s0 -n -Z root -l");
    assert_eq!(line("tcpdump", &to(Output::Pipe)), "tcpdump -i rx0 -s0 -n -Z root -w -");
    assert_eq!(line("dumpcap", &to(Output::Null)), "dumpcap -i rx0 -q -w /dev/null");
    assert_eq!(line("tshark-screen", &to(Output::Disk)), "tshark -i rx0 -n -l");
    assert_eq!(of("tshark-screen").output_under(&to(Output::Disk)), Output::Screen);
}

#[test]
fn no_place_is_left_open() {
    let asked = [Output::Disk, Output::Null, Output::Pipe, Output::Screen].map(|output| Setting {
        snaplen: Some(64),
        filter: Filter::AcceptAll,
        copies: 1,
        compression: 1,
        output,
        ..buffer(64)
    });
    for tool in shipped(Path::new("/opt/quaff")) {
        for setting in &asked {
            let line = line(&tool.name, setting);
            assert!(!line.contains(['{', '}']), "{line}");
        }
    }
}

#[test]
fn a_value_with_braces_is_not_a_placeholder() {
    let tool = of("tcpdump");
    let setting = &Setting::default();
    let places = Places { interface: "{file}", other: "", dir: Path::new("/d"), core: 0, setting };
    let (_, args) = tool.command_line(Path::new("tcpdump"), &places);
    assert_eq!(args[1], "{file}");
}

#[test]
fn a_missing_ability_is_reported_as_a_sentence() {
    let cannot = |name: &str, setting| of(name).can(&setting).expect_err(name);
    let to = |output| Setting { output, ..Setting::default() };
    let filter = Setting { filter: Filter::AcceptAll, ..Setting::default() };
    assert_eq!(cannot("stenographer", filter.clone()), "stenographer does not accept a tcpdump filter");
    assert_eq!(cannot("stenographer", to(Output::Pipe)), "stenographer does not write packets to a pipe");
    assert_eq!(
        cannot("dumpcap", Setting { copies: 1, ..Setting::default() }),
        "dumpcap makes no extra copies of packets"
    );
    assert!(cannot("dumpcap", Setting { compression: 1, ..Setting::default() }).contains("compress"));
    assert!(cannot("netsniff-ng", Setting { snaplen: Some(76), ..Setting::default() }).contains("snaplen"));
    assert!(cannot("dumpcap", to(Output::Screen)).contains("prints no packets"));
    assert!(cannot("netsniff-ng", to(Output::Null)).contains("/dev/null"));
    assert!(cannot("tshark-screen", to(Output::Null)).contains("/dev/null"));
    assert_eq!(cannot("quaff", buffer(31)), "quaff does not accept a buffer of less than 32 MiB");
    assert_eq!(of("quaff").can(&buffer(32)), Ok(()));
    let mute = Tool { captured: None, ..of("tcpdump") };
    assert!(mute.can(&to(Output::Null)).expect_err("unsupported").contains("how many"));
    for name in ["quaff", "tcpdump", "dumpcap", "tshark", "recvfrom"] {
        assert_eq!(of(name).can(&Setting { snaplen: Some(76), ..filter.clone() }), Ok(()), "{name}");
    }
}

#[test]
fn a_tool_without_an_option_for_its_buffer_keeps_its_own() {
    let asked = Setting { snaplen: Some(76), ..buffer(16) };
    assert_eq!(of("tcpdump").setting_of(&asked), asked);
    assert_eq!(of("quaff").setting_of(&asked), asked, "too small is refused, not replaced");
    let mute = Tool { options: Options::default(), ..of("tcpdump") };
    assert_eq!(mute.setting_of(&asked), Setting { buffer_mib: None, ..asked });
}

#[test]
fn buffer_options_are_written_as_a_user_would() {
    assert_eq!(of("quaff").buffer_words(256), "--ring 192M --buffer 64M");
    assert_eq!(of("tcpdump").buffer_words(256), "-B 262144");
}

/// A valid description for the tests of mistakes.
const MINE: &str = r#"name = "mine"
program = "mine"
args = ["-i", "{interface}"]
ready = "socket"
[output]
disk = ["-w", "{file}"]
"#;

#[test]
fn a_mistake_is_reported_with_file_line_and_key() {
    let parse = |text: &str| file::parse("mine.toml", text, Path::new("q"));
    assert!(parse(MINE).is_ok());
    let wrong = |from: &str, to: &str| {
        let text = MINE.replacen(from, to, 1);
        assert_ne!(text, MINE);
        parse(&text).expect_err(to).to_string()
    };
    for (from, to, message) in [
        ("ready = \"socket\"", "ready = 7", "mine.toml, line 4, key `ready`: "),
        ("ready = \"socket\"", "redy = \"socket\"", "mine.toml, line 4, key `redy`: "),
        ("ready = \"socket\"\n", "", "missing field `ready`"),
        ("ready = \"socket\"", "ready = { sings = \"x\" }", "line 4, key `ready`: unknown variant `sings`"),
        ("disk = [", "disc = [", "mine.toml, line 6, key `disc`: unknown field `disc`"),
        ("{file}", "{flie}", "mine.toml, line 6, key `disk`: {flie} is unknown here; known are {interface}"),
        ("\"{file}\"", "\"x\"", "line 6, key `disk`: {file} or {dir} is missing"),
        ("\"{interface}\"", "\"x\"", "line 3, key `args`: {interface} is missing"),
        ("name = \"mine\"", "name = \"\"", "line 1, key `name`: a capturer needs a name"),
        ("disk = [\"-w\", \"{file}\"]", "", "it has no output"),
        ("ready", "dirs = [\"a\", \"../x\"]\nready", "line 4, key `dirs`: \"../x\" is not inside {dir}"),
        ("ready", "dirs = [\"/etc/x\"]\nready", "line 4, key `dirs`: \"/etc/x\" is not inside {dir}"),
        ("ready", "settle_ms = 60001\nready", "line 4, key `settle_ms`: at most 60000"),
        ("ready", "patience_s = 601\nready", "line 4, key `patience_s`: at most 600"),
        (
            "name = \"mine\"",
            "name = \"the generator\"",
            "line 1, key `name`: the name \"the generator\" is reserved",
        ),
        ("name = \"mine\"", "name = \"mine", "mine.toml, line 1, key `name`: "),
        ("ready", "drops = { before = \"\" }\nready", "line 4, key `drops`: a counter needs text"),
    ] {
        let error = wrong(from, to);
        assert!(error.contains(message), "{to}: {error}");
        assert!(error.starts_with("mine.toml, line "), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let path = Path::new("/no/such/tool.toml");
    assert!(read(path, path).expect_err("absent").to_string().contains("/no/such/tool.toml"));
}

#[test]
fn a_user_s_own_takes_the_place_of_one_that_we_ship() {
    let mut all = shipped(Path::new("/opt/quaff"));
    let own = Tool { program: "sh".into(), version: Vec::new(), ..of("tcpdump") };
    all.extend([own.clone(), Tool { name: "gone".into(), program: "no-such-capturer".into(), ..own }]);
    let resolved = resolve(&["gone", "tcpdump"], &all).expect("both are known");
    assert!(resolved.present[0].program.ends_with("sh"));
    assert_eq!((resolved.present.len(), resolved.absent[0].name.as_str()), (1, "gone"));
    let error = resolve(&["tcpdmp"], &all).expect_err("an unknown name").to_string();
    assert!(error.starts_with("there is no capturer tcpdmp; there is quaff, tcpdump, "), "{error}");
    assert!(!error.contains("tcpdump | quaff pipe"), "{error}");
}

#[test]
fn versions_are_found_in_the_output() {
    for (output, version) in [
        ("quaff 0.1.0\n", Some("0.1.0")),
        (
            "tcpdump version 4.99.3\nlibpcap version 1.10.3 (with TPACKET_V3)\nOpenSSL 3.0.19 27 Jan 2026\n",
            Some("4.99.3"),
        ),
        ("Dumpcap (Wireshark) 4.0.17 (Git v4.0.17 packaged as 4.0.17-0+deb12u3).\n", Some("4.0.17")),
        ("\nnetsniff-ng 0.6.8 (Flutternozzle), Git id: (none)\nthe packet sniffing beast\n", Some("0.6.8")),
        ("1.0.1-2+b8", Some("1.0.1-2+b8")),
        ("", None),
        ("unknown option 7", None),
    ] {
        assert_eq!(version_in(output), version, "{output}");
    }
}

#[test]
fn one_that_does_not_say_its_version_is_not_waited_for() {
    let asks = |words: &[&str]| {
        let version = words.iter().map(|word| (*word).to_owned()).collect();
        Tool { version, ..of("tcpdump") }.version(Path::new("sh"))
    };
    assert_eq!(asks(&["{program}", "-c", "echo mine 7.1 >&2"]).as_deref(), Some("7.1"));
    let begun = std::time::Instant::now();
    assert_eq!(asks(&["{program}", "-c", "echo 7.1; sleep 60 & sleep 61"]), None);
    assert!(begun.elapsed() < 4 * VERSION_MAX, "{:?}", begun.elapsed());
    assert_eq!(asks(&["/no/such/program"]), None);
    assert_eq!(asks(&[]), None);
}

#[test]
fn tcpdump_counts() {
    let output = "tcpdump: listening on rx0, link-type EN10MB (Ethernet), snapshot length 262144 bytes
990535 packets captured
1000000 packets received by filter
9465 packets dropped by kernel
";
    assert_eq!(drops("tcpdump", output), Some(9465));
}

#[test]
fn dumpcap_counts() {
    let output = "Capturing on 'rx0'
File: f.pcap
Packets captured: 2078718
Packets received/dropped on interface 'rx0': 2078718/921282 (pcap:921282/dumpcap:0/flushed:0/ps_ifdrop:0) (69.3%)
";
    assert_eq!(drops("dumpcap", output), Some(921_282));
}

#[test]
fn netsniff_counts() {
    let output = "Cannot set system socket memory in /proc/sys/net/core/rmem_max: Permission denied
ChildProcess! Hang up with ^C!

      813949  packets incoming (186051 unread on exit)
      813949  packets passed filter
      186051  packets failed filter (out of space)
     18.6051% packet droprate
           6  sec, 418292 usec in total
";
    assert_eq!(drops("netsniff-ng", output), Some(186_051));
}

#[test]
fn stenographer_counts() {
    let output = "\
2026-11-20T10:06:06.842525Z T:e281c6 [stenotype.cc:537] Thread 0 stats: MB=300 secs=4.223 MBps=71.0395 packets=198300 blocks=300 polls=3 drops=0 drop%=0
2026-11-20T10:06:07.218519Z T:e281c6 [stenotype.cc:537] Thread 0 stats: MB=400 secs=4.599 MBps=86.9754 packets=264400 blocks=400 polls=3 drops=14440 drop%=5.1786
";
    assert_eq!(drops("stenographer", output), Some(14_440));
}

#[test]
fn tshark_counts() {
    let output = "Capturing on 'rx0'\ntshark: \n2712 packets captured\n";
    assert_eq!((drops("tshark", output), captured("tshark", output)), (Some(0), Some(2712)));
    let output = "Capturing on 'rx0'\ntshark: \n2712 packets captured\n1288 packets dropped from rx0\n";
    assert_eq!(drops("tshark-screen", output), Some(1288));
}

#[test]
fn counts_of_captured_frames_are_read_too() {
    assert_eq!(captured("tcpdump", "990535 packets captured\n"), Some(990_535));
    assert_eq!(captured("dumpcap", "Packets captured: 2078718\n"), Some(2_078_718));
    assert_eq!(captured("quaff", r#"{"written":7,"lost":1}"#), Some(7));
    assert_eq!(captured("recvfrom", r#"{"captured":7,"dropped":1}"#), Some(7));
}

#[test]
fn gulp_counts() {
    let output = "\n2841520 packets captured\n2841520 packets received by filter
158480 packets dropped by kernel
ring buffer use: 100.0% of 256 MB
";
    assert_eq!(drops("gulp", output), Some(158_480));
}

#[test]
fn our_own_losses_are_summed() {
    let output = r#"{"offered":1000,"received":900,"nic_dropped":1,"kernel_dropped":20,"lost":300,"lost_in_buffer":300}"#;
    assert_eq!(drops("quaff", output), Some(321));
    assert_eq!(drops("quaff", r#"{"nic_dropped":1,"lost":300}"#), None);
}

#[test]
fn words_without_the_number_give_none() {
    let before = Counter::Before("packets dropped by kernel".into());
    for output in
        ["", "packets dropped by kernel", "é packets dropped by kernel", "many packets dropped by kernel"]
    {
        assert_eq!(before.read(output), None, "{output}");
    }
    assert_eq!(Counter::After("drops=".into()).read("drops=x"), None);
    assert_eq!(Counter::After("drops=".into()).read("drops="), None);
}

#[test]
fn a_tool_that_is_not_installed_is_not_found() {
    let absent = Tool { program: "no-such-capturer-here".into(), ..of("tcpdump") };
    assert_eq!(absent.find(), None);
    assert_eq!(Tool { program: "/no/such/capturer".into(), ..absent }.find(), None);
    assert!(Tool { program: "sh".into(), ..of("tcpdump") }.find().is_some());
}
