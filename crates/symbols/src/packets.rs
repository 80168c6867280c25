//! Packets of a trace with function names.

use ferretto_proto::fields::{address_symbols, line, module_symbols as module, trace_packet};
use ferretto_wire::Encoder;

use crate::user::{Module, Named};

/// The field `packet` of a trace.
const PACKET: u32 = 1;
/// The largest number of addresses in a packet, to stay below the size limit of readers.
const ADDRESSES: usize = 4096;

/// Encodes the names of a module as packets, to append to the trace.
///
/// Function names are demangled, since not all viewers demangle Rust names.
#[must_use]
pub fn module_symbols(of: &Module, names: &[Named]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut trace = Encoder::new(&mut bytes);
    for part in names.chunks(ADDRESSES) {
        trace.nested(PACKET, |packet| {
            packet.nested(trace_packet::MODULE_SYMBOLS, |symbols| {
                symbols.string(module::PATH, &of.path);
                symbols.bytes(module::BUILD_ID, &of.build_id);
                for named in part {
                    symbols.nested(module::ADDRESS_SYMBOLS, |address| {
                        address.varint(address_symbols::ADDRESS, named.rel_pc);
                        for frame in &named.frames {
                            address.nested(address_symbols::LINES, |out| {
                                out.string(line::FUNCTION_NAME, &frame.function);
                                if let Some(file) = &frame.file {
                                    out.string(line::SOURCE_FILE_NAME, file);
                                }
                                if frame.line != 0 {
                                    out.varint(line::LINE_NUMBER, u64::from(frame.line));
                                }
                            });
                        }
                    });
                }
            });
        });
    }
    bytes
}
