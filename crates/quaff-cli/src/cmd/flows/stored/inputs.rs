//! The inputs of reports and lists: capture files, or segments or IPFIX files of flow records, named or in folders, by
//! their content. It reads no packet and no record.

use crate::capture_files::{ensure_stdin_once, head, head_if_there, in_folder, is_capture};
use crate::show::name;
use anyhow::{anyhow, bail};
use quaff_file::write::Suffix;
use quaff_flow::export::is_ipfix;
use std::path::{Path, PathBuf};

/// The records are made from these.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cmd::flows) enum Inputs {
    /// Metered while they are read, one after the other.
    Captures(Vec<PathBuf>),
    /// Segments of flow records.
    Parquet(Vec<PathBuf>),
    /// IPFIX files of flow records.
    Ipfix(Vec<PathBuf>),
}

/// The source of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cmd::flows) enum Origin {
    Captures,
    Segments,
    Ipfix,
}

/// The content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Capture,
    Parquet,
    Ipfix,
    Other,
}

impl Inputs {
    /// The files that are named, and those in folders that are named, in the order of their paths: of segments that is
    /// the order of time for each run. Files in a folder with other contents are skipped.
    ///
    /// Several kinds together are refused: they may have the same packets, which would count twice.
    pub(in crate::cmd::flows) fn find(paths: &[PathBuf]) -> anyhow::Result<Self> {
        ensure_stdin_once(paths)?;
        let (mut captures, mut segments, mut messages) = (Vec::new(), Vec::new(), Vec::new());
        for path in paths {
            let is_named = !path.is_dir();
            let files = if is_named { vec![path.clone()] } else { in_folder(path)? };
            let before = captures.len() + segments.len() + messages.len();
            for file in files {
                match content(&file, is_named)? {
                    Content::Capture => captures.push(file),
                    Content::Parquet => segments.push(file),
                    Content::Ipfix => messages.push(file),
                    Content::Other => {}
                }
            }
            if captures.len() + segments.len() + messages.len() == before {
                bail!(
                    "no capture files (pcap, pcapng) and no flow records (Parquet, IPFIX) in {}",
                    name(&path.display().to_string())
                );
            }
        }
        refuse_several([
            (captures.first(), "packets"),
            (segments.first(), "records in Parquet"),
            (messages.first(), "records in IPFIX"),
        ])?;
        Ok(match (segments.is_empty(), messages.is_empty()) {
            (false, _) => Self::Parquet(segments),
            (_, false) => Self::Ipfix(messages),
            _ => Self::Captures(captures),
        })
    }
}

/// Refuses files of flow records, where captures are metered.
pub(in crate::cmd::flows) fn refuse_records(paths: &[PathBuf]) -> anyhow::Result<()> {
    let has_records = |path: &Path| matches!(content(path, true), Ok(Content::Parquet | Content::Ipfix));
    match paths.iter().find(|path| path.is_file() && has_records(path)) {
        Some(path) => bail!("{}", advice(path)),
        None => Ok(()),
    }
}

/// The error of an input that was not found; of a folder of flow records the commands that read them.
pub(in crate::cmd::flows) fn advised(error: anyhow::Error, paths: &[PathBuf]) -> anyhow::Error {
    let has_records = |path: &PathBuf| {
        let found = || Inputs::find(std::slice::from_ref(path));
        path.is_dir() && matches!(found(), Ok(Inputs::Parquet(_) | Inputs::Ipfix(_)))
    };
    match paths.iter().find(|path| has_records(path)) {
        Some(path) => anyhow!(advice(path)),
        None => error,
    }
}

fn advice(path: &Path) -> String {
    format!(
        "{} has flow records, not packets: 'quaff flows list' lists them, 'quaff flows report' sums them",
        name(&path.display().to_string())
    )
}

/// Refuses files of several kinds, by the first one of each.
fn refuse_several(firsts: [(Option<&PathBuf>, &str); 3]) -> anyhow::Result<()> {
    let mut kinds = firsts.iter().filter_map(|(first, words)| Some((first.as_ref()?.display(), words)));
    if let (Some((one, words)), Some((other, other_words))) = (kinds.next(), kinds.next()) {
        bail!(
            "{one} has {words} and {other} has {other_words}, perhaps the same ones: name one kind at a time"
        );
    }
    Ok(())
}

/// The content of a file by its first bytes, and of flow records by its name too, so that damage is reported. Any other
/// file that was named is a capture: the error of reading it explains more. A name that begins with a dot is that of a
/// segment that is being written.
fn content(path: &Path, is_named: bool) -> anyhow::Result<Content> {
    if path.as_os_str() == "-" || (is_named && !path.is_file()) {
        return Ok(Content::Capture);
    }
    let head = match is_named {
        true => Some(head(path)?),
        false => head_if_there(path)?,
    };
    let Some(head) = head else { return Ok(content_of_gone(path)) };
    let has_name = |name: &str| path.extension().is_some_and(|end| end == name) && !is_capture(&head);
    let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    Ok(match () {
        () if head.starts_with(b"PAR1") || has_name("parquet") => match is_hidden && !is_named {
            true => Content::Other,
            false => Content::Parquet,
        },
        () if is_ipfix(&head) || has_name("ipfix") => Content::Ipfix,
        () if is_named || is_capture(&head) => Content::Capture,
        () => Content::Other,
    })
}

/// The content of a file that was removed or renamed after its folder was listed, by its name.
fn content_of_gone(path: &Path) -> Content {
    let is_hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let is_part = path.extension().is_some_and(|end| end == "part");
    let name = if is_part { path.with_extension("") } else { path.to_owned() };
    match () {
        () if is_hidden => Content::Other,
        () if name.extension().is_some_and(|end| end == "parquet") => Content::Parquet,
        () if name.extension().is_some_and(|end| end == "ipfix") => Content::Ipfix,
        () if Suffix::of(&name).format.is_some() => Content::Capture,
        () => Content::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_wire::pcap::{Resolution, file_header};
    use std::fs;

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
    fn several_kinds_and_nothing_are_refused_with_what_to_do() {
        let header = file_header(Resolution::Microseconds, 100, 1);
        // A message of IPFIX with an empty set of templates, and a file that was damaged.
        let message = [0, 10, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 4];
        let dir = folder(&[
            ("p/s.parquet", b"PAR1...."),
            ("c/a.pcap", &header),
            ("n/x", b"text"),
            ("i/flows", &message),
            ("i/damaged.ipfix", b"text"),
        ]);
        let found = Inputs::find(&[dir.path().join("i")]).unwrap();
        assert_eq!(
            found,
            Inputs::Ipfix(["damaged.ipfix", "flows"].map(|name| dir.path().join("i").join(name)).into())
        );
        let refused = |names: &[&str]| {
            let paths: Vec<_> = names.iter().map(|name| dir.path().join(name)).collect();
            Inputs::find(&paths).expect_err("refused").to_string()
        };
        assert!(refused(&["p/s.parquet", "c"]).contains("one kind"), "{}", refused(&["p", "c"]));
        assert!(refused(&["p", "i"]).contains("has records in IPFIX, perhaps"), "{}", refused(&["p", "i"]));
        for beside in [&["n"][..], &["c", "n"], &["n", "p"]] {
            assert!(refused(beside).contains("no capture files"), "{}", refused(beside));
        }
        // A file that is missing is an error of reading it.
        assert!(Inputs::find(&[dir.path().join("gone")]).is_ok());
    }
}
