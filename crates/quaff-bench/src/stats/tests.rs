//! Cases computed by hand; the ranks also compared with published tables.

use super::*;

fn near(found: Option<f64>, expected: f64) {
    let found = found.expect("a number");
    assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
}

#[test]
fn nothing_is_made_of_no_numbers() {
    let of_none: [Option<f64>; 5] =
        [mean(&[]), trimmed_mean(&[]), median(&[]), quantile(&[], 0.9), std_dev(&[])];
    assert_eq!(of_none, [None; 5]);
    assert_eq!(spread(&[]), None);
    assert_eq!(mann_whitney(&[], &[1.0]), None);
    assert_eq!(mann_whitney(&[1.0], &[]), None);
}

#[test]
fn the_best_and_the_worst_are_left_out_of_the_trimmed_mean() {
    // (0.02 + 0.03 + 0.04) / 3
    near(trimmed_mean(&[0.04, 0.90, 0.02, 0.03, 0.00]), 0.03);
    near(trimmed_mean(&[1.0, 5.0, 100.0]), 5.0);
    near(trimmed_mean(&[2.0, 2.0, 2.0, 2.0]), 2.0);
    near(trimmed_mean(&[1.0, 4.0]), 2.5);
    near(trimmed_mean(&[7.0]), 7.0);
}

#[test]
fn the_median_is_in_the_middle() {
    near(median(&[3.0]), 3.0);
    near(median(&[9.0, 1.0, 2.0]), 2.0);
    near(median(&[9.0, 1.0, 2.0, 4.0]), 3.0);
}

#[test]
fn quantiles_lie_between_their_neighbours_in_proportion() {
    // Position 0.25 × 3 = 0.75, between 10 and 20.
    let numbers = [40.0, 10.0, 30.0, 20.0];
    near(quantile(&numbers, 0.25), 17.5);
    near(quantile(&numbers, 0.9), 37.0);
    near(quantile(&numbers, 0.0), 10.0);
    near(quantile(&numbers, 1.0), 40.0);
    near(quantile(&numbers, 7.0), 40.0);
}

#[test]
fn the_spread_is_from_the_smallest_to_the_largest() {
    assert_eq!(spread(&[0.3, 0.1, 0.2]), Some([0.1, 0.3]));
    assert_eq!(spread(&[0.3]), Some([0.3, 0.3]));
    // Mean 5, squares 9 1 1 1 0 0 4 16, sum 32, over 7.
    near(std_dev(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), (32.0_f64 / 7.0).sqrt());
    assert_eq!(std_dev(&[2.0]), None);
}

#[test]
fn loss_is_what_was_offered_and_is_missing() {
    near(loss_ratio(1_000_000, 900_000), 0.1);
    near(loss_ratio(3, 3), 0.0);
    near(loss_ratio(3, 4), 0.0);
    near(loss_ratio(7, 0), 1.0);
    assert_eq!(loss_ratio(0, 0), None);
}

#[test]
fn a_difference_is_a_share_of_the_larger() {
    assert!((difference(90.0, 100.0) - 0.1).abs() < 1e-12);
    assert!((difference(100.0, 90.0) - 0.1).abs() < 1e-12);
    assert_eq!(difference(0.0, 0.0), 0.0);
    assert_eq!(difference(0.0, 5.0), 1.0);
}

#[test]
fn series_that_do_not_overlap_are_as_uneven_as_can_be() {
    // 2 of 252 ways to choose five of ten.
    let ranked = mann_whitney(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]).expect("ranked");
    assert_eq!(ranked.u, 0.0);
    near(Some(ranked.p), 2.0 / 252.0);
    near(Some(ranked.p_min), 2.0 / 252.0);
    // Swapped: the same probability, U and 25 − U.
    let ranked = mann_whitney(&[6.0, 7.0, 8.0, 9.0, 10.0], &[1.0, 2.0, 3.0, 4.0, 5.0]).expect("ranked");
    assert_eq!(ranked.u, 25.0);
    near(Some(ranked.p), 2.0 / 252.0);
    // Three against three: never rarer than 2 in 20.
    near(mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).map(|ranked| ranked.p), 0.1);
}

#[test]
fn the_chance_is_that_of_the_tables() {
    // U = 2 of 5 × 5: 0.0317 two-sided in the usual tables (sums up to 17: 1 + 1 + 2 ways of 252).
    let ranked = mann_whitney(&[1.0, 2.0, 3.0, 4.0, 7.0], &[5.0, 6.0, 8.0, 9.0, 10.0]).expect("ranked");
    assert_eq!(ranked.u, 2.0);
    near(Some(ranked.p), 8.0 / 252.0);
    // U = 3 of 3 × 4: ranks 1, 3, 5 of 7; sums of at most 9 or at least 15 in 7 + 7 ways of 35.
    let ranked = mann_whitney(&[1.0, 3.0, 5.0], &[2.0, 4.0, 6.0, 7.0]).expect("ranked");
    assert_eq!(ranked.u, 3.0);
    near(Some(ranked.p), 14.0 / 35.0);
}

#[test]
fn ties_share_their_ranks() {
    let same = [0.0; 5];
    let ranked = mann_whitney(&same, &same).expect("ranked");
    assert_eq!((ranked.u, ranked.p), (12.5, 1.0));
    // Ranks 1.5 1.5 and 3 4: one of six ways, and its mirror image.
    let ranked = mann_whitney(&[0.0, 0.0], &[1.0, 2.0]).expect("ranked");
    assert_eq!(ranked.u, 0.0);
    near(Some(ranked.p), 2.0 / 6.0);
    // A zero in both: ranks 2 2 and 2 4. Either zero may be in the first: sums 4 4 4 | 6 6 6, all equally uneven.
    near(mann_whitney(&[0.0, 0.0], &[0.0, 1.0]).map(|ranked| ranked.p), 1.0);
}

#[test]
fn so_many_numbers_are_ranked_and_no_more() {
    let low: Vec<f64> = (0..100).map(f64::from).collect();
    let high: Vec<f64> = (100..200).map(f64::from).collect();
    assert!(mann_whitney(&low, &high).expect("ranked").p < 1e-50);
    assert_eq!(mann_whitney(&low, &[high.as_slice(), &[200.0]].concat()), None);
}
