//! Synthetic traffic matches its recipe, and other parsers accept it.

use super::*;
use crate::net;
use crate::net::{TPID_CUSTOMER, VlanTag};
use crate::probe::{self, Classified, PORT};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

fn one_size(size: u32) -> Sizes {
    size.to_string().parse().unwrap()
}

fn recipe(kind: PacketKind) -> Recipe {
    Recipe {
        sizes: one_size(100),
        size_limits: (1, 9000),
        content: Content::Counting,
        link: LinkHeaders {
            dst_mac: [2, 0, 0, 0, 0, 2],
            src_mac: [2, 0, 0, 0, 0, 1],
            tags: Vec::new(),
            labels: Vec::new(),
        },
        tunnel: None,
        tuples: Tuples {
            src: "198.18.0.0/24".parse().unwrap(),
            dst: "198.19.0.1".parse().unwrap(),
            src_ports: Ports::from(7),
            dst_ports: Ports::from(PORT),
        },
        flows: Flows::default(),
        kind,
        fragment: None,
        damage: Damage::default(),
        stream: Some(7),
        seed: 1,
        start_ns: 1_700_000_000_000_000_000,
        count: None,
    }
}

fn v6(recipe: Recipe) -> Recipe {
    let (src, dst) = ("2001:db8::/112".parse().unwrap(), "2001:db8:1::1".parse().unwrap());
    Recipe { tuples: Tuples { src, dst, ..recipe.tuples }, ..recipe }
}

fn frames(recipe: Recipe, count: u64) -> Vec<Vec<u8>> {
    let mut synth = Synth::new(recipe).unwrap();
    (0..count).map(|n| synth.make(n * 1000).to_vec()).collect()
}

/// Asserts that all checksums are correct, and the length matches the headers except for padding.
fn assert_whole(frame: &[u8]) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap_or_else(|error| panic!("{error}: {frame:02x?}"));
    let transport = packet.transport.as_ref().expect("a transport header");
    match packet.net.as_ref().expect("an IP header") {
        NetSlice::Ipv4(ip) => {
            let ip = ip.header().to_header();
            assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            match transport {
                TransportSlice::Udp(udp) => {
                    let right = udp.to_header().calc_checksum_ipv4(&ip, udp.payload()).unwrap();
                    assert_eq!(udp.to_header().checksum, right);
                }
                TransportSlice::Tcp(tcp) => {
                    let right = tcp.to_header().calc_checksum_ipv4(&ip, tcp.payload()).unwrap();
                    assert_eq!(tcp.to_header().checksum, right);
                }
                TransportSlice::Icmpv4(icmp) => {
                    assert_eq!(crate::checksum::sum(icmp.slice()), 0xffff);
                }
                other => panic!("{other:?}"),
            }
        }
        NetSlice::Ipv6(ip) => {
            let ip = ip.header().to_header();
            match transport {
                TransportSlice::Udp(udp) => {
                    let right = udp.to_header().calc_checksum_ipv6(&ip, udp.payload()).unwrap();
                    assert_eq!(udp.to_header().checksum, right);
                }
                TransportSlice::Tcp(tcp) => {
                    let right = tcp.to_header().calc_checksum_ipv6(&ip, tcp.payload()).unwrap();
                    assert_eq!(tcp.to_header().checksum, right);
                }
                TransportSlice::Icmpv6(icmp) => {
                    assert!(icmp.is_checksum_valid(ip.source, ip.destination));
                }
                other => panic!("{other:?}"),
            }
        }
        other => panic!("{other:?}"),
    }
}

const KINDS: [PacketKind; 4] =
    [PacketKind::Udp, PacketKind::TcpSyn, PacketKind::TcpConversation { segments: 5 }, PacketKind::Icmp];

fn contents() -> impl Strategy<Value = Content> {
    let text = Content::Bytes(b"ququqThe quick brown fox".to_vec());
    prop::sample::select(vec![Content::Counting, Content::Zeros, Content::Ones, Content::Random, text])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_frame_is_whole_and_of_its_size(
        kind in prop::sample::select(KINDS.to_vec()), is_v6 in any::<bool>(), content in contents(),
        sizes in prop::collection::vec(1u32..2000, 1..5), seed in any::<u64>(), tagged in any::<bool>(),
        flows in 1u64..200,
    ) {
        let text: Vec<_> = sizes.iter().map(u32::to_string).collect();
        let mut recipe = recipe(kind);
        recipe = if is_v6 { v6(recipe) } else { recipe };
        recipe.sizes = text.join(",").parse().unwrap();
        recipe.content = content;
        recipe.seed = seed;
        recipe.flows.concurrent = flows;
        if tagged {
            recipe.link.tags = vec![VlanTag { tpid: TPID_CUSTOMER, tci: 5 }];
        }
        let (min, _) = recipe.frame_bytes();
        let probe_frame_bytes = recipe.probe_frame_bytes();
        for (frame, size) in frames(recipe.clone(), 20).iter().zip(sizes.iter().cycle()) {
            assert_whole(frame);
            if !matches!(kind, PacketKind::TcpConversation { .. }) {
                prop_assert_eq!(frame.len(), (*size).max(min) as usize);
            }
            let is_stamped = matches!(probe::classify(frame, frame.len()), Classified::Intact(_));
            let has_room = frame.len() >= probe_frame_bytes as usize;
            prop_assert_eq!(is_stamped, kind == PacketKind::Udp && has_room, "{:02x?}", frame);
            if !is_stamped {
                prop_assert_eq!(probe::classify(frame, frame.len()), Classified::Foreign);
            }
        }
    }

    #[test]
    fn damage_is_seen_by_a_reader(seed in any::<u64>(), is_v6 in any::<bool>(), size in 90u32..300) {
        let harms = if is_v6 { "checksum=30%,flip=40%,cut=30%" } else { "checksum=20%,ip-checksum=30%,flip=30%,cut=20%" };
        let mut recipe = recipe(PacketKind::Udp);
        recipe = if is_v6 { v6(recipe) } else { recipe };
        recipe.damage = harms.parse().unwrap();
        recipe.sizes = one_size(size);
        recipe.seed = seed;
        recipe.content = Content::Random;
        let mut synth = Synth::new(recipe).unwrap();
        for _ in 0..30 {
            let frame = synth.make(0).to_vec();
            let wrong = probe::classify(&frame, frame.len());
            prop_assert!(!matches!(wrong, Classified::Intact(_)), "{:02x?}", frame);
        }
        prop_assert_eq!(synth.made().damaged.iter().sum::<u64>(), 30);
    }
}

#[test]
fn the_same_seed_makes_the_same_frames() {
    let with = |seed| {
        let sizes = "imix".parse::<Sizes>().unwrap();
        let damage = "flip=5%".parse().unwrap();
        frames(Recipe { seed, sizes, damage, content: Content::Random, ..recipe(PacketKind::Udp) }, 200)
    };
    assert_eq!(with(5), with(5));
    assert_ne!(with(5), with(6));
}

#[test]
fn probe_headers_are_numbered_without_gaps_and_the_last_is_marked() {
    let mixed =
        Recipe { sizes: "50,90".parse::<Sizes>().unwrap(), count: Some(20), ..recipe(PacketKind::Udp) };
    let seqs: Vec<_> = frames(mixed, 20).iter().filter_map(|frame| probe_of(frame)).collect();
    assert_eq!(seqs.iter().map(|probe| probe.seq).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    assert!(seqs.iter().all(|probe| !probe.bounded), "who knows whether the last one has room");
    let all = Recipe { count: Some(20), ..recipe(PacketKind::Udp) };
    let probes: Vec<_> = frames(all, 20).iter().filter_map(|frame| probe_of(frame)).collect();
    assert!(probes.iter().all(|probe| probe.bounded && probe.last == (probe.seq == 19)));
    assert_eq!(probes[3].intended_ns, 1_700_000_000_000_003_000);
}

fn probe_of(frame: &[u8]) -> Option<probe::ProbeHeader> {
    match probe::classify(frame, frame.len()) {
        Classified::Intact(probe) => Some(probe),
        _ => None,
    }
}

#[test]
fn each_flow_has_its_own_tuple() {
    let flows = Flows { concurrent: 1, new: New::EachFrame };
    let all = frames(Recipe { flows, ..recipe(PacketKind::Udp) }, 256);
    let sources: HashSet<_> = all.iter().map(|frame| frame[26..30].to_vec()).collect();
    assert_eq!(sources.len(), 256);
}

#[test]
fn tunnels_are_right_outside_and_inside() {
    for tunnel in [Encapsulation::Erspan(5), Encapsulation::Vxlan(77)] {
        let sizes = "64,300".parse::<Sizes>().unwrap();
        let all = frames(Recipe { tunnel: Some(tunnel), sizes, ..recipe(PacketKind::Udp) }, 20);
        for (number, frame) in all.iter().enumerate() {
            let outer = net::layers(frame).and_then(|layers| layers.ip).expect("outer headers");
            assert_eq!(outer.end, frame.len());
            assert_eq!(crate::checksum::sum(&frame[14..34]), 0xffff);
            if let Encapsulation::Erspan(_) = tunnel {
                assert_eq!(frame[38..42], (number as u32).to_be_bytes());
            }
            let inner = &frame[50..];
            assert_whole(inner);
            assert_eq!(inner.len(), [64, 300][number % 2]);
            assert_eq!(probe_of(inner).expect("a probe").seq, number as u64);
        }
    }
}

#[test]
fn labels_stand_before_the_packet() {
    let mut recipe = recipe(PacketKind::Udp);
    recipe.link.labels = vec![16, 1_000_000];
    let frame = &frames(recipe.clone(), 1)[0];
    assert_eq!(frame.len(), 100);
    assert_eq!(frame[12..22], [0x88, 0x47, 0, 1, 0, 64, 0xf4, 0x24, 1, 64]);
    recipe.link.labels[0] = 1 << 20;
    assert_eq!(Synth::new(recipe).unwrap_err(), RecipeError::Label(1 << 20));
}

#[test]
fn pieces_make_the_datagram() {
    for recipe in [recipe(PacketKind::Udp), v6(recipe(PacketKind::Udp))] {
        let sizes = one_size(1000);
        let all = frames(Recipe { sizes, fragment: Some(300), content: Content::Random, ..recipe }, 8);
        let mut datagrams: HashMap<u32, (usize, usize)> = HashMap::new();
        for frame in &all {
            let ip = net::layers(frame).and_then(|layers| layers.ip).expect("IP");
            let fragment = ip.fragment.expect("a fragment");
            let bytes = ip.end - ip.transport;
            assert!(bytes <= 296 && (bytes.is_multiple_of(8) || !fragment.more));
            let (sum, ends) = datagrams.entry(fragment.id).or_default();
            *sum += bytes;
            *ends += usize::from(!fragment.more);
            assert_eq!(probe::classify(frame, frame.len()), Classified::Foreign, "a fragment has no probe");
        }
        let header_bytes = if all[0][12] == 8 { 34 } else { 54 };
        assert!(datagrams.values().all(|found| *found == (1000 - header_bytes, 1)), "{datagrams:?}");
        assert_eq!(datagrams.len(), 2);
    }
}

#[test]
fn impossible_recipes_are_refused() {
    let recipe = recipe(PacketKind::Udp);
    let with = |change: &dyn Fn(&mut Recipe)| {
        let mut changed = recipe.clone();
        change(&mut changed);
        Synth::new(changed).err()
    };
    assert_eq!(with(&|_| {}), None);
    assert_eq!(
        with(&|recipe| recipe.flows.concurrent = 257),
        Some(RecipeError::FewTuples { wanted: 257, there: 256 })
    );
    assert_eq!(with(&|recipe| recipe.flows.concurrent = 0), Some(RecipeError::NoFlows));
    assert_eq!(with(&|recipe| recipe.tuples.dst = "::1".parse().unwrap()), Some(RecipeError::Families));
    assert_eq!(with(&|recipe| recipe.fragment = Some(7)), Some(RecipeError::SmallFragments(7)));
    assert!(with(&|recipe| recipe.flows.new = New::PerSecond(f64::NAN)).is_some());
    let conversation = |recipe: &mut Recipe| {
        recipe.kind = PacketKind::TcpConversation { segments: 1 };
        recipe.flows.new = New::EachFrame;
    };
    assert_eq!(with(&conversation), Some(RecipeError::ConversationsBegin));
    let no_sum = |recipe: &mut Recipe| {
        *recipe = v6(recipe.clone());
        recipe.damage = "ip-checksum=1%".parse().unwrap();
    };
    assert_eq!(with(&no_sum), Some(RecipeError::NoHeaderChecksum));
}

#[test]
fn ends_of_a_conversation_answer_each_other() {
    let all =
        frames(Recipe { sizes: one_size(200), ..recipe(PacketKind::TcpConversation { segments: 4 }) }, 10);
    let back: Vec<_> =
        all.iter().map(|frame| frame[26..30] == Ipv4Addr::new(198, 19, 0, 1).octets()).collect();
    assert_eq!(back, [false, true, false, false, true, false, true, false, true, false]);
    for frame in &all {
        assert_whole(frame);
        assert_eq!(frame[..6] == [2, 0, 0, 0, 0, 1], frame[26..30] == Ipv4Addr::new(198, 19, 0, 1).octets());
    }
    assert_eq!(all[0].len(), 60);
    assert_eq!(all[3].len(), 200);
}
