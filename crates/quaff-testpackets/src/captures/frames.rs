//! Frames of conversations, built byte by byte from their standards.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Deterministic pseudo-random numbers (Knuth's MMIX).
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

/// Frames that two ends exchange.
pub(super) struct Conversation {
    pub(super) frames: Vec<Vec<u8>>,
    ends: [End; 2],
    numbers: Numbers,
    tags: Vec<(u16, u16)>,
    /// Some checksums are wrong.
    has_faults: bool,
}

#[derive(Clone, Copy)]
struct End {
    mac: [u8; 6],
    ip: IpAddr,
    port: u16,
}

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The conversation with this number, with `requests` answered requests.
pub(super) fn conversation(number: u64, requests: u64) -> Conversation {
    let mut numbers = Numbers(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
    let is_v6 = number % 5 == 4;
    let (near, far) = (number as u16, (number / 7) as u16);
    let ip = |net: u8, host: u16| match is_v6 {
        true => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, net.into(), 0, 0, 0, 1, host)),
        false if net == 1 => {
            IpAddr::V4(Ipv4Addr::new(192, 168, (host % 3) as u8 + 1, (host % 250) as u8 + 1))
        }
        false => IpAddr::V4(Ipv4Addr::new(10, net, (host >> 8) as u8, host as u8)),
    };
    let mac = |side: u8, host: u16| [2, 0x71, side, 0, (host >> 8) as u8, host as u8];
    let port = [80, 443, 53, 5060, 5001, 8080, 123, 22][numbers.below(8) as usize];
    let client = End { mac: mac(1, near), ip: ip((near % 2) as u8, near), port: 20_000 + near % 40_000 };
    let server = End { mac: mac(2, far), ip: ip(2, far), port };
    let tags = match number % 11 {
        3 => vec![(0x8100, 100)],
        7 => vec![(0x88a8, 0x2005), (0x8100, 0x6006)],
        _ => vec![],
    };
    let mut made =
        Conversation { frames: Vec::new(), ends: [client, server], numbers, tags, has_faults: true };
    match number % 8 {
        0..=2 => made.tcp(requests),
        3 | 4 => made.udp(requests),
        5 => made.echo(requests),
        6 => made.sctp(requests),
        _ => made.neighbours(requests),
    }
    made
}

impl Conversation {
    /// A connection to port 80 with `exchanges` requests and answers, most with a body: of a known length, or chunked.
    pub(super) fn http(number: u64, exchanges: u64) -> Self {
        let end = |side: u8, port| End {
            mac: [2, 0x71, side, 1, 0, number as u8],
            ip: IpAddr::V4(Ipv4Addr::new(10, 80, side, number as u8)),
            port,
        };
        let ends = [end(1, 30_000 + number as u16), end(2, 80)];
        let mut made = Self {
            frames: Vec::new(),
            ends,
            numbers: Numbers(number + 1),
            tags: Vec::new(),
            has_faults: false,
        };
        let mut messages = Vec::new();
        for exchange in 0..exchanges {
            let body = made.text();
            let head = format!(
                "POST /{number}/{exchange} HTTP/1.1\r\nHost: made\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            messages.push((0, head + &body));
            let body = made.text();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n";
            messages.push((
                1,
                match exchange % 2 {
                    0 => format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()),
                    _ => format!(
                        "{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
                        body.len()
                    ),
                },
            ));
        }
        let mut seq = made.open();
        for (from, message) in messages {
            for data in message.as_bytes().chunks(1400) {
                made.segment(from, seq, 0x18, data);
                seq[from] = seq[from].wrapping_add(data.len() as u32);
            }
        }
        made.close(seq);
        made
    }

    /// Text of 1 to 4000 bytes.
    fn text(&mut self) -> String {
        let count = 1 + self.numbers.below(4000);
        (0..count).map(|_| char::from(b'a' + self.numbers.below(26) as u8)).collect()
    }

    fn size(&mut self) -> usize {
        // No IPv6 payload of 512 bytes: tcprewrite 4.4 computes a wrong checksum for it.
        let size = [4, 30, 180, 540, 1200][self.numbers.below(5) as usize];
        size + self.numbers.below(20) as usize
    }

    /// One packet from end `from` to the other.
    fn packet(&mut self, from: usize, protocol: u8, transport: &[u8]) {
        let [source, to] = [self.ends[from], self.ends[1 - from]];
        let packet = ip(source.ip, to.ip, protocol, self.numbers.below(65_536) as u16, transport);
        let ethertype = if source.ip.is_ipv4() { 0x0800 } else { 0x86dd };
        self.frames.push(ethernet(to.mac, source.mac, &self.tags, ethertype, &packet));
    }

    fn segment(&mut self, from: usize, seq: [u32; 2], flags: u8, data: &[u8]) {
        let [source, to] = [self.ends[from], self.ends[1 - from]];
        let mut tcp = [source.port.to_be_bytes(), to.port.to_be_bytes()].concat();
        tcp.extend([seq[from], seq[1 - from]].into_iter().flat_map(u32::to_be_bytes));
        let options: &[u8] = if flags & 2 != 0 { &[2, 4, 5, 0xb4, 1, 3, 3, 7] } else { &[] };
        tcp.extend([(5 + options.len() as u8 / 4) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
        tcp.extend(options);
        tcp.extend(data);
        let sum = self.sum(source.ip, to.ip, TCP, &tcp);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        self.packet(from, TCP, &tcp);
    }

    /// The handshake; the next sequence numbers.
    fn open(&mut self) -> [u32; 2] {
        let mut seq = [self.numbers.below(1 << 31) as u32, self.numbers.below(1 << 31) as u32];
        self.segment(0, [seq[0], 0], 0x02, &[]);
        seq[0] += 1;
        self.segment(1, seq, 0x12, &[]);
        seq[1] += 1;
        self.segment(0, seq, 0x10, &[]);
        seq
    }

    fn close(&mut self, mut seq: [u32; 2]) {
        self.segment(0, seq, 0x11, &[]);
        seq[0] += 1;
        self.segment(1, seq, 0x11, &[]);
    }

    fn tcp(&mut self, requests: u64) {
        let mut seq = self.open();
        for from in (0..requests).flat_map(|_| [0, 1]) {
            let size = self.size();
            let data = self.numbers.bytes(size);
            self.segment(from, seq, 0x18, &data);
            seq[from] = seq[from].wrapping_add(data.len() as u32);
        }
        self.close(seq);
    }

    fn udp(&mut self, requests: u64) {
        for from in (0..requests).flat_map(|_| [0, 1]) {
            let [source, to] = [self.ends[from], self.ends[1 - from]];
            let size = self.size();
            let mut udp = [source.port, to.port, 8 + size as u16, 0]
                .into_iter()
                .flat_map(u16::to_be_bytes)
                .collect::<Vec<_>>();
            udp.extend(self.numbers.bytes(size));
            let sum = self.sum(source.ip, to.ip, UDP, &udp);
            udp[6..8].copy_from_slice(&sum.to_be_bytes());
            self.packet(from, UDP, &udp);
        }
    }

    /// Echo requests and replies, ICMP or ICMPv6.
    fn echo(&mut self, requests: u64) {
        for (seq, from) in (0..requests).flat_map(|seq| [(seq, 0), (seq, 1)]) {
            let [source, to] = [self.ends[from], self.ends[1 - from]];
            let is_v4 = source.ip.is_ipv4();
            let kind = if is_v4 { [8, 0][from] } else { [128, 129][from] };
            let mut icmp = vec![kind, 0, 0, 0, 0x71, 0x75, 0, seq as u8];
            icmp.extend((0..56).map(|at| at as u8));
            let sum = if is_v4 { checksum(&[&icmp]) } else { self.sum(source.ip, to.ip, 58, &icmp) };
            icmp[2..4].copy_from_slice(&sum.to_be_bytes());
            self.packet(from, if is_v4 { 1 } else { 58 }, &icmp);
        }
    }

    /// SCTP with DATA chunks, without a CRC, on ports that no other protocol uses here.
    fn sctp(&mut self, requests: u64) {
        for from in (0..requests).flat_map(|_| [0, 1]) {
            let [source, to] = [self.ends[from], self.ends[1 - from]];
            let mut sctp = [source.port ^ 0x8000, to.port ^ 0x8000]
                .into_iter()
                .flat_map(u16::to_be_bytes)
                .collect::<Vec<_>>();
            sctp.extend([0, 0, 0, 7, 0, 0, 0, 0, 0, 3, 0, 48]);
            sctp.extend(self.numbers.bytes(44));
            self.packet(from, 132, &sctp);
        }
    }

    /// ARP and Spanning Tree, and one UDP request.
    fn neighbours(&mut self, requests: u64) {
        let [client, server] = self.ends;
        let four = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.octets(),
            IpAddr::V6(ip) => [10, 9, ip.octets()[14], ip.octets()[15]],
        };
        for (code, from, to, mac) in [(1, client, server, [0xff; 6]), (2, server, client, client.mac)] {
            let target = if code == 1 { [0; 6] } else { to.mac };
            let head = [0, 1, 8, 0, 6, 4, 0, code];
            let arp = [&head[..], &from.mac, &four(from.ip), &target, &four(to.ip)].concat();
            self.frames.push(ethernet(mac, from.mac, &[], 0x0806, &arp));
        }
        let bridge = [
            &[0x42, 0x42, 3][..],
            &[0; 4],
            &[0x80, 0],
            &server.mac,
            &[0; 4],
            &[0x80, 0],
            &server.mac,
            &[0x80, 1, 0, 0, 20, 0, 2, 0, 15, 0],
        ]
        .concat();
        self.frames.push(ethernet([1, 0x80, 0xc2, 0, 0, 0], server.mac, &[], bridge.len() as u16, &bridge));
        self.udp(requests);
    }

    /// The checksum of a transport header. Of a conversation with faults one in seven is wrong, like that of a frame
    /// whose checksum is left to the card.
    fn sum(&mut self, from: IpAddr, to: IpAddr, protocol: u8, transport: &[u8]) -> u16 {
        let right = transport_sum(from, to, protocol, transport);
        if self.numbers.below(7) == 0 && self.has_faults { right ^ 0x1234 } else { right }
    }
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn transport_sum(from: IpAddr, to: IpAddr, protocol: u8, transport: &[u8]) -> u16 {
    let len = (transport.len() as u32).to_be_bytes();
    let sum = checksum(&[&octets(from), &octets(to), &len, &[0, 0, 0, protocol], transport]);
    if sum == 0 { 0xffff } else { sum }
}

/// The Internet checksum (RFC 1071) of several parts, all but the last of even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let mut sum: u32 =
        words.map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// An IP packet without options.
fn ip(from: IpAddr, to: IpAddr, protocol: u8, id: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = Vec::new();
    if from.is_ipv4() {
        header.extend([0x45, 0]);
        header.extend([20 + payload.len() as u16, id, 0x4000].into_iter().flat_map(u16::to_be_bytes));
        header.extend([64, protocol, 0, 0]);
    } else {
        header.extend([0x60, 0, 0, 0]);
        header.extend((payload.len() as u16).to_be_bytes());
        header.extend([protocol, 64]);
    }
    header.extend(octets(from));
    header.extend(octets(to));
    if from.is_ipv4() {
        let sum = checksum(&[&header]);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    [header, payload.to_vec()].concat()
}

fn ethernet(to: [u8; 6], from: [u8; 6], tags: &[(u16, u16)], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [to, from].concat();
    frame.extend(tags.iter().flat_map(|(tpid, tci)| [tpid.to_be_bytes(), tci.to_be_bytes()].concat()));
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}
