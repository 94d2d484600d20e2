//! Files in parts, damaged, growing, and found in folders.

use super::*;
use crate::read::Compression;
use crate::write::{Codec, CompressedWriter};
use quaff_wire::Record;
use quaff_wire::pcapng::{Interface, Section, epb, epb_bytes, idb, padding, shb};
use std::io::Write;
use std::os::fd::AsRawFd;

/// Longer than a few pieces, with frames and a block without meaning across their seams.
fn long_file() -> Vec<u8> {
    let mut file = Vec::new();
    shb(&mut file, &Section::default());
    idb(&mut file, &Interface { linktype: 1, ..Interface::default() });
    let content: Vec<u8> = (0..70_000).map(|i| (i % 251) as u8).collect();
    for i in 0..400 {
        let bytes = &content[..(i * 7919) % 70_000];
        let record = Record { time_ns: i as u64, bytes, len: bytes.len() as u32, ..Record::default() };
        let mut room = vec![0; epb_bytes(bytes.len())];
        let written = epb(&mut room, 0, &record);
        file.extend_from_slice(&room[..written]);
        if i == 150 {
            let mut meaningless = vec![0; 9 << 20];
            padding(&mut meaningless);
            file.extend(meaningless);
        }
    }
    file
}

fn read(path: &Path) -> (Vec<String>, Option<String>) {
    let (items, error, _) = read_with(path, Options::default());
    (items, error)
}

/// The items of a file, its error, and the notes on it.
fn read_with(path: &Path, options: Options) -> (Vec<String>, Option<String>, Vec<String>) {
    let mut file = CaptureFile::open_with(path, options).unwrap();
    let mut items = Vec::new();
    let error = loop {
        match file.pull(|item| items.push(digest(&item))) {
            Ok(true) => {}
            Ok(false) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    (items, error, file.notes())
}

#[test]
fn only_a_file_that_is_being_written_may_end_inside_a_packet() {
    let dir = tempfile::tempdir().unwrap();
    let [whole, part] = ["a.pcapng", "a.pcapng.part"].map(|name| dir.path().join(name));
    let file = long_file();
    std::fs::write(&whole, &file[..file.len() - 5]).unwrap();
    std::fs::copy(&whole, &part).unwrap();
    let (expected, error) = read(&whole);
    assert!(error.is_some() && expected.len() > 100, "{error:?}");
    assert_eq!(read(&part), (expected, None));
    let (.., notes) = read_with(&part, Options::default());
    assert!(notes[0].contains("an unfinished packet"), "{notes:?}");
    // A head that is wrong takes what follows for a block, or the rest of the file.
    for (number, kind, bytes) in [
        (200, 6, 100_000),
        (200, 6, 15 << 20),
        (200, 0xBAD, 200 << 20),
        (398, 6, 500_000),
        (398, 0xBAD, 500_000),
    ] {
        let at = (0..number).fold(0, |at, _| at + word(&file, at + 4) as usize);
        let mut damaged = file.clone();
        damaged[at..at + 8].copy_from_slice(&[kind, bytes].map(u32::to_ne_bytes).concat());
        std::fs::write(&part, damaged).unwrap();
        let (items, error) = read(&part);
        assert!(items.len() < number && error.is_some(), "{kind} {bytes}: {} {error:?}", items.len());
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(*bytes[at..].first_chunk().unwrap())
}

/// A file of noise in frames of less than a part, and the offsets of the frames.
fn packed(compression: Compression) -> (Vec<u8>, Vec<usize>) {
    let mut state = 1u64;
    let mut file = Vec::new();
    shb(&mut file, &Section::default());
    idb(&mut file, &Interface { linktype: 1, ..Interface::default() });
    for time_ns in 0..100 {
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        });
        let bytes: Vec<_> = noise.take(30_000).collect();
        let record = Record { time_ns, bytes: &bytes, len: 30_000, ..Record::default() };
        let mut room = vec![0; epb_bytes(bytes.len())];
        let written = epb(&mut room, 0, &record);
        file.extend_from_slice(&room[..written]);
    }
    let (mut packed, mut frames) = (Vec::new(), Vec::new());
    for piece in file.chunks(100_000) {
        frames.push(packed.len());
        let mut writer = CompressedWriter::new(&mut packed, Codec::fastest(compression)).unwrap();
        writer.write_all(piece).unwrap();
        writer.flush().unwrap();
    }
    (packed, frames)
}

#[test]
fn only_the_last_frame_of_a_file_that_is_being_written_may_be_unfinished() {
    let dir = tempfile::tempdir().unwrap();
    let [whole, part] = ["a.pcapng.zst", "a.pcapng.zst.part"].map(|name| dir.path().join(name));
    for compression in [Compression::Zstd, Compression::Lz4, Compression::Gzip] {
        let (file, frames) = packed(compression);
        // By one thread, and side by side.
        for helpers in [0, 2] {
            let options =
                || Options { helpers: Some(helpers), buffer_bytes: Some(256 << 10), ..Options::default() };
            let what = format!("{compression:?}, {helpers} threads");
            std::fs::write(&whole, &file[..file.len() - 1000]).unwrap();
            std::fs::copy(&whole, &part).unwrap();
            let (expected, error, _) = read_with(&whole, options());
            assert!(error.is_some() && expected.len() > 90, "{what}: {} {error:?}", expected.len());
            let (items, error, notes) = read_with(&part, options());
            assert_eq!((items, error), (expected, None), "{what}");
            assert!(notes.len() == 1 && notes[0].contains("an unfinished frame"), "{what}: {notes:?}");
            // Bytes that are missing, and a head that takes the rest for a frame, in the middle.
            let [at, next] = [frames[10], frames[11]];
            let mut damaged = vec![[&file[..at + 500], &file[next - 500..]].concat()];
            if compression == Compression::Zstd {
                let skippable = [0x184D_2A50u32, 1 << 30].map(u32::to_le_bytes).concat();
                damaged.push([&file[..at], &skippable, &file[at + 8..]].concat());
            }
            for file in damaged {
                std::fs::write(&part, file).unwrap();
                let (items, error, _) = read_with(&part, options());
                assert!(items.len() < 50 && error.is_some(), "{what}: {} {error:?}", items.len());
            }
        }
    }
}

#[test]
fn a_file_of_a_folder_may_get_its_last_name_or_be_gone() {
    let dir = tempfile::tempdir().unwrap();
    let [part, whole] = ["a.pcapng.part", "a.pcapng"].map(|name| dir.path().join(name));
    let open = |path: &Path, found: &[PathBuf]| {
        let found = std::sync::Arc::new(found.iter().cloned().collect());
        CaptureFile::open_there(path, Options { found, ..Options::default() })
    };
    let in_folder = [part.clone(), whole.clone()];
    assert!(open(&part, &in_folder).unwrap().is_none());
    assert!(open(&part, &[]).is_err(), "one that was named is an error");
    std::fs::write(&whole, long_file()).unwrap();
    assert!(open(&part, &in_folder).unwrap().is_some());
    assert!(open(&whole, &in_folder).unwrap().is_some());
    // A pipe in the place of a file is not waited for.
    std::fs::remove_file(&whole).unwrap();
    nix::unistd::mkfifo(&whole, nix::sys::stat::Mode::S_IRUSR).unwrap();
    let error = open(&whole, &in_folder).unwrap_err().to_string();
    assert!(error.contains("no regular file"), "{error}");
    std::fs::remove_file(&whole).unwrap();
    std::os::unix::fs::symlink("nowhere", &whole).unwrap();
    assert!(open(&whole, &in_folder).unwrap().is_none());
}

fn digest(item: &Item<'_>) -> String {
    match item {
        Item::Frame(frame) => {
            let expected = (0..frame.data.len()).all(|i| frame.data[i] == (i % 251) as u8);
            format!("{} {} {expected}", frame.time_ns, frame.data.len())
        }
        other => format!("{other:?}"),
    }
}

/// A pcap file of frames, some of them empty, in parts.
fn pcap_file() -> Vec<u8> {
    let mut file = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 262_144, 1].map(u32::to_le_bytes).concat();
    let content: Vec<u8> = (0..70_000).map(|i| (i % 251) as u8).collect();
    for i in 0..400u32 {
        let length = if i % 50 == 0 { 0 } else { i * 7919 % 70_000 };
        file.extend([i + 1, i, length, length].map(u32::to_le_bytes).concat());
        file.extend(&content[..length as usize]);
    }
    file
}

/// Digests, and the number of packets that came the quick way.
#[derive(Default)]
struct Quick(Vec<String>, usize);

impl TakeSeen for Quick {
    fn make_look(&self) -> Option<MakeLook> {
        None
    }

    fn take_seen(&mut self, _: &mut Seen) {}
}

#[test]
fn the_quick_way_gives_the_same_items() {
    let mut cut = pcap_file();
    cut.truncate(cut.len() - 7);
    for bytes in [long_file(), pcap_file(), cut] {
        let (file, mut items) = (on_disk(&bytes), Quick::default());
        let mut quick = CaptureFile::open(file.path()).unwrap();
        let error = loop {
            let pulled = quick.pull_into(
                &mut items,
                |Quick(items, quick), frame| {
                    items.push(digest(&Item::Frame(*frame)));
                    *quick += 1;
                },
                |Quick(items, _), item| items.push(digest(item)),
            );
            match pulled {
                Ok(true) => {}
                Ok(false) => break None,
                Err(error) => break Some(error.to_string()),
            }
        };
        let is_pcap = bytes[0] == 0xd4;
        assert!((items.0, error) == read(file.path()) && (items.1 > 300) == is_pcap, "{}", items.1);
    }
}

fn at_once(file: &[u8]) -> Vec<String> {
    let (mut items, mut rest, mut decoder) = (Vec::new(), file, Decoder::default());
    while let Step::Item(item) = decoder.next(&mut rest).unwrap() {
        items.push(digest(&item));
    }
    items
}

fn on_disk(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn a_long_file_is_read_as_if_it_were_in_memory() {
    let bytes = long_file();
    assert!(bytes.len() > 20 << 20);
    let (items, error) = read(on_disk(&bytes).path());
    assert_eq!((items.len(), error), (402, None));
    assert!(items == at_once(&bytes));
}

/// On one core the decoder reads what is in the page cache itself, and a thread the rest.
#[test]
fn a_file_is_read_on_one_core_as_on_many() {
    let bytes = long_file();
    let file = on_disk(&bytes);
    let on_one_core = |path: &Path| {
        let path = path.to_owned();
        let reader = std::thread::spawn(move || {
            quaff_os::cpu::pin(quaff_os::cpu::allowed().unwrap()[0]).unwrap();
            read(&path)
        });
        reader.join().unwrap()
    };
    assert!(on_one_core(file.path()) == read(file.path()));
    file.as_file().sync_all().unwrap();
    // The second half is not in the page cache: the thread takes over in the middle.
    let half = (bytes.len() / 2) as i64;
    let advice = nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED;
    nix::fcntl::posix_fadvise(file.as_file(), half, 0, advice).unwrap();
    assert!(on_one_core(file.path()) == read(file.path()));
    let empty = on_disk(&[]);
    assert!(on_one_core(empty.path()) == read(empty.path()));
}

#[test]
fn a_pipe_is_read_in_any_write_sizes() {
    let bytes = long_file();
    let (from, mut to) = std::io::pipe().unwrap();
    let path = format!("/proc/self/fd/{}", from.as_raw_fd());
    let writer = std::thread::spawn({
        let bytes = bytes.clone();
        move || {
            (0..)
                .scan(0, |at, i| {
                    let end = (*at + 1 + (i * 7919) % 99_991).min(bytes.len());
                    to.write_all(&bytes[*at..end]).unwrap();
                    *at = end;
                    (end < bytes.len()).then_some(())
                })
                .count()
        }
    });
    let (items, error) = read(Path::new(&path));
    writer.join().unwrap();
    assert_eq!(error, None);
    assert!(items == at_once(&bytes));
}

#[test]
fn items_before_damage_are_delivered() {
    let mut bytes = long_file();
    let damage_at = bytes.len();
    bytes.extend([6, 0, 0, 0, 17, 0, 0, 0]);
    let file = on_disk(&bytes);
    let (items, error) = read(file.path());
    assert_eq!(items.len(), 402);
    let expected = format!(
        "{}: block of 17 bytes at offset {damage_at}: length not a multiple of 4",
        file.path().display()
    );
    assert_eq!(error, Some(expected));
}
