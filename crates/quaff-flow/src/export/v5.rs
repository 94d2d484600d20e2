//! NetFlow v5: fixed records of IPv4, up to 30 per message. IPv6 is counted, but not sent.

use super::element::Value;
use super::message::{Carried, Message};
use super::time_base::{Stamp, Uptime};
use super::value::{Datum, EndRoutes, FlowSide, Route, Scene, View, input_index, read};
use std::collections::VecDeque;
use std::net::IpAddr;

const HEADER_BYTES: usize = 24;
const RECORD_BYTES: usize = 48;
/// Maximum records per message.
const RECORDS_MAX: usize = 30;
/// Largest interval of sampling: the field has 14 bits, after the two of the mode.
pub(crate) const SAMPLING_MAX: u32 = 0x3fff;
/// Replaces an AS number of 32 bits (RFC 6793).
const AS_TRANS: u16 = 23456;

/// Encodes flows as messages of NetFlow v5.
#[derive(Debug)]
pub(crate) struct Encoder {
    uptime: Uptime,
    records_max: usize,
    open: Vec<u8>,
    carried: Carried,
    pub(crate) ready: VecDeque<Message>,
}

impl Encoder {
    /// An encoder for messages of at most `bytes_max`.
    pub(crate) fn new(boot_ns: u64, bytes_max: usize) -> Self {
        let (open, ready) = (Vec::new(), VecDeque::new());
        let uptime = Uptime::new(boot_ns);
        let mut encoder = Self { uptime, records_max: RECORDS_MAX, open, carried: Carried::default(), ready };
        encoder.limit(bytes_max);
        encoder
    }

    /// Limits messages to `bytes_max`.
    pub(crate) fn limit(&mut self, bytes_max: usize) {
        self.records_max = (bytes_max.saturating_sub(HEADER_BYTES) / RECORD_BYTES).clamp(1, RECORDS_MAX);
    }

    /// Appends a flow; `false` for IPv6 and for times after 2106, which the format cannot carry. Beyond 2^32 - 1
    /// packets or bytes a flow becomes several records of equal shares.
    pub(crate) fn push(&mut self, view: View<'_>, scene: &Scene, now_ns: u64) -> bool {
        let (IpAddr::V4(_), IpAddr::V4(_)) = (view.source(), view.destination()) else { return false };
        if !Uptime::takes(view.times(FlowSide::Forward).unwrap_or_default().1) {
            return false;
        }
        let (packets, bytes) = view.count(FlowSide::Forward);
        let shares = packets.max(bytes).div_ceil(u64::from(u32::MAX)).max(1);
        let share = |whole: u64, at: u64| whole / shares + u64::from(at < whole % shares);
        for at in 0..shares {
            let count = (share(packets, at) as u32, share(bytes, at) as u32);
            self.push_share(view, scene, now_ns, count);
        }
        true
    }

    fn push_share(&mut self, view: View<'_>, scene: &Scene, now_ns: u64, (packets, bytes): (u32, u32)) {
        let (first_ns, last_ns) = view.times(FlowSide::Forward).unwrap_or_default();
        if !self.uptime.holds(first_ns, last_ns) {
            self.flush(scene, now_ns);
            self.uptime = Uptime::moved_to(first_ns);
        }
        if self.open.is_empty() {
            self.open.reserve(HEADER_BYTES + self.records_max * RECORD_BYTES);
            self.open.resize(HEADER_BYTES, 0);
        }
        self.append(view, scene, (packets, bytes), (first_ns, last_ns));
        self.carried += Carried { records: 1, packets: packets.into(), bytes: bytes.into() };
        if self.carried.records as usize >= self.records_max {
            self.flush(scene, now_ns);
        }
    }

    fn append(
        &mut self,
        view: View<'_>,
        scene: &Scene,
        (packets, bytes): (u32, u32),
        (first_ns, last_ns): (u64, u64),
    ) {
        let routes = EndRoutes::default();
        let number = |value| match read(value, FlowSide::Forward, view, scene, &routes, true) {
            Datum::Number(number) => number,
            _ => 0,
        };
        let since_boot = |ns: u64| self.uptime.since(ns).to_be_bytes();
        let to_as = |route: Route| u16::try_from(route.autonomous_system).unwrap_or(AS_TRANS).to_be_bytes();
        // 0 is unknown: the largest number would be another interface.
        let index = |index: u32| u16::try_from(index).unwrap_or(0).to_be_bytes();
        let next_hop = match read(Value::NextHop, FlowSide::Forward, view, scene, &routes, true) {
            Datum::Ip(IpAddr::V4(hop)) => hop.octets(),
            _ => [0; 4],
        };
        let (from, to) = (routes.source(view, scene), routes.destination(view, scene));
        let [source, destination] = [view.source(), view.destination()].map(|address| match address {
            IpAddr::V4(address) => address.octets(),
            IpAddr::V6(_) => [0; 4],
        });
        let flags = number(Value::TcpFlags) as u8;
        let port = number(Value::DestinationPort) as u16;
        let record = [
            &source[..],
            &destination,
            &next_hop,
            &index(input_index(view.record.key.interface, scene)),
            &index(scene.output_index),
            &packets.to_be_bytes(),
            &bytes.to_be_bytes(),
            &since_boot(first_ns),
            &since_boot(last_ns),
            &view.source_port().to_be_bytes(),
            &port.to_be_bytes(),
            &[0, flags, view.record.key.protocol, number(Value::ServiceClass) as u8],
            &to_as(from),
            &to_as(to),
            &[from.prefix_bits, to.prefix_bits, 0, 0],
        ];
        for part in record {
            self.open.extend(part);
        }
    }

    /// Completes the open message.
    pub(crate) fn flush(&mut self, scene: &Scene, now_ns: u64) {
        if self.carried.records == 0 {
            return;
        }
        let stamp = Stamp { now_ns, uptime: self.uptime };
        let time_ms = stamp.uptime.header_ms(now_ns);
        let sampling = match scene.sampling.algorithm {
            0 => 0,
            mode => u16::from(mode) << 14 | scene.sampling.interval.min(SAMPLING_MAX) as u16,
        };
        let header = [
            &5_u16.to_be_bytes()[..],
            &(self.carried.records as u16).to_be_bytes(),
            &((time_ms - stamp.uptime.boot_ms) as u32).to_be_bytes(),
            &((time_ms / 1000) as u32).to_be_bytes(),
            &((time_ms % 1000 * 1_000_000) as u32).to_be_bytes(),
            // The sequence number, which the session writes.
            &[0; 4],
            &[scene.engine_type, scene.engine_id],
            &sampling.to_be_bytes(),
        ]
        .concat();
        self.open[..HEADER_BYTES].copy_from_slice(&header);
        let carried = std::mem::take(&mut self.carried);
        let bytes = std::mem::take(&mut self.open);
        let units = carried.records as u32;
        self.ready.push_back(Message { bytes, units, carried, has_templates: false });
    }
}
