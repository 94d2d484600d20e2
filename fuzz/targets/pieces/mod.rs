//! A capture file that arrives in pieces, as a program reads it from a pipe.

use quaff_wire::decode::{Damage, Decoder, Item, Step};
use quaff_wire::pcapng::{PacketOptions, interface_options};

/// The options that a copy of the item has.
fn copied(item: &Item<'_>) -> Vec<u8> {
    let options = match item {
        Item::Frame(frame) => PacketOptions::new(frame.flags, frame.options).bytes,
        Item::Interface(interface) => interface_options(interface.options),
        _ => Vec::new(),
    };
    assert!(options.len().is_multiple_of(4) && options.len() <= 64 << 10);
    options
}

/// The items of a file that arrives in pieces of these sizes, repeated, and its end. No step asks for more than
/// `needed_max` bytes; each byte is reported once, and after salvage none is left.
pub(crate) fn read(
    file: &[u8],
    sizes: &[u8],
    mut decoder: Decoder,
    needed_max: usize,
) -> (Vec<String>, Result<(), Damage>) {
    let (mut items, mut held, mut jumped_to) = (Vec::new(), Vec::new(), None);
    let (mut left, mut sizes) = (file, sizes.iter().cycle());
    loop {
        let is_last = left.is_empty();
        if is_last {
            decoder.no_more();
        } else {
            let size = sizes.next().map_or(left.len(), |size| usize::from(*size).clamp(1, left.len()));
            let (piece, later) = left.split_at(size);
            held.extend_from_slice(piece);
            left = later;
        }
        let mut rest = &held[..];
        loop {
            match decoder.next(&mut rest) {
                Ok(Step::Item(item)) => {
                    if let Item::Jump(jump) = item {
                        assert!(jump.bytes > 0 && jump.damage.offset >= jumped_to.unwrap_or(0));
                        jumped_to = Some(jump.damage.offset + jump.bytes);
                    }
                    items.push(format!("{item:?} {:?}", copied(&item)));
                }
                Ok(Step::NeedMore(needed)) => {
                    assert!(needed > rest.len() && needed <= needed_max);
                    break;
                }
                Err(damage) => return (items, Err(damage)),
            }
        }
        held = rest.to_vec();
        if is_last {
            assert!(jumped_to.is_none() || (held.is_empty() && decoder.offset() == file.len() as u64));
            return (items, decoder.end(&held));
        }
    }
}
