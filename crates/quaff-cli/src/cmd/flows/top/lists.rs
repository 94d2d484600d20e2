//! The lists of names that this machine has. They are read before the process is confined.

use quaff_flow::summary::Names;
use std::fs::File;
use std::io::Read as _;

/// Bytes of a list that are read.
const LIST_BYTES_MAX: u64 = 4 << 20;

/// The names of hosts and services of this machine.
pub(super) fn names() -> Names {
    Names::listed(&list("/etc/hosts"), &list("/etc/services"))
}

/// A list; empty where there is none.
fn list(path: &str) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LIST_BYTES_MAX).read_to_end(&mut bytes));
    read.map_or(String::new(), |_| String::from_utf8_lossy(&bytes).into_owned())
}
