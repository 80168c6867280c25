//! Statistics: random numbers, tails of distributions, quantiles, false discovery control.

/// Random numbers that are the same in every run.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Returns the numbers of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns the next number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }
}

/// Returns the mean. 0 without values.
pub fn mean(values: &[f64]) -> f64 {
    match values.len() {
        0 => 0.0,
        count => values.iter().sum::<f64>() / count as f64,
    }
}

/// Returns the sum of the squared distances from the mean.
pub fn squares(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

/// Returns a quantile of sorted values, for `part` from 0 to 1. 0 without values.
pub fn quantile(sorted: &[f64], part: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let at = part.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * (at - low as f64)
}

/// Returns the probability that a variable with Student's distribution is as far from 0 as `t`, in
/// either direction.
pub fn student(t: f64, degrees: f64) -> f64 {
    if t.is_nan() {
        return 1.0;
    }
    incomplete_beta(degrees / (degrees + t * t), degrees / 2.0, 0.5).clamp(0.0, 1.0)
}

/// Returns the number that a variable with Student's distribution exceeds with this probability,
/// which is less than a half.
pub fn student_quantile(chance: f64, degrees: f64) -> f64 {
    // One side of two.
    first(|t| student(t, degrees) <= 2.0 * chance)
}

/// Returns the one-sided tolerance factor of a normal distribution: the mean of `count` values plus
/// this many of their standard deviations, which have these degrees of freedom, is exceeded by at
/// most `chance` of all further values, with this confidence.
pub fn tolerance(chance: f64, count: f64, degrees: f64, confidence: f64) -> f64 {
    /// The step of the numeric integration, and its end: in standard deviations.
    const STEP: f64 = 0.01;
    const END: f64 = 6.0;
    /// The degrees from which on Student's distribution is the normal one.
    const NORMAL: f64 = 1e6;
    let covered = student_quantile(chance, NORMAL);
    // The likely quotients of the values' standard deviation and the true one, with their weights.
    let quotients = (1..(END / STEP) as u32).map(|step| f64::from(step) * STEP);
    let weight = |s: f64| ((degrees - 1.0) * s.ln() - degrees * (s * s - 1.0) / 2.0).exp();
    let all: Vec<(f64, f64)> = quotients.map(|s| (s, weight(s))).collect();
    let total: f64 = all.iter().map(|(_, weight)| weight).sum();
    let below = |z: f64| match student(z, NORMAL) / 2.0 {
        tail if z > 0.0 => 1.0 - tail,
        tail => tail,
    };
    first(|factor| {
        let covers = all
            .iter()
            .map(|(s, weight)| weight * below(count.sqrt() * (factor * s - covered)));
        covers.sum::<f64>() >= confidence * total
    })
}

/// Returns the least positive number for which a condition holds that holds for all larger ones, by
/// bisection.
fn first(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1000.0);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if holds(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// Returns the logarithm of the gamma function, for positive numbers.
fn ln_gamma(x: f64) -> f64 {
    // Stirling's series, after the argument is raised until it is precise.
    let (mut x, mut below) = (x, 0.0);
    while x < 10.0 {
        below += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square / 1260.0));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - below
}

/// Returns the regularized incomplete beta function.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The continued fraction converges fast on this side only.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln();
    // Lentz's method.
    let nonzero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let (mut c, mut d) = (1.0, 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for step in 1..300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / nonzero(1.0 + even * d);
        c = nonzero(1.0 + even / c);
        fraction *= c * d;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / nonzero(1.0 + odd * d);
        c = nonzero(1.0 + odd / c);
        fraction *= c * d;
        if (c * d - 1.0).abs() < 1e-12 {
            break;
        }
    }
    front.exp() * fraction / a
}

/// Returns the adjusted probabilities of Benjamini and Hochberg: the rate of false discoveries if
/// all with at most this probability are taken for discoveries.
pub fn false_discovery(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*b].total_cmp(&p[*a]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least = 1.0_f64;
    for (from_last, at) in order.iter().enumerate() {
        let rank = (p.len() - from_last) as f64;
        least = least.min(p[*at] * p.len() as f64 / rank);
        adjusted[*at] = least;
    }
    adjusted
}

/// Returns the probability that two sets of values that were divided by chance have means as far
/// apart as these: a permutation test. 1 if there are too few values to tell.
pub fn permutation(before: &[f64], after: &[f64], seed: u64) -> f64 {
    const ROUNDS: usize = 2000;
    let distance = |before: &[f64], after: &[f64]| (mean(after) - mean(before)).abs();
    let least = distance(before, after) * (1.0 - 1e-9);
    let mut all = [before, after].concat();
    let mut random = Random::new(seed);
    let mut count = 0;
    for _ in 0..ROUNDS {
        for at in 0..before.len() {
            let other = at + random.below(all.len() - at);
            all.swap(at, other);
        }
        let (before, after) = all.split_at(before.len());
        count += usize::from(distance(before, after) >= least);
    }
    (count + 1) as f64 / (ROUNDS + 1) as f64
}

/// Returns the relative standard error of a sum of parts that may depend on those before them: a
/// block bootstrap.
pub fn block_error(parts: &[f32], seed: u64) -> f64 {
    const ROUNDS: usize = 200;
    const BLOCK: usize = 4;
    let total: f64 = parts.iter().map(|part| f64::from(*part)).sum();
    if parts.len() < 2 * BLOCK || total <= 0.0 {
        return 0.0;
    }
    let mut random = Random::new(seed);
    let sums: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let mut sum = 0.0;
            for _ in 0..parts.len() / BLOCK {
                let first = random.below(parts.len());
                for at in first..first + BLOCK {
                    sum += f64::from(parts[at % parts.len()]);
                }
            }
            sum
        })
        .collect();
    (squares(&sums) / ROUNDS as f64).sqrt() / total
}

/// Returns the relative standard error of a quantile of values in the order of time, which may
/// depend on those before them: a block bootstrap.
pub fn quantile_error(values: &[f64], part: f64, seed: u64) -> f64 {
    const ROUNDS: usize = 100;
    if values.len() < 8 {
        return 0.3;
    }
    let block = (values.len() as f64).sqrt() as usize / 2 + 1;
    let mut random = Random::new(seed);
    let mut drawn = Vec::with_capacity(values.len() + block);
    let quantiles: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            drawn.clear();
            while drawn.len() < values.len() {
                let first = random.below(values.len());
                drawn.extend((first..first + block).map(|at| values[at % values.len()]));
            }
            drawn.sort_by(f64::total_cmp);
            quantile(&drawn, part).max(1.0).ln()
        })
        .collect();
    (squares(&quantiles) / ROUNDS as f64).sqrt()
}
