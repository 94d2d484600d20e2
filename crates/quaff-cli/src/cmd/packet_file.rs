//! The file that `generate -w` and `replay -w` write: its name decides the format and the compression. Its bytes are
//! the only thing that reaches stdout past `show.rs`.

use crate::written_file::WrittenFile;
use anyhow::Context as _;
use quaff_file::write::{Codec, CompressedWriter, Format, Suffix};
use std::io::{Write, stdout};
use std::path::Path;

/// The format of --format, or of the suffix of the name, or pcap.
pub(super) fn format(path: &Path, asked: Option<Format>) -> Format {
    asked.or(Suffix::of(path).format).unwrap_or(Format::Pcap)
}

/// Opens the file before the process is confined; `None` for `-`, which is stdout.
pub(super) fn open(path: &Path) -> anyhow::Result<Option<WrittenFile>> {
    let is_stdout = path.as_os_str() == "-";
    crate::show::check_stdout(is_stdout)?;
    (!is_stdout).then(|| WrittenFile::open(path)).transpose()
}

/// Empties the file. What is written is complete after a flush.
pub(super) fn begin(file: Option<WrittenFile>, path: &Path) -> anyhow::Result<Box<dyn Write>> {
    let Some(file) = file else { return Ok(Box::new(stdout().lock())) };
    let (file, tried) = (file.begin()?, || format!("write {}", path.display()));
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
