//! Causes in words.

use ferretto_text::terminal::shown;
use ferretto_why::{Cause, Function, Share, WaitKind, Why};

/// Returns a cause in words that are the same for all threads of a name.
pub(super) fn of_kind(why: &Why<'_>, cause: Cause) -> String {
    let name = |thread| {
        let tables = why.trace().tables();
        let name = why.trace().strings().text(tables.thread.name().get(thread));
        shown(name).into_owned()
    };
    match cause {
        Cause::Wait(kind, Some(waker)) => {
            format!(
                "waited for {}, until woken by {}",
                kind.phrase(),
                name(waker)
            )
        }
        cause => of_cause(why, cause),
    }
}

/// Returns a cause in words, as in "61 % it waited for a lock, until worker (12) ended the wait".
pub(super) fn of_cause(why: &Why<'_>, cause: Cause) -> String {
    let strings = why.trace().strings();
    let thread = |thread| shown(&why.thread_label(thread)).into_owned();
    match cause {
        Cause::User => "ran its own code".to_owned(),
        Cause::Calls => "ran in system calls".to_owned(),
        Cause::Call(name) => call(strings.text(name)),
        Cause::Entry => "entering and leaving system calls".to_owned(),
        Cause::PageFault => "ran in the kernel, handling page faults".to_owned(),
        Cause::Kernel => "ran in the kernel".to_owned(),
        Cause::Running => "ran".to_owned(),
        Cause::Interrupt(name) => format!("interrupted by {}", shown(strings.text(name))),
        Cause::Behind(other) => format!("{} had it", thread(other)),
        Cause::Wakeup => "it was idle and woke up".to_owned(),
        Cause::Cpu => "waited for a CPU".to_owned(),
        Cause::Wait(WaitKind::Creation, Some(creator)) => {
            format!("did not exist, until created by {}", thread(creator))
        }
        Cause::Wait(kind, None) => format!("waited for {}", kind.phrase()),
        Cause::Wait(kind, Some(other)) => {
            format!(
                "waited for {}, until woken by {}",
                kind.phrase(),
                thread(other)
            )
        }
        Cause::Absent => "did not exist".to_owned(),
        Cause::Lost => "unknown: scheduling events are missing".to_owned(),
        Cause::TooDeep => "unknown: the chain of waits is too long".to_owned(),
    }
}

/// Returns the name of a system call without its prefix.
pub(super) fn call(name: &str) -> String {
    shown(name.strip_prefix("sys_").unwrap_or(name)).into_owned()
}

/// Returns the name of the cause in JSON.
pub(super) fn name(cause: Cause) -> &'static str {
    match cause {
        Cause::User => "user",
        Cause::Calls => "system-calls",
        Cause::Call(_) => "system-call",
        Cause::Entry => "system-call-entry",
        Cause::PageFault => "page-fault",
        Cause::Kernel => "kernel",
        Cause::Running => "running",
        Cause::Interrupt(_) => "interrupt",
        Cause::Behind(_) => "cpu-behind",
        Cause::Wakeup => "cpu-wakeup",
        Cause::Cpu => "cpu",
        Cause::Wait(..) => "wait",
        Cause::Absent => "absent",
        Cause::Lost => "lost",
        Cause::TooDeep => "too-deep",
    }
}

/// Returns functions, the outermost first, at most this many of the innermost.
pub(super) fn stack(functions: &[Function], max: usize) -> String {
    let mut names: Vec<String> = functions
        .iter()
        .take(max)
        .map(|function| shown(&function.name).into_owned())
        .collect();
    if functions.len() > max {
        names.push("…".to_owned());
    }
    names.reverse();
    names.join(" > ")
}

/// Returns the innermost functions of the callstacks of a share with their times, the longest
/// first.
pub(super) fn functions(why: &Why<'_>, share: &Share) -> Vec<(String, i64)> {
    let mut functions: Vec<(String, i64)> = Vec::new();
    for (callsite, ns) in share.callstacks.iter().take(1000) {
        let all = match share.cause {
            Cause::Wait(..) => why.waiting_functions(*callsite),
            _ => why.functions(*callsite),
        };
        let Some(function) = all.into_iter().next() else {
            continue;
        };
        match functions
            .iter_mut()
            .find(|(name, _)| *name == function.name)
        {
            Some((_, sum)) => *sum += ns,
            None => functions.push((function.name, *ns)),
        }
    }
    functions.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    functions
}
