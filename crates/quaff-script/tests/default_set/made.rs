//! Packets of hosts 10.0.0.N.

use quaff_testpackets as build;

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const ACK: u8 = 16;

/// A host by its last number, and a port.
pub(crate) type End = (u8, u16);

/// Packets with their times.
pub(crate) struct Made {
    pub(crate) frames: Vec<(u64, Vec<u8>)>,
    pub(crate) time_ns: u64,
    /// Time between packets.
    pub(crate) step_ns: u64,
}

impl Default for Made {
    fn default() -> Self {
        Self { frames: Vec::new(), time_ns: 1_000_000_000, step_ns: 10_000_000 }
    }
}

impl Made {
    pub(crate) fn push(&mut self, frame: Vec<u8>) {
        self.frames.push((self.time_ns, frame));
        self.time_ns += self.step_ns;
    }

    pub(crate) fn wait_s(&mut self, seconds: u64) {
        self.time_ns += seconds * 1_000_000_000;
    }

    pub(crate) fn frame_of(
        &self,
        from: End,
        to: End,
        flags: u8,
        numbers: [u32; 2],
        payload: &[u8],
    ) -> Vec<u8> {
        frame(from, to, flags, numbers, payload)
    }

    pub(crate) fn segment(&mut self, from: End, to: End, flags: u8, numbers: [u32; 2], payload: &[u8]) {
        self.push(frame(from, to, flags, numbers, payload));
    }

    pub(crate) fn syn(&mut self, from: u8, from_port: u16, to: u8, to_port: u16) {
        self.segment((from, from_port), (to, to_port), SYN, [99, 0], b"");
    }

    /// A whole connection; each part is the client's or the server's.
    pub(crate) fn connection(&mut self, client: End, server: End, parts: &[(bool, &[u8])]) {
        let [mut a, mut b] = [100, 500];
        self.segment(client, server, SYN, [a - 1, 0], b"");
        self.segment(server, client, SYN | ACK, [b - 1, a], b"");
        self.segment(client, server, ACK, [a, b], b"");
        for (is_client, bytes) in parts {
            if *is_client {
                self.segment(client, server, ACK, [a, b], bytes);
                a += bytes.len() as u32;
            } else {
                self.segment(server, client, ACK, [b, a], bytes);
                b += bytes.len() as u32;
            }
        }
        self.segment(client, server, FIN | ACK, [a, b], b"");
        self.segment(server, client, FIN | ACK, [b, a + 1], b"");
        self.segment(client, server, ACK, [a + 1, b + 1], b"");
    }
}

fn ip(from: u8, to: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let ip = build::ipv4([10, 0, 0, from].into(), [10, 0, 0, to].into(), protocol, &[], payload);
    build::ethernet(&[], 0x0800, &ip)
}

/// A segment of TCP.
pub(crate) fn frame(from: End, to: End, flags: u8, [seq, ack]: [u32; 2], payload: &[u8]) -> Vec<u8> {
    let mut tcp = [from.1.to_be_bytes(), to.1.to_be_bytes()].concat();
    tcp.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
    tcp.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend(payload);
    ip(from.0, to.0, 6, &tcp)
}

pub(crate) fn udp(from: u8, from_port: u16, to: u8, to_port: u16, payload: &[u8]) -> Vec<u8> {
    ip(from, to, 17, &build::udp(from_port, to_port, payload))
}

/// A message of ICMP of this type and code 0.
pub(crate) fn icmp(from: u8, to: u8, kind: u8, rest: &[u8]) -> Vec<u8> {
    ip(from, to, 1, &[&[kind, 0, 0, 0], rest].concat())
}

/// A reply of ARP: 10.0.0.`host` is at the MAC that ends with `mac`.
pub(crate) fn arp(mac: u8, host: u8) -> Vec<u8> {
    let message = [0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, mac, 10, 0, 0, host, 2, 0, 0, 0, 0, 7, 10, 0, 0, 7];
    build::ethernet(&[], 0x0806, &message)
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
}

fn record(kind: u8, ciphers: &[u8], compression: &[u8], extensions: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let extensions: Vec<u8> =
        extensions.iter().flat_map(|(kind, data)| [&[0, *kind][..], &sized(data)].concat()).collect();
    let body = [&[3, 3][..], &[7; 32], &[0], ciphers, compression, &sized(&extensions)].concat();
    [&[22, 3, 1][..], &sized(&[&[kind, 0][..], &sized(&body)].concat())].concat()
}

/// A ClientHello with one cipher, a server name, `h2` and TLS 1.3.
pub(crate) fn client_hello(name: &str) -> Vec<u8> {
    let name = sized(&[&[0], &sized(name.as_bytes())[..]].concat());
    record(1, &[0, 2, 0x13, 1], &[1, 0], &[(0, name), (16, sized(b"\x02h2")), (43, vec![2, 3, 4])])
}

/// A ServerHello of TLS 1.3.
pub(crate) fn server_hello() -> Vec<u8> {
    record(2, &[0x13, 1], &[0], &[(43, vec![3, 4])])
}
