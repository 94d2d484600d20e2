//! pcap on an aligned disk: chunks go through the repacker, whose full buffers are submitted.

use super::records::write_through_cache;
use super::state::{Files, Tag};
use crate::Result;
use crate::error::is_full;
use quaff_os::Buffer;
use quaff_os::disk::Write;

impl Files {
    /// Takes a chunk or a file header, and submits full buffers. After a failure the packets are counted
    /// as lost.
    pub(super) fn repack(&mut self, packets: u64, mut bytes: &[u8]) -> Result<()> {
        if let Some(records) = &mut self.records {
            let end = self.current.offset + records.carried() + bytes.len() as u64;
            records.chunks.push_back((packets, end));
        }
        while let Some(records) = &mut self.records {
            bytes = &bytes[records.repack.fill(bytes)..];
            if records.repack.is_full() {
                self.submit_repacked()?;
            }
            if bytes.is_empty() || self.broken {
                break;
            }
        }
        Ok(())
    }

    /// Submits the aligned part of the repacked bytes; waits for a spare buffer.
    fn submit_repacked(&mut self) -> Result<()> {
        while !self.broken && self.records.as_ref().is_some_and(|records| !records.repack.has_spare()) {
            self.complete_or_wait()?;
        }
        if self.broken {
            return Ok(());
        }
        match self.records.as_mut().and_then(|records| records.repack.take()) {
            Some((buffer, len)) => self.submit(buffer, len, Tag::Repacked),
            None => Ok(()),
        }
    }

    /// Writes all repacked bytes while no write is pending.
    pub(super) fn flush_records(&mut self) -> Result<()> {
        if self.records.is_some() && !self.broken && self.disk.pending() == 0 {
            self.submit_repacked()?;
            if self.disk.pending() == 0 {
                self.write_tail();
            }
        }
        Ok(())
    }

    /// Writes the rest of a file that ends. Returns the number of bytes after the last aligned write.
    pub(super) fn end_records(&mut self) -> Result<u64> {
        if self.records.is_none() {
            return Ok(0);
        }
        self.submit_repacked()?;
        self.drain()?;
        if !self.broken {
            self.write_tail();
        }
        let Some(records) = &mut self.records else { return Ok(0) };
        let carried = records.carried();
        records.clear();
        if self.broken {
            return Ok(0);
        }
        self.count_written(0, carried);
        Ok(carried)
    }

    /// Writes the bytes after the last aligned one through the page cache, while no other write is
    /// pending. They are written again with the next aligned write, and counted as bytes then.
    fn write_tail(&mut self) {
        let Some(records) = &mut self.records else { return };
        let Some(tail) = records.repack.tail() else { return };
        let (len, offset) = (tail.len(), self.current.offset);
        let mut written = write_through_cache(&self.current.file, tail, offset);
        while written.as_ref().is_err_and(is_full)
            && self.folder.as_mut().is_some_and(|folder| folder.make_room(len as u64))
        {
            written = write_through_cache(&self.current.file, tail, offset);
        }
        match written {
            Ok(()) => {
                self.current.written = offset + len as u64;
                let packets = records.reach(offset + len as u64);
                self.count_written(packets, 0);
            }
            Err(error) => {
                let (file, tail) = (self.current.file.clone(), tail.to_vec());
                let stays_full = self.stays_full(&error);
                if stays_full {
                    let _ = self.write_records(&file, &tail, offset);
                }
                self.fail_file(&error, file, offset);
                if stays_full {
                    self.end_output(&error);
                }
            }
        }
    }

    pub(super) fn on_repacked_written(&mut self, write: Write) {
        let end = write.offset + write.len as u64;
        let packets = self.records.as_mut().map_or(0, |records| records.reach(end));
        self.count_written(packets, write.len as u64);
        self.recycle(write.buffer);
    }

    pub(super) fn recycle(&mut self, buffer: Buffer) {
        if let Some(records) = &mut self.records {
            records.repack.recycle(buffer);
        }
    }

    /// After a failure: counts the incomplete chunks as lost. Returns the valid length of the file.
    pub(super) fn abandon_records(&mut self) -> Option<u64> {
        let records = self.records.as_mut()?;
        let (chunks, valid) = (std::mem::take(&mut records.chunks), records.valid);
        records.clear();
        chunks.into_iter().for_each(|(packets, _)| self.count_lost(packets));
        Some(valid)
    }
}
