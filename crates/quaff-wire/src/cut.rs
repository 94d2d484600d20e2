//! Cuts a stream of bytes into files: pcap and pcapng between packets, so that each file can be opened by itself; other
//! streams anywhere.
//!
//! A [`Cutter`] passes on every byte once, in order. At a cut it returns the start of the next file: the pcap file
//! header;
//! for pcapng the Section Header Block and the Interface Description Blocks of the section so far. (A section length
//! would be wrong in a file that ends earlier, so it becomes "unknown".) Only lengths are examined, never packets.

use crate::item::ByteOrder;
use crate::pcap::{self, FILE_HEADER_BYTES, RECORD_HEADER_BYTES, RecordLayout, Resolution};
use crate::pcapng::{self, BLOCK_BYTES_MIN, EPB, IDB, SHB};

/// Length of a record header with Alexey Kuznetzov's patch.
const KUZNETZOV_HEADER_BYTES: u64 = 24;
/// Maximum length of a record or block; a larger one means damage.
const UNIT_BYTES_MAX: u32 = 256 << 20;
/// Maximum bytes of file and section headers that are repeated in each file; a stream with more is not cut.
const REPEATED_BYTES_MAX: usize = 1 << 20;
/// Offset of the section length in a Section Header Block.
const SECTION_LENGTH_AT: std::ops::Range<usize> = 16..24;

/// The file-name extension for a stream that starts with these bytes.
pub fn extension(stream: &[u8]) -> &'static str {
    match stream.first_chunk().map(|first| layout(*first)) {
        Some(Layout::Pcapng { .. }) => "pcapng",
        Some(Layout::Pcap { .. }) => "pcap",
        _ => "bin",
    }
}

/// The complete pcapng blocks, or pcap records, at the start of `bytes`, in native byte order: the end offset of each,
/// and the interface number if it holds a packet (0 in pcap).
pub fn whole_units(bytes: &[u8], is_pcapng: bool) -> impl Iterator<Item = (usize, Option<u32>)> {
    let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let mut at = 0usize;
    std::iter::from_fn(move || {
        let (len, interface) = if is_pcapng {
            let interface = if word(at)? == EPB { Some(word(at + 8)?) } else { None };
            (word(at + 4)?.max(BLOCK_BYTES_MIN) as usize, interface)
        } else {
            (RECORD_HEADER_BYTES + word(at + 8)? as usize, Some(0))
        };
        at = at.checked_add(len).filter(|end| *end <= bytes.len())?;
        Some((at, interface))
    })
}

/// The timestamp of a unit of [`whole_units`] that holds a packet, ns since 1970; `resolution` is pcap's, and `None`
/// for pcapng with timestamps in ns.
pub fn packet_time_ns(unit: &[u8], resolution: Option<Resolution>) -> Option<u64> {
    let word = |at: usize| Some(u64::from(u32::from_ne_bytes(*unit.get(at..)?.first_chunk()?)));
    Some(match resolution {
        None => word(12)? << 32 | word(16)?,
        Some(Resolution::Nanoseconds) => word(0)? * 1_000_000_000 + word(4)?,
        Some(Resolution::Microseconds) => word(0)? * 1_000_000_000 + word(4)? * 1000,
    })
}

/// An instruction to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Out<'a> {
    /// These bytes belong to the current file.
    Bytes(&'a [u8]),
    /// The current file ends; the next one starts with these bytes, which repeat earlier ones of the stream.
    Cut(&'a [u8]),
}

/// Finds the cuts. Files do not exceed a limit, unless a single unit does.
#[derive(Debug)]
pub struct Cutter {
    limit_bytes: u64,
    layout: Layout,
    /// Bytes of the stream that were passed on or are held.
    seen_bytes: u64,
    /// Bytes of the current file, including the outstanding bytes of its last unit.
    file_bytes: u64,
    /// True if the current file holds more than its headers.
    has_units: bool,
    /// The headers that the next file must start with.
    repeated: Vec<u8>,
    /// The first bytes of a unit that is not yet recognised.
    held: Vec<u8>,
    /// Outstanding bytes of the current unit; after damage, all further bytes.
    left_bytes: u64,
    /// Offset in the stream of the first invalid unit. The stream is not cut after it.
    pub damaged_at: Option<u64>,
}

/// The framing of units in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// No bytes so far.
    Unknown,
    /// Expects the pcap file header.
    Pcap { order: ByteOrder, header_bytes: u64 },
    /// pcap records.
    Records { order: ByteOrder, header_bytes: u64 },
    /// pcapng blocks.
    Pcapng { order: ByteOrder },
    /// An unknown format, which may be cut anywhere.
    Bytes,
}

/// The result of examining the first bytes of a unit.
enum Look {
    /// This number of bytes is needed.
    More(usize),
    /// The unit has this length.
    Packet(u64),
    /// A header of the current file; all of its bytes are present.
    Head,
    /// A header of the current and the following files; all of its bytes are present.
    Interface,
    /// The unit is invalid.
    Damaged,
}

impl Cutter {
    /// Cuts a stream into files of at most `limit_bytes`; with `u64::MAX` the stream is neither cut nor changed.
    pub fn new(limit_bytes: u64) -> Self {
        Self {
            limit_bytes,
            layout: Layout::Unknown,
            seen_bytes: 0,
            file_bytes: 0,
            has_units: false,
            repeated: Vec::new(),
            held: Vec::new(),
            left_bytes: 0,
            damaged_at: None,
        }
    }

    /// Processes the next bytes of the stream. Fails with the errors of `out`.
    pub fn feed<E>(&mut self, bytes: &[u8], out: &mut dyn FnMut(Out<'_>) -> Result<(), E>) -> Result<(), E> {
        // In `bytes`, everything before `run` has been passed on, everything before `at` examined.
        let (mut run, mut at) = (0, 0);
        while at < bytes.len() {
            if self.left_bytes > 0 {
                let step = self.left_bytes.min((bytes.len() - at) as u64);
                self.left_bytes -= step;
                at += step as usize;
                continue;
            }
            let look = if self.held.is_empty() { self.look(&bytes[at..]) } else { Look::More(0) };
            if let Look::Packet(unit_bytes) = look {
                if self.begin(unit_bytes) {
                    pass(&bytes[run..at], out)?;
                    self.cut(unit_bytes, out)?;
                    run = at;
                }
                continue;
            }
            // Its first bytes are collected separately.
            pass(&bytes[run..at], out)?;
            at = self.hold(bytes, at, out)?;
            run = at;
        }
        self.seen_bytes += bytes.len() as u64;
        pass(&bytes[run..], out)
    }

    /// Ends the stream: passes on the held bytes.
    pub fn finish<E>(&mut self, out: &mut dyn FnMut(Out<'_>) -> Result<(), E>) -> Result<(), E> {
        let held = std::mem::take(&mut self.held);
        pass(&held, out)
    }

    /// Collects the first bytes of a unit, from `at` on, until it is recognised. Returns the offset up to which it took
    /// bytes.
    fn hold<E>(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        out: &mut dyn FnMut(Out<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        loop {
            let head = std::mem::take(&mut self.held);
            let look = self.look(&head);
            self.held = head;
            let Look::More(wanted) = look else { return self.let_go(&look, at, out).map(|()| at) };
            let more = (wanted - self.held.len()).min(bytes.len() - at);
            if more == 0 {
                return Ok(at);
            }
            self.held.extend_from_slice(&bytes[at..at + more]);
            at += more;
        }
    }

    /// Passes on the held unit, up to `at`, after it was recognised.
    fn let_go<E>(
        &mut self,
        look: &Look,
        at: usize,
        out: &mut dyn FnMut(Out<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut held = std::mem::take(&mut self.held);
        let held_bytes = held.len() as u64;
        match look {
            Look::Head => {
                self.layout = self.layout.after_head();
                self.repeated.clear();
                if self.limit_bytes < u64::MAX && held.starts_with(&SHB.to_le_bytes()) {
                    held[SECTION_LENGTH_AT].fill(0xFF);
                }
                if self.begin(held_bytes) {
                    self.cut(held_bytes, out)?;
                }
                // A file that starts with it does not yet hold a packet.
                self.has_units = self.file_bytes > held_bytes;
                self.repeated.extend_from_slice(&held);
            }
            Look::Interface => {
                let had_units = self.has_units;
                let is_cut = self.begin(held_bytes);
                if is_cut {
                    self.cut(held_bytes, out)?;
                }
                self.has_units = had_units && !is_cut;
                self.repeated.extend_from_slice(&held);
            }
            // The first four bytes showed an unknown format: they may be split between files.
            Look::Packet(_) if self.layout == Layout::Bytes => return self.feed(&held, out),
            Look::Packet(unit_bytes) => {
                if self.begin(*unit_bytes) {
                    self.cut(*unit_bytes, out)?;
                }
            }
            Look::Damaged | Look::More(_) => {
                self.damaged_at = Some(self.seen_bytes + at as u64 - held_bytes);
                self.left_bytes = u64::MAX;
            }
        }
        self.left_bytes = self.left_bytes.saturating_sub(held_bytes);
        pass(&held, out)
    }

    /// Starts a unit of `unit_bytes` bytes; `true` if the file must be cut before it.
    fn begin(&mut self, unit_bytes: u64) -> bool {
        self.left_bytes = unit_bytes;
        // Raises the limit for files that would consist mostly of headers.
        let limit_bytes = self.limit_bytes.max(4 * self.repeated.len() as u64);
        let is_cut = self.has_units && self.file_bytes.saturating_add(unit_bytes) > limit_bytes;
        if !is_cut {
            self.file_bytes += unit_bytes;
            self.has_units = true;
        }
        is_cut
    }

    fn cut<E>(&mut self, unit_bytes: u64, out: &mut dyn FnMut(Out<'_>) -> Result<(), E>) -> Result<(), E> {
        self.file_bytes = self.repeated.len() as u64 + unit_bytes;
        self.has_units = true;
        out(Out::Cut(&self.repeated))
    }

    /// Examines the first bytes of a unit.
    #[inline]
    fn look(&mut self, head: &[u8]) -> Look {
        if self.layout == Layout::Unknown {
            let Some(first) = head.first_chunk() else { return Look::More(4) };
            self.layout = layout(*first);
        }
        match self.layout {
            Layout::Pcap { .. } if head.len() < FILE_HEADER_BYTES => Look::More(FILE_HEADER_BYTES),
            Layout::Pcap { .. } => Look::Head,
            Layout::Records { order, header_bytes } => record(head, order, header_bytes),
            Layout::Pcapng { order } => self.block(head, order),
            // Fills the file up to the limit, by at least one byte to ensure progress.
            Layout::Bytes if self.file_bytes >= self.limit_bytes => {
                Look::Packet(self.limit_bytes.clamp(1, 1 << 62))
            }
            Layout::Bytes => Look::Packet((self.limit_bytes - self.file_bytes).min(1 << 62)),
            Layout::Unknown => Look::More(4),
        }
    }

    fn block(&mut self, head: &[u8], mut order: ByteOrder) -> Look {
        let Some((&[k0, k1, k2, k3, l0, l1, l2, l3], rest)) = head.split_first_chunk() else {
            return Look::More(8);
        };
        let kind = order.u32([k0, k1, k2, k3]);
        let is_section = kind == SHB;
        if is_section {
            let Some(magic) = rest.first_chunk() else { return Look::More(12) };
            order = match pcapng::byte_order(*magic) {
                Ok(order) => order,
                Err(_) => return Look::Damaged,
            };
        }
        let bytes = order.u32([l0, l1, l2, l3]);
        let least = if is_section { BLOCK_BYTES_MIN + 16 } else { BLOCK_BYTES_MIN };
        if bytes < least || !bytes.is_multiple_of(4) || bytes > UNIT_BYTES_MAX {
            return Look::Damaged;
        }
        if !is_section && kind != IDB {
            return Look::Packet(u64::from(bytes));
        }
        let repeated = if is_section { 0 } else { self.repeated.len() };
        if repeated + bytes as usize > REPEATED_BYTES_MAX {
            return Look::Damaged;
        }
        if head.len() < bytes as usize {
            return Look::More(bytes as usize);
        }
        self.layout = Layout::Pcapng { order };
        if is_section { Look::Head } else { Look::Interface }
    }
}

impl Layout {
    fn after_head(self) -> Self {
        match self {
            Self::Pcap { order, header_bytes } => Self::Records { order, header_bytes },
            other => other,
        }
    }
}

/// The framing of a stream with these first bytes.
fn layout(first: [u8; 4]) -> Layout {
    if u32::from_le_bytes(first) == SHB {
        return Layout::Pcapng { order: ByteOrder::Little };
    }
    let (order, header_bytes) = match pcap::of_magic(first) {
        Some((order, RecordLayout::Standard, _)) => (order, RECORD_HEADER_BYTES as u64),
        Some((order, RecordLayout::Kuznetzov, _)) => (order, KUZNETZOV_HEADER_BYTES),
        _ => return Layout::Bytes,
    };
    Layout::Pcap { order, header_bytes }
}

fn record(head: &[u8], order: ByteOrder, header_bytes: u64) -> Look {
    let Some(&[.., c0, c1, c2, c3]) = head.first_chunk::<12>() else { return Look::More(12) };
    match order.u32([c0, c1, c2, c3]) {
        captured if captured > UNIT_BYTES_MAX => Look::Damaged,
        captured => Look::Packet(header_bytes + u64::from(captured)),
    }
}

fn pass<E>(bytes: &[u8], out: &mut dyn FnMut(Out<'_>) -> Result<(), E>) -> Result<(), E> {
    if bytes.is_empty() { Ok(()) } else { out(Out::Bytes(bytes)) }
}
