//! The splice of a callstack: the point at which the kernel's chain meets the found frames.
//!
//! Both start at the sampled program counter and contain return addresses. The chain lacks
//! functions without a frame pointer. So both are compared from the innermost frame on: each of our
//! addresses that equals the chain's next one is the same frame. (A search for the last address
//! would fail in a recursion, where all are equal.) The chain can continue our frames if it
//! contains one of the outermost few; its addresses after that are the missing frames.

/// The number of outermost found frames that may be the common one.
const NEAR: usize = 4;

/// The part of a chain that continues frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rest<'c> {
    /// The missing addresses, the innermost first.
    pub(super) addresses: &'c [u64],
    /// Set if both have a common return address. Otherwise the chain may be from code without frame
    /// pointers, and unreliable.
    pub(super) is_sure: bool,
}

/// Returns the part of `chain` that continues `found`.
pub(super) fn rest<'c>(found: &[u64], chain: &'c [u64]) -> Option<Rest<'c>> {
    let mut next = 0;
    let mut matches = 0;
    let mut last_match = None;
    for (index, address) in found.iter().enumerate() {
        // The chain may have an address that we lack, as after a function that has not set up its
        // frame.
        let skipped = [0, 1]
            .into_iter()
            .find(|skip| chain.get(next + skip) == Some(address));
        if let Some(skipped) = skipped {
            last_match = Some(index);
            matches += 1;
            next += skipped + 1;
        }
    }
    let near = found.len() - last_match? <= NEAR;
    let is_sure = matches > 1;
    let addresses = chain.get(next..).filter(|rest| !rest.is_empty())?;
    (near && (is_sure || found.len() == 1)).then_some(Rest { addresses, is_sure })
}

/// Returns true if `whole` contains all of `part` in that order.
pub(super) fn is_within(mut part: impl Iterator<Item = u64>, whole: &[u64]) -> bool {
    let mut whole = whole.iter();
    part.all(|address| whole.any(|&other| other == address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses<'c>(found: &[u64], chain: &'c [u64]) -> Option<&'c [u64]> {
        rest(found, chain).map(|rest| rest.addresses)
    }

    #[test]
    fn the_chain_continues_after_the_common_frame() {
        assert_eq!(addresses(&[1, 2, 3], &[1, 2, 3, 4, 5]), Some(&[4, 5][..]));
        assert_eq!(rest(&[1, 2, 3], &[1, 2, 3]), None);
        assert_eq!(rest(&[1, 2, 3], &[]), None);
        assert_eq!(rest(&[1, 2, 3], &[7, 8, 9]), None);
    }

    #[test]
    fn functions_without_frame_pointers_are_left_out_of_the_chain() {
        assert_eq!(addresses(&[1, 20, 3, 4], &[1, 3, 4, 5]), Some(&[5][..]));
        assert_eq!(addresses(&[1, 2, 3, 40], &[1, 2, 3, 5]), Some(&[5][..]));
        assert_eq!(addresses(&[1, 3, 4], &[1, 20, 3, 4, 5]), Some(&[5][..]));
    }

    #[test]
    fn equal_addresses_of_a_recursion_are_counted() {
        let found = [1, 9, 9, 9];
        let chain = [1, 9, 9, 9, 9, 9, 4];
        assert_eq!(addresses(&found, &chain), Some(&[9, 9, 4][..]));
        assert_eq!(addresses(&found, &[1, 9, 9, 9, 4]), Some(&[4][..]));
    }

    #[test]
    fn a_match_far_inside_is_ignored() {
        assert_eq!(rest(&[1, 2, 30, 40, 50, 60], &[1, 2, 7, 8]), None);
    }

    #[test]
    fn a_match_of_only_the_sampled_address_is_unreliable() {
        assert_eq!(rest(&[1, 2, 3], &[1, 7, 8]), None);
        let only = rest(&[1], &[1, 7, 8]).unwrap();
        assert_eq!((only.addresses, only.is_sure), (&[7, 8][..], false));
        assert!(rest(&[1, 2], &[1, 2, 8]).unwrap().is_sure);
    }

    #[test]
    fn addresses_must_be_in_the_same_order() {
        assert!(is_within([1, 3].into_iter(), &[1, 2, 3]));
        assert!(!is_within([3, 1].into_iter(), &[1, 2, 3]));
        assert!(!is_within([1, 1].into_iter(), &[1, 2, 3]));
    }
}
