//! Route netlink (rtnetlink(7)): lists interfaces, reads their counters, and creates them for the lab; asks for routes.
//!
//! One blocking socket. An [`Rtnl`] refers to the network namespace in which it was opened, whichever thread
//! uses it. This module never interprets names or addresses.

mod address;
mod attribute;
mod change;
mod link;
mod monitor;
mod qdisc;
mod reply;
mod route;
mod socket;
mod suggest;
mod tc;

pub use address::Address;
pub use change::{LinkChange, VethEnd, VethPlan};
pub use link::{Link, LinkStats, LowerLink};
pub use monitor::LinkMonitor;
pub(crate) use qdisc::QdiscDrops;

use crate::{Error, Result};
use netlink_packet_core::DefaultNla;
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::route::{RouteAttribute, RouteMessage};
use netlink_packet_route::tc::{TcHandle, TcMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use qdisc::Qdisc;
use reply::Reply;
use socket::Socket;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The longest name of an interface, without its NUL (`IFNAMSIZ` - 1).
pub const NAME_BYTES_MAX: usize = libc::IFNAMSIZ - 1;
/// `IFLA_ALT_IFNAME` (linux/if_link.h), which netlink-packet-route supports only inside a list.
const IFLA_ALT_IFNAME: u16 = 53;

/// Answers for a destination that is unreachable or prohibited, a black hole, no address of a host, or of a family that
/// the kernel lacks.
const NO_ROUTE: [i32; 6] =
    [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EACCES, libc::EINVAL, libc::EOPNOTSUPP, libc::EAFNOSUPPORT];

/// A route netlink socket of the namespace in which it was opened.
#[derive(Debug)]
pub struct Rtnl {
    socket: Socket,
}

impl Rtnl {
    /// Opens a socket in the calling thread's network namespace.
    pub fn open() -> Result<Self> {
        Ok(Self { socket: Socket::open()? })
    }

    /// All interfaces, by index.
    pub fn links(&mut self) -> Result<Vec<Link>> {
        let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let replies = self.socket.dump(request, "list the network interfaces")?;
        let mut links: Vec<_> = replies.into_iter().filter_map(|reply| reply.link).collect();
        links.sort_by_key(|link| link.index);
        Ok(links)
    }

    /// The IP addresses of all interfaces, by index.
    pub fn addresses(&mut self) -> Result<Vec<Address>> {
        let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let replies = self.socket.dump(request, "list the addresses of interfaces")?;
        let mut addresses: Vec<_> = replies.into_iter().filter_map(|reply| reply.address).collect();
        addresses.sort_by_key(|address| address.index);
        Ok(addresses)
    }

    /// The drops of the queueing disciplines, by the index of their interface.
    pub(crate) fn qdisc_drops(&mut self) -> Result<BTreeMap<u32, QdiscDrops>> {
        Ok(qdisc::drops_by_interface(self.qdiscs()?))
    }

    /// Returns whether interface `index` has the queueing discipline `clsact` or `ingress`.
    pub fn has_ingress(&mut self, index: u32) -> Result<bool> {
        Ok(self.qdiscs()?.iter().any(|qdisc| qdisc.is_ingress_of(index)))
    }

    /// The queueing disciplines of all interfaces.
    fn qdiscs(&mut self) -> Result<Vec<Qdisc>> {
        let request = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
        let replies = self.socket.dump(request, "list the queueing disciplines")?;
        Ok(replies.into_iter().filter_map(|reply| reply.qdisc).collect())
    }

    /// The filters of interface `index` for frames that arrive, then those for frames that leave, by kind and name:
    /// "bpf quaff", "flower".
    pub fn filters(&mut self, index: u32) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for minor in [TcHandle::MIN_INGRESS, TcHandle::MIN_EGRESS] {
            let request = RouteNetlinkMessage::GetTrafficFilter(tc::place(index, minor));
            let replies = self.socket.dump(request, "list the filters of an interface")?;
            found.extend(replies.into_iter().filter_map(|reply| reply.filter?.label()));
        }
        Ok(found)
    }

    /// The next hop on the way to a destination, by the kernel's tables as they are now; `None` if it is on a link of
    /// this machine, or there is no route to it.
    pub fn next_hop(&mut self, destination: IpAddr) -> Result<Option<IpAddr>> {
        let mut message = RouteMessage::default();
        (message.header.address_family, message.header.destination_prefix_length) = match destination {
            IpAddr::V4(_) => (AddressFamily::Inet, 32),
            IpAddr::V6(_) => (AddressFamily::Inet6, 128),
        };
        message.attributes.push(RouteAttribute::Destination(destination.into()));
        let tried = format!("look up the route to {destination}");
        match self.socket.get(RouteNetlinkMessage::GetRoute(message), &tried) {
            Ok(reply) => Ok(reply.route.and_then(|route| route.gateway)),
            Err(error) if NO_ROUTE.contains(&error.raw()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The interface with that name or alternative name.
    ///
    /// # Errors
    /// `ENODEV` for an unknown name; the advice has similar names, or all.
    pub fn link(&mut self, name: &str) -> Result<Link> {
        let mut message = LinkMessage::default();
        message.attributes.push(if name.len() <= NAME_BYTES_MAX {
            LinkAttribute::IfName(name.to_owned())
        } else {
            LinkAttribute::Other(DefaultNla::new(IFLA_ALT_IFNAME, nul_terminated(name)))
        });
        let tried = format!("find the interface {name:?}");
        let asked = if name.is_empty() {
            Err(Error::new(&tried, errno(libc::ENODEV)))
        } else {
            self.get(message, &tried)
        };
        match asked {
            Ok(Reply { link: Some(link), .. }) => Ok(link),
            Ok(_) => Err(Error::new(tried, errno(libc::ENODEV))),
            // An invalid name (too long, with a slash) is an unknown name.
            Err(error) if matches!(error.raw(), libc::ENODEV | libc::EINVAL | libc::ERANGE) => {
                let names = self.links()?.into_iter().map(|link| link.name).collect::<Vec<_>>();
                Err(Error::new(tried, errno(libc::ENODEV)).advise(suggest::advice(name, &names)))
            }
            Err(error) => Err(error),
        }
    }

    /// The counters of interface `index` (`IFLA_STATS64`).
    pub fn stats(&mut self, index: u32) -> Result<LinkStats> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        let tried = format!("read the counters of interface {index}");
        self.get(message, &tried)?.stats.ok_or_else(|| Error::new(tried, errno(libc::ENODATA)))
    }

    fn get(&mut self, message: LinkMessage, tried: &str) -> Result<Reply> {
        self.socket.get(RouteNetlinkMessage::GetLink(message), tried)
    }
}

/// The interface with that name in the calling thread's network namespace; see [`Rtnl::link`].
pub fn link(name: &str) -> Result<Link> {
    Rtnl::open()?.link(name)
}

fn errno(code: i32) -> std::io::Error {
    std::io::Error::from_raw_os_error(code)
}

fn nul_terminated(name: &str) -> Vec<u8> {
    name.bytes().chain([0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_with_its_counters() {
        let lo = link("lo").expect("every namespace has lo");
        assert_eq!((lo.index, lo.arphrd, lo.mac), (1, libc::ARPHRD_LOOPBACK, [0; 6]));
        assert!(Rtnl::open().unwrap().links().expect("a dump").contains(&lo));
        if lo.up {
            let own = Address { index: 1, ip: std::net::Ipv4Addr::LOCALHOST.into(), prefix: 8 };
            assert!(Rtnl::open().unwrap().addresses().expect("a dump").contains(&own));
        }

        let before = Rtnl::open().unwrap().stats(lo.index).expect("counters");
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.send_to(b"one frame", socket.local_addr().expect("bound")).expect("sent");
        let after = Rtnl::open().unwrap().stats(lo.index).expect("counters");
        assert!(
            after.rx_packets > before.rx_packets && after.tx_bytes > before.tx_bytes,
            "{before:?} {after:?}"
        );
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_existing_ones() {
        for name in ["l0", "", "no/such", "far-too-long-for-a-name", &"x".repeat(300)] {
            let error = link(name).expect_err("no such interface");
            assert_eq!(error.raw(), libc::ENODEV, "{error}");
            assert!(error.advice.as_ref().is_some_and(|advice| advice.contains("lo")), "{error}");
        }
    }

    /// This machine may have a default route or none: of its own addresses the answer is known.
    #[test]
    fn own_addresses_are_reached_without_a_next_hop() {
        let mut rtnl = Rtnl::open().unwrap();
        for own in ["127.0.0.1", "::1", "0.0.0.0"] {
            assert_eq!(rtnl.next_hop(own.parse().unwrap()).expect("an answer"), None, "{own}");
        }
        assert!(rtnl.next_hop("192.0.2.1".parse().unwrap()).is_ok());
    }

    #[test]
    fn an_unknown_index_is_an_error() {
        assert_eq!(
            Rtnl::open().unwrap().stats(0x7fff_fff0).expect_err("no such interface").raw(),
            libc::ENODEV
        );
    }
}
