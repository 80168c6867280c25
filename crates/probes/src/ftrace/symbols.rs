//! Names of kernel addresses in a trace.

use std::sync::Arc;

use ferretto_format::sequence_flags::INCREMENTAL_STATE_CLEARED;
use ferretto_proto::fields::{interned_data, interned_string, trace_packet};
use ferretto_symbols::{KernelSymbols, LoadError};

use super::bytes::Out;
use super::metadata::Metadata;

/// The requested kernel symbols, or the error of loading them.
pub(crate) type Wanted = Option<Result<Arc<KernelSymbols>, LoadError>>;

/// Writes the names of the addresses added since the last call in this pass.
pub(crate) fn write_new(symbols: &KernelSymbols, metadata: &mut Metadata, packet: &mut Out<'_>) {
    let first = metadata.symbols_written;
    let named: Vec<(usize, String)> = metadata.addresses()[first..]
        .iter()
        .enumerate()
        .filter_map(|(index, &address)| Some((first + index + 1, symbols.lookup(address)?)))
        .collect();
    if named.is_empty() {
        return;
    }
    if first == 0 {
        packet.varint(trace_packet::SEQUENCE_FLAGS, INCREMENTAL_STATE_CLEARED);
    }
    packet.nested(trace_packet::INTERNED_DATA, |data| {
        for (index, name) in named {
            data.nested(interned_data::KERNEL_SYMBOLS, |symbol| {
                symbol.varint(interned_string::IID, index as u64);
                symbol.string(interned_string::STR, &name);
            });
        }
    });
    metadata.symbols_written = metadata.addresses().len();
}
