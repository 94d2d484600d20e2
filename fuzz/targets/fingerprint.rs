//! Any frame has a fingerprint, which depends neither on bytes after the snaplen nor on those that the mask leaves out.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_wire::fingerprint::{Mask, content, sketch};

fuzz_target!(|input: (bool, bool, u8, u16, &[u8])| {
    let (macs, ttl, snaplen, linktype, frame) = input;
    let mask = Mask { macs, ttl, snaplen: Some(snaplen.into()) };
    let cut = &frame[..frame.len().min(snaplen.into())];
    assert_eq!(content(frame, linktype, &mask), content(cut, linktype, &mask));
    assert_eq!(sketch(frame, linktype, &mask), sketch(cut, linktype, &mask));
    if macs && linktype == 1 && frame.len() >= 12 {
        let mut other = frame.to_vec();
        other[..12].fill(0x77);
        assert_eq!(content(frame, linktype, &mask), content(&other, linktype, &mask));
    }
});
