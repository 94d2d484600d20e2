//! The evidence of a capture, packet by packet: TCP, sequence numbers of other protocols, and copies.
//!
//! | module | task |
//! |---|---|
//! | `counter` | the numbers of one sender |
//! | `sources` | all senders of a kind, within a limit |
//! | `rtp` | datagrams that may be RTP |
//! | `copies` | packets that the capture contains twice |
//! | `report` | the results as plain data |
//!
//! A missing number was lost between its sender and the file. ERSPAN belongs to the capture's own path, so its numbers
//! are as good as acknowledged data. RTP and other GRE cross networks that lose packets. IPv4 identifications support
//! other evidence, and prove nothing alone. QUIC encrypts its numbers. Memory: 68 MiB for TCP, 2 MiB for the others.

mod copies;
mod counter;
mod report;
mod rtp;
mod sources;

pub use copies::CopyReport;
pub use report::{NumberReport, Numbers, ProofReport};

use crate::key::words;
use crate::loss::{self, LossMeter, LossSums};
use copies::{Copies, Digest};
use counter::{Change, Rules};
use quaff_wire::flow::{FlowPacket, mix};
use quaff_wire::net::UDP;
use quaff_wire::tunnel::GreSequence;
use sources::Sources;
use std::net::IpAddr;

const GRE: u8 = 47;
const QUIC_PORT: u16 = 443;

/// Table sizes for tunnels, RTP sources and pairs of hosts, in sets of four.
const TUNNEL_SETS: usize = 1 << 8;
const RTP_SETS: usize = 1 << 10;
const HOST_SETS: usize = 1 << 11;

const GRE_RULES: Rules = Rules { bits: 32, steps_min: 16, steady: 8, leap_max: 1 << 20 };
const RTP_RULES: Rules = Rules { bits: 16, steps_min: 32, steady: 8, leap_max: 3000 };
const HOST_RULES: Rules = Rules { bits: 16, steps_min: 64, steady: 15, leap_max: 3000 };

/// Packets that are read before the first of them is processed, so that their data are loaded in parallel.
const BATCH: usize = 32;

/// A packet that was read but not yet processed.
#[derive(Debug)]
struct Read {
    time_ns: u64,
    digest: Option<Digest>,
    tcp: Option<loss::Read>,
    numbers: Numbered,
    /// The pair of hosts, and the identification.
    host: Option<(u64, u16)>,
}

/// The number of a packet, with a keyed hash of its sender.
#[derive(Debug)]
enum Numbered {
    Gre(u64, GreSequence),
    Rtp(u64, u16),
    /// One of its ports is that of QUIC.
    Quic,
    None,
}

/// The evidence of meters that have ended.
#[derive(Debug, Clone)]
pub struct ProofSums {
    tcp: LossSums,
    numbers: Numbers,
    copies: CopyReport,
}

impl ProofSums {
    /// Adds the evidence of a meter with other pairs of hosts at the same time.
    pub fn add(&mut self, other: Self) {
        self.tcp.add(&other.tcp);
        self.numbers.add(&other.numbers);
        self.copies.add(other.copies);
    }

    /// The report on all of it.
    pub fn report(self) -> ProofReport {
        let Self { tcp, numbers, copies } = self;
        ProofReport { tcp: tcp.report(), numbers, copies }
    }
}

/// Collects all evidence of a capture.
#[derive(Debug)]
pub struct ProofMeter {
    batch: Vec<Read>,
    tcp: LossMeter,
    copies: Copies,
    erspan: Sources,
    gre: Sources,
    rtp: Sources,
    hosts: Sources,
    quic_packets: u64,
    /// ERSPAN packets with a number.
    erspan_packets: u64,
    has_begun: bool,
    secret: u64,
}

impl ProofMeter {
    /// Creates an empty meter. `secret` keys the hashes of its tables: random, and unknown to the senders of packets.
    pub fn new(secret: u64) -> Self {
        Self {
            batch: Vec::with_capacity(BATCH),
            tcp: LossMeter::new(secret),
            copies: Copies::new(mix(secret, 1)),
            erspan: Sources::new(GRE_RULES, TUNNEL_SETS),
            gre: Sources::new(GRE_RULES, TUNNEL_SETS),
            rtp: Sources::new(RTP_RULES, RTP_SETS),
            hosts: Sources::new(HOST_RULES, HOST_SETS),
            quic_packets: 0,
            erspan_packets: 0,
            has_begun: false,
            secret: mix(secret, 2),
        }
    }

    /// Processes a packet of link type `linktype` with `bytes` captured of `wire_bytes`.
    #[inline]
    pub fn packet(&mut self, bytes: &[u8], wire_bytes: u32, linktype: u16, time_ns: u64, interface: u16) {
        // For a plain packet most fields are known at compile time.
        match FlowPacket::plain(bytes, linktype) {
            Some(packet) => self.read(&packet, bytes, time_ns, interface),
            None => self.walk(bytes, (wire_bytes, linktype), time_ns, interface),
        }
    }

    #[inline(never)]
    fn walk(&mut self, bytes: &[u8], (wire_bytes, linktype): (u32, u16), time_ns: u64, interface: u16) {
        if let Ok(packet) = FlowPacket::walk(bytes, wire_bytes, linktype) {
            self.read(&packet, bytes, time_ns, interface);
        }
    }

    #[inline(always)]
    fn read(&mut self, packet: &FlowPacket, bytes: &[u8], time_ns: u64, interface: u16) {
        if !self.has_begun {
            // Times are relative to the first packet.
            self.tcp.note_numbers(time_ns, 0);
            self.has_begun = true;
        }
        let digest = self.copies.read(packet, bytes, time_ns, interface);
        let tcp = self.tcp.read(packet, bytes, time_ns, interface);
        let is_later = packet.is_later_fragment();
        let numbers = match packet.protocol {
            GRE if !is_later => self.gre(packet, bytes),
            UDP if !is_later => self.udp(packet, bytes),
            _ => Numbered::None,
        };
        let host = if packet.fragment.is_none() { self.identification(packet, bytes) } else { None };
        self.batch.push(Read { time_ns, digest, tcp, numbers, host });
        if self.batch.len() == BATCH {
            self.take_batch();
        }
    }

    /// Processes the packets of the batch in order.
    fn take_batch(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        for Read { tcp, host, .. } in &mut batch {
            tcp.iter_mut().for_each(|tcp| self.tcp.prefetch(tcp));
            host.iter().for_each(|(key, _)| self.hosts.prefetch(*key));
        }
        batch.iter_mut().for_each(|read| self.take(read));
        batch.clear();
        self.batch = batch;
    }

    #[inline]
    fn take(&mut self, read: &mut Read) {
        let Read { time_ns, digest, tcp, numbers, host } = read;
        let time_ns = *time_ns;
        let is_copy = digest.as_ref().is_some_and(|digest| self.copies.is_copy(digest));
        if let Some(tcp) = tcp {
            self.tcp.take(tcp, is_copy);
        }
        if is_copy {
            return;
        }
        match numbers {
            Numbered::Gre(key, header) => self.take_gre(*key, header, time_ns),
            Numbered::Rtp(key, number) => {
                self.rtp.take(*key, (*number).into(), time_ns);
            }
            Numbered::Quic => self.quic_packets += 1,
            Numbered::None => {}
        }
        // Many senders leave it 0, which counts only where a counter wraps.
        if let Some((key, number)) = *host
            && (number != 0 || self.hosts.expects(key, 0))
        {
            self.hosts.take(key, number.into(), time_ns);
        }
    }

    /// Adds drops that the file records at a packet.
    pub fn note_drops(&mut self, time_ns: u64, drops: u64, interface: u16) {
        self.take_batch();
        self.tcp.note_drops(time_ns, drops, interface);
    }

    /// Returns the packets so far whose loss would be seen, and the estimated lost ones, of TCP and of mirrors.
    pub fn so_far(&self) -> [u64; 2] {
        let [segments, lost] = self.tcp.so_far();
        [segments + self.erspan_packets, lost + self.erspan.totals.lost]
    }

    fn gre(&self, packet: &FlowPacket, bytes: &[u8]) -> Numbered {
        let header = bytes.get(packet.transport as usize..packet.end as usize).and_then(GreSequence::read);
        header.map_or(Numbered::None, |header| Numbered::Gre(self.pair(packet, header.id.into()), header))
    }

    fn take_gre(&mut self, key: u64, header: &GreSequence, time_ns: u64) {
        let sources = if header.is_erspan { &mut self.erspan } else { &mut self.gre };
        let change = sources.take(key, header.sequence, time_ns);
        if header.is_erspan {
            self.erspan_packets += 1;
            change.into_iter().for_each(|Change { time_ns, lost }| self.tcp.note_numbers(time_ns, lost));
        }
    }

    fn udp(&self, packet: &FlowPacket, bytes: &[u8]) -> Numbered {
        if packet.ports[0] == QUIC_PORT || packet.ports[1] == QUIC_PORT {
            return Numbered::Quic;
        }
        let Some(rtp) = rtp::read(packet, bytes) else { return Numbered::None };
        let [from, to] = packet.ports.map(u64::from);
        let key = self.pair(packet, from << 48 | to << 32 | u64::from(rtp.source));
        Numbered::Rtp(key, rtp.sequence)
    }

    /// The pair of hosts of an IPv4 packet, and its identification.
    #[inline]
    fn identification(&self, packet: &FlowPacket, bytes: &[u8]) -> Option<(u64, u16)> {
        let at = packet.ip_offset as usize;
        let &[high, low] = bytes.get(at + 4..at + 6).and_then(<[u8]>::first_chunk)?;
        if packet.addresses[0].is_ipv6() {
            return None;
        }
        let key = self.pair(packet, 0);
        self.hosts.prefetch_keys(key);
        Some((key, u16::from_be_bytes([high, low])))
    }

    /// A keyed hash of source and destination.
    #[inline]
    fn pair(&self, packet: &FlowPacket, id: u64) -> u64 {
        let begun = if id == 0 { self.secret } else { mix(self.secret, id) };
        match packet.addresses {
            // Both fit in one word.
            [IpAddr::V4(from), IpAddr::V4(to)] => {
                mix(begun, u64::from(from.to_bits()) << 32 | u64::from(to.to_bits()))
            }
            both => both.map(words).iter().flatten().fold(begun, |sum, word| mix(sum, *word)),
        }
    }

    /// Ends everything, and returns the report.
    pub fn finish(self) -> ProofReport {
        self.end_all().report()
    }

    /// Ends everything, and returns the sums, which may be added to those of other lanes.
    pub fn end_all(mut self) -> ProofSums {
        self.take_batch();
        let tcp = &mut self.tcp;
        let numbers = Numbers {
            erspan: self.erspan.finish(|Change { time_ns, lost }| tcp.note_numbers(time_ns, lost)),
            gre: self.gre.finish(|_| {}),
            rtp: self.rtp.finish(|_| {}),
            ip_id: self.hosts.finish(|_| {}),
            quic_packets: self.quic_packets,
        };
        ProofSums { tcp: self.tcp.end_all(), numbers, copies: self.copies.report }
    }
}
