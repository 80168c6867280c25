//! Names of functions for the samples of a part, out of those for the whole.
//!
//! Readers take names of frames that there are not for an error.

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
    /// Takes in a packet of the part.
    pub(crate) fn add(&mut self, packet: &[u8]) {
        // Only the frames of samples matter.
        let _ = self.samples.add(packet);
    }

    /// Returns the same packet with the names of functions that are in samples so far; `None` if it
    /// has none of them.
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

/// Returns true for packets with names of functions.
pub(crate) fn has_names(packet: &[u8]) -> bool {
    Fields::find(trace_packet::MODULE_SYMBOLS, packet).is_some()
}
