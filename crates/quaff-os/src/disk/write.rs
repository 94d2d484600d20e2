//! One write of a buffer, before and after it.

use crate::mem::Buffer;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// One write: the first `len` bytes of `buffer` to `offset` of `file`.
#[derive(Debug)]
pub struct Write {
    pub file: Arc<File>,
    /// Returned with the result.
    pub buffer: Buffer,
    /// Bytes to write from the start of `buffer`; a multiple of the alignment if the file is O_DIRECT.
    pub len: usize,
    /// Offset in the file.
    pub offset: u64,
}

impl Write {
    /// Returns whether it begins where `before` ends.
    pub(super) fn follows(&self, before: &Self) -> bool {
        Arc::ptr_eq(&self.file, &before.file) && self.offset == before.offset + before.len as u64
    }
}

/// A completed write.
#[derive(Debug)]
pub struct Written {
    pub write: Write,
    /// After an error no later write has been started.
    pub result: io::Result<()>,
}
