//! A folder of files as capture writes them: `.part` until a file is complete and on disk, then renamed. Cuts pcap and
//! pcapng between packets, other bytes anywhere.

use super::{ByteSink, FilledBuffer, SeriesTally};
use crate::write::file::write_through_cache;
use crate::write::finisher::FinishJob;
use crate::write::folder::{Ending, Folder};
use crate::write::plan::{DirPlan, rotate_bytes_max};
use crate::write::repack::Repack;
use crate::write::target::{disk_name, folder_align};
use crate::{Error, Result};
use quaff_os::clock::{steady_ns, wall_ns};
use quaff_os::disk::{Disk, FileAccess, Write, Written};
use quaff_os::{Buffer, Gauge, Wakeup};
use quaff_wire::cut::{Cutter, Out, extension};
use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of one write.
const WRITE_BYTES: usize = 4 << 20;
/// Number of write buffers.
const WRITES: usize = 4;
/// Longest delay of bytes at a low rate, ns.
const FLUSH_NS: u64 = 300_000_000;
/// Interval of polling the disk for completions.
const DISK_POLL: Duration = Duration::from_millis(250);

pub(super) struct FileSeries {
    cutter: Cutter,
    series: Series,
    free_buffer: Option<Buffer>,
}

struct Series {
    plan: DirPlan,
    /// Opened once the extension is known.
    folder: Option<Folder>,
    current: Option<Current>,
    align: usize,
    repack: Repack,
    /// Created on the writer's thread, whose affinity its kernel workers get.
    disk: Option<Disk>,
    /// For each pending write, the bytes of the stream in the files once it completes.
    marks: VecDeque<u64>,
    /// Bytes of the stream accepted.
    taken: u64,
    flushed_ns: u64,
    kind: Option<&'static str>,
    files: u64,
    wakeup: Wakeup,
    gauge: Arc<Gauge>,
}

struct Current {
    file: Arc<File>,
    path: PathBuf,
    /// Bytes submitted to the disk, and bytes written.
    offset: u64,
    written: u64,
}

impl FileSeries {
    pub(super) fn open(plan: DirPlan, wakeup: Wakeup, gauge: Arc<Gauge>) -> Result<Self> {
        plan.name_template(extension(&[]))?;
        let align = folder_align(&plan.dir, FileAccess::default())?;
        let cutter = Cutter::new(plan.rotate_bytes.unwrap_or(u64::MAX).min(rotate_bytes_max(&plan.dir)));
        let series = Series {
            plan,
            folder: None,
            current: None,
            align,
            repack: Repack::new(align, WRITE_BYTES, WRITES)?,
            disk: None,
            marks: VecDeque::new(),
            taken: 0,
            flushed_ns: 0,
            kind: None,
            files: 0,
            wakeup,
            gauge,
        };
        Ok(Self { cutter, series, free_buffer: None })
    }
}

impl Series {
    fn take(&mut self, out: Out<'_>) -> Result<()> {
        match out {
            Out::Bytes(bytes) => {
                if self.current.is_none() {
                    self.begin_folder(bytes)?;
                    self.begin()?;
                }
                self.fill(bytes, true)
            }
            Out::Cut(first) => {
                self.end()?;
                self.begin()?;
                self.fill(first, false)
            }
        }
    }

    fn begin_folder(&mut self, first: &[u8]) -> Result<()> {
        let kind = extension(first);
        self.kind = Some(kind);
        let folder =
            Folder::open(&self.plan, kind, self.align > 1, FileAccess::default(), self.wakeup.clone())?;
        self.folder = Some(folder);
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        let Some(folder) = &mut self.folder else { return Ok(()) };
        let (file, path) = folder.next(wall_ns(), &[], Ending::default())?;
        self.current = Some(Current { file, path, offset: 0, written: 0 });
        Ok(())
    }

    fn fill(&mut self, mut bytes: &[u8], is_stream: bool) -> Result<()> {
        while !bytes.is_empty() {
            let count = self.repack.fill(bytes);
            bytes = &bytes[count..];
            self.taken += if is_stream { count as u64 } else { 0 };
            if self.repack.is_full() {
                self.submit()?;
            }
        }
        Ok(())
    }

    /// Submits the aligned part of the buffered bytes.
    fn submit(&mut self) -> Result<()> {
        while !self.repack.has_spare() {
            self.complete_or_wait()?;
        }
        let Some(current) = &mut self.current else { return Ok(()) };
        let Some((buffer, len)) = self.repack.take() else { return Ok(()) };
        self.marks.push_back(self.taken.saturating_sub(self.repack.carried() as u64));
        let write = Write { file: current.file.clone(), buffer, len, offset: current.offset };
        current.offset += len as u64;
        let disk = self.disk.get_or_insert_with(|| Disk::new(&self.wakeup));
        disk.submit(write).map_err(|errno| Error::path("write", &current.path, errno))
    }

    fn complete_one(&mut self) -> Result<bool> {
        let (Some(disk), Some(current)) = (&mut self.disk, &mut self.current) else { return Ok(false) };
        let failed = |errno| Error::path("write", &current.path, errno);
        let Some(Written { write, result }) = disk.reap().map_err(failed)? else { return Ok(false) };
        result.map_err(failed)?;
        current.written = write.offset + write.len as u64;
        self.repack.recycle(write.buffer);
        if let Some(mark) = self.marks.pop_front() {
            self.gauge.set(mark);
        }
        Ok(true)
    }

    fn complete_or_wait(&mut self) -> Result<()> {
        if !self.complete_one()? {
            self.wakeup.wait(DISK_POLL)?;
        }
        Ok(())
    }

    fn pending(&self) -> usize {
        self.disk.as_ref().map_or(0, Disk::pending)
    }

    /// Writes all buffered bytes to the file.
    fn flush(&mut self) -> Result<()> {
        self.flushed_ns = steady_ns();
        self.submit()?;
        while self.pending() > 0 {
            self.complete_or_wait()?;
        }
        let Some(current) = &mut self.current else { return Ok(()) };
        if let Some(tail) = self.repack.tail() {
            write_through_cache(&current.file, tail, current.offset)
                .map_err(|errno| Error::path("write", &current.path, errno))?;
            current.written = current.offset + tail.len() as u64;
            self.gauge.set(self.taken);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.flush()?;
        let bytes_left = self.repack.carried() as u64;
        self.repack.clear();
        if let (Some(folder), Some(current)) = (&mut self.folder, self.current.take()) {
            self.files += 1;
            let Current { file, path, offset, .. } = current;
            folder.finish(FinishJob::new(file, path, offset + bytes_left, 0));
            folder.collect_finished();
        }
        self.check_failure()
    }

    /// Returns the failure of a finished file, if any.
    fn check_failure(&mut self) -> Result<()> {
        match self.folder.as_mut().and_then(Folder::take_failure) {
            Some((path, errno)) => Err(Error::path("sync", path, errno)),
            None => Ok(()),
        }
    }
}

impl ByteSink for FileSeries {
    fn put(&mut self, filled: FilledBuffer) -> Result<()> {
        let series = &mut self.series;
        self.cutter.feed(&filled.buffer[filled.repeated..filled.len], &mut |out| series.take(out))?;
        self.free_buffer = Some(filled.buffer);
        while series.complete_one()? {}
        if steady_ns() - series.flushed_ns >= FLUSH_NS && series.pending() == 0 {
            series.flush()?;
        }
        Ok(())
    }

    fn reap(&mut self) -> Result<Option<Buffer>> {
        Ok(self.free_buffer.take())
    }

    fn idle(&mut self) -> Result<bool> {
        self.series.flush().map(|()| true)
    }

    fn finish(&mut self) -> Result<()> {
        let series = &mut self.series;
        self.cutter.finish(&mut |out| series.take(out))?;
        if series.current.is_some() {
            series.end()?;
        }
        if let Some(folder) = &mut series.folder {
            folder.finish_all();
        }
        series.check_failure()
    }

    fn abandon(&mut self) {
        if let Some(disk) = &mut self.series.disk {
            disk.abandon().for_each(drop);
        }
        // The file stays a .part; truncation frees the preallocated space.
        if let Some(current) = &self.series.current {
            let _ = current.file.set_len(current.written);
        }
    }

    fn describe(&self) -> String {
        let cache = if self.series.align > 1 { "O_DIRECT" } else { "through the page cache" };
        format!("{}, {cache}", disk_name())
    }

    fn series(&self) -> SeriesTally {
        let damaged_at = self.cutter.damaged_at;
        SeriesTally {
            files: self.series.files,
            kind: self.series.kind,
            note: damaged_at
                .map(|at| format!("the stream is damaged from byte {at}: the rest is in one file")),
        }
    }
}
