//! Counts what taps on an interface get to see, without receiving it.
//!
//! The kernel runs the filter, finds the (minimal) receive buffer full, and counts a drop; nothing
//! is copied. So the count is what any other packet socket on the interface was offered.

use super::{Insn, REJECT_ALL, socket};
use crate::Result;
use std::os::fd::OwnedFd;

/// A packet socket that is only asked for its statistics.
#[derive(Debug)]
pub struct CountingTap {
    fd: OwnedFd,
    total: u64,
}

impl CountingTap {
    /// Counts from now on what arrives on (and leaves from) an interface, and passes `filter`, if any.
    pub fn open(ifindex: u32, name: &str, filter: Option<&[Insn]>) -> Result<Self> {
        let fd = socket::open()?;
        socket::set_receive_buffer_min(&fd)?;
        if let Some(program) = filter {
            socket::attach_filter(&fd, program)?;
        }
        socket::bind(&fd, ifindex, name)?;
        Ok(Self { fd, total: 0 })
    }

    /// All packets so far. Must be called before the kernel's 32 bits overflow: each second will do.
    pub fn read(&mut self) -> Result<u64> {
        self.total += socket::statistics(&self.fd)?.packets;
        Ok(self.total)
    }

    /// Counts nothing new from now on.
    pub fn close(&self) -> Result<()> {
        socket::attach_filter(&self.fd, &[REJECT_ALL])
    }
}
/// Whether a packet socket, a capture for instance, gets to see what arrives on an interface of the
/// calling thread's network namespace. Where that cannot be known: yes.
pub fn has_listener(ifindex: u32) -> bool {
    let Ok(text) = std::fs::read_to_string("/proc/thread-self/net/packet") else { return true };
    text.lines().skip(1).any(|line| listens(line, ifindex))
}

/// A line of packet_seq_show (net/packet/af_packet.c): sk, RefCnt, Type, Proto (hex), Iface (0: all),
/// and R: whether it is hooked in.
fn listens(line: &str, ifindex: u32) -> bool {
    let mut words = line.split_whitespace().skip(3);
    let (proto, iface, running) = (words.next(), words.next(), words.next());
    let iface = iface.and_then(|word| word.parse::<u32>().ok());
    proto != Some("0000") && running == Some("1") && iface.is_none_or(|found| found == 0 || found == ifindex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_is_told_by_the_line() {
        let line = |words: &str| format!("00000000c7d1b0a1 3      3    {words} 0      0      27373 ");
        assert!(listens(&line("0003   2     1"), 2) && listens(&line("0003   0     1"), 2));
        assert!(!listens(&line("0003   3     1"), 2), "another interface");
        assert!(!listens(&line("0000   2     1"), 2), "it only sends");
        assert!(!listens(&line("0003   2     0"), 2), "it is not bound yet");
    }
}
