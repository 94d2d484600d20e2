//! Limits and rules of a tracker as plain data.

use crate::datagram::{Watched, is_same_pair};
use crate::fragment::FragmentPlan;
use crate::key::Ends;
use crate::plan::StreamPlan;
use crate::policy::PolicyMap;
use std::net::IpAddr;

/// Limits and rules of a [`super::Tracker`].
#[derive(Debug, Clone, PartialEq)]
pub struct TrackPlan {
    pub stream: StreamPlan,
    pub fragment: FragmentPlan,
    /// Policies by the receiver's address.
    pub policies: PolicyMap,
    /// Maximum number of connections: 240 bytes each, plus 200 for each direction that has had a hole.
    pub connections_max: u32,
    /// Idle time after which a connection ends, ns.
    pub idle_ns: u64,
    /// The same once both directions have ended, ns: late packets still belong to it.
    pub closed_ns: u64,
    /// Process only packets between these endpoints.
    pub only: Option<Ends>,
    /// Process TCP.
    pub tcp: bool,
    /// Process UDP: [`super::ConnectionSink::datagram`].
    pub udp: bool,
    /// Count the bytes, the cut headers and the incomplete datagrams of the TCP connection with this number alone; of
    /// none with 0. All are processed, as the numbers depend on it.
    pub number: Option<u64>,
    /// The same of UDP conversations.
    pub udp_number: Option<u64>,
}

impl TrackPlan {
    /// False for a fragment of hosts that are not those of [`Self::only`].
    pub(super) fn has_hosts(&self, addresses: [IpAddr; 2]) -> bool {
        self.only.is_none_or(|only| is_same_pair(only.map(|end| end.ip()), addresses))
    }

    /// The hosts whose incomplete datagrams are counted from the start, by the number for a protocol.
    pub(super) fn watched(&self, number: Option<u64>) -> Watched {
        match (number, self.only) {
            (None, _) => Watched::All,
            (Some(1..), Some(only)) => Watched::Hosts(only.map(|end| end.ip())),
            (Some(_), _) => Watched::None,
        }
    }
}

impl Default for TrackPlan {
    /// Defaults for files, which can wait: a hole waits as long as a sender retransmits (120 s, Linux), an acknowledged
    /// one as long as queues and interfaces may differ, an ended connection as long as its ports may not be reused (60
    /// s, Linux), and an idle one as long as a NAT must keep it (RFC 5382).
    fn default() -> Self {
        Self {
            stream: StreamPlan {
                hole_wait_ns: 120_000_000_000,
                ack_wait_ns: 1_000_000_000,
                ..StreamPlan::default()
            },
            fragment: FragmentPlan::default(),
            policies: PolicyMap::default(),
            connections_max: 1 << 18,
            idle_ns: 124 * 60 * 1_000_000_000,
            closed_ns: 60_000_000_000,
            only: None,
            tcp: true,
            udp: false,
            number: None,
            udp_number: None,
        }
    }
}
