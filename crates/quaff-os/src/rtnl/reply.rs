//! One message of the kernel about a link, an address, a route, a queueing discipline or a filter. The types of its
//! payload are parsed in their own files.

use super::address::{self, Address};
use super::link::{self, Link, LinkStats};
use super::qdisc::{self, Qdisc};
use super::route::{self, Route};
use super::tc::{self, Filter};
use netlink_packet_core::{DecodeError, NetlinkDeserializable, NetlinkHeader};

/// One message; all fields are `None` for a message of another type.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) link: Option<Link>,
    pub(super) stats: Option<LinkStats>,
    pub(super) qdisc: Option<Qdisc>,
    pub(super) filter: Option<Filter>,
    pub(super) address: Option<Address>,
    pub(super) route: Option<Route>,
}

impl NetlinkDeserializable for Reply {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        match header.message_type {
            libc::RTM_NEWLINK => {
                let (link, stats) = link::parse(payload)?;
                Ok(Self { link: Some(link), stats, ..Self::default() })
            }
            libc::RTM_NEWQDISC => Ok(Self { qdisc: Some(qdisc::parse(payload)?), ..Self::default() }),
            libc::RTM_NEWTFILTER => Ok(Self { filter: Some(tc::parse(payload)?), ..Self::default() }),
            libc::RTM_NEWADDR => Ok(Self { address: address::parse(payload)?, ..Self::default() }),
            libc::RTM_NEWROUTE => Ok(Self { route: Some(route::parse(payload)?), ..Self::default() }),
            _ => Ok(Self::default()),
        }
    }
}
