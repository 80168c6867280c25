//! The contexts of samples: who and where was sampled, and values of counters.

use rustc_hash::FxHashMap;

use super::super::context::Context;
use crate::schema::{ProfilerCounterSetRow, ProfilerExecutionContextRow, ProfilerTaskContextRow};
use crate::strings::StringId;

/// Process, thread and task.
type TaskKey = (Option<u32>, Option<u32>, Option<u32>);

/// Rows of contexts, each there once.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    tasks: FxHashMap<TaskKey, u32>,
    executions: FxHashMap<(Option<u32>, StringId), u32>,
}

impl Contexts {
    /// Returns the row of what was sampled.
    pub(super) fn task(&mut self, cx: &mut Context, task: ProfilerTaskContextRow) -> u32 {
        let key = (task.upid, task.utid, task.async_context_id);
        let table = &mut cx.store.tables.profiler_task_context;
        *self.tasks.entry(key).or_insert_with(|| table.push(task))
    }

    /// Returns the row of a CPU and its mode.
    pub(super) fn execution(
        &mut self,
        cx: &mut Context,
        ucpu: Option<u32>,
        cpu_mode: StringId,
    ) -> u32 {
        let table = &mut cx.store.tables.profiler_execution_context;
        let row = ProfilerExecutionContextRow { ucpu, cpu_mode };
        *self
            .executions
            .entry((ucpu, cpu_mode))
            .or_insert_with(|| table.push(row))
    }
}

/// Values of counters that belong together.
#[derive(Debug, Default)]
pub(super) struct CounterSet(Option<u32>);

impl CounterSet {
    /// Adds a value: a row of `counter`.
    pub(super) fn add(&mut self, cx: &mut Context, counter_id: u32) {
        let table = &mut cx.store.tables.profiler_counter_set;
        let counter_set_id = *self.0.get_or_insert(table.len());
        table.push(ProfilerCounterSetRow {
            counter_set_id,
            counter_id,
        });
    }

    /// Returns its number; `None` if it is empty.
    pub(super) fn id(&self) -> Option<u32> {
        self.0
    }
}
