//! Builds packets with tunnels in them, from the innermost header outwards.
//!
//! Only a dev-dependency: it shares no code with what it tests. Each function takes the payload and returns it with one
//! header in front, so that `ethernet(&[], 0x0800, &ipv4(…, &gre(…, &frame)))` reads in the order of the bytes. IPv4
//! checksums are correct; those of UDP and GRE are 0, which means no checksum. Nothing is validated: broken values
//! build a broken packet. [`captures`] makes whole files, for a clone without real captures.

#![forbid(unsafe_code)]

pub mod captures;

use std::net::{Ipv4Addr, Ipv6Addr};

/// Ethernet with these tags (TPID, TCI), the outermost first. The MACs are locally administered.
pub fn ethernet(tags: &[(u16, u16)], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    for (tpid, tci) in tags {
        push(&mut bytes, &[*tpid, *tci]);
    }
    push(&mut bytes, &[ethertype]);
    bytes.extend(payload);
    bytes
}

/// IPv4 with these options (a multiple of 4 bytes). The total length is 0 if it does not fit.
pub fn ipv4(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: u8,
    options: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let header_len = 20 + options.len();
    let mut bytes = vec![0x40 | (header_len / 4) as u8, 0];
    push(&mut bytes, &[u16::try_from(header_len + payload.len()).unwrap_or(0), 1, 0]);
    bytes.extend([64, protocol, 0, 0]);
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    bytes.extend(options);
    set_ipv4_checksum(&mut bytes);
    bytes.extend(payload);
    bytes
}

/// IPv6 whose payload begins with header `next`. The payload length is 0 if it does not fit.
pub fn ipv6(source: Ipv6Addr, destination: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    push(&mut bytes, &[u16::try_from(payload.len()).unwrap_or(0)]);
    bytes.extend([next, 64]);
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    bytes.extend(payload);
    bytes
}

/// An 8-byte IPv6 extension header (hop-by-hop or destination options: six bytes of padding).
pub fn ipv6_options(next: u8, payload: &[u8]) -> Vec<u8> {
    [&[next, 0, 1, 4, 0, 0, 0, 0], payload].concat()
}

/// An IPv4 packet in fragments whose payload is at most `piece` bytes (a multiple of 8).
pub fn ipv4_fragments(packet: &[u8], piece: usize) -> Vec<Vec<u8>> {
    let (header, payload) = packet.split_at(usize::from(packet[0] & 15) * 4);
    let count = payload.chunks(piece).count();
    let build = |(number, chunk): (usize, &[u8])| {
        let mut bytes = header.to_vec();
        let more = if number + 1 < count { 0x2000 } else { 0 };
        bytes[2..4].copy_from_slice(&((header.len() + chunk.len()) as u16).to_be_bytes());
        bytes[6..8].copy_from_slice(&((number * piece / 8) as u16 | more).to_be_bytes());
        set_ipv4_checksum(&mut bytes);
        bytes.extend(chunk);
        bytes
    };
    payload.chunks(piece).enumerate().map(build).collect()
}

/// An IPv6 packet without extension headers in fragments whose payload is at most `piece` bytes (a multiple of 8).
pub fn ipv6_fragments(packet: &[u8], id: u32, piece: usize) -> Vec<Vec<u8>> {
    let (header, payload) = packet.split_at(40);
    let count = payload.chunks(piece).count();
    let build = |(number, chunk): (usize, &[u8])| {
        let mut bytes = header.to_vec();
        bytes[4..6].copy_from_slice(&((8 + chunk.len()) as u16).to_be_bytes());
        bytes[6] = 44;
        bytes.extend([header[6], 0]);
        push(&mut bytes, &[(number * piece) as u16 | u16::from(number + 1 < count)]);
        bytes.extend(id.to_be_bytes());
        bytes.extend(chunk);
        bytes
    };
    payload.chunks(piece).enumerate().map(build).collect()
}

/// UDP. The length is 0 if it does not fit.
pub fn udp(source_port: u16, destination_port: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    push(&mut bytes, &[source_port, destination_port, u16::try_from(8 + payload.len()).unwrap_or(0), 0]);
    bytes.extend(payload);
    bytes
}

/// The optional fields of GRE.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gre<'a> {
    /// C: 4 bytes of checksum and offset, all zero.
    pub checksum: bool,
    /// K.
    pub key: Option<u32>,
    /// S.
    pub sequence: Option<u32>,
    /// R: the data of one source route entry, followed by the empty one.
    pub route: Option<&'a [u8]>,
}

/// GRE version 0 (RFC 1701, 2784, 2890).
pub fn gre(fields: &Gre<'_>, protocol: u16, payload: &[u8]) -> Vec<u8> {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let flags = flag(fields.checksum, 0x80)
        | flag(fields.route.is_some(), 0x40)
        | flag(fields.key.is_some(), 0x20)
        | flag(fields.sequence.is_some(), 0x10);
    let mut bytes = vec![flags, 0];
    push(&mut bytes, &[protocol]);
    if fields.checksum || fields.route.is_some() {
        bytes.extend([0; 4]);
    }
    bytes.extend([fields.key, fields.sequence].into_iter().flatten().flat_map(u32::to_be_bytes));
    if let Some(route) = fields.route {
        push(&mut bytes, &[0x0800]);
        bytes.extend([0, route.len() as u8]);
        bytes.extend(route);
        bytes.extend([0; 4]);
    }
    bytes.extend(payload);
    bytes
}

/// The fields that ERSPAN types II and III share.
#[derive(Debug, Clone, Copy, Default)]
pub struct Erspan {
    /// VLAN id, 12 bits.
    pub vlan: u16,
    /// Class of service, 3 bits.
    pub cos: u8,
    /// Type II: En, 2 bits (2: an 802.1Q tag was removed). Type III: BSO.
    pub encapsulation: u8,
    /// T: the mirror truncated the frame.
    pub truncated: bool,
    /// Session id, 10 bits.
    pub session: u16,
}

impl Erspan {
    fn words(&self, version: u16) -> [u16; 2] {
        let flags = u16::from(self.cos) << 13 | u16::from(self.encapsulation) << 11;
        [version << 12 | self.vlan, flags | u16::from(self.truncated) << 10 | self.session]
    }
}

/// GRE and ERSPAN type I, which has no header of its own.
pub fn erspan_i(frame: &[u8]) -> Vec<u8> {
    gre(&Gre::default(), 0x88be, frame)
}

/// GRE with a sequence number, and ERSPAN type II. `index` has 20 bits.
pub fn erspan_ii(sequence: u32, header: &Erspan, index: u32, frame: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    push(&mut bytes, &header.words(1));
    bytes.extend(index.to_be_bytes());
    bytes.extend(frame);
    gre(&Gre { sequence: Some(sequence), ..Gre::default() }, 0x88be, &bytes)
}

/// The fields that only ERSPAN type III has.
#[derive(Debug, Clone, Copy, Default)]
pub struct ErspanIii {
    /// The switch's counter.
    pub timestamp: u32,
    /// Security group tag.
    pub sgt: u16,
    /// FT, 5 bits: 0 is Ethernet, 2 is IP.
    pub frame_type: u8,
    /// D.
    pub egress: bool,
    /// Gra, 2 bits.
    pub granularity: u8,
    /// O: the platform subheader.
    pub platform: Option<[u8; 8]>,
}

/// GRE with a sequence number, and ERSPAN type III.
pub fn erspan_iii(sequence: u32, header: &Erspan, more: &ErspanIii, frame: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    push(&mut bytes, &header.words(2));
    bytes.extend(more.timestamp.to_be_bytes());
    let flags =
        u16::from(more.egress) << 3 | u16::from(more.granularity) << 1 | u16::from(more.platform.is_some());
    push(&mut bytes, &[more.sgt, u16::from(more.frame_type) << 10 | flags]);
    bytes.extend(more.platform.iter().flatten());
    bytes.extend(frame);
    gre(&Gre { sequence: Some(sequence), ..Gre::default() }, 0x22eb, &bytes)
}

/// VXLAN.
pub fn vxlan(vni: u32, frame: &[u8]) -> Vec<u8> {
    [&[8, 0, 0, 0], &(vni << 8).to_be_bytes()[..], frame].concat()
}

/// VXLAN-GPE with this next protocol (1 IPv4, 2 IPv6, 3 Ethernet, 5 MPLS).
pub fn vxlan_gpe(vni: u32, next: u8, payload: &[u8]) -> Vec<u8> {
    [&[0x0c, 0, 0, next], &(vni << 8).to_be_bytes()[..], payload].concat()
}

/// Geneve with these options (a multiple of 4 bytes).
pub fn geneve(vni: u32, protocol: u16, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let [high, low] = protocol.to_be_bytes();
    let head = [(options.len() / 4) as u8, 0, high, low];
    [&head, &(vni << 8).to_be_bytes()[..], options, payload].concat()
}

/// A stack of MPLS labels, the outermost first; the last one has the S bit.
pub fn mpls(labels: &[u32], payload: &[u8]) -> Vec<u8> {
    let entry = |(at, label): (usize, &u32)| label << 12 | u32::from(at + 1 == labels.len()) << 8 | 64;
    let stack = labels.iter().enumerate().map(entry).flat_map(u32::to_be_bytes);
    stack.chain(payload.iter().copied()).collect()
}

/// A GTP-U message (255 is a T-PDU) with these extension headers: the type of each, and its content (2 bytes, plus 4
/// for each further unit).
pub fn gtp(message: u8, teid: u32, extensions: &[(u8, &[u8])], payload: &[u8]) -> Vec<u8> {
    let mut rest = Vec::new();
    if let Some((first, _)) = extensions.first() {
        rest.extend([0, 0, 0, *first]);
    }
    for (at, (_, content)) in extensions.iter().enumerate() {
        rest.push((content.len() / 4 + 1) as u8);
        rest.extend(*content);
        rest.push(extensions.get(at + 1).map_or(0, |(next, _)| *next));
    }
    rest.extend(payload);
    let mut bytes = vec![if extensions.is_empty() { 0x30 } else { 0x34 }, message];
    push(&mut bytes, &[rest.len() as u16]);
    bytes.extend(teid.to_be_bytes());
    bytes.extend(rest);
    bytes
}

/// L2TPv3 on IP: session, cookie, L2-specific sublayer.
pub fn l2tp_on_ip(session: u32, cookie: &[u8], sublayer: Option<u32>, frame: &[u8]) -> Vec<u8> {
    let mut bytes = session.to_be_bytes().to_vec();
    bytes.extend(cookie);
    bytes.extend(sublayer.into_iter().flat_map(u32::to_be_bytes));
    bytes.extend(frame);
    bytes
}

/// L2TPv3 on UDP.
pub fn l2tp_on_udp(session: u32, cookie: &[u8], sublayer: Option<u32>, frame: &[u8]) -> Vec<u8> {
    [&[0, 3, 0, 0], &l2tp_on_ip(session, cookie, sublayer, frame)[..]].concat()
}

/// TZSP, a received packet of this protocol (1 Ethernet, 18 IEEE 802.11) with these tags, followed by the end tag.
pub fn tzsp(protocol: u16, tags: &[u8], frame: &[u8]) -> Vec<u8> {
    let [high, low] = protocol.to_be_bytes();
    [&[1, 0, high, low], tags, &[1], frame].concat()
}

fn push(bytes: &mut Vec<u8>, words: &[u16]) {
    bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
}

fn set_ipv4_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    // RFC 1071, literally.
    let mut sum: u32 = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    header[10..12].copy_from_slice(&(!sum as u16).to_be_bytes());
}
