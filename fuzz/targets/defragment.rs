//! Any fragments of a few datagrams, under any policy: no panic, each byte has a fate, limits hold, and a whole
//! datagram is made of bytes that came for it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_stream::fragment::{
    DatagramKey, Defragmenter, FragmentEvent, FragmentPacket, FragmentPlan, FragmentSink,
};
use quaff_stream::policy::FragmentPolicy;
use quaff_wire::net::DatagramId;

struct Receiver;

impl FragmentSink for Receiver {
    fn event(&mut self, key: &DatagramKey, event: FragmentEvent) {
        if let FragmentEvent::Whole { payload, .. } = event {
            assert!(!payload.is_empty());
            assert!(payload.iter().all(|byte| u32::from(*byte) % 8 == key.datagram.id));
        }
    }
}

type Step = (u8, u16, u16, u8);

fuzz_target!(|input: (u8, u16, u8, Vec<Step>)| {
    let (policy, limit_bytes, datagrams_max, steps) = input;
    let policy = FragmentPolicy::ALL[usize::from(policy) % FragmentPolicy::ALL.len()].1;
    let plan = FragmentPlan {
        limit_bytes: limit_bytes.into(),
        datagrams_max: 1 + usize::from(datagrams_max % 9),
        wait_ns: 100,
    };
    let (mut defragmenter, mut time_ns) = (Defragmenter::new(plan), 0);
    for (number, (what, offset, len, wait_ns)) in steps.into_iter().enumerate() {
        time_ns += u64::from(wait_ns);
        let id = u32::from(what % 8);
        let payload = vec![(number as u8) << 3 | id as u8; usize::from(len % 3000)];
        let addresses = match what & 64 {
            0 => [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()],
            _ => [[1u16; 8].into(), [2u16; 8].into()],
        };
        let packet = FragmentPacket {
            offset: offset & 0xfff8,
            more: what & 16 != 0,
            protocol: if what & 32 != 0 { 6 } else { 17 },
            header: &payload,
            payload: &payload,
            wire_bytes: payload.len() as u32 + u32::from(what & 128 != 0),
            time_ns,
        };
        let datagram = DatagramId { addresses, id, protocol: 17 };
        let key = DatagramKey { datagram, vlan: 0, tunnel: 0 };
        defragmenter.take(key, policy, &packet, &mut Receiver);
        assert!(defragmenter.tally().is_balanced(), "{:?}", defragmenter.tally());
        assert!(defragmenter.used_bytes() <= u64::from(limit_bytes) + 4000);
    }
    defragmenter.finish(&mut Receiver);
    assert!(defragmenter.tally().is_balanced() && defragmenter.used_bytes() == 0);
});
