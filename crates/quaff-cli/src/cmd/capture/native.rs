//! A capture's arguments with the letters of tcpdump and dumpcap as this program's options: `-w FILE -C 3` is a folder
//! with a template of names.

use super::Args;
use super::auto_stop::AutoStop;
use anyhow::{Context as _, bail, ensure};
use quaff_file::write::{Codec, Suffix};
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
        self.habits.check()?;
        if self.habits.at_once {
            self.flush.set(AT_ONCE);
        }
        let Some(rotation) = self.habits.rotation()? else {
            self.check_autostop()?;
            return Ok(self);
        };
        if !self.is_into_folder() {
            ensure!(
                !self.write.is_empty() && !self.is_to_stdout(),
                "-C, -G and -b begin files: name them with -w FILE, or their folder with --dir DIR"
            );
            let path = self.write.take().pop().unwrap_or_default();
            self.set_folder_of(&path)?;
        }
        self.habits.check_files()?;
        self.rotation.set(&rotation)?;
        Ok(self)
    }

    /// Refuses a number of files where there is one.
    fn check_autostop(&self) -> anyhow::Result<()> {
        let is_of_files = self.autostop.iter().any(|stop| matches!(stop, AutoStop::Files(_)));
        ensure!(
            !is_of_files || self.is_into_folder(),
            "-a files:N ends the capture after N files, and there is one: type -C, -G or -b too to begin others, or \
             name their folder with --dir DIR"
        );
        Ok(())
    }

    /// Sets the folder, the template of names and the compression of a rotation of the file of -w.
    fn set_folder_of(&mut self, path: &Path) -> anyhow::Result<()> {
        let is_other = path.metadata().is_ok_and(|found| !found.is_file());
        ensure!(
            !is_other,
            "-C, -G and -b begin files, and {} is no regular file: name them with -w FILE, or their folder with --dir DIR",
            path.display()
        );
        if let Some(named) = Suffix::of(path).compression {
            let codec = self.compress.unwrap_or(Codec::fastest(named));
            ensure!(
                codec.compression == named,
                "--compress {codec} contradicts the name of the file of -w: change one of them"
            );
            self.compress.set(codec);
        }
        let folder = &mut self.rotation.folder;
        folder.name = template_of(path, self.habits.has_times_in_names())?;
        folder.dir = vec![folder_of(path)];
        Ok(())
    }
}

fn folder_of(path: &Path) -> PathBuf {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

/// The template of the names that a rotation gives to such files: `trace-%6i.pcap`. The suffix of a compression is
/// appended to it. Without `has_times` a `%` in the name is one.
fn template_of(path: &Path, has_times: bool) -> anyhow::Result<String> {
    let name = path.file_name().and_then(OsStr::to_str);
    let name = name.context("the name of the file of -w is not UTF-8, or no name")?;
    let is_compressed = Suffix::of(path).compression.is_some();
    let plain = if is_compressed { Path::new(name).file_stem().and_then(OsStr::to_str) } else { Some(name) };
    let plain = Path::new(plain.unwrap_or(name));
    let (stem, suffix) =
        (plain.file_stem().and_then(OsStr::to_str), plain.extension().and_then(OsStr::to_str));
    let Some(stem) = stem else { bail!("the file of -w has no name") };
    let suffix = suffix.map(|suffix| format!(".{suffix}")).unwrap_or_default();
    let literal = |text: &str| if has_times { text.to_owned() } else { text.replace('%', "%%") };
    Ok(format!("{}{NUMBER}{}", literal(stem), literal(&suffix)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;
    use crate::flags::Rotation;
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
        assert_eq!(words("-#NHK"), "-# -K -H");
        assert_eq!(words("--number"), "-#");
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
            ("-w t -G 60 -W 3", Rotation { time, is_from_start: true, stop: Some(3), ..Rotation::default() }),
            (
                "--dir . -b filesize:3000 -b files:4 -b duration:60",
                Rotation {
                    bytes: Some(3_000_000),
                    time,
                    is_from_start: true,
                    keep: Some(4),
                    ..Rotation::default()
                },
            ),
            ("-w t -b interval:60", Rotation { time, ..Rotation::default() }),
            ("-w t -b packets:500", Rotation { packets: Some(500), ..Rotation::default() }),
        ] {
            assert_eq!(of(line), Some(expected), "{line}");
        }
    }

    #[test]
    fn a_rotation_of_a_file_has_its_folder_its_name_and_its_compression() {
        for (line, name, codec) in [
            ("-w d/t.pcap -C 3", "t-%6i.pcap", None),
            ("-w d/t -C 3", "t-%6i", None),
            ("-w d/t%H.pcap -C 3", "t%%H-%6i.pcap", None),
            ("-w d/t%H.pcap -G 3600", "t%H-%6i.pcap", None),
            ("-w d/t.pcapng.zst -C 3", "t-%6i.pcapng", Some("zstd:1")),
            ("-w d/t.pcap.lz4 -b duration:5", "t-%6i.pcap", Some("lz4")),
            ("-w d/t.pcap.zst -C 3 --compress zstd:5", "t-%6i.pcap", Some("zstd:5")),
            ("-w d/t.pcap -C 3 --compress gzip:5", "t-%6i.pcap", Some("gzip:5")),
        ] {
            let native = args(&format!("capture -i lo {line}")).unwrap();
            let folder = &native.rotation.folder;
            assert_eq!((&folder.dir[..], &folder.name[..]), (&[PathBuf::from("d")][..], name), "{line}");
            let found = native.compress.as_ref().map(ToString::to_string);
            assert!(native.write.is_empty() && found.as_deref() == codec, "{line}: {found:?}");
        }
    }

    #[test]
    fn limits_of_a_folder_are_for_the_files_of_letters_too() {
        for line in [
            "-w t -C 3 --keep-size 1G --keep-free 5 --utc",
            "-w t -C 3 -W 5 --wrap --exec true",
            "-w t -G 60 --keep-files 5 --stop-files 9",
            "-w t -b duration:60 --rotate-size 1G",
            "--dir d -C 3 --keep-files 5",
        ] {
            let refused = args(&format!("capture -i lo {line}")).err();
            assert!(refused.is_none(), "{line}: {refused:?}");
        }
        for line in ["-w t --keep-files 5", "-w t --exec true"] {
            let error = args(&format!("capture -i lo {line}")).expect_err(line).to_string();
            assert!(error.contains("--dir"), "{line}: {error}");
        }
    }

    #[test]
    fn a_rotation_that_is_not_taken_is_refused_with_what_does_it() {
        for (line, words) in [
            ("-w t -W 5", "-C or -G"),
            ("-w t -C 1 -W 1", "-C 1 is too small, since a file may end 512 KiB before its size: type -C 2 "),
            ("-w t -C 2M -W 1", "type -W 2 to keep"),
            ("-w t -b filesize:1999", "type -b filesize:2000 "),
            ("-w t -b filesize:3000 -b files:1", "type -b files:2 to keep"),
            ("-w t -a files:2", "type -C, -G or -b too"),
            ("-w t -C 1 -G 2 -W 5", "--stop-files"),
            ("-C 1", "--dir"),
            ("-w - -C 1", "--dir"),
            ("-w /dev/null -C 3", "no regular file"),
            ("-w t -C 3 --rotate-size 5M", "cannot be used with"),
            ("-w t -b filesize:3000 --rotate-size 5M", "--rotate-size is given twice"),
            ("-w t -b files:3 --keep-files 5", "--keep-files is given twice"),
            ("-w t -C 3 -W 3 --keep-files 5", "--keep-files is given twice"),
            ("-w t -b packets:3 --rotate-packets 5", "--rotate-packets is given twice"),
            ("-w t -G 5 -b interval:5", "from midnight"),
            ("-w t.pcap.zst -C 3 --compress lz4", "contradicts"),
            ("-w t -b duration:0s", "above 0"),
            ("-w t -b interval:0.0", "above 0"),
            ("-tttttt", "-ttttt"),
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
