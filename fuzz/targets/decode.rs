//! Any bytes, cut into any pieces, are read without a panic, and read the same as in one piece.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_wire::decode::{Damage, Decoder, Step};

/// The items of a file that arrives in pieces of these sizes, repeated, and how it ends.
fn read(file: &[u8], sizes: &[usize]) -> (Vec<String>, Result<(), Damage>) {
    let (mut items, mut decoder, mut held) = (Vec::new(), Decoder::new(), Vec::new());
    let (mut left, mut sizes) = (file, sizes.iter().cycle());
    loop {
        let is_last = left.is_empty();
        if is_last {
            decoder.no_more();
        } else {
            let size = (*sizes.next().expect("there is a size")).clamp(1, left.len());
            let (piece, later) = left.split_at(size);
            held.extend_from_slice(piece);
            left = later;
        }
        let mut rest = &held[..];
        loop {
            match decoder.next(&mut rest) {
                Ok(Step::Item(item)) => items.push(format!("{item:?}")),
                Ok(Step::NeedMore(needed)) => {
                    assert!(needed > rest.len() && needed <= (16 << 20) + 64);
                    break;
                }
                Err(damage) => return (items, Err(damage)),
            }
        }
        held = rest.to_vec();
        if is_last {
            return (items, decoder.end(&held));
        }
    }
}

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (one, other, file) = input;
    let whole = read(file, &[file.len().max(1)]);
    assert_eq!(read(file, &[one.into(), other.into()]), whole);
});
