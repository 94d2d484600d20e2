//! The file that `generate -w` and `replay -w` write: its name decides the format and the compression. Its bytes are
//! the only thing that reaches stdout past `show.rs`.

use crate::written_file::WrittenFile;
use anyhow::Context as _;
use quaff_file::write::{Codec, CompressedWriter, Format, Suffix};
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write, stdout};
use std::path::Path;

/// The format of --format, or of the suffix of the name, or pcap.
pub(super) fn format(path: &Path, asked: Option<Format>) -> Format {
    asked.or(Suffix::of(path).format).unwrap_or(Format::Pcap)
}

/// A file or stdout that keeps nothing of a write that fails, or else fails from then on: another record would follow a
/// part of one.
struct Whole {
    place: Place,
    failed: Option<io::ErrorKind>,
}

enum Place {
    /// With the end of what was written.
    File(File, u64),
    Stdout(io::StdoutLock<'static>),
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(kind) = self.failed {
            return Err(kind.into());
        }
        let (written, undone) = match &mut self.place {
            Place::Stdout(out) => (out.write_all(bytes), None),
            Place::File(file, end) => match file.write_all(bytes) {
                Ok(()) => {
                    *end += bytes.len() as u64;
                    (Ok(()), None)
                }
                // Fails where it is no regular file.
                failed => (failed, file.set_len(*end).and_then(|()| file.seek(SeekFrom::Start(*end))).ok()),
            },
        };
        if let (Err(error), None) = (&written, undone) {
            self.failed = Some(error.kind());
        }
        written.map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.place {
            Place::File(file, _) => file.flush(),
            Place::Stdout(out) => out.flush().inspect_err(|error| self.failed = Some(error.kind())),
        }
    }
}

/// Opens the file before the process is confined; `None` for `-`, which is stdout.
pub(super) fn open(path: &Path) -> anyhow::Result<Option<WrittenFile>> {
    let is_stdout = path.as_os_str() == "-";
    crate::show::check_stdout(is_stdout)?;
    (!is_stdout).then(|| WrittenFile::open(path)).transpose()
}

/// Empties the file. What is written is complete after a flush. A limit of the file's size fails a write (EFBIG).
pub(super) fn begin(file: Option<WrittenFile>, path: &Path) -> anyhow::Result<Box<dyn Write>> {
    let Some(file) = file else {
        return Ok(Box::new(Whole { place: Place::Stdout(stdout().lock()), failed: None }));
    };
    let (file, tried) = (file.begin()?, || format!("write {}", path.display()));
    let file = Whole { place: Place::File(file, 0), failed: None };
    Ok(match Suffix::of(path).compression {
        None => Box::new(file),
        Some(compression) => {
            Box::new(CompressedWriter::new(file, Codec::fastest(compression)).with_context(tried)?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_suffix_is_pcap_and_a_format_that_is_asked_for_wins() {
        let of = |name: &str, asked| format(Path::new(name), asked);
        for (name, found) in [("-", Format::Pcap), ("a.gz", Format::Pcap), ("a.pcapng.gz", Format::Pcapng)] {
            assert_eq!((of(name, None), of(name, Some(Format::PcapUs))), (found, Format::PcapUs), "{name}");
        }
    }
}
