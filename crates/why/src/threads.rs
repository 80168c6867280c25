//! The names of threads, and the recorded command.

use ferretto_tables::schema::Tables;
use ferretto_tables::{StringPool, Trace};
use ferretto_trace::summary::{COMMAND_ATTRIBUTE, COMMAND_PID_ATTRIBUTE};

/// Returns the process of the recorded command, as the recording tells.
pub fn command_pid(tables: &Tables, strings: &StringPool) -> Option<i64> {
    let metadata = &tables.metadata;
    (0..metadata.len()).find_map(|row| {
        let name = strings.text(metadata.name().get(row));
        let key = name.strip_prefix("trace_attribute.")?;
        let value = metadata.int_value().get(row);
        value.filter(|_| key == COMMAND_PID_ATTRIBUTE)
    })
}

/// Returns for each thread if it is the kernel's.
pub(crate) fn of_kernel(trace: &Trace) -> Vec<bool> {
    let tables = trace.tables();
    let process_is_kernels = |process: u32| {
        let parent = tables.process.parent_upid().get(process);
        let parent_pid = parent.map(|parent| tables.process.pid().get(parent));
        parent_pid == Some(2) || tables.process.pid().get(process) == 2
    };
    (0..tables.thread.len())
        .map(|row| {
            let process = tables.thread.upid().get(row);
            process.is_some_and(process_is_kernels)
        })
        .collect()
}

/// Returns the name of the program of the recorded command, as the recording tells.
fn command_name<'a>(tables: &Tables, strings: &'a StringPool) -> Option<&'a str> {
    let metadata = &tables.metadata;
    let command = (0..metadata.len()).find_map(|row| {
        let name = strings.text(metadata.name().get(row));
        let key = name.strip_prefix("trace_attribute.")?;
        let value = strings.get(metadata.str_value().get(row));
        value.filter(|_| key == COMMAND_ATTRIBUTE)
    })?;
    let program = command.split(' ').next()?;
    program.rsplit('/').next().filter(|name| !name.is_empty())
}

/// Returns true for the names of a command before it runs its program.
pub fn is_launcher(name: &str) -> bool {
    matches!(name, "ferretto" | "exe")
}

/// Returns the name of a thread. That of a command that ends soon can be the one that it had before
/// it ran its program: then it is the program's. Empty if it is not known.
pub(crate) fn name<'a>(tables: &Tables, strings: &'a StringPool, thread: u32) -> &'a str {
    let name = strings.text(tables.thread.name().get(thread));
    let is_command = || {
        let process = tables.thread.upid().get(thread);
        let pid = process.map(|process| tables.process.pid().get(process));
        pid == Some(tables.thread.tid().get(thread)) && pid == command_pid(tables, strings)
    };
    let program = (is_launcher(name) && is_command()).then(|| command_name(tables, strings));
    program.flatten().unwrap_or(name)
}

/// Returns the name of a thread, with its number.
pub(crate) fn label(tables: &Tables, strings: &StringPool, thread: u32) -> String {
    let tid = tables.thread.tid().get(thread);
    match name(tables, strings, thread) {
        "" => format!("thread {tid}"),
        name => format!("{name} ({tid})"),
    }
}

/// Returns true if a process is a program that records.
pub(crate) fn records(trace: &Trace, process: u32) -> bool {
    let name = trace.tables().process.name().get(process);
    let name = trace.strings().text(name);
    let program = name.rsplit('/').next().unwrap_or(name);
    program.starts_with("ferretto") || program.starts_with("traced") || program == "perfetto"
}
