//! Copies the options and names of other programs' files that are kept, from a file that is read to a file that is
//! written (sections 3.5 and 4.5 of the draft), in native byte order.
//!
//! Options that quaff writes itself are omitted. An option of unknown layout is copied only from a section in native
//! byte order; an option marked as not to be copied never is.

use super::encode::block;
use super::option::Options;
use super::*;
use crate::item::{ByteOrder, RawNames, RawOptions};

/// Maximum bytes of options that are kept of one block.
pub(super) const COPIED_BYTES_MAX: usize = 64 << 10;

/// Options that only packets from files have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PacketOptions {
    /// `epb_flags`, including the direction.
    pub flags: u32,
    /// All other options except the drop count, as they are in the block.
    pub bytes: Vec<u8>,
}

impl PacketOptions {
    /// The options of a packet that was read.
    pub fn new(flags: u32, options: RawOptions<'_>) -> Self {
        Self { flags, bytes: copied(options, of_packet) }
    }

    /// The same options with `epb_packetid` set to `id`.
    pub fn bytes_with_id(&self, id: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes.len() + encode::PACKET_ID_BYTES);
        let known = Options::new(&self.bytes, ByteOrder::NATIVE).map_while(Result::ok);
        known.filter(|(code, _)| *code != EPB_PACKETID).for_each(|(code, value)| {
            encode::option(&mut out, code, value);
        });
        encode::option(&mut out, EPB_PACKETID, &id.to_ne_bytes());
        out
    }
}

/// The options of an interface that have no field in [`Interface`]: addresses, speeds per direction, comments.
pub fn interface_options(options: RawOptions<'_>) -> Vec<u8> {
    copied(options, of_interface)
}

/// All comments in the options of a block.
pub fn comments(options: RawOptions<'_>) -> Vec<String> {
    let all = Options::new(options.bytes, options.order).map_while(Result::ok);
    let texts = all.filter(|(code, _)| *code == OPT_COMMENT);
    texts.map(|(_, text)| String::from_utf8_lossy(text).into_owned()).collect()
}

/// A comment as an option of a block, for writing; of at most 65,535 bytes.
pub fn comment_option(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    encode::option(&mut out, OPT_COMMENT, text.as_bytes());
    out
}

/// A Name Resolution Block (section 4.5) for writing, with the records and options of one that was read; empty without
/// records.
pub fn names(raw: RawNames<'_>) -> Vec<u8> {
    // Records have the layout of options, and the same end.
    let mut list = Options::new(raw.bytes, raw.order);
    let mut records = Vec::new();
    for (kind, value) in list.by_ref().map_while(Result::ok).filter(|(kind, value)| is_record(*kind, value)) {
        encode::option(&mut records, kind, value);
    }
    let mut out = Vec::new();
    if !records.is_empty() {
        let options = copied(RawOptions { bytes: list.rest(), order: raw.order }, of_names);
        block(&mut out, NRB, |out| {
            out.extend(records);
            encode::option(out, NRB_RECORD_END, &[]);
            out.extend(options);
            encode::option(out, OPT_ENDOFOPT, &[]);
        });
    }
    out
}

/// Marks the end of the records of a Name Resolution Block.
const NRB_RECORD_END: u16 = 0;

/// True if readers accept a record: an address, and zero-terminated names. Readers skip unknown kinds.
fn is_record(kind: u16, value: &[u8]) -> bool {
    let address_bytes = match kind {
        1 => 4,
        2 => 16,
        // EUI-48, EUI-64
        3 => 6,
        4 => 8,
        _ => return true,
    };
    value.len() > address_bytes + 1 && value.ends_with(&[0])
}

/// The layout of an option's value.
enum Value {
    /// Bytes without byte order.
    Bytes,
    /// Words of `bytes` bytes after `first` single ones. A remainder is not swapped.
    Words {
        first: usize,
        bytes: usize,
    },
    /// A 4-byte word, then bytes.
    Word,
    Unknown,
    /// Not to be copied.
    None,
}

/// The options of an Enhanced Packet Block (section 4.3).
fn of_packet(code: u16, value: &[u8]) -> Value {
    match code {
        EPB_FLAGS | EPB_DROPCOUNT => Value::None,
        // epb_hash
        3 => Value::Bytes,
        // epb_packetid, epb_queue, epb_verdict, epb_processid_threadid
        EPB_PACKETID => Value::Words { first: 0, bytes: 8 },
        6 | 8 => Value::Words { first: 0, bytes: 4 },
        // A hardware verdict is a byte string, eBPF verdicts (TC, XDP) are numbers.
        7 => match value.first() {
            Some(0) => Value::Bytes,
            Some(1 | 2) => Value::Words { first: 1, bytes: 8 },
            _ => Value::Unknown,
        },
        code => of_any(code),
    }
}

/// The options of an Interface Description Block (section 4.2).
fn of_interface(code: u16, value: &[u8]) -> Value {
    match code {
        IF_NAME | IF_DESCRIPTION | IF_MACADDR | IF_SPEED | IF_TSRESOL | IF_OS | IF_FCSLEN | IF_TSOFFSET => {
            Value::None
        }
        // Other kinds, such as a BPF program, are not text and have no field.
        IF_FILTER => match value.first() {
            Some(&FILTER_TEXT) | None => Value::None,
            Some(_) => Value::Unknown,
        },
        // if_IPv4addr, if_IPv6addr, if_EUIaddr, if_hardware, if_iana_tzname
        4 | 5 | 7 | 15 | 18 => Value::Bytes,
        // if_tzone; if_txspeed, if_rxspeed
        10 => Value::Words { first: 0, bytes: 4 },
        16 | 17 => Value::Words { first: 0, bytes: 8 },
        code => of_any(code),
    }
}

/// The options of a Name Resolution Block (section 4.5): the DNS server's name and addresses.
fn of_names(code: u16, _: &[u8]) -> Value {
    match code {
        2..=4 => Value::Bytes,
        code => of_any(code),
    }
}

fn of_any(code: u16) -> Value {
    match code {
        OPT_COMMENT => Value::Bytes,
        // Custom option with text: an enterprise number, then UTF-8.
        2988 => Value::Word,
        // Custom options that must not be copied.
        19372 | 19373 => Value::None,
        _ => Value::Unknown,
    }
}

fn copied(options: RawOptions<'_>, kind: fn(u16, &[u8]) -> Value) -> Vec<u8> {
    let is_native = options.order == ByteOrder::NATIVE;
    let mut out = Vec::new();
    for (code, value) in Options::new(options.bytes, options.order).map_while(Result::ok) {
        let mut value = value.to_vec();
        let (words, bytes) = match kind(code, &value) {
            Value::None => continue,
            Value::Unknown if !is_native => continue,
            Value::Bytes | Value::Unknown => (&mut [][..], 1),
            Value::Words { first, bytes } => (value.get_mut(first..).unwrap_or_default(), bytes),
            Value::Word => (value.get_mut(..4).unwrap_or_default(), 4),
        };
        if !is_native {
            words.chunks_exact_mut(bytes).for_each(<[u8]>::reverse);
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

    /// An option, or a name record.
    fn option(code: u16, value: &[u8], big: bool) -> Vec<u8> {
        let word = |word: u16| if big { word.to_be_bytes() } else { word.to_le_bytes() };
        let mut option = [&word(code)[..], &word(value.len() as u16), value].concat();
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    /// The options that `copy` keeps from input in both byte orders.
    fn kept(
        all: impl Fn(bool) -> Vec<Vec<u8>>,
        copy: fn(RawOptions<'_>) -> Vec<u8>,
    ) -> [Vec<(u16, Vec<u8>)>; 2] {
        [(false, ByteOrder::Little), (true, ByteOrder::Big)].map(|(big, order)| {
            let bytes = all(big).concat();
            let kept = copy(RawOptions { bytes: &bytes, order });
            let found = Options::new(&kept, ByteOrder::NATIVE).map(|found| found.expect("whole options"));
            found.map(|(code, value)| (code, value.to_vec())).collect()
        })
    }

    fn id(id: u64, big: bool) -> [u8; 8] {
        if big { id.to_be_bytes() } else { id.to_le_bytes() }
    }

    fn of_packets(options: RawOptions<'_>) -> Vec<u8> {
        let kept = PacketOptions::new(9, options);
        assert_eq!(kept.flags, 9);
        kept.bytes
    }

    #[test]
    fn options_are_in_the_order_of_the_machine() {
        let all = |big| {
            vec![
                option(1, b"a comment", big),
                option(EPB_FLAGS, &[1, 2, 3, 4], big),
                option(5, &id(77, big), big),
                option(7, &[&[2][..], &id(5, big)].concat(), big),
                option(19372, &[0; 8], big),
            ]
        };
        let verdict = [&[2][..], &5u64.to_ne_bytes()].concat();
        let expected = vec![(1, b"a comment".to_vec()), (5, 77u64.to_ne_bytes().to_vec()), (7, verdict)];
        assert_eq!(kept(all, of_packets), [expected.clone(), expected]);
    }

    #[test]
    fn a_new_packet_id_replaces_the_old_one_alone() {
        let bytes = [option(1, b"a comment", false), option(EPB_PACKETID, &[7; 8], false)].concat();
        let options = PacketOptions { flags: 0, bytes };
        let with_id = options.bytes_with_id(0x0102);
        let found: Vec<_> = Options::new(&with_id, ByteOrder::NATIVE).map(Result::unwrap).collect();
        assert_eq!(found, [(1, &b"a comment"[..]), (EPB_PACKETID, &0x0102u64.to_ne_bytes()[..])]);
    }

    /// Bytes and text have no byte order; incomplete words are not swapped.
    #[test]
    fn strings_of_bytes_are_never_swapped() {
        let enterprise = |big: bool| if big { [0, 0, 0x7e, 0xd9] } else { [0xd9, 0x7e, 0, 0] };
        let all = |big| {
            vec![
                option(7, b"\0hardware", big),
                option(5, b"part", big),
                option(2988, &[&enterprise(big)[..], b"text"].concat(), big),
            ]
        };
        let custom = [&0x7ed9u32.to_ne_bytes()[..], b"text"].concat();
        let expected = vec![(7, b"\0hardware".to_vec()), (5, b"part".to_vec()), (2988, custom)];
        assert_eq!(kept(all, of_packets), [expected.clone(), expected]);
        let zone = |big| vec![option(18, b"Asia/Kolkata", big), option(IF_FILTER, b"\0udp", big)];
        let expected = vec![(18, b"Asia/Kolkata".to_vec())];
        assert_eq!(kept(zone, interface_options), [expected.clone(), expected]);
    }

    #[test]
    fn a_filter_that_is_no_text_is_copied_as_it_is() {
        let filter = |big| vec![option(IF_FILTER, &[1, 6, 0, 0, 0, 0xff, 0xff, 0, 0], big)];
        let [little, big] = kept(filter, interface_options);
        let (native, other) = if cfg!(target_endian = "big") { (big, little) } else { (little, big) };
        assert_eq!((native.len(), other.len()), (1, 0));
    }

    #[test]
    fn names_are_in_the_order_of_the_machine_and_have_an_end() {
        let host = [&[192, 0, 2, 1][..], b"one.example\0"].concat();
        let wrong: [&[u8]; 3] = [&[1, 2, 3], &[192, 0, 2, 1, 0], b"\x01\x02\x03\x04open"];
        for (big, order) in [(false, ByteOrder::Little), (true, ByteOrder::Big)] {
            let mut body = wrong.iter().flat_map(|wrong| option(1, wrong, big)).collect::<Vec<_>>();
            body.extend([option(1, &host, big), option(0, &[], big)].concat());
            body.extend([option(2, b"resolver", big), option(0, &[], big)].concat());
            let block = names(RawNames { bytes: &body, order });
            let expected = [option(1, &host, false), option(0, &[], false), option(2, b"resolver", false)];
            let expected = [expected.concat(), option(0, &[], false)].concat();
            let length = (expected.len() as u32 + 12).to_ne_bytes();
            if cfg!(target_endian = "little") {
                assert_eq!(block, [&NRB.to_ne_bytes()[..], &length, &expected, &length].concat());
            }
        }
        for none in [&[][..], &[0; 4], &[1, 0, 200, 0, 1]] {
            assert!(names(RawNames { bytes: none, order: ByteOrder::Little }).is_empty(), "{none:?}");
        }
    }
}
