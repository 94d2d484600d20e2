//! The engine of `quaff pipe` returns the same bytes, whatever the sizes of the pieces, and whichever end waits.

use proptest::prelude::*;
use quaff::pipe::{Pipe, PipeOutput, PipePlan};
use quaff_os::Stop;
use std::fs::File;
use std::io::{Read, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longer than bytes that were read take to be in the file, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(30);

fn plan(output: PipeOutput) -> PipePlan {
    PipePlan { size_bytes: 0, is_populated: false, output, reader_cpu: None, writer_cpu: None }
}

fn noise(bytes: usize) -> Vec<u8> {
    let next = |state: &mut u64| {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        Some(*state as u8)
    };
    let mut state = 0x9E37_79B9_7F4A_7C15;
    std::iter::from_fn(|| next(&mut state)).take(bytes).collect()
}

/// Writes `sent` in pieces of these sizes, repeatedly; after a size that is divisible by 7 it pauses.
fn write_pieces(mut to: impl Write, sent: &[u8], sizes: &[usize]) {
    let (mut rest, mut sizes) = (sent, sizes.iter().cycle());
    while !rest.is_empty() {
        let size = *sizes.next().expect("there is a size");
        let (piece, behind) = rest.split_at(size.min(rest.len()));
        to.write_all(piece).expect("a reader");
        rest = behind;
        if size.is_multiple_of(7) {
            sleep(Duration::from_micros(300));
        }
    }
}

fn read_pieces(mut from: impl Read, sizes: &[usize]) -> Vec<u8> {
    let (mut got, mut sizes) = (Vec::new(), sizes.iter().cycle());
    loop {
        let size = *sizes.next().expect("there is a size");
        let mut piece = vec![0; size];
        let count = from.read(&mut piece).expect("read");
        if count == 0 {
            return got;
        }
        got.extend_from_slice(&piece[..count]);
        if size.is_multiple_of(7) {
            sleep(Duration::from_micros(300));
        }
    }
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![1..100usize, 1..70_000usize, 60_000..3_000_000usize], 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn from_pipe_to_pipe(bytes in 0..4_000_000usize, writes in sizes(), reads in sizes()) {
        // Tiny pieces are slow, so fewer bytes are sent in them.
        let least = writes.iter().chain(&reads).min().copied().unwrap_or(1);
        let sent = noise(bytes.min(least * 20_000));
        let (stdin, to) = std::io::pipe().unwrap();
        let (from, stdout) = std::io::pipe().unwrap();
        let pipe = Pipe::start(plan(PipeOutput::Stdout), stdin.into(), stdout.into(), Stop::default()).unwrap();
        let got = std::thread::scope(|scope| {
            scope.spawn(|| write_pieces(to, &sent, &writes));
            read_pieces(from, &reads)
        });
        let report = pipe.finish();
        prop_assert_eq!((report.read, report.written), (sent.len() as u64, sent.len() as u64));
        prop_assert!(report.is_lossless() && report.high <= report.size);
        prop_assert!(got == sent, "the bytes are others");
    }

    #[test]
    fn from_pipe_to_file(bytes in 0..9_000_000usize, writes in sizes(), rest in 0..9000usize) {
        let least = writes.iter().min().copied().unwrap_or(1);
        let sent = noise(bytes.min(least * 20_000));
        // On a real disk, if there is one.
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (stdin, to) = std::io::pipe().unwrap();
        let stdout = File::options().write(true).open(file.path()).unwrap();
        let pipe = Pipe::start(plan(PipeOutput::Stdout), stdin.into(), stdout.into(), Stop::default()).unwrap();
        // The rest is sent so late that all earlier bytes are already in the file.
        let (early, late) = sent.split_at(sent.len().saturating_sub(rest));
        write_pieces(&to, early, &writes);
        let begun = Instant::now();
        while file.as_file().metadata().unwrap().len() < early.len() as u64 && begun.elapsed() < PATIENCE {
            sleep(Duration::from_millis(5));
        }
        prop_assert!(std::fs::read(file.path()).unwrap() == early, "the early bytes are others");
        write_pieces(to, late, &[late.len().max(1)]);
        let report = pipe.finish();
        prop_assert_eq!((report.read, report.written), (sent.len() as u64, sent.len() as u64));
        prop_assert!(std::fs::read(file.path()).unwrap() == sent, "the bytes are others");
    }

    #[test]
    fn from_pipe_to_folder(bytes in 0..6_000_000usize, writes in sizes(), rotate in 65_536..2_000_000u64) {
        let least = writes.iter().min().copied().unwrap_or(1);
        let sent = noise(bytes.min(least * 20_000));
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let output =
            PipeOutput::Dir { dir: dir.path().into(), name: "f".into(), rotate_bytes: Some(rotate), keep_files: None };
        let (stdin, to) = std::io::pipe().unwrap();
        let stdout = File::open("/dev/null").unwrap();
        let pipe = Pipe::start(plan(output), stdin.into(), stdout.into(), Stop::default()).unwrap();
        write_pieces(to, &sent, &writes);
        let report = pipe.finish();
        prop_assert_eq!((report.written, report.files), (sent.len() as u64, (sent.len() as u64).div_ceil(rotate)));
        let joined = (0..report.files).flat_map(|number| {
            std::fs::read(dir.path().join(format!("f-{number:06}.bin"))).unwrap()
        });
        prop_assert!(joined.collect::<Vec<_>>() == sent, "the bytes are others");
    }
}
