//! The inputs of a report: capture files or segments of flow records, named or in folders, by their content. It reads
//! no packet and no record.

use crate::show::name;
use anyhow::{Context as _, bail, ensure};
use quaff_file::read::Compression;
use quaff_wire::decode::Decoder;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The records of a report are made from these.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inputs {
    /// Metered while they are read, one after the other.
    Captures(Vec<PathBuf>),
    /// Segments of flow records.
    Parquet(Vec<PathBuf>),
}

/// The content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Capture,
    Parquet,
    Other,
}

/// Bytes of a file that show its content.
const HEAD_BYTES: usize = 4096;
/// Folders inside each other, at most.
const DEPTH_MAX: usize = 32;

impl Inputs {
    /// The files that are named, and those in folders that are named, in the order of their paths: of segments that is
    /// the order of time for each run. Files in a folder with other contents are skipped.
    ///
    /// Both kinds together are refused: they may have the same packets, which would count twice.
    pub(super) fn find(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let (mut captures, mut segments) = (Vec::new(), Vec::new());
        for path in paths {
            let is_named = !path.is_dir();
            let mut files = vec![path.clone()];
            if !is_named {
                files = in_folder(path, DEPTH_MAX)?;
            }
            for file in files {
                match content(&file, is_named)? {
                    Content::Capture => captures.push(file),
                    Content::Parquet => segments.push(file),
                    Content::Other => {}
                }
            }
        }
        match (captures.is_empty(), segments.is_empty()) {
            (false, true) => Ok(Self::Captures(captures)),
            (true, false) => Ok(Self::Parquet(segments)),
            (true, true) => {
                bail!("no capture files (pcap, pcapng) and no segments of flows in {}", list(paths))
            }
            (false, false) => bail!(
                "{} has flow records and {} has packets, perhaps the same ones: report one kind at a time",
                segments[0].display(),
                captures[0].display()
            ),
        }
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| name(&path.display().to_string()).into_owned()).collect::<Vec<_>>().join(", ")
}

/// The files of a folder and of those in it, sorted by path. A link to a folder may lead back, and is skipped.
fn in_folder(path: &Path, depth: usize) -> anyhow::Result<Vec<PathBuf>> {
    ensure!(depth > 0, "{} has folders inside each other, more than {DEPTH_MAX}", path.display());
    let tried = || format!("read the folder {}", path.display());
    let entries = fs::read_dir(path).with_context(tried)?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            if !path.is_symlink() {
                files.extend(in_folder(&path, depth - 1)?);
            }
        } else if path.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

/// The content of a file by its first bytes, and of Parquet by its name too, so that damage is reported. Any other file
/// that was named is a capture: the error of reading it explains more. A name that begins with a dot is that of a
/// segment that is being written.
fn content(path: &Path, is_named: bool) -> anyhow::Result<Content> {
    if path.as_os_str() == "-" || (is_named && !path.is_file()) {
        return Ok(Content::Capture);
    }
    let mut head = Vec::new();
    let tried = || format!("read {}", path.display());
    let file = File::open(path).with_context(tried)?;
    file.take(HEAD_BYTES as u64).read_to_end(&mut head).with_context(tried)?;
    let has_name = path.extension().is_some_and(|end| end == "parquet");
    let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    Ok(match () {
        () if head.starts_with(b"PAR1") || (has_name && !is_capture(&head)) => match is_hidden && !is_named {
            true => Content::Other,
            false => Content::Parquet,
        },
        () if is_named || is_capture(&head) => Content::Capture,
        () => Content::Other,
    })
}

fn is_capture(head: &[u8]) -> bool {
    let mut decoder = Decoder::default();
    let is_decoded = decoder.next(&mut &*head).is_ok() && decoder.format().is_some();
    is_decoded || Compression::of(head).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_wire::pcap::{Resolution, file_header};

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        dir
    }

    #[test]
    fn files_of_a_folder_are_chosen_by_their_content() {
        let header = file_header(Resolution::Microseconds, 100, 1);
        let dir = folder(&[
            ("b.pcap", &header),
            ("a/c.bin", &header),
            ("notes.txt", b"text"),
            ("empty", b""),
            ("d.gz", b"\x1f\x8b\x08\x00"),
        ]);
        // A circle is no error, and a file is found once.
        std::os::unix::fs::symlink(".", dir.path().join("a/itself")).unwrap();
        let found = Inputs::find(&[dir.path().to_owned()]).unwrap();
        let expected = ["a/c.bin", "b.pcap", "d.gz"].map(|name| dir.path().join(name)).to_vec();
        assert_eq!(found, Inputs::Captures(expected));
    }

    #[test]
    fn segments_are_found_in_order_and_never_those_being_written() {
        let dir = folder(&[
            ("dt=2026-11-23/hour=10/p-1-000003.parquet", b"PAR1...."),
            ("dt=2026-11-23/hour=09/p-1-000002.parquet", b"PAR1...."),
            ("dt=2026-11-22/hour=23/p-1-000001.parquet", b"damaged"),
            ("dt=2026-11-23/hour=10/.p-1-000004.parquet.part", b"PAR1...."),
            ("dt=2026-11-23/hour=10/other", b"PAR1...."),
            ("readme.txt", b"text"),
        ]);
        let found = Inputs::find(&[dir.path().to_owned()]).unwrap();
        let names = ["22/hour=23/p-1-000001", "23/hour=09/p-1-000002", "23/hour=10/p-1-000003"];
        let mut expected: Vec<_> =
            names.iter().map(|name| dir.path().join(format!("dt=2026-11-{name}.parquet"))).collect();
        expected.insert(2, dir.path().join("dt=2026-11-23/hour=10/other"));
        assert_eq!(found, Inputs::Parquet(expected));
        let part = dir.path().join("dt=2026-11-23/hour=10/.p-1-000004.parquet.part");
        assert_eq!(Inputs::find(std::slice::from_ref(&part)).unwrap(), Inputs::Parquet(vec![part]));
    }

    #[test]
    fn both_kinds_and_nothing_are_refused_with_what_to_do() {
        let header = file_header(Resolution::Microseconds, 100, 1);
        let dir = folder(&[("p/s.parquet", b"PAR1...."), ("c/a.pcap", &header), ("n/x", b"text")]);
        let refused = |names: &[&str]| {
            let paths: Vec<_> = names.iter().map(|name| dir.path().join(name)).collect();
            Inputs::find(&paths).expect_err("refused").to_string()
        };
        assert!(refused(&["p/s.parquet", "c"]).contains("one kind"), "{}", refused(&["p", "c"]));
        assert!(refused(&["n"]).contains("no capture files"), "{}", refused(&["n"]));
        // A file that is missing is an error of reading it.
        assert!(Inputs::find(&[dir.path().join("gone")]).is_ok());
    }
}
