//! A summary of capture files: packets, times, rates, gaps, order, interfaces, recorded drops.
//!
//! Each packet costs a few loads of its headers: nothing is copied or described per packet. A large file is read by
//! several threads, see [`walk`]; small files share the threads. This module never prints and never chooses an exit
//! code.

mod digest;
mod order;
mod report;
mod survey;
mod tally;
#[cfg(test)]
mod tests;
mod walk;
mod window;

pub use digest::add_digests;
pub use order::Gap;
pub use report::{Break, Drops, FileInfo, InterfaceInfo, Origin, Total};
pub use tally::{DropPlace, DropPlaces};

use crate::read::{self, CaptureFile, Compression, Error};
use quaff_os::spawn_in;
use quaff_wire::decode::{Decoder, Format};
use quaff_wire::pcap::RecordLayout;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use survey::Survey;
use walk::{Walk, WalkError};
use window::Window;

/// Files from this size on are read by several threads, one file after the other.
const LARGE_BYTES: u64 = 4 * walk::PART_BYTES;
/// Threads for a file at least: reads from a disk wait most of the time.
const THREADS_MIN: usize = 4;
/// Threads for a file at most: memory is the limit before that.
const THREADS_MAX: usize = 16;

/// Number of threads, and the sizes of the parts in which a file is read; smaller in tests.
#[derive(Debug, Clone, Copy)]
struct Layout {
    threads: usize,
    /// Other files are read at the same time.
    is_beside_others: bool,
    part_bytes: u64,
    large_bytes: u64,
    cached_bytes: usize,
}

impl Layout {
    fn usual() -> Self {
        let cores = quaff_os::cpu::allowed().map_or(1, |cores| cores.len());
        Self {
            threads: cores.clamp(THREADS_MIN, THREADS_MAX),
            is_beside_others: false,
            part_bytes: walk::PART_BYTES,
            large_bytes: LARGE_BYTES,
            cached_bytes: window::CACHED_BYTES,
        }
    }
}

/// Surveys `files`, `-` for standard input; the summaries are in their order. A file that cannot be read has one too:
/// see [`FileInfo::error`].
///
/// `reading` has the files that were found in folders, and whether to continue after damage.
pub fn survey(files: &[PathBuf], reading: &read::Options) -> Vec<FileInfo> {
    let layout = Layout::usual();
    let is_large = |path: &Path| {
        !reading.salvage
            && path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() >= layout.large_bytes)
    };
    let (large, small): (Vec<_>, Vec<_>) = (0..files.len()).partition(|number| is_large(&files[*number]));
    let infos: Vec<_> = files.iter().map(|_| Mutex::new(FileInfo::default())).collect();
    let one = |number: usize, layout: &Layout| {
        *infos[number].lock().unwrap_or_else(PoisonError::into_inner) =
            survey_file(&files[number], reading, layout);
    };
    let next = AtomicUsize::new(0);
    let several = || {
        // Relaxed: each thread only needs another number.
        while let Some(number) = small.get(next.fetch_add(1, Ordering::Relaxed)) {
            one(*number, &Layout { threads: 1, is_beside_others: small.len() > 1, ..layout });
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..layout.threads.min(small.len()) {
            // Fewer threads take longer.
            if spawn_in(scope, "quaff-info", several).is_err() {
                break;
            }
        }
        several();
    });
    large.iter().for_each(|number| one(*number, &layout));
    infos.into_iter().map(|info| info.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

/// Surveys a file by one thread, and by several in parts of `part_bytes`; both summaries must be equal. For
/// `fuzz/targets/survey.rs`.
#[doc(hidden)]
pub fn survey_in_parts(path: &Path, part_bytes: u64) -> [FileInfo; 2] {
    [1, 3].map(|threads| {
        let (large_bytes, cached_bytes) = (0, part_bytes as usize);
        let layout = Layout { threads, is_beside_others: false, part_bytes, large_bytes, cached_bytes };
        survey_file(path, &read::Options::default(), &layout)
    })
}

fn survey_file(path: &Path, reading: &read::Options, layout: &Layout) -> FileInfo {
    let found = path.metadata().ok().filter(|found| found.is_file() && path != Path::new("-"));
    let mut info = FileInfo {
        path: path.display().to_string(),
        file_bytes: found.as_ref().map(|found| found.len()),
        ..FileInfo::default()
    };
    let done = match found.is_some() && !reading.salvage {
        true => plain(path, layout, &mut info),
        false => Ok(false),
    };
    let is_beside_others = layout.is_beside_others;
    let options = read::Options { is_beside_others, ..reading.clone() };
    let done = match done {
        Ok(false) => decoded(path, options, &mut info),
        done => done.map(|_| ()),
    };
    if let Err(error) = done {
        info.broken = match &error {
            Error::Damage { damage, .. } => Some(Break { offset: damage.offset, reason: damage.to_string() }),
            Error::Corrupt { corruption, .. } => {
                Some(Break { offset: corruption.offset, reason: corruption.to_string() })
            }
            Error::Os(_) => None,
        };
        info.error = Some(error.to_string());
        info.unreadable = info.data_bytes == 0;
    }
    info
}

/// Surveys a file that is not compressed; `false` if it is.
fn plain(path: &Path, layout: &Layout, info: &mut FileInfo) -> Result<bool, Error> {
    let mut window = Window::open(path, layout.cached_bytes)?;
    let read_error = |error| Error::Os(quaff_os::Error::new(format!("read {}", path.display()), error));
    window.seek(0).map_err(read_error)?;
    if Compression::of(window.bytes()).is_some() {
        return Ok(false);
    }
    let identity = window.identity()?;
    let (_, _, size) = identity;
    let mut walk = Walk::new(&mut window, read::finished(path).is_some());
    let done = if layout.threads > 1 && size >= layout.large_bytes {
        let windows = (0..layout.threads).map_while(|_| Window::open(path, layout.cached_bytes).ok());
        // Another file may have taken the name meanwhile.
        let is_same = |window: &Window| {
            window.identity().is_ok_and(|(dev, ino, _)| (dev, ino) == (identity.0, identity.1))
        };
        let windows: Vec<_> = windows.filter(is_same).collect();
        walk.parallel(windows, layout.part_bytes, size)
    } else {
        walk.serial()
    };
    let Walk { decoder, survey, unfinished_bytes, .. } = walk;
    fill(info, survey, decoder, path);
    if unfinished_bytes > 0 {
        info.notes.push(read::unfinished_note(path, unfinished_bytes, "packet"));
    }
    match done {
        Ok(()) => Ok(true),
        Err(WalkError::Io(error)) => Err(read_error(error)),
        Err(WalkError::Damage(damage)) => Err(Error::Damage { path: path.into(), damage }),
    }
}

fn fill(info: &mut FileInfo, survey: Survey, mut decoder: Decoder, path: &Path) {
    survey.finish(info);
    (info.format, info.data_bytes) = (decoder.format().map(name_of), decoder.offset());
    if let Some(layout) = decoder.layout().filter(|layout| *layout != RecordLayout::Standard) {
        info.notes.push(format!("{}: {layout}", path.display()));
    }
    let corrected = *decoder.corrections();
    info.notes.extend(read::correction_notes(path, corrected));
    info.notes.extend(read::time_notes(path, corrected));
}

/// Surveys a file as `capture --read` reads it: compressed, from a pipe, or damaged and salvaged.
fn decoded(path: &Path, options: read::Options, info: &mut FileInfo) -> Result<(), Error> {
    let mut file = CaptureFile::open_with(path, options)?;
    let mut survey = Survey::default();
    let done = loop {
        match file.pull(|item| survey.item(&item)) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    survey.finish(info);
    (info.format, info.compression) = (file.format().map(name_of), file.compression());
    (info.data_bytes, info.skipped, info.notes) = (file.offset(), file.skipped, file.notes());
    info.notes.extend(read::time_notes(path, file.corrections()));
    done
}

fn name_of(format: Format) -> &'static str {
    match format {
        Format::Pcap => "pcap",
        Format::Pcapng => "pcapng",
    }
}
