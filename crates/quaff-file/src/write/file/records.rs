//! pcap on an aligned disk. Records go over the edges of writes, so a chunk is written when its last
//! byte is, and a file that breaks is cut where the last whole chunk ends.

use super::{Files, Share, Tag};
use crate::Result;
use crate::write::folder::is_full;
use crate::write::repack::Repack;
use quaff_os::disk::Write;
use quaff_os::mem::Buffer;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// The repacker, and the chunks in it and in writes under way.
#[derive(Debug)]
pub(super) struct Records {
    repack: Repack,
    /// Chunks that are not written to their end, and where in the file they end; oldest first.
    chunks: VecDeque<(Share, u64)>,
    /// Where the last chunk ends that is.
    kept: u64,
}

impl Records {
    pub(super) fn new(repack: Repack) -> Self {
        Self { repack, chunks: VecDeque::new(), kept: 0 }
    }

    /// Bytes that are in no write yet.
    pub(super) fn carried(&self) -> u64 {
        self.repack.carried() as u64
    }

    /// The file is written up to `offset`: how many packets that completes.
    fn reach(&mut self, offset: u64) -> u64 {
        let mut packets = 0;
        while let Some((share, end)) = self.chunks.pop_front_if(|(_, end)| *end <= offset) {
            packets += share.packets;
            self.kept = end;
        }
        packets
    }

    /// Begins anew, for another file.
    fn clear(&mut self) {
        self.repack.clear();
        self.kept = 0;
    }
}

impl Files {
    /// Takes a chunk, or a file header, and writes what is full. After a failure its packets are
    /// counted as lost.
    pub(super) fn repack(&mut self, share: Share, mut bytes: &[u8]) -> Result<()> {
        if let Some(records) = &mut self.records {
            let end = self.current.offset + records.carried() + bytes.len() as u64;
            records.chunks.push_back((share, end));
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

    /// Writes the aligned part of what has been repacked; waits for a spare buffer if it has to.
    fn submit_repacked(&mut self) -> Result<()> {
        while !self.broken && self.records.as_ref().is_some_and(|records| !records.repack.has_spare()) {
            self.settle_or_wait()?;
        }
        if self.broken {
            return Ok(());
        }
        match self.records.as_mut().and_then(|records| records.repack.take()) {
            Some((buffer, len)) => self.submit(buffer, len, Tag::Repacked),
            None => Ok(()),
        }
    }

    /// Brings what there is into the file while no write is under way.
    pub(super) fn flush_records(&mut self) -> Result<()> {
        if self.records.is_some() && !self.broken && self.disk.pending() == 0 {
            self.submit_repacked()?;
            if self.disk.pending() == 0 {
                self.write_tail();
            }
        }
        Ok(())
    }

    /// Writes all that is left for a file that ends. Returns how many bytes of it lie behind the
    /// last aligned write.
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

    /// Writes what is left behind the last aligned byte, through the page cache. Only while no
    /// other write is under way. It is written again with what follows, and counts as bytes then.
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
                let packets = records.reach(offset + len as u64);
                self.count_written(packets, 0);
            }
            Err(error) => self.fail_file(&error, self.current.file.clone(), offset),
        }
    }

    pub(super) fn settle_repacked(&mut self, write: Write) {
        let end = write.offset + write.len as u64;
        let packets = self.records.as_mut().map_or(0, |records| records.reach(end));
        self.count_written(packets, write.len as u64);
        self.give_back(write.buffer);
    }

    pub(super) fn give_back(&mut self, buffer: Buffer) {
        if let Some(records) = &mut self.records {
            records.repack.give_back(buffer);
        }
    }

    /// After a failure: what is not written to its end is lost. Returns where the file is to be cut.
    pub(super) fn give_up_records(&mut self) -> Option<u64> {
        let records = self.records.as_mut()?;
        let (chunks, kept) = (std::mem::take(&mut records.chunks), records.kept);
        chunks.into_iter().for_each(|(share, _)| self.count_lost(share));
        Some(kept)
    }
}

pub fn write_through_cache(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    File::options().write(true).open(path)?.write_all_at(bytes, offset)
}
