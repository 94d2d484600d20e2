//! One file of a merge, a packet at a time. It is opened when its first packet is due, and notices packets that are
//! earlier than one before them.

use crate::Result;
use crate::batch::Frame;
use crate::plan::ReadPlan;
use crate::source::files::{Files, Numbers};
use crate::source::{Pull, Source};
use quaff_file::Interfaces;
use quaff_file::read::BUFFER_BYTES;
use quaff_file::write::Format;
use quaff_os::Stop;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The properties that all files of a merge share.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) plan: ReadPlan,
    pub(super) format: Format,
    pub(super) interfaces: Interfaces,
    pub(super) numbers: Numbers,
    pub(super) stop: Stop,
}

impl Opening {
    fn open(&self, path: &Path, buffer_bytes: usize, is_beside_others: bool) -> Box<Files> {
        let plan = ReadPlan {
            files: vec![path.to_owned()],
            buffer_bytes: Some(buffer_bytes),
            is_beside_others,
            ..self.plan.clone()
        };
        // With smaller buffers there are many files, and no memory for parts of each.
        let has_front = buffer_bytes >= BUFFER_BYTES;
        let (interfaces, numbers) = (self.interfaces.clone(), self.numbers.clone());
        Box::new(Files::one_of(plan, self.format, (interfaces, numbers), self.stop.clone(), has_front))
    }
}

/// A file, and its next packet.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) path: PathBuf,
    /// `None` until its first packet is due.
    pub(super) files: Option<Box<Files>>,
    frames: Vec<Frame>,
    at: usize,
    /// Drops before the first frame of `frames`.
    dropped: u64,
    /// The latest time so far, ns since 1970.
    latest_ns: u64,
    /// The next packet is earlier than one before it.
    pub(super) is_late: bool,
    /// Late packets that are not delivered, because they have been stored: the first ones.
    stored: u64,
    /// Late packets, and the most by which one is, ns.
    pub(super) late: u64,
    pub(super) late_max_ns: u64,
    /// Bytes of the file used when they were asked for last.
    used: u64,
}

impl Input {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            files: None,
            frames: Vec::new(),
            at: 0,
            dropped: 0,
            latest_ns: 0,
            is_late: false,
            stored: 0,
            late: 0,
            late_max_ns: 0,
            used: 0,
        }
    }

    /// The same file from its begin, without its late packets, which have been stored.
    pub(super) fn without_late(&self) -> Self {
        let mut again = Self::new(&self.path);
        again.stored = self.late;
        again
    }

    pub(super) fn open(&mut self, opening: &Opening, buffer_bytes: usize, is_beside_others: bool) {
        self.files = Some(opening.open(&self.path, buffer_bytes, is_beside_others));
    }

    /// Looks at the next packet, which [`frame`](Self::frame) then is; waits for it at most `wait`.
    pub(super) fn next(&mut self, wait: Duration) -> Result<Pull> {
        loop {
            if self.next_here() {
                return Ok(Pull::Batch);
            }
            match self.refill(wait)? {
                Pull::Batch => {}
                other => return Ok(other),
            }
        }
    }

    /// The same within the bytes of the file that are in memory; `false` if they have no more packets.
    #[inline]
    pub(super) fn next_here(&mut self) -> bool {
        while let Some(frame) = self.frames.get(self.at) {
            let time_ns = frame.time_ns;
            // A packet without a time, which is 0, is where it stands.
            self.is_late = time_ns < self.latest_ns && time_ns > 0;
            if !self.is_late {
                self.latest_ns = self.latest_ns.max(time_ns);
                return true;
            }
            self.late += 1;
            self.late_max_ns = self.late_max_ns.max(self.latest_ns - time_ns);
            if self.stored == 0 {
                return true;
            }
            self.stored -= 1;
            self.take_dropped();
            self.at += 1;
        }
        false
    }

    #[cold]
    fn refill(&mut self, wait: Duration) -> Result<Pull> {
        let Some(files) = &mut self.files else { return Ok(Pull::End) };
        (self.at, self.dropped) = (0, 0);
        let pulled = files.pull(&mut self.frames, wait)?;
        match pulled {
            Pull::Batch => self.dropped = files.take_dropped(),
            Pull::Idle => {}
            Pull::End => self.frames = Vec::new(),
        }
        Ok(pulled)
    }

    /// The next packet.
    #[inline]
    pub(super) fn frame(&self) -> &Frame {
        &self.frames[self.at]
    }

    /// Passes the next packet.
    #[inline]
    pub(super) fn pass(&mut self) {
        self.at += 1;
    }

    /// Returns whether drops were recorded before the next packet.
    #[inline]
    pub(super) fn has_dropped(&self) -> bool {
        self.at == 0 && self.dropped > 0
    }

    /// Takes the number of drops before the next packet.
    #[inline]
    pub(super) fn take_dropped(&mut self) -> u64 {
        if self.at == 0 { std::mem::take(&mut self.dropped) } else { 0 }
    }

    /// Takes the bytes of the file that were used since it was asked last.
    pub(super) fn take_used(&mut self) -> u64 {
        let used = self.files.as_ref().map_or(0, |files| files.used());
        used.saturating_sub(std::mem::replace(&mut self.used, used))
    }
}
