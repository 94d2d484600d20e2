//! Completions of writes: packets are counted, buffers are freed, and files end. After a failed write its
//! file is truncated to the last valid byte, and its unwritten chunks wait for the next file.

use super::WAIT_MAX;
use super::records::write_through_cache;
use super::state::{ChunkTag, Files, Tag};
use crate::error::is_full;
use crate::write::chunk::Chunk;
use crate::write::finisher::FinishJob;
use crate::{Error, Result};
use quaff_os::Buffer;
use quaff_os::clock::steady_ns;
use quaff_os::disk::{Write, Written, write_behind};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

impl Files {
    /// Handles one completed write; `false` when none has completed.
    pub(super) fn complete_one(&mut self) -> Result<bool> {
        self.end_files();
        let reaped = self.disk.reap().map_err(|errno| Error::path("write", &self.current.path, errno))?;
        let Some(Written { write, result }) = reaped else { return Ok(false) };
        self.gauges.answers.set(self.gauges.answers.get() + 1);
        let now_ns = steady_ns();
        self.tally.write_high_ns = self.tally.write_high_ns.max(now_ns - self.progress_ns);
        self.progress_ns = now_ns;
        match result {
            Ok(()) => self.on_written(write),
            Err(error) if is_full(&error) && self.make_room(write.len) => {
                // Each event keeps a file open that may have been removed meanwhile.
                self.take_file_events();
                let path = self.path_of(&write.file);
                self.disk.retry(write).map_err(|errno| Error::path("write", path, errno))?;
            }
            Err(error) => self.on_failed(&error, write),
        }
        self.end_files();
        Ok(true)
    }

    pub(super) fn complete_ready(&mut self) -> Result<()> {
        while self.complete_one()? {}
        Ok(())
    }

    pub(super) fn complete_or_wait(&mut self) -> Result<()> {
        if !self.complete_one()? {
            self.wakeup.wait(WAIT_MAX)?;
        }
        Ok(())
    }

    pub(super) fn drain(&mut self) -> Result<()> {
        while self.disk.pending() > 0 {
            self.complete_or_wait()?;
        }
        self.end_files();
        Ok(())
    }

    /// Returns whether writes go through the page cache.
    fn is_cached(&self) -> bool {
        self.heading.align == 1 && self.records.is_none()
    }

    pub(super) fn on_written(&mut self, write: Write) {
        if let Some(folder) = &mut self.folder {
            folder.note_success();
        }
        let bytes = write.len as u64;
        if Arc::ptr_eq(&write.file, &self.current.file) {
            self.current.written = write.offset + bytes;
        }
        if self.is_cached() {
            write_behind(&write.file, write.offset, bytes);
        }
        match self.tags.pop_front() {
            Some(Tag::Chunk(ChunkTag { lane, packets, counts, .. })) => {
                self.written[lane] = counts;
                self.failures.in_a_row = 0;
                self.count_written(packets, bytes);
                self.free_buffers.push_back((lane, write.buffer));
            }
            Some(Tag::Repacked) => self.on_repacked_written(write),
            _ => self.count_written(0, bytes),
        }
    }

    /// Handles a write that failed for good: its file ends before the write, later files hold nothing, and the
    /// unwritten chunks go into the next file, or are lost if there is none.
    fn on_failed(&mut self, error: &io::Error, write: Write) {
        let mut abandoned: VecDeque<_> = std::iter::once(write).chain(self.disk.abandon()).collect();
        let fits = self.write_what_fits(error, &mut abandoned);
        // Nothing is left if all of them fit.
        let Some((failed, offset)) = abandoned.front().map(|write| (write.file.clone(), write.offset)) else {
            return;
        };
        self.fail_file(error, failed.clone(), fits.unwrap_or(offset));
        if fits.is_some() {
            self.end_output(error);
        }
        let (mut ends, mut waiting) = (Vec::new(), VecDeque::new());
        for write in abandoned {
            while let Some(end) = self.tags.pop_front_if(|tag| matches!(tag, Tag::End { .. })) {
                ends.push(end);
            }
            match self.tags.pop_front() {
                Some(Tag::Chunk(tag)) => {
                    let ChunkTag { lane, packets, slot, first_ns, counts, interfaces, before } = tag;
                    if let Some(before) = before.as_ref().filter(|_| Arc::ptr_eq(&write.file, &failed)) {
                        // The file began with these counts, and ends with them.
                        self.written[lane].clone_from(before);
                    }
                    let (buffer, len) = (write.buffer, write.len);
                    waiting.push_back((
                        lane,
                        Chunk { buffer, len, packets, slot, first_ns, counts, interfaces, before },
                    ));
                }
                Some(Tag::Repacked) => self.recycle(write.buffer),
                _ => {}
            }
        }
        ends.into_iter().rev().for_each(|end| self.tags.push_front(end));
        waiting.append(&mut self.waiting);
        self.waiting = waiting;
        self.restore_counts();
        if self.failures.is_final {
            self.lose_waiting();
        }
    }

    /// Ends a file because of a failed write; nothing in it is valid from `offset` on.
    pub(super) fn fail_file(&mut self, error: &io::Error, file: Arc<File>, offset: u64) {
        let path = self.path_of(&file);
        self.tally.failed_files += 1;
        self.fail(&path, error);
        let valid = self.abandon_records().unwrap_or(offset);
        // Frees the space preallocated after the end; `write_trailer` tries again.
        let _ = file.set_len(valid);
        // Bytes that are truncated do not count.
        self.tally.bytes = (self.tally.bytes + valid).saturating_sub(offset);
        self.damaged.get_or_insert((file, valid));
    }

    /// Returns the path of a file that is being written, or that has ended with writes pending.
    fn path_of(&self, file: &Arc<File>) -> PathBuf {
        let ended = self.tags.iter().find_map(|tag| match tag {
            Tag::End { file: ended, path, .. } if Arc::ptr_eq(ended, file) => Some(path),
            _ => None,
        });
        ended.unwrap_or(&self.current.path).clone()
    }

    /// Ends the files whose last write has completed.
    pub(super) fn end_files(&mut self) {
        while let Some(Tag::End { file, path, packets, bytes, begun, synced }) =
            self.tags.pop_front_if(|tag| matches!(tag, Tag::End { .. }))
        {
            let (bytes, is_cut) = match self.damaged.take() {
                None => (bytes, false),
                Some((damaged, valid)) if Arc::ptr_eq(&damaged, &file) => {
                    let bytes = self.write_trailer(&file, valid);
                    self.damaged = Some((damaged, bytes));
                    (bytes, true)
                }
                // A file after the damaged one holds nothing.
                earlier => {
                    self.damaged = earlier;
                    (0, false)
                }
            };
            match &mut self.folder {
                Some(folder) if bytes == 0 => {
                    self.tally.bytes = self.tally.bytes.saturating_sub(begun);
                    self.tally.synced_bytes = self.tally.synced_bytes.saturating_sub(synced);
                    folder.discard(&path);
                }
                Some(folder) => {
                    self.tally.files += 1;
                    folder.finish(FinishJob { is_cut, packets, ..FinishJob::new(file, path, bytes, synced) });
                }
                None => {
                    self.tally.files += 1;
                    self.finish_in_place(&file, path, bytes);
                }
            }
        }
    }

    /// After a failure: truncates a file to its `valid` bytes, and appends the last counters if there is
    /// room. Returns the new length of the file.
    fn write_trailer(&mut self, file: &File, valid: u64) -> u64 {
        // The space preallocated after the end is freed first: it may make room for the counters.
        let _ = file.set_len(valid);
        let is_aligned = valid.is_multiple_of(self.heading.align as u64);
        let described = self.heading.described_before(&self.written);
        let last = match is_aligned {
            true => self.heading.last(&self.counts, &self.written, described),
            false => self.heading.unaligned().last(&self.counts, &self.written, described),
        };
        if last.is_empty() {
            return valid;
        }
        let Ok(mut buffer) = Buffer::new(last.len()) else { return valid };
        buffer[..last.len()].copy_from_slice(&last);
        let written = match is_aligned {
            true => file.write_all_at(&buffer[..last.len()], valid),
            false => write_through_cache(file, &last, valid),
        };
        match written {
            Ok(()) => {
                self.tally.bytes += last.len() as u64;
                valid + last.len() as u64
            }
            Err(_) => {
                let _ = file.set_len(valid);
                valid
            }
        }
    }

    /// Makes room for `bytes` on a full disk, if the retention rules allow it.
    pub(super) fn make_room(&mut self, bytes: usize) -> bool {
        self.folder.as_mut().is_some_and(|folder| folder.make_room(bytes as u64))
    }

    pub(super) fn count_written(&mut self, packets: u64, bytes: u64) {
        self.tally.written += packets;
        self.tally.bytes += bytes;
        self.gauges.written.set(self.tally.written);
        self.gauges.bytes.set(self.tally.bytes);
    }

    pub(super) fn count_lost(&mut self, packets: u64) {
        self.tally.lost += packets;
        self.gauges.lost.set(self.tally.lost);
    }
}
