//! Traffic control: BPF programs that see each frame of an interface (tc-bpf(8), `clsact`).

use super::Rtnl;
use crate::Result;
use crate::bpf::Program;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcBpfFlags, TcFilterBpfOption, TcHandle, TcMessage, TcOption};
use std::os::fd::{AsFd, AsRawFd};

/// The direction of the frames that a program sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    Ingress,
    Egress,
}

/// `tcm_info` of the only filter of its hook: priority 1, and `ETH_P_ALL` in network byte order.
const INFO: u32 = 1 << 16 | (libc::ETH_P_ALL as u16).to_be() as u32;

impl Rtnl {
    /// Adds the queueing discipline `clsact` to interface `index`, so that programs can be attached.
    pub fn add_clsact(&mut self, index: u32) -> Result<()> {
        let mut message = tc(index);
        message.header.handle = TcHandle { major: u16::MAX, minor: 0 };
        message.header.parent = TcHandle::CLSACT;
        message.attributes = vec![TcAttribute::Kind("clsact".into())];
        let request = RouteNetlinkMessage::NewQueueDiscipline(message);
        let tried = format!("add the queueing discipline clsact to interface {index}");
        self.socket.change(request, NLM_F_CREATE | NLM_F_EXCL, &tried)
    }

    /// Attaches `program` ([`Program::load_tc`]) at `hook` of an interface with [`clsact`](Self::add_clsact). It
    /// stays attached when its descriptor is closed.
    pub fn set_program(&mut self, index: u32, hook: Hook, program: &Program) -> Result<()> {
        let mut message = tc(index);
        let minor = match hook {
            Hook::Ingress => TcHandle::MIN_INGRESS,
            Hook::Egress => TcHandle::MIN_EGRESS,
        };
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
        let request = RouteNetlinkMessage::NewTrafficFilter(message);
        let tried = format!("attach a tc program to interface {index}");
        self.socket.change(request, NLM_F_CREATE | NLM_F_EXCL, &tried)
    }
}

fn tc(index: u32) -> TcMessage {
    let mut message = TcMessage::default();
    message.header.index = index as i32;
    message
}
