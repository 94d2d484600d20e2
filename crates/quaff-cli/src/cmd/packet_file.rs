//! The file that `generate -w` and `replay -w` write: its name decides the format and the compression. Its bytes are
//! the only thing that reaches stdout past `show.rs`.

use anyhow::Context as _;
use quaff_file::write::{Codec, CompressedWriter, Format, Suffix};
use std::fs::File;
use std::io::{Write, stdout};
use std::path::Path;

/// The format of --format, or of the suffix of the name, or pcap.
pub(super) fn format(path: &Path, asked: Option<Format>) -> Format {
    asked.or(Suffix::of(path).format).unwrap_or(Format::Pcap)
}

/// Creates the file, or takes stdout for `-`. What is written is complete after a flush.
pub(super) fn create(path: &Path) -> anyhow::Result<Box<dyn Write>> {
    let is_stdout = path.as_os_str() == "-";
    crate::show::check_stdout(is_stdout)?;
    if is_stdout {
        return Ok(Box::new(stdout().lock()));
    }
    let tried = || format!("create {}", path.display());
    let file = File::create(path).with_context(tried)?;
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
