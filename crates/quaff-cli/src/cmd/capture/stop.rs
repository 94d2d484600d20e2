//! The conditions that end a capture: `--stop-size`, `--stop-files`, and those of dumpcap's `-a`. The nearest one ends
//! it.

use super::Args;
use super::auto_stop::AutoStop;
use quaff_file::write::FileLimit;
use std::time::Duration;

impl Args {
    /// The time after which the capture ends.
    pub(crate) fn duration(&self) -> Option<Duration> {
        let given = self.autostop.iter().filter_map(|stop| match stop {
            AutoStop::Duration(time) => Some(*time),
            _ => None,
        });
        given.chain(self.end.duration).min()
    }

    /// The number of packets after which it ends.
    pub(super) fn count(&self) -> Option<u64> {
        self.least(*self.input.count, |stop| match stop {
            AutoStop::Packets(count) => Some(*count),
            _ => None,
        })
    }

    /// The size and the number of files at which it ends.
    pub(super) fn limit(&self) -> FileLimit {
        let files = self.least(self.rotation.stop_files, |stop| match stop {
            AutoStop::Files(files) => Some(*files),
            _ => None,
        });
        // In a folder dumpcap's condition is the size of a file.
        let of_file = self.file_bytes().filter(|_| !self.is_into_folder());
        FileLimit { files, bytes: self.stop_size.into_iter().chain(of_file).min() }
    }

    /// The size at which the next file of a folder begins.
    pub(super) fn rotate_bytes(&self) -> Option<u64> {
        self.rotation.folder.rotate_size.into_iter().chain(self.file_bytes()).min()
    }

    fn file_bytes(&self) -> Option<u64> {
        self.least(None, |stop| match stop {
            AutoStop::FileSize(bytes) => Some(*bytes),
            _ => None,
        })
    }

    fn least(&self, flag: Option<u64>, of: impl Fn(&AutoStop) -> Option<u64>) -> Option<u64> {
        self.autostop.iter().filter_map(of).chain(flag).min()
    }
}
