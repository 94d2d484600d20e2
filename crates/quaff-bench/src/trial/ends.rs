//! The two ends of a direction: sockets in the namespaces of the interfaces, and the prepared frames.
//!
//! Frames carry unused hardware addresses, derived from those of the interfaces: the receiving machine never answers or
//! routes them, and its stack drops them at once. A switch on the path learns their ports from the frames of the other
//! direction, or from a learning frame (RFC 2544 §23 b); a router asks for them by ARP (`arp_responder`).

use super::arp_responder::{ArpResponder, Host};
use super::error::TrialError;
use super::filter;
use super::plan::{Direction, PathEnd, PlanError, Route, StreamPlan, TrialPlan, tag};
use quaff::LaneGauges;
use quaff::source::{AfPacket, Group, Links, Opening};
use quaff_os::ethtool::Card;
use quaff_os::packet::{RingPlan, TimeSource};
use quaff_os::rtnl::Link;
use quaff_os::{Netns, Stop, Wakeup};
use quaff_send::{Transmitter, TxBackend, usable_link};
use quaff_wire::net::{ETHERNET_BYTES, TAG_BYTES};
use quaff_wire::probe::{OuterHeaders, ProbeFrame, TrialHeader};
use std::net::Ipv4Addr;

/// Block size of the meter's ring, bytes.
const BLOCK_BYTES: usize = 128 << 10;
/// Number of blocks of the ring: 8 to 64 MiB.
const BLOCKS: std::ops::RangeInclusive<usize> = 64..=512;
/// Traffic that the ring holds, s: a machine with two cores is sometimes busy.
const RING_S: f64 = 0.25;
/// Ring bytes per frame in addition to the frame's own.
const RING_FRAME_BYTES: f64 = 96.0;
/// Assumed maximum rate of an unpaced stream, frames/s.
const PPS_UNPACED: f64 = 1e6;
/// Block timeout, ms: a shorter one gains nothing, since timestamps are the kernel's, and some kernels count in
/// jiffies.
const RETIRE_MS: u32 = 8;
/// Addresses reserved for benchmarks (RFC 2544 appendix C.2.2).
const IPS: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2)];

/// Both ends of a direction, open: the meter's ring is filling.
pub(super) struct Ends {
    pub(super) tx: Transmitter,
    pub(super) source: AfPacket,
    /// For each stream one frame of each size.
    pub(super) frames: Vec<Vec<ProbeFrame<TrialHeader>>>,
    /// Empty if switches learn from the frames of the other direction.
    pub(super) responders: Vec<ArpResponder>,
}

impl Ends {
    /// Opens both ends, and finds the addresses of the frames.
    pub(super) fn open(plan: &TrialPlan, direction: &Direction) -> Result<Self, TrialError> {
        let tx = within(&direction.from, || open_tx(direction))?;
        let (rx_link, source) = within(&direction.to, || open_rx(plan, direction))?;
        let mut macs = [invented(tx.link.mac), invented(rx_link.mac)];
        let is_back = |other: &Direction| other.from == direction.to && other.to == direction.from;
        let streams = &direction.streams;
        let mut responders = Vec::new();
        if let Some(Route { src_ip, dst_ip, next_hop, last_hop }) = direction.route {
            for (end, link, host) in [
                (&direction.to, &rx_link, Host { mac: macs[1], ip: dst_ip, gateway: last_hop }),
                (&direction.from, &tx.link, Host { mac: macs[0], ip: src_ip, gateway: next_hop }),
            ] {
                let (responder, gateway_mac) = within(end, || ArpResponder::of_host(link, host, streams))?;
                responders.push(responder);
                // The sending end is resolved last: its router receives the frames.
                macs[1] = gateway_mac;
            }
        } else if !plan.directions.iter().any(is_back) {
            responders.push(within(&direction.to, || ArpResponder::of_switches(&rx_link, macs, streams))?);
        }
        let ips = direction.route.map_or(IPS, |route| [route.src_ip, route.dst_ip]);
        let frames = streams.iter().map(|stream| frames(stream, macs, ips)).collect::<Result<_, _>>()?;
        Ok(Self { tx, source, frames, responders })
    }
}

/// Runs `work` in the namespace of an end.
fn within<T: Send>(
    end: &PathEnd,
    work: impl FnOnce() -> Result<T, TrialError> + Send,
) -> Result<T, TrialError> {
    match &end.netns {
        None => work(),
        Some(name) => Netns::open(name)?.run(work)?,
    }
}

fn open_tx(direction: &Direction) -> Result<Transmitter, TrialError> {
    let link = usable_link(&direction.from.interface, true)?;
    let needed = direction.streams.iter().map(needed_mtu).max().unwrap_or(0);
    if needed > link.mtu {
        let bytes = direction.streams.iter().flat_map(|stream| &stream.sizes).copied().max().unwrap_or(0);
        return Err(PlanError::Mtu { interface: link.name, bytes, mtu: link.mtu, needed }.into());
    }
    Ok(Transmitter::open(link, TxBackend::Sendmmsg)?)
}

/// The MTU that a stream needs, which excludes the Ethernet header and one tag.
fn needed_mtu(stream: &StreamPlan) -> u32 {
    let tag_bytes = if stream.vlan.is_some() { TAG_BYTES } else { 0 };
    stream.sizes.iter().max().map_or(0, |bytes| bytes.saturating_sub((ETHERNET_BYTES + tag_bytes) as u32))
}

fn open_rx(plan: &TrialPlan, direction: &Direction) -> Result<(Link, AfPacket), TrialError> {
    let link = usable_link(&direction.to.interface, true)?;
    if plan.hardware_time && !Card::read(&link.name).stamps_all_frames? {
        return Err(TrialError::Clock(link.name));
    }
    let ring = RingPlan {
        block_bytes: BLOCK_BYTES,
        block_count: blocks(&direction.streams),
        retire_ms: RETIRE_MS,
        promiscuous: true,
        filter: filter::program(invented(link.mac)),
        time_source: if plan.hardware_time { TimeSource::Adapter } else { TimeSource::Arrival },
    };
    let opening = Opening {
        link: link.clone(),
        ring: &ring,
        is_filtered: false,
        group: Group::default(),
        number: 0,
        snaplen: u32::MAX,
        stop: Stop::default(),
        links: Links::default(),
        gauges: LaneGauges::default().into(),
        came_ns: 0,
    };
    Ok((link, AfPacket::open(opening, Wakeup::new()?)?))
}

/// Number of blocks for the highest rates of the streams.
fn blocks(streams: &[StreamPlan]) -> usize {
    let bytes_s = |stream: &StreamPlan| {
        let pps = stream.phases.iter().map(|phase| phase.pps.unwrap_or(PPS_UNPACED)).fold(0.0, f64::max);
        let mean_bytes =
            stream.sizes.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / stream.sizes.len() as f64;
        pps.min(PPS_UNPACED) * (mean_bytes + RING_FRAME_BYTES)
    };
    let bytes = streams.iter().map(bytes_s).sum::<f64>() * RING_S;
    ((bytes / BLOCK_BYTES as f64) as usize).clamp(*BLOCKS.start(), *BLOCKS.end())
}

/// A locally administered unicast address that differs from the interface's, and is always the same for it.
fn invented(mut mac: [u8; 6]) -> [u8; 6] {
    mac[0] = (mac[0] | 2) ^ 0x40;
    mac
}

fn frames(
    stream: &StreamPlan,
    [src_mac, dst_mac]: [[u8; 6]; 2],
    [src_ip, dst_ip]: [Ipv4Addr; 2],
) -> Result<Vec<ProbeFrame<TrialHeader>>, TrialError> {
    let headers = OuterHeaders {
        dst_mac,
        src_mac,
        tags: stream.vlan.map(tag).into_iter().collect(),
        src_ip,
        dst_ip,
        stream: stream.id,
    };
    let frame = |bytes: &u32| {
        let wrong = |_| PlanError::Size { id: stream.id, bytes: *bytes };
        ProbeFrame::trial(&headers, stream.dscp, *bytes as usize).map_err(wrong)
    };
    Ok(stream.sizes.iter().map(frame).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Length, Phase};
    use super::*;

    fn stream(sizes: Vec<u32>, pps: Option<f64>) -> StreamPlan {
        let phases = vec![Phase { length: Length::Seconds(1.0), pps }];
        StreamPlan { id: 3, sizes, phases, vlan: Some((100, 5)), dscp: 46 }
    }

    #[test]
    fn an_invented_address_is_unused() {
        for mac in [[0; 6], [2, 0x71, 0x75, 0, 0, 1], [0x3c, 0xec, 0xef, 1, 2, 3], [0x42, 0, 0, 0, 0, 1]] {
            let made = invented(mac);
            assert_eq!((made[0] & 3, &made[1..]), (2, &mac[1..]), "local and unicast");
            assert_ne!(made, mac);
        }
    }

    #[test]
    fn the_ring_fits_the_load() {
        assert_eq!(blocks(&[stream(vec![60], Some(10.0))]), 64);
        assert_eq!(blocks(&[stream(vec![1514], None)]), 512);
        let middle = blocks(&[stream(vec![60, 1000], Some(80_000.0)), stream(vec![60], Some(1000.0))]);
        assert!((80..110).contains(&middle), "{middle}");
    }

    #[test]
    fn frames_carry_tag_and_code_point() {
        let frames = frames(&stream(vec![60, 200], None), [[2; 6], [4; 6]], IPS).unwrap();
        assert_eq!(frames.iter().map(|frame| frame.bytes.len()).collect::<Vec<_>>(), [60, 200]);
        let bytes = &frames[0].bytes;
        assert_eq!(bytes[..12], [4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2]);
        assert_eq!(bytes[12..16], [0x81, 0, 0xa0, 100]);
        assert_eq!(bytes[19], 46 << 2);
        assert_eq!(needed_mtu(&stream(vec![60, 1518], None)), 1500);
    }
}
