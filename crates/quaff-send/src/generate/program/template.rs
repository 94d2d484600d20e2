//! The template of a program's frames: constant bytes, offsets of the variable ones, partial checksums. It never emits
//! instructions.

use quaff_wire::checksum;
use quaff_wire::net::{self, TCP, UDP};
use quaff_wire::probe::{MIRROR_BYTES, ProbeFrame, ProbeHeader};
use quaff_wire::synth::{Addresses, Ports, Tuples};
use std::net::IpAddr;

/// A frame whose headers are IPv4 and UDP or TCP.
#[derive(Debug, Clone)]
pub(in crate::generate) struct Template {
    /// The whole frame, with zeros in the fields that the program writes.
    pub(in crate::generate) bytes: Vec<u8>,
    /// Offset of the IP header.
    ip: usize,
    /// Offset of the transport header.
    transport: usize,
    is_tcp: bool,
    /// Offset of the probe header.
    pub(super) stamp: Option<usize>,
    /// Offset of the sequence number of the mirror headers.
    pub(super) mirror_number: Option<usize>,
    pub(super) steps: Vec<Step>,
    /// Number of flows, after which they repeat.
    pub(super) cycle: u64,
    /// Sum of the constant part of the IP header.
    pub(super) ip_base_sum: u16,
    /// Sum of the constant part of the datagram and its pseudo-header.
    pub(super) base_sum: u16,
}

/// A field that varies by flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::generate) struct Step {
    pub(super) offset: usize,
    /// True for an IPv4 address; false for a port.
    pub(super) is_address: bool,
    pub(super) first: u32,
    /// Number of values.
    pub(super) count: u64,
}

impl Template {
    /// Frames of one flow.
    pub(in crate::generate) fn of_frame(frame: &ProbeFrame) -> Option<Self> {
        let inner = if frame.sequence_offset.is_some() { MIRROR_BYTES } else { 0 };
        let mut template = Self::find(frame.bytes.clone(), inner, Some(frame.header_offset))?;
        template.mirror_number = frame.sequence_offset;
        Some(template.summed())
    }

    /// Frames of `cycle` flows in turn, with the probe header at `stamp`; `None` for unsupported frames.
    pub(in crate::generate) fn of_flows(
        bytes: Vec<u8>,
        stamp: Option<usize>,
        tuples: &Tuples,
        cycle: u64,
    ) -> Option<Self> {
        let mut template = Self::find(bytes, 0, stamp)?;
        let (ip, transport) = (template.ip, template.transport);
        template.steps = [
            address_step(&tuples.src, ip + 12)?,
            address_step(&tuples.dst, ip + 16)?,
            port_step(&tuples.src_ports, transport),
            port_step(&tuples.dst_ports, transport + 2),
        ]
        .into_iter()
        .filter(|step| step.count > 1)
        .collect();
        template.cycle = cycle;
        Some(template.summed())
    }

    fn find(bytes: Vec<u8>, inner: usize, stamp: Option<usize>) -> Option<Self> {
        let found = net::layers(bytes.get(inner..)?)?;
        let ip = found.ip.filter(|ip| !ip.is_v6() && matches!(ip.protocol, UDP | TCP))?;
        Some(Self {
            ip: inner + found.ip_offset,
            transport: inner + ip.transport,
            is_tcp: ip.protocol == TCP,
            stamp,
            mirror_number: None,
            steps: Vec::new(),
            cycle: 1,
            ip_base_sum: 0,
            base_sum: 0,
            bytes,
        })
    }

    /// Clears the fields that the program writes, and sums the others.
    fn summed(mut self) -> Self {
        let end = self.datagram_end();
        let clear = |bytes: &mut Vec<u8>, at: usize, len: usize| bytes[at..at + len].fill(0);
        for step in &self.steps {
            clear(&mut self.bytes, step.offset, if step.is_address { 4 } else { 2 });
        }
        let (checksum, seq) = (self.checksum_offset(), self.tcp_seq());
        clear(&mut self.bytes, checksum, 2);
        if let Some(seq) = seq {
            clear(&mut self.bytes, seq, 4);
        }
        if let Some(stamp) = self.stamp {
            clear(&mut self.bytes, stamp, ProbeHeader::LAYOUT.bytes);
        }
        if !self.steps.is_empty() {
            clear(&mut self.bytes, self.ip + 10, 2);
        }
        self.ip_base_sum = checksum::sum(&self.bytes[self.ip..self.transport]);
        let addresses = checksum::sum(&self.bytes[self.ip + 12..self.ip + 20]);
        let length = (end - self.transport) as u32;
        let protocol = u32::from(self.bytes[self.ip + 9]);
        let pseudo = checksum::add(addresses, checksum::sum(&(length + protocol).to_be_bytes()));
        self.base_sum = checksum::add(pseudo, checksum::sum(&self.bytes[self.transport..end]));
        if self.stamp.is_some() {
            self.base_sum = checksum::add(self.base_sum, ProbeHeader::LAYOUT.magic);
        }
        self
    }

    fn datagram_end(&self) -> usize {
        let total = u16::from_be_bytes([self.bytes[self.ip + 2], self.bytes[self.ip + 3]]);
        (self.ip + usize::from(total)).min(self.bytes.len())
    }

    /// The headers, which are rewritten for each frame.
    pub(super) fn headers(&self) -> &[u8] {
        const TCP_BYTES: usize = 20;
        const UDP_BYTES: usize = 8;
        &self.bytes[..self.transport + if self.is_tcp { TCP_BYTES } else { UDP_BYTES }]
    }

    /// Bytes of the headers and the probe header.
    pub(super) fn rewritten_bytes(&self) -> usize {
        self.stamp.map_or(self.headers().len(), |stamp| stamp + ProbeHeader::LAYOUT.bytes)
    }

    pub(super) fn tcp_seq(&self) -> Option<usize> {
        self.is_tcp.then_some(self.transport + 4)
    }

    pub(super) fn checksum_offset(&self) -> usize {
        self.transport + if self.is_tcp { 16 } else { 6 }
    }

    pub(super) fn ip_checksum_offset(&self) -> usize {
        self.ip + 10
    }
}

fn address_step(addresses: &Addresses, offset: usize) -> Option<Step> {
    match addresses.first {
        IpAddr::V4(first) => {
            Some(Step { offset, is_address: true, first: first.to_bits(), count: addresses.count })
        }
        IpAddr::V6(_) => None,
    }
}

fn port_step(ports: &Ports, offset: usize) -> Step {
    Step { offset, is_address: false, first: u32::from(ports.first), count: ports.count }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_wire::probe::OuterHeaders;
    use std::net::Ipv4Addr;

    #[test]
    fn partial_checksums_match_the_frame() {
        let headers = OuterHeaders {
            dst_mac: [2; 6],
            src_mac: [4; 6],
            tags: Vec::new(),
            src_ip: Ipv4Addr::new(198, 18, 0, 1),
            dst_ip: Ipv4Addr::new(198, 18, 0, 2),
            stream: 9,
        };
        for session in [None, Some(3)] {
            let mut frame = ProbeFrame::new(&headers, 99).unwrap();
            if let Some(session) = session {
                frame = frame.mirrored(&headers, session);
            }
            let stamp =
                ProbeHeader { stream: 9, seq: 5, intended_ns: 77, late_ns: 3, last: false, bounded: true };
            frame.set(&stamp);
            let template = Template::of_frame(&frame).expect("a template");
            let at = template.checksum_offset();
            assert_eq!(at, frame.header_offset - 2);
            let sum = checksum::add(template.base_sum, checksum::sum(&stamp.encode()[2..]));
            assert_eq!(frame.bytes[at..at + 2], (!sum).to_be_bytes());
            assert_eq!(template.rewritten_bytes(), frame.header_offset + ProbeHeader::LAYOUT.bytes);
            let ip = template.ip_checksum_offset();
            assert_eq!(template.headers()[ip..ip + 2], frame.bytes[ip..ip + 2], "kept: nothing steps");
        }
    }
}
