//! Filtering of symbols for the samples of a part.
//!
//! Readers count symbols without frames as an error.

use ferretto_proto::fields::trace_packet;
use ferretto_trace::profile::ProfileReader;
use ferretto_wire::{Fields, encode};

use crate::packet::rewrite;

/// The samples of a part.
#[derive(Debug, Default)]
pub(crate) struct Names {
    samples: ProfileReader,
}

impl Names {
    /// Adds a packet of the part.
    pub(crate) fn add(&mut self, packet: &[u8]) {
        // Only the frames of samples are needed.
        let _ = self.samples.add(packet);
    }

    /// Returns the packet with only the symbols of samples so far; `None` if there are none.
    pub(crate) fn of_samples(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let symbols = Fields::find(trace_packet::MODULE_SYMBOLS, packet)?;
        let part = self
            .samples
            .symbols_of_samples(symbols.as_bytes().unwrap_or_default())?;
        Some(encode(|out| {
            rewrite(packet, out, |field, out| {
                let is_symbols = field.number == trace_packet::MODULE_SYMBOLS;
                if is_symbols {
                    out.bytes(field.number, &part);
                }
                is_symbols
            });
        }))
    }
}

/// Returns true for packets with symbols.
pub(crate) fn has_names(packet: &[u8]) -> bool {
    Fields::find(trace_packet::MODULE_SYMBOLS, packet).is_some()
}
