//! Frames of the kernel's callchain.

use super::{Outcome, Walker, splice};
use crate::budget::Budget;
use crate::cfi::Kind;
use crate::registers::Machine;
use crate::sample::MAX_FRAMES;

/// The first address that is a context marker of a chain.
const FIRST_MARKER: u64 = -4095_i64 as u64;

impl Walker<'_> {
    /// Appends the whole chain. All addresses but the first are return addresses.
    pub(super) fn chain(&mut self, chain: &[u64]) -> Outcome {
        let call = Machine::NATIVE.call_size();
        let addresses = chain.iter().filter(|&&address| address < FIRST_MARKER);
        let mut unmapped = false;
        for (index, &address) in addresses.take(MAX_FRAMES).enumerate() {
            let inside = if index == 0 {
                address
            } else {
                address.wrapping_sub(call)
            };
            if self.space.find(inside).is_none() {
                unmapped = true;
                if self.may_read {
                    break;
                }
            }
            self.push_address(inside);
        }
        if unmapped && self.may_read {
            return Outcome::Unmapped;
        }
        Outcome::Ended(Ok(()))
    }

    /// Returns true if the frames found in live memory agree with the kernel's: our addresses from
    /// index `from` on contain all code addresses of `rest`.
    pub(super) fn confirms(&self, rest: &[u64], from: usize) -> bool {
        let call = Machine::NATIVE.call_size();
        let code = rest
            .iter()
            .copied()
            .take_while(|address| self.space.find(address.wrapping_sub(call)).is_some());
        self.walk
            .addresses
            .get(from..)
            .is_some_and(|found| splice::is_within(code, found))
    }

    /// Appends frames for return addresses until one is not code or is in the outermost function.
    /// Returns their number.
    pub(super) fn append_chain(&mut self, rest: &[u64]) -> usize {
        let call = Machine::NATIVE.call_size();
        let mut budget = Budget::default();
        let left = MAX_FRAMES.saturating_sub(self.walk.addresses.len());
        let mut count = 0;
        for address in rest.iter().take(left) {
            let inside = address.wrapping_sub(call);
            let spot = self
                .space
                .spot(inside, Machine::NATIVE, self.cache, &mut budget);
            let Some(spot) = spot else { break };
            self.push(spot.map_index, inside);
            count += 1;
            if spot.rule.kind == Kind::End {
                break;
            }
        }
        count
    }
}
