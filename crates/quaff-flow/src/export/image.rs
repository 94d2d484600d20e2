//! Encodes records of fixed length by a list of stores, which is made once for a template.
//!
//! Numbers are stored as words of eight bytes, whose unused bytes the next fields overwrite. Fields that few templates
//! have are encoded one by one. The result equals that of [`append_record`](super::encode).

use super::element::{DataType, Value};
use super::encode::{datum, put_field};
use super::template::{CopyPlan, Step};
use super::value::{Datum, EndRoutes, FlowSide, Scene, View, is_of_scene, read_common};
use std::net::IpAddr;

/// Bytes of a store.
const WORD_BYTES: usize = 8;

/// The layout of a record of fixed length.
#[derive(Debug)]
pub(crate) struct RecordImage {
    bytes: usize,
    stores: Vec<Store>,
    /// The sides whose values a store uses: forward, reverse, both.
    has_side: [bool; SIDES.len()],
}

/// One store, at an offset in the record.
#[derive(Debug)]
enum Store {
    /// The number at index `place` of [`Numbers`], at most `limit`, shifted to the front of a word.
    Number { at: u32, place: u32, shift: u32, limit: u64 },
    /// Bytes that are the same in all records.
    Constant { at: u32, word: u64 },
    /// Another field, encoded by itself.
    Field { at: u32, step: Step },
}

/// The numbers of a record: its addresses, its key, and the counters and times of each side.
#[derive(Debug)]
struct Numbers([u64; ADDRESS_WORDS + KEY.len() + SIDES.len() * SIDE_NUMBERS]);

/// Words of both addresses, each with the high word first.
const ADDRESS_WORDS: usize = 4;
/// The numbers that both sides share.
const KEY: [Value; 8] = [
    Value::SourcePort,
    Value::DestinationPort,
    Value::Protocol,
    Value::Vlan,
    Value::InnerVlan,
    Value::Input,
    Value::EndReason,
    Value::InitiatorRule,
];
const SIDES: [FlowSide; 3] = [FlowSide::Forward, FlowSide::Reverse, FlowSide::Both];
/// The numbers of one side.
const SIDE: [Value; 6] =
    [Value::Packets, Value::Bytes, Value::TcpFlags, Value::ServiceClass, Value::MinTtl, Value::MaxTtl];
/// Times of a side, which follow its numbers: first in ms since 1970, then in ms since the start of the device.
const TIMES: [Value; 2] = [Value::Start, Value::End];
const SIDE_NUMBERS: usize = SIDE.len() + 2 * TIMES.len();

impl RecordImage {
    /// The image of the records of a plan of fixed length, of the address family of `view`.
    pub(crate) fn new(plan: &CopyPlan, view: View<'_>, scene: &Scene, boot_ms: u64) -> Self {
        let mut image = Self { bytes: plan.bytes_min, stores: Vec::new(), has_side: [false; SIDES.len()] };
        let (mut constant, mut at) = (Vec::new(), 0);
        for step in &plan.steps {
            if is_of_scene(step.element.value, scene) {
                let begin = constant.len();
                constant.resize(begin + usize::from(step.bytes), 0);
                let datum = datum(step, plan, view, scene, &EndRoutes::default(), boot_ms);
                put_field(&mut constant[begin..], step, datum, boot_ms);
            } else {
                image.add_constant(at - constant.len(), &constant);
                constant.clear();
                image.add_field(at, step, view.source().is_ipv6());
            }
            at += usize::from(step.bytes);
        }
        image.add_constant(at - constant.len(), &constant);
        image
    }

    fn add_constant(&mut self, at: usize, bytes: &[u8]) {
        for (number, part) in bytes.chunks(WORD_BYTES).enumerate() {
            let mut word = [0; WORD_BYTES];
            word[..part.len()].copy_from_slice(part);
            let at = (at + number * WORD_BYTES) as u32;
            self.stores.push(Store::Constant { at, word: u64::from_be_bytes(word) });
        }
    }

    fn add_field(&mut self, at: usize, step: &Step, is_ipv6: bool) {
        let bytes = usize::from(step.bytes);
        let end = match step.element.value {
            Value::Source => Some(0),
            Value::Destination => Some(1),
            _ => None,
        };
        match (end, number_place(step)) {
            // Only an address of the record's family fits the field.
            (Some(end), _) if bytes == 4 && !is_ipv6 => self.add_number(at, 2 * end + 1, bytes),
            (Some(end), _) if bytes == 16 && is_ipv6 => {
                self.add_number(at, 2 * end, WORD_BYTES);
                self.add_number(at + WORD_BYTES, 2 * end + 1, WORD_BYTES);
            }
            (None, Some(place)) if (1..=WORD_BYTES).contains(&bytes) => {
                if let Some(number) = place.checked_sub(ADDRESS_WORDS + KEY.len()) {
                    self.has_side[number / SIDE_NUMBERS] = true;
                }
                self.add_number(at, place, bytes);
            }
            _ => self.stores.push(Store::Field { at: at as u32, step: *step }),
        }
    }

    fn add_number(&mut self, at: usize, place: usize, bytes: usize) {
        let shift = 8 * (WORD_BYTES - bytes) as u32;
        self.stores.push(Store::Number {
            at: at as u32,
            place: place as u32,
            shift,
            limit: u64::MAX >> shift,
        });
    }

    /// Appends a record, as [`append_record`](super::encode::append_record) does.
    pub(crate) fn append(
        &self,
        out: &mut Vec<u8>,
        plan: &CopyPlan,
        view: View<'_>,
        scene: &Scene,
        boot_ms: u64,
    ) {
        let (begin, routes) = (out.len(), EndRoutes::default());
        let numbers = self.numbers(plan, view, scene, boot_ms);
        out.resize(begin + self.bytes + WORD_BYTES, 0);
        let record = &mut out[begin..];
        for store in &self.stores {
            let (at, word) = match store {
                Store::Number { at, place, shift, limit } => {
                    (*at, numbers.0[*place as usize].min(*limit) << shift)
                }
                Store::Constant { at, word } => (*at, *word),
                Store::Field { at, step } => {
                    let datum = datum(step, plan, view, scene, &routes, boot_ms);
                    put_field(&mut record[*at as usize..][..usize::from(step.bytes)], step, datum, boot_ms);
                    continue;
                }
            };
            record[at as usize..][..WORD_BYTES].copy_from_slice(&word.to_be_bytes());
        }
        out.truncate(begin + self.bytes);
    }

    /// Reads the numbers of a record, for those sides that a store uses.
    #[inline]
    fn numbers(&self, plan: &CopyPlan, view: View<'_>, scene: &Scene, boot_ms: u64) -> Numbers {
        let routes = EndRoutes::default();
        let mut numbers = [0; size_of::<Numbers>() / WORD_BYTES];
        let (addresses, others) = numbers.split_at_mut(ADDRESS_WORDS);
        let (key, sides) = others.split_at_mut(KEY.len());
        for (words, address) in addresses.chunks_exact_mut(2).zip([view.source(), view.destination()]) {
            words.copy_from_slice(&address_words(address));
        }
        // A macro, so that each value is read by code that is compiled for this value alone.
        macro_rules! of_key {
            ($value:expr) => {
                number(read_common($value, FlowSide::Forward, view, scene, &routes, plan.icmp_in_port))
            };
        }
        // In the order of `KEY`.
        key.copy_from_slice(&[
            of_key!(Value::SourcePort),
            of_key!(Value::DestinationPort),
            of_key!(Value::Protocol),
            of_key!(Value::Vlan),
            of_key!(Value::InnerVlan),
            of_key!(Value::Input),
            of_key!(Value::EndReason),
            of_key!(Value::InitiatorRule),
        ]);
        let of_sides = sides.chunks_exact_mut(SIDE_NUMBERS).zip(SIDES).zip(self.has_side);
        for ((place, side), _) in of_sides.filter(|(_, has_side)| *has_side) {
            place.copy_from_slice(&side_numbers(side, view, scene, boot_ms));
        }
        Numbers(numbers)
    }
}

/// The numbers of a side in the order of [`SIDE`], and its times.
#[inline]
fn side_numbers(side: FlowSide, view: View<'_>, scene: &Scene, boot_ms: u64) -> [u64; SIDE_NUMBERS] {
    let routes = EndRoutes::default();
    macro_rules! of_side {
        ($value:expr) => {
            number(read_common($value, side, view, scene, &routes, false))
        };
    }
    let [start_ms, end_ms] = [of_side!(Value::Start) / 1_000_000, of_side!(Value::End) / 1_000_000];
    [
        of_side!(Value::Packets),
        of_side!(Value::Bytes),
        of_side!(Value::TcpFlags),
        of_side!(Value::ServiceClass),
        of_side!(Value::MinTtl),
        of_side!(Value::MaxTtl),
        start_ms,
        end_ms,
        start_ms.saturating_sub(boot_ms),
        end_ms.saturating_sub(boot_ms),
    ]
}

/// A number, or a time in ns; 0 if there is none.
#[inline(always)]
fn number(datum: Datum<'_>) -> u64 {
    match datum {
        Datum::Number(number) | Datum::Time(number) => number,
        _ => 0,
    }
}

/// The index of a field in [`Numbers`]; `None` if it is not one of them.
fn number_place(step: &Step) -> Option<usize> {
    let value = step.element.value;
    if let Some(place) = KEY.iter().position(|of_key| *of_key == value) {
        return Some(ADDRESS_WORDS + place);
    }
    let side = SIDES.iter().position(|side| *side == step.side)?;
    let of_side = ADDRESS_WORDS + KEY.len() + side * SIDE_NUMBERS;
    if let Some(place) = SIDE.iter().position(|of_side| *of_side == value) {
        return Some(of_side + place);
    }
    let time = TIMES.iter().position(|time| *time == value)?;
    let form = match step.element.kind {
        DataType::Millis => 0,
        DataType::U32 => 1,
        _ => return None,
    };
    Some(of_side + SIDE.len() + form * TIMES.len() + time)
}

/// The high and the low word of an address; an IPv4 address is in the low one.
#[inline]
fn address_words(address: IpAddr) -> [u64; 2] {
    match address {
        IpAddr::V4(ip) => [0, ip.to_bits().into()],
        IpAddr::V6(ip) => [(ip.to_bits() >> 64) as u64, ip.to_bits() as u64],
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode::append_record;
    use super::*;
    use crate::export::element::ELEMENTS;
    use crate::export::samples::any_record;
    use crate::export::template::{Dialect, Template};
    use proptest::prelude::*;

    proptest! {
        /// With every element that an encoder can write.
        #[test]
        fn an_image_gives_the_same_bytes(
            records in proptest::collection::vec(any_record(), 1..20),
            has_index in any::<bool>(),
            is_v9 in any::<bool>(),
        ) {
            let dialect = if is_v9 { Dialect::V9 } else { Dialect::Ipfix };
            let is_written = |name: &&str| {
                let plan = Template::parse(&format!("%{name}")).unwrap().plan(dialect, false, true);
                plan.is_ok_and(|plan| plan.is_fixed)
            };
            let names: Vec<_> = ELEMENTS.iter().map(|element| element.name).filter(is_written).collect();
            prop_assert!(names.len() > 40);
            let template = Template::parse(&names.iter().map(|name| format!("%{name} ")).collect::<String>()).unwrap();
            let scene = Scene {
                input_index: has_index.then_some(7),
                output_index: 9,
                engine_id: 3,
                ..Scene::default()
            };
            let plans = [false, true].map(|is_ipv6| template.plan(dialect, is_ipv6, true).unwrap());
            let mut images = [None, None];
            for (boot_ms, view) in (0..).zip(records.iter().flat_map(View::directions)) {
                let family = usize::from(view.source().is_ipv6());
                let plan = &plans[family];
                let image = images[family].get_or_insert_with(|| RecordImage::new(plan, view, &scene, boot_ms));
                let (mut expected, mut found) = (vec![1], vec![1]);
                append_record(&mut expected, plan, view, &scene, boot_ms, 0);
                image.append(&mut found, plan, view, &scene, boot_ms);
                prop_assert_eq!(found, expected);
            }
        }
    }
}
