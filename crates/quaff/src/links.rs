//! The link types of a lane's interfaces, by number, as outputs and stages that read headers need them.

use quaff_file::Interfaces;
use quaff_wire::linktype::ETHERNET;

/// The link type of an interface, and where its packets came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) linktype: u16,
    /// The interface; for a session of a tunnel, the one that received it.
    pub(crate) interface: u16,
    /// The number of the session; 0 without one.
    pub(crate) tunnel: u32,
}

/// The links of all interfaces.
pub(crate) struct Links {
    interfaces: Interfaces,
    /// The links by number, once a frame of the interface has occurred.
    known: Vec<Option<Link>>,
}

impl Links {
    pub(crate) fn new(interfaces: Interfaces) -> Self {
        Self { interfaces, known: Vec::new() }
    }

    pub(crate) fn interfaces(&self) -> Interfaces {
        self.interfaces.clone()
    }

    #[inline]
    pub(crate) fn of(&mut self, interface: u16) -> Link {
        match self.known.get(usize::from(interface)) {
            Some(Some(link)) => *link,
            _ => self.learn(interface),
        }
    }

    #[cold]
    fn learn(&mut self, interface: u16) -> Link {
        let found = self.interfaces.get(interface);
        let linktype = found.map_or(ETHERNET.linktype, |interface| interface.linktype);
        let (outermost, session) = self.interfaces.outermost(interface);
        let link = Link { linktype, interface: outermost, tunnel: session.unwrap_or(0) };
        let at = usize::from(interface);
        self.known.resize(self.known.len().max(at + 1), None);
        self.known[at] = Some(link);
        link
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_wire::pcapng::Interface;

    #[test]
    fn packets_of_a_session_came_from_the_interface_around_it() {
        let named = |name: &str| Interface { name: name.to_owned(), linktype: 101, ..Interface::default() };
        let interfaces = Interfaces::new(vec![named("Ethernet 2"), named("eth1")]);
        let session = interfaces.add(named("eth1 vxlan 10.0.0.1 vni 5")).unwrap();
        interfaces.note_session(session, 1, Some(5));
        let inner = interfaces.add(named("eth1 vxlan 10.0.0.1 vni 5 gre 10.0.0.2")).unwrap();
        interfaces.note_session(inner, session, None);
        let mut links = Links::new(interfaces);
        let link = |interface, tunnel| Link { linktype: 101, interface, tunnel };
        assert_eq!(links.of(0), link(0, 0), "the name of an interface means nothing");
        assert_eq!((links.of(session), links.of(inner)), (link(1, 5), link(1, 0)));
    }
}
