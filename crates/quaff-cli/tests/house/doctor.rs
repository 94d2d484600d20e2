//! Each cause of loss that a test can bring about: found, fixed and restored.
//!
//! The doctor runs in a lab's namespace, with files of /proc that are the test's own mounted over the machine's,
//! so that nothing of the machine itself is changed.

use crate::support::{self, Bench, QUAFF, folder, interrupt, lab_bench, run, tool};
use quaff::doctor::{Change, Setting, fix, undo};
use quaff_lab::{ChildProcess, LabPlan};
use quaff_os::bpf::{Asm, Program, Reg, Verdict};
use quaff_os::ethtool::{self, Card};
use quaff_os::packet::CountingTap;
use quaff_os::rtnl::{self, LinkChange, Rtnl};
use quaff_testkit as testing;
use quaff_testkit::test_name;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Findings that the test machine may have and that no test here causes.
const OF_THE_MACHINE: &str = "clock-sync,clock-source,governor,idle,veth-offloads";

/// A lab, a doctor in it, and files that the doctor takes for the machine's.
struct Ward {
    bench: Bench,
}

/// The output of the doctor.
struct Answer {
    code: i32,
    stdout: String,
    stderr: String,
    json: Value,
}

impl Ward {
    fn new(test: &str) -> Option<Self> {
        let bench = Bench::new(test, 64 << 20)?;
        let ward = Self { bench };
        fs::create_dir(ward.core()).unwrap();
        for (name, value) in [
            ("netdev_max_backlog", "16384\n"),
            ("netdev_budget", "600\n"),
            ("netdev_budget_usecs", "8000\n"),
            ("rmem_max", "4194304\n"),
        ] {
            fs::write(ward.core().join(name), value).unwrap();
        }
        Some(ward)
    }

    /// The directory that the doctor sees as /proc/sys/net/core.
    fn core(&self) -> PathBuf {
        self.bench.dir.path().join("core")
    }

    fn dir(&self) -> String {
        self.bench.dir.path().display().to_string()
    }

    /// `PREFIX quaff doctor ARGS`, in the receiving namespace.
    fn run(&self, prefix: &str, quaff: &str, args: &[&str]) -> Answer {
        let mut command = self.bench.lab.rx.command("sh").expect("a command in the lab");
        let state = self.bench.path("state/doctor.json");
        let script =
            format!("mount --bind {} /proc/sys/net/core || exit 99; {prefix} \"$@\"", self.core().display());
        let script = script.replace("DIR", &self.dir());
        command.args(["-c", &script, "sh", quaff, "doctor", "--time", "50ms", "--state", &state]);
        let done = command.args(args).output().expect("sh runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Answer {
            code: done.status.code().unwrap_or(-1),
            json: serde_json::from_slice(&done.stdout).unwrap_or(Value::Null),
            stdout: text(&done.stdout),
            stderr: text(&done.stderr),
        }
    }

    fn doctor(&self, args: &[&str]) -> Answer {
        let all = [&["--json", "--ignore", OF_THE_MACHINE], args].concat();
        self.run("", QUAFF, &all)
    }

    fn undo(&self) -> Answer {
        self.run("", QUAFF, &["--undo", "--json"])
    }

    fn gro(&self) -> bool {
        let features = self.bench.lab.rx.run(|| Card::read("rx0").features).expect("entered");
        features.expect("rx0 has offloads")["rx-gro"].is_on
    }
}

impl Answer {
    fn ids(&self) -> Vec<&str> {
        let findings =
            self.json["findings"].as_array().unwrap_or_else(|| panic!("{}{}", self.stdout, self.stderr));
        findings.iter().map(|finding| finding["id"].as_str().expect("a name")).collect()
    }

    #[track_caller]
    fn finding(&self, id: &str) -> &Value {
        let findings =
            self.json["findings"].as_array().unwrap_or_else(|| panic!("{}{}", self.stdout, self.stderr));
        let found = findings.iter().find(|finding| finding["id"] == id);
        let found = found.unwrap_or_else(|| panic!("no {id} in {}", self.stdout));
        for word in ["what", "why", "fix", "severity"] {
            assert!(found[word].as_str().is_some_and(|text| !text.is_empty()), "{word} of {found}");
        }
        found
    }
}

#[test]
fn a_healthy_machine_is_silent() {
    let Some(ward) = Ward::new(test_name!()) else { return };
    let answer =
        ward.run("", QUAFF, &["-i", "rx0", "--dir", &ward.dir(), "--rate", "8k", "--ignore", OF_THE_MACHINE]);
    assert_eq!((answer.code, answer.stdout.as_str(), answer.stderr.as_str()), (0, "", ""));
    let answer = ward.doctor(&["-i", "rx0"]);
    assert_eq!((answer.code, answer.ids()), (0, vec![]));
    let fine = answer.json["fine"].as_array().expect("what was looked at");
    assert!(
        fine.iter().any(|fine| fine["what"] == "gro of rx0" && fine["value"] == "off"),
        "{}",
        answer.stdout
    );
}

#[test]
fn gro_is_turned_off_and_on_again() {
    let Some(ward) = Ward::new(test_name!()) else { return };
    ward.bench
        .lab
        .rx
        .run(|| Card::change("rx0", ethtool::Change::Feature("rx-gro", true)))
        .expect("entered")
        .expect("set");
    let answer = ward.doctor(&["-i", "rx0"]);
    assert_eq!((answer.code, answer.ids()), (1, vec!["gro"]));
    assert_eq!(answer.finding("gro")["fix"], "ethtool -K rx0 gro off");
    assert_eq!(answer.finding("gro")["interface"], "rx0");
    // Only what was named is changed.
    let answer = ward.doctor(&["--fix"]);
    assert_eq!((answer.code, answer.json["fixed"].as_array().map(Vec::len), ward.gro()), (0, Some(0), true));
    for _ in 0..2 {
        let answer = ward.doctor(&["-i", "rx0", "--fix"]);
        assert_eq!((answer.code, answer.ids(), ward.gro()), (0, vec![], false), "{}", answer.stderr);
    }
    // From the other namespace it is not undone.
    let state = ward.bench.path("state/doctor.json");
    let other = run(ward.bench.lab.tx.command(QUAFF).unwrap().args(["--version"]));
    assert!(other.contains("quaff"), "{other}");
    let mut elsewhere = ward.bench.lab.tx.command(QUAFF).unwrap();
    let done = elsewhere.args(["doctor", "--undo", "--state", &state]).output().unwrap();
    assert_eq!((done.status.code(), ward.gro()), (Some(1), false));
    let answer = ward.undo();
    assert_eq!((answer.code, ward.gro()), (0, true), "{}", answer.stdout);
    assert_eq!(answer.json["undone"][0]["was"], "off", "{}", answer.stdout);
    assert!(!Path::new(&state).exists());
    let answer = ward.undo();
    assert_eq!((answer.code, answer.json["undone"].as_array().map(Vec::len)), (0, Some(0)));
}

#[test]
fn a_backlog_that_is_too_small_is_raised_and_restored() {
    let Some(ward) = Ward::new(test_name!()) else { return };
    let file = ward.core().join("netdev_max_backlog");
    fs::write(&file, "1000\n").unwrap();
    let answer = ward.doctor(&["-i", "rx0"]);
    assert_eq!((answer.code, answer.ids()), (1, vec!["backlog"]));
    assert_eq!(answer.finding("backlog")["severity"], "warning");
    let answer = ward.doctor(&["-i", "rx0", "--fix"]);
    assert_eq!((answer.code, answer.ids()), (0, vec![]), "{}", answer.stdout);
    assert_eq!(fs::read_to_string(&file).unwrap(), "10000");
    // Another start of the machine is not this one.
    let state = PathBuf::from(ward.bench.path("state/doctor.json"));
    let text = fs::read_to_string(&state).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    fs::write(&state, text.replace(boot.trim(), "another")).unwrap();
    let answer = ward.undo();
    assert_eq!(answer.code, 2, "{}", answer.stdout);
    assert!(answer.stderr.contains("reboot"), "{}", answer.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), "10000");
    fs::write(&state, text).unwrap();
    assert_eq!(ward.undo().code, 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), "1000");
}

#[test]
fn governors_sleep_and_clocks_are_fixed_and_restored() {
    let Some(ward) = Ward::new(test_name!()) else { return };
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let settings = [
        ("cpu/cpu0/cpufreq/scaling_governor", "powersave\n", "performance"),
        ("cpu/cpu0/cpuidle/state3/disable", "0\n", "1"),
    ];
    let rest = [
        ("cpu/online", online.as_str()),
        ("cpu/cpu0/cpufreq/scaling_available_governors", "performance powersave\n"),
        ("cpu/cpu0/cpufreq/scaling_min_freq", "800000\n"),
        ("cpu/cpu0/cpufreq/scaling_max_freq", "3600000\n"),
        ("cpu/cpu0/cpuidle/state3/name", "C6\n"),
        ("cpu/cpu0/cpuidle/state3/latency", "500\n"),
        ("clock/current_clocksource", "hpet\n"),
        ("clock/available_clocksource", "tsc hpet acpi_pm\n"),
    ];
    let path = |name: &str| ward.bench.dir.path().join(name);
    for (name, text) in settings.iter().map(|(name, was, _)| (*name, *was)).chain(rest) {
        fs::create_dir_all(path(name).parent().unwrap()).unwrap();
        fs::write(path(name), text).unwrap();
    }
    let is = |name: &str| fs::read_to_string(path(name)).unwrap().trim().to_owned();
    let mounts = "mount --bind DIR/cpu /sys/devices/system/cpu || exit 99; \
                  mount --bind DIR/clock /sys/devices/system/clocksource/clocksource0 || exit 99;";
    let doctor = |args: &[&str]| ward.run(mounts, QUAFF, &[&["--json"], args].concat());
    let answer = doctor(&["--ignore", "clock-sync"]);
    assert_eq!(
        (answer.code, answer.ids()),
        (1, vec!["governor", "clock-source", "idle"]),
        "{}",
        answer.stderr
    );
    let answer = doctor(&["--ignore", "clock-sync,clock-source", "--fix"]);
    assert_eq!((answer.code, answer.ids()), (0, vec![]), "{}{}", answer.stdout, answer.stderr);
    assert!(settings.iter().all(|(name, _, mended)| is(name) == *mended), "{}", answer.stdout);
    let answer = doctor(&["--undo"]);
    assert_eq!(answer.code, 0, "{}{}", answer.stdout, answer.stderr);
    assert!(settings.iter().all(|(name, was, _)| is(name) == was.trim()), "{}", answer.stdout);
    assert_eq!(is("clock/current_clocksource"), "hpet", "a clock is answer of, and never changed");
}

#[test]
fn settings_that_a_namespace_hides_are_reported_as_not_read() {
    let bench = lab_bench!(0);
    let args = ["doctor", "-i", "rx0", "--time", "0s", "--ignore", OF_THE_MACHINE];
    let done = bench.quaff(&args).output().expect("quaff runs");
    let stderr = String::from_utf8_lossy(&done.stderr);
    let line = stderr.lines().find(|line| line.starts_with("not read: net.core.netdev_max_backlog: "));
    assert!(line.is_some_and(|line| line.contains("nsenter -t 1 -n sysctl")), "{stderr}");
    assert_eq!((done.status.code(), String::from_utf8_lossy(&done.stdout).as_ref()), (Some(0), ""));
}

#[test]
fn another_reader_is_named_and_reported_at_the_start_of_a_capture() {
    let test = test_name!();
    let Some(ward) = Ward::new(test) else { return };
    let open = || CountingTap::open(rtnl::link("rx0")?.index, "rx0", None);
    let reader = ward.bench.lab.rx.run(open).expect("entered").expect("a socket");
    let answer = ward.doctor(&["-i", "rx0"]);
    assert_eq!((answer.code, answer.ids()), (1, vec!["readers"]));
    let pid = std::process::id();
    assert!(answer.finding("readers")["fix"].as_str().unwrap().starts_with(&format!("ps -fp {pid} ")));
    let begin = |args: &[&str]| {
        let file = ward.bench.path("a.pcapng");
        let all = [&["capture", "-i", "rx0", "-w", &file, "--json"], args].concat();
        let mut running = ChildProcess::start(ward.bench.quaff(&all)).expect("quaff runs");
        assert!(running.hears("capturing", support::PATIENCE), "{}", running.heard);
        interrupt(running)
    };
    let ended = begin(&[]);
    let lines: Vec<_> =
        ended.stderr.lines().filter(|line| line.contains("1 other packet socket on rx0")).collect();
    assert!(lines.len() == 1 && lines[0].starts_with("quaff: "), "{}", ended.stderr);
    assert!(ended.json["lossless"].is_boolean(), "stdout is the ledger's: {}", ended.json);
    assert!(!begin(&["-q"]).stderr.contains("packet socket"));
    drop(reader);
    assert_eq!(ward.doctor(&["-i", "rx0"]).ids(), Vec::<&str>::new());
    assert!(!begin(&[]).stderr.contains("quaff doctor"), "a healthy interface is not spoken of");
}

#[test]
fn a_program_before_the_sockets_is_found_and_its_fix_takes_it_off() {
    let test = test_name!();
    let Some(ward) = Ward::new(test) else { return };
    if tool(test, "ip").is_none() {
        return;
    }
    let mut asm = Asm::default();
    asm.mov64(Reg::R0, Verdict::XdpPass);
    asm.exit();
    let program = Program::load_xdp("quaff_doctor", asm).expect("loaded");
    let attach = || {
        let mut rtnl = Rtnl::open()?;
        let index = rtnl.link("rx0")?.index;
        rtnl.change(index, LinkChange::Xdp(Some(&program)))
    };
    ward.bench.lab.rx.run(attach).expect("entered").expect("attached");
    let answer = ward.doctor(&["-i", "rx0"]);
    assert_eq!((answer.code, answer.ids()), (1, vec!["xdp"]));
    let fix = answer.finding("xdp")["fix"].as_str().unwrap().to_owned();
    run(ward.bench.lab.rx.command("sh").unwrap().args(["-c", &fix]));
    assert_eq!(ward.doctor(&["-i", "rx0"]).ids(), Vec::<&str>::new());
}

#[test]
fn an_interface_that_is_down_is_critical() {
    let Some(ward) = Ward::new(test_name!()) else { return };
    let set = |up: bool| {
        let change = move || {
            let mut rtnl = Rtnl::open()?;
            let index = rtnl.link("rx0")?.index;
            rtnl.change(index, LinkChange::Up(up))
        };
        ward.bench.lab.rx.run(change).expect("entered").expect("set");
    };
    set(false);
    let answer = ward.doctor(&["-i", "rx0"]);
    assert_eq!((answer.code, answer.ids()), (1, vec!["down"]));
    assert_eq!(answer.finding("down")["severity"], "critical");
    set(true);
    assert_eq!(ward.doctor(&["-i", "nosuch0"]).code, 2);
}

#[test]
fn the_channels_of_a_driver_are_changed_and_restored() {
    // A veth has channels; the driver refuses what it does not have: a ring, an RSS table.
    let plan = LabPlan { queues: 4, ..LabPlan::default() };
    let Some(lab) = testing::lab_of(test_name!(), &plan) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("doctor.json");
    let change = |setting, to: &str| Change { setting, to: to.to_owned() };
    let channels = |to| change(Setting::Channels("rx0".into()), to);
    let work = || {
        let fixed = fix(&[channels("2")], &state)?;
        let none = [Setting::Ring("rx0".into()), Setting::Rss("rx0".into())].map(|none| change(none, "1"));
        let refused = fix(&[&[channels("5")], &none[..]].concat(), &state)?;
        Ok::<_, quaff::Error>((fixed, refused, undo(&state)?))
    };
    let (fixed, refused, undone) = lab.rx.run(work).expect("entered").expect("done");
    assert_eq!((fixed[0].was.as_str(), fixed[0].now.as_deref()), ("4", Some("2")));
    assert!(refused.iter().all(|done| done.refused.is_some()), "{refused:?}");
    assert_eq!(undone.iter().map(|done| done.now.as_deref()).collect::<Vec<_>>(), [Some("4")], "{undone:?}");
}

/// A program that any user may run, as an unprivileged user.
fn for_all(test: &str) -> Option<(tempfile::TempDir, String)> {
    use std::os::unix::fs::PermissionsExt;
    for name in ["setpriv", "setcap", "prlimit"] {
        tool(test, name)?;
    }
    let dir = tempfile::tempdir().expect("a folder");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = dir.path().join("quaff");
    testing::copy_program(QUAFF, &program);
    let path = program.display().to_string();
    let runs =
        Command::new("setpriv").args(["--reuid", "65534", "--clear-groups", &path, "--version"]).output();
    if !runs.is_ok_and(|done| done.status.success()) {
        testing::skip(test, "other users may not run programs in the folder for tests");
        return None;
    }
    Some((dir, path))
}

#[test]
fn without_capabilities_and_locked_memory_the_fixes_give_them() {
    let test = test_name!();
    let (Some(ward), Some((_dir, quaff))) = (Ward::new(test), for_all(test)) else { return };
    let unprivileged = "ulimit -l 8192; exec setpriv --reuid 65534 --clear-groups";
    let args = ["--json", "--ignore", OF_THE_MACHINE];
    let answer = ward.run(unprivileged, &quaff, &args);
    assert_eq!(
        (answer.code, answer.ids()),
        (1, vec!["capability", "memlock", "priority"]),
        "{}",
        answer.stderr
    );
    assert_eq!(answer.finding("capability")["severity"], "critical");
    // The limit, for a shell; root itself may lack what it takes (CAP_SYS_RESOURCE), as in many containers.
    let raise = Command::new("prlimit").args(["--memlock=unlimited:unlimited", "true"]).output();
    if raise.is_ok_and(|done| done.status.success()) {
        let fix = answer.finding("memlock")["fix"].as_str().unwrap().replace("sudo ", "");
        let with_limit = unprivileged.replace("exec", &format!("{fix}; exec"));
        assert_eq!(ward.run(&with_limit, &quaff, &args).ids(), ["capability", "priority"]);
    } else {
        testing::skip(test, "the limit of locked memory cannot be raised here");
    }
    // The capabilities, for good.
    let fix = answer.finding("capability")["fix"].as_str().unwrap();
    assert!(fix.contains(&quaff), "{fix}");
    let given = Command::new("sh").args(["-c", fix]).status();
    if !given.is_ok_and(|status| status.success()) {
        return testing::skip(test, "files here cannot have capabilities");
    }
    let answer = ward.run(unprivileged, &quaff, &args);
    assert_eq!((answer.code, answer.ids()), (0, vec![]), "{}", answer.stderr);
}

#[test]
fn a_full_disk_and_one_in_memory_are_reported() {
    let Some(ward) = Ward::new(test_name!()) else { return };
    let place = ward.bench.path("mnt");
    fs::create_dir(&place).unwrap();
    let mount = format!("mount -t tmpfs -o size=1m none {place} || exit 99;");
    let args = ["--json", "--ignore", OF_THE_MACHINE, "--dir", &place];
    let answer = ward.run(&mount, QUAFF, &args);
    if answer.code == 99 {
        return testing::skip(test_name!(), "this machine mounts no tmpfs");
    }
    assert_eq!((answer.code, answer.ids()), (1, vec!["space", "memory-fs"]), "{}", answer.stderr);
    assert_eq!(answer.finding("space")["severity"], "critical");
    let answer = ward.run(&mount.replace("size=1m", "size=1m,ro"), QUAFF, &args);
    assert_eq!((answer.code, answer.ids()), (1, vec!["read-only"]), "{}", answer.stderr);
    // What is under the mount is a disk with room.
    let answer = ward.run("", QUAFF, &args);
    assert_eq!((answer.code, answer.ids()), (0, vec![]), "{}", answer.stderr);
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "nothing of a trial stays");
    let answer = ward.doctor(&["--dir", "/no/such/folder"]);
    assert_eq!((answer.code, answer.ids()), (1, vec!["dir"]));
}

/// A group of processes that may write so many bytes a second to the disk that holds `dir` (blkio, cgroups v1).
struct Throttle(PathBuf);

impl Throttle {
    fn new(dir: &Path, bytes_per_second: u64) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let device = fs::metadata(dir).ok()?.dev();
        let (major, minor) = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xfff00));
        let group = Path::new("/sys/fs/cgroup/blkio").join(format!("quaff-doctor-{}", std::process::id()));
        fs::create_dir(&group).ok()?;
        let throttle = Self(group);
        let limit = format!("{major}:{minor} {bytes_per_second}");
        fs::write(throttle.0.join("blkio.throttle.write_bps_device"), limit).ok()?;
        Some(throttle)
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // The last process of it may still be ending.
        for _ in 0..50 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn a_slow_disk_is_measured_and_set_against_the_rate() {
    let test = test_name!();
    let dir = folder();
    if !testing::space(test, dir.path(), 64 << 20) {
        return;
    }
    let Some(throttle) = Throttle::new(dir.path(), 10_000_000) else {
        return testing::skip(test, "there is no blkio group to slow a disk down with");
    };
    let place = dir.path().display().to_string();
    let script = format!("echo $$ > {}/cgroup.procs || exit 99; exec \"$@\"", throttle.0.display());
    let args = [
        "doctor",
        "--json",
        "--dir",
        &place,
        "--time",
        "200ms",
        "--rate",
        "160M",
        "--ignore",
        OF_THE_MACHINE,
    ];
    let done = Command::new("sh").args(["-c", &script, "sh", QUAFF]).args(args).output().unwrap();
    let json: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    let answer = Answer { code: 1, stdout: json.to_string(), stderr: String::new(), json };
    let slow = answer.finding("write-rate");
    // 20 MB/s are wanted, and 10 MB/s are to be had.
    assert_eq!(slow["severity"], "critical");
    assert!(slow["why"].as_str().unwrap().contains("20 MB/s"), "{slow}");
    drop(throttle);
}
