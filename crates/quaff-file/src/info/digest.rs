//! Digests of files as they lie on the disk, compressed or not, so that a copy can be compared with its original.

use super::report::FileInfo;
use ring::digest::{Context, SHA256};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Bytes that are read at a time.
const READ_BYTES: usize = 1 << 20;

/// Adds the SHA-256 of each file to its summary; `infos` are those of [`survey`](super::survey). A file that cannot be
/// read has a note. A pipe has no digest: its bytes are gone.
pub fn add_digests(files: &[PathBuf], infos: &mut [FileInfo]) {
    for (path, info) in files.iter().zip(infos).filter(|(_, info)| info.file_bytes.is_some()) {
        match sha256(path) {
            Ok(digits) => info.sha256 = Some(digits),
            Err(error) => info.notes.push(format!("{}: no SHA-256: {error}", path.display())),
        }
    }
}

/// The SHA-256 of a file (FIPS 180-4) in hexadecimal digits.
fn sha256(path: &Path) -> io::Result<String> {
    let (mut file, mut context) = (File::open(path)?, Context::new(&SHA256));
    let mut bytes = vec![0; READ_BYTES];
    loop {
        match file.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => context.update(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
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
        file.write_all(b"abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(file.path()).unwrap(), expected);
        let gone = PathBuf::from("/nonexistent/file");
        let files = [file.path().to_owned(), gone, "-".into()];
        let mut infos =
            [Some(3), Some(1), None].map(|file_bytes| FileInfo { file_bytes, ..FileInfo::default() });
        add_digests(&files, &mut infos);
        let digests = infos.each_ref().map(|info| info.sha256.as_deref());
        assert_eq!(digests, [Some(expected), None, None]);
        assert_eq!(infos.map(|info| info.notes.len()), [0, 1, 0]);
    }
}
