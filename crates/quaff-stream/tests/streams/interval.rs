//! The interval of the estimate, against losses that are known: flows side by side and one after the other, segments of
//! one size and of many.

use crate::observer::{Observer, Packet, Random, traffic_of};
use quaff_stream::LossReport;

/// Runs of each case.
const RUNS: u64 = 100;

/// The shape of the traffic of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    /// Segments of 1,000 bytes, flows side by side.
    Even,
    /// Segments of 60 to 1,460 bytes, flows side by side.
    Mixed,
    /// One long segment, then short ones, one flow after the other: a certificate, and keystrokes.
    Keystrokes,
}

/// The packets of 20 flows in their order; each has the number of its flow.
fn packets(random: &mut Random, shape: Shape) -> Vec<(u16, Packet)> {
    let flow = |random: &mut Random| {
        let size = |at: u32, random: &mut Random| match shape {
            Shape::Even => 1000,
            Shape::Mixed => [100, 1460, 1460, 60 + random.below(1400) as u32][random.below(4) as usize],
            Shape::Keystrokes => {
                if at == 0 {
                    1460
                } else {
                    100
                }
            }
        };
        let sizes: Vec<u32> = (0..200).map(|at| size(at, random)).collect();
        traffic_of(random, &sizes, 2000)
    };
    let mut flows: Vec<_> = (0..20).map(|number| (number, flow(random).into_iter())).collect();
    let mut all = Vec::new();
    while !flows.is_empty() {
        let at = if shape == Shape::Keystrokes { 0 } else { random.below(flows.len() as u64) as usize };
        let (number, packets) = &mut flows[at];
        match packets.next() {
            Some(packet) => all.push((*number, packet)),
            None => drop(flows.swap_remove(at)),
        }
    }
    all
}

/// One run: the report, and the share of packets that were removed.
fn run(packets: &[(u16, Packet)], seed: u64, per_million: u64, burst: u64) -> (LossReport, f64) {
    let (mut random, mut observer, mut gone, mut left) = (Random(seed), Observer::new(), 0u32, 0);
    for (flow, packet) in packets {
        if left == 0 && random.happens(per_million / burst) {
            left = burst;
        }
        match left {
            0 => observer.give(*flow, packet),
            _ => gone += 1,
        }
        left = left.saturating_sub(1);
    }
    (observer.finish(), f64::from(gone) / packets.len() as f64)
}

/// Runs of one case whose interval held the truth, a half of it, and twice as much; and the mean of the width, as a
/// multiple of that of a Poisson count.
fn hits(shape: Shape, per_million: u64, burst: u64) -> ([u64; 3], f64) {
    let (mut hits, mut width) = ([0; 3], 0.0);
    for number in 0..RUNS {
        let seed = 1 + number * 7919 + per_million * 31 + burst;
        let packets = packets(&mut Random(seed), shape);
        let (report, truth) = run(&packets, seed + 5, per_million, burst);
        let [low, high] = [report.loss_low, report.loss_high].map(Option::unwrap);
        for (hits, factor) in hits.iter_mut().zip([1.0, 0.5, 2.0]) {
            *hits += u64::from((low..=high).contains(&(truth * factor)));
        }
        let segments = report.segments as f64;
        let poisson = (2.0 * 1.96 * (truth * segments).sqrt() + 3.7) / segments;
        width += (high - low) / poisson / RUNS as f64;
    }
    (hits, width)
}

#[test]
fn the_share_that_was_removed_is_in_the_interval() {
    for shape in [Shape::Even, Shape::Mixed, Shape::Keystrokes] {
        for (per_million, burst) in
            [(100, 1), (1000, 1), (10_000, 1), (50_000, 1), (100, 8), (1000, 8), (10_000, 8), (50_000, 8)]
        {
            let ([right, half, twice], width) = hits(shape, per_million, burst);
            let case = format!("{shape:?}, {per_million} per million in bursts of {burst}");
            assert!(right >= 95, "{case}: {right} of {RUNS}");
            // Bursts widen it by the square root of their length; runs that may be one packet or many, downward.
            let widest = match (shape, burst) {
                (Shape::Keystrokes, 8) => continue,
                (_, 1) => 1.5,
                _ => (burst as f64).sqrt(),
            };
            assert!(width < widest, "{case}: width {width}");
            // A count that is wrong by a factor of two lies outside, where there are losses enough to see it.
            let is_sharp = burst == 1 && per_million >= 10_000;
            assert!(!is_sharp || half + twice < RUNS / 4, "{case}: half {half}, twice {twice}");
        }
    }
}
