//! Any bytes where l2tp is expected; see `tunnel`.

#![no_main]

mod tunnel;

use libfuzzer_sys::fuzz_target;
use quaff_wire::tunnel::Kind;

fuzz_target!(|input: tunnel::Input<'_>| tunnel::inside(Kind::L2tp, input));
