//! The sandbox in a process of its own: a test runs this binary again with [`inside`], which restricts itself, tries
//! everything, and prints what it got.

use super::*;
use crate::disk::FileAccess;
use crate::process::Prepare;
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// The folder of the test, and the user to become; set for what runs inside only.
const FOLDER: &str = "QUAFF_TEST_SANDBOX_FOLDER";
const USER: &str = "QUAFF_TEST_SANDBOX_USER";

/// Runs [`inside`] in a process of its own. Returns what it printed, by name.
fn run_inside(dir: &Path, user: Option<&str>) -> BTreeMap<String, String> {
    run_test("inside", dir, user)
}

fn run_test(name: &str, dir: &Path, user: Option<&str>) -> BTreeMap<String, String> {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    let name = format!("sandbox::tests::{name}");
    command.args(["--exact", &name, "--nocapture", "--test-threads=2"]).env(FOLDER, dir);
    if let Some(user) = user {
        command.env(USER, user);
    }
    let done = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{text} {}", String::from_utf8_lossy(&done.stderr));
    let lines = text.lines().filter_map(|line| line.strip_prefix("inside: ")?.split_once(": "));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A folder with what [`inside`] expects, which everyone may use.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    for name in ["out", "tree"] {
        fs::create_dir(path(name)).unwrap();
        fs::set_permissions(path(name), Permissions::from_mode(0o777)).unwrap();
    }
    for name in ["in", "other", "out/file"] {
        fs::write(path(name), b"content").unwrap();
        fs::set_permissions(path(name), Permissions::from_mode(0o666)).unwrap();
    }
    std::os::unix::fs::symlink(path("other"), path("out/link")).unwrap();
    dir
}

fn say(name: &str, value: impl std::fmt::Display) {
    writeln!(io::stdout(), "inside: {name}: {value}").unwrap();
}

/// Prints the name of an errno, or `done`.
fn tried<T>(name: &str, result: io::Result<T>) {
    match result {
        Ok(_) => say(name, "done"),
        Err(error) => say(name, format!("{:?}", Errno::from_raw(error.raw_os_error().unwrap_or(0)))),
    }
}

/// A system call by number.
fn call(number: libc::c_long, arguments: [libc::c_long; 3]) -> io::Result<()> {
    let [a, b, c] = arguments;
    // SAFETY: the test passes numbers, or makes calls that fail before they use their pointers.
    match unsafe { libc::syscall(number, a, b, c, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[test]
fn inside() {
    let Some(dir) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let path = |name: &str| dir.join(name);
    let user = std::env::var(USER).ok().map(|name| User::find(&name).unwrap());
    // Threads that sleep, read and wait while they are restricted, and continue.
    let (mut reader, writer) = io::pipe().unwrap();
    let reading = std::thread::spawn(move || reader.read(&mut [0; 8]));
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let waiting = std::thread::spawn(move || receiver.recv());
    let sleeping = std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_millis(300)));
    let limits = Limits {
        // One of the two runs.
        binds: user.is_some(),
        sends_datagrams: user.is_some(),
        sends_frames: user.is_some(),
        user,
        read: vec![path("in"), path("missing")],
        write: vec![path("out"), path("tree")],
        make_folders: vec![path("tree")],
        access: FileAccess { group: None, mode: Some(0o664) },
        ..Limits::default()
    };
    let mut sandbox = Sandbox::confine(&limits).unwrap();
    // Later no process may that restricts its calls.
    tried("make a folder", fs::create_dir(path("out/folder")));
    tried("make a folder of a tree", fs::create_dir(path("tree/folder")));
    let wakeup = crate::Wakeup::new().unwrap();
    let disk = crate::disk::Disk::ahead(&wakeup);
    sandbox.restrict_calls(Phase::Starting);
    try_rings(&dir, disk, wakeup);
    sandbox.restrict_calls(Phase::Running);
    say("landlock", sandbox.landlock_abi);
    say("seccomp", sandbox.seccomp);
    say("notes", format!("{:?}", sandbox.notes));
    say("uid", nix::unistd::getuid());

    try_paths(&dir);
    try_calls(&dir);
    let later = std::thread::spawn(statuses);
    let (now, later) = (statuses(), later.join().unwrap());
    say("threads", now.len());
    now.iter().chain(&later).for_each(|status| say(&format!("status {status}"), ""));
    drop((writer, sender));
    tried("a reader", reading.join().unwrap());
    tried("a receiver", waiting.join().unwrap().map_err(|_| io::Error::from(Errno::EPIPE)));
    sleeping.join().unwrap();
}

/// Files are parsed: no ring can be made or changed, and a writer uses the one that was made before.
fn try_rings(dir: &Path, disk: crate::disk::Disk, wakeup: crate::Wakeup) {
    tried("io_uring at the start", io_uring::IoUring::new(1));
    // IORING_REGISTER_PERSONALITY; the descriptor is invalid.
    tried("change of a ring at the start", call(libc::SYS_io_uring_register, [-1, 9, 0]));
    let file = File::create(dir.join("out/ring")).unwrap();
    let before = calls::refused().0;
    let writing = std::thread::spawn(move || {
        let (mut disk, buffer) = (disk.settle(), crate::mem::Buffer::new(4096).unwrap());
        disk.submit(crate::disk::Write { file: file.into(), buffer, len: 4096, offset: 0 }).unwrap();
        loop {
            match disk.reap().unwrap() {
                Some(written) => return (disk.name(), written.result),
                None => drop(wakeup.wait(std::time::Duration::from_secs(1)).unwrap()),
            }
        }
    });
    let (name, result) = writing.join().unwrap();
    say("a writer has", name);
    tried("a writer", result);
    say("refused to a writer", calls::refused().0 - before);
}

/// A kernel that accepts the first filters, and no more.
#[test]
fn inside_of_half() {
    let Some(_) = std::env::var_os(FOLDER) else { return };
    let mut sandbox = Sandbox::confine(&Limits::default()).unwrap();
    sandbox.restrict_calls(Phase::Starting);
    calls::refuse_filters().unwrap();
    sandbox.restrict_calls(Phase::Running);
    say("seccomp", sandbox.seccomp);
    say("notes", format!("{:?}", sandbox.notes));
    tried("exec", Command::new("/bin/true").status());
}

#[test]
fn filters_of_the_start_that_remain_are_reported() {
    let dir = folder();
    let found = run_test("inside_of_half", dir.path(), None);
    assert_eq!((&*found["seccomp"], &*found["exec"]), ("true", "EPERM"), "{found:#?}");
    let notes = &found["notes"];
    assert!(notes.contains("the system calls of a start") && !notes.contains("no system calls"), "{notes}");
}

fn try_paths(dir: &Path) {
    let path = |name: &str| dir.join(name);
    tried("read in", fs::read(path("in")));
    tried("write in", File::options().write(true).open(path("in")));
    tried("read other", fs::read(path("other")));
    tried("write other", File::options().write(true).open(path("other")));
    tried("make beside", File::create(path("new")));
    tried("through a link", File::options().write(true).open(path("out/link")));
    tried("make", fs::write(path("out/new"), b"new"));
    tried("rename", fs::rename(path("out/new"), path("out/newer")));
    tried("truncate", File::options().write(true).open(path("out/newer")).and_then(|file| file.set_len(1)));
    tried(
        "move out",
        fs::rename(path("out/newer"), path("newer")).map_err(|_| io::Error::from(Errno::EXDEV)),
    );
    tried("remove", fs::remove_file(path("out/newer")));
    tried("make in a tree", fs::write(path("tree/folder/new"), b"new"));
    tried("unnamed", crate::disk::open_unnamed(&path("out"), false));
    tried("list", fs::read_dir(path("out")));
    tried("passwd", fs::read("/etc/passwd"));
    tried("proc", fs::read("/proc/meminfo"));
}

fn try_calls(dir: &Path) {
    let before = calls::refused().0;
    tried("exec", Command::new("/bin/true").status());
    tried("fork", call(libc::SYS_clone, [libc::SIGCHLD as _, 0, 0]));
    for (name, family) in [
        ("inet", libc::AF_INET),
        ("unix", libc::AF_UNIX),
        ("packet", libc::AF_PACKET),
        ("vsock", libc::AF_VSOCK),
    ] {
        tried(name, call(libc::SYS_socket, [family as _, libc::SOCK_DGRAM as _, 0]));
    }
    tried("netfilter", call(libc::SYS_socket, [libc::AF_NETLINK as _, libc::SOCK_RAW as _, 12]));
    tried("io_uring", io_uring::IoUring::new(1));
    tried("sendmsg", call(libc::SYS_sendmsg, [-1, 0, 0]));
    tried("sendto an address", sendto(c"x"));
    // Without a descriptor or a mask, EBADF and EFAULT are what a call gets that passes the filter.
    tried("signal by an owner", call(libc::SYS_fcntl, [-1, libc::F_SETOWN.into(), 1]));
    tried("choice of a signal", call(libc::SYS_fcntl, [-1, 10, libc::SIGKILL.into()]));
    tried("core of another", call(libc::SYS_sched_setaffinity, [1, 8, 0]));
    tried("priority of another", call(libc::SYS_sched_setscheduler, [1, 0, 0]));
    tried("kill", call(libc::SYS_kill, [nix::unistd::getppid().as_raw() as _, 0, 0]));
    tried("executable memory", call(libc::SYS_mmap, [0, 4096, (libc::PROT_READ | libc::PROT_EXEC) as _]));
    tried("ptrace", call(libc::SYS_ptrace, [0, 0, 0]));
    tried("bpf", call(libc::SYS_bpf, [0, 0, 0]));
    tried("unshare", call(libc::SYS_unshare, [libc::CLONE_NEWNET as _, 0, 0]));
    tried("setns", call(libc::SYS_setns, [0, 0, 0]));
    tried("mount", call(libc::SYS_mount, [0, 0, 0]));
    let own = File::create(dir.join("out/own")).unwrap();
    tried("mode", own.set_permissions(Permissions::from_mode(0o664)));
    tried("other mode", own.set_permissions(Permissions::from_mode(0o666)));
    tried("group", std::os::unix::fs::fchown(&own, None, Some(nix::unistd::getgid().as_raw())));
    tried("chmod", fs::set_permissions(dir.join("out/file"), Permissions::from_mode(0o777)));
    tried("unknown", call(libc::SYS_acct, [0, 0, 0]));
    say("refused", calls::refused().0 - before);
    tried("flags of a file", call(libc::SYS_fcntl, [-1, libc::F_GETFL.into(), 0]));
    tried("own core", call(libc::SYS_sched_setaffinity, [0, 8, 0]));
    tried("route", call(libc::SYS_socket, [libc::AF_NETLINK as _, libc::SOCK_RAW as _, 0]));
    tried("ethtool", crate::ethtool::Card::read("lo").features.map_err(|error| error.errno));
    // Calls that pass the filter fail because the descriptor is invalid.
    let option = |level: i32, option: i32| call(libc::SYS_setsockopt, [-1, level.into(), option.into()]);
    tried("bind to an interface", call(libc::SYS_bind, [-1, 0, size_of::<libc::sockaddr_ll>() as _]));
    tried("bind to a port", call(libc::SYS_bind, [-1, 0, size_of::<libc::sockaddr_in>() as _]));
    tried("sendmmsg", call(libc::SYS_sendmmsg, [-1, 0, 0]));
    tried("send", sendto(c""));
    tried("segments", option(libc::IPPROTO_UDP, libc::UDP_SEGMENT));
    tried("promiscuous", option(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP));
    tried("another ring", option(libc::SOL_PACKET, libc::PACKET_RX_RING));
    tried("filter", option(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER));
    tried("another option", option(libc::SOL_SOCKET, libc::PACKET_ADD_MEMBERSHIP));
    tried("another level", option(libc::SOL_IP, libc::SO_ATTACH_FILTER));
}

/// sendto(2) by no socket; to this text as the address, unless it is empty.
fn sendto(address: &std::ffi::CStr) -> io::Result<()> {
    let length = address.count_bytes() as libc::socklen_t;
    let to = if length > 0 { address.as_ptr() } else { std::ptr::null() };
    // SAFETY: the descriptor is invalid, which is found before anything is read.
    match unsafe { libc::sendto(-1, std::ptr::null(), 0, 0, to.cast(), length) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Capability sets, NoNewPrivs and Seccomp of all threads.
fn statuses() -> Vec<String> {
    let of = |thread: i32| {
        let status = fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
        let wanted = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"];
        let fields = wanted.map(|name| threads::field(&status, name).unwrap_or("-").to_owned());
        Some(fields.join(" "))
    };
    threads::ids().unwrap().into_iter().filter_map(of).collect()
}

fn assert_restricted(found: &BTreeMap<String, String>) {
    let statuses: Vec<_> = found.keys().filter_map(|key| key.strip_prefix("status ")).collect();
    let zero = "0000000000000000";
    // Without CAP_SETPCAP the bounding set stays.
    let is_root = nix::unistd::geteuid().is_root();
    for status in &statuses {
        let fields: Vec<_> = status.split(' ').collect();
        let bounding = if is_root { zero } else { fields[3] };
        assert_eq!(fields, [zero, zero, zero, bounding, zero, "1", "2"], "{found:#?}");
    }
    assert!(!statuses.is_empty(), "{found:#?}");
    let threads: usize = found["threads"].parse().unwrap();
    assert!(threads >= 4, "{threads} threads");
}

fn assert_only_the_folder_is_writable(found: &BTreeMap<String, String>) {
    let (done, denied) = ("done", "EACCES");
    for (name, result) in [
        ("read in", done),
        ("write in", denied),
        ("read other", denied),
        ("write other", denied),
        ("make beside", denied),
        ("through a link", denied),
        ("make", done),
        ("rename", done),
        ("truncate", done),
        ("move out", "EXDEV"),
        ("remove", done),
        ("make a folder", denied),
        ("make a folder of a tree", done),
        ("make in a tree", done),
        ("list", done),
        ("passwd", denied),
        ("proc", done),
    ] {
        assert_eq!(found[name], result, "{name}: {found:#?}");
    }
}

fn assert_calls_are_refused(found: &BTreeMap<String, String>) {
    let refused = [
        "exec",
        "fork",
        "inet",
        "unix",
        "packet",
        "vsock",
        "netfilter",
        "io_uring",
        "sendmsg",
        "sendto an address",
        "signal by an owner",
        "choice of a signal",
        "core of another",
        "priority of another",
        "kill",
        "executable memory",
        "ptrace",
        "bpf",
        "unshare",
        "setns",
        "mount",
        "chmod",
        "other mode",
        "group",
    ];
    for name in refused {
        assert_eq!(found[name], "EPERM", "{name}: {found:#?}");
    }
    assert_eq!(found["unknown"], "ENOSYS");
    // No signal counts the first two, and what is unknown.
    assert_eq!(found["refused"], (refused.len() - 2).to_string(), "{found:#?}");
    assert_eq!((&*found["flags of a file"], &*found["own core"]), ("EBADF", "EFAULT"), "{found:#?}");
    for name in ["mode", "route", "ethtool", "a reader", "a writer"] {
        assert_eq!(found[name], "done", "{name}: {found:#?}");
    }
    for name in ["io_uring at the start", "change of a ring at the start"] {
        assert_eq!(found[name], "EPERM", "{name}: {found:#?}");
    }
    let has_rings = crate::disk::Disk::new(&crate::Wakeup::new().unwrap()).name();
    let writer = (&*found["a writer has"], &*found["refused to a writer"]);
    assert!(writer == (has_rings, "0") || writer == ("pwrite", "0") && !is_allowed_to_all(), "{found:#?}");
}

/// Processes without capabilities can make a ring.
fn is_allowed_to_all() -> bool {
    fs::read_to_string("/proc/sys/kernel/io_uring_disabled").is_ok_and(|text| text.trim() == "0")
}

/// Sockets are bound, and send what a filter cannot see, only where the limits permit it; they are bound only to
/// interfaces.
fn assert_sockets(found: &BTreeMap<String, String>, is_permitted: bool) {
    let bound = if is_permitted { "EBADF" } else { "EPERM" };
    for (name, result) in [
        ("sendmmsg", bound),
        ("segments", bound),
        ("send", "EBADF"),
        ("bind to an interface", bound),
        ("promiscuous", bound),
        ("filter", "EBADF"),
        ("bind to a port", "EPERM"),
        ("another ring", "EPERM"),
        ("another option", "EPERM"),
        ("another level", "EPERM"),
    ] {
        assert_eq!(found[name], result, "{name}: {found:#?}");
    }
}

#[test]
fn nothing_outside_the_limits_can_be_done() {
    let dir = folder();
    let found = run_inside(dir.path(), None);
    assert_restricted(&found);
    assert_calls_are_refused(&found);
    assert_sockets(&found, false);
    if found["landlock"] == "0" {
        return crate::testing::skip("nothing_outside_the_limits_can_be_done", "no Landlock in this kernel");
    }
    assert_only_the_folder_is_writable(&found);
    assert_eq!(found["notes"], "[]");
    assert_eq!(found["io_uring"], "EPERM");
}

#[test]
fn root_becomes_another_user() {
    let test = "root_becomes_another_user";
    if !nix::unistd::geteuid().is_root() {
        return crate::testing::skip(test, "not root");
    }
    let dir = folder();
    let found = run_inside(dir.path(), Some("daemon"));
    assert_restricted(&found);
    assert_calls_are_refused(&found);
    assert_sockets(&found, true);
    assert_ne!(found["uid"], "0");
    if found["landlock"] != "0" {
        assert_only_the_folder_is_writable(&found);
    }
}

#[test]
fn file_rights_are_of_one_thread_and_end() {
    let test = "file_rights_are_of_one_thread_and_end";
    if !nix::unistd::geteuid().is_root() {
        return crate::testing::skip(test, "not root");
    }
    let dir = folder();
    let user = User::find("daemon").unwrap();
    std::thread::spawn(move || {
        let make = |name: &str| File::create(dir.path().join(name)).map(|file| file.metadata().unwrap());
        let rights = user.use_files().unwrap();
        assert_eq!(make("refused").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let made = make("out/made").unwrap();
        assert_ne!(std::os::unix::fs::MetadataExt::uid(&made), 0);
        let status = Command::new("sh").args(["-c", "test $(id -u) != 0"]).leave_privileges().status();
        assert!(status.unwrap().success(), "a command is of the owner of the files");
        drop(rights);
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&make("mine").unwrap()), 0);
    })
    .join()
    .unwrap();
}

#[test]
fn a_user_that_does_not_exist_is_an_error() {
    let error = User::find("no-such-user").unwrap_err().to_string();
    assert!(error.contains("no-such-user"), "{error}");
}
