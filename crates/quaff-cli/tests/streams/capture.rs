//! Captures of TCP connections, made segment by segment, for tests of `quaff streams`.

use quaff_testpackets as build;
use std::net::Ipv4Addr;
use tempfile::TempDir;

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;
pub(crate) const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// A capture that is being made.
pub(crate) struct Capture {
    pub(crate) bytes: Vec<u8>,
    pub(crate) time_us: u64,
    pub(crate) client: (Ipv4Addr, u16),
}

impl Capture {
    pub(crate) fn new() -> Self {
        let header = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 262_144, 1].map(u32::to_le_bytes);
        Self { bytes: header.concat(), time_us: 1_000_000, client: (Ipv4Addr::new(10, 0, 0, 1), 4711) }
    }

    pub(crate) fn frame(&mut self, frame: &[u8], wire_bytes: usize) {
        let (seconds, us) = (self.time_us / 1_000_000, self.time_us % 1_000_000);
        let record = [seconds as u32, us as u32, frame.len() as u32, wire_bytes as u32];
        self.bytes.extend(record.map(u32::to_le_bytes).concat());
        self.bytes.extend(frame);
        self.time_us += 1000;
    }

    pub(crate) fn segment(
        &self,
        is_client: bool,
        flags: u8,
        [seq, ack]: [u32; 2],
        payload: &[u8],
    ) -> Vec<u8> {
        let (client, server) = (self.client, (SERVER_ADDRESS, 80));
        let [from, to] = if is_client { [client, server] } else { [server, client] };
        let mut tcp = [from.1.to_be_bytes(), to.1.to_be_bytes()].concat();
        tcp.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
        tcp.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        tcp.extend(payload);
        build::ethernet(&[], 0x0800, &build::ipv4(from.0, to.0, 6, &[], &tcp))
    }

    pub(crate) fn client(&mut self, flags: u8, numbers: [u32; 2], payload: &[u8]) {
        let frame = self.segment(true, flags, numbers, payload);
        self.frame(&frame, frame.len());
    }

    pub(crate) fn server(&mut self, flags: u8, numbers: [u32; 2], payload: &[u8]) {
        let frame = self.segment(false, flags, numbers, payload);
        self.frame(&frame, frame.len());
    }

    /// A datagram of the client to a server and its port, or an answer, of which `cut` bytes were not captured.
    pub(crate) fn datagram(&mut self, is_client: bool, server: (Ipv4Addr, u16), payload: &[u8], cut: usize) {
        let [from, to] = if is_client { [self.client, server] } else { [server, self.client] };
        let ip = build::ipv4(from.0, to.0, 17, &[], &build::udp(from.1, to.1, payload));
        let frame = build::ethernet(&[], 0x0800, &ip);
        self.frame(&frame[..frame.len() - cut], frame.len());
    }

    /// A whole connection: the client's text, then the server's, from the sequence number `at` on both sides.
    pub(crate) fn connection(&mut self, at: u32, text: &[u8], answer: &[u8]) {
        let [a, b] = [text, answer].map(|text| at + 1 + text.len() as u32);
        self.client(SYN, [at, 0], b"");
        self.server(SYN | ACK, [at, at + 1], b"");
        self.client(ACK, [at + 1, at + 1], text);
        self.server(ACK, [at + 1, a], answer);
        self.client(FIN | ACK, [a, b], b"");
        self.server(FIN | ACK, [b, a + 1], b"");
        self.client(ACK, [a + 1, b + 1], b"");
    }

    /// A connection in which the server sends the first text; it stays open.
    pub(crate) fn connection_greeted(&mut self, greeting: &[u8], text: &[u8]) {
        let [a, b] = [text, greeting].map(|text| 100 + text.len() as u32);
        self.client(SYN, [99, 0], b"");
        self.server(SYN | ACK, [99, 100], b"");
        self.client(ACK, [100, 100], b"");
        self.server(ACK, [100, 100], greeting);
        self.client(ACK, [100, b], text);
        self.server(ACK, [b, a], b"");
    }

    /// A connection of which the second of three segments of the client is missing, though it was acknowledged.
    pub(crate) fn connection_with_gap(&mut self) {
        self.client(SYN, [99, 0], b"");
        self.server(SYN | ACK, [99, 100], b"");
        self.client(ACK, [100, 100], b"first\n");
        self.client(ACK, [116, 100], b"third\n");
        self.server(ACK, [100, 122], b"");
    }

    /// The end of that connection.
    pub(crate) fn close_connection_with_gap(&mut self) {
        self.client(FIN | ACK, [122, 100], b"");
        self.server(FIN | ACK, [100, 123], b"");
        self.client(ACK, [123, 101], b"");
    }

    pub(crate) fn write(&self, dir: &TempDir) -> String {
        let path = dir.path().join("in.pcap");
        std::fs::write(&path, &self.bytes).expect("a file");
        path.display().to_string()
    }
}
