//! The example of a product, `count_by_port`: the same counts live and from a file, a ledger that adds up, and the
//! shell of all commands.

use crate::support::{lab_bench, run};
use quaff_os::Signal;
use quaff_os::process::send;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Packets of each run.
const PACKETS: u64 = 50_000;

/// The example: as built with all tests, or built now where only this test was.
fn example() -> PathBuf {
    let tests = std::env::current_exe().expect("a path");
    let path = tests.ancestors().nth(2).expect("the folder of the build").join("examples/count_by_port");
    if !path.exists() {
        let args = ["build", "--quiet", "--package", "quaff-cli", "--example", "count_by_port"];
        run(Command::new(env!("CARGO")).args(args));
    }
    path
}

#[test]
fn an_output_of_its_own_counts_live_and_from_files() {
    let bench = lab_bench!(1 << 27);
    let file = bench.path("sent.pcapng");
    let expected = format!("offered {PACKETS}, counted {PACKETS}, lossless true");
    let ended = bench.capture_of(&["-w", &file], &format!("--size 100 --count {PACKETS} --pps 50000"));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let from_file = run(Command::new(example()).arg(&file));
    assert!(from_file.ends_with(&format!("{expected}\n")), "{from_file}");
    let json = run(Command::new(example()).args(["--json", &file]));
    assert!(json.contains(&format!(r#""offered":{PACKETS}"#)), "{json}");

    let live = |args: &[&str]| {
        let mut command = bench.lab.rx.command(example()).expect("a command in the lab");
        let command = command.args(["-i", "rx0"]).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = command.spawn().unwrap();
        let mut errors = BufReader::new(running.stderr.take().unwrap());
        assert_eq!(line(&mut errors), "capturing\n");
        (running, errors)
    };
    let (mut running, mut errors) = live(&[]);
    bench.generate(&format!("--size 100 --count {PACKETS} --pps 50000"));
    let signal = |signal| send(running.id(), signal).expect("it runs");
    signal(Signal::SIGUSR1);
    assert!(line(&mut errors).ends_with(" packets\n"), "progress");
    signal(Signal::SIGINT);
    let mut counted = String::new();
    running.stdout.take().unwrap().read_to_string(&mut counted).unwrap();
    assert_eq!((running.wait().unwrap().code(), counted), (Some(0), from_file));

    let (running, _) = live(&["--duration", "100ms"]);
    let ended = running.wait_with_output().unwrap();
    assert_eq!(
        (ended.status.code(), ended.stdout),
        (Some(0), b"offered 0, counted 0, lossless true\n".to_vec())
    );
    let missing = Command::new(example()).arg("missing.pcap").output().unwrap();
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).starts_with("quaff: "), "{missing:?}");
}

fn line(errors: &mut impl BufRead) -> String {
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    line
}
