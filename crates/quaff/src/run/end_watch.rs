//! The end of a run whose output stops answering: a file system that is frozen, a disk that hangs. Its writer waits in
//! the kernel, where no signal reaches it, so it is abandoned: the run ends without it.
//!
//! This module never touches the output; it reads the writer's gauges.

use crate::Error;
use quaff_file::tally::WriterTally;
use quaff_file::write::WriterGauges;
use quaff_os::clock::steady_ns;
use quaff_os::{Reason, Stop};
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Time without an answer to a write after which a disk is abandoned.
const DISK_TIMEOUT: Duration = Duration::from_secs(10);
/// The same timeout while the files, which have all packets, are synced and named: a busy file system takes long for
/// that.
const SYNC_TIMEOUT: Duration = Duration::from_secs(60);
/// Grace for a writer that abandons the reader of a pipe itself, and counts more exactly.
const STREAM_GRACE: Duration = Duration::from_secs(5);

/// Watches a writer from the end of its run on.
pub(crate) struct EndWatch {
    gauges: Arc<WriterGauges>,
    run: Stop,
    abandoned: Stop,
    timeout: Duration,
    last: Cell<Option<Progress>>,
}

/// The progress of a writer, and the steady time at which it was first seen, ns.
#[derive(Debug, Clone, Copy)]
struct Progress {
    counts: [u64; 4],
    since_ns: u64,
}

impl EndWatch {
    /// A warning for the user.
    pub(crate) const NOTE: &str = "the output has stopped answering, and was abandoned after the end: the files may lack \
                                   their last blocks, or hold packets that count as lost";

    /// The failure of a run whose packets are all written, but whose files may be incomplete.
    pub(crate) fn error() -> Error {
        let late = io::Error::new(io::ErrorKind::TimedOut, "the output has stopped answering");
        Error::Os(quaff_os::Error::new("finish the output", late))
    }

    /// `run` is the stop of the run. `abandoned` is raised when the writer is no longer waited for: its lanes then lose
    /// what they cannot pass on. `reader_timeout` is that of a writer to a pipe; `None` for a disk.
    pub(crate) fn new(
        gauges: Arc<WriterGauges>,
        run: Stop,
        abandoned: Stop,
        reader_timeout: Option<Duration>,
    ) -> Self {
        let timeout = reader_timeout.map_or(DISK_TIMEOUT, |timeout| timeout + STREAM_GRACE);
        Self { gauges, run, abandoned, timeout, last: Cell::new(None) }
    }

    /// Returns whether a writer that still runs is abandoned: a signal or the time limit has ended the run, and the
    /// writer has made no progress since, for too long. Call it often from then on.
    pub(crate) fn is_abandoned(&self) -> bool {
        if self.abandoned.raised() {
            return true;
        }
        if !matches!(self.run.reason(), Some(Reason::Signal | Reason::Duration)) {
            return false;
        }
        let (now_ns, counts) = (steady_ns(), self.counts());
        let last = self.last.get().filter(|last| last.counts == counts);
        let last = last.unwrap_or(Progress { counts, since_ns: now_ns });
        self.last.set(Some(last));
        let timeout = match self.gauges.phase.get() {
            WriterGauges::WRITING => self.timeout,
            WriterGauges::SYNCING => SYNC_TIMEOUT.max(self.timeout),
            _ => Duration::MAX,
        };
        let is_late = u128::from(now_ns - last.since_ns) >= timeout.as_nanos();
        if is_late {
            self.abandoned.raise(Reason::WriteError("the output has stopped answering".into()));
        }
        is_late
    }

    /// Returns whether the writer was abandoned.
    pub(crate) fn has_abandoned(&self) -> bool {
        self.abandoned.raised()
    }

    /// The counts of an abandoned writer that received `packed` packets: those that it had not counted as written are
    /// lost.
    pub(crate) fn tally(&self, packed: u64) -> WriterTally {
        let written = self.gauges.written.get().min(packed);
        WriterTally {
            written,
            lost: packed - written,
            bytes: self.gauges.bytes.get(),
            abandoned: true,
            ..WriterTally::default()
        }
    }

    fn counts(&self) -> [u64; 4] {
        let WriterGauges { written, bytes, lost, answers, .. } = &*self.gauges;
        [written.get(), bytes.get(), lost.get(), answers.get()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(timeout: Duration) -> EndWatch {
        let watch = EndWatch::new(Arc::default(), Stop::default(), Stop::default(), None);
        EndWatch { timeout, ..watch }
    }

    /// Lets the time without progress be over.
    fn age(watch: &EndWatch) {
        watch.last.set(watch.last.get().map(|last| Progress { since_ns: 0, ..last }));
    }

    #[test]
    fn a_writer_without_progress_is_abandoned_after_the_end() {
        let watch = watch(Duration::from_secs(1));
        assert!(!watch.is_abandoned());
        age(&watch);
        assert!(!watch.is_abandoned(), "the run has not ended");
        watch.run.raise(Reason::Signal);
        assert!(!watch.is_abandoned(), "the time begins with the end");
        age(&watch);
        assert!(watch.is_abandoned() && watch.has_abandoned());
        // An answer that comes too late changes nothing any more.
        watch.gauges.answers.set(1);
        assert!(watch.is_abandoned());
    }

    #[test]
    fn progress_is_an_answer_of_the_disk_of_any_kind() {
        let gauges: [fn(&WriterGauges) -> &quaff_os::Gauge; 4] =
            [|of| &of.written, |of| &of.bytes, |of| &of.lost, |of| &of.answers];
        for gauge in gauges {
            let watch = watch(Duration::from_secs(1));
            watch.run.raise(Reason::Duration);
            for count in 1..=3 {
                assert!(!watch.is_abandoned());
                gauge(&watch.gauges).set(count);
                age(&watch);
            }
            assert!(!watch.is_abandoned());
            age(&watch);
            assert!(watch.is_abandoned());
        }
    }

    #[test]
    fn the_end_of_the_input_and_commands_of_the_user_are_waited_for() {
        let ended = watch(Duration::ZERO);
        ended.run.raise(Reason::InputEnded);
        assert!(!ended.is_abandoned());
        for (phase, is_abandoned) in
            [(WriterGauges::WRITING, true), (WriterGauges::SYNCING, false), (WriterGauges::ON_DISK, false)]
        {
            let watch = watch(Duration::ZERO);
            watch.run.raise(Reason::Signal);
            watch.gauges.phase.set(phase);
            assert_eq!(watch.is_abandoned(), is_abandoned, "{phase}");
        }
    }

    #[test]
    fn packets_not_counted_as_written_are_lost() {
        let watch = watch(Duration::ZERO);
        watch.gauges.written.set(70);
        let tally = watch.tally(100);
        assert_eq!((tally.written, tally.lost, tally.abandoned), (70, 30, true));
    }
}
