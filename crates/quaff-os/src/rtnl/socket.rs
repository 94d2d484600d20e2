//! One netlink request and its replies: an acknowledgement, one message, or a dump (netlink(7)).

use super::reply::Reply;
use crate::{Error, Result, Try};
use netlink_packet_core::{
    ErrorMessage, NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NlasIterator,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{SocketAddr, protocols::NETLINK_ROUTE};
use std::io;

/// Larger than any datagram of a dump: the kernel writes at most 32 KiB (`netlink_dump`).
const DATAGRAM_BYTES: usize = 64 << 10;
/// Attempts at a dump during which the interfaces do not change.
const DUMPS_MAX: usize = 8;
/// `NLMSGERR_ATTR_MSG` (linux/netlink.h): the kernel's error message.
const NLMSGERR_ATTR_MSG: u16 = 1;
/// Bytes of `struct nlmsghdr`, which a capped error repeats before its attributes.
const NLMSGHDR_BYTES: usize = 16;

#[derive(Debug)]
pub(super) struct Socket {
    inner: netlink_sys::Socket,
    sequence: u32,
    datagram: Vec<u8>,
}

impl Socket {
    pub(super) fn open() -> Result<Self> {
        let mut inner = netlink_sys::Socket::new(NETLINK_ROUTE).trying(|| "open a route netlink socket")?;
        inner.bind_auto().trying(|| "bind a route netlink socket")?;
        inner.connect(&SocketAddr::new(0, 0)).trying(|| "connect a route netlink socket")?;
        inner.set_cap_ack(true).trying(|| "set NETLINK_CAP_ACK")?;
        inner.set_ext_ack(true).trying(|| "set NETLINK_EXT_ACK")?;
        Ok(Self { inner, sequence: 0, datagram: Vec::with_capacity(DATAGRAM_BYTES) })
    }

    /// Requests a change and waits for the acknowledgement.
    pub(super) fn change(&mut self, request: RouteNetlinkMessage, flags: u16, tried: &str) -> Result<()> {
        self.send(request, NLM_F_ACK | flags, tried)?;
        self.replies(tried, |_, _| {})
    }

    /// Requests one object.
    pub(super) fn get(&mut self, request: RouteNetlinkMessage, tried: &str) -> Result<Reply> {
        self.send(request, NLM_F_ACK, tried)?;
        let mut found = None;
        self.replies(tried, |_, reply| found = Some(reply))?;
        found.ok_or_else(|| unreadable(tried, "an acknowledgement without the object"))
    }

    /// Requests all objects, consistent at one moment.
    pub(super) fn dump(&mut self, request: RouteNetlinkMessage, tried: &str) -> Result<Vec<Reply>> {
        for _ in 0..DUMPS_MAX {
            self.send(request.clone(), NLM_F_DUMP, tried)?;
            let mut found = Vec::new();
            let mut interrupted = false;
            self.replies(tried, |header, reply| {
                interrupted |= header.flags & NLM_F_DUMP_INTR != 0;
                found.push(reply);
            })?;
            if !interrupted {
                return Ok(found);
            }
        }
        Err(Error::new(tried, io::Error::from_raw_os_error(libc::EINTR))
            .advise("the interfaces change too often; try again"))
    }

    fn send(&mut self, request: RouteNetlinkMessage, flags: u16, tried: &str) -> Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = NetlinkMessage::from(request);
        message.header.flags = NLM_F_REQUEST | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.inner.send(&bytes, 0).trying(|| tried)?;
        Ok(())
    }

    /// Passes each reply to the last request to `each`, until an acknowledgement or `NLMSG_DONE`.
    fn replies(&mut self, tried: &str, mut each: impl FnMut(&NetlinkHeader, Reply)) -> Result<()> {
        loop {
            self.receive(tried)?;
            let mut rest = self.datagram.as_slice();
            while !rest.is_empty() {
                let message = NetlinkMessage::<Reply>::deserialize(rest)
                    .map_err(|error| unreadable(tried, &error.to_string()))?;
                let aligned = (message.header.length as usize).next_multiple_of(4);
                rest = rest.get(aligned..).unwrap_or_default();
                if message.header.sequence_number != self.sequence {
                    continue; // a reply to an abandoned request
                }
                match message.payload {
                    NetlinkPayload::InnerMessage(reply) => each(&message.header, reply),
                    NetlinkPayload::Done(done) if done.code == 0 => return Ok(()),
                    NetlinkPayload::Done(done) => {
                        return Err(Error::new(tried, io::Error::from_raw_os_error(-done.code)));
                    }
                    NetlinkPayload::Error(error) if error.code.is_none() => return Ok(()),
                    NetlinkPayload::Error(error) => return Err(refused(tried, &error)),
                    _ => {}
                }
            }
        }
    }

    fn receive(&mut self, tried: &str) -> Result<()> {
        loop {
            self.datagram.clear();
            match self.inner.recv(&mut self.datagram, libc::MSG_TRUNC) {
                Ok(length) if length > self.datagram.len() => {
                    return Err(unreadable(tried, &format!("a reply of {length} bytes")));
                }
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::new(tried, error)),
            }
        }
    }
}

fn refused(tried: &str, error: &ErrorMessage) -> Error {
    let refused = Error::new(tried, error.to_io());
    match kernel_text(&error.header) {
        Some(text) => refused.advise(format!("kernel message: {text}")),
        None if refused.raw() == libc::EPERM => refused.advise("run as root, or grant CAP_NET_ADMIN"),
        None => refused,
    }
}

/// The kernel's message in the attributes of a capped error (`NLM_F_ACK_TLVS`), if any.
fn kernel_text(header: &[u8]) -> Option<String> {
    let attributes = header.get(NLMSGHDR_BYTES..)?;
    NlasIterator::new(attributes)
        .filter_map(std::result::Result::ok)
        .find(|attribute| attribute.kind() == NLMSGERR_ATTR_MSG)
        .map(|attribute| String::from_utf8_lossy(attribute.value()).trim_end_matches('\0').to_owned())
}

fn unreadable(tried: &str, what: &str) -> Error {
    Error::new(tried, io::Error::new(io::ErrorKind::InvalidData, format!("unexpected netlink reply: {what}")))
}
