//! Capture files of stamped frames, made without a network.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use quaff_wire::Record;
use quaff_wire::pcap::{self, Resolution};
use quaff_wire::pcapng::{self, Interface, Section, Statistics};
use quaff_wire::probe::ProbeHeader;
use quaff_wire::probe::{OuterHeaders, ProbeFrame};
use std::net::Ipv4Addr;

/// pcapng: the type of an Interface Statistics Block, and two of its options.
const ISB: u32 = 5;
const ISB_IFRECV: u16 = 4;
const ISB_IFDROP: u16 = 5;

/// 2023-11-14T22:13:20Z; frame `seq` is captured `seq` µs later.
pub(crate) const START_NS: u64 = 1_700_000_000_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Pcap,
    Pcapng,
}

/// A file that is being written.
pub(crate) struct File {
    format: Format,
    pub(crate) bytes: Vec<u8>,
    frame: ProbeFrame,
    bounded: bool,
    /// Goes into the `epb_dropcount` of the next frame.
    pub(crate) dropped: u64,
}

impl File {
    pub(crate) fn new(format: Format) -> Self {
        let mut bytes = Vec::new();
        match format {
            Format::Pcap => bytes.extend(pcap::file_header(Resolution::Nanoseconds, 0, 1)),
            Format::Pcapng => {
                pcapng::shb(&mut bytes, &Section { userappl: "a test".into(), ..Section::default() });
                let interface = Interface { linktype: 1, name: "test0".into(), ..Interface::default() };
                pcapng::idb(&mut bytes, &interface);
            }
        }
        Self { format, bytes, frame: stamped_frame(7), bounded: false, dropped: 0 }
    }

    /// From here on frames belong to `stream`.
    pub(crate) fn stream(mut self, stream: u16) -> Self {
        self.frame = stamped_frame(stream);
        self
    }

    /// From here on frames say that there will be a last one.
    pub(crate) fn bounded(mut self) -> Self {
        self.bounded = true;
        self
    }

    pub(crate) fn frames(self, seqs: impl IntoIterator<Item = u64>) -> Self {
        seqs.into_iter().fold(self, |file, seq| file.stamped(seq, false, |_| {}))
    }

    pub(crate) fn last(self, seq: u64) -> Self {
        self.stamped(seq, true, |_| {})
    }

    /// A frame whose byte at `at` was damaged on its way.
    pub(crate) fn damaged(self, seq: u64, at: usize) -> Self {
        self.stamped(seq, false, |frame| frame[at] ^= 0x40)
    }

    /// A frame without a probe header.
    pub(crate) fn foreign(mut self) -> Self {
        self.put(START_NS, &[0x55; 60]);
        self
    }

    /// The counters of the capturer so far: delivered, dropped by the kernel.
    pub(crate) fn statistics(mut self, delivered: u64, os_dropped: u64) -> Self {
        let statistics = Statistics {
            start_ns: START_NS,
            filter_accepted: delivered + os_dropped,
            os_dropped,
            delivered,
            ..Statistics::default()
        };
        pcapng::isb(&mut self.bytes, &statistics);
        self
    }

    /// The only block of counters in a file of dumpcap's, at its end.
    pub(crate) fn dumpcap_statistics(mut self, received: u64, dropped: u64) -> Self {
        let options = [(ISB_IFRECV, received), (ISB_IFDROP, dropped)];
        let length = 12u32 + 12 + 12 * options.len() as u32 + 4;
        for word in [ISB, length, 0, 0, 0] {
            self.bytes.extend(word.to_ne_bytes());
        }
        for (code, value) in options {
            self.bytes.extend([code.to_ne_bytes(), 8u16.to_ne_bytes()].concat());
            self.bytes.extend(value.to_ne_bytes());
        }
        self.bytes.extend([0u32.to_ne_bytes(), length.to_ne_bytes()].concat());
        self
    }

    fn stamped(mut self, seq: u64, last: bool, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        let stamp = ProbeHeader { stream: 0, seq, intended_ns: 0, late_ns: 0, last, bounded: self.bounded };
        self.frame.set(&stamp);
        let mut bytes = self.frame.bytes.clone();
        change(&mut bytes);
        self.put(START_NS + seq * 1000, &bytes);
        self
    }

    fn put(&mut self, time_ns: u64, bytes: &[u8]) {
        let dropped = std::mem::take(&mut self.dropped);
        let record = Record { time_ns, bytes, len: bytes.len() as u32, dropped, ..Record::default() };
        let mut room = vec![0; 4096];
        let written = match self.format {
            Format::Pcap => pcap::record(&mut room, Resolution::Nanoseconds, &record),
            Format::Pcapng => pcapng::epb(&mut room, 0, &record),
        };
        self.bytes.extend(&room[..written]);
    }
}

fn stamped_frame(stream: u16) -> ProbeFrame {
    let headers = OuterHeaders {
        dst_mac: [2, 0, 0, 0, 0, 2],
        src_mac: [2, 0, 0, 0, 0, 1],
        tags: Vec::new(),
        src_ip: Ipv4Addr::new(198, 18, 0, 1),
        dst_ip: Ipv4Addr::new(198, 18, 0, 2),
        stream,
    };
    ProbeFrame::new(&headers, 100).expect("a stamp fits 100 bytes")
}
