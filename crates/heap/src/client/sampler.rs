//! The sampler of allocations: a Poisson process over bytes.

use core::ffi::c_void;

use super::thread::Thread;
use crate::sys;

/// Returns the next random number of SplitMix64. The state 0 is seeded first.
pub(super) fn random(state: &mut u64) -> u64 {
    if *state == 0 {
        *state = seed();
    }
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn seed() -> u64 {
    let mut seed = [0_u8; 8];
    // SAFETY: the buffer is eight bytes. 1 is `GRND_NONBLOCK`: early in the system's boot, the
    // fallback below is good enough.
    let got = unsafe { sys::getrandom(seed.as_mut_ptr().cast::<c_void>(), 8, 1) };
    let mut time = sys::Timespec::default();
    if got != 8 {
        // SAFETY: `time` is valid.
        unsafe { sys::clock_gettime(sys::CLOCK_MONOTONIC_COARSE, &mut time) };
    }
    let mixed = time.nanoseconds as u64 ^ ((sys::tid() as u64) << 32);
    u64::from_ne_bytes(seed) ^ mixed | 1
}

/// The natural logarithm of a number between 0 and 1.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let mut mantissa = f64::from_bits(bits & 0x000f_ffff_ffff_ffff | 0x3ff0_0000_0000_0000);
    if mantissa > core::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln(m) = 2 (s + s^3/3 + s^5/5 + …), where s is below 0.172.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    let mut power = s;
    let mut odd = 1.0;
    for _ in 0..9 {
        sum += power / odd;
        power *= square;
        odd += 2.0;
    }
    2.0 * sum + exponent as f64 * core::f64::consts::LN_2
}

/// Returns the distance to the next sample, at least 1: exponential, with the mean `interval`.
fn draw(state: &mut u64, interval: u64) -> i64 {
    // In the range (0, 1].
    let uniform = ((random(state) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    let distance = -ln(uniform) * interval as f64;
    (distance as i64).saturating_add(1)
}

/// Returns the number of bytes that an allocation represents; 0 if it is not sampled. `next` is the
/// distance to the next sample.
pub(super) fn sample(next: &mut i64, state: &mut u64, interval: u64, size: u64) -> u64 {
    if size >= interval {
        return size;
    }
    *next = next.saturating_sub(size as i64);
    let mut count: u64 = 0;
    while *next <= 0 {
        *next = next.saturating_add(draw(state, interval));
        count += 1;
    }
    interval.saturating_mul(count)
}

impl Thread {
    /// Returns the number of bytes that an allocation of `malloc` represents; 0 if it is not
    /// sampled. A new `tag` restarts the sampling.
    pub(super) fn sample(&mut self, tag: u32, interval: u64, size: u64) -> u64 {
        let mut next = if self.tag == tag {
            self.rest.saturating_add_unsigned(self.passing)
        } else {
            draw(&mut self.random, interval)
        };
        let weight = sample(&mut next, &mut self.random, interval, size);
        self.tag = tag;
        self.passing = next.unsigned_abs().min(interval);
        self.rest = next.saturating_sub_unsigned(self.passing);
        weight
    }
}

/// Returns the distance to the first sample of a heap.
pub(super) fn first(state: &mut u64, interval: u64) -> i64 {
    draw(state, interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_006_interval_one_and_large_sizes_are_exact() {
        let (mut next, mut state) = (1, 7);
        for size in 1..1000 {
            assert_eq!(sample(&mut next, &mut state, 1, size), size);
        }
        assert_eq!(sample(&mut next, &mut state, 4096, 4096), 4096);
        assert_eq!(sample(&mut next, &mut state, 4096, 1 << 40), 1 << 40);
        let mut next = 1;
        assert_eq!(sample(&mut next, &mut state, 1, 0), 0, "the size is 0");
    }

    #[test]
    fn heap_006_estimates_are_unbiased() {
        let interval = 4096_u64;
        for size in [1_u64, 32, 500, 4095] {
            let mut state = 12_345 + size;
            let mut next = first(&mut state, interval);
            let count = 40_000_000 / size.max(20);
            let total: u64 = (0..count)
                .map(|_| sample(&mut next, &mut state, interval, size))
                .sum();
            let expected = (size * count) as f64;
            let sigma = (expected * interval as f64).sqrt();
            let off = (total as f64 - expected).abs() / sigma;
            assert!(off < 4.0, "{size}: {total} is {off} sigma from {expected}");
        }
    }

    #[test]
    fn heap_006_passing_allocations_are_counted_like_checked_ones() {
        let mut thread = Thread::new();
        let (interval, size) = (4096, 300);
        let mut total = 0;
        let count = 4_000_000;
        thread.random = 4711;
        for _ in 0..count {
            // Like `passes`.
            if size < thread.passing {
                thread.passing -= size
            } else {
                total += thread.sample(1, interval, size)
            }
            assert!(thread.passing <= interval && thread.rest >= 0);
        }
        let expected = (size * count) as f64;
        let sigma = (expected * interval as f64).sqrt();
        let off = (total as f64 - expected).abs() / sigma;
        assert!(off < 4.0, "{total} is {off} sigma from {expected}");
        assert!(thread.passing <= interval, "larger sizes never pass");
    }

    #[test]
    fn logarithms_are_exact_enough() {
        for x in [1e-12_f64, 1e-3, 0.1, 0.5, 0.7, 0.75, 0.999_999, 1.0] {
            assert!((ln(x) - x.ln()).abs() < 1e-12 * (1.0 + x.ln().abs()), "{x}");
        }
    }

    #[test]
    fn threads_sample_independently() {
        let (mut one, mut other) = (0, 0);
        assert_ne!(random(&mut one), random(&mut other));
    }
}
