//! The contexts of samples: tasks, CPUs, and values of counters.

use rustc_hash::FxHashMap;

use super::super::context::Context;
use crate::schema::{ProfilerCounterSetRow, ProfilerExecutionContextRow, ProfilerTaskContextRow};
use crate::strings::StringId;

/// Process, thread and task.
type TaskKey = (Option<u32>, Option<u32>, Option<u32>);

/// Interns rows of contexts.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    tasks: FxHashMap<TaskKey, u32>,
    /// The last process and row of each thread without an async context, by row of `thread`.
    threads: Vec<Option<(Option<u32>, u32)>>,
    executions: FxHashMap<u64, u32>,
}

impl Contexts {
    /// Returns the row of a task context.
    pub(super) fn task(&mut self, cx: &mut Context, task: ProfilerTaskContextRow) -> u32 {
        let thread = match task.async_context_id {
            None => task.utid,
            Some(_) => None,
        };
        let known = thread.and_then(|utid| *self.threads.get(utid as usize)?);
        match known {
            Some((upid, row)) if upid == task.upid => row,
            _ => self.look_up(cx, task, thread),
        }
    }

    fn look_up(
        &mut self,
        cx: &mut Context,
        task: ProfilerTaskContextRow,
        thread: Option<u32>,
    ) -> u32 {
        let key = (task.upid, task.utid, task.async_context_id);
        let table = &mut cx.store.tables.profiler_task_context;
        let row = *self.tasks.entry(key).or_insert_with(|| table.push(task));
        if let Some(index) = thread.map(|utid| utid as usize) {
            if self.threads.len() <= index {
                self.threads.resize(index + 1, None);
            }
            self.threads[index] = Some((task.upid, row));
        }
        row
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
        // The CPU plus one, since 0 means none.
        let cpu = ucpu.map_or(0, |ucpu| u64::from(ucpu) + 1);
        let key = cpu << 32 | u64::from(cpu_mode.raw());
        *self
            .executions
            .entry(key)
            .or_insert_with(|| table.push(row))
    }
}

/// A set of counter values under construction.
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

    /// Returns the id of the set; `None` if it is empty.
    pub(super) fn id(&self) -> Option<u32> {
        self.0
    }
}
