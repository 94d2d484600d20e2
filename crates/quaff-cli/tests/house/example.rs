//! The example of an output, `count_by_port`: the same counts live and from a file, and a ledger that adds up.

use crate::support::{Bench, run};
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
        let args = ["build", "--quiet", "--package", "quaff", "--example", "count_by_port"];
        run(Command::new(env!("CARGO")).args(args));
    }
    path
}

#[test]
fn an_output_of_its_own_counts_live_and_from_files() {
    let Some(bench) = Bench::new("an_output_of_its_own_counts_live_and_from_files", 1 << 27) else { return };
    let file = bench.path("sent.pcapng");
    let expected = format!("offered {PACKETS}, counted {PACKETS}, lossless true");
    let ended = bench.capture_of(&["-w", &file], &format!("--size 100 --count {PACKETS} --pps 50000"));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let from_file = run(Command::new(example()).arg(&file));
    assert!(from_file.ends_with(&format!("{expected}\n")), "{from_file}");
    let mut command = bench.lab.rx.command(example()).expect("a command in the lab");
    let mut live = command.args(["-i", "rx0"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(live.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "capturing\n");
    bench.generate(&format!("--size 100 --count {PACKETS} --pps 50000"));
    drop(live.stdin.take());
    let mut counted = String::new();
    output.read_to_string(&mut counted).unwrap();
    assert!(live.wait().unwrap().success());
    assert_eq!(counted, from_file);
}
