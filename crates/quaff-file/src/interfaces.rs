//! The interfaces of a capture: those of its lanes first, then one for each tunnel session (sender and
//! session id) found while it runs.
//!
//! Numbers never change. A lane that finds a session gets the number of its interface here; the writer
//! describes the interface in the file before the first chunk that refers to it.

use quaff_wire::pcapng::Interface;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Largest number of interfaces: a number fits a frame descriptor, and the header of a file stays small.
pub(crate) const INTERFACES_MAX: usize = 32_768;

/// The interfaces of a run, shared by its lanes and its writer.
#[derive(Debug, Clone, Default)]
pub struct Interfaces(Arc<Mutex<Vec<Interface>>>);

impl Interfaces {
    /// Creates the list with the interfaces of the lanes, in their order.
    pub fn new(known: Vec<Interface>) -> Self {
        Self(Arc::new(Mutex::new(known)))
    }

    /// Adds an interface and returns its number; `None` when the list is full.
    pub fn add(&self, interface: Interface) -> Option<u16> {
        let mut all = self.all();
        if all.len() >= INTERFACES_MAX {
            return None;
        }
        all.push(interface);
        Some((all.len() - 1) as u16)
    }

    /// Returns the number of interfaces.
    pub fn count(&self) -> usize {
        self.all().len()
    }

    /// Returns copies of the interfaces from number `first` on.
    pub fn since(&self, first: usize) -> Vec<Interface> {
        self.all().get(first..).unwrap_or_default().to_vec()
    }

    /// Returns a copy of number `id`.
    pub fn get(&self, id: u16) -> Option<Interface> {
        self.all().get(usize::from(id)).cloned()
    }

    /// Ignores poisoning: the list is consistent between any two statements.
    fn all(&self) -> MutexGuard<'_, Vec<Interface>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
