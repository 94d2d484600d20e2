//! Keeps the frames whose payload matches a regular expression: what follows the header of TCP or UDP, or
//! otherwise the IP header, or the whole frame without one. Each frame is searched by itself.

use super::Stage;
use crate::batch::{Batch, Frame, Memory};
use crate::pattern::Pattern;
use crate::tally::LaneTally;
use quaff_file::Interfaces;
use quaff_wire::flow::FlowPacket;
use quaff_wire::linktype::ETHERNET;
use quaff_wire::net::TCP;

/// The search stage.
#[derive(Debug)]
pub(crate) struct Search {
    pattern: Pattern,
    interfaces: Interfaces,
    /// The link type of each interface, by number, once a frame of it has occurred.
    linktypes: Vec<Option<u16>>,
}

impl Search {
    /// A stage for the frames of these interfaces.
    pub(crate) fn new(pattern: Pattern, interfaces: Interfaces) -> Self {
        Self { pattern, interfaces, linktypes: Vec::new() }
    }

    fn linktype(&mut self, interface: u16) -> u16 {
        let at = usize::from(interface);
        if self.linktypes.len() <= at {
            self.linktypes.resize(at + 1, None);
        }
        let interfaces = &self.interfaces;
        let find = || interfaces.get(interface).map_or(ETHERNET.linktype, |found| found.linktype);
        *self.linktypes[at].get_or_insert_with(find)
    }

    fn wants(&mut self, frame: &Frame, memory: Memory<'_>) -> bool {
        let linktype = self.linktype(frame.interface);
        self.pattern.is_in(payload(memory.of(frame), frame.wire_len, linktype))
    }
}

/// The payload of a frame.
fn payload(bytes: &[u8], wire_len: u32, linktype: u16) -> &[u8] {
    let Ok(packet) = FlowPacket::read(bytes, wire_len, linktype) else { return bytes };
    let tcp = packet.tcp(bytes);
    if tcp.is_none() && packet.protocol == TCP && !packet.is_later_fragment() {
        return &[]; // Its header is cut.
    }
    let start = packet.payload_at(tcp);
    bytes.get(start as usize..packet.end as usize).unwrap_or_default()
}

impl Stage for Search {
    fn pass(&mut self, batch: &mut Batch<'_>, tally: &mut LaneTally) {
        let memory = Memory { bytes: batch.bytes, scratch: batch.scratch, options: &[], ids: &[] };
        let before = batch.frames.len();
        batch.frames.retain(|frame| self.wants(frame, memory));
        tally.filtered += (before - batch.frames.len()) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::testing::pass_one;
    use quaff_testpackets::{ethernet, ipv4, udp};
    use quaff_wire::pcapng::Interface;

    #[test]
    fn frames_are_kept_by_what_follows_their_headers() {
        let of = |payload: &[u8]| {
            ethernet(
                &[],
                0x0800,
                &ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, &[], &udp(53, 53, payload)),
            )
        };
        let kept = |pattern: &str, bytes: &[u8]| {
            let interfaces = Interfaces::new(vec![Interface { linktype: 1, ..Interface::default() }]);
            let mut stage = Search::new(Pattern::new(pattern).expect("a pattern"), interfaces);
            let (kept, tally) = pass_one(&mut stage, &[Frame::default()], bytes);
            assert_eq!(kept.len() as u64 + tally.filtered, 1);
            kept.len() == 1
        };
        assert!(kept("^hello$", &of(b"hello")) && !kept("^hello$", &of(b"hello ")));
        assert!(!kept(r"\x0a\x00\x00\x01", &of(b"hello")), "addresses are no payload");
        assert!(kept("^\\x00", &[0; 60]), "a frame without IP is searched as a whole");
    }
}
