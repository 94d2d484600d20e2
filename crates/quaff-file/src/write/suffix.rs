//! Suffixes of file names, and the format and compression that each means. No other file has a list of them.

use super::format::Format;
use crate::read::Compression;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const FORMATS: [(&str, Format); 3] =
    [(".pcap", Format::Pcap), (".pcapng", Format::Pcapng), (".ntar", Format::Pcapng)];
const COMPRESSIONS: [(&str, Compression); 3] =
    [(".gz", Compression::Gzip), (".zst", Compression::Zstd), (".lz4", Compression::Lz4)];
/// Suffixes that a command may append to a finished file instead of its plain name.
const OF_COMMANDS: [&str; 5] = [".gz", ".zst", ".lz4", ".xz", ".bz2"];

/// The meaning of a file's suffix, such as `.pcap` or `.pcapng.zst`, in letters of any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Suffix {
    /// `None` for a suffix of no format.
    pub format: Option<Format>,
    /// `None` for a plain file.
    pub compression: Option<Compression>,
}

impl Suffix {
    /// Reads the suffix of a path, or of a template for names.
    pub fn of(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let (rest, compression) = strip(&name, &COMPRESSIONS);
        let (_, format) = strip(rest, &FORMATS);
        Self { format, compression }
    }

    /// Returns a name without the suffix of a compression, also of one that quaff does not read.
    pub fn plain(name: &str) -> &str {
        plain(name)
    }
}

fn strip<'a, T: Copy>(name: &'a str, known: &[(&str, T)]) -> (&'a str, Option<T>) {
    let found = known.iter().find_map(|(suffix, of)| Some((name.strip_suffix(suffix)?, Some(*of))));
    found.unwrap_or((name, None))
}

/// Returns a name without the suffix that a compressing command has appended.
pub(super) fn plain(name: &str) -> &str {
    OF_COMMANDS.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

/// Returns a plain path, and those under which a compressing command may have left the file.
pub(super) fn variants(path: &Path) -> impl Iterator<Item = PathBuf> {
    let with = |suffix: &str| {
        let mut variant = OsString::from(path);
        variant.push(suffix);
        PathBuf::from(variant)
    };
    let compressed: Vec<_> = OF_COMMANDS.iter().map(|suffix| with(suffix)).collect();
    std::iter::once(path.to_owned()).chain(compressed)
}

/// Returns all names of a file that retention takes for one: plain, and compressed.
pub(super) fn relatives(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let plain = path.with_file_name(plain(&name));
    variants(&plain).chain([path.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_stands_for_format_and_compression() {
        let of = |name: &str| {
            let Suffix { format, compression } = Suffix::of(Path::new(name));
            (format, compression)
        };
        let (pcap, pcapng) = (Some(Format::Pcap), Some(Format::Pcapng));
        assert_eq!(of("/data.pcapng/a.pcap"), (pcap, None));
        assert_eq!(of("a.PcapNG"), (pcapng, None));
        assert_eq!(of("a.ntar"), (pcapng, None));
        assert_eq!(of("a.pcap.gz"), (pcap, Some(Compression::Gzip)));
        assert_eq!(of("a.pcapng.zst"), (pcapng, Some(Compression::Zstd)));
        assert_eq!(of("tap%3i.pcap.LZ4"), (pcap, Some(Compression::Lz4)));
        assert_eq!(of("a.gz"), (None, Some(Compression::Gzip)));
        for other in ["a", "a.cap", "pcap", "a.pcap.1", "a.zst.pcap.old", "-", ""] {
            assert_eq!(of(other), (None, None), "{other}");
        }
    }

    #[test]
    fn only_a_template_with_the_number_in_it_is_a_whole_name() {
        let pcap = Suffix { format: Some(Format::Pcap), compression: None };
        assert_eq!(Suffix::of_template("tap-%3i.pcap"), pcap);
        for other in ["tap.pcap", "tap%%i.pcap", "tap%H.pcap"] {
            assert_eq!(Suffix::of_template(other), Suffix::default(), "{other}");
        }
    }

    #[test]
    fn variants_are_the_plain_name_and_its_compressed_ones() {
        let found: Vec<_> = variants(Path::new("/d/a.pcap")).collect();
        assert_eq!(found.len(), 1 + OF_COMMANDS.len());
        assert_eq!((&found[0], &found[1]), (&"/d/a.pcap".into(), &"/d/a.pcap.gz".into()));
        assert!(found.iter().all(|path| plain(path.to_str().unwrap()) == "/d/a.pcap"));
    }
}
