//! The interfaces that a capture's file knows: those of its lanes first, then those that are found
//! while it runs, one for each (sender, session) of a tunnel.
//!
//! Numbers are given once and never change. A lane that finds a new one gets its number here; the
//! writer describes it in the file before the first chunk that speaks of it.

use quaff_wire::pcapng::encode::Interface;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many there can be: a number fits a frame, and a file's head stays small.
pub const INTERFACES_MAX: usize = 32_768;

/// All interfaces of a run, shared by its lanes and its writer.
#[derive(Debug, Clone, Default)]
pub struct Interfaces(Arc<Mutex<Vec<Interface>>>);

impl Interfaces {
    /// Those that are known at the start, in the order of their lanes.
    pub fn new(known: Vec<Interface>) -> Self {
        Self(Arc::new(Mutex::new(known)))
    }

    /// Gives a new one its number; `None` when there are too many.
    pub fn add(&self, interface: Interface) -> Option<u16> {
        let mut all = self.all();
        if all.len() >= INTERFACES_MAX {
            return None;
        }
        all.push(interface);
        Some((all.len() - 1) as u16)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all().len()
    }

    /// Number `first` and all behind it.
    pub fn since(&self, first: usize) -> Vec<Interface> {
        self.all().get(first..).unwrap_or_default().to_vec()
    }

    /// A copy of number `id`.
    pub fn get(&self, id: u16) -> Option<Interface> {
        self.all().get(usize::from(id)).cloned()
    }

    /// The list is whole between any two statements, so a panic elsewhere has not broken it.
    fn all(&self) -> MutexGuard<'_, Vec<Interface>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_once_and_there_is_an_end() {
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
