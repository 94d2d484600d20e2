//! Overlap policies, and their table: which version of a byte a receiver keeps if two differ, by its operating system
//! and by subnet.
//!
//! A decision depends only on the extents of two segments or fragments as received: the one whose byte is held, and the
//! new one. It never depends on contents.

use quaff_wire::rewrite::Cidr;
use std::net::IpAddr;
use std::str::FromStr;

/// The extent of a segment or fragment as received: offset of its first byte, and offset after its last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// The system whose TCP reassembly is modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StreamPolicy {
    /// The byte that arrived first stays.
    First,
    /// The byte that arrived last replaces it.
    Last,
    #[default]
    Bsd,
    BsdRight,
    /// Linux since 2.4.
    Linux,
    /// Linux up to 2.2.
    OldLinux,
    /// Windows up to 2000 and XP.
    Windows,
    Windows2003,
    /// Windows since Vista.
    WindowsVista,
    Solaris,
    OldSolaris,
    Hpux10,
    Hpux11,
    Irix,
    MacOs,
}

/// The system whose IP reassembly is modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FragmentPolicy {
    /// The byte that arrived first stays.
    First,
    /// The byte that arrived last replaces it.
    Last,
    Bsd,
    BsdRight,
    /// Linux before 4.20.
    OldLinux,
    Windows,
    Solaris,
    /// Linux since 4.20, FreeBSD for IPv6, RFC 5722: a partly overlapping fragment drops its datagram; a fragment whose
    /// bytes are all held is a duplicate.
    #[default]
    Linux,
}

impl StreamPolicy {
    /// All policies, with their names in plans.
    pub const ALL: [(&str, Self); 15] = [
        ("first", Self::First),
        ("last", Self::Last),
        ("bsd", Self::Bsd),
        ("bsd-right", Self::BsdRight),
        ("linux", Self::Linux),
        ("old-linux", Self::OldLinux),
        ("windows", Self::Windows),
        ("windows-2003", Self::Windows2003),
        ("windows-vista", Self::WindowsVista),
        ("solaris", Self::Solaris),
        ("old-solaris", Self::OldSolaris),
        ("hpux10", Self::Hpux10),
        ("hpux11", Self::Hpux11),
        ("irix", Self::Irix),
        ("macos", Self::MacOs),
    ];

    /// True if bytes of the segment `new` replace those of the overlapping segment `old`.
    pub(crate) fn new_wins(self, old: Extent, new: Extent) -> bool {
        use StreamPolicy::*;
        let is_bsd = matches!(self, Bsd | Hpux10 | Irix | Windows | Windows2003 | OldLinux | Linux | MacOs);
        let is_solaris = matches!(self, Solaris | Hpux11);
        if self == Last {
            return true;
        }
        if new.start < old.start {
            return is_bsd || is_solaris && new.end >= old.end;
        }
        if new.start > old.start {
            return is_solaris && new.end > old.end;
        }
        match new.end.cmp(&old.end) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => is_solaris || self == OldLinux,
            std::cmp::Ordering::Greater => is_solaris || matches!(self, OldLinux | Linux),
        }
    }
}

impl FragmentPolicy {
    /// All policies, with their names in plans.
    pub const ALL: [(&str, Self); 8] = [
        ("first", Self::First),
        ("last", Self::Last),
        ("bsd", Self::Bsd),
        ("bsd-right", Self::BsdRight),
        ("old-linux", Self::OldLinux),
        ("windows", Self::Windows),
        ("solaris", Self::Solaris),
        ("linux", Self::Linux),
    ];

    /// True if bytes of the fragment `new` replace those of the overlapping fragment `old`.
    pub(crate) fn new_wins(self, old: Extent, new: Extent) -> bool {
        match self {
            Self::First | Self::Linux => false,
            Self::Last => true,
            Self::Bsd => new.start < old.start,
            Self::BsdRight => old.start <= new.start,
            Self::OldLinux => new.start <= old.start,
            Self::Windows => new.start < old.start && new.end > old.end,
            Self::Solaris => new.start < old.start && new.end >= old.end,
        }
    }
}

/// The policies of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostPolicy {
    pub stream: StreamPolicy,
    pub fragment: FragmentPolicy,
}

impl FromStr for HostPolicy {
    type Err = String;

    /// `STREAM` or `STREAM/FRAGMENT`, such as `windows-vista/windows`. A stream policy alone implies the fragment
    /// policy with the same name, or current Linux if there is none.
    fn from_str(text: &str) -> Result<Self, String> {
        let (stream, fragment) = text.split_once('/').unwrap_or((text, ""));
        let of_stream = StreamPolicy::ALL.iter().find(|(name, _)| *name == stream);
        let of_fragment = FragmentPolicy::ALL.iter().find(|(name, _)| *name == fragment);
        let same_name = FragmentPolicy::ALL.iter().find(|(name, _)| *name == stream);
        match (of_stream, of_fragment, fragment) {
            (Some((_, stream)), Some((_, fragment)), _) => Ok(Self { stream: *stream, fragment: *fragment }),
            (Some((_, stream)), None, "") => {
                let fragment = same_name.map_or(FragmentPolicy::default(), |(_, policy)| *policy);
                Ok(Self { stream: *stream, fragment })
            }
            (None, _, _) => Err(format!("{stream:?} is not a policy: try {}", names(&StreamPolicy::ALL))),
            _ => Err(format!("{fragment:?} is not a policy: try {}", names(&FragmentPolicy::ALL))),
        }
    }
}

fn names<P>(all: &[(&str, P)]) -> String {
    all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Policies by subnet; the longest prefix applies, and of equal networks the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyMap {
    /// Policy of hosts outside all subnets.
    pub default: HostPolicy,
    /// Longest prefix first.
    subnets: Vec<(Cidr, HostPolicy)>,
}

impl PolicyMap {
    /// Creates a map of these subnets.
    pub fn new(default: HostPolicy, mut subnets: Vec<(Cidr, HostPolicy)>) -> Self {
        subnets.sort_by_key(|(subnet, _)| std::cmp::Reverse(subnet.prefix()));
        Self { default, subnets }
    }

    /// The policies of the receiving host, which is the destination of a packet.
    pub fn of(&self, receiver: IpAddr) -> HostPolicy {
        let subnet = self.subnets.iter().find(|(subnet, _)| subnet.contains(receiver));
        subnet.map_or(self.default, |(_, policy)| *policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_counts() {
        let of = |text: &str| text.parse::<HostPolicy>().unwrap();
        let subnets = [("10.0.0.0/8", "windows"), ("10.1.0.0/16", "solaris"), ("::/0", "last/first")];
        let subnets = subnets.map(|(subnet, policy)| (subnet.parse().unwrap(), of(policy)));
        let map = PolicyMap::new(of("linux"), subnets.to_vec());
        let stream_of = |address: &str| map.of(address.parse().unwrap()).stream;
        assert_eq!(stream_of("10.1.2.3"), StreamPolicy::Solaris);
        assert_eq!(stream_of("10.2.2.3"), StreamPolicy::Windows);
        assert_eq!(stream_of("11.2.2.3"), StreamPolicy::Linux);
        let last = HostPolicy { stream: StreamPolicy::Last, fragment: FragmentPolicy::First };
        assert_eq!(map.of("fd00::1".parse().unwrap()), last);
    }

    #[test]
    fn names_are_read_and_others_refused() {
        for (name, stream) in StreamPolicy::ALL {
            assert_eq!(name.parse::<HostPolicy>().unwrap().stream, stream);
        }
        assert_eq!("bsd".parse::<HostPolicy>().unwrap().fragment, FragmentPolicy::Bsd);
        assert_eq!("irix".parse::<HostPolicy>().unwrap().fragment, FragmentPolicy::Linux);
        assert!("plan9".parse::<HostPolicy>().unwrap_err().contains("hpux11"));
        assert!("bsd/plan9".parse::<HostPolicy>().unwrap_err().contains("bsd-right"));
    }
}
