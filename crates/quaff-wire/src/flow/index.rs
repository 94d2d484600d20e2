//! The index of a flow table: linear hashing over cache lines of seven tags and record numbers. The caller owns the
//! records.
//!
//! The low bits of a hash select a line. If the index is fuller than [`FLOWS_PER_LINE`], one line is split in two by
//! the next bit, which its tags contain: growth costs each insertion a little, never pauses, and touches no record. A
//! line with more than seven entries continues in an overflow line, so that an insertion cannot fail.

use std::mem::MaybeUninit;

/// Entries per line.
const ENTRIES: usize = 7;
/// Index in [`IndexLine::tags`] of the overflow line's number plus one.
const NEXT: usize = ENTRIES;
/// Mean number of entries per line, excluding overflow, above which a line is split.
const FLOWS_PER_LINE: u64 = 4;
/// Lines per block: 4 MiB, whose pages the kernel provides on first use.
const BLOCK: usize = 1 << 16;
/// Initial number of lines, as a power of two.
const BITS_MIN: u32 = 8;

/// A cache line of the index. All eight tags are compared at once; the last comparison is unused.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub struct IndexLine {
    tags: [u32; ENTRIES + 1],
    flows: [u32; ENTRIES],
    /// One bit per entry.
    used: u32,
}

const _: () = assert!(size_of::<IndexLine>() == 64);

/// Tags and record numbers of flows, by a keyed 32-bit hash.
#[derive(Debug)]
pub struct FlowIndex {
    blocks: Vec<Vec<IndexLine>>,
    /// Prepares the memory of a block.
    prepare: fn(&mut [MaybeUninit<IndexLine>]),
    /// Number of lines: at least 2^bits, and below 2^(bits + 1).
    lines: u32,
    bits: u32,
    entries: u64,
    /// Overflow lines; the free ones are linked by [`NEXT`].
    more: Vec<IndexLine>,
    free: u32,
    /// Largest number of lines that an insertion visited.
    probes_max: u32,
}

impl IndexLine {
    /// One bit for each entry with this tag.
    #[inline]
    fn matching(&self, tag: u32) -> u32 {
        let mut matching = 0;
        for (at, of) in self.tags.iter().enumerate() {
            matching |= u32::from(*of == tag) << at;
        }
        matching & self.used
    }

    /// The first flow with this tag, or [`FlowIndex::NONE`].
    #[inline]
    fn first(&self, tag: u32) -> u32 {
        match self.matching(tag) {
            0 => FlowIndex::NONE,
            matching => self.flows[matching.trailing_zeros() as usize],
        }
    }

    #[inline]
    fn next(&self) -> Option<usize> {
        (self.tags[NEXT] as usize).checked_sub(1)
    }

    fn add(&mut self, tag: u32, flow: u32) -> bool {
        let at = self.used.trailing_ones() as usize;
        if at >= ENTRIES {
            return false;
        }
        (self.tags[at], self.flows[at]) = (tag, flow);
        self.used |= 1 << at;
        true
    }
}

impl Default for FlowIndex {
    fn default() -> Self {
        Self::new(|_| {})
    }
}

impl FlowIndex {
    /// The number of no record.
    pub const NONE: u32 = u32::MAX;

    /// An empty index of 16 KiB. `prepare` gets the memory of each 4 MiB block before its first use.
    pub fn new(prepare: fn(&mut [MaybeUninit<IndexLine>])) -> Self {
        let mut index = Self {
            blocks: Vec::new(),
            prepare,
            lines: 0,
            bits: BITS_MIN,
            entries: 0,
            more: Vec::new(),
            free: 0,
            probes_max: 1,
        };
        (0..1 << BITS_MIN).for_each(|_| index.push_line());
        index
    }

    fn push_line(&mut self) {
        if (self.lines as usize).is_multiple_of(BLOCK) {
            let mut block = Vec::with_capacity(BLOCK);
            (self.prepare)(block.spare_capacity_mut());
            self.blocks.push(block);
        }
        if let Some(block) = self.blocks.last_mut() {
            block.push(IndexLine::default());
        }
        self.lines += 1;
    }

    /// The line of a hash.
    #[inline]
    fn line_of(&self, hash: u32) -> usize {
        let wide = hash & ((2 << self.bits) - 1);
        (if wide < self.lines { wide } else { wide & ((1 << self.bits) - 1) }) as usize
    }

    #[inline]
    fn line_at(&self, at: usize) -> &IndexLine {
        &self.blocks[at / BLOCK][at % BLOCK]
    }

    #[inline]
    fn line_mut(&mut self, at: usize) -> &mut IndexLine {
        &mut self.blocks[at / BLOCK][at % BLOCK]
    }

    /// The line of a hash, to be prefetched.
    #[inline]
    pub fn line(&self, hash: u32) -> &IndexLine {
        self.line_at(self.line_of(hash))
    }

    /// The first flow with this tag in the first line of a hash, or [`Self::NONE`].
    #[inline]
    pub fn first(&self, hash: u32) -> u32 {
        self.line(hash).first(hash)
    }

    /// The overflow line after the first one of a hash, to be prefetched.
    #[inline]
    pub fn second_line(&self, hash: u32) -> Option<&IndexLine> {
        self.more.get(self.line(hash).next()?)
    }

    /// Like [`Self::first`], in the second line.
    #[inline]
    pub fn second(&self, hash: u32) -> u32 {
        self.second_line(hash).map_or(Self::NONE, |line| line.first(hash))
    }

    /// The flow with this hash that `is_it` confirms.
    #[inline]
    pub fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut line = self.line_at(self.line_of(hash));
        loop {
            let mut matching = line.matching(hash);
            while matching != 0 {
                let flow = line.flows[matching.trailing_zeros() as usize];
                if is_it(flow) {
                    return Some(flow);
                }
                matching &= matching - 1;
            }
            line = self.more.get(line.next()?)?;
        }
    }

    /// Adds a flow under its hash; grows the index when its lines are full.
    pub fn insert(&mut self, hash: u32, flow: u32) {
        self.add(self.line_of(hash), hash, flow);
        self.entries += 1;
        if self.entries > u64::from(self.lines) * FLOWS_PER_LINE {
            self.split();
        }
    }

    fn add(&mut self, at: usize, tag: u32, flow: u32) {
        let line = self.line_mut(at);
        if line.add(tag, flow) {
            return;
        }
        let Some(mut next) = line.next() else {
            let next = self.take_line();
            self.more[next].add(tag, flow);
            self.line_mut(at).tags[NEXT] = next as u32 + 1;
            self.probes_max = self.probes_max.max(2);
            return;
        };
        let mut probes = 2;
        while !self.more[next].add(tag, flow) {
            next = match self.more[next].next() {
                Some(next) => next,
                None => {
                    let last = self.take_line();
                    self.more[next].tags[NEXT] = last as u32 + 1;
                    last
                }
            };
            probes += 1;
        }
        self.probes_max = self.probes_max.max(probes);
    }

    /// Largest number of lines that an insertion visited.
    pub fn probes_max(&self) -> u32 {
        self.probes_max
    }

    /// Returns an empty overflow line.
    fn take_line(&mut self) -> usize {
        match (self.free as usize).checked_sub(1) {
            Some(at) => {
                self.free = std::mem::take(&mut self.more[at]).tags[NEXT];
                at
            }
            None => {
                self.more.push(IndexLine::default());
                self.more.len() - 1
            }
        }
    }

    fn free_line(&mut self, at: usize) {
        self.more[at] = IndexLine::default();
        self.more[at].tags[NEXT] = self.free;
        self.free = at as u32 + 1;
    }

    /// Removes a flow, and an overflow line that becomes empty.
    pub fn remove(&mut self, hash: u32, flow: u32) {
        let first = self.line_of(hash);
        let mut at = None;
        loop {
            let line = match at {
                None => self.line_mut(first),
                Some((_, at)) => &mut self.more[at],
            };
            let place = (0..ENTRIES).find(|place| line.used >> place & 1 != 0 && line.flows[*place] == flow);
            if let Some(place) = place {
                line.used &= !(1 << place);
                self.entries -= 1;
                break;
            }
            let Some(next) = line.next() else {
                debug_assert!(false, "flow {flow} is not in the index");
                return;
            };
            at = Some((at.map(|(_, at)| at), next));
        }
        let Some((before, at)) = at.filter(|(_, at)| self.more[*at].used == 0) else { return };
        let next = self.more[at].tags[NEXT];
        match before {
            None => self.line_mut(first).tags[NEXT] = next,
            Some(before) => self.more[before].tags[NEXT] = next,
        }
        self.free_line(at);
    }

    /// Removes all flows, and keeps the memory.
    pub fn clear(&mut self) {
        if self.entries > 0 {
            self.blocks.iter_mut().for_each(|block| block.fill(IndexLine::default()));
            self.more.clear();
            (self.entries, self.free) = (0, 0);
        }
    }

    /// Splits the next line in two.
    fn split(&mut self) {
        let bit = 1 << self.bits;
        let (old, new) = ((self.lines - bit) as usize, self.lines as usize);
        if self.bits == 27 {
            return; // 2^27 lines have 2^29 flows: a pool has at most twice as many, and lines are continued by others.
        }
        self.push_line();
        if self.lines == bit * 2 {
            self.bits += 1;
        }
        let mut line = std::mem::take(self.line_mut(old));
        loop {
            for place in 0..ENTRIES {
                if line.used >> place & 1 != 0 {
                    let (tag, flow) = (line.tags[place], line.flows[place]);
                    self.add(if tag & bit == 0 { old } else { new }, tag, flow);
                }
            }
            let Some(next) = line.next() else { return };
            line = self.more[next];
            self.free_line(next);
        }
    }

    /// Memory use, bytes.
    pub fn memory_bytes(&self) -> u64 {
        let lines = u64::from(self.lines) + self.more.capacity() as u64;
        lines * size_of::<IndexLine>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Length of the longest chain of overflow lines.
    fn longest(index: &FlowIndex) -> usize {
        let chain = |at: u32| {
            std::iter::successors(index.line_at(at as usize).next(), |next| index.more[*next].next()).count()
        };
        (0..index.lines).map(chain).max().unwrap_or(0)
    }

    #[test]
    fn growth_keeps_lines_short_and_loses_nothing() {
        let mut index = FlowIndex::default();
        let hash = |flow: u32| crate::flow::mix(1, flow.into()) as u32;
        for flow in 0..200_000 {
            index.insert(hash(flow), flow);
            assert!(index.entries <= u64::from(index.lines) * FLOWS_PER_LINE + 1);
        }
        assert!((0..200_000).all(|flow| index.find(hash(flow), |found| found == flow) == Some(flow)));
        // Some are in a third line, or share the tag of another flow.
        let in_first = (0..200_000).filter(|flow| index.first(hash(*flow)) == *flow).count();
        let in_second = (0..200_000).filter(|flow| index.second(hash(*flow)) == *flow).count();
        assert!(in_second > 100 && in_first + in_second > 199_900, "{in_first} and {in_second}");
        assert!(longest(&index) <= 3, "{}", longest(&index));
        assert!(index.more.len() < 200_000 / 40, "{} lines overflow", index.more.len());
        (0..200_000).for_each(|flow| index.remove(hash(flow), flow));
        assert_eq!((index.entries, longest(&index)), (0, 0));
    }

    #[test]
    fn a_cleared_index_has_no_flow_and_takes_others() {
        let mut index = FlowIndex::default();
        let hash = |flow: u32| crate::flow::mix(1, flow.into()) as u32;
        for round in 0..3 {
            let flows = round * 10_000..(round + 1) * 10_000 + round;
            flows.clone().for_each(|flow| index.insert(hash(flow), flow));
            assert!(flows.clone().all(|flow| index.find(hash(flow), |found| found == flow) == Some(flow)));
            // Half of them leave before the rest is cleared.
            flows.clone().step_by(2).for_each(|flow| index.remove(hash(flow), flow));
            index.clear();
            assert!(flows.clone().all(|flow| index.find(hash(flow), |_| true).is_none()), "{round}");
            assert_eq!((index.entries, longest(&index)), (0, 0));
        }
    }
}
