//! Memory that programs allocated and did not free, by function.

use rustc_hash::FxHashMap;

use crate::context::Context;
use crate::feature::{Feature, Kind};
use crate::values::Values;

/// Reads the profiles of heaps.
pub(crate) fn read(context: &Context<'_>, values: &mut Values) {
    let rows = &context.trace.tables().heap_profile_allocation;
    let mut sizes: FxHashMap<(u32, u32), i64> = FxHashMap::default();
    for row in 0..rows.len() {
        let process = rows.upid().get(row);
        // Of a heap, each dump tells the changes since the one before.
        if context.has_process(process) && rows.ts().get(row) <= context.range.end {
            let size = sizes
                .entry((process, rows.callsite_id().get(row)))
                .or_default();
            *size = size.saturating_add(rows.size().get(row));
        }
    }
    for ((process, callsite), size) in sizes {
        let of_process = Feature::of_process(Kind::Heap, &context.process_name(process));
        values.add(of_process.clone(), size as f64);
        let functions = context.why.functions(callsite).into_iter();
        if let Some(function) = functions.map(|function| function.name).next() {
            values.add(of_process.detail(&function), size as f64);
        }
    }
}
