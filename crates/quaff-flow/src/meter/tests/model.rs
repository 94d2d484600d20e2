//! The rules implemented a second time, slowly and simply: a map of conversations with lists of packets, all searched
//! for each packet.

use super::*;
use crate::packet::Clock;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Protocol, version, VLAN, and the two ends, the lower one first in a biflow.
type Ends = (u8, bool, [u16; 2], [(u8, u16); 2]);

#[derive(Debug, Clone, Default)]
struct Conversation {
    piece: Vec<Spec>,
    /// Time of the last packet of each direction, in the piece or before it.
    last_ns: BTreeMap<[(u8, u16); 2], u64>,
    source: Option<([(u8, u16); 2], u8)>,
    tcp: Tcp,
    is_continued: bool,
    /// Type of service of the conversation's first packet.
    tos: Option<u8>,
}

/// The packets of a connection that decide about its begin and end.
#[derive(Debug, Clone, Default)]
struct Tcp {
    /// The last SYN: its ends and its number.
    syn: Option<([(u8, u16); 2], u32)>,
    /// It may begin another connection.
    is_attempt: bool,
    fins: Vec<[(u8, u16); 2]>,
    /// A packet came after FIN of both ends.
    is_over: bool,
    /// The last reset, unless it was refuted.
    reset: Option<Reset>,
    is_answered: bool,
    had_syn: bool,
}

#[derive(Debug, Clone, Copy)]
struct Reset {
    ends: [(u8, u16); 2],
    /// The next number that the other end expects if it takes the reset.
    received: Option<u32>,
}

impl Tcp {
    fn has_fins(&self, there: [(u8, u16); 2]) -> bool {
        self.fins.contains(&there) && self.fins.contains(&reversed(there))
    }

    fn is_closed(&self, there: [(u8, u16); 2]) -> bool {
        self.reset.is_some() || self.has_fins(there)
    }

    fn is_another(&self, spec: &Spec) -> bool {
        let there = ends(spec);
        if let (true, Some((syn_ends, number))) = (self.is_attempt, self.syn) {
            let is_next = |of: u32| of == number.wrapping_add(1);
            let is_answer = spec.flags & ACK != 0 && spec.flags & (SYN | RST) != 0;
            let is_third = spec.flags & ACK != 0 && spec.flags & (SYN | RST) == 0;
            if there == reversed(syn_ends) && is_answer && is_next(spec.acknowledgment)
                || there == syn_ends && is_third && is_next(spec.sequence)
            {
                return true;
            }
        }
        let is_syn = spec.flags & (SYN | ACK | RST) == SYN;
        let is_over = self.reset.is_some() || self.has_fins(there) && self.is_over;
        is_syn && is_over && self.syn != Some((there, spec.sequence))
    }

    fn add(&mut self, spec: &Spec) {
        let there = ends(spec);
        if spec.flags & RST != 0 {
            self.add_reset(spec);
        } else {
            self.reset = self.reset.filter(|reset| !reset.is_refuted_by(spec));
            self.add_other(spec, there);
        }
        self.is_answered |= spec.flags & (ACK | RST) == ACK;
    }

    fn add_other(&mut self, spec: &Spec, there: [(u8, u16); 2]) {
        if self.has_fins(there) && spec.flags & (SYN | FIN) == 0 {
            self.is_over = true;
        }
        if spec.flags & (SYN | ACK) == SYN {
            if self.syn != Some((there, spec.sequence)) && !self.is_attempt {
                let is_closing = self.has_fins(there) && !self.is_over;
                self.is_attempt = self.had_syn && self.is_answered || is_closing;
                self.syn = Some((there, spec.sequence));
                self.had_syn = true;
            }
        } else if spec.flags & SYN == 0 && self.syn.is_some_and(|(ends, _)| ends == there) {
            self.is_attempt = false;
        }
        if spec.flags & FIN != 0 && !self.has_fins(there) {
            self.fins.push(there);
            self.is_over = self.has_fins(there) && self.reset.is_some();
        }
    }

    fn add_reset(&mut self, spec: &Spec) {
        let there = ends(spec);
        self.is_attempt = false;
        if self.has_fins(there) {
            self.is_over = true;
            return;
        }
        let is_handshake = self.had_syn && !self.is_answered;
        let received = match (is_handshake, self.syn) {
            (true, Some((syn_ends, number))) => (syn_ends == there).then_some(number),
            _ => {
                // The number of the SYN is forgotten.
                self.syn = self.had_syn.then_some((there, spec.sequence));
                Some(spec.sequence)
            }
        };
        self.reset = Some(Reset { ends: there, received });
    }
}

impl Reset {
    fn is_refuted_by(&self, spec: &Spec) -> bool {
        let has_received = |number: u32| {
            let ahead = spec.acknowledgment.wrapping_sub(number) as i32;
            !(-(1 << 30)..=0).contains(&ahead)
        };
        ends(spec) == self.ends || spec.flags & ACK != 0 && self.received.is_some_and(has_received)
    }
}

pub(super) struct Model {
    plan: MeterPlan,
    live: BTreeMap<Ends, Conversation>,
    pub(super) records: Vec<FlowRecord>,
    clock_ns: u64,
}

fn ends(spec: &Spec) -> [(u8, u16); 2] {
    // ICMP type and code replace both ports; a reply counts as its request.
    let port = |port: u16| match (spec.protocol, port) {
        (1, 0) => 0x800,
        (58, 0x8100) => 0x8000,
        _ => port,
    };
    [(spec.hosts[0], port(spec.ports[0])), (spec.hosts[1], port(spec.ports[1]))]
}

fn reversed([one, other]: [(u8, u16); 2]) -> [(u8, u16); 2] {
    [other, one]
}

impl Conversation {
    fn idle_due(&self, plan: &MeterPlan) -> u64 {
        let last = self.last_ns.values().max().unwrap();
        last + if self.is_closed() { plan.linger_ns } else { plan.idle_ns }
    }

    fn active_due(&self, plan: &MeterPlan) -> u64 {
        self.piece.iter().map(|spec| spec.time_ns).min().map_or(u64::MAX, |first| first + plan.active_ns)
    }

    fn evidence(spec: &Spec) -> ([(u8, u16); 2], u8) {
        let there = ends(spec);
        let back = reversed(there);
        match (spec.protocol, spec.flags & (SYN | ACK), spec.ports) {
            (6, SYN, _) => (there, 1),
            (6, flags, _) if flags == SYN | ACK => (back, 2),
            (1, _, [0x800, _]) | (58, _, [0x8000, _]) => (there, 3),
            (1, _, [0, _]) | (58, _, [0x8100, _]) => (back, 3),
            (6 | 17, _, [from, to]) if from < 1024 && to >= 32768 => (back, 4),
            _ => (there, 5),
        }
    }

    fn is_closed(&self) -> bool {
        self.last_ns.keys().any(|there| self.tcp.is_closed(*there))
    }

    fn is_another(&self, spec: &Spec) -> bool {
        spec.protocol == 6 && self.tcp.is_another(spec)
    }

    /// The conversation that a packet begins after this one: the SYN may be one of this one's.
    fn another(&self, spec: &Spec) -> Self {
        let mut another = Self::default();
        if let (true, false, Some((ends, _))) =
            (self.tcp.is_attempt, spec.flags & (SYN | ACK) == SYN, self.tcp.syn)
        {
            another.tcp = Tcp { syn: self.tcp.syn, had_syn: true, ..Tcp::default() };
            another.source = Some((ends, 1));
        }
        another
    }

    fn add(&mut self, spec: &Spec) {
        let there = ends(spec);
        let is_first = self.piece.iter().all(|of| ends(of) != there);
        let last = self.last_ns.entry(there).or_insert(spec.time_ns);
        *last = if is_first { spec.time_ns } else { spec.time_ns.max(*last) };
        self.piece.push(*spec);
        self.tos.get_or_insert(spec.tos);
        let found = Self::evidence(spec);
        if !self.is_continued
            && self
                .source
                .is_none_or(|(_, rule)| found.1 < rule && spec.protocol == 6 && spec.flags & SYN != 0)
        {
            self.source = Some(found);
        }
        if spec.protocol == 6 {
            self.tcp.add(spec);
        }
    }
}

impl Model {
    pub(super) fn new(plan: &MeterPlan) -> Self {
        Self { plan: plan.clone(), live: BTreeMap::new(), records: Vec::new(), clock_ns: 0 }
    }

    pub(super) fn take(&mut self, spec: &Spec) {
        self.clock_ns = self.clock_ns.max(spec.time_ns);
        self.end_what_is_due();
        let there = ends(spec);
        let key = (spec.protocol, spec.is_v6, [spec.vlan, spec.inner_vlan], there.min(reversed(there)));
        if self.live.get(&key).is_some_and(|of| of.is_another(spec)) {
            let of = self.live.remove(&key).unwrap();
            self.emit(&of, 3);
            self.live.insert(key, of.another(spec));
        }
        self.live.entry(key).or_default().add(spec);
    }

    fn end_what_is_due(&mut self) {
        for (key, mut of) in std::mem::take(&mut self.live) {
            let (idle, active) = (of.idle_due(&self.plan), of.active_due(&self.plan));
            if idle <= self.clock_ns && idle <= active {
                self.emit(&of, if of.is_closed() { 3 } else { 1 });
                continue;
            }
            if active <= self.clock_ns {
                self.emit(&of, 2);
                of.piece.clear();
                of.is_continued = true;
            }
            if idle > self.clock_ns {
                self.live.insert(key, of);
            }
        }
    }

    pub(super) fn finish(&mut self) {
        // A late packet may have moved a due time before the clock.
        self.end_what_is_due();
        for (_, of) in std::mem::take(&mut self.live) {
            self.emit(&of, if of.is_closed() { 3 } else { 4 });
        }
    }

    fn emit(&mut self, of: &Conversation, reason: u8) {
        if of.piece.is_empty() {
            return;
        }
        let (there, rule) = of.source.unwrap();
        let first = of.piece[0];
        let direction = |ends_of: [(u8, u16); 2]| {
            let mut sum = Direction::default();
            for spec in of.piece.iter().filter(|spec| ends(spec) == ends_of) {
                let (headers, ip) = (spec.frame().len() as u64, 14 + 4 * spec.tags() as u64);
                if sum.packets == 0 {
                    sum =
                        Direction { first_ns: spec.time_ns, tos: spec.tos, ttl_min: 64, ttl_max: 64, ..sum };
                }
                sum.packets += 1;
                sum.bytes += headers - ip;
                sum.first_ns = sum.first_ns.min(spec.time_ns);
                sum.last_ns = sum.last_ns.max(spec.time_ns);
                sum.tcp_flags |= if spec.protocol == 6 { spec.flags } else { 0 };
            }
            sum
        };
        let host = |last: u8| match first.is_v6 {
            false => Ipv4Addr::new(10, 0, 0, last).into(),
            true => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into()).into(),
        };
        let is_icmp = matches!(first.protocol, 1 | 58);
        let port = |port: u16| if is_icmp { 0 } else { port };
        let same = there[0] == there[1];
        self.records.push(FlowRecord {
            key: crate::record::RecordKey {
                source: host(there[0].0),
                destination: host(there[1].0),
                source_port: port(there[0].1),
                destination_port: port(there[1].1),
                protocol: first.protocol,
                icmp_type_code: if is_icmp { there[0].1 } else { 0 },
                vlan: first.vlan,
                inner_vlan: first.inner_vlan,
                mpls_label: 0,
                interface: 0,
                tos: of.tos.unwrap(),
                tunnel: 0,
            },
            forward: direction(there),
            reverse: if same { Direction::default() } else { direction(reversed(there)) },
            initiator: match rule {
                1 => InitiatorRule::Syn,
                2 => InitiatorRule::SynAck,
                3 => InitiatorRule::Icmp,
                4 => InitiatorRule::Ports,
                _ => InitiatorRule::First,
            },
            end_reason: match reason {
                1 => EndReason::Idle,
                2 => EndReason::Active,
                3 => EndReason::EndOfFlow,
                _ => EndReason::Forced,
            },
            is_continued: of.is_continued,
            extras: None,
        });
    }
}

/// Sorts records by their contents only.
pub(super) fn sorted(mut records: Vec<FlowRecord>) -> Vec<FlowRecord> {
    records.sort_by_key(|record| {
        let (there, back) = (record.forward, record.reverse);
        (record.key, there.first_ns, back.first_ns, there.packets, back.packets, record.end_reason)
    });
    records
}

/// Packets of few hosts and ports, so that they share flows; each is some ns after the previous one, or a little
/// earlier.
fn specs() -> impl Strategy<Value = Vec<Spec>> {
    let step = prop_oneof![
        6 => 0i64..2 * MS as i64,
        3 => 0i64..3 * SECOND as i64,
        1 => 0i64..40 * SECOND as i64,
        1 => -(3 * SECOND as i64)..0,
        1 => prop::sample::select(vec![2 * SECOND as i64, 30 * SECOND as i64, 120 * SECOND as i64]),
    ];
    let flags = prop::sample::select(vec![0, SYN, SYN | ACK, ACK, ACK, ACK | FIN, RST, RST | ACK]);
    let ends = (
        1u8..4,
        1u8..4,
        prop::sample::select(vec![80u16, 40_000, 5000]),
        prop::sample::select(vec![80u16, 40_000]),
    );
    let rest = (
        prop::sample::select(vec![6u8, 6, 6, 17, 1, 58, 47]),
        (0u32..3, 0u32..4),
        0u8..9,
        0u16..3,
        0u8..2,
        any::<bool>(),
    );
    let spec = (step, flags, ends, rest);
    prop::collection::vec(spec, 0..150).prop_map(|all| {
        let mut time_ns = Spec::default().time_ns;
        let spec = |(step, flags, (a, b, x, y), (protocol, numbers, payload, vlan, tos, is_v6))| {
            time_ns = u64::saturating_add_signed(time_ns, step);
            let ports = match protocol {
                1 => [[0x800, 0, 0x300, 0x800][usize::from(a)]; 2],
                58 => [[0x8000, 0x8100, 0x100, 0x8000][usize::from(a)]; 2],
                47 => [0; 2],
                _ => [x, y],
            };
            // ICMPv6 inside IPv4 does not count as ICMP, but the other rules apply.
            let [vlan, inner_vlan] = [[0; 2], [1, 0], [1, 2]][usize::from(vlan)];
            let hosts = [a, b];
            let (sequence, acknowledgment) = numbers;
            let spec =
                Spec { time_ns, hosts, ports, protocol, flags, sequence, acknowledgment, ..Spec::default() };
            Spec { payload, vlan, inner_vlan, tos, is_v6, ..spec }
        };
        all.into_iter().map(spec).collect()
    })
}

fn modelled(plan: &MeterPlan, specs: &[Spec]) -> Vec<FlowRecord> {
    let mut model = Model::new(plan);
    specs.iter().for_each(|spec| model.take(spec));
    model.finish();
    sorted(model.records)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_meter_follows_its_rules_in_any_batch(specs in specs(), batch in 1usize..70, active_s in prop::sample::select(vec![5u64, 120])) {
        let plan = MeterPlan { active_ns: active_s * SECOND, ..MeterPlan::default() };
        let records = metered(&plan, &Frames::of(&specs).packets(), batch);
        prop_assert_eq!(sorted(records), modelled(&plan, &specs));
    }

    #[test]
    fn lanes_make_no_difference(specs in specs(), lanes in 2usize..5, batch in 1usize..20) {
        let plan = MeterPlan { active_ns: 10 * SECOND, ..MeterPlan::default() };
        let mut meters: Vec<Meter> = (0..lanes).map(|lane| Meter::new(plan.clone(), [lane as u64, 7])).collect();
        let (mut clock, mut records, frames) = (Clock::new(plan.idle_ns), Vec::new(), Frames::of(&specs));
        for packets in frames.packets().chunks(batch) {
            let mut dealt = vec![Vec::new(); lanes];
            for packet in packets {
                let now = Some(clock.see(packet.time_ns));
                let lane = address_hash(9, packet.bytes, 1) as usize % lanes;
                dealt[lane].push(Packet { now, ..*packet });
            }
            meters.iter_mut().zip(&dealt).for_each(|(meter, packets)| meter.take(packets, &mut records));
        }
        for meter in &mut meters {
            meter.nudge(clock.now(), &mut records);
            meter.finish(&mut records);
            meter.ledger().check().unwrap();
        }
        prop_assert_eq!(sorted(records), modelled(&plan, &specs));
    }
}
