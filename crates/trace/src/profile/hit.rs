//! Filtering of symbols by the addresses in samples.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferretto_proto::fields::{address_symbols, module_symbols};
use ferretto_wire::{Fields, Value, encode};

use super::ProfileReader;

/// The path and the build id of a file.
type File = (Arc<str>, Arc<[u8]>);

/// The addresses in samples, by path and build id of the file.
#[derive(Debug, Default)]
pub(super) struct Hit {
    /// The number of frames at the last update.
    frames: usize,
    addresses: HashMap<File, HashSet<u64>>,
}

impl ProfileReader {
    /// Returns the part of a `ModuleSymbols` for frames of the samples so far; `None` if there are
    /// no such frames.
    pub fn symbols_of_samples(&mut self, symbols: &[u8]) -> Option<Vec<u8>> {
        let tables = &mut self.samples.decoder.tables;
        let text = |field| {
            let found = Fields::find(field, symbols).and_then(|found| found.as_bytes());
            found.unwrap_or_default()
        };
        let path = tables.text(text(module_symbols::PATH));
        let build_id = tables.build_id(text(module_symbols::BUILD_ID));
        let frames = tables.frames().count();
        if self.hit.frames != frames {
            self.hit = Hit::default();
            self.hit.frames = frames;
            for frame in tables.frames() {
                if let Some(mapping) = frame.mapping.and_then(|id| tables.mapping(id)) {
                    let file = (mapping.path.clone(), mapping.build_id.clone());
                    let of_file = self.hit.addresses.entry(file).or_default();
                    of_file.insert(frame.rel_pc);
                }
            }
        }
        let hit = self.hit.addresses.get(&(path, build_id))?;
        let mut is_empty = true;
        let part = encode(|out| {
            for field in Fields::new(symbols).map_while(Result::ok) {
                match field.value {
                    Value::Bytes(bytes) if field.number == module_symbols::ADDRESS_SYMBOLS => {
                        let address = Fields::find(address_symbols::ADDRESS, bytes);
                        let address = address.and_then(|address| address.as_u64());
                        if hit.contains(&address.unwrap_or(0)) {
                            is_empty = false;
                            out.bytes(field.number, bytes);
                        }
                    }
                    Value::Bytes(bytes) => out.bytes(field.number, bytes),
                    Value::Varint(value) => out.varint(field.number, value),
                    Value::Fixed64(value) => out.fixed64(field.number, value),
                    Value::Fixed32(value) => out.fixed32(field.number, value),
                }
            }
        });
        (!is_empty).then_some(part)
    }
}
