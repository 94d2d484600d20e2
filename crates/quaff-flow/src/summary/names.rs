//! Names of hosts and services: those of lists such as /etc/hosts and /etc/services, and those that packets have, in
//! DNS answers and in the hellos of TLS and QUIC. No name server is asked, and files are read elsewhere.

use crate::record::FlowRecord;
use quaff_wire::application::name_text;
use quaff_wire::net::{TCP, UDP};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// IANA protocol number.
const SCTP: u8 = 132;
/// Addresses of each generation of learned names; there are two generations of each kind.
const LEARNED_MAX: usize = 16_384;

/// Names of hosts and services.
#[derive(Debug, Default)]
pub struct Names {
    hosts: HashMap<IpAddr, Box<str>>,
    services: HashMap<(u8, u16), Box<str>>,
    /// By DNS answers.
    answered: Learned,
    /// By the server names that clients requested.
    requested: Learned,
}

/// Learned names of addresses. When the new generation is full, it replaces the old one.
#[derive(Debug, Default)]
struct Learned {
    new: HashMap<IpAddr, Arc<str>>,
    old: HashMap<IpAddr, Arc<str>>,
}

impl Learned {
    fn learn(&mut self, address: IpAddr, name: &str) {
        self.learn_shared(address, name, || Arc::from(name));
    }

    /// As [`Self::learn`], with the text that is kept.
    fn learn_shared(&mut self, address: IpAddr, name: &str, shared: impl FnOnce() -> Arc<str>) {
        // A long flow has its name in each of its records.
        if self.new.get(&address).is_some_and(|known| **known == *name) {
            return;
        }
        if self.new.len() >= LEARNED_MAX && !self.new.contains_key(&address) {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.insert(address, shared());
    }

    fn get(&self, address: IpAddr) -> Option<&str> {
        self.new.get(&address).or_else(|| self.old.get(&address)).map(|name| &**name)
    }
}

impl Names {
    /// Names of lists in the forms of /etc/hosts and /etc/services; lines of another form are skipped.
    pub fn listed(hosts: &str, services: &str) -> Self {
        let mut names = Self::default();
        for (address, name) in words_of_lines(hosts) {
            if let Ok(address) = address.parse::<IpAddr>() {
                names.hosts.entry(address).or_insert_with(|| name.into());
            }
        }
        for (name, port) in words_of_lines(services) {
            if let Some(port) = service(port) {
                names.services.entry(port).or_insert_with(|| name.into());
            }
        }
        names
    }

    /// Learns the names that a record has.
    pub(super) fn learn(&mut self, record: &FlowRecord) {
        let Some(extras) = record.extras.as_deref() else { return };
        for (address, name) in &extras.addresses {
            self.answered.learn_shared(*address, name, || Arc::clone(name));
        }
        let Some(application) = &extras.application else { return };
        // The host of HTTP may be that of a proxy's request.
        if let ("tls" | "quic", Some(name)) = (application.protocol, &application.server_name) {
            self.requested.learn(record.key.destination, name);
        }
    }

    /// The name of a host: the list's, which no packet can change, then that of DNS, then the one that a client asked
    /// for.
    pub(super) fn host(&self, address: IpAddr) -> Option<&str> {
        let listed = self.hosts.get(&address).map(|name| &**name);
        listed.or_else(|| self.answered.get(address)).or_else(|| self.requested.get(address))
    }

    /// The name of a service by protocol and port.
    pub(super) fn service(&self, protocol: u8, port: u16) -> Option<&str> {
        self.services.get(&(protocol, port)).map(|name| &**name)
    }
}

/// The first two words of each line that has them, the second or the first of which is a name; `#` begins a comment.
fn words_of_lines(list: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = list.lines().map(|line| line.split('#').next().unwrap_or_default());
    let words = lines.filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        Some((words.next()?, words.next()?))
    });
    words.filter(|(one, other)| [one, other].iter().all(|word| name_text(word.as_bytes()).is_some()))
}

/// Protocol and port of a text such as `443/tcp`.
fn service(text: &str) -> Option<(u8, u16)> {
    let (port, protocol) = text.split_once('/')?;
    let protocol = match protocol {
        "tcp" => TCP,
        "udp" => UDP,
        "sctp" => SCTP,
        _ => return None,
    };
    Some((protocol, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from(number).into()
    }

    #[test]
    fn lists_are_read_as_the_system_reads_them() {
        let hosts = "# hosts\n192.0.2.1\trouter gw # the way out\n::1 localhost\n192.0.2.1 second\nbad line\n192.0.2.9\n\
                     192.0.2.3 caf\u{e9}\n";
        let services = "https 443/tcp www\nhttps\t443/udp\ndomain 53/udp\nodd 7/ddp\nlarge 70000/tcp\nnone\n";
        let names = Names::listed(hosts, services);
        assert_eq!(names.host([192, 0, 2, 1].into()), Some("router"));
        assert_eq!(names.host("::1".parse().unwrap()), Some("localhost"));
        assert_eq!((names.hosts.len(), names.services.len()), (2, 3), "{names:?}");
        assert_eq!((names.service(TCP, 443), names.service(UDP, 53)), (Some("https"), Some("domain")));
        assert_eq!(names.service(TCP, 53), None);
    }

    #[test]
    fn learned_names_have_a_limit_and_the_newest_stay() {
        let mut learned = Learned::default();
        let count = 5 * LEARNED_MAX as u32 / 2;
        (0..count).for_each(|number| learned.learn(address(number), &format!("h{number}.example")));
        assert!(learned.new.len() + learned.old.len() <= 2 * LEARNED_MAX);
        assert_eq!(learned.get(address(count - 1)), Some(&*format!("h{}.example", count - 1)));
        assert!(learned.get(address(count - LEARNED_MAX as u32)).is_some());
        assert_eq!(learned.get(address(0)), None);
        learned.learn(address(count - 1), "new.example");
        assert_eq!(learned.get(address(count - 1)), Some("new.example"));
    }
}
