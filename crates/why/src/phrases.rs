//! Causes in words.

use std::fmt::Write as _;

use crate::evidence::call_name;
use crate::explain::Why;
use crate::explanation::{Cause, ExplainedWait};
use crate::kind::WaitKind;
use crate::shares::Share;

/// The number of callstacks of a share whose functions are read.
const MAX_CALLSTACKS: usize = 1000;

impl Why<'_> {
    /// Returns a cause in words, as in "waited for a lock, until woken by worker (12)".
    pub fn phrase(&self, cause: Cause) -> String {
        self.phrase_with(cause, |thread| self.thread_label(thread))
    }

    /// Returns a wait in words, with the interrupt that ended it, as in "waited for a network
    /// packet, until interrupt NET_RX on CPU 1".
    pub fn phrase_of_wait(&self, wait: &ExplainedWait) -> String {
        let mut text = self.phrase(wait.cause());
        if wait.is_ended_by_interrupt() {
            match wait.interrupt {
                Some(name) => {
                    let name = self.trace().strings().text(name);
                    let _ = write!(text, ", until interrupt {name}");
                }
                None => text.push_str(", until an interrupt"),
            }
            if let Some(cpu) = self.interrupt_cpu(wait) {
                let _ = write!(text, " on CPU {cpu}");
            }
        }
        text
    }

    /// Returns the number of the CPU on which an interrupt ended a wait.
    pub fn interrupt_cpu(&self, wait: &ExplainedWait) -> Option<u32> {
        let ucpu = wait.interrupt_ucpu()?;
        self.trace().tables().cpu.cpu().get(ucpu)
    }

    /// Returns a cause in words that are the same for all threads of a name.
    pub fn phrase_of_kind(&self, cause: Cause) -> String {
        self.phrase_with(cause, |thread| match cause {
            Cause::Wait(kind, _) if kind != WaitKind::Creation => match self.thread_name(thread) {
                "" => "a thread without a name".to_owned(),
                name => name.to_owned(),
            },
            _ => self.thread_label(thread),
        })
    }

    fn phrase_with(&self, cause: Cause, thread: impl Fn(u32) -> String) -> String {
        let strings = self.trace().strings();
        match cause {
            Cause::User => "ran its own code".to_owned(),
            Cause::Calls => "ran in system calls".to_owned(),
            Cause::Call(name) => call_name(strings.text(name)).to_owned(),
            Cause::Entry => "entering and leaving system calls".to_owned(),
            Cause::PageFault => "ran in the kernel, handling page faults".to_owned(),
            Cause::Kernel => "ran in the kernel".to_owned(),
            Cause::Running => "ran".to_owned(),
            Cause::Interrupt(name) => format!("interrupted by {}", strings.text(name)),
            Cause::Behind(other) => format!("{} had it", thread(other)),
            Cause::Wakeup => "it was idle and woke up".to_owned(),
            Cause::Idle(None) => "it was idle, as with a limit of CPU time (cpu.max)".to_owned(),
            Cause::Idle(Some(group)) => format!(
                "it was idle: {} had used up its limit of CPU time (cpu.max)",
                strings.text(group)
            ),
            Cause::Cpu => "waited for a CPU".to_owned(),
            Cause::Wait(WaitKind::Creation, Some(creator)) => {
                format!("did not exist, until created by {}", thread(creator))
            }
            Cause::Wait(kind, None) => format!("waited for {}", kind.phrase()),
            Cause::Wait(kind, Some(waker)) => format!(
                "waited for {}, until woken by {}",
                kind.phrase(),
                thread(waker)
            ),
            Cause::Absent => "did not exist".to_owned(),
            Cause::Lost => "unknown: scheduling events are missing".to_owned(),
            Cause::TooDeep => "unknown: the chain of waits is too long".to_owned(),
        }
    }

    /// Returns the innermost functions of the callstacks of a share with their times, the longest
    /// first.
    pub fn functions_of_share(&self, share: &Share) -> Vec<(String, i64)> {
        let mut functions: Vec<(String, i64)> = Vec::new();
        for (callsite, ns) in share.callstacks.iter().take(MAX_CALLSTACKS) {
            let all = match share.cause {
                Cause::Wait(..) => self.waiting_functions(*callsite),
                _ => self.functions(*callsite),
            };
            let Some(function) = all.into_iter().next() else {
                continue;
            };
            let known = functions.iter_mut().find(|it| it.0 == function.name);
            match known {
                Some((_, sum)) => *sum += ns,
                None => functions.push((function.name, *ns)),
            }
        }
        functions.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        functions
    }
}
