//! The view that a user has chosen: property, order, text, place in the list. Keys change it; it is drawn elsewhere.

use super::bars::Bars;
use super::keys::Key;
use crate::cmd::flows::sums::{BY, columns_of_top};
use quaff_flow::summary::{By, Order};

/// The view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    pub(super) by: By,
    pub(super) order: Order,
    pub(super) is_reversed: bool,
    /// Only rows with this text are shown.
    pub(super) text: String,
    /// Keys are added to the text.
    pub(super) is_typing: bool,
    /// The first row.
    pub(super) first: usize,
    /// Rates stay those of the interval at which this was set.
    pub(super) is_paused: bool,
    pub(super) has_help: bool,
    pub(super) bars: Bars,
    /// Names of hosts and services are shown in the place of addresses and ports.
    pub(super) has_names: bool,
}

/// The effect of a key besides the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    Quit,
    Suspend,
}

/// The size of the list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Rows that have room, and rows that there are.
    pub(super) page: usize,
    pub(super) rows: usize,
}

/// The lines of the help.
pub(super) const HELP: [&str; 13] = [
    "Tab, → ←   next or previous view",
    "1 to 9     a view by its number",
    "s S        sort by the next or previous column",
    "w          sort by the mean of the last 10, 40, 2 s",
    "r          reverse the order",
    "/          show only rows with a text",
    "Esc        show all rows again",
    "↑ ↓ PgUp PgDn Home End   move in the list",
    "n          names of hosts and services",
    "b          bars: linear, logarithmic, none",
    "p, Space   pause",
    "^Z         stop, until the shell's fg",
    "q, ^C      quit",
];

impl View {
    pub(super) fn new(by: By, order: Order, text: &str) -> Self {
        Self {
            by,
            order,
            is_reversed: false,
            text: text.to_owned(),
            is_typing: false,
            first: 0,
            is_paused: false,
            has_help: false,
            bars: Bars::Linear,
            has_names: false,
        }
    }

    /// Takes a key.
    pub(super) fn press(&mut self, key: Key, extent: Extent) -> Effect {
        match key {
            Key::Control('c') => return Effect::Quit,
            Key::Control('z') => return Effect::Suspend,
            _ if self.is_typing => self.type_key(key),
            Key::Char('q') => return Effect::Quit,
            _ => self.command(key, extent),
        }
        Effect::Nothing
    }

    /// A key while a text is typed.
    fn type_key(&mut self, key: Key) {
        match key {
            Key::Char(char) => self.text.push(char),
            Key::Backspace => drop(self.text.pop()),
            Key::Enter => self.is_typing = false,
            Key::Escape => (self.is_typing, self.text) = (false, String::new()),
            _ => {}
        }
        self.first = 0;
    }

    fn command(&mut self, key: Key, extent: Extent) {
        let last = extent.rows.saturating_sub(extent.page);
        match key {
            Key::Char('?' | 'h') => self.has_help = !self.has_help,
            Key::Escape => (self.has_help, self.text, self.first) = (false, String::new(), 0),
            Key::Char('/') => self.is_typing = true,
            Key::Char('p' | ' ') => self.is_paused = !self.is_paused,
            Key::Char('r') => self.is_reversed = !self.is_reversed,
            Key::Char('s') => self.sort_by_next(1),
            Key::Char('S') => self.sort_by_next(-1),
            Key::Char('w') => self.sort_by_mean(),
            Key::Char('n') => self.has_names = !self.has_names,
            Key::Char('b') => self.bars = self.bars.following(),
            Key::Tab | Key::Right => self.turn(1),
            Key::BackTab | Key::Left => self.turn(-1),
            Key::Char(digit @ '1'..='9') => self.show_number(digit as usize - '1' as usize),
            Key::Up => self.first = self.first.saturating_sub(1),
            Key::Down => self.first = (self.first + 1).min(last),
            Key::PageUp => self.first = self.first.saturating_sub(extent.page.max(1)),
            Key::PageDown => self.first = (self.first + extent.page.max(1)).min(last),
            Key::Home => self.first = 0,
            Key::End => self.first = last,
            _ => {}
        }
    }

    /// Shows the next view, or the previous one.
    fn turn(&mut self, step: isize) {
        let at = BY.iter().position(|(_, by, _)| *by == self.by).unwrap_or(0);
        self.show_number((at as isize + step).rem_euclid(BY.len() as isize) as usize);
    }

    fn show_number(&mut self, number: usize) {
        if let Some((_, by, _)) = BY.get(number) {
            (self.by, self.first) = (*by, 0);
            if !orders(self.by).contains(&self.order) {
                self.order = Order::Rate;
            }
        }
    }

    /// Sorts by the next column that can be sorted by, or the previous one.
    fn sort_by_next(&mut self, step: isize) {
        let orders = orders(self.by);
        let at = orders.iter().position(|order| *order == self.order).unwrap_or(0);
        self.order = orders[(at as isize + step).rem_euclid(orders.len() as isize) as usize];
        self.first = 0;
    }

    /// Sorts by the mean of the last 10 s, or by the next one of the means.
    fn sort_by_mean(&mut self) {
        self.order = match self.order {
            Order::Mean10s => Order::Mean40s,
            Order::Mean40s => Order::Mean2s,
            _ => Order::Mean10s,
        };
        self.first = 0;
    }
}

/// The orders that a view's columns show.
fn orders(by: By) -> Vec<Order> {
    columns_of_top(by, Order::Rate).iter().filter_map(|column| column.order).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENT: Extent = Extent { page: 10, rows: 25 };

    fn pressed(keys: &[Key]) -> View {
        let mut view = View::new(By::Flow, Order::Rate, "");
        keys.iter().for_each(|key| assert_eq!(view.press(*key, EXTENT), Effect::Nothing));
        view
    }

    #[test]
    fn keys_choose_the_view_and_its_order() {
        assert_eq!(pressed(&[Key::Tab]).by, By::Host);
        assert_eq!(pressed(&[Key::Left]).by, By::Vlan);
        assert_eq!(pressed(&[Key::Char('6')]).by, By::Application);
        assert_eq!(pressed(&[Key::Char('s')]).order, Order::Mean2s);
        assert_eq!(pressed(&[Key::Char('S')]).order, Order::Name);
        assert!(pressed(&[Key::Char('r')]).is_reversed);
        let flows = pressed(&[&[Key::Tab][..], &[Key::Char('s'); 7]].concat());
        assert_eq!(flows.order, Order::Flows);
        let mut back = flows;
        assert_eq!(back.press(Key::Char('1'), EXTENT), Effect::Nothing);
        assert_eq!((back.by, back.order), (By::Flow, Order::Rate), "a flow has no column of flows");
    }

    #[test]
    fn keys_choose_a_mean_bars_and_names() {
        let orders = [1, 2, 3, 4].map(|times| pressed(&vec![Key::Char('w'); times]).order);
        assert_eq!(orders, [Order::Mean10s, Order::Mean40s, Order::Mean2s, Order::Mean10s]);
        assert_eq!(pressed(&[Key::End, Key::Char('w')]).first, 0);
        // Each view has these columns.
        assert_eq!(pressed(&[Key::Char('w'), Key::Tab]).order, Order::Mean10s);
        let bars = [0, 1, 2, 3].map(|times| pressed(&vec![Key::Char('b'); times]).bars);
        assert_eq!(bars, [Bars::Linear, Bars::Log, Bars::None, Bars::Linear]);
        let names = [0, 1, 2].map(|times| pressed(&vec![Key::Char('n'); times]).has_names);
        assert_eq!(names, [false, true, false]);
    }

    #[test]
    fn keys_move_within_the_list() {
        assert_eq!(pressed(&[Key::Down, Key::Down, Key::Up]).first, 1);
        assert_eq!(pressed(&[Key::PageDown]).first, 10);
        assert_eq!(pressed(&[Key::PageDown, Key::PageDown, Key::PageDown]).first, 15);
        assert_eq!(pressed(&[Key::End, Key::Up]).first, 14);
        assert_eq!(pressed(&[Key::End, Key::Home, Key::PageUp]).first, 0);
        assert_eq!(pressed(&[Key::End, Key::Tab]).first, 0);
    }

    #[test]
    fn a_text_is_typed_until_enter_and_dropped_by_escape() {
        let typed = pressed(&[Key::End, Key::Char('/'), Key::Char('q'), Key::Char('x'), Key::Backspace]);
        assert_eq!((typed.text.as_str(), typed.is_typing, typed.first), ("q", true, 0));
        let kept = pressed(&[Key::Char('/'), Key::Char('a'), Key::Enter, Key::Char('r')]);
        assert_eq!((kept.text.as_str(), kept.is_typing, kept.is_reversed), ("a", false, true));
        let dropped = pressed(&[Key::Char('/'), Key::Char('a'), Key::Escape]);
        assert_eq!((dropped.text.as_str(), dropped.is_typing), ("", false));
        let mut typing = typed;
        assert_eq!(typing.press(Key::Control('c'), EXTENT), Effect::Quit);
        assert_eq!(kept.clone().press(Key::Char('q'), EXTENT), Effect::Quit);
        assert_eq!(typing.press(Key::Control('z'), EXTENT), Effect::Suspend);
    }
}
