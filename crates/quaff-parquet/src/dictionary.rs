//! The distinct values of a column in a row group, and the dictionary index of each row. Encodes only the values.
//!
//! Most columns have one or few values in a row group: their rows cost one comparison.

use quaff_wire::flow::mix;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::net::IpAddr;

/// Numbers below this use a direct table: ports, flags, protocols.
const SMALL: usize = 1 << 16;

/// The distinct values, by dictionary index.
pub(crate) trait Entries {
    fn len(&self) -> usize;
    fn compare(&self, one: u32, other: u32) -> Ordering;
    /// A value in Parquet's PLAIN encoding; a text without its length.
    fn bytes(&self, place: u32) -> Vec<u8>;
    /// The dictionary page: all values in PLAIN encoding.
    fn page(&self) -> Vec<u8>;
}

/// The dictionary indexes of the rows. Only a count while all rows have the first value.
#[derive(Debug, Default)]
pub(crate) struct Places {
    rows: usize,
    /// Empty, or one index per row.
    all: Vec<u32>,
}

impl Places {
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The indexes of a range of rows; `None` if all are the first value.
    pub(crate) fn part(&self, rows: std::ops::Range<usize>) -> Option<&[u32]> {
        self.all.get(rows)
    }

    fn push(&mut self, place: u32) {
        if self.all.is_empty() {
            if place == 0 {
                self.rows += 1;
                return;
            }
            self.all.resize(self.rows, 0);
        }
        self.all.push(place);
        self.rows += 1;
    }

    fn push_first(&mut self, rows: usize) {
        self.rows += rows;
        if !self.all.is_empty() {
            self.all.resize(self.rows, 0);
        }
    }

    fn clear(&mut self) {
        self.rows = 0;
        self.all.clear();
    }
}

/// Distinct numbers.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// INT64, otherwise INT32.
    is_wide: bool,
    numbers: Vec<i64>,
    /// For each small number its index plus 1; 0 if absent.
    small: Vec<u32>,
    /// Indexes of the larger numbers. The hash has a random key, because packets choose some of the numbers.
    others: HashMap<i64, u32>,
    places: Places,
}

impl Numbers {
    pub(crate) fn new(is_wide: bool) -> Self {
        Self { is_wide, ..Self::default() }
    }

    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// Adds one row per number.
    pub(crate) fn push<T: Copy + Into<i64>>(&mut self, numbers: &[T]) {
        if let [only] = self.numbers[..]
            && numbers.iter().all(|number| (*number).into() == only)
        {
            return self.places.push_first(numbers.len());
        }
        let mut last = None;
        for number in numbers {
            let number = (*number).into();
            let place = match last {
                Some((same, place)) if same == number => place,
                _ => self.place(number),
            };
            last = Some((number, place));
            self.places.push(place);
        }
    }

    fn place(&mut self, number: i64) -> u32 {
        let next = self.numbers.len() as u32;
        let place = match usize::try_from(number) {
            Ok(at) if at < SMALL => {
                if self.small.is_empty() {
                    self.small.resize(SMALL, 0);
                }
                let known = &mut self.small[at];
                if *known == 0 {
                    *known = next + 1;
                }
                *known - 1
            }
            _ => *self.others.entry(number).or_insert(next),
        };
        if place == next {
            self.numbers.push(number);
        }
        place
    }

    pub(crate) fn clear(&mut self) {
        for number in self.numbers.drain(..) {
            // Larger numbers are not in the table.
            let known = usize::try_from(number).ok().and_then(|at| self.small.get_mut(at));
            known.into_iter().for_each(|known| *known = 0);
        }
        self.others.clear();
        self.places.clear();
    }
}

impl Entries for Numbers {
    fn len(&self) -> usize {
        self.numbers.len()
    }

    fn compare(&self, one: u32, other: u32) -> Ordering {
        self.numbers[one as usize].cmp(&self.numbers[other as usize])
    }

    fn bytes(&self, place: u32) -> Vec<u8> {
        let number = self.numbers[place as usize];
        if self.is_wide { number.to_le_bytes().to_vec() } else { (number as i32).to_le_bytes().to_vec() }
    }

    fn page(&self) -> Vec<u8> {
        match self.is_wide {
            true => self.numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
            false => self.numbers.iter().flat_map(|number| (*number as i32).to_le_bytes()).collect(),
        }
    }
}

/// Distinct texts: of addresses, or one for all rows. Each text is formatted once.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    /// The texts in PLAIN encoding, and the start of each.
    page: Vec<u8>,
    begins: Vec<u32>,
    v4: HashMap<u32, u32, Keyed>,
    v6: HashMap<u128, u32, Keyed>,
    places: Places,
}

/// Length of the prefix that holds a text's length.
const LENGTH: usize = 4;

impl Texts {
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// Adds one row per address.
    pub(crate) fn push(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            let next = self.begins.len() as u32;
            let place = match address {
                IpAddr::V4(v4) => *self.v4.entry(v4.to_bits()).or_insert(next),
                IpAddr::V6(v6) => *self.v6.entry(v6.to_bits()).or_insert(next),
            };
            if place == next {
                self.add(|page| {
                    // Writing to a Vec cannot fail.
                    let _ = write!(page, "{address}");
                });
            }
            self.places.push(place);
        }
    }

    /// Adds rows with `text`, the only value of the column.
    pub(crate) fn push_only(&mut self, text: &[u8], rows: usize) {
        if self.begins.is_empty() {
            self.add(|page| page.extend_from_slice(text));
        }
        self.places.push_first(rows);
    }

    fn add(&mut self, text: impl FnOnce(&mut Vec<u8>)) {
        let begin = self.page.len();
        self.begins.push(begin as u32);
        self.page.extend_from_slice(&[0; LENGTH]);
        text(&mut self.page);
        let length = (self.page.len() - begin - LENGTH) as u32;
        self.page[begin..begin + LENGTH].copy_from_slice(&length.to_le_bytes());
    }

    fn text(&self, place: u32) -> &[u8] {
        let (begin, next) = (self.begins[place as usize], self.begins.get(place as usize + 1));
        let end = next.map_or(self.page.len(), |next| *next as usize);
        &self.page[begin as usize + LENGTH..end]
    }

    /// The texts in the order of their indexes.
    pub(crate) fn all(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.begins.len() as u32).map(|place| self.text(place))
    }

    pub(crate) fn clear(&mut self) {
        self.page.clear();
        self.begins.clear();
        self.v4.clear();
        self.v6.clear();
        self.places.clear();
    }
}

impl Entries for Texts {
    fn len(&self) -> usize {
        self.begins.len()
    }

    fn compare(&self, one: u32, other: u32) -> Ordering {
        self.text(one).cmp(self.text(other))
    }

    fn bytes(&self, place: u32) -> Vec<u8> {
        self.text(place).to_vec()
    }

    fn page(&self) -> Vec<u8> {
        self.page.clone()
    }
}

/// A hash of addresses with a random key, so that a sender cannot choose colliding addresses.
#[derive(Debug, Clone)]
struct Keyed(u64);

impl Default for Keyed {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0_u64))
    }
}

impl BuildHasher for Keyed {
    type Hasher = Mixing;

    fn build_hasher(&self) -> Mixing {
        Mixing(self.0)
    }
}

struct Mixing(u64);

impl Hasher for Mixing {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = mix(self.0, u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = mix(self.0, number.into());
    }

    fn write_u128(&mut self, number: u128) {
        self.0 = mix(mix(self.0, number as u64), (number >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(places: &Places) -> Vec<u32> {
        let rows = 0..places.rows();
        places.part(rows.clone()).map_or(vec![0; rows.len()], <[u32]>::to_vec)
    }

    proptest! {
        #[test]
        fn each_row_has_its_number(
            lists in prop::collection::vec(
                prop::collection::vec(prop_oneof![Just(7_i64), 0..9_i64, any::<i64>(), 65_530..65_540_i64], 0..20),
                0..20,
            ),
        ) {
            let mut numbers = Numbers::new(true);
            let reversed: Vec<_> = lists.iter().rev().cloned().collect();
            for lists in [lists, reversed] {
                numbers.clear();
                lists.iter().for_each(|list| numbers.push(list));
                let found: Vec<_> =
                    rows(numbers.places()).iter().map(|place| numbers.numbers[*place as usize]).collect();
                prop_assert_eq!(found, lists.concat());
                let mut distinct = numbers.numbers.clone();
                distinct.sort_unstable();
                distinct.dedup();
                prop_assert_eq!(distinct.len(), numbers.len());
            }
        }

        #[test]
        fn each_row_has_the_text_of_its_address(
            addresses in prop::collection::vec(
                prop_oneof![
                    (0..9_u32).prop_map(|bits| IpAddr::from(bits.to_be_bytes())),
                    // IPv4-mapped addresses have a different text.
                    (0..9_u128).prop_map(|bits| IpAddr::from((bits | 0xffff << 32).to_be_bytes())),
                    any::<[u8; 16]>().prop_map(IpAddr::from),
                ],
                0..60,
            ),
        ) {
            let mut texts = Texts::default();
            for _ in 0..2 {
                texts.clear();
                addresses.chunks(7).for_each(|part| texts.push(part));
                let found: Vec<_> = rows(texts.places()).iter().map(|place| texts.text(*place).to_vec()).collect();
                let expected: Vec<_> = addresses.iter().map(|address| address.to_string().into_bytes()).collect();
                prop_assert_eq!(found, expected);
                let mut distinct: Vec<_> = texts.all().collect();
                distinct.sort_unstable();
                distinct.dedup();
                prop_assert_eq!(distinct.len(), texts.len());
            }
        }
    }
}
