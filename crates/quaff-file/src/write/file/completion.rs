//! What becomes of writes: packets are counted, buffers go home, files end, and after a failure the
//! file that it hit is cut back to what is valid.

use super::{Files, PATIENCE, Share, Tag};
use crate::write::folder::is_full;
use crate::{Error, Result};
use quaff_os::clock::steady_ns;
use quaff_os::disk::{Write, Written};
use quaff_os::mem::Buffer;
use quaff_os::stop::Reason;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

impl Files {
    /// Deals with one ended write, if there is one.
    pub(super) fn settle_one(&mut self) -> Result<bool> {
        self.end_files();
        let reaped = self.disk.reap().map_err(|errno| Error::path("write", &self.current.path, errno))?;
        let Some(Written { write, result }) = reaped else { return Ok(false) };
        let now_ns = steady_ns();
        self.tally.write_high_ns = self.tally.write_high_ns.max(now_ns - self.progress_ns);
        self.progress_ns = now_ns;
        match result {
            Ok(()) => self.settle_written(write),
            Err(error) if is_full(&error) && self.make_room(write.len) => {
                self.disk.retry(write).map_err(|errno| Error::path("write", &self.current.path, errno))?;
            }
            Err(error) => self.settle_failed(&error, write),
        }
        self.end_files();
        Ok(true)
    }

    pub(super) fn settle_ready(&mut self) -> Result<()> {
        while self.settle_one()? {}
        Ok(())
    }

    pub(super) fn settle_or_wait(&mut self) -> Result<()> {
        if !self.settle_one()? {
            self.wakeup.wait(PATIENCE)?;
        }
        Ok(())
    }

    pub(super) fn drain(&mut self) -> Result<()> {
        while self.disk.pending() > 0 {
            self.settle_or_wait()?;
        }
        self.end_files();
        Ok(())
    }

    fn settle_written(&mut self, write: Write) {
        if let Some(folder) = &mut self.folder {
            folder.has_room();
        }
        let bytes = write.len as u64;
        match self.tags.pop_front() {
            Some(Tag::Packets(share, counts)) => {
                self.written[share.lane] = counts;
                self.count_written(share.packets, bytes);
                self.home.push_back((share.lane, write.buffer));
            }
            Some(Tag::Repacked) => self.settle_repacked(write),
            _ => self.count_written(0, bytes),
        }
    }

    /// A write failed for good: it and all behind it are lost, and its file ends before it.
    fn settle_failed(&mut self, error: &io::Error, write: Write) {
        let (file, offset) = (write.file.clone(), write.offset);
        let mut ends = Vec::new();
        let abandoned: Vec<_> = std::iter::once(write).chain(self.disk.abandon()).collect();
        for write in abandoned {
            while let Some(end) = self.tags.pop_front_if(|tag| matches!(tag, Tag::End { .. })) {
                ends.push(end);
            }
            match self.tags.pop_front() {
                Some(Tag::Packets(share, _)) => {
                    self.count_lost(share);
                    self.home.push_back((share.lane, write.buffer));
                }
                Some(Tag::Repacked) => self.give_back(write.buffer),
                _ => {}
            }
        }
        ends.into_iter().rev().for_each(|end| self.tags.push_front(end));
        self.fail_file(error, file, offset);
    }

    /// The output ends because of a file, of which nothing is valid from `offset` on.
    pub(super) fn fail_file(&mut self, error: &io::Error, file: Arc<File>, offset: u64) {
        let path = self.current.path.clone();
        self.fail(&path, error);
        let valid = self.give_up_records().unwrap_or(offset);
        // What is cut off does not count.
        self.tally.bytes = (self.tally.bytes + valid).saturating_sub(offset);
        self.hit.get_or_insert((file, valid));
    }

    /// The output ends.
    pub(super) fn fail(&mut self, path: &Path, error: &io::Error) {
        self.broken = true;
        self.stop.raise(if is_full(error) {
            Reason::DiskFull
        } else {
            Reason::WriteError(format!("{}: {error}", path.display()))
        });
    }

    /// Ends files whose last write has ended.
    pub(super) fn end_files(&mut self) {
        while let Some(Tag::End { file, path, bytes }) =
            self.tags.pop_front_if(|tag| matches!(tag, Tag::End { .. }))
        {
            let bytes = match self.hit.take() {
                None => bytes,
                Some((hit, cut)) if Arc::ptr_eq(&hit, &file) => {
                    let bytes = self.last_words(&file, cut);
                    self.hit = Some((hit, bytes));
                    bytes
                }
                before => {
                    self.hit = before;
                    0
                }
            };
            match &mut self.folder {
                Some(folder) if bytes == 0 => folder.discard(&path),
                Some(folder) => {
                    self.tally.files += 1;
                    folder.finish(file, path, bytes);
                }
                None => {
                    self.tally.files += 1;
                    // What was set aside behind the end is given back; if not, it does no harm.
                    let _ = file.set_len(bytes);
                    // What went through the page cache may still fail on its way to the disk.
                    self.trouble = file.sync_data().err().map(|error| (path, error));
                }
            }
        }
    }

    /// After a failure: cuts a file back to what is valid, and adds what was lost if there is room.
    /// Returns how long the file is now.
    fn last_words(&mut self, file: &File, cut: u64) -> u64 {
        // What was set aside behind the end goes first, so that there may be room for a few words.
        let _ = file.set_len(cut);
        let last = self.heading.last(&self.counts, &self.written, usize::MAX);
        if last.is_empty() {
            return cut;
        }
        let Ok(mut buffer) = Buffer::new(last.len()) else { return cut };
        buffer[..last.len()].copy_from_slice(&last);
        match file.write_all_at(&buffer[..last.len()], cut) {
            Ok(()) => {
                self.tally.bytes += last.len() as u64;
                cut + last.len() as u64
            }
            Err(_) => {
                let _ = file.set_len(cut);
                cut
            }
        }
    }

    /// Makes room for so many bytes on a full disk, if there is a rule that allows it.
    pub(super) fn make_room(&mut self, bytes: usize) -> bool {
        self.folder.as_mut().is_some_and(|folder| folder.make_room(bytes as u64))
    }

    pub(super) fn count_written(&mut self, packets: u64, bytes: u64) {
        self.tally.written += packets;
        self.tally.bytes += bytes;
        self.gauges.written.set(self.tally.written);
        self.gauges.bytes.set(self.tally.bytes);
    }

    pub(super) fn count_lost(&mut self, share: Share) {
        self.tally.lost += share.packets;
        self.gauges.lost.set(self.tally.lost);
    }
}
