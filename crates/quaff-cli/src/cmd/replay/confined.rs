//! The sandbox of a replay: closed when the sockets that send are open, and before the first byte of a file is read.
//!
//! A backend in the kernel loads its BPF program when it knows the frames, so it keeps CAP_BPF, CAP_PERFMON and
//! CAP_NET_ADMIN, and the system call bpf(2). All others keep nothing.

use super::args::Args;
use crate::{confined, show};
use quaff_os::sandbox::{Limits, Sandbox};
use quaff_send::{Arena, Feed, FeedTally, SendError};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A feed of a process that is confined when it begins.
struct Confined {
    feed: Box<dyn Feed>,
    limits: Option<Limits>,
    sandbox: Shared,
}

/// The restrictions, when they are in force. The sending thread sets them, the end of the run reads them.
#[derive(Clone, Default)]
pub(super) struct Shared(Arc<Mutex<Option<Sandbox>>>);

/// Inserts the sandbox between `files` and the sender.
pub(super) fn confined(feed: Box<dyn Feed>, args: &Args, files: Vec<PathBuf>) -> (Box<dyn Feed>, Shared) {
    let sandbox = Shared::default();
    let limits = (!*args.no_sandbox).then(|| limits(args, &files));
    (Box::new(Confined { feed, limits, sandbox: sandbox.clone() }), sandbox)
}

fn limits(args: &Args, files: &[PathBuf]) -> Limits {
    let read = files.iter().chain(&args.dual).chain(&args.tcpprep);
    let read: Vec<PathBuf> = read.filter(|path| path.as_os_str() != "-").cloned().collect();
    let written = args.send.write.iter().filter(|path| path.as_os_str() != "-");
    let write = written.map(|path| confined::folder(path)).collect();
    Limits { read, write, sends_frames: args.send.write.is_empty(), ..Limits::default() }
}

impl Shared {
    /// Reports system calls that were refused.
    pub(super) fn finish(&self) {
        let mut sandbox = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(note) = sandbox.as_mut().and_then(Sandbox::count_refused) {
            show::message(&note);
        }
    }
}

impl Feed for Confined {
    fn begin(&mut self, loads_programs: bool) -> Result<(), SendError> {
        if let Some(limits) = self.limits.take() {
            let confined = confined::to(&Limits { loads_programs, ..limits })?;
            *self.sandbox.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(confined);
        }
        self.feed.begin(loads_programs)
    }

    fn fill(&mut self, arena: &mut Arena) -> Result<bool, SendError> {
        self.feed.fill(arena)
    }

    fn rewind(&mut self) -> Result<bool, SendError> {
        self.feed.rewind()
    }

    fn bytes_hint(&self) -> Option<u64> {
        self.feed.bytes_hint()
    }

    fn tally(&self) -> FeedTally {
        self.feed.tally()
    }

    fn flows(&self) -> Option<u64> {
        self.feed.flows()
    }

    fn damage(&self) -> Option<String> {
        self.feed.damage()
    }
}
