//! Files that are named, and capture files in folders that are named, found by their magic numbers. It parses nothing:
//! the process is not confined yet.

use crate::file_order;
use crate::show::name;
use anyhow::{Context as _, bail, ensure};
use quaff_file::read::{Compression, finished, is_gone};
use quaff_wire::decode::has_magic;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Bytes of a file that show its content.
const HEAD_BYTES: usize = 4096;
/// Folders inside each other, at most.
const DEPTH_MAX: usize = 32;

/// Capture files.
#[derive(Debug, Clone, Default)]
pub(crate) struct Found {
    pub(crate) files: Vec<PathBuf>,
    /// Those that were found in folders. Another process may remove or rename them.
    pub(crate) in_folders: BTreeSet<PathBuf>,
}

impl Found {
    /// The files, and the names that those of a rotation get when they are complete.
    pub(crate) fn with_later_names(&self) -> Vec<PathBuf> {
        let later: Vec<_> = self.files.iter().filter_map(|path| finished(path)).collect();
        [&self.files[..], &later].concat()
    }
}

/// The files that are named, `-` once, and the capture files in folders that are named, in the order in which a
/// recorder made them. What is found in a folder and is one of `outputs`, or in it, is left out.
pub(crate) fn find(paths: &[PathBuf], outputs: &[&Path]) -> anyhow::Result<Found> {
    ensure_stdin_once(paths)?;
    let own: Vec<_> = outputs.iter().filter_map(|path| identity(path)).collect();
    let mut found = Found::default();
    for path in paths {
        if path.as_os_str() == "-" || !path.is_dir() {
            found.files.push(path.clone());
            continue;
        }
        for file in inside(path, DEPTH_MAX, &own)? {
            // One that is gone is named when it cannot be opened.
            let is_capture = head_if_there(&file)?.map_or(is_plain_name(&file), |head| is_capture(&head));
            if is_capture {
                found.in_folders.insert(file.clone());
                found.files.push(file);
            }
        }
    }
    if found.files.is_empty() && !paths.is_empty() {
        let named: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
        bail!("no capture files (pcap, pcapng) in {}", name(&named.join(", ")));
    }
    Ok(found)
}

/// Refuses to read stdin twice.
pub(crate) fn ensure_stdin_once(paths: &[PathBuf]) -> anyhow::Result<()> {
    let stdin = paths.iter().filter(|path| path.as_os_str() == "-").count();
    ensure!(stdin < 2, "stdin can be read once, and '-' is given {stdin} times");
    Ok(())
}

/// Returns whether a file is not hidden.
fn is_plain_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b"."))
}

/// The files of a folder and of those in it, in the order of their names. A link to a folder may lead back, and is
/// skipped.
pub(crate) fn in_folder(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    inside(path, DEPTH_MAX, &[])
}

/// Device and number of a file.
type Identity = (u64, u64);

fn identity(path: &Path) -> Option<Identity> {
    path.metadata().ok().map(|found| (found.dev(), found.ino()))
}

fn inside(path: &Path, depth: usize, own: &[Identity]) -> anyhow::Result<Vec<PathBuf>> {
    ensure!(depth > 0, "{} has folders inside each other, more than {DEPTH_MAX}", path.display());
    let tried = || format!("read the folder {}", path.display());
    let entries = fs::read_dir(path).with_context(tried)?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
    let mut files = Vec::new();
    for path in file_order::sorted(path, paths) {
        if !own.is_empty() && identity(&path).is_some_and(|found| own.contains(&found)) {
            continue;
        }
        if path.is_dir() {
            if !path.is_symlink() {
                files.extend(inside(&path, depth - 1, own)?);
            }
        } else if path.is_file() || is_gone(&path) {
            files.push(path);
        }
    }
    Ok(files)
}

/// The first bytes of a file of a folder; `None` if it is gone.
pub(crate) fn head_if_there(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    match head(path) {
        Err(_) if is_gone(path) => Ok(None),
        head => head.map(Some),
    }
}

/// The first bytes of a file.
pub(crate) fn head(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut head = Vec::new();
    let tried = || format!("read {}", path.display());
    let file = File::open(path).with_context(tried)?;
    file.take(HEAD_BYTES as u64).read_to_end(&mut head).with_context(tried)?;
    Ok(head)
}

/// Returns whether a file that begins so is a capture, or compressed.
pub(crate) fn is_capture(head: &[u8]) -> bool {
    has_magic(head) || Compression::of(head).is_some()
}

/// Returns whether `path` names a regular file with a capture in it.
pub(crate) fn is_capture_file(path: &Path) -> bool {
    path.is_file() && head(path).is_ok_and(|head| is_capture(&head))
}
