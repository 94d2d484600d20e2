//! Files that are named, and capture files in folders that are named, found by their magic numbers. It parses nothing:
//! the process is not confined yet.

use crate::file_order;
use crate::show::name;
use anyhow::{Context as _, bail, ensure};
use quaff_file::read::{Compression, finished, is_gone};
use quaff_file::write::Suffix;
use quaff_os::disk::{is_of_kernel, open_found};
use quaff_wire::decode::has_magic;
use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read as _};
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
        let before = found.files.len();
        for file in listed(path, &own)? {
            // One that is gone is named when it cannot be opened.
            let head = head_if_there(&file)?;
            if head.map_or_else(|| is_name_of_capture(&file), |head| is_capture(&head)) {
                found.in_folders.insert(file.clone());
                found.files.push(file);
            }
        }
        if found.files.len() == before {
            bail!("no capture files (pcap, pcapng) in {}", name(&path.display().to_string()));
        }
    }
    Ok(found)
}

/// Refuses to read stdin twice.
pub(crate) fn ensure_stdin_once(paths: &[PathBuf]) -> anyhow::Result<()> {
    let stdin = paths.iter().filter(|path| path.as_os_str() == "-").count();
    ensure!(stdin < 2, "stdin can be read once, and '-' is given {stdin} times");
    Ok(())
}

/// Returns whether a file that is gone may have been a capture: one that is not hidden, or a link by the name of one.
fn is_name_of_capture(path: &Path) -> bool {
    let is_hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let plain = finished(path).unwrap_or_else(|| path.to_owned());
    !is_hidden && (!path.is_symlink() || Suffix::of(&plain).format.is_some())
}

/// The files of a folder and of those in it, in the order of their names. A link to a folder may lead back, and is
/// skipped; a link to a file is followed, unless the file is there too.
pub(crate) fn in_folder(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    listed(path, &[])
}

/// Device and number of a file.
type Identity = (u64, u64);

fn identity(path: &Path) -> Option<Identity> {
    path.metadata().ok().map(|found| (found.dev(), found.ino()))
}

/// The files of a folder, each once, but for those of `own`.
fn listed(path: &Path, own: &[Identity]) -> anyhow::Result<Vec<PathBuf>> {
    Ok(each_once(inside(path, DEPTH_MAX, own)?))
}

fn each_once(files: Vec<PathBuf>) -> Vec<PathBuf> {
    let (links, plain): (Vec<_>, Vec<_>) = files.iter().partition(|path| path.is_symlink());
    let mut seen: BTreeSet<_> = match links.is_empty() {
        true => BTreeSet::new(),
        false => plain.iter().filter_map(|path| identity(path)).collect(),
    };
    let mut twice = BTreeSet::new();
    for link in links {
        if identity(link).is_some_and(|found| !seen.insert(found)) {
            twice.insert(link.clone());
        }
    }
    // A file may get its last name while its folder is listed, and have both.
    let names: BTreeSet<_> = plain.into_iter().cloned().collect();
    let is_renamed =
        |path: &PathBuf| finished(path).is_some_and(|later| names.contains(&later)) && is_gone(path);
    files.into_iter().filter(|path| !twice.contains(path) && !is_renamed(path)).collect()
}

fn inside(path: &Path, depth: usize, own: &[Identity]) -> anyhow::Result<Vec<PathBuf>> {
    ensure!(depth > 0, "{} has folders inside each other, more than {DEPTH_MAX}", path.display());
    if is_of_kernel(path) {
        return Ok(Vec::new());
    }
    let tried = || format!("read the folder {}", path.display());
    let entries = match fs::read_dir(path) {
        // It is named as what is missing.
        Err(_) if depth < DEPTH_MAX && is_gone(path) => return Ok(vec![path.to_owned()]),
        entries => entries.with_context(tried)?,
    };
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>();
    let mut files = Vec::new();
    for path in file_order::sorted(path, paths.with_context(tried)?) {
        if !own.is_empty() && identity(&path).is_some_and(|found| own.contains(&found)) {
            continue;
        }
        if path.is_dir() {
            // That of fsck(8), which only root may read.
            let is_of_repair =
                depth == DEPTH_MAX && path.file_name().is_some_and(|name| name == "lost+found");
            if !path.is_symlink() && !is_of_repair {
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

/// The first bytes of a file; none of what is no regular file.
pub(crate) fn head(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut head = Vec::new();
    let tried = || format!("read {}", path.display());
    let file = match open_found(path) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => return Ok(head),
        file => file.with_context(tried)?,
    };
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

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_wire::pcap::{Resolution, file_header};
    use std::os::unix::fs::symlink;

    /// A folder with captures of these names.
    fn folder(names: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file_header(Resolution::Microseconds, 100, 1)).unwrap();
        }
        dir
    }

    /// The names of what is found in a folder.
    fn names(dir: &Path) -> Vec<String> {
        let found = find(&[dir.to_owned()], &[]).unwrap();
        assert_eq!(found.files.len(), found.in_folders.len());
        let name = |path: &PathBuf| path.strip_prefix(dir).unwrap().display().to_string();
        found.files.iter().map(name).collect()
    }

    #[test]
    fn links_are_followed_to_files_that_are_not_there_too() {
        let (dir, other) = (folder(&["b.pcap", "sub/c.pcap"]), folder(&["x.pcap"]));
        let at = |name: &str| dir.path().join(name);
        symlink("b.pcap", at("a.pcap")).unwrap();
        symlink(other.path().join("x.pcap"), at("d.pcap")).unwrap();
        symlink(other.path().join("x.pcap"), at("e.pcap")).unwrap();
        symlink(".", at("itself")).unwrap();
        // It may have been a capture by its name.
        symlink("nowhere", at("gone.pcap")).unwrap();
        symlink("nowhere", at("gone")).unwrap();
        assert_eq!(names(dir.path()), ["b.pcap", "d.pcap", "gone.pcap", "sub/c.pcap"]);
    }

    #[test]
    fn a_part_that_gets_its_last_name_is_listed_once() {
        let dir = folder(&["a.pcap", "b.pcap", "b.pcap.part"]);
        let listed = |names: &[&str]| names.iter().map(|name| dir.path().join(name)).collect::<Vec<_>>();
        // That of a, and of c, is gone; b has both.
        let found = listed(&["a.pcap.part", "a.pcap", "b.pcap.part", "b.pcap", "c.pcap.part"]);
        let expected = listed(&["a.pcap", "b.pcap.part", "b.pcap", "c.pcap.part"]);
        assert_eq!(each_once(found), expected);
    }

    #[test]
    fn a_folder_without_captures_is_refused_beside_others() {
        let (full, empty) = (folder(&["a.pcap"]), folder(&[]));
        let paths = [full.path().to_owned(), empty.path().to_owned()];
        let error = find(&paths, &[]).unwrap_err().to_string();
        assert!(
            error.contains("no capture files") && error.contains(&*paths[1].to_string_lossy()),
            "{error}"
        );
        assert!(!error.contains(&*paths[0].to_string_lossy()), "{error}");
    }

    #[test]
    fn folders_of_the_kernel_and_of_fsck_are_skipped() {
        let dir = folder(&["a.pcap", "lost+found/b.pcap", "sub/lost+found/c.pcap"]);
        assert_eq!(names(dir.path()), ["a.pcap", "sub/lost+found/c.pcap"]);
        let error = find(&[PathBuf::from("/proc")], &[]).unwrap_err().to_string();
        assert!(error.contains("no capture files"), "{error}");
    }

    #[test]
    fn a_folder_or_file_that_vanishes_is_found_under_its_name() {
        let dir = folder(&["a.pcap"]);
        let gone = dir.path().join("sub");
        assert_eq!(inside(&gone, DEPTH_MAX - 1, &[]).unwrap(), std::slice::from_ref(&gone));
        assert_eq!(head_if_there(&gone).unwrap(), None);
        assert!(is_name_of_capture(&gone) && !is_name_of_capture(&dir.path().join(".q.part")));
        assert!(inside(&gone, DEPTH_MAX, &[]).is_err(), "that which is named is there");
    }
}
