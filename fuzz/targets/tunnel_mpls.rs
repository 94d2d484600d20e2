//! Any bytes where mpls is expected; see `tunnel`.

#![no_main]

mod tunnel;

use libfuzzer_sys::fuzz_target;
use quaff_wire::tunnel::TunnelKind;

fuzz_target!(|input: tunnel::Input<'_>| tunnel::inside(TunnelKind::Mpls, input));
