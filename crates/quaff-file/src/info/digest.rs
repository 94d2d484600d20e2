//! Digests of files as they lie on the disk, compressed or not, so that a copy can be compared with its original.

use super::report::FileInfo;
use ring::digest::{Context, SHA256};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Bytes that are read at a time.
const READ_BYTES: usize = 1 << 20;

/// Adds the SHA-256 of each file to its summary; `infos` are those of [`survey`](super::survey). A pipe has no digest:
/// its bytes are gone. Returns the reasons why files have none that could have one, which are among their notes too.
pub fn add_digests(files: &[PathBuf], infos: &mut [FileInfo]) -> Vec<String> {
    let mut failures = Vec::new();
    for (path, info) in files.iter().zip(infos) {
        let Some(file_bytes) = info.file_bytes else { continue };
        match sha256(path, file_bytes) {
            Ok(digits) => info.sha256 = Some(digits),
            Err(error) => {
                let failure = format!("{}: no SHA-256: {error}", path.display());
                info.notes.push(failure.clone());
                failures.push(failure);
            }
        }
    }
    failures
}

/// The SHA-256 (FIPS 180-4) of the first bytes of a file, which may have grown since, in hexadecimal digits.
fn sha256(path: &Path, file_bytes: u64) -> io::Result<String> {
    let (mut file, mut context) = (File::open(path)?.take(file_bytes), Context::new(&SHA256));
    let mut bytes = vec![0; READ_BYTES];
    loop {
        match file.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => context.update(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    if file.limit() > 0 {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "the file became shorter"));
    }
    Ok(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_digest_is_that_of_the_standard() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        // The last bytes came after the file was summarised.
        file.write_all(b"abcdef").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(file.path(), 3).unwrap(), expected);
        assert!(sha256(file.path(), 7).is_err());
        let gone = PathBuf::from("/nonexistent/file");
        let files = [file.path().to_owned(), gone, "-".into()];
        let mut infos =
            [Some(3), Some(1), None].map(|file_bytes| FileInfo { file_bytes, ..FileInfo::default() });
        let failures = add_digests(&files, &mut infos);
        assert!(
            matches!(&failures[..], [one] if one.starts_with("/nonexistent/file: no SHA-256")),
            "{failures:?}"
        );
        let digests = infos.each_ref().map(|info| info.sha256.as_deref());
        assert_eq!(digests, [Some(expected), None, None]);
        assert_eq!(infos.map(|info| info.notes.len()), [0, 1, 0]);
    }
}
