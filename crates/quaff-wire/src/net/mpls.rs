//! MPLS labels (RFC 3032). A stack does not name its payload: each reader decides by the payload's first bits.

/// Length of a label stack entry.
pub(crate) const LABEL_BYTES: usize = 4;
/// Maximum number of labels that are followed.
pub(crate) const LABELS_MAX: usize = 16;
/// Reserved labels (RFC 3032, 6790, 5586).
pub(crate) const IPV4_EXPLICIT_NULL: u32 = 0;
pub(crate) const IPV6_EXPLICIT_NULL: u32 = 2;
pub(crate) const ENTROPY_INDICATOR: u32 = 7;
/// Generic Associated Channel label.
pub(crate) const ASSOCIATED_CHANNEL: u32 = 13;

/// An entry of a label stack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Label(u32);

impl Label {
    #[inline]
    pub(crate) fn new(bytes: [u8; LABEL_BYTES]) -> Self {
        Self(u32::from_be_bytes(bytes))
    }

    /// The label value, 20 bits.
    #[inline]
    pub(crate) fn value(self) -> u32 {
        self.0 >> 12
    }

    /// True for the last entry of a stack (S bit).
    #[inline]
    pub(crate) fn is_bottom(self) -> bool {
        self.0 & 0x100 != 0
    }
}

/// Offset after the label stack at the front of `bytes`, and its bottom label; `None` if the stack is truncated or
/// deeper than [`LABELS_MAX`].
pub(crate) fn skip_labels(bytes: &[u8]) -> Option<(usize, Label)> {
    let mut offset = 0;
    for _ in 0..LABELS_MAX {
        let label = Label::new(*bytes.get(offset..)?.first_chunk()?);
        offset += LABEL_BYTES;
        if label.is_bottom() {
            return Some((offset, label));
        }
    }
    None
}

/// Appends a stack of these labels, outermost first, with TTL 64.
pub(crate) fn push_labels(bytes: &mut Vec<u8>, labels: &[u32]) {
    for (at, label) in labels.iter().enumerate() {
        let entry = label << 12 | u32::from(at + 1 == labels.len()) << 8 | 64;
        bytes.extend(entry.to_be_bytes());
    }
}
