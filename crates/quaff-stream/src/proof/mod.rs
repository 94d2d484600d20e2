//! The evidence of a capture, packet by packet: TCP, sequence numbers of other protocols, and copies.
//!
//! | module | task |
//! |---|---|
//! | `read` | packets as batches of their evidence, which another core may take |
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
mod read;
mod report;
mod rtp;
mod sources;

pub use copies::CopyReport;
pub use read::{ProofBatch, ProofReader};
pub use report::{NumberReport, Numbers, ProofReport};

use crate::loss::{LossMeter, LossSums};
use copies::Copies;
use counter::{Change, Rules};
use quaff_wire::flow::FlowPacket;
use read::{Hashes, Numbered, Read};
use sources::Sources;

/// Table sizes for tunnels, RTP sources and pairs of hosts, in sets of four.
const TUNNEL_SETS: usize = 1 << 8;
const RTP_SETS: usize = 1 << 10;
const HOST_SETS: usize = 1 << 11;

const GRE_RULES: Rules = Rules { bits: 32, steps_min: 16, steady: 8, leap_max: 1 << 20 };
const RTP_RULES: Rules = Rules { bits: 16, steps_min: 32, steady: 8, leap_max: 3000 };
const HOST_RULES: Rules = Rules { bits: 16, steps_min: 64, steady: 15, leap_max: 3000 };

/// Packets whose data are loaded in parallel, before the first of them is processed.
const GROUP: usize = 32;

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
    hashes: Hashes,
    /// The packets that were read here and not yet processed.
    group: Vec<Read>,
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
}

impl ProofMeter {
    /// Creates an empty meter. `secret` keys the hashes of its tables: random, and unknown to the senders of packets.
    pub fn new(secret: u64) -> Self {
        Self {
            hashes: Hashes::new(secret),
            group: Vec::with_capacity(GROUP),
            tcp: LossMeter::new(secret),
            copies: Copies::new(),
            erspan: Sources::new(GRE_RULES, TUNNEL_SETS),
            gre: Sources::new(GRE_RULES, TUNNEL_SETS),
            rtp: Sources::new(RTP_RULES, RTP_SETS),
            hosts: Sources::new(HOST_RULES, HOST_SETS),
            quic_packets: 0,
            erspan_packets: 0,
            has_begun: false,
        }
    }

    /// Processes a packet of link type `linktype` with `bytes` captured of `wire_bytes`.
    #[inline]
    pub fn packet(&mut self, bytes: &[u8], wire_bytes: u32, linktype: u16, time_ns: u64, interface: u16) {
        // For a plain packet most fields are known at compile time.
        match FlowPacket::plain(bytes, linktype) {
            Some(packet) => self.push(self.hashes.read(&packet, bytes, time_ns, interface)),
            None => self.walk(bytes, (wire_bytes, linktype), time_ns, interface),
        }
    }

    #[inline(never)]
    fn walk(&mut self, bytes: &[u8], (wire_bytes, linktype): (u32, u16), time_ns: u64, interface: u16) {
        let read = self.hashes.walk(bytes, (wire_bytes, linktype), time_ns, interface);
        read.into_iter().for_each(|read| self.push(read));
    }

    #[inline(always)]
    fn push(&mut self, read: Read) {
        self.prefetch_lines(&read);
        self.group.push(read);
        if self.group.len() == GROUP {
            self.take_group();
        }
    }

    /// Processes the packets that were read here, in order.
    fn take_group(&mut self) {
        let mut group = std::mem::take(&mut self.group);
        self.prefetch(&mut group);
        self.take_all(&group);
        group.clear();
        self.group = group;
    }

    /// Processes a batch of a reader with the same secret, and leaves it empty. Batches must come in the order of their
    /// packets.
    pub fn take_batch(&mut self, batch: &mut ProofBatch) {
        self.take_group();
        let mut from = 0;
        for drops in &batch.drops {
            self.take_reads(&mut batch.reads[from..drops.after]);
            self.tcp.note_drops(drops.time_ns, drops.drops, drops.interface);
            from = drops.after;
        }
        self.take_reads(&mut batch.reads[from..]);
        batch.clear();
    }

    /// Processes packets in groups: while one is processed, the connections of the next one and the lines of the one
    /// after that are loaded.
    fn take_reads(&mut self, reads: &mut [Read]) {
        let packets = reads.len();
        let group = |number: usize| packets.min(number * GROUP)..packets.min((number + 1) * GROUP);
        for step in 0..packets.div_ceil(GROUP) + 2 {
            reads[group(step)].iter().for_each(|read| self.prefetch_lines(read));
            if let Some(last) = step.checked_sub(1) {
                self.prefetch(&mut reads[group(last)]);
            }
            if let Some(before) = step.checked_sub(2) {
                self.take_all(&reads[group(before)]);
            }
        }
    }

    /// Prefetches the lines of tables that a packet needs first.
    #[inline(always)]
    fn prefetch_lines(&self, read: &Read) {
        read.digest.iter().for_each(|digest| self.copies.prefetch(digest));
        read.tcp.iter().for_each(|tcp| self.tcp.prefetch_line(tcp));
        read.host.iter().for_each(|host| self.hosts.prefetch_keys(host.key.get()));
    }

    /// Prefetches connections and hosts, whose lines are loaded.
    #[inline]
    fn prefetch(&self, group: &mut [Read]) {
        for Read { tcp, host, .. } in group {
            tcp.iter_mut().for_each(|tcp| self.tcp.prefetch(tcp));
            host.iter().for_each(|host| self.hosts.prefetch(host.key.get()));
        }
    }

    #[inline]
    fn take_all(&mut self, group: &[Read]) {
        if let Some(first) = group.first()
            && !self.has_begun
        {
            // Times are relative to the first packet.
            self.tcp.note_numbers(first.time_ns, 0);
            self.has_begun = true;
        }
        group.iter().for_each(|read| self.take(read));
    }

    #[inline]
    fn take(&mut self, read: &Read) {
        let time_ns = read.time_ns;
        let is_copy = read.digest.is_some_and(|digest| self.copies.is_copy(&digest, time_ns));
        if let Some(tcp) = &read.tcp {
            self.tcp.take(tcp, time_ns, is_copy);
        }
        if is_copy {
            return;
        }
        match read.numbers {
            Numbered::Erspan(key, number) => {
                let change = self.erspan.take(key, number, time_ns);
                self.erspan_packets += 1;
                change.into_iter().for_each(|Change { time_ns, lost }| self.tcp.note_numbers(time_ns, lost));
            }
            Numbered::Gre(key, number) => {
                self.gre.take(key, number, time_ns);
            }
            Numbered::Rtp(key, number) => {
                self.rtp.take(key, number, time_ns);
            }
            Numbered::Quic => self.quic_packets += 1,
            Numbered::None => {}
        }
        // Many senders leave it 0, which counts only where a counter wraps.
        if let Some(host) = read.host
            && (host.number != 0 || self.hosts.expects(host.key.get(), 0))
        {
            self.hosts.take(host.key.get(), host.number.into(), time_ns);
        }
    }

    /// Adds drops that the file records at a packet.
    pub fn note_drops(&mut self, time_ns: u64, drops: u64, interface: u16) {
        self.take_group();
        self.tcp.note_drops(time_ns, drops, interface);
    }

    /// Returns the packets so far whose loss would be seen, and the estimated lost ones, of TCP and of mirrors.
    pub fn so_far(&self) -> [u64; 2] {
        let [segments, lost] = self.tcp.so_far();
        [segments + self.erspan_packets, lost + self.erspan.totals.lost]
    }

    /// Ends everything, and returns the report.
    pub fn finish(self) -> ProofReport {
        self.end_all().report()
    }

    /// Ends everything, and returns the sums, which may be added to those of other lanes.
    pub fn end_all(mut self) -> ProofSums {
        self.take_group();
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
