//! stdout as a regular file: whole blocks bypass the page cache, the rest is written through it.
//!
//! The file is opened a second time, so the given descriptor keeps its flags. At the end its offset is after the last
//! byte, for the next program that writes to it.

use super::{ByteSink, FilledBuffer};
use crate::write::set_aside::SetAside;
use crate::write::stdout::reopen;
use crate::write::target::disk_name;
use crate::{Error, Result};
use quaff_os::disk::{Disk, Write, Written};
use quaff_os::{Buffer, Gauge, Wakeup};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

/// Interval of polling the disk for completions.
const DISK_POLL: Duration = Duration::from_millis(250);

/// A file on a disk.
pub(super) struct DirectFile {
    /// The given descriptor; writes go through the page cache.
    given: File,
    /// The same file with O_DIRECT.
    file: Arc<File>,
    align: usize,
    /// Offset of the next whole block, and of the first one.
    offset: u64,
    start: u64,
    set_aside: SetAside,
    /// Created on the writer's thread, whose affinity its kernel workers get.
    disk: Option<Disk>,
    free_buffers: VecDeque<Buffer>,
    wakeup: Wakeup,
    written: Arc<Gauge>,
}

impl DirectFile {
    /// `None` where [`reopen`] fails, or the offset of stdout is not aligned.
    pub(super) fn open(stdout: &File, wakeup: &Wakeup, written: &Arc<Gauge>) -> Option<Self> {
        let (file, align) = reopen(stdout)?;
        let given = stdout.try_clone().ok()?;
        let start = (&given).stream_position().ok()?;
        start.is_multiple_of(align as u64).then(|| Self {
            given,
            file: Arc::new(file),
            align,
            offset: start,
            start,
            set_aside: SetAside::default(),
            disk: None,
            free_buffers: VecDeque::new(),
            wakeup: wakeup.clone(),
            written: written.clone(),
        })
    }

    fn submit(&mut self, buffer: Buffer, len: usize) -> Result<()> {
        self.set_aside.grow(&self.file, self.offset, self.offset + len as u64);
        let write = Write { file: self.file.clone(), buffer, len, offset: self.offset };
        self.offset += len as u64;
        self.disk.get_or_insert_with(|| Disk::new(&self.wakeup)).submit(write).map_err(failed)
    }

    /// Handles one completed write, if any.
    fn complete_one(&mut self) -> Result<bool> {
        let Some(disk) = &mut self.disk else { return Ok(false) };
        let Some(Written { write, result }) = disk.reap().map_err(failed)? else { return Ok(false) };
        result.map_err(failed)?;
        self.reached(write.offset + write.len as u64);
        self.free_buffers.push_back(write.buffer);
        Ok(true)
    }

    fn drain(&mut self) -> Result<()> {
        while self.disk.as_ref().is_some_and(|disk| disk.pending() > 0) {
            if !self.complete_one()? {
                self.wakeup.wait(DISK_POLL)?;
            }
        }
        Ok(())
    }

    fn reached(&self, offset: u64) {
        self.written.set(self.written.get().max(offset - self.start));
    }

    /// Frees preallocated space, and sets the offset to the end of the written bytes.
    fn leave(&mut self) -> std::io::Result<()> {
        if let Ok(meta) = self.given.metadata() {
            // Truncating to the current length frees the space after it; a failure does no harm.
            let _ = self.given.set_len(meta.len());
        }
        let end = self.start + self.written.get();
        self.given.seek(SeekFrom::Start(end)).map(drop)
    }
}

impl ByteSink for DirectFile {
    fn put(&mut self, filled: FilledBuffer) -> Result<()> {
        let FilledBuffer { buffer, len, .. } = filled;
        let whole = len / self.align * self.align;
        let left_over = buffer[whole..len].to_vec();
        if whole > 0 {
            self.submit(buffer, whole)?;
        } else {
            self.free_buffers.push_back(buffer);
        }
        if !left_over.is_empty() {
            // The file grows in order. The next buffer repeats these bytes.
            self.drain()?;
            self.given.write_all_at(&left_over, self.offset).map_err(failed)?;
            self.reached(self.offset + left_over.len() as u64);
        }
        Ok(())
    }

    fn reap(&mut self) -> Result<Option<Buffer>> {
        if self.free_buffers.is_empty() {
            self.complete_one()?;
        }
        Ok(self.free_buffers.pop_front())
    }

    fn idle(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn finish(&mut self) -> Result<()> {
        self.drain()?;
        self.leave().map_err(failed)
    }

    fn abandon(&mut self) {
        if let Some(disk) = &mut self.disk {
            disk.abandon().for_each(drop);
        }
        // The first failure is reported already.
        let _ = self.leave();
    }

    fn align(&self) -> usize {
        self.align
    }

    fn describe(&self) -> String {
        format!("{}, O_DIRECT", disk_name())
    }
}

fn failed(errno: std::io::Error) -> Error {
    Error::path("write to", "stdout", errno)
}
