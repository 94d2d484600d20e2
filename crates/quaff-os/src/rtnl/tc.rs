//! Traffic control: BPF programs that see each frame of an interface (tc-bpf(8), `clsact`), the list of them, and the
//! limit of an interface's rate.

use super::attribute::{text, word};
use crate::bpf::Program;
use netlink_packet_core::{DecodeError, NlasIterator};
use netlink_packet_route::tc::{TcAttribute, TcBpfFlags, TcFilterBpfOption, TcHandle, TcMessage, TcOption};
use std::os::fd::{AsFd, AsRawFd};

/// `tcm_info` of the only filter of its hook: priority 1, and `ETH_P_ALL` in network byte order.
const INFO: u32 = 1 << 16 | (libc::ETH_P_ALL as u16).to_be() as u32;

/// Bytes of `struct tcmsg`: family, padding, index, handle, parent, info.
const HEADER_BYTES: usize = 20;
/// `TCA_KIND` and `TCA_OPTIONS`, and in these `TCA_BPF_NAME` (linux/pkt_cls.h).
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_NAME: u16 = 7;
/// The name of programs that have none of their own.
pub(super) const NAME: &str = "quaff";

/// A filter of an interface, as RTM_NEWTFILTER describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    handle: u32,
    kind: String,
    name: String,
}

impl Filter {
    /// Kind and name, "bpf quaff"; `None` for the second mention of a kind, which has no handle: it means the requested
    /// protocol.
    pub(super) fn label(&self) -> Option<String> {
        (self.handle != 0).then(|| format!("{} {}", self.kind, self.name).trim_end().to_owned())
    }
}

/// Parses RTM_NEWTFILTER.
pub(super) fn parse(payload: &[u8]) -> Result<Filter, DecodeError> {
    let (head, attributes) = payload
        .split_at_checked(HEADER_BYTES)
        .ok_or_else(|| DecodeError::buffer_too_small(payload.len(), HEADER_BYTES))?;
    let (mut kind, mut name) = (String::new(), String::new());
    for attribute in NlasIterator::new(attributes) {
        let attribute = attribute?;
        match attribute.kind() {
            TCA_KIND => kind = text(attribute.value()),
            TCA_OPTIONS if kind == "bpf" => {
                let mut options = NlasIterator::new(attribute.value()).flatten();
                name =
                    options.find(|option| option.kind() == TCA_BPF_NAME).map_or(name, |it| text(it.value()));
            }
            _ => {}
        }
    }
    Ok(Filter { handle: word(head, 8), kind, name })
}

/// The queueing discipline `clsact`.
pub(super) fn clsact(index: u32) -> TcMessage {
    let mut message = tc(index);
    message.header.handle = TcHandle { major: u16::MAX, minor: 0 };
    message.header.parent = TcHandle::CLSACT;
    message.attributes = vec![TcAttribute::Kind("clsact".into())];
    message
}

/// A program of an interface with `clsact`; `minor` is `TcHandle::MIN_INGRESS` or `MIN_EGRESS`.
pub(super) fn filter(index: u32, minor: u16, program: &Program, name: &str) -> TcMessage {
    let mut message = own(index, minor);
    let options = [
        TcFilterBpfOption::ProgFd(program.as_fd().as_raw_fd() as u32),
        TcFilterBpfOption::ProgName(name.into()),
        TcFilterBpfOption::Flags(TcBpfFlags::DirectAction),
    ];
    let options = options.into_iter().map(TcOption::Bpf).collect();
    message.attributes.push(TcAttribute::Options(options));
    message
}

/// The place of a program of quaff at a hook of `clsact`.
pub(super) fn own(index: u32, minor: u16) -> TcMessage {
    let mut message = place(index, minor);
    message.header.handle = TcHandle { major: 0, minor: 1 };
    message.header.info = INFO;
    message.attributes = vec![TcAttribute::Kind("bpf".into())];
    message
}

/// All filters of a hook of `clsact`.
pub(super) fn place(index: u32, minor: u16) -> TcMessage {
    let mut message = tc(index);
    message.header.parent = TcHandle { major: u16::MAX, minor };
    message
}

fn tc(index: u32) -> TcMessage {
    let mut message = TcMessage::default();
    message.header.index = index as i32;
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtnl::Rtnl;

    #[test]
    fn a_message_cut_anywhere_never_panics() {
        let mut whole = vec![0u8; HEADER_BYTES];
        whole[8] = 1;
        whole.extend([8, 0, TCA_KIND as u8, 0, b'b', b'p', b'f', 0]);
        whole.extend([
            14,
            0,
            TCA_OPTIONS as u8,
            0x80,
            10,
            0,
            TCA_BPF_NAME as u8,
            0,
            b'q',
            b'u',
            b'a',
            b'f',
            b'f',
            0,
        ]);
        for end in 0..whole.len() {
            let _ = parse(&whole[..end]);
        }
        let Filter { handle, kind, name } = parse(&whole).expect("whole");
        assert_eq!((handle, kind.as_str(), name.as_str()), (1, "bpf", "quaff"));
    }

    #[test]
    fn loopback_has_no_filters() {
        let mut rtnl = Rtnl::open().expect("a socket");
        assert_eq!(rtnl.filters(1).expect("a dump"), [""; 0]);
        assert!(!rtnl.has_ingress(1).expect("a dump"));
    }
}
