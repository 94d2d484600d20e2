//! The protocols whose conversations are listed and followed.

use quaff_wire::net::{TCP, UDP};

/// The protocol of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamProtocol {
    Tcp,
    Udp,
}

impl StreamProtocol {
    /// `tcp`, `udp`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    /// The number in the header of IP.
    pub(super) fn ip_number(self) -> u8 {
        match self {
            Self::Tcp => TCP,
            Self::Udp => UDP,
        }
    }

    /// The index in lists with one entry for each protocol.
    pub(super) fn index(self) -> usize {
        self as usize
    }
}
