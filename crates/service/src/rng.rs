//! The service's only source of randomness. It is seeded, so that a run can be repeated.

/// SplitMix64 over a 128-bit seed, for identifiers and probabilities. Not for secrets.
#[derive(Debug, Clone)]
pub(crate) struct Rng {
    state: u64,
    mask: u64,
}

impl Rng {
    pub(crate) fn new(seed: u128) -> Self {
        Self {
            state: seed as u64,
            mask: (seed >> 64) as u64,
        }
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        // The second half of the seed changes at every step too: a constant one would only permute
        // the values.
        self.mask = self.mask.rotate_left(7).wrapping_mul(0x2545_f491_4f6c_dd1d) ^ self.state;
        mix(mix(self.state) ^ self.mask)
    }

    /// Returns a number from 0 up to, but not including, 1.
    pub(crate) fn next_unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_numbers_other_half_other_numbers() {
        let take = |seed| {
            let mut rng = Rng::new(seed);
            [rng.next_u64(), rng.next_u64(), rng.next_u64()]
        };
        assert_eq!(take(7), take(7));
        assert_ne!(take(7), take(7 | 1 << 64));
        assert_ne!(take(7), take(8));
    }
}
