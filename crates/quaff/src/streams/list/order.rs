//! Rows in the order in which their conversations began, although they end in another one.

use std::collections::BTreeMap;

/// Rows that wait for the end of an earlier conversation. Beyond, the first ones leave without it, and its row comes
/// later.
const WAITING_MAX: usize = 1 << 17;

/// The rows that wait, by the order of their begin.
#[derive(Debug)]
pub(super) struct Order<T> {
    waiting: BTreeMap<u64, T>,
    /// Conversations that have begun.
    begun: u64,
    /// The conversation whose row leaves next.
    next: u64,
    waiting_max: usize,
}

impl<T> Default for Order<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), begun: 0, next: 0, waiting_max: WAITING_MAX }
    }
}

impl<T> Order<T> {
    /// The order of a conversation that begins.
    pub(super) fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.begun - 1
    }

    /// Takes the row of a conversation that ends, and passes on those that need not wait.
    pub(super) fn end(&mut self, order: u64, row: T, mut pass: impl FnMut(T)) {
        self.waiting.insert(order, row);
        while let Some(order) = self.waiting.first_key_value().map(|(order, _)| *order) {
            if order > self.next && self.waiting.len() <= self.waiting_max {
                return;
            }
            self.next = self.next.max(order + 1);
            self.waiting.pop_first().into_iter().for_each(|(_, row)| pass(row));
        }
    }

    /// Passes on all rows.
    pub(super) fn finish(&mut self, mut pass: impl FnMut(T)) {
        while let Some((_, row)) = self.waiting.pop_first() {
            pass(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows in the order in which they leave, of conversations that end in the order of `ends`.
    fn left(waiting_max: usize, ends: &[u64]) -> Vec<u64> {
        let mut order = Order { waiting_max, ..Order::default() };
        let mut left = Vec::new();
        for expected in 0..ends.len() as u64 {
            assert_eq!(order.begin(), expected);
        }
        ends.iter().for_each(|end| order.end(*end, *end, |row| left.push(row)));
        order.finish(|row| left.push(row));
        left
    }

    #[test]
    fn rows_leave_in_the_order_of_the_begin() {
        assert_eq!(left(9, &[0, 1, 2]), [0, 1, 2]);
        assert_eq!(left(9, &[2, 1, 0, 4, 3]), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn more_rows_than_may_wait_leave_without_an_earlier_one() {
        assert_eq!(left(2, &[1, 2, 3, 4, 0, 5]), [1, 2, 3, 4, 0, 5]);
        assert_eq!(left(2, &[5, 3, 4, 1, 2, 0]), [3, 4, 5, 1, 2, 0]);
    }
}
