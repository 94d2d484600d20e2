//! `quaff gulp`: the usage examples of Gulp's paper, word for word where it matters, with the real
//! tcpdump, ngrep and tshark at the other end of the pipe; and the options that only a run can show.
//!
//! In the examples `eth1` is `rx0`, and CPU 2 is the last one that is here. Where the paper has ntop
//! or Wireshark, tshark reads the same pipe.

use crate::support::{Bench, PATIENCE, QUAFF, below, finish, names, run, tool, verify};
use quaff_lab::ChildProcess;
use quaff_os::Signal;
use quaff_os::process::send;
use quaff_testkit::{copy_program, test_name, write_program};
use std::process::Command;
use std::time::{Duration, Instant};

/// Frames of each feed, and how they are sent: slow enough for whatever reads the pipe.
const COUNT: u64 = 5000;
const PLAIN: &str = "--size 300 --count 5000 --pps 20000";
const MIRRORED: &str = "--size 300 --count 5000 --pps 20000 --erspan 5";

/// A lab in whose folder `gulp` is a command. `None` after a skip.
fn prepare(test: &str, tools: &[&str]) -> Option<Bench> {
    let bench = Bench::new(test, 1 << 28)?;
    for name in tools {
        tool(test, name)?;
    }
    let gulp = bench.path("gulp");
    write_program(&gulp, format!("#!/bin/sh\nexec '{QUAFF}' gulp \"$@\"\n"));
    Some(bench)
}

/// A line of the shell, run in the bench's folder on the receiving side.
fn shell(bench: &Bench, line: &str) -> ChildProcess {
    let last = std::thread::available_parallelism().map_or(1, usize::from) - 1;
    let line = line.replace("eth1", "rx0").replace("taskset -c 2", &format!("taskset -c {last}"));
    let path = format!("{}:{}", bench.dir.path().display(), std::env::var("PATH").expect("a PATH"));
    let mut command = bench.lab.rx.command("sh").expect("a command in the lab");
    command.args(["-c", &line]).env("PATH", path).env_remove("CAP_IFACE").current_dir(bench.dir.path());
    ChildProcess::start(command).expect("sh runs")
}

/// The process of that name in a line; a shell becomes the last command of its line.
fn process(running: &ChildProcess, name: &str) -> u32 {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let own = std::fs::read_to_string(format!("/proc/{}/comm", running.pid())).unwrap_or_default();
        let own = (running.pid(), own.trim().to_owned());
        if let Some((pid, _)) = below(running.pid()).into_iter().chain([own]).find(|(_, it)| it == name) {
            return pid;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no {name} in {:?}", below(running.pid()));
}

/// Runs an example: waits for the capture, sends the feed, and ends the capture alone, as a user does
/// who wants what is in the pipe. Returns its stdout.
fn example(bench: &Bench, line: &str, feed: &str) -> String {
    let mut running = shell(bench, line);
    assert!(running.hears("capturing", PATIENCE), "{line}: {}", running.heard);
    // Whatever reads the pipe has to have opened it, not to have read it.
    bench.generate(feed);
    send(process(&running, "quaff"), Signal::SIGINT).expect("it runs");
    ended(running, line)
}

fn ended(running: ChildProcess, line: &str) -> String {
    let done = running.finish(PATIENCE).unwrap_or_else(|error| panic!("{line}: {error}"));
    assert!(done.status.success(), "{line}: {:?} {}", done.status, done.stderr);
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// The frames of the feed, each as it was sent, and nothing else, in these files.
#[track_caller]
fn assert_complete(bench: &Bench, files: &[&str]) {
    let paths: Vec<_> = files.iter().map(|file| bench.path(file)).collect();
    let found = verify(&paths.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(
        (&found["received"], &found["complete"], &found["foreign"]),
        (&COUNT.into(), &true.into(), &0.into()),
        "{found}"
    );
}

#[test]
fn example_1_tcpdump_loses_less_before_a_file() {
    let Some(bench) = prepare(test_name!(), &["tcpdump"]) else { return };
    for line in [
        "tcpdump -i eth1 -w - udp | gulp -c > pcapfile",
        "taskset -c 2 tcpdump -i eth1 -w - udp | gulp -c > pcapfile",
    ] {
        let mut running = shell(&bench, line);
        assert!(running.hears("listening on", PATIENCE), "{}", running.heard);
        // It prints this before it listens.
        std::thread::sleep(Duration::from_millis(500));
        bench.generate(PLAIN);
        // What the kernel still holds for it is lost when tcpdump is interrupted.
        std::thread::sleep(Duration::from_secs(2));
        send(process(&running, "tcpdump"), Signal::SIGINT).expect("it runs");
        ended(running, line);
        assert_complete(&bench, &["pcapfile"]);
    }
}

#[test]
fn a_copied_stream_is_cut_into_gulps_files() {
    let Some(bench) = prepare(test_name!(), &[]) else { return };
    std::fs::create_dir(bench.path("pcapdir")).unwrap();
    example(&bench, "gulp -i eth1 > pcapfile", "--size 1000 --count 5000 --pps 20000");
    let line = "gulp -c -r 1 -C 2 -o pcapdir < pcapfile";
    ended(shell(&bench, line), line);
    // Gulp cut its copies anywhere; here each is a capture of its own.
    assert_eq!(names(&bench.dir.path().join("pcapdir")), ["pcap000", "pcap001", "pcap002"]);
    assert_complete(&bench, &["pcapdir/pcap000", "pcapdir/pcap001", "pcapdir/pcap002"]);
    // And -W holds for copies as it does for captures.
    std::fs::create_dir(bench.path("few")).unwrap();
    let line = "gulp -c -r 1 -C 2 -W 2 -o few < pcapfile";
    ended(shell(&bench, line), line);
    assert_eq!(names(&bench.dir.path().join("few")).len(), 2);
}

#[test]
fn example_2_gulp_captures_itself() {
    let Some(bench) = prepare(test_name!(), &["tcpdump"]) else { return };
    example(&bench, r#"gulp -i eth1 -f "udp and len > 100" > pcapfile"#, PLAIN);
    assert_complete(&bench, &["pcapfile"]);
    // As Gulp's: pcap with µs, in this machine's byte order.
    let bytes = std::fs::read(bench.path("pcapfile")).unwrap();
    assert_eq!(bytes[..4], 0xa1b2_c3d4u32.to_ne_bytes());
    let read = run(Command::new("tcpdump").args(["-nn", "-r", &bench.path("pcapfile")]));
    assert_eq!(read.lines().count() as u64, COUNT);
}

#[test]
fn a_file_on_stdout_is_written_past_the_page_cache_and_left_as_it_was_found() {
    let Some(bench) = prepare(test_name!(), &[]) else { return };
    // What is written behind the capture stands behind it; a file that is appended to stays one.
    for (line, begin, is_direct) in [
        ("(gulp -i eth1 2> words; echo end) > pcapfile", "", true),
        ("echo begin > pcapfile; (gulp -i eth1 2> words; echo end) >> pcapfile", "begin\n", false),
    ] {
        let running = shell(&bench, line);
        let words = || std::fs::read_to_string(bench.path("words")).unwrap_or_default();
        let begun = Instant::now();
        while !words().contains("capturing") && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        bench.generate(PLAIN);
        send(process(&running, "quaff"), Signal::SIGINT).expect("it runs");
        ended(running, line);
        let bytes = std::fs::read(bench.path("pcapfile")).unwrap();
        let pcap = bytes.strip_prefix(begin.as_bytes()).unwrap().strip_suffix(b"end\n").unwrap();
        std::fs::write(bench.path("only"), pcap).unwrap();
        assert_complete(&bench, &["only"]);
        // As far as the disk here takes direct writes.
        assert!(!words().contains("O_DIRECT") || is_direct, "{}", words());
        std::fs::remove_file(bench.path("words")).unwrap();
    }
}

#[test]
fn example_3_an_erspan_feed_is_unpacked_and_saved() {
    let Some(bench) = prepare(test_name!(), &[]) else { return };
    example(&bench, "gulp -i eth1 -d > pcapfile", MIRRORED);
    assert_complete(&bench, &["pcapfile"]);
}

#[test]
fn example_4_and_then_filtered_by_tcpdump() {
    let Some(bench) = prepare(test_name!(), &["tcpdump"]) else { return };
    for line in [
        "gulp -i eth1 -d | tcpdump -r - -s0 -w pcapfile udp src port 1",
        "gulp -i eth1 -d | taskset -c 2 tcpdump -r - -s0 -w pcapfile udp src port 1",
    ] {
        example(&bench, line, MIRRORED);
        assert_complete(&bench, &["pcapfile"]);
    }
}

#[test]
fn example_5_everything_to_disk_and_unpacked_offline() {
    let Some(bench) = prepare(test_name!(), &[]) else { return };
    let line = "gulp -i eth1 > pcapfile1; gulp -d -i - < pcapfile1 > pcapfile2";
    example(&bench, line, MIRRORED);
    assert_eq!(verify(&[&bench.path("pcapfile1")])["received"], 0, "its frames are mirrored ones");
    assert_complete(&bench, &["pcapfile2"]);
}

#[test]
fn example_6_ngrep_looks_inside() {
    let Some(bench) = prepare(test_name!(), &["ngrep"]) else { return };
    // Each stamp begins with "qu".
    example(&bench, "gulp -i eth1 -d | ngrep -q -I - -O pcapfile qu", MIRRORED);
    assert_complete(&bench, &["pcapfile"]);
}

#[test]
fn example_7_a_meter_reads_the_pipe() {
    let Some(bench) = prepare(test_name!(), &["tshark"]) else { return };
    for line in [
        "gulp -i eth1 -d | tshark -r /dev/stdin -q -z conv,ip",
        "mkfifo pipe; chmod 644 pipe; gulp -i eth1 -d > pipe & tshark -r pipe -q -z conv,ip; wait $!",
    ] {
        let conversations = example(&bench, line, MIRRORED);
        let row = conversations.lines().find(|row| row.contains("<->")).unwrap_or_default();
        assert!(row.split_whitespace().any(|word| word == COUNT.to_string()), "{line}: {conversations}");
        assert!(row.contains("198.18.0.1"), "the addresses inside: {conversations}");
    }
}

#[test]
fn example_8_wireshark_reads_the_pipe() {
    let Some(bench) = prepare(test_name!(), &["tshark"]) else { return };
    example(&bench, "gulp -i eth1 -d | tshark -i - -q -w pcapfile", MIRRORED);
    assert_complete(&bench, &["pcapfile"]);
}

#[test]
fn example_9_files_of_a_size_and_the_newest_of_them() {
    let Some(bench) = prepare(test_name!(), &["tcpdump"]) else {
        return;
    };
    std::fs::create_dir(bench.path("pcapdir")).unwrap();
    example(&bench, "gulp -i eth1 -C 10 -W 10 -o pcapdir", PLAIN);
    assert_eq!(names(&bench.dir.path().join("pcapdir")), ["pcap000"]);
    assert_complete(&bench, &["pcapdir/pcap000"]);

    // Today's tcpdump stops being root before it opens its files, unless an option prevents it.
    example(&bench, "gulp -i eth1 | taskset -c 2 tcpdump -r- -C 1000 -W 10 -w pcapname -Z root", PLAIN);
    assert_complete(&bench, &["pcapname0"]);
}

#[test]
fn small_rings_make_small_files_and_few_of_them_stay() {
    let Some(bench) = prepare(test_name!(), &[]) else { return };
    std::fs::create_dir(bench.path("pcapdir")).unwrap();
    let line = "gulp -i eth1 -r 1 -C 2 -W 3 -n tap -o pcapdir -Z 'echo'";
    let said = example(&bench, line, "--size 1000 --count 10000 --pps 20000");
    assert_eq!(said, "", "what the command says goes to stderr");
    assert_eq!(names(&bench.dir.path().join("pcapdir")), ["tap000", "tap001", "tap002"]);
    let sizes = (0..3).map(|n| std::fs::metadata(bench.path(&format!("pcapdir/tap00{n}"))).unwrap().len());
    assert!(sizes.clone().all(|size| size <= 2 << 20), "{:?}", sizes.collect::<Vec<_>>());
}

#[test]
fn each_rotated_file_is_given_to_z_and_t_puts_the_time_into_names() {
    let Some(bench) = prepare(test_name!(), &[]) else { return };
    std::fs::create_dir(bench.path("pcapdir")).unwrap();
    // Gulp's -Z takes the name of a command, not a line of the shell.
    let note = bench.path("no te");
    write_program(&note, "#!/bin/sh\necho \"$@\" >> list\n");
    let line = "gulp -i eth1 -r 2 -C 1 -t -o pcapdir -Z './no te'";
    example(&bench, line, "--size 1000 --count 5000 --pps 20000");
    let files = names(&bench.dir.path().join("pcapdir"));
    assert!(files.len() >= 3, "{files:?}");
    for (number, file) in files.iter().enumerate() {
        let (time, count) = file.strip_prefix("pcap").unwrap().split_once('.').unwrap();
        assert!(time.len() == 10 && time.bytes().all(|byte| byte.is_ascii_digit()), "{file}");
        assert_eq!(count, format!("{number:03}"));
    }
    let expected: String = files.iter().map(|file| format!("pcapdir/{file}\n")).collect();
    assert_eq!(std::fs::read_to_string(bench.path("list")).unwrap(), expected);
}

#[test]
fn g_begins_a_file_each_so_many_seconds() {
    let Some(bench) = prepare(test_name!(), &[]) else { return };
    std::fs::create_dir(bench.path("pcapdir")).unwrap();
    let line = "gulp -i eth1 -G 1 -o pcapdir";
    example(&bench, line, "--size 100 --count 60000 --pps 20000");
    let files = names(&bench.dir.path().join("pcapdir"));
    assert!((3..=6).contains(&files.len()), "{files:?}");
}

#[test]
fn the_environment_names_the_interface_and_snaplen_cuts() {
    let Some(bench) = prepare(test_name!(), &["tcpdump"]) else {
        return;
    };
    example(&bench, "CAP_IFACE=eth1; export CAP_IFACE; gulp -s 60 -BYq -p 5 -z 4096 > pcapfile", PLAIN);
    let mut capture = quaff_file::read::CaptureFile::open(bench.path("pcapfile").as_ref()).unwrap();
    let mut count = 0;
    while capture
        .pull(|item| {
            if let quaff_wire::decode::Item::Frame(frame) = item {
                assert_eq!((frame.data.len(), frame.wire_len), (60, 300));
                count += 1;
            }
        })
        .unwrap()
    {}
    assert_eq!(count, COUNT);
}

#[test]
fn the_first_interrupt_drains_and_the_second_ends_at_once() {
    let Some(bench) = prepare(test_name!(), &[]) else { return };
    // No process reads the pipe: the first ^C cannot end the run.
    let mut running = shell(&bench, "mkfifo pipe; exec 3<>pipe; gulp -i eth1 > pipe; echo $? > code");
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    bench.generate(PLAIN);
    let gulp = process(&running, "quaff");
    send(gulp, Signal::SIGINT).expect("it runs");
    std::thread::sleep(Duration::from_secs(1));
    assert!(!running.has_ended().unwrap(), "it drains");
    send(gulp, Signal::SIGINT).expect("it still runs");
    let ended = finish(running);
    assert!(ended.stderr.contains("ended immediately"), "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(bench.path("code")).unwrap().trim(), "2");
}

#[test]
fn x_keeps_others_out_unless_they_insist() {
    let Some(bench) = prepare(test_name!(), &[]) else { return };
    // The lock is on the program itself, which other tests run too: a copy is locked.
    copy_program(QUAFF, bench.path("quaff"));
    let start = |args: &str| shell(&bench, &format!("exec ./quaff gulp -i eth1 {args} > /dev/null"));
    let mut alone = start("-x");
    assert!(alone.hears("capturing", PATIENCE), "{}", alone.heard);
    for (args, words) in [("", "runs exclusively (-x)"), ("-x", "another 'quaff gulp' runs")] {
        let refused = finish(start(args));
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
    let mut insisting = start("-X");
    assert!(insisting.hears("because of -X", PATIENCE) && insisting.hears("capturing", PATIENCE));
    for running in [alone, insisting] {
        send(running.pid(), Signal::SIGINT).unwrap();
        assert_eq!(finish(running).code, 0);
    }
    // Two that do not mind each other; -x does.
    let mut both = [start(""), start("")];
    assert!(both.iter_mut().all(|one| one.hears("capturing", PATIENCE)));
    assert_eq!(finish(start("-x")).code, 2);
    for running in both {
        send(running.pid(), Signal::SIGINT).unwrap();
        finish(running);
    }
}

#[test]
fn v_shows_how_it_goes_twice_a_second() {
    let Some(bench) = prepare(test_name!(), &[]) else { return };
    let mut running = shell(&bench, "exec gulp -i eth1 -V x > /dev/null");
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    std::thread::sleep(Duration::from_millis(2400));
    send(running.pid(), Signal::SIGINT).unwrap();
    let ended = finish(running);
    let lines = ended.stderr.lines().filter(|line| line.contains("| lost: nic 0")).count();
    assert!((3..=5).contains(&lines), "{}", ended.stderr);

    let mut running = shell(&bench, "exec gulp -i eth1 -Vxxxxxxxxxx > /dev/null");
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    let begun = Instant::now();
    let comm = || std::fs::read_to_string(format!("/proc/{}/comm", running.pid())).unwrap_or_default();
    while comm().trim() != "0 0,0%" && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(comm().trim(), "0 0,0%");
    send(running.pid(), Signal::SIGINT).unwrap();
    finish(running);
}

#[test]
fn arguments_that_gulp_refuses_are_refused() {
    let Some(bench) = prepare(test_name!(), &[]) else { return };
    run(bench.lab.rx.command("ip").unwrap().args(["tuntap", "add", "mode", "tun", "name", "tun7"]));
    for (line, code, words) in [
        ("gulp -i tun7 > /dev/null", 2, "is not an Ethernet interface; -F captures it anyway"),
        ("gulp -r 0 > /dev/null", 2, "-r number must be 1-1024"),
        ("gulp -i eth1 -o nowhere", 2, "cannot use the folder nowhere"),
        ("gulp file > /dev/null", 2, "'file' is not an option"),
        ("gulp -v -i eth1 -Y", 0, "quaff capture -i rx0 --format pcap-us -w -"),
    ] {
        let done = finish(shell(&bench, line));
        assert_eq!(done.code, code, "{line}: {}", done.stderr);
        assert!(done.stderr.contains(words), "{line}: {}", done.stderr);
    }
}
