//! The interfaces of a capture: those of its lanes first, then one for each tunnel session (sender and
//! session id) found while it runs.
//!
//! Numbers never change. A lane that finds a session gets the number of its interface here; the writer
//! describes the interface in the file before the first chunk that refers to it.

use quaff_wire::pcapng::Interface;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Largest number of interfaces: a number fits a frame descriptor.
pub const INTERFACES_MAX: usize = 1 << 16;

/// Largest sum of the texts of all interfaces, bytes: they stand in the header of each file, and may come from a file
/// that has many long ones.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// The interfaces of a run, shared by its lanes and its writer.
#[derive(Debug, Clone, Default)]
pub struct Interfaces(Arc<Mutex<Described>>);

#[derive(Debug, Default)]
struct Described {
    interfaces: Vec<Interface>,
    text_bytes: usize,
}

impl Interfaces {
    /// Creates the list with the interfaces of the lanes, in their order.
    pub fn new(known: Vec<Interface>) -> Self {
        let text_bytes = known.iter().map(text_bytes).sum();
        Self(Arc::new(Mutex::new(Described { interfaces: known, text_bytes })))
    }

    /// Adds an interface and returns its number; `None` when the list is full, of interfaces or of their texts.
    pub fn add(&self, interface: Interface) -> Option<u16> {
        let mut all = self.all();
        let text_bytes = all.text_bytes + text_bytes(&interface);
        if all.interfaces.len() >= INTERFACES_MAX || text_bytes > TEXT_BYTES_MAX {
            return None;
        }
        all.text_bytes = text_bytes;
        all.interfaces.push(interface);
        Some((all.interfaces.len() - 1) as u16)
    }

    /// Returns the number of interfaces.
    pub fn count(&self) -> usize {
        self.all().interfaces.len()
    }

    /// Returns copies of the interfaces from number `first` on.
    pub fn since(&self, first: usize) -> Vec<Interface> {
        self.all().interfaces.get(first..).unwrap_or_default().to_vec()
    }

    /// Returns a copy of number `id`.
    pub fn get(&self, id: u16) -> Option<Interface> {
        self.all().interfaces.get(usize::from(id)).cloned()
    }

    /// Ignores poisoning: the list is consistent between any two statements.
    fn all(&self) -> MutexGuard<'_, Described> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text_bytes(interface: &Interface) -> usize {
    let filter = interface.filter.as_ref().map_or(0, String::len);
    interface.name.len() + interface.description.len() + interface.os.len() + filter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_all_interfaces_are_limited() {
        let all = Interfaces::default();
        let long = Interface { description: "x".repeat(65_535), ..Interface::default() };
        while all.add(long.clone()).is_some() {}
        assert_eq!(all.count(), TEXT_BYTES_MAX / 65_535);
        let number = all.count() as u16;
        assert_eq!(all.add(Interface::default()), Some(number), "one without texts still fits");
    }

    #[test]
    fn numbers_are_unique_and_limited() {
        let named = |name: &str| Interface { name: name.into(), ..Interface::default() };
        let all = Interfaces::new(vec![named("eth0")]);
        assert_eq!(all.clone().add(named("a")), Some(1));
        assert_eq!(all.add(named("b")), Some(2));
        assert_eq!(all.since(1).iter().map(|i| i.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(all.since(9).len(), 0);
        while all.add(named("more")).is_some() {}
        assert_eq!(all.count(), INTERFACES_MAX);
    }
}
