//! Capture files in folders, found by their magic numbers. It parses nothing: the process is not confined yet.

use anyhow::{Context as _, ensure};
use quaff_file::read::Compression;
use quaff_wire::decode::has_magic;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Bytes of a file that show its content.
const HEAD_BYTES: usize = 4096;
/// Folders inside each other, at most.
const DEPTH_MAX: usize = 32;

/// The files that are named, and the capture files in folders that are named, in the order of their paths. What is
/// found in a folder and is `output` is left out.
pub(super) fn find(paths: &[PathBuf], output: &Path) -> anyhow::Result<Found> {
    let identity = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    let own = identity(output);
    let mut found = Found::default();
    for path in paths {
        if !path.is_dir() {
            found.files.push(path.clone());
            continue;
        }
        for file in in_folder(path)? {
            // One that is gone is named when it cannot be opened.
            let is_capture = head_if_there(&file)?.map_or(is_plain_name(&file), |head| is_capture(&head));
            if is_capture && (own.is_none() || identity(&file) != own) {
                found.in_folders.insert(file.clone());
                found.files.push(file);
            }
        }
    }
    Ok(found)
}

/// Capture files.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) files: Vec<PathBuf>,
    /// Those that were found in folders. Another process may remove or rename them.
    pub(super) in_folders: BTreeSet<PathBuf>,
}

/// Returns whether a file is not hidden.
fn is_plain_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b"."))
}

fn is_gone(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// The files of a folder and of those in it, sorted by path. A link to a folder may lead back, and is skipped.
pub(super) fn in_folder(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    inside(path, DEPTH_MAX)
}

fn inside(path: &Path, depth: usize) -> anyhow::Result<Vec<PathBuf>> {
    ensure!(depth > 0, "{} has folders inside each other, more than {DEPTH_MAX}", path.display());
    let tried = || format!("read the folder {}", path.display());
    let entries = fs::read_dir(path).with_context(tried)?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            if !path.is_symlink() {
                files.extend(inside(&path, depth - 1)?);
            }
        } else if path.is_file() || is_gone(&path) {
            files.push(path);
        }
    }
    Ok(files)
}

/// The first bytes of a file of a folder; `None` if it is gone.
pub(super) fn head_if_there(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    match head(path) {
        Err(_) if is_gone(path) => Ok(None),
        head => head.map(Some),
    }
}

/// The first bytes of a file.
pub(super) fn head(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut head = Vec::new();
    let tried = || format!("read {}", path.display());
    let file = File::open(path).with_context(tried)?;
    file.take(HEAD_BYTES as u64).read_to_end(&mut head).with_context(tried)?;
    Ok(head)
}

/// Returns whether a file that begins so is a capture, or compressed.
pub(super) fn is_capture(head: &[u8]) -> bool {
    has_magic(head) || Compression::of(head).is_some()
}
