//! Any frame, any plan: nothing panics, lengths are right, fragments fit and reassemble to the whole.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_wire::flow::FlowCount;
use quaff_wire::net;
use quaff_wire::rewrite::{AddressMaps, Fit, FixLength, Mtu, MtuPolicy, Rewrite, Ttl};

fn plan(choice: u16, seed: u64) -> Rewrite {
    let has = |bit: u16| choice >> bit & 1 == 1;
    let maps = ["10.0.0.0/8:172.16.0.0/12", "[fd00::/8]:[2001:db8::/32]"].map(|word| word.parse().unwrap());
    let maps = AddressMaps::new(if has(0) { &maps } else { &[] }, has(1).then_some(seed));
    let words = |words: &[&str]| words.iter().map(|word| word.parse().unwrap()).collect();
    Rewrite {
        dst_mac: [has(2).then_some([2; 6]), None],
        src_mac: [None, has(3).then_some([4; 6])],
        src_ip: maps.clone(),
        dst_ip: if has(4) { maps } else { AddressMaps::default() },
        ports: if has(5) { vec!["0-32767:32768-65535".parse().unwrap()] } else { vec![] },
        tags: match choice >> 6 & 3 {
            0 => vec![],
            1 => words(&["push:5"]),
            2 => words(&["pop"]),
            _ => words(&["set:vid=7,pcp=1"]),
        },
        ttl: has(8).then_some(Ttl::Subtract(seed as u8)),
        traffic_class: has(9).then_some((seed & 63).to_string().parse().unwrap()),
        flow_label: has(10).then_some(seed as u32),
        length: [None, Some(FixLength::Pad), Some(FixLength::Cut), Some(FixLength::Drop)]
            [usize::from(choice >> 11 & 3)],
        fix_checksums: has(13),
    }
}

fn fragment(frame: &[u8], mtu: usize) {
    let mut maker = Mtu::new(mtu, MtuPolicy::Fragment);
    if maker.fit(&mut frame.to_vec(), frame.len() as u32) != Fit::Fragmented {
        return;
    }
    let ip = net::layers(frame).and_then(|layers| layers.ip).expect("only IP is fragmented");
    let mut bytes = 0;
    for piece in maker.fragments() {
        assert_eq!(Mtu::new(mtu, MtuPolicy::Fail).fit(&mut piece.to_vec(), piece.len() as u32), Fit::Whole);
        let piece = net::layers(piece).and_then(|layers| layers.ip).expect("still IP");
        bytes += piece.end - piece.transport;
    }
    if !ip.is_v6() {
        assert_eq!(bytes, ip.end - ip.transport);
    }
}

fuzz_target!(|input: (u16, u64, u16, u8, &[u8])| {
    let (choice, seed, more, mtu, bytes) = input;
    let wire_len = bytes.len() as u32 + u32::from(more);
    let plan = plan(choice, seed);
    let mut frame = bytes.to_vec();
    match plan.apply(&mut frame, wire_len, (choice >> 14) as u8) {
        None => assert!(plan.length.is_some() && more > 0),
        Some(wire_len) => assert!(frame.len() <= wire_len as usize),
    }
    if plan == Rewrite::default() {
        assert_eq!(frame, bytes);
    }
    if plan.keeps_length() {
        let mut edited = bytes.to_vec();
        plan.edit(&mut edited, (choice >> 14) as u8);
        assert_eq!(edited, frame);
    }
    fragment(bytes, mtu.into());
    fragment(&frame, mtu.into());
    let mut count = FlowCount::default();
    count.add(bytes, 0);
    let counts = count.counts;
    assert_eq!(counts.flow_packets + counts.non_flow_packets + counts.invalid_packets, 1);
});
