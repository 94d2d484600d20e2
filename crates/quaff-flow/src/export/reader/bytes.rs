//! Bytes of a file with their place, and the error of a mistake in them.

/// A mistake in a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {what}")]
pub struct IpfixError {
    /// The place of the mistake from the begin of the file.
    pub at: u64,
    pub what: String,
}

pub(super) type Result<T> = std::result::Result<T, IpfixError>;

/// A message, or a part of it, with its place in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a> {
    pub(super) rest: &'a [u8],
    pub(super) at: u64,
}

impl<'a> Bytes<'a> {
    pub(super) fn error(&self, what: impl Into<String>) -> IpfixError {
        IpfixError { at: self.at, what: what.into() }
    }

    pub(super) fn take(&mut self, count: usize, what: &str) -> Result<Self> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(self.error(format!("{what} has {count} bytes, and {} are left", self.rest.len())));
        };
        let part = Bytes { rest: taken, at: self.at };
        (self.rest, self.at) = (rest, self.at + count as u64);
        Ok(part)
    }

    pub(super) fn u16(&mut self, what: &str) -> Result<u16> {
        Ok(number(self.take(2, what)?.rest) as u16)
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(number(self.take(4, what)?.rest) as u32)
    }
}

/// The number in big-endian bytes: in the last eight of them.
pub(super) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
