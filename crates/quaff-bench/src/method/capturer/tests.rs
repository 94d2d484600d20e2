//! Tests with the kernel's data on processes and their sockets.

use super::*;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

fn sh(script: &str) -> ChildProcess {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    ChildProcess::start(command).expect("sh runs")
}

#[test]
fn bound_sockets_are_seen() {
    let head = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n";
    let line = |interface, running| {
        format!("{head}00000000a66a9b41 3      3    0003   {interface}     {running} 0      0      137247\n")
    };
    assert!(bound_sockets(head).is_empty());
    assert!(bound_sockets("").is_empty());
    assert!(bound_sockets(&line(0, 1)).is_empty());
    assert!(bound_sockets(&line(2, 0)).is_empty());
    assert_eq!(bound_sockets(&line(2, 1)), [137_247]);
}

#[test]
fn open_sockets_are_found_by_their_inode() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let link = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).expect("it is open");
    let digits = |target: &str| target.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok();
    let inode = link.to_str().and_then(digits).expect("an inode");
    assert!(has_open(std::process::id(), &[1, inode]));
    assert!(!has_open(std::process::id(), &[1]));
    assert!(!has_open(std::process::id(), &[]));
}

#[test]
fn time_on_core_is_read() {
    let busy = sh("while :; do :; done");
    std::thread::sleep(Duration::from_millis(300));
    let used = on_core(busy.pid()).expect("it runs");
    assert!(used > Duration::from_millis(20), "{used:?}");
    let cpu = cpu_split(busy.pid()).expect("it runs");
    assert!(cpu.total() >= used.as_secs_f64(), "{cpu:?}");
    let pid = busy.pid();
    drop(busy);
    assert!(on_core(pid).is_err());
}

#[test]
fn time_is_split_as_by_the_kernel() {
    let stat = "7 (a) b) R 1 7 7 0 -1 4194304 90 0 0 0 30 10 0 0 20 0 1 0 100 0 0";
    assert_eq!(split(0.5, stat), Cpu { user: 0.375, system: 0.125 });
    // The sum excludes threads that have ended.
    let Cpu { user, system } = split(0.1, stat);
    assert!((user - 0.3).abs() + (system - 0.1).abs() < 1e-9, "{user} {system}");
    assert_eq!(split(0.5, ""), Cpu { user: 0.25, system: 0.25 });
}

#[test]
fn an_idle_capturer_is_done() {
    let settle = Duration::from_millis(20);
    let mut work = Work { at: Instant::now(), used: Duration::ZERO };
    assert!(!work.is_done(settle, || Duration::ZERO), "too short");
    std::thread::sleep(settle);
    assert!(!work.is_done(settle, || Duration::from_millis(10)));
    std::thread::sleep(settle);
    assert!(work.is_done(settle, || Duration::from_millis(10)));
}
