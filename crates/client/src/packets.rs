//! Puts packets together from the slices of ReadBuffers.

/// The largest packet accepted: what its length in a trace file can say.
pub const MAX_PACKET_SIZE: usize = (1 << 28) - 1;

/// A packet is larger than [`MAX_PACKET_SIZE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketTooLarge;

ferretto_wire::error_text! {
    PacketTooLarge {
        Self => "the trace holds a packet of more than 256 MiB",
    }
}

/// Collects slices and yields whole packets.
#[derive(Debug, Default)]
pub struct Packets {
    partial: Vec<u8>,
}

impl Packets {
    /// Nothing collected.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a slice. If it is the last one of its packet, passes the packet to `packet`.
    ///
    /// # Errors
    ///
    /// If the packet grows beyond [`MAX_PACKET_SIZE`]; what was collected of it is dropped.
    pub fn add<R>(
        &mut self,
        data: &[u8],
        is_last: bool,
        packet: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, PacketTooLarge> {
        if self.partial.len() + data.len() > MAX_PACKET_SIZE {
            self.partial = Vec::new();
            return Err(PacketTooLarge);
        }
        if !is_last {
            self.partial.extend_from_slice(data);
            return Ok(None);
        }
        if self.partial.is_empty() {
            return Ok(Some(packet(data)));
        }
        self.partial.extend_from_slice(data);
        let result = packet(&self.partial);
        self.partial.clear();
        Ok(Some(result))
    }

    /// Whether a packet has begun and not ended.
    pub fn is_incomplete(&self) -> bool {
        !self.partial.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_become_packets() {
        let mut packets = Packets::new();
        let mut whole = Vec::new();
        for (data, last) in [
            (&b"ab"[..], true),
            (b"", true),
            (b"c", false),
            (b"", false),
            (b"d", true),
        ] {
            packets
                .add(data, last, |packet| whole.push(packet.to_vec()))
                .unwrap();
        }
        assert_eq!(whole, [&b"ab"[..], b"", b"cd"]);
        assert!(!packets.is_incomplete());
    }
}
