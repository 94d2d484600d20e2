//! A folder among several: lanes are added and released, and after its end the chunks that it has not written go to
//! other folders.
//!
//! Each file has the counters of those lanes only whose chunks the folder takes, so a file of any folder proves itself:
//! the first chunk of an added lane begins a file, with the counters that its other chunks have reached
//! ([`Chunk::before`]).

use super::state::{Current, Files, HandedBack, Parts};
use crate::write::folder::Folder;
use crate::write::header::Described;
use crate::{Error, Result};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

impl Files {
    /// Creates a sink that takes the chunks of `lanes`, which may be none for now. It hands back what it cannot write.
    pub(in crate::write) fn among_several(
        folder: Folder,
        dir: &Path,
        mut parts: Parts,
        lanes: &[usize],
    ) -> Result<Self> {
        parts.heading.absent = (0..parts.heading.lanes).filter(|lane| !lanes.contains(lane)).collect();
        let mut files = match lanes.is_empty() {
            false => Self::in_folder(folder, parts)?,
            true => Self::resting(folder, dir, parts)?,
        };
        files.sharing.handed_back = Some(Vec::new());
        Ok(files)
    }

    /// A sink without a current file: the folder's descriptor takes its place, and nothing is written to it.
    fn resting(folder: Folder, dir: &Path, parts: Parts) -> Result<Self> {
        let file = File::open(dir).map_err(|errno| Error::path("read the folder", dir, errno))?;
        let mut current = Current::begun(Arc::new(file), dir.to_owned(), &[], Described::default());
        // No header is due.
        current.offset = 1;
        let mut files = Self::new(Some(folder), current, parts)?;
        files.tally.bytes = 0;
        (files.broken, files.ended) = (true, true);
        Ok(files)
    }

    /// Prepares for the next waiting chunk, if it begins a turn of its lane: the current file ends, and the next one
    /// begins with the counts before that chunk. Returns whether anything has changed; another chunk may be the next
    /// then.
    pub(super) fn begin_turn(&mut self) -> Result<bool> {
        let Some((lane, chunk)) = self.waiting.front() else { return Ok(false) };
        let (lane, Some(before)) = (*lane, chunk.before.clone()) else { return Ok(false) };
        let is_away = self.heading.absent.contains(&lane) || self.sharing.leaving.contains(&lane);
        let is_ready = self.broken && self.counts[lane] == *before && !is_away;
        if self.failures.is_final || is_ready {
            return Ok(false);
        }
        if self.broken {
            self.readmit(lane);
            self.noted.retain(|(of, _)| *of != lane);
            self.counts[lane].clone_from(&before);
        } else {
            self.rest()?;
        }
        Ok(true)
    }

    /// Takes no more chunks of `lane`. The current file ends; the next chunk of another lane begins a new one.
    pub(in crate::write) fn release(&mut self, lane: usize) -> Result<()> {
        self.rest()?;
        self.sharing.leaving.insert(lane);
        Ok(())
    }

    fn readmit(&mut self, lane: usize) {
        self.heading.absent.remove(&lane);
        self.sharing.leaving.remove(&lane);
    }

    /// After a failure: the next file has the remaining chunks of lanes that went to another folder meanwhile.
    pub(super) fn readmit_waiting(&mut self) {
        for (lane, _) in &self.waiting {
            self.heading.absent.remove(lane);
            self.sharing.leaving.remove(lane);
        }
    }

    /// Ends the current file, if there is one; without packets it is removed.
    fn rest(&mut self) -> Result<()> {
        if self.broken {
            return Ok(());
        }
        if self.current.packets > 0 {
            self.end_in_folder()?;
        } else {
            self.abandon_records();
            self.queue_end(0);
        }
        if !self.broken {
            self.broken = true;
            self.failures.is_full = false;
        }
        Ok(())
    }

    /// Ends the output, if it has not ended yet, and its last file; returns what is not written.
    pub(in crate::write) fn hand_back(&mut self) -> Result<HandedBack> {
        // After failed syncs the current file is sound, and is ended here.
        self.rest()?;
        self.drain()?;
        self.failures.is_final = true;
        self.lose_waiting();
        if !self.ended {
            self.queue_end(self.current.offset);
        }
        self.end_files();
        let chunks = self.sharing.handed_back.as_mut().map(std::mem::take).unwrap_or_default();
        Ok(HandedBack { chunks, written: self.written.clone() })
    }

    /// No other folder is left: from now on, chunks that cannot be written are lost.
    pub(in crate::write) fn keep_all(&mut self) {
        self.waiting.extend(self.sharing.handed_back.take().into_iter().flatten());
        if self.failures.is_final {
            self.lose_waiting();
        }
    }

    /// Waits until another file may end with writes pending, and ends the current one.
    pub(super) fn end_in_folder(&mut self) -> Result<()> {
        self.complete_ready()?;
        let ending_max = self.folder.as_ref().map_or(u64::MAX, Folder::ending_max);
        while self.ending().files >= ending_max && !self.broken {
            self.complete_or_wait()?;
        }
        if self.broken { Ok(()) } else { self.end_current() }
    }
}
