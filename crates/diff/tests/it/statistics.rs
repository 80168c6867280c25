//! The statistics against known values.

use ferretto_diff::statistics::{
    block_error, false_discovery, quantile, student, student_quantile, tolerance,
};

#[test]
fn the_tails_of_students_distribution() {
    // From tables of quantiles: 97.5 %, 99.5 % and 99.95 %.
    for (degrees, t, p) in [
        (1.0, 12.706, 0.05),
        (2.0, 9.925, 0.01),
        (5.0, 2.571, 0.05),
        (10.0, 4.587, 0.001),
        (30.0, 2.042, 0.05),
        (1000.0, 3.300, 0.001),
    ] {
        let found = student(t, degrees);
        assert!((found / p - 1.0).abs() < 0.01, "{degrees} {t}: {found}");
        assert!((student(-t, degrees) - found).abs() < 1e-12);
    }
    assert!((student(0.0, 4.0) - 1.0).abs() < 1e-9);
    assert_eq!(student(f64::INFINITY, 4.0), 0.0);
    assert_eq!(student(f64::NAN, 4.0), 1.0);
}

#[test]
fn tolerance_factors_are_those_of_tables() {
    // From tables of one-sided factors with a confidence of 95 %, for 90, 95 and 99 %.
    for (count, chance, factor) in [
        (3.0, 0.1, 6.155),
        (5.0, 0.05, 4.203),
        (10.0, 0.1, 2.355),
        (10.0, 0.05, 2.911),
        (10.0, 0.01, 3.981),
        (20.0, 0.01, 3.295),
        (50.0, 0.05, 2.065),
    ] {
        let found = tolerance(chance, count, count - 1.0, 0.95);
        assert!(
            (found / factor - 1.0_f64).abs() < 0.005,
            "{count} {chance}: {found}"
        );
    }
    // Few values need more space, and more of them less.
    let of = |count: f64| tolerance(0.001, count, count - 1.0, 0.95);
    assert!(of(3.0) > of(6.0) && of(6.0) > of(12.0));
    assert!((student_quantile(0.025, 10.0) - 2.228_f64).abs() < 0.001);
}

#[test]
fn rates_of_false_discoveries_keep_the_order() {
    let p = [0.01, 0.5, 0.02, 0.03];
    let q = false_discovery(&p);
    let expected = [0.04, 0.5, 0.04, 0.04];
    assert!(
        q.iter()
            .zip(expected)
            .all(|(q, expected)| (q - expected).abs() < 1e-12),
        "{q:?}"
    );
    assert!(false_discovery(&[]).is_empty());
}

#[test]
fn errors_grow_with_the_variation() {
    let even = [10.0_f32; 32];
    let mut uneven = even;
    uneven[..8].fill(100.0);
    assert!(block_error(&even, 1) < 1e-6);
    assert!(block_error(&uneven, 1) > 0.1);
    assert_eq!(block_error(&[], 1), 0.0);
    assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.5), 2.0);
    assert_eq!(quantile(&[], 0.5), 0.0);
}
