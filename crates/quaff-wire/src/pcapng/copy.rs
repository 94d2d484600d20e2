//! Copies of options from a file that is read to one that is written (section 3.5 of the draft), in the machine's byte
//! order.
//!
//! Options that quaff writes itself are left out. An option whose layout is not known is only copied from a section of
//! the machine's order; one that says that it must not be copied never is.

use super::option::Options;
use super::*;
use crate::item::{ByteOrder, RawOptions};

/// The most bytes of options that are kept of one block.
pub(super) const COPIED_BYTES_MAX: usize = 64 << 10;

/// Options of a packet that only packets of files have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PacketOptions {
    /// `epb_flags`, the direction included.
    pub flags: u32,
    /// All others but the drop count, as they stand in the block.
    pub bytes: Vec<u8>,
}

impl PacketOptions {
    /// Those of a packet that was read.
    pub fn new(flags: u32, options: RawOptions<'_>) -> Self {
        Self { flags, bytes: copied(options, of_packet) }
    }
}

/// The options of an interface that no field of [`Interface`] has: addresses, rates of each direction, comments.
pub fn interface_options(options: RawOptions<'_>) -> Vec<u8> {
    copied(options, of_interface)
}

/// The parts of an option's value.
enum Value {
    /// Bytes in any order of the machine.
    Bytes,
    /// Words of so many bytes, after so many single ones.
    Words {
        first: usize,
        bytes: usize,
    },
    Unknown,
    /// Not to be copied.
    None,
}

/// The options of an Enhanced Packet Block (section 4.3).
fn of_packet(code: u16) -> Value {
    match code {
        EPB_FLAGS | EPB_DROPCOUNT => Value::None,
        // epb_hash
        3 => Value::Bytes,
        // epb_packetid, epb_queue, epb_verdict, epb_processid_threadid
        5 => Value::Words { first: 0, bytes: 8 },
        6 | 8 => Value::Words { first: 0, bytes: 4 },
        7 => Value::Words { first: 1, bytes: 8 },
        code => of_any(code),
    }
}

/// The options of an Interface Description Block (section 4.2).
fn of_interface(code: u16) -> Value {
    match code {
        IF_NAME | IF_DESCRIPTION | IF_MACADDR | IF_SPEED | IF_TSRESOL | IF_FILTER | IF_OS | IF_FCSLEN
        | IF_TSOFFSET => Value::None,
        // if_IPv4addr, if_IPv6addr, if_EUIaddr, if_hardware
        4 | 5 | 7 | 15 => Value::Bytes,
        // if_tzone; if_txspeed, if_rxspeed
        10 => Value::Words { first: 0, bytes: 4 },
        16 | 17 => Value::Words { first: 0, bytes: 8 },
        code => of_any(code),
    }
}

fn of_any(code: u16) -> Value {
    match code {
        OPT_COMMENT => Value::Bytes,
        // Custom options that must not be copied.
        19372 | 19373 => Value::None,
        _ => Value::Unknown,
    }
}

fn copied(options: RawOptions<'_>, kind: fn(u16) -> Value) -> Vec<u8> {
    let is_native = options.order == ByteOrder::NATIVE;
    let mut out = Vec::new();
    for (code, value) in Options::new(options.bytes, options.order).map_while(Result::ok) {
        let mut value = value.to_vec();
        match kind(code) {
            Value::None => continue,
            Value::Unknown if !is_native => continue,
            Value::Words { first, bytes } if !is_native => {
                value.iter_mut().skip(first).collect::<Vec<_>>().chunks_mut(bytes).for_each(|word| {
                    let swapped: Vec<_> = word.iter().rev().map(|byte| **byte).collect();
                    word.iter_mut().zip(swapped).for_each(|(byte, swapped)| **byte = swapped);
                });
            }
            Value::Bytes | Value::Unknown | Value::Words { .. } => {}
        }
        if out.len() + value.len() + 8 > COPIED_BYTES_MAX {
            break;
        }
        encode::option(&mut out, code, &value);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_in_the_order_of_the_machine() {
        let option = |code: u16, value: &[u8], big: bool| {
            let word = |word: u16| if big { word.to_be_bytes() } else { word.to_le_bytes() };
            let mut option = [&word(code)[..], &word(value.len() as u16), value].concat();
            option.resize(option.len().next_multiple_of(4), 0);
            option
        };
        for (big, order) in [(false, ByteOrder::Little), (true, ByteOrder::Big)] {
            let id = |id: u64| if big { id.to_be_bytes() } else { id.to_le_bytes() };
            let verdict = [&[2][..], &id(5)].concat();
            let bytes = [
                option(1, b"a comment", big),
                option(EPB_FLAGS, &[1, 2, 3, 4], big),
                option(5, &id(77), big),
                option(7, &verdict, big),
                option(19372, &[0; 8], big),
            ];
            let bytes = bytes.concat();
            let kept = PacketOptions::new(9, RawOptions { bytes: &bytes, order });
            let found: Result<Vec<_>, _> = Options::new(&kept.bytes, ByteOrder::NATIVE).collect();
            let (id, verdict) = (77u64.to_ne_bytes(), [&[2][..], &5u64.to_ne_bytes()].concat());
            assert_eq!(found, Ok(vec![(1, &b"a comment"[..]), (5, &id[..]), (7, &verdict[..])]));
            assert_eq!(kept.flags, 9);
        }
    }
}
