//! Changes settings, and puts them back exactly as they were, over as many runs as it takes.
//!
//! What there was is written down before anything is changed, and read back after it: a run that is killed
//! in between can be undone too. A setting that somebody else has changed since is theirs, and stays.

use super::{Change, Hands, Knob};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where what was changed is kept until it is put back.
pub const STATE: &str = "/run/quaff/doctor.json";
/// How long another doctor may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What became of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Done {
    /// The setting, in words.
    pub what: String,
    /// What it was.
    pub was: String,
    /// What it is now.
    pub now: String,
    /// Why it is not what it was to be, if so.
    pub refused: Option<String>,
}

/// What is written down.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    boot: String,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    knob: Knob,
    /// Whose: settings of the network belong to a namespace.
    netns: Option<u64>,
    /// The number of its interface.
    index: Option<u32>,
    was: String,
    /// What it came to; nothing as long as that is not known.
    set: Option<String>,
}

/// The file, while nobody else uses it.
struct Book<'a> {
    path: &'a Path,
    state: State,
    /// Held, not read: it lets go of the lock.
    _folder: File,
}

/// Makes the changes, and writes down in `file` what there was. A setting that was changed before keeps its first
/// value. Rings come last, since drivers set up anew what goes with them.
///
/// # Errors
/// The file cannot be written; then nothing is changed. What a driver refuses is told in [`Done`].
pub fn fix(changes: &[Change], hands: &dyn Hands, file: &Path) -> Result<Vec<Done>> {
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let mut book = Book::open(file, true)?;
    let boot = hands.boot()?;
    if book.state.boot != boot {
        // What another start of the machine changed went with it.
        book.state = State { boot, entries: Vec::new() };
    }
    let mut changes: Vec<_> = changes.iter().collect();
    changes.sort_by_key(|change| matches!(change.knob, Knob::Ring(_)));
    let found: Vec<_> = changes.iter().map(|change| hands.get(&change.knob)).collect();
    for (change, was) in changes.iter().zip(&found) {
        if let Some(was) = was.as_ref().ok().filter(|was| **was != change.to) {
            book.note(place(&change.knob, hands)?, was);
            for (other, was) in beside(&change.knob, hands) {
                let place = place(&other, hands)?;
                if book.find(&place).is_none() {
                    book.note(place, &was);
                }
            }
        }
    }
    book.write()?;
    let one = |(change, was): (&&Change, Result<String>)| fix_one(change, was, hands, &mut book);
    let fixed = changes.iter().zip(found).flat_map(one).collect();
    book.close()?;
    Ok(fixed)
}

fn fix_one(change: &Change, was: Result<String>, hands: &dyn Hands, book: &mut Book<'_>) -> Vec<Done> {
    let Change { knob, to } = change;
    let was = match was {
        Ok(was) => was,
        Err(error) => return vec![done(knob, "?", "?", Some(error.to_string()))],
    };
    if was == *to {
        return vec![done(knob, &was, &was, None)];
    }
    let others = beside(knob, hands);
    let refused = hands.set(knob, to).err().map(|error| error.to_string());
    let now = hands.get(knob).unwrap_or_else(|_| to.clone());
    let mut told = vec![done(knob, &was, &now, refused)];
    told.extend(set_again(&others, hands));
    for (other, was) in &others {
        book.came_to(other, hands, &hands.get(other).unwrap_or_else(|_| was.clone()));
    }
    // A driver may round what it is told.
    book.came_to(knob, hands, &now);
    told
}

/// What a driver may set up anew when this changes, as it is now.
fn beside(knob: &Knob, hands: &dyn Hands) -> Vec<(Knob, String)> {
    let others = hands.beside(knob).into_iter();
    others.filter_map(|other| hands.get(&other).ok().map(|was| (other, was))).collect()
}

/// Sets what is not as it was to what it was; tells what does not let itself be set.
fn set_again(others: &[(Knob, String)], hands: &dyn Hands) -> Vec<Done> {
    let one = |(other, was): &(Knob, String)| {
        let now = hands.get(other).ok().filter(|now| now != was)?;
        let error = hands.set(other, was).err()?;
        Some(done(other, was, &now, Some(error.to_string())))
    };
    others.iter().filter_map(one).collect()
}

/// Puts back what was changed, the last change first, as far as it belongs to the caller's network namespace or
/// to the machine.
///
/// # Errors
/// The file was written before the machine was started again, or cannot be read or written.
pub fn undo(hands: &dyn Hands, file: &Path) -> Result<Vec<Done>> {
    if !file.exists() {
        return Ok(Vec::new());
    }
    let mut book = Book::open(file, false)?;
    if book.state.boot != hands.boot()? {
        return Err(Error::Plan(format!(
            "{} was written before the machine was started again, and what it tells of went with that: remove it",
            file.display()
        )));
    }
    let netns = hands.netns()?;
    let mut put_back = Vec::new();
    for at in (0..book.state.entries.len()).rev() {
        let entry = book.state.entries[at].clone();
        let others = beside(&entry.knob, hands);
        let (told, is_over) = match entry.netns.filter(|of| *of != netns) {
            Some(of) if hands.has_netns(of) => (left(&entry, ELSEWHERE), false),
            Some(_) => (left(&entry, GONE), true),
            None => undo_one(&entry, hands),
        };
        put_back.push(told);
        put_back.extend(set_again(&others, hands));
        if is_over {
            // A run that is killed before the file says so finds all as it was.
            book.state.entries.remove(at);
        }
    }
    book.close()?;
    Ok(put_back)
}

const ELSEWHERE: &str = "it was changed in another network namespace; undo it there";
const GONE: &str = "it was changed in a network namespace that is not there any more";

fn left(entry: &Entry, why: &str) -> Done {
    done(&entry.knob, entry.set.as_deref().unwrap_or("?"), "?", Some(why.to_owned()))
}

/// What became of it, and whether there is nothing left to do.
fn undo_one(entry: &Entry, hands: &dyn Hands) -> (Done, bool) {
    let Entry { knob, was, set, .. } = entry;
    let told = |now: &str, refused: Option<String>| done(knob, set.as_deref().unwrap_or("?"), now, refused);
    let is_same = match (knob.interface(), entry.index) {
        (Some(name), Some(index)) => hands.index(name).is_ok_and(|found| found == index),
        _ => true,
    };
    if !is_same {
        return (told("?", Some("the interface that was changed is not there any more".into())), true);
    }
    match hands.get(knob) {
        Err(Error::Os(error)) if error.errno.kind() == io::ErrorKind::NotFound => {
            (told("?", Some("it is not there any more".into())), true)
        }
        Err(error) => (told("?", Some(error.to_string())), false),
        Ok(now) if now == *was => (told(&now, None), true),
        // Of a run that was killed it is not known what it came to: it is ours.
        Ok(now) if set.as_ref().is_some_and(|set| *set != now) => {
            let words = format!("somebody else has set it to {now} since, and it stays so; it was {was}");
            (told(&now, Some(words)), true)
        }
        Ok(now) => match hands.set(knob, was) {
            Err(error) => (told(&now, Some(error.to_string())), false),
            Ok(()) => match hands.get(knob) {
                Ok(now) if now == *was => (told(&now, None), true),
                Ok(now) => {
                    (told(&now, Some(format!("it was {was}, and the driver made {now} of it"))), false)
                }
                Err(error) => (told("?", Some(error.to_string())), false),
            },
        },
    }
}

fn done(knob: &Knob, was: &str, now: &str, refused: Option<String>) -> Done {
    Done { what: knob.to_string(), was: was.to_owned(), now: now.to_owned(), refused }
}

/// An entry without values: which setting of which interface, in which namespace.
fn place(knob: &Knob, hands: &dyn Hands) -> Result<Entry> {
    let netns = if knob.is_of_netns() { Some(hands.netns()?) } else { None };
    let index = knob.interface().map(|name| hands.index(name)).transpose()?;
    Ok(Entry { knob: knob.clone(), netns, index, was: String::new(), set: None })
}

impl<'a> Book<'a> {
    /// Opens the file, or begins one, and keeps others from it.
    fn open(path: &'a Path, make: bool) -> Result<Self> {
        let folder = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if make {
            fs::create_dir_all(folder).map_err(|errno| Error::path("make the folder", folder, errno))?;
        }
        let held = File::open(folder).map_err(|errno| Error::path("open", folder, errno))?;
        let begun = Instant::now();
        while matches!(held.try_lock(), Err(fs::TryLockError::WouldBlock)) {
            if begun.elapsed() > PATIENCE {
                return Err(Error::path("lock", folder, io::ErrorKind::TimedOut.into()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let state = match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                Error::Plan(format!("{}: {error}; what was there before cannot be told", path.display()))
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => State::default(),
            Err(errno) => return Err(Error::path("read", path, errno)),
        };
        Ok(Self { path, state, _folder: held })
    }

    /// Notes what a setting was, unless that is known, and that it is being changed.
    fn note(&mut self, place: Entry, was: &str) {
        match self.find(&place) {
            Some(at) => self.state.entries[at].set = None,
            None => self.state.entries.push(Entry { was: was.to_owned(), ..place }),
        }
    }

    /// Notes what a setting came to; one that is what it was has nothing to be put back.
    fn came_to(&mut self, knob: &Knob, hands: &dyn Hands, now: &str) {
        let Some(at) = place(knob, hands).ok().and_then(|place| self.find(&place)) else { return };
        if self.state.entries[at].was == now {
            self.state.entries.remove(at);
        } else {
            self.state.entries[at].set = Some(now.to_owned());
        }
    }

    fn find(&self, place: &Entry) -> Option<usize> {
        let is_it = |entry: &Entry| {
            (&entry.knob, entry.netns, entry.index) == (&place.knob, place.netns, place.index)
        };
        self.state.entries.iter().position(is_it)
    }

    /// Writes what is left; a file that has nothing to tell goes.
    fn close(&self) -> Result<()> {
        if self.state.entries.is_empty() {
            return fs::remove_file(self.path).map_err(|errno| Error::path("remove", self.path, errno));
        }
        self.write()
    }

    /// Puts a whole new file in the place of the old one.
    fn write(&self) -> Result<()> {
        let new: PathBuf = self.path.with_extension("new");
        let failed = |errno| Error::path("write", &new, errno);
        let text = serde_json::to_vec_pretty(&self.state).map_err(|error| failed(error.into()))?;
        let mut file = File::create(&new).map_err(failed)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&new, self.path).map_err(|errno| Error::path("write", self.path, errno))
    }
}

#[cfg(test)]
mod tests;
