//! Capture files built byte by byte, in either byte order.

#![allow(dead_code, reason = "each test takes what it needs")]

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
