//! The registry of labs and their owners: one file for each lab under `/run/quaff`.
//!
//! The owner of a lab holds a lock (flock(2)) on its file while the lab is in use, and the kernel releases the lock
//! however the owner ends. A lab that is not persistent and whose lock is free was left by a killed run. This module
//! uses files and locks only, never a namespace.

use crate::owner::Owner;
use crate::{Error, Result};
use quaff_os::Try;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const DIR: &str = "/run/quaff";
const SUFFIX: &str = ".lock";
/// "Permission denied" (errno(3)).
const EACCES: i32 = 13;
/// Attempts to lock: a sweep or a listing holds each lock briefly.
const TRIES: u32 = 40;
const BETWEEN_TRIES: Duration = Duration::from_millis(25);

/// The contents of a lab's file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The MTU of the link, bytes.
    pub(crate) mtu: u32,
    /// True if the lab outlives its creator.
    pub(crate) persistent: bool,
    /// The process that created it.
    pub(crate) pid: u32,
    /// True if it has two senders and a device between them.
    #[serde(default)]
    pub(crate) is_between: bool,
    /// The process that called its creator.
    #[serde(default)]
    pub(crate) owner: Option<Owner>,
}

/// The file of a lab, locked.
#[derive(Debug)]
pub(crate) struct Entry {
    name: String,
    file: File,
}

/// The lock of a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Exclusive: to create it or to take it down.
    Alone,
    /// Shared: to use it together with other processes.
    Shared,
}

/// The processes that hold the lock of a lab: IDs and command lines (`/proc/locks`, proc_locks(5)).
pub(crate) fn users(name: &str) -> Vec<(u32, String)> {
    let Ok(inode) = path(name).metadata().map(|meta| meta.ino()) else { return Vec::new() };
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let holder = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = words[..] else { return None };
        // MAJOR:MINOR:INODE
        let is_ours = file.rsplit(':').next()?.parse::<u64>().ok()? == inode;
        pid.parse::<u32>().ok().filter(|pid| is_ours && *pid != std::process::id())
    };
    let named = |pid: u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        Some((pid, words.join(" ").trim_end().to_owned()))
    };
    locks.lines().filter_map(holder).filter_map(named).collect()
}

impl Entry {
    /// Creates and locks the file of a new lab; `None` if it exists.
    pub(crate) fn make(name: &str) -> Result<Option<Self>> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(DIR)
            .trying(|| format!("create {DIR}"))
            .map_err(advise_root)?;
        let made = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path(name));
        let file = match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            made => made.trying(|| format!("create {}", path(name).display())).map_err(advise_root)?,
        };
        let entry = Self { name: name.to_owned(), file };
        // Between the two calls a sweep may remove the new file.
        Ok((entry.lock(Hold::Alone, 1)? && entry.is_current()).then_some(entry))
    }

    /// Finds and locks the file of a lab.
    pub(crate) fn find(name: &str, hold: Hold) -> Result<Found> {
        Self::open(name, hold, TRIES)
    }

    /// Like [`Entry::find`], without waiting for the lock.
    pub(crate) fn find_now(name: &str, hold: Hold) -> Result<Found> {
        Self::open(name, hold, 1)
    }

    fn open(name: &str, hold: Hold, tries: u32) -> Result<Found> {
        let file = match OpenOptions::new().read(true).write(true).open(path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::None),
            file => file.trying(|| format!("open {}", path(name).display())).map_err(advise_root)?,
        };
        let entry = Self { name: name.to_owned(), file };
        match entry.lock(hold, tries)? {
            false => Ok(Found::InUse),
            true if entry.is_current() => Ok(Found::Locked(entry)),
            true => Ok(Found::None),
        }
    }

    /// Reads the file; `None` if it is incomplete.
    pub(crate) fn read(&mut self) -> Option<Record> {
        let mut text = String::new();
        self.file.rewind().ok()?;
        self.file.read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Writes the file.
    pub(crate) fn write(&mut self, record: &Record) -> Result<()> {
        let tried = || format!("write {}", path(&self.name).display());
        let text = serde_json::to_string(record).map_err(io::Error::from).trying(tried)?;
        self.file.set_len(0).trying(tried)?;
        self.file.rewind().trying(tried)?;
        self.file.write_all(text.as_bytes()).trying(tried)?;
        Ok(())
    }

    /// Removes the file.
    pub(crate) fn remove(self) -> Result<()> {
        fs::remove_file(path(&self.name)).trying(|| format!("remove {}", path(&self.name).display()))?;
        Ok(())
    }

    fn lock(&self, hold: Hold, tries: u32) -> Result<bool> {
        for again in (0..tries).rev() {
            let locked = match hold {
                Hold::Alone => self.file.try_lock(),
                Hold::Shared => self.file.try_lock_shared(),
            };
            match locked {
                Ok(()) => return Ok(true),
                Err(TryLockError::WouldBlock) if again > 0 => std::thread::sleep(BETWEEN_TRIES),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => {
                    return Err(quaff_os::Error::new(format!("lock the lab {}", self.name), error).into());
                }
            }
        }
        Ok(false)
    }

    /// True if the path still refers to the locked file.
    fn is_current(&self) -> bool {
        let held = self.file.metadata().map(|held| (held.dev(), held.ino()));
        let named = fs::metadata(path(&self.name)).map(|named| (named.dev(), named.ino()));
        matches!((held, named), (Ok(held), Ok(named)) if held == named)
    }
}

/// The result of a search for the file of a lab.
#[derive(Debug)]
pub(crate) enum Found {
    None,
    /// Another process has locked it.
    InUse,
    Locked(Entry),
}

/// The names of all labs, sorted.
pub(crate) fn names() -> Result<Vec<String>> {
    let entries = match fs::read_dir(DIR) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.trying(|| format!("list {DIR}"))?,
    };
    let name = |entry: fs::DirEntry| Some(entry.file_name().to_str()?.strip_suffix(SUFFIX)?.to_owned());
    let mut names: Vec<_> = entries.flatten().filter_map(name).collect();
    names.sort();
    Ok(names)
}

/// Reads the file of a lab without a lock; `None` if it does not exist or is not yet written.
pub(crate) fn glance(name: &str) -> Option<Record> {
    serde_json::from_str(&fs::read_to_string(path(name)).ok()?).ok()
}

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(format!("{name}{SUFFIX}"))
}

fn advise_root(error: quaff_os::Error) -> Error {
    match error.raw() {
        EACCES => error.advise("labs need root; try with sudo").into(),
        _ => error.into(),
    }
}
