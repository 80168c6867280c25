//! The sampled callstacks of a trace.

use std::collections::HashMap;
use std::io;

use super::failed;
use crate::engine::Engine;

/// A function of callstacks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Function {
    pub(super) name: String,
    /// The file that it was loaded from.
    pub(super) mapping: String,
    pub(super) file: Option<String>,
    pub(super) line: Option<i64>,
}

/// A function and its caller, as indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) caller: Option<usize>,
    pub(super) function: usize,
}

/// The samples of a thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) name: String,
    pub(super) process: String,
    pub(super) tid: i64,
    pub(super) pid: i64,
    /// The times of the samples, and the nodes of their innermost functions.
    pub(super) samples: Vec<(i64, usize)>,
}

/// All samples.
#[derive(Debug, Default)]
pub(super) struct Samples {
    pub(super) functions: Vec<Function>,
    /// Callers come before the functions that they call.
    pub(super) nodes: Vec<Node>,
    pub(super) threads: Vec<Thread>,
}

/// The frames of callsites from the outermost to the innermost, with inlined functions.
const CALLSITES: &str = "
SELECT c.id, c.parent_id,
  coalesce(y.name, f.deobfuscated_name, demangle(f.name), nullif(f.name, ''),
    printf('0x%x', f.rel_pc)),
  coalesce(m.name, ''), y.source_file, y.line_number
FROM stack_profile_callsite c
JOIN stack_profile_frame f ON c.frame_id = f.id
LEFT JOIN stack_profile_mapping m ON f.mapping = m.id
LEFT JOIN stack_profile_symbol y ON y.symbol_set_id = f.symbol_set_id
ORDER BY c.id, y.id DESC";

const SAMPLES: &str = "
SELECT s.ts, s.callsite_id, t.utid, coalesce(h.name, ''), coalesce(p.name, ''),
  coalesce(h.tid, 0), coalesce(p.pid, h.tid, 0)
FROM stack_sample s
LEFT JOIN stack_sample_task_context t ON s.task_context_id = t.id
LEFT JOIN thread h ON t.utid = h.utid
LEFT JOIN process p ON p.upid = coalesce(h.upid, t.upid)
ORDER BY t.utid, s.ts, s.id";

impl Samples {
    /// Reads the samples of a session.
    ///
    /// # Errors
    ///
    /// Fails if a query fails.
    pub(super) fn read(engine: &mut Engine) -> io::Result<Self> {
        let mut all = Self::default();
        let mut functions: HashMap<Function, usize> = HashMap::new();
        let mut nodes: HashMap<Node, usize> = HashMap::new();
        let mut of_callsite: HashMap<i64, usize> = HashMap::new();
        let text = |value: &rusqlite::types::ValueRef<'_>| value.as_str().ok().map(str::to_owned);
        let mut current = None;
        engine
            .each_row(CALLSITES, &mut |row| {
                let (Ok(id), caller) = (row[0].as_i64(), row[1].as_i64().ok()) else {
                    return;
                };
                let function = Function {
                    name: text(&row[2]).unwrap_or_default(),
                    mapping: text(&row[3]).unwrap_or_default(),
                    file: text(&row[4]),
                    line: row[5].as_i64().ok(),
                };
                let function = *functions.entry(function).or_insert_with_key(|function| {
                    all.functions.push(function.clone());
                    all.functions.len() - 1
                });
                // The rows of inlined functions follow one another.
                let caller = if current == Some(id) {
                    of_callsite.get(&id).copied()
                } else {
                    caller.and_then(|caller| of_callsite.get(&caller).copied())
                };
                current = Some(id);
                let node = Node { caller, function };
                let node = *nodes.entry(node).or_insert_with(|| {
                    all.nodes.push(node);
                    all.nodes.len() - 1
                });
                of_callsite.insert(id, node);
            })
            .map_err(failed)?;
        let mut thread = None;
        engine
            .each_row(SAMPLES, &mut |row| {
                let utid = row[2].as_i64().ok();
                let callsite = row[1].as_i64().ok();
                let node = callsite.and_then(|callsite| of_callsite.get(&callsite));
                let (Ok(ts), Some(node)) = (row[0].as_i64(), node) else {
                    return;
                };
                if thread != Some(utid) {
                    thread = Some(utid);
                    all.threads.push(Thread {
                        name: text(&row[3]).unwrap_or_default(),
                        process: text(&row[4]).unwrap_or_default(),
                        tid: row[5].as_i64().unwrap_or_default(),
                        pid: row[6].as_i64().unwrap_or_default(),
                        samples: Vec::new(),
                    });
                }
                if let Some(thread) = all.threads.last_mut() {
                    thread.samples.push((ts, *node));
                }
            })
            .map_err(failed)?;
        Ok(all)
    }

    /// Returns the functions of a callstack, from the outermost to the innermost.
    pub(super) fn stack(&self, node: usize) -> Vec<usize> {
        let mut functions = Vec::new();
        let mut at = Some(node);
        while let Some(node) = at.and_then(|at| self.nodes.get(at)) {
            functions.push(node.function);
            at = node.caller;
        }
        functions.reverse();
        functions
    }
}
