//! Any bytes, cut into any pieces, give the same files as in one piece, and no byte is lost or added.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_wire::cut::{Cutter, Out};
use std::convert::Infallible;

/// The files that come of a stream in pieces of these sizes, and what of each was there before.
fn cut(stream: &[u8], sizes: &[usize], limit: u64) -> (Vec<Vec<u8>>, usize, Option<u64>) {
    let mut cutter = Cutter::new(limit);
    let (mut files, mut repeated) = (vec![Vec::new()], 0);
    let mut out = |out: Out<'_>| -> Result<(), Infallible> {
        match out {
            Out::Bytes(bytes) => files.last_mut().expect("there is a file").extend_from_slice(bytes),
            Out::Cut(first) => {
                files.push(first.to_vec());
                repeated += first.len();
            }
        }
        Ok(())
    };
    let (mut left, mut sizes) = (stream, sizes.iter().cycle());
    while !left.is_empty() {
        let (piece, later) = left.split_at((*sizes.next().expect("there is a size")).clamp(1, left.len()));
        let Ok(()) = cutter.feed(piece, &mut out);
        left = later;
    }
    let Ok(()) = cutter.finish(&mut out);
    (files, repeated, cutter.damaged_at)
}

fuzz_target!(|input: (u8, u8, u16, &[u8])| {
    let (one, other, limit, stream) = input;
    let limit = u64::from(limit).max(1);
    let whole = cut(stream, &[stream.len().max(1)], limit);
    assert_eq!(cut(stream, &[one.into(), other.into()], limit), whole);
    let bytes: usize = whole.0.iter().map(Vec::len).sum();
    assert_eq!(bytes - whole.1, stream.len());
    assert_eq!(cut(stream, &[one.into()], u64::MAX).0, [stream.to_vec()]);
});
