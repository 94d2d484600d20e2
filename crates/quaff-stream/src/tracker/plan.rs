//! Limits and rules of a tracker as plain data.

use crate::fragment::FragmentPlan;
use crate::key::Ends;
use crate::plan::StreamPlan;
use crate::policy::PolicyMap;

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
    /// Count the bytes of the TCP connection with this number alone. All are processed, as the numbers depend on it.
    pub number: Option<u64>,
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
        }
    }
}
