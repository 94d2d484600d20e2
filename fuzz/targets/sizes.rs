//! Any text is read without a panic; what is read as sizes survives being written and read again, and
//! only sizes of it are drawn.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_wire::synth::{Rng, Sizes};

fuzz_target!(|text: &str| {
    // The text of the command line, and the file.
    let _ = Sizes::parse(text);
    let Ok(sizes) = Sizes::from_text(text) else { return };
    assert_eq!(Sizes::from_text(&sizes.to_text("")).as_ref(), Ok(&sizes));
    let (mut source, mut rng) = (sizes.source(), Rng::new(1));
    for _ in 0..10 {
        let size = source.next(&mut rng);
        assert!(
            sizes
                .classes()
                .iter()
                .any(|class| (class.first..=class.last).contains(&size) && class.weight > 0)
        );
    }
});
