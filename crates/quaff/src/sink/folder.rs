//! A folder of files: which one comes next, what it is called, and which old ones have to go.

use super::keeper::{Fresh, Keeper, Kept, Opening, part_of};
use super::names::Names;
use super::shelf::Shelf;
use crate::plan::{DirPlan, Format};
use crate::{Error, Result};
use quaff_os::clock::steady_ns;
use quaff_os::event::Event;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How often the rule is held against the disk while a file grows, ns.
const LOOK_NS: u64 = 500_000_000;

/// The folder of a rotation.
#[derive(Debug)]
pub struct Folder {
    opening: Opening,
    names: Names,
    shelf: Shelf,
    keeper: Keeper,
    /// A file gets no larger than this.
    pub rotate_bytes: u64,
    /// Files handed to the keeper that are not on the shelf yet.
    unfinished: u64,
    unfinished_bytes: u64,
    opened: Option<io::Result<Fresh>>,
    looked_ns: u64,
    /// Files removed so far.
    pub pruned: u64,
    /// A file that could not be finished: path and why.
    pub trouble: Option<(PathBuf, io::Error)>,
}

impl Folder {
    /// Looks at the folder, cleans up after runs that were killed, and has the first file opened.
    pub fn open(plan: &DirPlan, format: Format, direct: bool, bell: Event) -> Result<Self> {
        let names = Names::new(&plan.name, format.extension())?;
        let shelf = Shelf::open(&plan.dir, &names, plan.retention)?;
        let rotate_bytes = plan.rotate_bytes.unwrap_or(u64::MAX);
        let preallocate = plan.rotate_bytes.unwrap_or(256 << 20).min(1 << 30);
        let opening = Opening { dir: plan.dir.clone(), direct, preallocate };
        let keeper = Keeper::start(opening.clone(), bell)?;
        keeper.open_next();
        Ok(Self {
            opening,
            names,
            shelf,
            keeper,
            rotate_bytes,
            unfinished: 0,
            unfinished_bytes: 0,
            opened: None,
            looked_ns: 0,
            pruned: 0,
            trouble: None,
        })
    }

    /// The next file and its final path; it is there under that path with `.part` behind. Before
    /// that, what has to go for it goes. `time_ns` is when the file begins.
    pub fn next(&mut self, time_ns: u64) -> Result<(Arc<File>, PathBuf)> {
        let room = if self.rotate_bytes == u64::MAX { 0 } else { self.rotate_bytes };
        self.pruned += self.shelf.prune(self.unfinished + 1, self.unfinished_bytes + room);
        let fresh = self.take_opened()?;
        self.keeper.open_next();
        loop {
            let path = self.opening.dir.join(self.names.name(time_ns, self.shelf.next_number()));
            match fresh.name(&path) {
                Ok(_) => return Ok((fresh.file, path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::path("name the file", path, error)),
            }
        }
    }

    /// Has a file finished.
    pub fn finish(&mut self, file: Arc<File>, path: PathBuf, bytes: u64) {
        self.unfinished += 1;
        self.unfinished_bytes += bytes;
        self.keeper.finish(file, path, bytes);
    }

    /// Removes a file that nothing was written to.
    pub fn discard(&mut self, path: &Path) {
        // An empty .part that stays is cleaned up by the next run.
        let _ = std::fs::remove_file(part_of(path));
    }

    /// Hears what the keeper has done, and holds the rule against the disk now and then.
    /// `current_bytes` are those of the file being written.
    pub fn tick(&mut self, current_bytes: u64) {
        while let Some(kept) = self.keeper.done() {
            self.hear(kept);
        }
        let now_ns = steady_ns();
        if now_ns - self.looked_ns >= LOOK_NS {
            self.looked_ns = now_ns;
            self.pruned += self.shelf.prune(self.unfinished + 1, self.unfinished_bytes + current_bytes);
        }
    }

    /// Removes the oldest file because the disk is full. `false` when the rule does not allow it, or
    /// when there is none left.
    pub fn make_room(&mut self) -> bool {
        loop {
            if self.shelf.make_room() {
                self.pruned += 1;
                return true;
            }
            if !self.wait_for_one() {
                return false;
            }
        }
    }

    /// Waits until every file is finished.
    pub fn settle(&mut self) {
        while self.wait_for_one() {}
        self.tick(0);
    }

    fn wait_for_one(&mut self) -> bool {
        if self.unfinished == 0 {
            return false;
        }
        let kept = self.keeper.wait();
        kept.map(|kept| self.hear(kept)).is_some()
    }

    fn take_opened(&mut self) -> Result<Fresh> {
        loop {
            match self.opened.take() {
                Some(Ok(fresh)) => return Ok(fresh),
                Some(Err(error)) if error.kind() == ErrorKind::StorageFull && self.make_room() => {
                    self.keeper.open_next()
                }
                Some(Err(error)) => return Err(Error::path("open a file in", &self.opening.dir, error)),
                None => match self.keeper.wait() {
                    Some(kept) => self.hear(kept),
                    None => return Err(Error::Defect("the file keeper is gone".into())),
                },
            }
        }
    }

    fn hear(&mut self, kept: Kept) {
        match kept {
            Kept::Opened(opened) => self.opened = Some(opened),
            Kept::Finished(path, bytes, finished) => {
                self.unfinished -= 1;
                self.unfinished_bytes -= bytes;
                match finished {
                    Ok(()) => self.shelf.add(path, bytes),
                    Err(error) => self.trouble = Some((path, error)),
                }
            }
        }
    }
}
