//! Files that another process removes while they are written. The kernel frees such a file with the last descriptor, so
//! its packets are lost when the run ends; until then another process can copy it from /proc/PID/fd.

use super::state::Files;
use crate::write::descriptor::has_name;
use quaff_os::clock::steady_ns;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// Interval of the checks of the link count of the file that is being written, ns.
const LOOK_NS: u64 = 1_000_000_000;

impl Files {
    /// Sets the gauge of the removed file when the file that is being written has lost its name.
    pub(super) fn look_at_name(&mut self) {
        let now_ns = steady_ns();
        if now_ns - self.name_looked_ns < LOOK_NS || self.ended {
            return;
        }
        self.name_looked_ns = now_ns;
        let is_removed = self.current.had_name && !has_name(&self.current.file);
        let descriptor = self.current.file.as_raw_fd().unsigned_abs();
        self.gauges.removed_file.set(if is_removed { u64::from(descriptor) + 1 } else { 0 });
    }

    /// Counts the packets of a removed file as lost. `synced` of its `bytes` had been synced.
    pub(super) fn count_removed(&mut self, path: PathBuf, packets: u64, bytes: u64, synced: u64) {
        let packets = packets.min(self.tally.written);
        self.tally.written -= packets;
        self.gauges.written.set(self.tally.written);
        self.count_lost(packets);
        self.tally.bytes = self.tally.bytes.saturating_sub(bytes);
        self.gauges.bytes.set(self.tally.bytes);
        self.tally.synced_bytes = self.tally.synced_bytes.saturating_sub(synced);
        self.tally.files = self.tally.files.saturating_sub(1);
        self.tally.removed.push((path.display().to_string(), packets));
    }
}
