//! Capture files built byte by byte, in either byte order, and what a decoder reads from them.

use quaff_wire::decode::{Damage, Decoder, Item, Step};

/// Writes words in one byte order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Build {
    pub(crate) big: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Build {
    pub(crate) fn new(big: bool) -> Self {
        Self { big, bytes: Vec::new() }
    }

    pub(crate) fn u16(mut self, word: u16) -> Self {
        self.bytes.extend(if self.big { word.to_be_bytes() } else { word.to_le_bytes() });
        self
    }

    pub(crate) fn u32(mut self, word: u32) -> Self {
        self.bytes.extend(if self.big { word.to_be_bytes() } else { word.to_le_bytes() });
        self
    }

    pub(crate) fn u64(mut self, word: u64) -> Self {
        self.bytes.extend(if self.big { word.to_be_bytes() } else { word.to_le_bytes() });
        self
    }

    /// High word first, whatever the byte order, as pcapng has its times.
    pub(crate) fn ticks(self, ticks: u64) -> Self {
        self.u32((ticks >> 32) as u32).u32(ticks as u32)
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }

    pub(crate) fn padded(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn option(self, code: u16, value: &[u8]) -> Self {
        self.u16(code).u16(value.len() as u16).padded(value)
    }

    pub(crate) fn option_u32(self, code: u16, value: u32) -> Self {
        let value = Self::new(self.big).u32(value).bytes;
        self.option(code, &value)
    }

    pub(crate) fn option_u64(self, code: u16, value: u64) -> Self {
        let value = Self::new(self.big).u64(value).bytes;
        self.option(code, &value)
    }

    /// A pcapng block around what `body` writes.
    pub(crate) fn block(self, kind: u32, body: impl FnOnce(Self) -> Self) -> Self {
        let body = body(Self::new(self.big)).bytes;
        let length = body.len() as u32 + 12;
        self.u32(kind).u32(length).raw(&body).u32(length)
    }

    pub(crate) fn section(self) -> Self {
        self.block(0x0A0D_0D0A, |b| b.u32(0x1A2B_3C4D).u16(1).u16(0).u64(u64::MAX))
    }

    /// An Ethernet interface with times in ns.
    pub(crate) fn interface(self) -> Self {
        self.block(1, |b| b.u16(1).u16(0).u32(0).option(9, &[9]).option(0, &[]))
    }

    pub(crate) fn enhanced_packet(self, interface: u32, time: u64, data: &[u8]) -> Self {
        let len = data.len() as u32;
        self.block(6, |b| b.u32(interface).ticks(time).u32(len).u32(len).padded(data))
    }
}

/// An item that owns its bytes, so that it can be kept and compared.
pub(crate) type Kept = String;

fn keep(item: &Item<'_>) -> Kept {
    format!("{item:?}")
}

/// Reads a file that is there at once.
pub(crate) fn read(file: &[u8]) -> (Vec<Kept>, Result<(), Damage>) {
    read_pieces(file, &[])
}

/// Reads a file that arrives in pieces, cut at these offsets.
pub(crate) fn read_pieces(file: &[u8], cuts: &[usize]) -> (Vec<Kept>, Result<(), Damage>) {
    let (mut items, mut decoder, mut held) = (Vec::new(), Decoder::new(), Vec::new());
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (file.len() + 1)).collect();
    cuts.push(file.len());
    cuts.sort_unstable();
    let mut from = 0;
    for to in cuts {
        held.extend_from_slice(&file[from..to]);
        from = to;
        let mut rest = &held[..];
        loop {
            match decoder.next(&mut rest) {
                Ok(Step::Item(item)) => items.push(keep(&item)),
                Ok(Step::NeedMore(needed)) => {
                    assert!(needed > rest.len(), "asks for {needed} bytes and has {}", rest.len());
                    break;
                }
                Err(damage) => {
                    assert_eq!(decoder.next(&mut rest), Err(damage), "an error stays");
                    return (items, Err(damage));
                }
            }
        }
        held = rest.to_vec();
    }
    (items, decoder.end(&held))
}

/// Reads a file giving the decoder never more than it asks for.
pub(crate) fn read_frugally(file: &[u8]) -> (Vec<Kept>, Result<(), Damage>) {
    let (mut items, mut decoder, mut at, mut len) = (Vec::new(), Decoder::new(), 0, 0);
    loop {
        let mut rest = &file[at..at + len];
        let step = decoder.next(&mut rest);
        (at, len) = (at + len - rest.len(), rest.len());
        match step {
            Ok(Step::Item(item)) => {
                assert_eq!(len, 0, "asked for more than the unit needed");
                items.push(keep(&item));
            }
            Ok(Step::NeedMore(needed)) if at + needed <= file.len() => len = needed,
            Ok(Step::NeedMore(_)) if at + len < file.len() => len = file.len() - at,
            Ok(Step::NeedMore(_)) => return (items, decoder.end(&file[at..])),
            Err(damage) => return (items, Err(damage)),
        }
    }
}
