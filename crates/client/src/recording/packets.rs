//! Reassembles packets from the slices of ReadBuffers.

/// The error of a packet larger than [`MAX_PACKET_SIZE`](ferretto_format::MAX_PACKET_SIZE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketTooLarge;

ferretto_wire::error_text! {
    PacketTooLarge {
        Self => "the trace has a packet larger than 256 MiB",
    }
}

/// Collects slices and returns complete packets.
#[derive(Debug)]
pub(super) struct Reassembler {
    partial: Vec<u8>,
    max_size: usize,
}

impl Reassembler {
    pub(super) fn with_limit(max_size: usize) -> Self {
        Self {
            partial: Vec::new(),
            max_size,
        }
    }

    /// Adds a slice. Returns the packet if it is complete.
    ///
    /// # Errors
    ///
    /// Fails if the packet is too large, and drops the collected part.
    pub(super) fn add(
        &mut self,
        slice: Vec<u8>,
        is_last: bool,
    ) -> Result<Option<Vec<u8>>, PacketTooLarge> {
        if self.partial.len() + slice.len() > self.max_size {
            self.partial = Vec::new();
            return Err(PacketTooLarge);
        }
        if self.partial.is_empty() {
            self.partial = slice;
        } else {
            self.partial.extend_from_slice(&slice);
        }
        Ok(is_last.then(|| std::mem::take(&mut self.partial)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_joined_into_packets() {
        let mut packets = Reassembler::with_limit(3);
        let mut whole = Vec::new();
        for (data, is_last) in [
            (&b"ab"[..], true),
            (b"", true),
            (b"c", false),
            (b"", false),
            (b"d", true),
        ] {
            whole.extend(packets.add(data.to_vec(), is_last).unwrap());
        }
        assert_eq!(whole, [&b"ab"[..], b"", b"cd"]);
    }

    #[test]
    fn packets_above_the_size_limit_are_refused() {
        let mut packets = Reassembler::with_limit(3);
        assert_eq!(packets.add(b"ab".to_vec(), false), Ok(None));
        assert_eq!(packets.add(b"cd".to_vec(), true), Err(PacketTooLarge));
        // The collected part was dropped.
        assert_eq!(
            packets.add(b"abc".to_vec(), true),
            Ok(Some(b"abc".to_vec()))
        );
    }
}
