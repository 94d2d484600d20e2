//! A capture's arguments with the letters of tcpdump and dumpcap as this program's options: `-w FILE -C 3` is a folder
//! with a template of names.

use super::Args;
use anyhow::{bail, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time until a packet is in the output, with -U.
const AT_ONCE: Duration = Duration::from_millis(1);
/// The place of the number in the names of a rotation of -w.
const NUMBER: &str = "-%6i";

impl Args {
    /// The arguments with the letters of other programs as this program's options.
    pub(super) fn native(mut self) -> anyhow::Result<Self> {
        if self.habits.at_once {
            self.flush.set(AT_ONCE);
        }
        let Some(rotation) = self.habits.rotation()? else { return Ok(self) };
        if !self.is_into_folder() {
            ensure!(
                !self.write.is_empty() && !self.is_to_stdout(),
                "-C, -G and -b begin files: name them with -w FILE, or their folder with --dir DIR"
            );
            let path = self.write.take();
            let (dir, name) = folder_of(path.first().map_or(Path::new(""), PathBuf::as_path))?;
            self.rotation.folder.name = name;
            self.rotation.folder.dir = vec![dir];
        }
        self.rotation.set(rotation.bytes, rotation.time, rotation.keep, rotation.stop);
        Ok(self)
    }
}

/// The folder of a file, and the template of the names that a rotation gives to such files: `trace-%6i.pcap`.
fn folder_of(path: &Path) -> anyhow::Result<(PathBuf, String)> {
    let (stem, suffix) = (path.file_stem().and_then(OsStr::to_str), path.extension().and_then(OsStr::to_str));
    let Some(stem) = stem else { bail!("the name of the file of -w is not UTF-8, or no name") };
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let suffix = suffix.map(|suffix| format!(".{suffix}")).unwrap_or_default();
    Ok((dir.to_owned(), format!("{stem}{NUMBER}{suffix}")))
}

#[cfg(test)]
mod tests {
    use super::super::habits::Rotation;
    use super::*;
    use crate::Command;
    use std::ffi::OsString;

    fn args(line: &str) -> anyhow::Result<Args> {
        let line: Vec<OsString> = line.split(' ').map(Into::into).collect();
        match crate::read(&line)? {
            Command::Capture(args) => args.native(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn letters_of_printing_are_passed_on() {
        let words =
            |line: &str| args(&format!("capture -i lo {line}")).unwrap().habits.of_printing().join(" ");
        assert_eq!(words("-nnel -vv -XX -ttt"), "-e -vv -XX -ttt");
        assert_eq!(words("-xASt"), "-x -A -t -S");
        assert_eq!(words("tcp port 80"), "");
    }

    #[test]
    fn a_rotation_of_tcpdump_or_dumpcap_is_one_of_this_program() {
        let of = |line: &str| args(&format!("capture -i lo {line}")).unwrap().habits.rotation().unwrap();
        let time = Some(Duration::from_secs(60));
        for (line, expected) in [
            (
                "-w d/t.pcap -C 2 -W 5",
                Rotation { bytes: Some(2_000_000), keep: Some(5), ..Rotation::default() },
            ),
            ("-w t -C 2M", Rotation { bytes: Some(2 << 20), ..Rotation::default() }),
            ("-w t -G 60 -W 3", Rotation { time, stop: Some(3), ..Rotation::default() }),
            (
                "--dir . -b filesize:2000 -b files:4 -b duration:60",
                Rotation { bytes: Some(2_000_000), time, keep: Some(4), stop: None },
            ),
        ] {
            assert_eq!(of(line), Some(expected), "{line}");
        }
        let native = args("capture -i lo -w d/t-%H.pcap -C 2").unwrap();
        let folder = &native.rotation.folder;
        assert_eq!((&folder.dir[..], &folder.name[..]), (&[PathBuf::from("d")][..], "t-%H-%6i.pcap"));
        assert!(native.write.is_empty() && folder.rotate_size == Some(2_000_000));
    }

    #[test]
    fn a_rotation_that_is_not_taken_is_refused_with_what_does_it() {
        for (line, words) in [
            ("-w t -W 5", "-C or -G"),
            ("-w t -C 1 -G 2 -W 5", "--stop-files"),
            ("-C 1", "--dir"),
            ("-w - -C 1", "--dir"),
            ("-w t -b packets:5", "filesize"),
            ("-w t -b printname:x", "--exec"),
            ("-w t -b files", "filesize"),
            ("-w t -b size:1", "filesize"),
            ("-w t -G 0", "-G"),
            ("-w t -C x", "-C"),
        ] {
            let error = args(&format!("capture -i lo {line}")).expect_err(line).to_string();
            assert!(error.contains(words), "{line}: {error}");
        }
    }
}
