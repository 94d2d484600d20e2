//! Changes settings and restores them exactly, over any number of runs.
//!
//! Previous values are recorded in a state file before a change and new values after it, so that a run killed in
//! between can be undone. A setting that another program has changed since is left alone.

use super::Change;
use super::settings::{Backend, Machine, Setting};
use crate::{Error, Result};
use quaff_os::disk::write_output;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// The default state file.
pub const STATE: &str = "/run/quaff/doctor.json";
/// Longest wait for another process that uses the state file.
const PATIENCE: Duration = Duration::from_secs(5);

/// The result for one setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Done {
    /// Description of the setting.
    pub what: String,
    /// Previous value.
    pub was: String,
    /// Present value, if it could be read.
    pub now: Option<String>,
    /// The reason why the value is not the wanted one; `None` if it is.
    pub refused: Option<String>,
}

/// Contents of the state file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    boot: String,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    #[serde(alias = "knob")]
    setting: Setting,
    /// Network namespace of the setting; `None` for settings of the machine.
    netns: Option<u64>,
    /// Index of the interface.
    index: Option<u32>,
    was: String,
    /// Value after the change; `None` until it has been read back.
    set: Option<String>,
}

/// The state file, locked.
struct StateFile<'a> {
    path: &'a Path,
    state: State,
    /// Holds the lock.
    _folder: File,
}

/// Makes the changes and records the previous values in `file`. A setting that was changed before keeps its first
/// value. Rings come last, because drivers reset related settings with them.
///
/// # Errors
/// The file cannot be written; then nothing is changed. A refusal of a driver is part of the result.
pub fn fix(changes: &[Change], file: &Path) -> Result<Vec<Done>> {
    fix_with(changes, &Machine, file)
}

/// Restores the previous values, the last change first, of settings of the machine and of the caller's network
/// namespace.
///
/// # Errors
/// The file was written before a reboot, or cannot be read or written.
pub fn undo(file: &Path) -> Result<Vec<Done>> {
    undo_with(&Machine, file)
}

fn fix_with(changes: &[Change], backend: &dyn Backend, file: &Path) -> Result<Vec<Done>> {
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let mut file = StateFile::open(file, true)?;
    let boot = backend.boot()?;
    if file.state.boot != boot {
        // A reboot has undone earlier changes.
        file.state = State { boot, entries: Vec::new() };
    }
    let mut changes: Vec<_> = changes.iter().collect();
    changes.sort_by_key(|change| matches!(change.setting, Setting::Ring(_)));
    let found: Vec<_> = changes.iter().map(|change| backend.get(&change.setting)).collect();
    for (change, was) in changes.iter().zip(&found) {
        if let Some(was) = was.as_ref().ok().filter(|was| **was != change.to) {
            file.note(place(&change.setting, backend)?, was);
            for (other, was) in related(&change.setting, backend) {
                let place = place(&other, backend)?;
                if file.find(&place).is_none() {
                    file.note(place, &was);
                }
            }
        }
    }
    file.write()?;
    let one = |(change, was): (&&Change, Result<String>)| fix_one(change, was, backend, &mut file);
    let fixed = changes.iter().zip(found).flat_map(one).collect();
    file.close()?;
    Ok(fixed)
}

fn fix_one(
    change: &Change,
    was: Result<String>,
    backend: &dyn Backend,
    file: &mut StateFile<'_>,
) -> Vec<Done> {
    let Change { setting, to } = change;
    let was = match was {
        Ok(was) if was == *to => return vec![done(setting, &was, Some(&was), None)],
        Ok(was) => was,
        Err(error) => return vec![done(setting, "?", None, Some(error.to_string()))],
    };
    let others = related(setting, backend);
    let refused = backend.set(setting, to).err().map(|error| error.to_string());
    // A driver may round the value.
    let now = backend.get(setting).unwrap_or_else(|_| to.clone());
    let mut results = vec![done(setting, &was, Some(&now), refused)];
    results.extend(restore_others(&others, backend));
    for (other, was) in &others {
        file.note_result(other, backend, &backend.get(other).unwrap_or_else(|_| was.clone()));
    }
    file.note_result(setting, backend, &now);
    results
}

/// The settings that a driver may reset with this one, and their values.
fn related(setting: &Setting, backend: &dyn Backend) -> Vec<(Setting, String)> {
    let others = backend.related(setting).into_iter();
    others.filter_map(|other| backend.get(&other).ok().map(|was| (other, was))).collect()
}

/// Restores settings that a driver has reset; returns those that could not be restored.
fn restore_others(others: &[(Setting, String)], backend: &dyn Backend) -> Vec<Done> {
    let one = |(other, was): &(Setting, String)| {
        let now = backend.get(other).ok().filter(|now| now != was)?;
        let error = backend.set(other, was).err()?;
        Some(done(other, was, Some(&now), Some(error.to_string())))
    };
    others.iter().filter_map(one).collect()
}

fn undo_with(backend: &dyn Backend, path: &Path) -> Result<Vec<Done>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut file = StateFile::open(path, false)?;
    if file.state.boot != backend.boot()? {
        return Err(Error::Plan(format!(
            "{} is from before a reboot, which has undone the changes that it records: remove it",
            path.display()
        )));
    }
    let netns = backend.netns()?;
    let mut undone = Vec::new();
    for at in (0..file.state.entries.len()).rev() {
        let entry = file.state.entries[at].clone();
        let others = related(&entry.setting, backend);
        let result = match entry.netns.filter(|of| *of != netns) {
            Some(of) if backend.has_netns(of) => {
                Undone::left(None, "it was changed in another network namespace; undo it there", false)
            }
            Some(_) => Undone::left(None, "its network namespace no longer exists", true),
            None => undo_one(&entry, backend),
        };
        let set = entry.set.as_deref().unwrap_or("?");
        undone.push(done(&entry.setting, set, result.now.as_deref(), result.refused));
        undone.extend(restore_others(&others, backend));
        if result.is_over {
            // If this run is killed before the file is written, the next one finds the value restored.
            file.state.entries.remove(at);
        }
    }
    file.close()?;
    Ok(undone)
}

/// The result of restoring one setting.
struct Undone {
    now: Option<String>,
    refused: Option<String>,
    /// Nothing is left to restore.
    is_over: bool,
}

impl Undone {
    fn left(now: Option<String>, why: impl ToString, is_over: bool) -> Self {
        Self { now, refused: Some(why.to_string()), is_over }
    }
}

fn undo_one(entry: &Entry, backend: &dyn Backend) -> Undone {
    let Entry { setting, was, set, .. } = entry;
    if let (Some(name), Some(index)) = (setting.interface(), entry.index)
        && backend.index(name).ok() != Some(index)
    {
        return Undone::left(None, "the interface that was changed no longer exists", true);
    }
    let now = match backend.get(setting) {
        Ok(now) => now,
        Err(Error::Os(error)) if error.errno.kind() == io::ErrorKind::NotFound => {
            return Undone::left(None, "it no longer exists", true);
        }
        Err(error) => return Undone::left(None, error, false),
    };
    if now == *was {
        return Undone { now: Some(now), refused: None, is_over: true };
    }
    // The value that a killed run has set is unknown and assumed to be the present one.
    if set.as_ref().is_some_and(|set| *set != now) {
        let why = format!("another program has set it to {now} since; it was {was}");
        return Undone::left(Some(now), why, true);
    }
    match backend.set(setting, was).and_then(|()| backend.get(setting)) {
        Ok(now) if now == *was => Undone { now: Some(now), refused: None, is_over: true },
        Ok(now) => {
            let why = format!("it was {was}, but the driver has set {now}");
            Undone::left(Some(now), why, false)
        }
        Err(error) => Undone::left(Some(now), error, false),
    }
}

fn done(setting: &Setting, was: &str, now: Option<&str>, refused: Option<String>) -> Done {
    Done { what: setting.to_string(), was: was.to_owned(), now: now.map(str::to_owned), refused }
}

/// An entry without values: the setting with its interface and network namespace.
fn place(setting: &Setting, backend: &dyn Backend) -> Result<Entry> {
    let netns = if setting.is_of_netns() { Some(backend.netns()?) } else { None };
    let index = setting.interface().map(|name| backend.index(name)).transpose()?;
    Ok(Entry { setting: setting.clone(), netns, index, was: String::new(), set: None })
}

impl<'a> StateFile<'a> {
    /// Locks and reads the file. `make` creates its folder.
    fn open(path: &'a Path, make: bool) -> Result<Self> {
        let folder = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if make {
            fs::create_dir_all(folder).map_err(|errno| Error::path("make the folder", folder, errno))?;
        }
        // No other user can open it, and so none can hold its lock.
        let lock = folder.join(".settings");
        let held = write_output(&lock, &[], 0o600);
        let held = held.map_err(|errno| Error::path("open", &lock, errno))?;
        let started = Instant::now();
        while matches!(held.try_lock(), Err(fs::TryLockError::WouldBlock)) {
            if started.elapsed() > PATIENCE {
                return Err(Error::path("lock", folder, io::ErrorKind::TimedOut.into()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let state = match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                Error::Plan(format!("{}: {error}; the previous settings are unknown", path.display()))
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => State::default(),
            Err(errno) => return Err(Error::path("read", path, errno)),
        };
        Ok(Self { path, state, _folder: held })
    }

    /// Records that a change begins, and the previous value unless it is known.
    fn note(&mut self, place: Entry, was: &str) {
        match self.find(&place) {
            Some(at) => self.state.entries[at].set = None,
            None => self.state.entries.push(Entry { was: was.to_owned(), ..place }),
        }
    }

    /// Records the value after a change. An unchanged setting needs no entry.
    fn note_result(&mut self, setting: &Setting, backend: &dyn Backend, now: &str) {
        let Some(at) = place(setting, backend).ok().and_then(|place| self.find(&place)) else { return };
        if self.state.entries[at].was == now {
            self.state.entries.remove(at);
        } else {
            self.state.entries[at].set = Some(now.to_owned());
        }
    }

    fn find(&self, place: &Entry) -> Option<usize> {
        let is_it = |entry: &Entry| {
            (&entry.setting, entry.netns, entry.index) == (&place.setting, place.netns, place.index)
        };
        self.state.entries.iter().position(is_it)
    }

    /// Writes the file, or removes it if it has no entries.
    fn close(&self) -> Result<()> {
        if self.state.entries.is_empty() {
            return fs::remove_file(self.path).map_err(|errno| Error::path("remove", self.path, errno));
        }
        self.write()
    }

    /// Replaces the file atomically.
    fn write(&self) -> Result<()> {
        let new = self.path.with_extension("new");
        let failed = |errno| Error::path("write", &new, errno);
        let text = serde_json::to_vec_pretty(&self.state).map_err(|error| failed(error.into()))?;
        write_output(&new, &text, 0o640).and_then(|file| file.sync_all()).map_err(failed)?;
        fs::rename(&new, self.path).map_err(|errno| Error::path("write", self.path, errno))
    }
}

#[cfg(test)]
mod tests;
