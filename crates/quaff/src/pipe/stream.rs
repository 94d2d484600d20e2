//! stdout as a stream: a pipe, a device, a terminal, or a file that does not support direct writes. Writes by
//! write(2), and enlarges a pipe.

use super::descriptor::{FdKind, enlarge, fd_kind, is_closed};
use super::{FilledBuffer, PipeGauges, PipeSink};
use crate::{Error, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use quaff_os::{Buffer, Wakeup};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

/// A sequential output.
pub(super) struct Stream {
    out: File,
    kind: FdKind,
    wakeup: Wakeup,
    free_buffer: Option<Buffer>,
    gauges: Arc<PipeGauges>,
}

impl Stream {
    pub(super) fn new(out: File, wakeup: Wakeup, gauges: Arc<PipeGauges>) -> Self {
        enlarge(&out);
        Self { kind: fd_kind(&out), out, wakeup, free_buffer: None, gauges }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.out.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Another process has made the descriptor non-blocking.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let mut fds = [PollFd::new(self.out.as_fd(), PollFlags::POLLOUT)];
                    poll(&mut fds, PollTimeout::from(250u8))?;
                }
                written => return written,
            }
        }
    }
}

impl PipeSink for Stream {
    fn put(&mut self, filled: FilledBuffer) -> Result<()> {
        let mut at = filled.repeated;
        while at < filled.len {
            let bytes = self.write(&filled.buffer[at..filled.len]);
            let bytes = bytes.map_err(|errno| Error::path("write to", "stdout", errno))?;
            at += bytes;
            self.gauges.written.set(self.gauges.written.get() + bytes as u64);
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

    fn wakeup(&self) -> Wakeup {
        self.wakeup.clone()
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
