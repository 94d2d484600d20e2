//! A group of processes whose memory has a limit (cgroups v1 and v2), for tests in which the kernel ends one of them.
//! It never limits a process that was not started for it.

use quaff_testkit as testing;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The folder of cgroups v2, and of the memory controller of v1.
const ROOT: &str = "/sys/fs/cgroup";
const ROOT_V1: &str = "/sys/fs/cgroup/memory";

/// The group; dropped, it is removed.
pub(crate) struct MemoryGroup {
    dir: PathBuf,
    /// Bytes that its processes may have together.
    limit: u64,
    /// The file that counts processes ended for their memory.
    events: &'static str,
}

impl MemoryGroup {
    /// A group with a limit of `bytes`, or `None` after a skip.
    pub(crate) fn new(test: &str, bytes: u64) -> Option<Self> {
        let controllers = fs::read_to_string(format!("{ROOT}/cgroup.subtree_control")).unwrap_or_default();
        let is_v2 = controllers.split_whitespace().any(|name| name == "memory");
        let (root, limit, events) = match is_v2 {
            true => (ROOT, "memory.max", "memory.events"),
            false => (ROOT_V1, "memory.limit_in_bytes", "memory.oom_control"),
        };
        let group = Self {
            dir: Path::new(root).join(format!("quaff-test-{}", std::process::id())),
            limit: bytes,
            events,
        };
        let is_made = fs::create_dir(&group.dir).is_ok();
        if !is_made || fs::write(group.dir.join(limit), bytes.to_string()).is_err() {
            testing::skip(test, "there is no memory group to limit a process by");
            return None;
        }
        // Where the kernel can swap.
        let _ = fs::write(group.dir.join("memory.swap.max"), "0");
        let _ = fs::write(group.dir.join("memory.memsw.limit_in_bytes"), bytes.to_string());
        Some(group)
    }

    /// Makes `sh` run the words that follow once it is in the group. The folder of groups is hidden in the namespaces
    /// of a lab, so the test [admits](MemoryGroup::admit) it.
    pub(crate) fn wait_in(&self, sh: &mut Command) {
        let name = self.dir.file_name().expect("a name").display();
        let script = format!("until grep -q {name} /proc/self/cgroup; do sleep 0.01; done; exec \"$@\"");
        sh.args(["-c", &script, "sh"]);
    }

    /// Moves a process into the group. Its memory so far is not counted.
    pub(crate) fn admit(&self, pid: u32) {
        fs::write(self.dir.join("cgroup.procs"), pid.to_string()).expect("a process");
    }

    /// Has a process of the group take nearly all that it may have, so that the kernel ends another one: `victim`.
    pub(crate) fn exhaust(&self, victim: u32) {
        fs::write(format!("/proc/{victim}/oom_score_adj"), "1000").expect("a process");
        let block = format!("bs={}", self.limit / 16 * 15);
        let mut taking = Command::new("sh");
        self.wait_in(&mut taking);
        taking.args(["dd", "if=/dev/zero", "of=/dev/null", "count=1", &block]).stderr(Stdio::piped());
        let taking = taking.spawn().expect("sh runs");
        self.admit(taking.id());
        let done = taking.wait_with_output().expect("dd runs");
        // It may be the next one to be ended, if the memory of the victim is not free at once.
        let is_ended = done.status.signal() == Some(9);
        assert!(done.status.success() || is_ended, "{done:?}");
    }

    /// The number of processes that the kernel has ended for their memory.
    pub(crate) fn ended(&self) -> u64 {
        let text = fs::read_to_string(self.dir.join(self.events)).expect("counters");
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.unwrap_or_else(|| panic!("{text}")).trim().parse().expect("a number")
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The last process of it may still be ending.
        for _ in 0..50 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
