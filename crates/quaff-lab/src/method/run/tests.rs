//! The steps of a run, with a shell in the place of a capturer.

use super::*;
use crate::rival::{Counter, shipped};

fn fake(ready: Ready) -> Rival {
    let quaff = shipped(Path::new("quaff")).swap_remove(0);
    let drops = Some(Counter::Before("packets lost".into()));
    Rival { name: "fake".into(), ready, settle_ms: 200, drops, ..quaff }
}

fn sh(script: &str) -> Running {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let core = Cores::pick().expect("a core").capturer;
    start_on(command, core).expect("sh runs")
}

fn go(_: Stage) -> bool {
    true
}

#[test]
fn a_capturer_is_started_watched_and_stopped() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("capture");
    let script = format!(
        "trap 'echo 17 packets lost >&2; exit 3' INT
         echo capturing >&2; (sleep 0.4; echo 1 >> {0}; sleep 0.2; echo 2 >> {0}) & while :; do sleep 0.01; done",
        file.display()
    );
    let rival = fake(Ready::Says("capturing".into()));
    let mut capturing = sh(&script);
    ready(&mut capturing, &rival, &mut go).expect("it is ready");
    let mut growth = Growth::new(dir.path());
    settle(&mut growth, &mut capturing, &rival, &mut go).expect("it settles");
    assert_eq!(fs::read_to_string(&file).expect("it wrote"), "1\n2\n", "it was given the time it needs");
    let finished = stop(capturing, &rival, &mut go).expect("it ends");
    assert_eq!(finished.status.code(), Some(3));
    assert_eq!(rival.drops.as_ref().and_then(|drops| drops.read(&finished.stderr)), Some(17));
}

#[test]
fn one_that_ends_too_soon_is_told_with_its_last_words() {
    let rival = fake(Ready::Says("capturing".into()));
    let mut capturing = sh("echo no such device >&2; echo >&2; exit 1");
    let error = ready(&mut capturing, &rival, &mut go).expect_err("it cannot");
    assert_eq!(error.to_string(), "fake: ended before it captured: no such device");

    let mut capturing = sh("echo capturing >&2; sleep 0.35; echo out of luck >&2");
    ready(&mut capturing, &rival, &mut go).expect("it is ready");
    let dir = tempfile::tempdir().expect("a directory");
    let error = settle(&mut Growth::new(dir.path()), &mut capturing, &rival, &mut go).expect_err("it ended");
    assert!(error.to_string().contains("ended while it was to capture"), "{error}");
}

#[test]
fn a_watch_can_end_it() {
    let rival = fake(Ready::Socket);
    let mut capturing = sh("exec sleep 60");
    let mut looks = 0;
    let error = ready(&mut capturing, &rival, &mut |_| {
        looks += 1;
        looks < 3
    });
    assert!(matches!(error, Err(Error::Interrupted)), "{error:?}");
}

#[test]
fn a_bound_socket_is_seen() {
    let head = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n";
    let line = |interface, running| {
        format!("{head}00000000a66a9b41 3      3    0003   {interface}     {running} 0      0      137247\n")
    };
    assert!(!has_socket(head));
    assert!(!has_socket(""));
    assert!(!has_socket(&line(0, 1)));
    assert!(!has_socket(&line(2, 0)));
    assert!(has_socket(&line(2, 1)));
}

#[test]
fn time_on_core_is_read() {
    let busy = sh("while :; do :; done");
    std::thread::sleep(Duration::from_millis(300));
    let used = on_core(busy.pid()).expect("it runs");
    assert!(used > Duration::from_millis(20), "{used:?}");
    let pid = busy.pid();
    drop(busy);
    assert!(on_core(pid).is_err());
}

#[test]
fn losses_are_told_in_percent_of_what_was_offered() {
    let traffic = Traffic::bytes(64, None, 1000);
    let outcome = Outcome {
        rival: "fake".into(),
        traffic,
        buffer_mib: None,
        offered: 1000,
        seconds: 0.5,
        in_file: 750,
        lost: 250,
        own_drops: None,
        startup_seconds: 0.0,
        user_seconds: 0.25,
        system_seconds: 0.5,
        bytes: 3000,
        writing_seconds: 0.5,
        accounted: None,
    };
    assert_eq!(outcome.cpu_ns_per_frame(), 750_000.0);
    assert_eq!(outcome.bytes_per_second(), 6000.0);
    assert_eq!(outcome.lost_percent(), 25.0);
    assert_eq!(outcome.offered_pps(), 2000.0);
    assert_eq!(outcome.cpu_seconds(), 0.75);
}
