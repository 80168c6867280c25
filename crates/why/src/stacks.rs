//! Callstacks as the names of their functions.

use ferretto_symbols::offset_name;
use ferretto_tables::Trace;
use ferretto_trace::profile::switches_threads;

/// The maximum number of frames. Longer callstacks are truncated.
const MAX_FRAMES: usize = 1024;

/// A function of a callstack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The name, or the offset in the file if it has none.
    pub name: String,
    /// Set if it is the kernel's.
    pub is_kernel: bool,
}

/// Returns the functions of a callstack, the innermost first.
pub(crate) fn functions(trace: &Trace, callsite: u32) -> Vec<Function> {
    let callsites = &trace.tables().stack_profile_callsite;
    let mut functions = Vec::new();
    let mut next = Some(callsite);
    while let Some(row) = next.filter(|row| *row < callsites.len() && functions.len() < MAX_FRAMES)
    {
        of_frame(trace, callsites.frame_id().get(row), &mut functions);
        next = callsites.parent_id().get(row);
    }
    functions
}

/// Returns the functions of the callstack of a wait, without those of the kernel that switch
/// threads.
pub(crate) fn waiting_functions(trace: &Trace, callsite: u32) -> Vec<Function> {
    let mut functions = functions(trace, callsite);
    let waits = |function: &Function| !switches_threads(&function.name);
    let first = functions.iter().position(waits);
    functions.drain(..first.unwrap_or(0));
    functions
}

/// Adds the functions of a frame, the innermost first: several if functions are inlined.
fn of_frame(trace: &Trace, frame: u32, functions: &mut Vec<Function>) {
    let (tables, strings) = (trace.tables(), trace.strings());
    let frames = &tables.stack_profile_frame;
    let mapping = frames.mapping().get(frame);
    let file = strings.text(tables.stack_profile_mapping.name().get(mapping));
    let is_kernel = file.starts_with("[kernel") || file.starts_with("/kernel");
    let before = functions.len();
    if let Some(set) = frames.symbol_set_id().get(frame) {
        let symbols = &tables.stack_profile_symbol;
        let sets = symbols.symbol_set_id().as_slice();
        let first = sets.partition_point(|id| *id < set);
        for row in (first..sets.len()).take_while(|row| sets[*row] == set) {
            let name = strings.text(symbols.name().get(row as u32));
            if !name.is_empty() {
                let name = name.to_owned();
                functions.push(Function { name, is_kernel });
            }
        }
    }
    if functions.len() > before {
        return;
    }
    let deobfuscated = frames.deobfuscated_name().get(frame);
    let name = match strings.text(deobfuscated.or(frames.name().get(frame))) {
        "" => {
            let file = if file.is_empty() { "unknown" } else { file };
            offset_name(file, frames.rel_pc().get(frame) as u64)
        }
        name => name.to_owned(),
    };
    functions.push(Function { name, is_kernel });
}
