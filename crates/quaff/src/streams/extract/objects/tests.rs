//! Objects made of bodies: their names, digests and lists; what is cut, and why.

use super::*;
use std::fs;
use std::io::Read;

/// A folder in which objects are made.
struct Place {
    dir: tempfile::TempDir,
    folder: Folder,
    objects: Objects,
}

impl Place {
    fn new(overwrites: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path(), overwrites).unwrap();
        let objects = Objects::open(&folder).unwrap();
        Self { dir, folder, objects }
    }

    fn try_make(&mut self, bytes: &[u8], coding: &str, is_whole: bool) -> Result<Object> {
        fs::write(self.dir.path().join("body"), bytes).unwrap();
        let (file, target, host) = ("body", "/x", "a");
        let (content_type, connection, method, status) = ("", 3, "GET", Some(200));
        let bytes = bytes.len() as u64;
        let body =
            Body { file, bytes, is_whole, coding, content_type, connection, method, host, target, status };
        self.objects.make(&self.folder, &body)
    }

    fn make(&mut self, bytes: &[u8], coding: &str, is_whole: bool) -> Object {
        let object = self.try_make(bytes, coding, is_whole).unwrap();
        assert!(!self.dir.path().join("body").exists());
        assert_eq!(fs::metadata(self.dir.path().join(&object.file)).unwrap().len(), object.bytes);
        object
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap()
    }
}

#[test]
fn an_object_is_what_could_be_had_of_its_body() {
    let mut place = Place::new(false);
    let whole = place.make(b"hello world", "", true);
    assert_eq!((whole.file.as_str(), whole.bytes, whole.kind), ("000001-a-x.txt", 11, "txt"));
    assert_eq!(whole.sha256, "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9");
    let decoded = place.make(b"\x0b\x05\x80hello world\x03", "br", true);
    assert_eq!((decoded.file.as_str(), &decoded.sha256), ("000002-a-x.txt", &whole.sha256));
    let cut = place.make(b"hello", "", false);
    assert_eq!((cut.file.as_str(), cut.partial), ("000003-a-x.txt.partial", Some(Lack::Missing)));
    let damaged = place.make(b"no gzip", "gzip", true);
    assert_eq!((damaged.file.as_str(), damaged.partial), ("000004-a-x.bin.partial", Some(Lack::Damaged)));
    let other = place.make(b"as it was sent", "compress", true);
    assert_eq!((other.decoded, other.partial), (false, None));
    place.objects.finish(&place.folder).unwrap();
    let (page, table) = (place.read(PAGE), place.read(TABLE));
    assert_eq!((page.matches("<tr").count(), page.matches("http://a/x").count()), (6, 5), "{page}");
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split('\t').collect()).collect();
    assert!(rows.len() == 6 && rows.iter().all(|row| row.len() == rows[0].len()), "{table}");
    let expected = ["000003-a-x.txt.partial", "txt", "5", &cut.sha256, "missing", "true", "3", "GET", "200"];
    assert_eq!(rows[3][..9], expected);
    let tally = ObjectTally { files: 5, bytes: 11 + 11 + 5 + 14, partial: 2, damaged: 1, limited: 0 };
    assert_eq!(place.objects.tally(), tally);
}

/// 64 MiB of zeros in 66 KB of gzip, and in a few bytes of zstd.
#[test]
fn a_bomb_is_cut_named_and_counted() {
    let mut place = Place::new(false);
    let zeros = std::io::repeat(0).take(64 << 20);
    let mut gzip = Vec::new();
    flate2::read::GzEncoder::new(zeros, flate2::Compression::best()).read_to_end(&mut gzip).unwrap();
    let ratio_max = 250 * gzip.len() as u64;
    let object = place.make(&gzip, "gzip", true);
    assert_eq!((object.bytes, object.partial), (ratio_max.max(16 << 20), Some(Lack::Limit)));
    assert_eq!(object.file, "000001-a-x.bin.partial");
    let zstd = zstd::encode_all(std::io::repeat(0).take(32 << 20), 3).unwrap();
    let object = place.make(&zstd, "zstd", true);
    assert_eq!((object.bytes, object.partial), (16 << 20, Some(Lack::Limit)));
    assert_eq!((place.objects.tally().limited, place.objects.tally().partial), (2, 2));
}

#[test]
fn a_file_that_was_there_is_not_replaced() {
    for coding in ["", "br"] {
        let mut place = Place::new(false);
        let victim = place.dir.path().join("000001-a-x.txt");
        fs::write(&victim, "kept").unwrap();
        let bytes: &[u8] = if coding == "br" { b"\x0b\x05\x80hello world\x03" } else { b"hello world" };
        let error = place.try_make(bytes, coding, true).unwrap_err().to_string();
        assert!(error.contains("exists"), "{error}");
        assert_eq!(fs::read(&victim).unwrap(), b"kept");
    }
    let mut place = Place::new(true);
    let [victim, link] = ["victim", "000001-a-x.txt"].map(|name| place.dir.path().join(name));
    fs::write(&victim, "kept").unwrap();
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    place.make(b"hello world", "", true);
    assert_eq!((fs::read(&victim).unwrap(), link.is_symlink()), (b"kept".to_vec(), false));
}
