//! Memory that this process may still allocate: that of the machine, or of its cgroup if that is less.

use std::fs;
use std::path::Path;

/// Free memory for this process, bytes; 1 GiB if unknown.
pub fn free_bytes() -> u64 {
    let machine = available_bytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default());
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().filter_map(group_free_bytes).min();
    machine.unwrap_or(1 << 30).min(group.unwrap_or(u64::MAX))
}

/// `MemAvailable` of /proc/meminfo.
fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib << 10)
}

/// Bytes that the cgroup of a line of /proc/self/cgroup (`ID:CONTROLLERS:PATH`) and its parents leave free.
fn group_free_bytes(line: &str) -> Option<u64> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let (root, limit, usage) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
        _ if controllers.split(',').any(|name| name == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
        }
        _ => return None,
    };
    let of = |group: &Path| {
        let number = |name: &str| {
            let file = Path::new(root).join(group).join(name);
            fs::read_to_string(file).ok()?.trim().parse::<u64>().ok()
        };
        Some(number(limit)?.saturating_sub(number(usage)?))
    };
    Path::new(path.trim_start_matches('/')).ancestors().filter_map(of).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_read_in_kib() {
        let meminfo = "MemTotal:       24684092 kB\nMemAvailable:   12345678 kB\n";
        assert_eq!(available_bytes(meminfo), Some(12_345_678 << 10));
        assert_eq!(available_bytes("nonsense"), None);
        assert!(free_bytes() > 0);
        assert_eq!(group_free_bytes("7:pids:/x"), None);
    }
}
