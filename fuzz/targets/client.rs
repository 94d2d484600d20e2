//! Any frames and any words of a rule: nothing panics, and each frame has one of two outputs.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_wire::{RoleClassifier, RoleRule};
use quaff_wire::rewrite::{AddressMap, PortMap, TagEdit, TrafficClass, Ttl};

const RULES: [&str; 5] = ["auto", "first", "port", "cidr=10.0.0.0/8,fd00::/8", "mac=02:00:00:00:00:01"];

fuzz_target!(|input: (u8, &str, Vec<&[u8]>)| {
    let (choice, word, frames) = input;
    let known = || RULES[usize::from(choice) % RULES.len()].parse().expect("a rule");
    let rule: RoleRule = word.parse().unwrap_or_else(|_| known());
    let mut sides = RoleClassifier::new(rule, choice & 1);
    assert!(frames.iter().all(|frame| sides.output(frame) < 2));
    let _ = word.parse::<AddressMap>();
    let _ = (word.parse::<PortMap>(), word.parse::<TagEdit>(), word.parse::<TrafficClass>());
    let _ = word.parse::<Ttl>();
});
