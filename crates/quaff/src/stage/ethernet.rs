//! Puts a made Ethernet header in front of bare IP packets, for programs that read nothing else.

use super::Stage;
use crate::batch::{Batch, Frame};
use crate::tally::LaneTally;
use quaff_file::Interfaces;
use quaff_wire::linktype::{self, ETHERNET};
use quaff_wire::net::{ETHERNET_BYTES, header_for_ip};
use quaff_wire::pcapng::Interface;

/// The description of an interface whose frames have a made header.
const DESCRIPTION: &str = "bare IP packets after a made Ethernet header";

/// The stage for packets as they are in files; decapsulation does the same for packets inside tunnels.
#[derive(Debug)]
pub(crate) struct Ethernet {
    interfaces: Interfaces,
    /// For each interface, by number, that of its frames after this stage, once a frame has occurred.
    twins: Vec<Option<Twin>>,
}

/// The interface of frames after this stage.
#[derive(Debug, Clone, Copy)]
enum Twin {
    /// The frames stay as they are.
    Same,
    /// The frames get a header, and this interface.
    Made(u16),
}

impl Ethernet {
    pub(crate) fn new(interfaces: Interfaces) -> Self {
        Self { interfaces, twins: Vec::new() }
    }

    fn twin(&mut self, interface: u16) -> Twin {
        let at = usize::from(interface);
        match self.twins.get(at).copied().flatten() {
            Some(twin) => twin,
            None => self.learn(at),
        }
    }

    #[cold]
    fn learn(&mut self, at: usize) -> Twin {
        let found = self.interfaces.get(at as u16).filter(|of| linktype::is_bare_ip(of.linktype));
        let made = found.and_then(|bare| {
            let description = DESCRIPTION.to_owned();
            self.interfaces.add(Interface { linktype: ETHERNET.linktype, description, ..bare })
        });
        let twin = made.map_or(Twin::Same, Twin::Made);
        self.twins.resize(self.twins.len().max(at + 1), None);
        self.twins[at] = Some(twin);
        twin
    }
}

impl Stage for Ethernet {
    fn pass(&mut self, batch: &mut Batch<'_>, tally: &mut LaneTally) {
        let mut frames = std::mem::take(batch.frames);
        for frame in &mut frames {
            if let Twin::Made(interface) = self.twin(frame.interface) {
                put_ethernet(frame, batch);
                frame.interface = interface;
                tally.ethernet_made += 1;
            }
        }
        *batch.frames = frames;
    }
}

/// Puts a header in front of a bare IP packet, in the scratch.
pub(super) fn put_ethernet(frame: &mut Frame, batch: &mut Batch<'_>) {
    const HEADER_BYTES: u32 = ETHERNET_BYTES as u32;
    let header = header_for_ip(batch.memory().of(frame));
    let (start, from) = (batch.scratch.len(), frame.start as usize..(frame.start + frame.len) as usize);
    batch.scratch.extend(header);
    match frame.flags & Frame::SCRATCH {
        0 => batch.scratch.extend_from_slice(&batch.bytes[from]),
        _ => batch.scratch.extend_from_within(from),
    }
    frame.start = start as u32;
    frame.len += HEADER_BYTES;
    frame.wire_len += HEADER_BYTES;
    frame.flags |= Frame::SCRATCH;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::testing::pass_one;

    #[test]
    fn only_bare_packets_get_a_header() {
        let of = |linktype| Interface { linktype, name: "tun".into(), ..Interface::default() };
        let interfaces = Interfaces::by_first_packet([1, 101, 228, 229, 113].map(of).into());
        let mut stage = Ethernet::new(interfaces.clone());
        for (interface, version, ethertype) in
            [(1, 4, [8, 0]), (2, 4, [8, 0]), (3, 6, [0x86, 0xdd]), (1, 6, [0x86, 0xdd])]
        {
            let packet = vec![version << 4; 40];
            let (frames, tally) = pass_one(&mut stage, &[Frame { interface, ..Frame::default() }], &packet);
            let (frame, bytes) = &frames[0];
            assert_eq!((&bytes[12..14], &bytes[14..]), (&ethertype[..], &packet[..]));
            assert_eq!((frame.len, frame.wire_len, tally.ethernet_made), (54, 54, 1));
            let made = interfaces.get(frame.interface).unwrap();
            assert_eq!((made.linktype, &made.name[..], &made.description[..]), (1, "tun", DESCRIPTION));
        }
        for interface in [0, 4] {
            let (frames, tally) =
                pass_one(&mut stage, &[Frame { interface, ..Frame::default() }], &[0x45; 40]);
            assert_eq!((frames[0].0.interface, frames[0].1.len(), tally.ethernet_made), (interface, 40, 0));
        }
    }
}
