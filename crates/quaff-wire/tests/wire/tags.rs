//! Every reader of frames knows the same VLAN tags: what is rewritten is also split, decapsulated, counted and
//! compared.

use quaff_testpackets as build;
use quaff_wire::fingerprint::{Mask, sketch};
use quaff_wire::flow::FlowCount;
use quaff_wire::linktype::ETHERNET;
use quaff_wire::net::{self, UDP};
use quaff_wire::split::frame_flow;
use quaff_wire::tunnel::{Outcome, TunnelKinds, strip};
use std::net::Ipv4Addr;

const TPIDS: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];

fn frame(tags: &[(u16, u16)]) -> Vec<u8> {
    let [a, b] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
    let inner =
        build::ethernet(&[], 0x0800, &build::ipv4(b, a, UDP, &[], &build::udp(5000, 53, b"question")));
    let vxlan = build::udp(4000, 4789, &build::vxlan(7, &inner));
    build::ethernet(tags, 0x0800, &build::ipv4(a, b, UDP, &[], &vxlan))
}

fn stacks() -> impl Iterator<Item = Vec<(u16, u16)>> {
    let one_to_six = |tpid| (1..=6).map(move |depth| vec![(tpid, 5); depth]);
    TPIDS.into_iter().flat_map(one_to_six).chain([TPIDS.map(|tpid| (tpid, 9)).to_vec()])
}

#[test]
fn all_readers_skip_the_same_tags() {
    let untagged = frame(&[]);
    let plain = net::layers(&untagged).expect("Ethernet").ip.expect("IP");
    let by = "ports".parse().expect("a field");
    let flow = |bytes: &[u8]| {
        frame_flow(bytes, bytes.len() as u32, ETHERNET.linktype, by, (TunnelKinds::default(), 0))
    };
    for tags in stacks() {
        let bytes = frame(&tags);
        let shift = bytes.len() - untagged.len();
        let layers = net::layers(&bytes).expect("Ethernet");
        assert_eq!((layers.tags, layers.network), (tags.len(), 14 + shift), "rewrite {tags:x?}");
        assert_eq!(layers.ip.map(|ip| ip.transport), Some(plain.transport + shift), "rewrite {tags:x?}");
        assert_eq!(flow(&bytes).key, flow(&untagged).key, "split {tags:x?}");
        let outcome = strip(&bytes, bytes.len() as u32, ETHERNET.linktype, TunnelKinds::ALL, 1);
        let Outcome::Inner(inner) = outcome else { panic!("decap {tags:x?}: {outcome:?}") };
        assert_eq!(inner.start as usize, 50 + shift, "decap {tags:x?}");
        let mut count = FlowCount::default();
        assert!(count.add(&untagged, 0) && !count.add(&bytes, 0), "flow count {tags:x?}");
        let sketch = |bytes| sketch(bytes, ETHERNET.linktype, &Mask::default());
        assert_eq!(sketch(&bytes).flow, sketch(&untagged).flow, "fingerprint {tags:x?}");
    }
}
