//! Reproducible pseudorandom numbers.

/// A generator (xorshift). Its seed is not 0.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

#[allow(
    clippy::should_implement_trait,
    reason = "a generator is no iterator: it never ends"
)]
impl Random {
    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number from 0 to `end - 1`. `end` is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end
    }

    /// Returns true in one of `count` calls, on average.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}
