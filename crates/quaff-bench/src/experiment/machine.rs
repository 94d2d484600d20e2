//! Facts about a machine as names and values; facts that cannot be read are omitted.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A machine's facts by name, for readers and comparisons: kernel, CPU, cores, governor, clock source,
/// virtualisation, memory, disk, NIC, driver, offloads, rings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    #[serde(flatten)]
    pub facts: BTreeMap<String, String>,
}

/// Facts that are the content of a one-line file.
const LINES: [(&str, &str); 9] = [
    ("kernel", "/proc/sys/kernel/osrelease"),
    ("kernel build", "/proc/sys/kernel/version"),
    ("governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    ("clock source", "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("SMT", "/sys/devices/system/cpu/smt/control"),
    ("cores on line", "/sys/devices/system/cpu/online"),
    ("isolated cores", "/sys/devices/system/cpu/isolated"),
    ("load before", "/proc/loadavg"),
    ("net.core.netdev_max_backlog", "/proc/sys/net/core/netdev_max_backlog"),
];

impl Machine {
    /// Facts about this machine; `dir` is where the experiment's files are written.
    pub(crate) fn here(dir: &Path) -> Self {
        let mut facts = BTreeMap::new();
        let mut fact = |name: &str, value: Option<String>| {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                facts.insert(name.to_owned(), value);
            }
        };
        for (name, path) in LINES {
            fact(name, line(path));
        }
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        fact("CPU", field(&cpu, "model name", ':').or_else(|| field(&cpu, "Model", ':')));
        fact("cores", Some(quaff_os::cpu::cores().to_string()));
        fact("virtualisation", virtualisation(&cpu));
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        fact("memory", field(&memory, "MemTotal", ':').and_then(|kib| gib_of_kib(&kib)));
        let system = fs::read_to_string("/etc/os-release").unwrap_or_default();
        fact("system", field(&system, "PRETTY_NAME", '=').map(|name| name.trim_matches('"').to_owned()));
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        fact("disk", dir.canonicalize().ok().and_then(|dir| disk(&mounts, &dir)));
        fact("quaff", Some(env!("CARGO_PKG_VERSION").to_owned()));
        Self { facts }
    }
}

fn line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// The value of the first line with that name.
fn field(text: &str, name: &str, separator: char) -> Option<String> {
    let value = |line: &str| {
        let (found, value) = line.split_once(separator)?;
        (found.trim() == name).then(|| value.trim().to_owned())
    };
    text.lines().find_map(value)
}

fn gib_of_kib(value: &str) -> Option<String> {
    let kib: f64 = value.split_whitespace().next()?.parse().ok()?;
    Some(format!("{:.1} GiB", kib / f64::from(1 << 20)))
}

/// The vendor of the virtual machine, if the CPU reports a hypervisor.
fn virtualisation(cpu: &str) -> Option<String> {
    let flags = field(cpu, "flags", ':').unwrap_or_default();
    if !flags.split_whitespace().any(|flag| flag == "hypervisor") {
        return Some("none that the CPU tells of".to_owned());
    }
    let names = ["/sys/class/dmi/id/sys_vendor", "/sys/class/dmi/id/product_name", "/sys/hypervisor/type"];
    let named: Vec<_> = names.iter().filter_map(|path| line(path)).filter(|name| !name.is_empty()).collect();
    Some(if named.is_empty() { "a virtual machine".to_owned() } else { named.join(", ") })
}

/// The file system of `dir`: the mount (proc_pid_mountinfo(5)) with the longest matching mount point.
fn disk(mounts: &str, dir: &Path) -> Option<String> {
    let mount = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let place = left.split(' ').nth(4)?.to_owned();
        let mut right = right.split(' ');
        let (kind, device) = (right.next()?, right.next()?);
        dir.starts_with(&place).then(|| (place.len(), format!("{kind} on {device}, mounted at {place}")))
    };
    // Of two mounts at the same point the later one covers the other.
    mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length).map(|(_, words)| words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described() {
        let Machine { facts } = Machine::here(Path::new("/"));
        for name in ["kernel", "cores", "memory", "virtualisation", "disk", "quaff"] {
            assert!(facts.get(name).is_some_and(|value| !value.is_empty()), "{name} of {facts:?}");
        }
        assert!(facts.values().all(|value| value.trim() == value), "{facts:?}");
    }

    #[test]
    fn the_mount_that_is_nearest_is_the_disk() {
        let mounts = "22 1 254:0 / / rw,noatime shared:1 - ext4 /dev/vda rw\n\
                      40 22 0:30 / /var rw - tmpfs none rw\n\
                      41 40 8:1 / /var/tmp rw - xfs /dev/sdb1 rw\n\
                      42 41 8:2 / /var/tmp rw - btrfs /dev/sdc1 rw\n";
        let of = |dir: &str| disk(mounts, Path::new(dir));
        assert_eq!(of("/var/tmp/x").as_deref(), Some("btrfs on /dev/sdc1, mounted at /var/tmp"));
        assert_eq!(of("/variable").as_deref(), Some("ext4 on /dev/vda, mounted at /"));
        assert_eq!(disk("", Path::new("/")), None);
    }

    #[test]
    fn fields_are_found_by_their_names() {
        let text = "model name\t: A CPU @ 2.0 GHz\nflags\t\t: fpu hypervisor avx\n";
        assert_eq!(field(text, "model name", ':').as_deref(), Some("A CPU @ 2.0 GHz"));
        assert_eq!(field(text, "model", ':'), None);
        assert_eq!(virtualisation("flags : fpu avx").as_deref(), Some("none that the CPU tells of"));
        assert_eq!(gib_of_kib("24641536 kB").as_deref(), Some("23.5 GiB"));
    }
}
