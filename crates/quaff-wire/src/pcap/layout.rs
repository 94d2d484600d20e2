//! The historical layouts of pcap records, and the detection of a file's layout.
//!
//! The magic leaves it open in two cases: Kuznetzov's patches share one magic, and hosts whose `struct timeval` has 16
//! bytes used the standard one. There the first records decide.

use super::{MAGIC_IXIA_HARDWARE, MAGIC_IXIA_SOFTWARE, MAGIC_KUZNETZOV, MAGIC_MICROSECONDS};
use super::{MAGIC_NANOSECONDS, RECORD_HEADER_BYTES};
use crate::item::{ByteOrder, Corrections, UNIT_BYTES_MAX};
use crate::record::{INBOUND, OUTBOUND};
use std::fmt;

/// The layout of the records of a pcap file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordLayout {
    /// The layout of draft-ietf-opsawg-pcap: a 16-byte header per packet.
    Standard,
    /// Alexey Kuznetzov's patch of 1999-10-29: interface, protocol and packet type after the 16 bytes.
    Kuznetzov,
    /// His patch of 1999-09-15 with the same magic, as in SuSE 6.3: 4 bytes more.
    Suse,
    /// A `struct timeval` of two 64-bit words, as some 64-bit hosts wrote it.
    Wide,
    /// AIX: version 2.2, its own link-type numbers, and ns instead of µs.
    Aix,
    /// Ixia lcap: the file header has one more word, the total length of all records.
    Ixia,
}

impl fmt::Display for RecordLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standard => "pcap",
            Self::Kuznetzov => "pcap as patched by Kuznetzov (magic 0xa1b2cd34, record headers of 24 bytes)",
            Self::Suse => "pcap as patched in SuSE 6.3 (magic 0xa1b2cd34, record headers of 28 bytes)",
            Self::Wide => "pcap of an old 64-bit host (times of 2 × 64 bits, record headers of 24 bytes)",
            Self::Aix => "pcap as AIX writes it (version 2.2, times in ns)",
            Self::Ixia => "pcap as Ixia writes it (lcap: the length of all records after the file header)",
        })
    }
}

/// The order of the two lengths in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lengths {
    /// Captured length first.
    Captured,
    /// Original length first: before version 2.3, and in DG/UX.
    Original,
    /// Version 2.3 was written in both orders; the captured length is the smaller one.
    Smaller,
}

/// The parameters for reading the records of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) order: ByteOrder,
    pub(super) layout: RecordLayout,
    /// 1,000 for µs, 1 for ns.
    pub(super) ns_per_fraction: u64,
    pub(super) linktype: u16,
    /// Length of the frame check sequence of each packet, bits.
    pub(super) fcs_len: Option<u8>,
    pub(super) snaplen: u32,
    pub(super) captured_bytes_max: u32,
    lengths: Lengths,
}

/// The header of a record, independent of the layout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    seconds: u64,
    fraction: u64,
    pub(super) captured: u32,
    pub(super) wire_len: u32,
    /// Flags as in `epb_flags`.
    pub(super) flags: u32,
}

/// The implausible properties of a file's complete records, which its writer produced. They are no sign of damage in
/// that file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Oddities {
    /// The fraction is a second or more.
    fraction: bool,
    /// The original length is missing.
    no_length: bool,
    /// The captured length exceeds the original one.
    longer: bool,
    /// The seconds are zero.
    no_time: bool,
}

/// The result of reading several consecutive records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chain {
    Holds,
    Breaks,
    /// At least this many bytes are needed to decide.
    NeedMore(usize),
}

/// Byte order, layout (as far as the magic determines it), and ns per unit of a record's timestamp.
pub(crate) fn of_magic(magic: [u8; 4]) -> Option<(ByteOrder, RecordLayout, u64)> {
    [ByteOrder::Little, ByteOrder::Big].into_iter().find_map(|order| match order.u32(magic) {
        MAGIC_MICROSECONDS => Some((order, RecordLayout::Standard, 1000)),
        MAGIC_NANOSECONDS => Some((order, RecordLayout::Standard, 1)),
        MAGIC_KUZNETZOV => Some((order, RecordLayout::Kuznetzov, 1000)),
        MAGIC_IXIA_HARDWARE => Some((order, RecordLayout::Ixia, 1)),
        MAGIC_IXIA_SOFTWARE => Some((order, RecordLayout::Ixia, 1000)),
        _ => None,
    })
}

impl Form {
    /// Created from the fields of a file header; `None` for an unknown version.
    pub(super) fn new(
        (order, layout, ns_per_fraction): (ByteOrder, RecordLayout, u64),
        version: (u16, u16),
        snaplen: u32,
        network: u32,
        captured_bytes_max: u32,
    ) -> Option<Self> {
        let lengths = match version {
            (2, 0..3) | (543, 0) => Lengths::Original,
            (2, 3) => Lengths::Smaller,
            (2, _) => Lengths::Captured,
            _ => return None,
        };
        let linktype = network as u16;
        // The upper bits: the length in 16-bit words, valid if a flag bit is set.
        let fcs_len = (network & FCS_IS_KNOWN != 0).then_some((network >> FCS_WORDS_SHIFT) as u8 * 16);
        let form =
            Self { order, layout, ns_per_fraction, linktype, fcs_len, snaplen, captured_bytes_max, lengths };
        Some(match aix_linktype(network) {
            Some(linktype) if layout == RecordLayout::Standard && version == (2, 2) => {
                Self { layout: RecordLayout::Aix, ns_per_fraction: 1, linktype, ..form }
            }
            _ => form,
        })
    }

    /// True for the standard layout.
    pub(super) fn is_usual(&self) -> bool {
        matches!(self.layout, RecordLayout::Standard | RecordLayout::Ixia)
            && self.lengths == Lengths::Captured
    }

    /// Length of a record header.
    pub(super) fn head_bytes(&self) -> usize {
        match self.layout {
            RecordLayout::Standard | RecordLayout::Aix | RecordLayout::Ixia => RECORD_HEADER_BYTES,
            RecordLayout::Kuznetzov | RecordLayout::Wide => 24,
            RecordLayout::Suse => 28,
        }
    }

    /// The header at the front of `bytes`; `None` if they are too short.
    pub(super) fn head(&self, bytes: &[u8]) -> Option<Head> {
        let mut bytes = bytes.get(..self.head_bytes())?;
        let (seconds, fraction) = match self.layout {
            RecordLayout::Wide => (self.take_u64(&mut bytes)?, self.take_u64(&mut bytes)?),
            _ => (self.order.take_u32(&mut bytes)?.into(), self.order.take_u32(&mut bytes)?.into()),
        };
        let (first, second) = (self.order.take_u32(&mut bytes)?, self.order.take_u32(&mut bytes)?);
        let (captured, wire_len) = match self.lengths {
            Lengths::Captured => (first, second),
            Lengths::Original => (second, first),
            Lengths::Smaller => (first.min(second), first.max(second)),
        };
        // After them: interface index, 4 bytes; protocol, 2; packet type.
        let flags = match self.layout {
            RecordLayout::Kuznetzov | RecordLayout::Suse => {
                bytes.get(6).map_or(0, |pkttype| flags_of(*pkttype))
            }
            _ => 0,
        };
        Some(Head { seconds, fraction, captured, wire_len, flags })
    }

    /// Checks that `bytes` start with this number of consecutive records, the first of them near the time `near_s`. The
    /// last record's packet may be missing. At the end of a file (`no_more`) a record that ends there completes a
    /// chain.
    pub(super) fn chain(
        &self,
        bytes: &[u8],
        records: usize,
        near_s: Option<u64>,
        odd: Oddities,
        no_more: bool,
    ) -> Chain {
        let (mut at, mut near_s) = (0, near_s);
        for seen in 0..records {
            let Some(head) = bytes.get(at..).and_then(|rest| self.head(rest)) else {
                let ends_well = seen > 1 || (seen == 1 && at == bytes.len());
                return match (no_more, ends_well) {
                    (false, _) => Chain::NeedMore(at + self.head_bytes()),
                    (true, true) => Chain::Holds,
                    (true, false) => Chain::Breaks,
                };
            };
            if !self.is_plausible(&head, near_s, odd) {
                return Chain::Breaks;
            }
            near_s = Some(head.seconds);
            at += self.head_bytes() + head.captured as usize;
        }
        Chain::Holds
    }

    /// True if a header may belong to a packet near the time `near_s`, in a file with these oddities.
    pub(super) fn is_plausible(&self, head: &Head, near_s: Option<u64>, odd: Oddities) -> bool {
        let found = self.oddities(head);
        (!found.fraction || odd.fraction)
            && (!found.no_length || odd.no_length)
            && (!found.longer || odd.longer || found.no_length)
            && !head.is_zero()
            && head.wire_len <= UNIT_BYTES_MAX
            && head.captured <= self.captured_bytes_max
            && (odd.no_time
                || near_s.map_or(!found.no_time, |near_s| head.seconds.abs_diff(near_s) <= NEAR_S))
    }

    /// The implausible properties of a header.
    pub(super) fn oddities(&self, head: &Head) -> Oddities {
        Oddities {
            fraction: head.fraction.saturating_mul(self.ns_per_fraction) >= NS_PER_S,
            no_length: head.wire_len == 0,
            longer: head.captured > head.wire_len,
            no_time: head.seconds == 0,
        }
    }

    /// Follows records by their lengths only: returns how far they reach, or that one of them is impossible. A few that
    /// are plausible given the file's oddities suffice, and the last one of a file may be truncated.
    pub(super) fn follow(&self, bytes: &[u8], odd: Oddities, no_more: bool) -> Follow {
        let (mut at, mut seen, mut plausible) = (0, 0, 0);
        while seen < FOLLOWED_RECORDS && plausible < PLAUSIBLE_RECORDS && at < FOLLOWED_BYTES {
            let left = bytes.get(at..).unwrap_or_default();
            let Some(head) = self.head(left) else {
                let ends_well = left.is_empty() || seen > 1;
                return match (no_more, ends_well) {
                    (false, _) => Follow::NeedMore(at + self.head_bytes()),
                    (true, true) => Follow::Holds(at),
                    (true, false) => Follow::Breaks,
                };
            };
            let length = self.head_bytes() + head.captured as usize;
            let (is_cut, is_plausible) =
                (no_more && left.len() < length, self.is_plausible(&head, None, odd));
            if head.captured > self.captured_bytes_max || is_cut && !(is_plausible && seen > 0) {
                return Follow::Breaks;
            }
            if is_cut {
                return Follow::Holds(at);
            }
            plausible += usize::from(is_plausible && plausible == seen);
            // Zeros form consecutive records without proving anything.
            seen += usize::from(!head.is_zero());
            at += length;
        }
        Follow::Holds(at)
    }

    /// The layout of the record at the front of `bytes`, or the number of bytes needed to decide.
    pub(super) fn decide(&self, bytes: &[u8], no_more: bool) -> Result<RecordLayout, usize> {
        match self.layout {
            RecordLayout::Standard => self.decide_wide(bytes, no_more),
            RecordLayout::Kuznetzov => {
                let suse = Self { layout: RecordLayout::Suse, ..*self };
                match self.chain(bytes, 2, None, Oddities::default(), no_more) {
                    Chain::Holds => return Ok(RecordLayout::Kuznetzov),
                    Chain::NeedMore(needed) => return Err(needed),
                    Chain::Breaks => {}
                }
                match suse.chain(bytes, 2, None, Oddities::default(), no_more) {
                    Chain::Holds => Ok(RecordLayout::Suse),
                    Chain::NeedMore(needed) => Err(needed),
                    Chain::Breaks => Ok(RecordLayout::Kuznetzov),
                }
            }
            known => Ok(known),
        }
    }

    /// In the standard layout a record with 64-bit timestamps looks like a packet with more bytes captured than it had,
    /// or with too many µs; where the next record is decides.
    fn decide_wide(&self, bytes: &[u8], no_more: bool) -> Result<RecordLayout, usize> {
        let Some(usual) = self.head(bytes) else {
            return if no_more { Ok(RecordLayout::Standard) } else { Err(self.head_bytes()) };
        };
        let is_odd = usual.wire_len == 0 && usual.fraction == 0 && usual.seconds > 0
            || usual.seconds == 0
                && usual.captured == 0
                && usual.fraction.saturating_mul(self.ns_per_fraction) >= NS_PER_S;
        if !is_odd || self.lengths != Lengths::Captured {
            return Ok(RecordLayout::Standard);
        }
        let wide = Self { layout: RecordLayout::Wide, ..*self };
        match wide.chain(bytes, WIDE_RECORDS, None, Oddities::default(), no_more) {
            Chain::NeedMore(needed) => return Err(needed),
            Chain::Breaks => return Ok(RecordLayout::Standard),
            Chain::Holds => {}
        }
        // Records without an original length look the same, and lead from one to the next in the standard layout.
        match self.follow(bytes, self.oddities(&usual), no_more) {
            Follow::NeedMore(needed) => Err(needed),
            Follow::Holds(_) => Ok(RecordLayout::Standard),
            Follow::Breaks => Ok(RecordLayout::Wide),
        }
    }

    fn take_u64(&self, bytes: &mut &[u8]) -> Option<u64> {
        let (word, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(self.order.u64(*word))
    }
}

impl Head {
    /// Timestamp, ns since 1970. Seconds of 64 bits are signed.
    pub(super) fn time_ns(&self, form: &Form, corrected: &mut Corrections) -> u64 {
        let fraction_ns = i128::from(self.fraction) * i128::from(form.ns_per_fraction);
        corrected.fractions += u64::from(fraction_ns >= i128::from(NS_PER_S));
        corrected.time_ns(i128::from(self.seconds as i64) * i128::from(NS_PER_S) + fraction_ns)
    }

    /// True for zeros only: an empty packet, or the start of a hole.
    pub(super) fn is_zero(&self) -> bool {
        self.seconds == 0 && self.fraction == 0 && self.captured == 0 && self.wire_len == 0
    }
}

impl Oddities {
    /// Adds the oddities of another record.
    pub(super) fn add(&mut self, other: Self) {
        self.fraction |= other.fraction;
        self.no_length |= other.no_length;
        self.longer |= other.longer;
        self.no_time |= other.no_time;
    }
}

/// True if `bytes`, which start with a record of zeros, are a hole: a page of zeros, or zeros to the end of the file.
/// Fewer records of zeros are packets, as for other readers. The error is the number of bytes needed to decide.
pub(super) fn hole(bytes: &[u8], no_more: bool) -> Result<bool, usize> {
    let page = bytes.get(..HOLE_BYTES).unwrap_or(bytes);
    let is_zero = page.iter().all(|byte| *byte == 0);
    match is_zero && page.len() < HOLE_BYTES {
        true if no_more => Ok(page.len() > RECORD_HEADER_BYTES),
        true => Err(HOLE_BYTES),
        false => Ok(is_zero),
    }
}

/// Bits in the link-type word (draft-ietf-opsawg-pcap, section 4).
pub(super) const FCS_IS_KNOWN: u32 = 1 << 26;
pub(super) const FCS_WORDS_SHIFT: u32 = 28;

/// The result of following records by their lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follow {
    /// They reach this far, bytes.
    Holds(usize),
    Breaks,
    /// At least this many bytes are needed to decide.
    NeedMore(usize),
}

const NS_PER_S: u64 = 1_000_000_000;
/// Limits for following an implausible record: records, and bytes; and the number of plausible ones, given the file's
/// oddities, that suffice if no implausible one is among them.
const FOLLOWED_RECORDS: usize = 64;
const PLAUSIBLE_RECORDS: usize = 8;
const FOLLOWED_BYTES: usize = 4 << 20;
/// Records that must be plausible with 64-bit timestamps.
const WIDE_RECORDS: usize = 3;
/// Number of zeros that make a hole: a page of a file system.
const HOLE_BYTES: usize = 4096;
/// Maximum time between consecutive packets where it must be guessed whether they are packets, s: twelve days.
const NEAR_S: u64 = 1 << 20;

/// Maps AIX's link-type numbers, which are those of RFC 1573.
fn aix_linktype(network: u32) -> Option<u16> {
    match network {
        6 => Some(1),
        9 => Some(6),
        15 => Some(10),
        24 => Some(0),
        _ => None,
    }
}

/// `epb_flags` from PACKET_HOST and similar values (linux/if_packet.h): direction, and kind of reception.
fn flags_of(pkttype: u8) -> u32 {
    match pkttype {
        0 => INBOUND | 1 << 2,
        1 => INBOUND | 3 << 2,
        2 => INBOUND | 2 << 2,
        3 => INBOUND | 4 << 2,
        4 => OUTBOUND,
        _ => 0,
    }
}
