//! Memory that this process may still allocate: that of the machine, or of its cgroup if that is less.
//!
//! The limits of a cgroup stand in files of its hierarchy (cgroups(7)), which is found by /proc/self/mountinfo.
//! `ip netns exec` mounts another /sys, which hides it: it is then looked up in the files of a parent process. They are
//! opened once, because a confined process opens no others.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The most that a default size takes for free where a cgroup may have a limit that cannot be looked up.
const UNKNOWN_BYTES: u64 = 256 << 20;

/// Free memory for this process, as far as its limits are known, bytes; 1 GiB if unknown.
pub fn free_bytes() -> u64 {
    let machine = available_bytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default());
    let group = limits().iter().flatten().filter_map(Group::free_bytes).min();
    machine.unwrap_or(1 << 30).min(group.unwrap_or(u64::MAX))
}

/// The same, as default sizes are derived from it: at most 256 MiB if the cgroup of this process is not visible.
pub fn default_free_bytes() -> u64 {
    free_bytes().min(if limits().is_some() { u64::MAX } else { UNKNOWN_BYTES })
}

fn limits() -> &'static Option<Vec<Group>> {
    static GROUPS: OnceLock<Option<Vec<Group>>> = OnceLock::new();
    GROUPS.get_or_init(groups)
}

/// `MemAvailable` of /proc/meminfo.
fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib << 10)
}

/// The files of a cgroup that limits memory.
#[derive(Debug)]
struct Group {
    limit: File,
    usage: File,
}

impl Group {
    fn open(dir: &Path, version: Version) -> Option<Self> {
        let [limit, usage] = version.files().map(|name| File::open(dir.join(name)).ok());
        Some(Self { limit: limit?, usage: usage? })
    }

    fn free_bytes(&self) -> Option<u64> {
        Some(number(&self.limit)?.saturating_sub(number(&self.usage)?))
    }
}

/// The number in a file; `None` for "max".
fn number(file: &File) -> Option<u64> {
    let mut text = [0; 32];
    let len = file.read_at(&mut text, 0).ok()?;
    str::from_utf8(&text[..len]).ok()?.trim().parse().ok()
}

/// The version of cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

impl Version {
    /// Files of limit and usage.
    fn files(self) -> [&'static str; 2] {
        match self {
            Self::V1 => ["memory.limit_in_bytes", "memory.usage_in_bytes"],
            Self::V2 => ["memory.max", "memory.current"],
        }
    }
}

/// The root of a tree of folders, and the mounts in it.
type View = (PathBuf, String);

/// The cgroups of this process and their parents, as far as they can have a limit of memory. `None` if it is in one
/// whose hierarchy is not visible.
fn groups() -> Option<Vec<Group>> {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let view = |process: &str, root: PathBuf| {
        (root, fs::read_to_string(format!("/proc/{process}/mountinfo")).unwrap_or_default())
    };
    let of_parent = |pid: u32| view(&pid.to_string(), PathBuf::from(format!("/proc/{pid}/root")));
    let parents = quaff_os::ancestors().map(|parent| of_parent(parent.pid));
    let views: Vec<_> = std::iter::once(view("self", "/".into())).chain(parents).collect();
    groups_in(&text, &views)
}

/// The same, of the lines of /proc/self/cgroup and of views, of which the first one counts that shows the hierarchy.
fn groups_in(text: &str, views: &[View]) -> Option<Vec<Group>> {
    let (mut found, mut is_hidden) = (Vec::new(), false);
    for (version, path) in text.lines().filter_map(group_of) {
        let in_view = |(root, mounts): &View| {
            let dirs = mounts.lines().filter_map(|line| folders(line, version, path)).next_back()?;
            let dirs = dirs.iter().map(|dir| root.join(dir.strip_prefix("/").unwrap_or(dir)));
            let dirs: Vec<_> = dirs.collect();
            // The mount may be hidden by another one.
            let is_visible = dirs.last().is_some_and(|top| top.join("cgroup.procs").exists());
            is_visible.then(|| dirs.iter().filter_map(|dir| Group::open(dir, version)).collect::<Vec<_>>())
        };
        match views.iter().find_map(in_view) {
            Some(groups) => found.extend(groups),
            // The root has no limit of its own.
            None => is_hidden |= path != "/",
        }
    }
    (!is_hidden || !found.is_empty()).then_some(found)
}

/// Version and path of a line of /proc/self/cgroup (`ID:CONTROLLERS:PATH`); `None` if that hierarchy does not limit
/// memory.
fn group_of(line: &str) -> Option<(Version, &str)> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    match controllers {
        "" => Some((Version::V2, path)),
        _ if controllers.split(',').any(|name| name == "memory") => Some((Version::V1, path)),
        _ => None,
    }
}

/// The folders of a cgroup and its parents, the top last, if a line of mountinfo (proc_pid_mountinfo(5)) is the mount
/// of its hierarchy.
fn folders(line: &str, version: Version, path: &str) -> Option<Vec<PathBuf>> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (top, point) = (left.next()?, left.next()?.replace(r"\040", " "));
    let mut right = right.split(' ');
    let (fs_type, options) = (right.next()?, right.nth(1).unwrap_or_default());
    let is_wanted = match version {
        Version::V1 => fs_type == "cgroup" && options.split(',').any(|option| option == "memory"),
        Version::V2 => fs_type == "cgroup2",
    };
    // A mount may show a part of the hierarchy only.
    let below = Path::new(path).strip_prefix(top).unwrap_or(Path::new(path.trim_start_matches('/')));
    is_wanted.then(|| below.ancestors().map(|dir| Path::new(&point).join(dir)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_read_in_kib() {
        let meminfo = "MemTotal:       24684092 kB\nMemAvailable:   12345678 kB\n";
        assert_eq!(available_bytes(meminfo), Some(12_345_678 << 10));
        assert_eq!(available_bytes("nonsense"), None);
        assert!(free_bytes() > 0 && default_free_bytes() <= free_bytes() + (1 << 30));
        assert_eq!(group_of("7:pids:/x"), None);
    }

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      36 31 0:33 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";

    /// A tree with the files of a cgroup and of its parents.
    fn tree(dirs: &[(&str, &str, &str)], version: Version) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (dir, limit, usage) in dirs {
            let dir = root.path().join(dir);
            fs::create_dir_all(&dir).unwrap();
            let [of_limit, of_usage] = version.files();
            for (name, text) in [(of_limit, limit), (of_usage, usage), ("cgroup.procs", &"")] {
                fs::write(dir.join(name), format!("{text}\n")).unwrap();
            }
        }
        root
    }

    fn free(text: &str, views: [(&Path, &str); 2]) -> Option<Option<u64>> {
        let views = views.map(|(root, mounts)| (root.to_owned(), mounts.to_owned()));
        groups_in(text, &views).map(|groups| groups.iter().filter_map(Group::free_bytes).min())
    }

    #[test]
    fn the_least_limit_of_a_group_and_its_parents_counts() {
        let v2 = tree(
            &[
                ("sys/fs/cgroup/a/b", "max", "5"),
                ("sys/fs/cgroup/a", "100", "30"),
                ("sys/fs/cgroup", "1000", "1"),
            ],
            Version::V2,
        );
        let none = Path::new("/no/such");
        assert_eq!(free("0::/a/b\n", [(v2.path(), V2), (none, "")]), Some(Some(70)));
        let v1 =
            tree(&[("sys/fs/cgroup/memory/x", "50", "60"), ("sys/fs/cgroup/memory", "99", "9")], Version::V1);
        let lines = "4:memory:/x\n8:pids:/x\n0::/\n";
        assert_eq!(free(lines, [(v1.path(), V1), (none, "")]), Some(Some(0)), "more in use than the limit");
        // A container sees its own group as the root of the mount.
        let part = "30 23 0:26 /docker/7 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let own = tree(&[("sys/fs/cgroup", "200", "20")], Version::V2);
        assert_eq!(free("0::/docker/7\n", [(own.path(), part), (none, "")]), Some(Some(180)));
    }

    #[test]
    fn lines_cut_anywhere_are_no_groups_and_never_panic() {
        for line in [
            V2,
            "35 31 0:32 /a\\040b /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
            "4:memory:/x",
            "0::/",
        ] {
            for end in (0..line.len()).filter(|end| line.is_char_boundary(*end)) {
                let part = &line[..end];
                group_of(part);
                for version in [Version::V1, Version::V2] {
                    folders(part, version, "/x");
                }
            }
        }
    }

    /// As `ip netns exec` does: its /sys has no cgroups.
    #[test]
    fn a_hierarchy_that_is_hidden_is_found_in_the_files_of_a_parent() {
        let hidden = tempfile::tempdir().unwrap();
        let host = tree(&[("sys/fs/cgroup/a", "100", "30"), ("sys/fs/cgroup", "max", "1")], Version::V2);
        let other = "31 23 0:27 / /sys rw - sysfs sysfs rw\n";
        for mounts in [other, V2, ""] {
            assert_eq!(free("0::/a\n", [(hidden.path(), mounts), (host.path(), V2)]), Some(Some(70)));
        }
        assert_eq!(free("0::/a\n", [(hidden.path(), other), (hidden.path(), "")]), None, "it is not known");
        assert_eq!(
            free("0::/\n", [(hidden.path(), other), (hidden.path(), "")]),
            Some(None),
            "the root has no limit"
        );
    }
}
