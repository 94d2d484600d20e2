//! What stands between two ends of a lab: bridges, and programs that see each frame of an interface
//! (tc-bpf(8), `clsact`).

use super::change::on;
use super::{NAME_BYTES_MAX, Rtnl};
use crate::bpf::Program;
use crate::{Error, Result};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoBridge, InfoData, InfoKind, LinkAttribute, LinkInfo, LinkMessage};
use netlink_packet_route::tc::{TcAttribute, TcBpfFlags, TcFilterBpfOption, TcHandle, TcMessage, TcOption};
use std::os::fd::{AsFd, AsRawFd};

/// Where a program sees the frames of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// As they come in.
    Ingress,
    /// As they leave.
    Egress,
}

/// The first and only filter of its hook (`tcm_info`: priority, and `ETH_P_ALL` in network order).
const INFO: u32 = 1 << 16 | (libc::ETH_P_ALL as u16).to_be() as u32;

impl Rtnl {
    /// Makes a bridge, down, without ports, that sends nothing of its own.
    ///
    /// # Errors
    /// `EEXIST` when the name is taken; `EOPNOTSUPP` on a kernel without bridges.
    pub fn create_bridge(&mut self, name: &str) -> Result<()> {
        let tried = format!("create the bridge {name}");
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Error::new(tried, super::errno(libc::EINVAL)));
        }
        // With snooping it would join a multicast group of its own, and say so.
        let quiet = InfoData::Bridge(vec![InfoBridge::MulticastSnooping(false)]);
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(name.to_owned()),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge), LinkInfo::Data(quiet)]),
        ];
        self.socket.change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL, &tried)
    }

    /// Makes interface `index` a port of bridge `bridge`.
    pub fn set_bridge(&mut self, index: u32, bridge: u32) -> Result<()> {
        let mut message = on(index);
        message.attributes.push(LinkAttribute::Controller(bridge));
        let tried = format!("make interface {index} a port of bridge {bridge}");
        self.socket.change(RouteNetlinkMessage::SetLink(message), 0, &tried)
    }

    /// Has interface `index` ask programs what becomes of its frames (the queueing discipline `clsact`).
    pub fn add_clsact(&mut self, index: u32) -> Result<()> {
        let mut message = tc(index);
        message.header.handle = TcHandle { major: u16::MAX, minor: 0 };
        message.header.parent = TcHandle::CLSACT;
        message.attributes = vec![TcAttribute::Kind("clsact".into())];
        let request = RouteNetlinkMessage::NewQueueDiscipline(message);
        let tried = format!("add the queueing discipline clsact to interface {index}");
        self.socket.change(request, NLM_F_CREATE | NLM_F_EXCL, &tried)
    }

    /// Has `program` ([`Program::load_tc`]) decide at `hook` of an interface that has
    /// [`clsact`](Self::add_clsact). It stays there when its descriptor is closed.
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
        let tried = format!("attach a program to interface {index}");
        self.socket.change(request, NLM_F_CREATE | NLM_F_EXCL, &tried)
    }
}

fn tc(index: u32) -> TcMessage {
    let mut message = TcMessage::default();
    message.header.index = index as i32;
    message
}
