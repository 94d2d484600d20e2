//! Messages of traffic control: BPF programs that see each frame of an interface (tc-bpf(8), `clsact`).

use crate::bpf::Program;
use netlink_packet_route::tc::{TcAttribute, TcBpfFlags, TcFilterBpfOption, TcHandle, TcMessage, TcOption};
use std::os::fd::{AsFd, AsRawFd};

/// `tcm_info` of the only filter of its hook: priority 1, and `ETH_P_ALL` in network byte order.
const INFO: u32 = 1 << 16 | (libc::ETH_P_ALL as u16).to_be() as u32;

/// The queueing discipline `clsact`.
pub(super) fn clsact(index: u32) -> TcMessage {
    let mut message = tc(index);
    message.header.handle = TcHandle { major: u16::MAX, minor: 0 };
    message.header.parent = TcHandle::CLSACT;
    message.attributes = vec![TcAttribute::Kind("clsact".into())];
    message
}

/// A program of an interface with `clsact`; `minor` is `TcHandle::MIN_INGRESS` or `MIN_EGRESS`.
pub(super) fn filter(index: u32, minor: u16, program: &Program) -> TcMessage {
    let mut message = tc(index);
    message.header.parent = TcHandle { major: u16::MAX, minor };
    message.header.handle = TcHandle { major: 0, minor: 1 };
    message.header.info = INFO;
    let options = [
        TcFilterBpfOption::ProgFd(program.as_fd().as_raw_fd() as u32),
        TcFilterBpfOption::ProgName("quaff".into()),
        TcFilterBpfOption::Flags(TcBpfFlags::DirectAction),
    ];
    message.attributes = vec![
        TcAttribute::Kind("bpf".into()),
        TcAttribute::Options(options.into_iter().map(TcOption::Bpf).collect()),
    ];
    message
}

fn tc(index: u32) -> TcMessage {
    let mut message = TcMessage::default();
    message.header.index = index as i32;
    message
}
