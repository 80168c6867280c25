//! Symbols that arrive after the frames: `ModuleSymbols`.

use ferretto_proto::fields::{address_symbols, line, module_symbols};
use ferretto_wire::Fields;

use super::super::context::Context;
use super::stacks::hex;
use crate::schema::StackProfileSymbolRow;
use crate::stats::Stat;
use crate::strings::StringId;

/// Reads a `ModuleSymbols`.
pub(super) fn parse(cx: &mut Context, bytes: &[u8]) {
    let (mut path, mut build_id) = (&[][..], &[][..]);
    for field in Fields::new(bytes).map_while(Result::ok) {
        match field.number {
            module_symbols::PATH => path = field.as_bytes().unwrap_or_default(),
            module_symbols::BUILD_ID => build_id = field.as_bytes().unwrap_or_default(),
            _ => {}
        }
    }
    let path = cx.store.strings.intern_bytes(path);
    let build_id = cx.store.strings.intern(&hex(build_id));
    let mappings = cx.stacks.mappings_of(path, build_id);
    if mappings.is_empty() {
        cx.store.stats.add(Stat::stackprofile_invalid_mapping_id, 1);
        return;
    }
    let fields = Fields::new(bytes).map_while(Result::ok);
    for address in fields.filter(|field| field.number == module_symbols::ADDRESS_SYMBOLS) {
        let address = address.as_bytes().unwrap_or_default();
        let Some(symbols) = push_lines(cx, address) else {
            continue;
        };
        let address = Fields::find(address_symbols::ADDRESS, address);
        let address = address.and_then(|address| address.as_u64()).unwrap_or(0);
        if !cx
            .stacks
            .symbolize(&mut cx.store, &mappings, address as i64, symbols)
        {
            cx.store.stats.add(Stat::stackprofile_invalid_frame_id, 1);
        }
    }
}

/// Adds the functions at an address, the innermost first, and returns the id of their set.
fn push_lines(cx: &mut Context, address: &[u8]) -> Option<u32> {
    let symbol_set_id = cx.store.tables.stack_profile_symbol.len();
    let fields = Fields::new(address).map_while(Result::ok);
    for field in fields.filter(|field| field.number == address_symbols::LINES) {
        let (mut name, mut file, mut line_number) = (&[][..], &[][..], None);
        let fields = field.as_message().into_iter().flatten();
        for field in fields.map_while(Result::ok) {
            match field.number {
                line::FUNCTION_NAME => name = field.as_bytes().unwrap_or_default(),
                line::SOURCE_FILE_NAME => file = field.as_bytes().unwrap_or_default(),
                line::LINE_NUMBER => line_number = field.as_u32(),
                _ => {}
            }
        }
        let name = cx.store.strings.intern_bytes(name);
        let source_file = match file {
            [] => StringId::NULL,
            file => cx.store.strings.intern_bytes(file),
        };
        cx.store
            .tables
            .stack_profile_symbol
            .push(StackProfileSymbolRow {
                symbol_set_id,
                name,
                source_file,
                line_number: line_number.filter(|_| !source_file.is_null()),
                inlined: None,
            });
    }
    (cx.store.tables.stack_profile_symbol.len() > symbol_set_id).then_some(symbol_set_id)
}
