//! Every kind of tunnel around every kind of frame in every kind of outer packet, made here and so
//! known in advance. Also used by the tests of quaff-cli, beside the reference decapsulator.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use quaff_testpackets::{self as build, Erspan, ErspanIii, Gre};
use quaff_wire::tunnel::TunnelKind;
use std::net::{Ipv4Addr, Ipv6Addr};

pub const ETHERNET: u16 = 1;
pub const RAW: u16 = 101;
pub const NULL: u16 = 0;
pub const PPP: u16 = 9;
pub const C_HDLC: u16 = 104;
const SLL: u16 = 113;
const SLL2: u16 = 276;

pub const A4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const B4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub const A6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
pub const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

/// A frame and what is in it.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    pub link: u16,
    pub frame: Vec<u8>,
    pub inner: Vec<u8>,
    pub inner_link: u16,
    pub kind: TunnelKind,
    pub id: Option<u32>,
    pub sequence: Option<u32>,
}

/// A tunnel around something, as the payload of an IP packet.
#[derive(Debug, Clone)]
pub struct Wrapped {
    pub name: String,
    pub protocol: u8,
    pub payload: Vec<u8>,
    pub inner: Vec<u8>,
    pub inner_link: u16,
    pub kind: TunnelKind,
    pub id: Option<u32>,
    pub sequence: Option<u32>,
}

/// Frames without a tunnel, of which every tunnel is made.
pub fn frames() -> Vec<Vec<u8>> {
    let [v4, v6, _] = packets();
    let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1];
    arp.resize(46, 0x11);
    vec![
        build::ethernet(&[], 0x0800, &v4),
        build::ethernet(&[(0x8100, 0x6065)], 0x86dd, &v6),
        build::ethernet(&[(0x88a8, 0x00c8), (0x8100, 0x07d1)], 0x0806, &arp),
    ]
}

/// Packets without a tunnel: IPv4, IPv6, and a long IPv4.
pub fn packets() -> [Vec<u8>; 3] {
    let data: Vec<u8> = (0..=255).cycle().take(1400).collect();
    [
        build::ipv4(B4, A4, 17, &[], &build::udp(1024, 53, &data[..30])),
        build::ipv6(B6, A6, 17, &build::udp(1024, 53, &data[..77])),
        build::ipv4(B4, A4, 6, &[], &data),
    ]
}

/// Every tunnel around every frame and packet.
pub fn wrapped() -> Vec<Wrapped> {
    let mut all = Vec::new();
    for frame in frames() {
        around_frame(&mut all, &frame);
    }
    for packet in packets() {
        around_packet(&mut all, &packet);
    }
    all
}

/// Every outer packet around every tunnel.
pub fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for wrapped in wrapped() {
        for (outer, link, frame) in outers(wrapped.protocol, &wrapped.payload) {
            let Wrapped { name, inner, inner_link, kind, id, sequence, .. } = wrapped.clone();
            all.push(Case {
                name: format!("{name} in {outer}"),
                link,
                frame,
                inner,
                inner_link,
                kind,
                id,
                sequence,
            });
        }
    }
    for (inner, inner_link) in packets().map(|packet| (packet, RAW)).into_iter().chain(with_link(frames())) {
        let frame = build::ethernet(&[(0x8100, 7)], 0x8847, &build::mpls(&[16, 17, 18], &inner));
        let (kind, id) = (TunnelKind::Mpls, Some(18));
        let name = "mpls on ethernet".to_string();
        all.push(Case { name, link: ETHERNET, frame, inner, inner_link, kind, id, sequence: None });
    }
    // Labels on links without Ethernet.
    for (inner, inner_link) in packets().map(|packet| (packet, RAW)).into_iter().chain(with_link(frames())) {
        let labels = build::mpls(&[16, 19], &inner);
        for (name, link, head) in [
            ("ppp", PPP, &[0x02, 0x81][..]),
            ("ppp with an address", PPP, &[0xff, 3, 2, 0x81]),
            ("hdlc of cisco", C_HDLC, &[0x0f, 0, 0x88, 0x47]),
        ] {
            let (name, frame) = (format!("mpls on {name}"), [head, &labels].concat());
            let (inner, kind, id) = (inner.clone(), TunnelKind::Mpls, Some(19));
            all.push(Case { name, link, frame, inner, inner_link, kind, id, sequence: None });
        }
    }
    all
}

fn with_link(frames: Vec<Vec<u8>>) -> impl Iterator<Item = (Vec<u8>, u16)> {
    frames.into_iter().map(|frame| (frame, ETHERNET))
}

/// Ways to carry an IP payload.
pub fn outers(protocol: u8, payload: &[u8]) -> Vec<(&'static str, u16, Vec<u8>)> {
    let v4 = build::ipv4(A4, B4, protocol, &[], payload);
    let options = build::ipv4(A4, B4, protocol, &[1; 12], payload);
    let v6 = build::ipv6(A6, B6, protocol, payload);
    let extended = build::ipv6(A6, B6, 0, &build::ipv6_options(60, &build::ipv6_options(protocol, payload)));
    let sll = [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0x08, 0x00][..], &v4].concat();
    let mut sll2 = vec![0x86, 0xdd, 0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    sll2.extend(&v6);
    let pppoe = |protocol: &[u8], packet: &[u8]| {
        let length = (protocol.len() + packet.len()) as u16;
        [&[0x11, 0, 0, 1][..], &length.to_be_bytes(), protocol, packet].concat()
    };
    let snap = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &v4].concat();
    let backbone = [&[0, 0, 0, 1][..], &build::ethernet(&[(0x88a8, 7)], 0x86dd, &v6)].concat();
    let length = u16::try_from(snap.len()).ok().filter(|length| *length <= 1500);
    let mut all = vec![
        ("ipv4", ETHERNET, build::ethernet(&[], 0x0800, &v4)),
        ("vlan ipv4 with options", ETHERNET, build::ethernet(&[(0x8100, 5)], 0x0800, &options)),
        ("qinq ipv6", ETHERNET, build::ethernet(&[(0x88a8, 5), (0x8100, 6)], 0x86dd, &v6)),
        ("3 tags ipv6 with extensions", ETHERNET, build::ethernet(&[(0x9100, 5); 3], 0x86dd, &extended)),
        ("cooked ipv4", SLL, sll),
        ("cooked 2 ipv6", SLL2, sll2),
        ("pppoe ipv6", ETHERNET, build::ethernet(&[(0x8100, 9)], 0x8864, &pppoe(&[0, 0x57], &v6))),
        ("pppoe ipv4, short protocol", ETHERNET, build::ethernet(&[], 0x8864, &pppoe(&[0x21], &v4))),
        ("backbone ipv6", ETHERNET, build::ethernet(&[], 0x88e7, &backbone)),
        ("loopback ipv6", NULL, [&[30, 0, 0, 0], &v6[..]].concat()),
        ("loopback ipv4", NULL, [&[0, 0, 0, 2], &v4[..]].concat()),
        ("ppp ipv4, short protocol", PPP, [&[0x21], &v4[..]].concat()),
        ("hdlc of cisco in ppp", PPP, [&[0x0f, 0, 0x86, 0xdd], &v6[..]].concat()),
        ("raw ipv4", RAW, v4.clone()),
        ("ppp ipv6", PPP, [&[0xff, 3, 0, 0x57], &v6[..]].concat()),
        ("hdlc of cisco ipv4", C_HDLC, [&[0x8f, 0, 8, 0], &v4[..]].concat()),
        ("raw ipv6", RAW, v6),
    ];
    all.extend(length.map(|length| ("snap ipv4", ETHERNET, build::ethernet(&[], length, &snap))));
    all
}

struct Around<'a> {
    all: &'a mut Vec<Wrapped>,
    inner: &'a [u8],
    link: u16,
}

impl Around<'_> {
    fn add(&mut self, name: &str, protocol: u8, kind: TunnelKind, id: Option<u32>, payload: Vec<u8>) {
        self.all.push(Wrapped {
            name: format!("{name} around {} bytes", self.inner.len()),
            protocol,
            payload,
            inner: self.inner.to_vec(),
            inner_link: self.link,
            kind,
            id,
            sequence: None,
        });
    }

    fn udp(&mut self, name: &str, port: u16, kind: TunnelKind, id: Option<u32>, payload: &[u8]) {
        self.add(name, 17, kind, id, build::udp(50_000, port, payload));
    }

    fn numbered(&mut self, sequence: u32) {
        self.all.last_mut().expect("something was added").sequence = Some(sequence);
    }

    /// GRE with each combination of its optional fields.
    fn gre(&mut self, protocol: u16) {
        for bits in 0..16u32 {
            let fields = Gre {
                checksum: bits & 1 != 0,
                key: (bits & 2 != 0).then_some(77),
                sequence: (bits & 4 != 0).then_some(9),
                route: (bits & 8 != 0).then_some(&[10, 0, 0, 9]),
            };
            let payload = build::gre(&fields, protocol, self.inner);
            self.add(&format!("gre {bits:04b}"), 47, TunnelKind::Gre, fields.key, payload);
            self.all.last_mut().unwrap().sequence = fields.sequence;
        }
    }
}

fn around_frame(all: &mut Vec<Wrapped>, inner: &[u8]) {
    let mut around = Around { all, inner, link: ETHERNET };
    let header = Erspan { session: 1023, vlan: 100, ..Erspan::default() };
    around.add("erspan i", 47, TunnelKind::Erspan, None, build::erspan_i(inner));
    around.add("erspan ii", 47, TunnelKind::Erspan, Some(1023), build::erspan_ii(5, &header, 0xfffff, inner));
    around.numbered(5);
    let plain = build::erspan_iii(u32::MAX, &header, &ErspanIii::default(), inner);
    around.add("erspan iii", 47, TunnelKind::Erspan, Some(1023), plain);
    around.numbered(u32::MAX);
    let more = ErspanIii { platform: Some([0x0c; 8]), ..ErspanIii::default() };
    around.add(
        "erspan iii platform",
        47,
        TunnelKind::Erspan,
        Some(1023),
        build::erspan_iii(6, &header, &more, inner),
    );
    around.numbered(6);
    around.gre(0x6558);
    let key = Gre { key: Some(0x1234_5678), ..Gre::default() };
    let in_udp = Gre { key: Some(9), sequence: Some(4), ..Gre::default() };
    around.udp("gre in udp", 4754, TunnelKind::Gre, Some(9), &build::gre(&in_udp, 0x6558, inner));
    around.numbered(4);
    around.udp("erspan in gre in udp", 4754, TunnelKind::Erspan, None, &build::erspan_i(inner));
    around.add("nvgre", 47, TunnelKind::Nvgre, Some(0x123456), build::gre(&key, 0x6558, inner));
    around.udp("vxlan", 4789, TunnelKind::Vxlan, Some(0xabcdef), &build::vxlan(0xabcdef, inner));
    around.udp("vxlan of linux", 8472, TunnelKind::Vxlan, Some(42), &build::vxlan(42, inner));
    around.udp("gpe", 4790, TunnelKind::Vxlan, Some(42), &build::vxlan_gpe(42, 3, inner));
    around.udp("gpe without next protocol", 4790, TunnelKind::Vxlan, Some(43), &build::vxlan(43, inner));
    around.udp("geneve", 6081, TunnelKind::Geneve, Some(10), &build::geneve(10, 0x6558, &[], inner));
    around.udp(
        "geneve options",
        6081,
        TunnelKind::Geneve,
        Some(10),
        &build::geneve(10, 0x6558, &[9; 252], inner),
    );
    let word = [&[0; 4], inner].concat();
    around.udp("pseudowire", 6635, TunnelKind::Mpls, Some(21), &build::mpls(&[20, 21], inner));
    around.udp("pseudowire with word", 6635, TunnelKind::Mpls, Some(21), &build::mpls(&[20, 21], &word));
    around.udp("entropy label", 6635, TunnelKind::Mpls, Some(21), &build::mpls(&[21, 7, 99_999], inner));
    let on_gre = build::gre(&Gre::default(), 0x8847, &build::mpls(&[21], inner));
    around.add("pseudowire on gre", 47, TunnelKind::Mpls, Some(21), on_gre);
    around.add("pseudowire on ip", 137, TunnelKind::Mpls, Some(22), build::mpls(&[22], inner));
    for (cookie, sublayer) in [
        (&[][..], Some(0)),
        (&[], None),
        (&[0xc0; 4], Some(0x40_000007)),
        (&[0xc0; 8], Some(0)),
        (&[0xc0; 4], None),
    ] {
        let name = format!("l2tp cookie {} sublayer {sublayer:?}", cookie.len());
        around.add(&name, 115, TunnelKind::L2tp, Some(3), build::l2tp_on_ip(3, cookie, sublayer, inner));
        around.udp(&name, 1701, TunnelKind::L2tp, Some(3), &build::l2tp_on_udp(3, cookie, sublayer, inner));
    }
    around.udp("tzsp", 37008, TunnelKind::Tzsp, None, &build::tzsp(1, &[], inner));
    around.udp(
        "tzsp tags",
        37008,
        TunnelKind::Tzsp,
        None,
        &build::tzsp(1, &[0, 10, 1, 200, 18, 1, 6], inner),
    );
}

fn around_packet(all: &mut Vec<Wrapped>, inner: &[u8]) {
    let v4 = inner[0] >> 4 == 4;
    let (ethertype, gpe, protocol) = if v4 { (0x0800, 1, 4) } else { (0x86dd, 2, 41) };
    let mut around = Around { all, inner, link: RAW };
    around.gre(ethertype);
    let ip = ErspanIii { frame_type: 2, ..ErspanIii::default() };
    let iii = build::erspan_iii(7, &Erspan { session: 1, ..Erspan::default() }, &ip, inner);
    around.add("erspan iii ip", 47, TunnelKind::Erspan, Some(1), iii);
    around.numbered(7);
    around.udp("gpe", 4790, TunnelKind::Vxlan, Some(42), &build::vxlan_gpe(42, gpe, inner));
    around.udp(
        "gpe mpls",
        4790,
        TunnelKind::Vxlan,
        Some(42),
        &build::vxlan_gpe(42, 5, &build::mpls(&[16], inner)),
    );
    around.udp("geneve", 6081, TunnelKind::Geneve, Some(10), &build::geneve(10, ethertype, &[1; 8], inner));
    around.udp("gre in udp", 4754, TunnelKind::Gre, None, &build::gre(&Gre::default(), ethertype, inner));
    if v4 {
        around.add("wccp", 47, TunnelKind::Gre, None, build::gre(&Gre::default(), 0x883e, inner));
        let redirected = [&[0x80, 90, 0, 3], inner].concat();
        around.add("wccp 2", 47, TunnelKind::Gre, None, build::gre(&Gre::default(), 0x883e, &redirected));
    }
    around.add("ip in ip", protocol, TunnelKind::Ipip, None, inner.to_vec());
    around.udp("mpls", 6635, TunnelKind::Mpls, Some(21), &build::mpls(&[20, 21], inner));
    let null = if v4 { 0 } else { 2 };
    around.udp("explicit null", 6635, TunnelKind::Mpls, Some(null), &build::mpls(&[null], inner));
    let numbered = Gre { sequence: Some(8), ..Gre::default() };
    let on_gre = build::gre(&numbered, 0x8847, &build::mpls(&[21], inner));
    around.add("mpls on gre", 47, TunnelKind::Mpls, Some(21), on_gre);
    around.numbered(8);
    around.udp("gtp", 2152, TunnelKind::Gtp, Some(0xdead), &build::gtp(255, 0xdead, &[], inner));
    let extensions: &[(u8, &[u8])] = &[(0x85, &[1, 2]), (0xc0, &[3; 6])];
    around.udp("gtp extensions", 2152, TunnelKind::Gtp, Some(1), &build::gtp(255, 1, extensions, inner));
}
