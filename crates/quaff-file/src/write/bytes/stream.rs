//! stdout as a stream: a pipe, a device, a terminal, or a file that does not support direct writes. Writes by
//! write(2), and enlarges a pipe.

use super::{ByteSink, FilledBuffer};
use crate::write::descriptor::{FdKind, enlarge, fd_kind, is_closed};
use crate::write::stream::write_some;
use crate::{Error, Result};
use quaff_os::{Buffer, Gauge};
use std::fs::File;
use std::sync::Arc;

/// A sequential output.
pub(super) struct ByteStream {
    out: File,
    kind: FdKind,
    free_buffer: Option<Buffer>,
    written: Arc<Gauge>,
}

impl ByteStream {
    pub(super) fn new(out: File, written: Arc<Gauge>) -> Self {
        enlarge(&out);
        Self { kind: fd_kind(&out), out, free_buffer: None, written }
    }
}

impl ByteSink for ByteStream {
    fn put(&mut self, filled: FilledBuffer) -> Result<()> {
        let mut at = filled.repeated;
        while at < filled.len {
            // Another process may have made the descriptor non-blocking.
            let bytes = write_some(&mut self.out, &filled.buffer[at..filled.len], || Ok(()));
            let bytes = bytes.map_err(|errno| Error::path("write to", "stdout", errno))?;
            at += bytes;
            self.written.set(self.written.get() + bytes as u64);
        }
        self.free_buffer = Some(filled.buffer);
        Ok(())
    }

    fn reap(&mut self) -> Result<Option<Buffer>> {
        Ok(self.free_buffer.take())
    }

    fn idle(&mut self) -> Result<bool> {
        Ok(self.kind == FdKind::File || !is_closed(&self.out))
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    fn describe(&self) -> String {
        match self.kind {
            FdKind::Pipe => "write, a pipe",
            FdKind::File => "write, through the page cache",
            FdKind::Other => "write",
        }
        .to_owned()
    }
}
