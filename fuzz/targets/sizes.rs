//! Any text is read without a panic; sizes survive being written and read again, and frames are made of them only.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_wire::synth::{
    Addresses, Content, Damage, Flows, LinkHeaders, PacketKind, Ports, Recipe, SIZE_MAX, Sizes, Synth, Tuples,
};

/// UDP frames of these sizes, of at least 42 bytes.
fn recipe(sizes: Sizes) -> Recipe {
    let one: Addresses = "10.0.0.1".parse().expect("an address");
    Recipe {
        sizes,
        size_limits: (1, SIZE_MAX),
        content: Content::Zeros,
        link: LinkHeaders { dst_mac: [2; 6], src_mac: [4; 6], tags: Vec::new(), labels: Vec::new() },
        tunnel: None,
        tuples: Tuples { src: one, dst: one, src_ports: Ports::from(1), dst_ports: Ports::from(2) },
        flows: Flows::default(),
        damage: Damage::default(),
        kind: PacketKind::Udp,
        fragment: None,
        stream: None,
        count: None,
        start_ns: 0,
        seed: 1,
    }
}

fuzz_target!(|text: &str| {
    // The text of the command line, and the file.
    let _ = text.parse::<Sizes>();
    let Ok(sizes) = Sizes::from_text(text) else { return };
    assert_eq!(Sizes::from_text(&sizes.to_text("")).as_ref(), Ok(&sizes));
    let bounds = sizes.bounds();
    let mut synth = Synth::new(recipe(sizes)).expect("a recipe");
    for _ in 0..10 {
        let (size, [min, max]) = (synth.make(0).len() as u32, [bounds.0, bounds.1].map(|size| size.clamp(42, 65_000)));
        assert!((min..=max).contains(&size));
    }
});
