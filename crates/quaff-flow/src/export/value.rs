//! Reads the values of a record for all wire formats and texts. Encodes nothing.

use super::element::Value;
use crate::plan::Sampling;
use crate::record::{AckTimes, Direction, DirectionExtras, FlowRecord, InitiatorRule};
use quaff_wire::flow::FlowKey;
use std::cell::OnceCell;
use std::net::IpAddr;
use std::sync::Arc;

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// An interface of the input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// The exported number (ifIndex).
    pub index: u32,
    pub name: String,
    pub description: String,
}

/// The route to an address, from a table of the caller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Route {
    /// 0: unknown.
    pub autonomous_system: u32,
    /// Bits of the prefix; 0: unknown.
    pub prefix_bits: u8,
    pub next_hop: Option<IpAddr>,
}

/// Looks up routes; called only for templates with such a field, once for each end of a record.
pub trait Routes: Send + Sync {
    /// Returns the route to this address.
    fn route(&self, address: IpAddr) -> Route;
}

/// Looks up next hops; called only for templates with such a field, and for NetFlow v5.
pub trait NextHops: Send + Sync {
    /// Returns the next hop to this address; `None` if it is unknown, or the address is on a link of this machine.
    fn next_hop(&self, destination: IpAddr) -> Option<IpAddr>;
}

/// The properties of an exporter that are the same for all records.
#[derive(Clone, Default)]
pub struct Scene {
    /// The interfaces, indexed by their number in the input.
    pub interfaces: Vec<Interface>,
    /// Exported as the input interface of every record, instead of its number in the input.
    pub input_index: Option<u32>,
    /// Exported as the output interface of every record; 0: unknown.
    pub output_index: u32,
    pub sampling: SamplingView,
    pub routes: Option<Arc<dyn Routes>>,
    /// Used if `routes` has no next hop.
    pub next_hops: Option<Arc<dyn NextHops>>,
    /// Engine type and ID in NetFlow v5 and in `%ENGINE_TYPE`, `%ENGINE_ID`.
    pub engine_type: u8,
    pub engine_id: u8,
}

impl Scene {
    /// The exported number of an input interface (ingressInterface).
    pub fn input_index(&self, interface: u16) -> u32 {
        input_index(interface, self)
    }

    /// The route to an address; unknown without a table.
    pub fn route(&self, address: IpAddr) -> Route {
        route(address, self)
    }
}

impl std::fmt::Debug for Scene {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scene").field("interfaces", &self.interfaces).finish_non_exhaustive()
    }
}

/// The description of the sampling in exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplingView {
    /// Packets of the input per metered packet.
    pub interval: u32,
    /// samplingAlgorithm (IE 35) and the mode in NetFlow v5: 1 systematic, 2 random.
    pub algorithm: u8,
    /// selectorAlgorithm (IE 304): 1 systematic by count, 4 uniform probabilistic.
    pub selector: u16,
}

impl Default for SamplingView {
    fn default() -> Self {
        Self { interval: 1, algorithm: 0, selector: 0 }
    }
}

impl From<Sampling> for SamplingView {
    fn from(sampling: Sampling) -> Self {
        let (algorithm, selector) = match sampling {
            Sampling::All => (0, 0),
            Sampling::Systematic { .. } => (1, 1),
            Sampling::Random { .. } => (2, 4),
        };
        Self { interval: sampling.interval(), algorithm, selector }
    }
}

/// The direction from which the value of a field is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FlowSide {
    Forward,
    Reverse,
    /// Both directions: the earliest, the latest, the union.
    Both,
}

/// One value, not yet encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Datum<'a> {
    /// The record has no value; encoded as 0 or as an empty string.
    Absent,
    Number(u64),
    /// ns since 1970.
    Time(u64),
    Ip(IpAddr),
    Mac([u8; 6]),
    Bytes(&'a [u8]),
    Text(&'a str),
}

/// A record, seen from the end that is exported as its source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) record: &'a FlowRecord,
    /// The source is the record's destination: the answer of a conversation is exported as a flow of its own.
    pub(crate) is_flipped: bool,
}

impl<'a> View<'a> {
    /// The record as it is.
    pub(crate) fn whole(record: &'a FlowRecord) -> Self {
        Self { record, is_flipped: false }
    }

    /// The directions that have packets, each as a flow of its own.
    pub(crate) fn directions(record: &'a FlowRecord) -> impl Iterator<Item = Self> {
        let views = [false, true].map(|is_flipped| Self { record, is_flipped });
        views.into_iter().filter(|view| view.direction(FlowSide::Forward).packets > 0)
    }

    fn is_reverse(&self, side: FlowSide) -> bool {
        (side == FlowSide::Reverse) != self.is_flipped
    }

    /// The counters of a side; for [`FlowSide::Both`] those of the forward direction.
    pub(crate) fn direction(&self, side: FlowSide) -> &'a Direction {
        if self.is_reverse(side) { &self.record.reverse } else { &self.record.forward }
    }

    fn extras(&self, side: FlowSide) -> Option<&'a DirectionExtras> {
        let extras = self.record.extras.as_deref()?;
        Some(if self.is_reverse(side) { &extras.reverse } else { &extras.forward })
    }

    pub(crate) fn source(&self) -> IpAddr {
        if self.is_flipped { self.record.key.destination } else { self.record.key.source }
    }

    pub(crate) fn destination(&self) -> IpAddr {
        if self.is_flipped { self.record.key.source } else { self.record.key.destination }
    }

    pub(crate) fn source_port(&self) -> u16 {
        if self.is_flipped { self.record.key.destination_port } else { self.record.key.source_port }
    }

    pub(crate) fn destination_port(&self) -> u16 {
        if self.is_flipped { self.record.key.source_port } else { self.record.key.destination_port }
    }

    pub(crate) fn is_icmp(&self) -> bool {
        matches!(self.record.key.protocol, ICMP | ICMPV6)
    }

    /// ICMP type << 8 | code of the source's messages; for an answer, the type that answers the request.
    pub(crate) fn icmp_type_code(&self) -> u16 {
        let code = self.record.key.icmp_type_code;
        if !self.is_flipped {
            return code;
        }
        let answer = match (self.record.key.protocol, code >> 8) {
            (ICMP, 8) => 0,
            (ICMP, kind @ (13 | 15 | 17)) | (ICMPV6, kind @ 128) => kind + 1,
            _ => return code,
        };
        answer << 8
    }

    /// Times of the first and the last packet, of one direction or of both.
    pub(crate) fn times(&self, side: FlowSide) -> Option<(u64, u64)> {
        if side == FlowSide::Both {
            return (self.record.packets() > 0).then(|| (self.record.first_ns(), self.record.last_ns()));
        }
        let direction = self.direction(side);
        (direction.packets > 0).then_some((direction.first_ns, direction.last_ns))
    }

    /// The times for a field. For a piece in which only the destination sent, they are those of both directions: 0
    /// would mean a flow of 1970.
    fn span(&self, side: FlowSide) -> Option<(u64, u64)> {
        self.times(side).or_else(|| self.times(FlowSide::Both).filter(|_| side == FlowSide::Forward))
    }

    /// The packets and bytes of a side.
    pub(crate) fn count(&self, side: FlowSide) -> (u64, u64) {
        if side == FlowSide::Both {
            return (self.record.packets(), self.record.bytes());
        }
        let direction = self.direction(side);
        (direction.packets, direction.bytes)
    }

    fn tos(&self, side: FlowSide) -> u8 {
        let direction = self.direction(side);
        if direction.packets > 0 { direction.tos } else { self.record.key.tos }
    }

    fn fold(&self, side: FlowSide, of: impl Fn(&Direction) -> u8, both: impl Fn(u8, u8) -> u8) -> Datum<'a> {
        let (one, other) = (self.direction(FlowSide::Forward), self.direction(FlowSide::Reverse));
        let value = match side {
            FlowSide::Both if one.packets > 0 && other.packets > 0 => both(of(one), of(other)),
            FlowSide::Both if one.packets > 0 => of(one),
            FlowSide::Both => of(other),
            side => of(self.direction(side)),
        };
        Datum::Number(u64::from(value))
    }

    fn packet_bytes(&self, side: FlowSide, of: impl Fn(&DirectionExtras) -> u32, least: bool) -> Datum<'a> {
        let sides =
            if side == FlowSide::Both { vec![FlowSide::Forward, FlowSide::Reverse] } else { vec![side] };
        let seen = sides.into_iter().filter(|side| self.direction(*side).packets > 0);
        let values = seen.filter_map(|side| self.extras(side)).map(of);
        let value = if least { values.min() } else { values.max() };
        value.map_or(Datum::Absent, |bytes| Datum::Number(u64::from(bytes)))
    }

    fn extra(&self, side: FlowSide, of: impl Fn(&DirectionExtras) -> u64) -> Datum<'a> {
        self.extras(side).map_or(Datum::Absent, |extras| Datum::Number(of(extras)))
    }

    fn round_trip(&self, is_client: bool, divisor: u64) -> Datum<'a> {
        let Some(extras) = &self.record.extras else { return Datum::Absent };
        let client = is_client != self.is_flipped;
        let ns = if client { extras.client_rtt_ns } else { extras.server_rtt_ns };
        ns.map_or(Datum::Absent, |ns| Datum::Number(ns / divisor))
    }

    /// A time to an ACK in µs; absent without a sample.
    fn ack_time(&self, side: FlowSide, of: impl Fn(&AckTimes) -> u64) -> Datum<'a> {
        let times = self.extras(side).map(|extras| extras.ack_times).filter(|times| times.samples > 0);
        times.map_or(Datum::Absent, |times| Datum::Number(of(&times) / 1_000))
    }

    fn application(&self) -> Option<&'a crate::record::Application> {
        self.record.extras.as_deref()?.application.as_ref()
    }

    fn server_name(&self, protocols: &[&str]) -> Datum<'a> {
        let found =
            self.application().filter(|app| protocols.is_empty() || protocols.contains(&app.protocol));
        found.and_then(|app| app.server_name.as_deref()).map_or(Datum::Absent, Datum::Text)
    }

    /// The MAC address of the sender or the receiver, from the first packet of this direction, otherwise of the other
    /// one.
    fn mac(&self, at: usize) -> Datum<'a> {
        let of = |side, at: usize| {
            let seen = self.direction(side).packets > 0;
            self.extras(side).filter(|_| seen).map(|extras| extras.macs[at])
        };
        of(FlowSide::Forward, at).or_else(|| of(FlowSide::Reverse, 1 - at)).map_or(Datum::Absent, Datum::Mac)
    }

    /// The ID of the flow: a hash of its key, so that all its pieces have the same.
    pub(crate) fn flow_id(&self) -> u64 {
        let key = &self.record.key;
        let ends = [(key.source, key.source_port), (key.destination, key.destination_port)];
        let hash = FlowKey::Ports { protocol: key.protocol, ends }.hash(u64::from(key.tunnel));
        hash ^ u64::from(key.inner_vlan) << 32 ^ u64::from(key.vlan) << 16 ^ u64::from(self.is_flipped)
    }

    fn biflow_direction(&self) -> u64 {
        match (self.record.initiator, self.is_flipped) {
            (InitiatorRule::Sender, _) => 0,
            (_, false) => 1,
            (_, true) => 2,
        }
    }
}

/// The routes of both ends of a record, each looked up when the first field needs it.
#[derive(Debug, Default)]
pub(crate) struct EndRoutes {
    source: OnceCell<Route>,
    destination: OnceCell<Route>,
}

impl EndRoutes {
    pub(crate) fn source(&self, view: View<'_>, scene: &Scene) -> Route {
        *self.source.get_or_init(|| route(view.source(), scene))
    }

    pub(crate) fn destination(&self, view: View<'_>, scene: &Scene) -> Route {
        *self.destination.get_or_init(|| route(view.destination(), scene))
    }
}

/// Reads one value, as [`read_common`] does.
pub(crate) fn read<'a>(
    value: Value,
    side: FlowSide,
    view: View<'a>,
    scene: &Scene,
    routes: &EndRoutes,
    icmp_port: bool,
) -> Datum<'a> {
    read_common(value, side, view, scene, routes, icmp_port)
}

/// Reads one value; inlined for callers with a constant `value`. With `icmp_port`, the destination port has the type
/// and code of ICMP; `routes` belongs to this view only.
#[inline(always)]
pub(crate) fn read_common<'a>(
    value: Value,
    side: FlowSide,
    view: View<'a>,
    scene: &Scene,
    routes: &EndRoutes,
    icmp_port: bool,
) -> Datum<'a> {
    let key = &view.record.key;
    let number = |number: u64| Datum::Number(number);
    match value {
        Value::Source => Datum::Ip(view.source()),
        Value::Destination => Datum::Ip(view.destination()),
        Value::SourcePort => number(view.source_port().into()),
        Value::DestinationPort if icmp_port && view.is_icmp() => number(view.icmp_type_code().into()),
        Value::DestinationPort => number(view.destination_port().into()),
        Value::Bytes => number(view.count(side).1),
        Value::Packets => number(view.count(side).0),
        Value::Start => view.span(side).map_or(Datum::Absent, |(first, _)| Datum::Time(first)),
        Value::End => view.span(side).map_or(Datum::Absent, |(_, last)| Datum::Time(last)),
        Value::Duration => {
            view.span(side).map_or(Datum::Absent, |(first, last)| number(last.saturating_sub(first)))
        }
        Value::TcpFlags => view.fold(side, |direction| direction.tcp_flags, |one, other| one | other),
        Value::Protocol => number(key.protocol.into()),
        Value::ServiceClass => number(view.tos(side).into()),
        Value::IpVersion => number(key.ip_version().into()),
        Value::IcmpTypeCode => number(view.icmp_type_code().into()),
        Value::IcmpType => number((view.icmp_type_code() >> 8).into()),
        Value::IcmpCode => number((view.icmp_type_code() & 0xff).into()),
        Value::Vlan => number(key.vlan.into()),
        // Frames with two tags are rare, so texts omit the field for all others.
        Value::InnerVlan if key.inner_vlan == 0 => Datum::Absent,
        Value::InnerVlan => number(key.inner_vlan.into()),
        Value::MplsLabel => number(key.mpls_label.into()),
        Value::Input => number(input_index(key.interface, scene).into()),
        Value::Output => number(scene.output_index.into()),
        Value::MinTtl => view.fold(side, |direction| direction.ttl_min, u8::min),
        Value::MaxTtl => view.fold(side, |direction| direction.ttl_max, u8::max),
        Value::EndReason => number(view.record.end_reason as u64),
        Value::InitiatorRule => number(view.record.initiator as u64),
        Value::Continued => number(u64::from(view.record.is_continued)),
        Value::BiflowDirection => number(view.biflow_direction()),
        Value::FlowDirection => number(0),
        Value::FlowId => number(view.flow_id()),
        Value::Tunnel => number(key.tunnel.into()),
        Value::InitTime => Datum::Absent,
        _ => read_rare(value, side, view, scene, routes),
    }
}

/// True if a value is the same for all records of an address family, on any side.
pub(crate) fn is_of_scene(value: Value, scene: &Scene) -> bool {
    match value {
        Value::IpVersion
        | Value::Output
        | Value::FlowDirection
        | Value::SamplingInterval
        | Value::SamplingAlgorithm
        | Value::EngineType
        | Value::EngineId => true,
        Value::Input => scene.input_index.is_some(),
        Value::SourceAs | Value::DestinationAs | Value::SourcePrefix | Value::DestinationPrefix => {
            scene.routes.is_none()
        }
        Value::NextHop => scene.routes.is_none() && scene.next_hops.is_none(),
        _ => false,
    }
}

/// Reads values that need extras or tables.
fn read_rare<'a>(
    value: Value,
    side: FlowSide,
    view: View<'a>,
    scene: &Scene,
    routes: &EndRoutes,
) -> Datum<'a> {
    match value {
        Value::NextHop => next_hop(routes.destination(view, scene), view, scene),
        Value::SourceAs => Datum::Number(routes.source(view, scene).autonomous_system.into()),
        Value::DestinationAs => Datum::Number(routes.destination(view, scene).autonomous_system.into()),
        Value::SourcePrefix => Datum::Number(routes.source(view, scene).prefix_bits.into()),
        Value::DestinationPrefix => Datum::Number(routes.destination(view, scene).prefix_bits.into()),
        Value::SourceMac => view.mac(0),
        Value::DestinationMac => view.mac(1),
        Value::MinLength => view.packet_bytes(side, |extras| extras.packet_bytes_min, true),
        Value::MaxLength => view.packet_bytes(side, |extras| extras.packet_bytes_max, false),
        Value::Retransmitted => view.extra(side, |extras| extras.retransmitted_packets.into()),
        Value::OutOfOrder => view.extra(side, |extras| extras.out_of_order_packets.into()),
        Value::LostBytes => view.extra(side, |extras| extras.lost_bytes),
        Value::PayloadBytes => view.extra(side, |extras| extras.payload_bytes),
        Value::WindowMax => view.extra(side, |extras| extras.window_max.into()),
        Value::GapMin => view.extra(side, |extras| extras.gap_min_ns),
        Value::GapMax => view.extra(side, |extras| extras.gap_max_ns),
        Value::Payload => match view.extras(side) {
            Some(extras) => Datum::Bytes(&extras.payload),
            None => Datum::Absent,
        },
        Value::ClientLatency => view.round_trip(true, 2_000_000),
        Value::ServerLatency => view.round_trip(false, 2_000_000),
        Value::ClientRoundTrip => view.round_trip(true, 1_000),
        Value::ServerRoundTrip => view.round_trip(false, 1_000),
        Value::AckTimes => view.extra(side, |extras| extras.ack_times.samples.into()),
        Value::AckTimeMin => view.ack_time(side, |times| times.min_ns),
        Value::AckTimeMean => view.ack_time(side, AckTimes::mean_ns),
        Value::AckTimeMax => view.ack_time(side, |times| times.max_ns),
        Value::Alpn => {
            let alpn = view.application().and_then(|app| app.alpn.as_deref());
            alpn.map_or(Datum::Absent, Datum::Text)
        }
        Value::Application => view.application().map_or(Datum::Absent, |app| Datum::Text(app.name)),
        Value::ServerName(protocols) => view.server_name(protocols),
        Value::SamplingInterval => Datum::Number(scene.sampling.interval.into()),
        Value::SamplingAlgorithm => Datum::Number(scene.sampling.algorithm.into()),
        Value::EngineType => Datum::Number(scene.engine_type.into()),
        Value::EngineId => Datum::Number(scene.engine_id.into()),
        _ => Datum::Absent,
    }
}

/// The exported number of an input interface: the kernel's number; 0 for a live interface that appeared later. Files
/// have numbers of their own.
pub(crate) fn input_index(interface: u16, scene: &Scene) -> u32 {
    let listed = || match scene.interfaces.get(usize::from(interface)) {
        Some(interface) => interface.index,
        None if scene.interfaces.is_empty() => interface.into(),
        None => 0,
    };
    scene.input_index.unwrap_or_else(listed)
}

fn route(address: IpAddr, scene: &Scene) -> Route {
    scene.routes.as_ref().map_or_else(Route::default, |routes| routes.route(address))
}

fn next_hop<'a>(route: Route, view: View<'a>, scene: &Scene) -> Datum<'a> {
    let ask = || scene.next_hops.as_ref()?.next_hop(view.destination());
    let hop = route.next_hop.or_else(ask).filter(|hop| hop.is_ipv6() == view.source().is_ipv6());
    hop.map_or(Datum::Absent, Datum::Ip)
}
