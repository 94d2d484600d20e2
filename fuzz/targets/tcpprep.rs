//! Any bytes are read as a cache file without a panic; each packet that it has an entry for has an assignment.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_wire::tcpprep::Cache;

fuzz_target!(|bytes: &[u8]| {
    let Ok(cache) = Cache::read(bytes) else { return };
    let last = cache.packets;
    assert!(cache.side(1).is_some() && cache.side(last).is_some());
    assert!(cache.side(0).is_none() && last.checked_add(1).and_then(|next| cache.side(next)).is_none());
});
