//! stdout as a file that we have for ourselves: whole blocks go past the page cache, and what is left
//! over goes through it. The descriptor that we were given keeps its flags: the file is opened once
//! more. At the end its offset stands behind the last byte, for whoever writes there next.

use super::{Outlet, Piece, PipeGauges};
use crate::{Error, Result};
use quaff_file::write::target::reopen;
use quaff_os::disk::{Disk, Write, Written, preallocate};
use quaff_os::mem::Buffer;
use quaff_os::wakeup::Wakeup;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

/// Space is set aside ahead of the end, in steps of so many bytes.
const SET_ASIDE_BYTES: u64 = 256 << 20;
/// How long the disk may say nothing before it is asked again.
const PATIENCE: Duration = Duration::from_millis(250);

/// A file on a disk.
pub(super) struct DirectFile {
    /// As it was given to us; through the page cache.
    given: File,
    /// The same file, past it.
    file: Arc<File>,
    align: usize,
    /// Where the next whole block goes, and where the first one went.
    offset: u64,
    start: u64,
    /// Up to where space is set aside; `u64::MAX` where that is impossible.
    set_aside: u64,
    /// Made on the writer's thread, to whose core its helpers keep.
    disk: Option<Disk>,
    home: VecDeque<Buffer>,
    wakeup: Wakeup,
    gauges: Arc<PipeGauges>,
}

impl DirectFile {
    /// `None` where [`reopen`] says so, or stdout does not begin at a block.
    pub(super) fn open(stdout: &File, wakeup: &Wakeup, gauges: &Arc<PipeGauges>) -> Option<Self> {
        let (file, align) = reopen(stdout)?;
        let given = stdout.try_clone().ok()?;
        let start = (&given).stream_position().ok()?;
        start.is_multiple_of(align as u64).then(|| Self {
            given,
            file: Arc::new(file),
            align,
            offset: start,
            start,
            set_aside: start,
            disk: None,
            home: VecDeque::new(),
            wakeup: wakeup.clone(),
            gauges: gauges.clone(),
        })
    }

    fn submit(&mut self, buffer: Buffer, len: usize) -> Result<()> {
        if self.offset + len as u64 > self.set_aside {
            let is_set = preallocate(&self.file, self.set_aside, SET_ASIDE_BYTES);
            self.set_aside = if is_set { self.set_aside + SET_ASIDE_BYTES } else { u64::MAX };
        }
        let write = Write { file: self.file.clone(), buffer, len, offset: self.offset };
        self.offset += len as u64;
        self.disk.get_or_insert_with(|| Disk::new(&self.wakeup)).submit(write).map_err(failed)
    }

    /// Deals with one ended write, if there is one.
    fn complete_one(&mut self) -> Result<bool> {
        let Some(disk) = &mut self.disk else { return Ok(false) };
        let Some(Written { write, result }) = disk.reap().map_err(failed)? else { return Ok(false) };
        result.map_err(failed)?;
        self.reached(write.offset + write.len as u64);
        self.home.push_back(write.buffer);
        Ok(true)
    }

    fn drain(&mut self) -> Result<()> {
        while self.disk.as_ref().is_some_and(|disk| disk.pending() > 0) {
            if !self.complete_one()? {
                self.wakeup.wait(PATIENCE)?;
            }
        }
        Ok(())
    }

    fn reached(&self, offset: u64) {
        self.gauges.written.set(self.gauges.written.get().max(offset - self.start));
    }

    /// Gives back what was set aside, and leaves the offset behind what has been written.
    fn leave(&mut self) -> std::io::Result<()> {
        if let Ok(meta) = self.given.metadata() {
            // The length stays as it is; space behind it goes. If not, it does no harm.
            let _ = self.given.set_len(meta.len());
        }
        let end = self.start + self.gauges.written.get();
        self.given.seek(SeekFrom::Start(end)).map(drop)
    }
}

impl Outlet for DirectFile {
    fn put(&mut self, piece: Piece) -> Result<()> {
        let Piece { buffer, len, .. } = piece;
        let whole = len / self.align * self.align;
        let left_over = buffer[whole..len].to_vec();
        if whole > 0 {
            self.submit(buffer, whole)?;
        } else {
            self.home.push_back(buffer);
        }
        if !left_over.is_empty() {
            // The file grows in order. The next piece has these bytes again.
            self.drain()?;
            self.given.write_all_at(&left_over, self.offset).map_err(failed)?;
            self.reached(self.offset + left_over.len() as u64);
        }
        Ok(())
    }

    fn reap(&mut self) -> Result<Option<Buffer>> {
        if self.home.is_empty() {
            self.complete_one()?;
        }
        Ok(self.home.pop_front())
    }

    fn idle(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn finish(&mut self) -> Result<()> {
        self.drain()?;
        self.leave().map_err(failed)
    }

    fn give_up(&mut self) {
        if let Some(disk) = &mut self.disk {
            disk.abandon().for_each(drop);
        }
        // The failure has been told already.
        let _ = self.leave();
    }

    fn align(&self) -> usize {
        self.align
    }

    fn wakeup(&self) -> Wakeup {
        self.wakeup.clone()
    }

    fn describe(&self) -> String {
        let engine = Wakeup::new().map_or("pwrite", |wakeup| Disk::new(&wakeup).name());
        format!("{engine}, O_DIRECT")
    }
}

fn failed(errno: std::io::Error) -> Error {
    Error::path("write to", "stdout", errno)
}
