//! Samples in files of other programs.

use rustc_hash::FxHashMap;

use crate::import::Context;
use crate::schema::{ProfilerSampleRow, ProfilerTaskContextRow};
use crate::store::Store;
use crate::strings::StringId;

/// The rows to which samples refer.
#[derive(Debug, Default)]
pub(super) struct SampleRows {
    /// The mappings of functions, by name.
    mappings: FxHashMap<StringId, u32>,
    /// The task contexts, by process and thread.
    tasks: FxHashMap<(Option<u32>, u32), u32>,
}

impl SampleRows {
    /// Returns the mapping with a name, for functions without addresses.
    pub(super) fn mapping(&mut self, cx: &mut Context, name: StringId) -> u32 {
        *self
            .mappings
            .entry(name)
            .or_insert_with(|| cx.stacks.add_source_mapping(&mut cx.store, name))
    }

    /// Adds a sample of a thread.
    pub(super) fn add(
        &mut self,
        store: &mut Store,
        (ts, source): (i64, &str),
        (upid, utid): (Option<u32>, u32),
        callsite_id: Option<u32>,
    ) {
        let contexts = &mut store.tables.profiler_task_context;
        let task = *self.tasks.entry((upid, utid)).or_insert_with(|| {
            contexts.push(ProfilerTaskContextRow {
                upid,
                utid: Some(utid),
                async_context_id: None,
            })
        });
        let source = store.strings.intern(source);
        store.tables.profiler_sample.push(ProfilerSampleRow {
            ts,
            source,
            task_context_id: Some(task),
            execution_context_id: None,
            callsite_id,
            unwind_error: StringId::NULL,
            session_id: None,
            counter_set_id: None,
        });
    }
}
