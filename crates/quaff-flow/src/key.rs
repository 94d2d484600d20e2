//! The key of a flow in six words, the same for both directions, and its keyed hash.

use crate::plan::KeyPlan;
use crate::record::RecordKey;
use quaff_wire::flow::{FlowPacket, icmp_request, is_icmp, mix};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Shifts in [`Key::labels`]: tunnel 32 bits, MPLS label 20, VLAN id 12.
const TUNNEL: u32 = 32;
const MPLS: u32 = 12;
/// Shifts in [`Key::ports`]: port of the low end, port of the high end, protocol 8 bits, ToS 8, interface 16.
const PORTS: [u32; 2] = [48, 32];
const PROTOCOL: u32 = 24;
const TOS: u32 = 16;

/// The ends of a flow and its labels. In a biflow the lower end is first, in a uniflow the sender.
///
/// Fields that the plan excludes from the comparison have the values of the first packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Key {
    /// Addresses, big-endian; IPv4 in the lower half of the second word.
    addresses: [[u64; 2]; 2],
    labels: u64,
    ports: u64,
}

/// The part of a key that does not fit six words: the IP version, 4 bits, and the inner VLAN ID, 12 bits; 0: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Network(u16);

impl Network {
    const INNER_VLAN: u16 = 0xfff;

    #[inline]
    fn new(packet: &FlowPacket) -> Self {
        let version = if packet.addresses[0].is_ipv6() { 6 } else { 4 };
        Self(version << 12 | packet.inner_vlan)
    }

    /// 4 or 6.
    #[inline]
    pub(crate) fn version(self) -> u16 {
        self.0 >> 12
    }
}

/// The key of a packet, and its sender.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PacketKey {
    pub(crate) key: Key,
    pub(crate) network: Network,
    pub(crate) hash: u32,
    /// The sender is the second end.
    pub(crate) is_from_high: bool,
    /// False for a request of ICMP, true for a reply.
    pub(crate) is_icmp_reply: Option<bool>,
}

impl Key {
    /// The fields of a record; its source is the second end if `is_from_high` is true.
    pub(crate) fn record(&self, network: Network, is_from_high: bool) -> RecordKey {
        let (source, destination) = (usize::from(is_from_high), usize::from(!is_from_high));
        let protocol = self.protocol();
        let port = |end: usize| (self.ports >> PORTS[end]) as u16;
        let is_icmp = is_icmp(protocol);
        RecordKey {
            source: self.address(source, network),
            destination: self.address(destination, network),
            source_port: if is_icmp { 0 } else { port(source) },
            destination_port: if is_icmp { 0 } else { port(destination) },
            protocol,
            icmp_type_code: if is_icmp { port(source) } else { 0 },
            vlan: (self.labels & 0xfff) as u16,
            inner_vlan: network.0 & Network::INNER_VLAN,
            mpls_label: (self.labels >> MPLS & 0xf_ffff) as u32,
            interface: self.ports as u16,
            tos: (self.ports >> TOS) as u8,
            tunnel: (self.labels >> TUNNEL) as u32,
        }
    }

    fn address(&self, end: usize, network: Network) -> IpAddr {
        let [high, low] = self.addresses[end];
        match network.version() {
            6 => Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)).into(),
            _ => Ipv4Addr::from_bits(low as u32).into(),
        }
    }

    /// The ports of the sender and the receiver.
    pub(crate) fn ports(&self, is_from_high: bool) -> [u16; 2] {
        let [low, high] = PORTS.map(|shift| (self.ports >> shift) as u16);
        if is_from_high { [high, low] } else { [low, high] }
    }

    /// True if both ends are equal.
    pub(crate) fn has_equal_ends(&self) -> bool {
        let [one, other] = self.ports(false);
        self.addresses[0] == self.addresses[1] && one == other
    }

    #[inline]
    pub(crate) fn protocol(&self) -> u8 {
        (self.ports >> PROTOCOL) as u8
    }
}

/// A hash of the two addresses of a frame of link type `linktype`, the same for both directions and for all fragments:
/// if it distributes packets to several meters, all packets of a flow reach the same one. `secret` is random, and the
/// same for all packets, so that a sender cannot choose addresses that all fall into one lane. 0 for packets that are
/// in no flow.
#[cfg(test)]
pub(crate) fn address_hash(secret: u64, bytes: &[u8], linktype: u16) -> u64 {
    let Ok(packet) = FlowPacket::read(bytes, bytes.len() as u32, linktype) else { return 0 };
    let [mut one, mut other] = packet.addresses.map(words);
    if other < one {
        std::mem::swap(&mut one, &mut other);
    }
    [one, other].as_flattened().iter().fold(secret, |sum, word| mix(sum, *word))
}

/// Builds, compares and hashes keys with the fields of a plan.
///
/// The hash is NH (Krovetz, UMAC; RFC 4418, section 5.2) over six words and six secret ones, mixed once more down to 32
/// bits. NH of two different keys is equal with a probability of 2^-64, whatever an attacker chooses. The network
/// changes 13 bits of the sum before the mixing, which raises the probability to at most 2^-51.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    labels_mask: u64,
    ports_mask: u64,
    network_mask: u16,
    is_biflow: bool,
    secrets: [u64; 8],
}

impl Keys {
    pub(crate) fn new(plan: KeyPlan, is_biflow: bool, secret: [u64; 2]) -> Self {
        let in_key = |is_in: bool, bits: u64, shift: u32| if is_in { bits << shift } else { 0 };
        let labels_mask = in_key(plan.tunnel, 0xffff_ffff, TUNNEL)
            | in_key(plan.mpls, 0xf_ffff, MPLS)
            | in_key(plan.vlan, 0xfff, 0);
        let ports_mask = 0xffff_ffff << PORTS[1]
            | 0xff << PROTOCOL
            | in_key(plan.tos, 0xff, TOS)
            | in_key(plan.interface, 0xffff, 0);
        let network_mask = if plan.vlan { u16::MAX } else { !Network::INNER_VLAN };
        let secrets = std::array::from_fn(|at| mix(mix(secret[0], at as u64), secret[1]));
        Self { labels_mask, ports_mask, network_mask, is_biflow, secrets }
    }

    /// The key of a packet; `ports` are those of the packet, or of its datagram's first fragment.
    #[inline(always)]
    pub(crate) fn key(&self, packet: &FlowPacket, tunnel: u32, interface: u16) -> PacketKey {
        let (mut ports, mut is_icmp_reply) = (packet.ports.map(u64::from), None);
        // A later fragment whose first one is unknown has no ICMP type.
        if self.is_biflow && is_icmp(packet.protocol) && !packet.is_later_fragment() {
            let request = icmp_request(packet.protocol, packet.ports[0]);
            is_icmp_reply = request.map(|request| request != packet.ports[0]);
            ports = [request.map_or(ports[0], u64::from); 2];
        }
        let addresses = packet.addresses.map(words);
        let is_from_high = self.is_biflow
            && match addresses[0] == addresses[1] {
                true => ports[0] > ports[1],
                false => addresses[0] > addresses[1],
            };
        let (low, high) = (usize::from(is_from_high), usize::from(!is_from_high));
        let labels =
            u64::from(tunnel) << TUNNEL | u64::from(packet.mpls_label) << MPLS | u64::from(packet.vlan);
        let fields =
            u64::from(packet.protocol) << PROTOCOL | u64::from(packet.tos) << TOS | u64::from(interface);
        let key = Key {
            addresses: [addresses[low], addresses[high]],
            labels,
            ports: ports[low] << PORTS[0] | ports[high] << PORTS[1] | fields,
        };
        let network = Network::new(packet);
        PacketKey { key, network, hash: self.hash(&key, network), is_from_high, is_icmp_reply }
    }

    /// True if two networks are the same: equal IP version, and equal inner VLAN if that is in the key.
    #[inline]
    pub(crate) fn same_network(&self, one: Network, other: Network) -> bool {
        (one.0 ^ other.0) & self.network_mask == 0
    }

    /// True if two keys of the same network are of the same flow.
    #[inline]
    pub(crate) fn same(&self, one: &Key, other: &Key) -> bool {
        let labels = (one.labels ^ other.labels) & self.labels_mask;
        let ports = (one.ports ^ other.ports) & self.ports_mask;
        (labels | ports) == 0 && one.addresses == other.addresses
    }

    #[inline]
    pub(crate) fn hash(&self, key: &Key, network: Network) -> u32 {
        let [[a, b], [c, d]] = key.addresses;
        let (e, f) = (key.labels & self.labels_mask, key.ports & self.ports_mask);
        let s = &self.secrets;
        let network = u64::from(network.0 & self.network_mask);
        let pair = |x: u64, y: u64, at: usize| product(x.wrapping_add(s[at]), y.wrapping_add(s[at + 1]));
        let sum = pair(a, b, 0).wrapping_add(pair(c, d, 2)).wrapping_add(pair(e, f, 4));
        let mixed = product(sum as u64 ^ network ^ s[6], ((sum >> 64) as u64).rotate_left(32) ^ s[7]);
        ((mixed >> 64) as u64 ^ mixed as u64) as u32
    }
}

#[inline]
fn product(one: u64, other: u64) -> u128 {
    u128::from(one) * u128::from(other)
}

#[inline]
fn words(address: IpAddr) -> [u64; 2] {
    match address {
        IpAddr::V4(v4) => [0, u64::from(v4.to_bits())],
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            [(bits >> 64) as u64, bits as u64]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(addresses: [IpAddr; 2], ports: [u16; 2], protocol: u8) -> FlowPacket {
        FlowPacket {
            addresses,
            ports,
            protocol,
            tos: 0x10,
            ttl: 64,
            tcp_flags: 0,
            vlan: 7,
            inner_vlan: 8,
            mpls_label: 70_000,
            ip_bytes: 40,
            fragment: None,
            ip_offset: 0,
            transport: 0,
            end: 0,
            room: u32::MAX,
        }
    }

    fn reversed(packet: &FlowPacket) -> FlowPacket {
        let ([a, b], [x, y]) = (packet.addresses, packet.ports);
        FlowPacket { addresses: [b, a], ports: [y, x], ..*packet }
    }

    /// Customers of one service VLAN may use the same addresses; no label may hide the difference.
    #[test]
    fn inner_vlans_are_networks_of_their_own() {
        let keys = Keys::new(KeyPlan::default(), true, [1, 2]);
        let one = packet([[10, 0, 0, 1].into(), [10, 0, 0, 2].into()], [1, 2], 17);
        let of = |inner_vlan, tunnel| keys.key(&FlowPacket { inner_vlan, ..one }, tunnel, 0);
        let hashes: std::collections::BTreeSet<u32> = (0..4096)
            .map(|id| of(id as u16, 4096 - id).hash)
            .chain((0..4096).map(|id| of(id, 0).hash))
            .collect();
        assert!(hashes.len() > 8_180, "{} hashes of 8,192 keys", hashes.len());
        assert!(
            keys.same(&of(1, 0).key, &of(2, 0).key) && !keys.same_network(of(1, 0).network, of(2, 0).network)
        );
        let without = Keys::new(KeyPlan { vlan: false, ..KeyPlan::default() }, true, [1, 2]);
        assert!(without.same_network(of(1, 0).network, of(2, 0).network));
    }

    #[test]
    fn replies_of_icmp_meet_their_request_in_a_biflow_only() {
        let [a, b]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let (request, reply) = (packet([b, a], [0x800; 2], 1), packet([a, b], [0; 2], 1));
        let both = Keys::new(KeyPlan::default(), true, [1, 2]);
        let (one, other) = (both.key(&request, 0, 0), both.key(&reply, 0, 0));
        assert!(both.same(&one.key, &other.key) && one.is_from_high != other.is_from_high);
        assert_eq!(one.key.record(one.network, one.is_from_high).icmp_type_code, 0x800);
        let each = Keys::new(KeyPlan::default(), false, [1, 2]);
        let (one, other) = (each.key(&request, 0, 0), each.key(&reply, 0, 0));
        assert!(!each.same(&one.key, &other.key));
        assert_eq!(other.key.record(other.network, false).icmp_type_code, 0);
    }

    proptest! {
        #[test]
        fn both_directions_have_one_key_and_give_back_their_fields(a: u128, b: u128, is_v6: bool, ports: [u16; 2], tunnel: u32, interface: u16, secret: [u64; 2]) {
            let ip = |bits: u128| if is_v6 { IpAddr::from(bits.to_be_bytes()) } else { Ipv4Addr::from(bits as u32).into() };
            let keys = Keys::new(KeyPlan::default(), true, secret);
            let there = packet([ip(a), ip(b)], ports, 17);
            let (one, other) = (keys.key(&there, tunnel, interface), keys.key(&reversed(&there), tunnel, interface));
            prop_assert_eq!((one.key, one.hash, one.network), (other.key, other.hash, other.network));
            let record = one.key.record(one.network, one.is_from_high);
            prop_assert_eq!([record.source, record.destination], there.addresses);
            prop_assert_eq!([record.source_port, record.destination_port], ports);
            prop_assert_eq!((record.tunnel, record.interface, record.vlan, record.mpls_label, record.tos), (tunnel, interface, 7, 70_000, 0x10));
            prop_assert_eq!((record.inner_vlan, record.ip_version()), (8, if is_v6 { 6 } else { 4 }));
            let back = other.key.record(other.network, other.is_from_high);
            prop_assert_eq!([back.source, back.destination], [ip(b), ip(a)]);
        }

        #[test]
        fn fields_out_of_the_key_change_neither_key_nor_hash(vlan in 0u16..4096, inner_vlan in 0u16..4096, mpls in 0u32..1 << 20, tos: u8, interface: u16, is_in: bool) {
            let plan = KeyPlan { vlan: is_in, mpls: is_in, interface: is_in, tos: is_in, tunnel: is_in };
            let keys = Keys::new(plan, true, [3, 4]);
            let one = packet([[10, 0, 0, 1].into(), [10, 0, 0, 2].into()], [1, 2], 17);
            let other = FlowPacket { vlan, inner_vlan, mpls_label: mpls, tos, ..one };
            let is_equal = (vlan, inner_vlan, mpls, tos, interface) == (7, 8, 70_000, 0x10, 0);
            let (one, other) = (keys.key(&one, 0, 0), keys.key(&other, 0, interface));
            let is_same = keys.same(&one.key, &other.key) && keys.same_network(one.network, other.network);
            prop_assert_eq!(is_same, !is_in || is_equal);
            prop_assert_eq!(one.hash == other.hash, !is_in || is_equal);
        }
    }
}
