//! An event in the kernel's text format.

use std::fmt::Write;

use ferretto_tables::Trace;
use ferretto_tables::schema::ArgValue;

/// An event with its arguments by name.
struct Event<'a> {
    trace: &'a Trace,
    name: &'a str,
    args: Vec<(&'a str, ArgValue)>,
}

impl Event<'_> {
    fn text(&self, value: ArgValue) -> String {
        match value {
            ArgValue::Text(id) | ArgValue::Json(id) => self.trace.strings().text(id).to_owned(),
            ArgValue::Real(v) => v.to_string(),
            ArgValue::Uint(v) | ArgValue::Pointer(v) => v.to_string(),
            ArgValue::Bool(v) => u8::from(v).to_string(),
            ArgValue::Int(v) => v.to_string(),
            ArgValue::Null => String::new(),
        }
    }

    fn arg(&self, name: &str) -> String {
        let found = self.args.iter().find(|(key, _)| *key == name);
        found.map_or_else(|| "0".to_owned(), |(_, value)| self.text(*value))
    }

    fn number(&self, name: &str) -> i64 {
        let found = self.args.iter().find(|(key, _)| *key == name);
        found.and_then(|(_, value)| value.as_int()).unwrap_or(0)
    }

    /// Returns the text after the name of the event.
    fn fields(&self) -> String {
        let arg = |name| self.arg(name);
        match self.name {
            "sched_switch" => format!(
                "prev_comm={} prev_pid={} prev_prio={} prev_state={} ==> \
                 next_comm={} next_pid={} next_prio={}",
                arg("prev_comm"),
                arg("prev_pid"),
                arg("prev_prio"),
                self.state("prev_state"),
                arg("next_comm"),
                arg("next_pid"),
                arg("next_prio")
            ),
            "sched_wakeup" | "sched_wakeup_new" | "sched_waking" => format!(
                "comm={} pid={} prio={} target_cpu={:03}",
                arg("comm"),
                arg("pid"),
                arg("prio"),
                self.number("target_cpu")
            ),
            "sched_blocked_reason" => {
                let named = self.args.iter().any(|(key, _)| *key == "function");
                let caller = match self.number("caller") {
                    _ if named => arg("function"),
                    // The caller is a name instead of an address.
                    0 => arg("caller"),
                    address => format!("{address:x}"),
                };
                format!(
                    "pid={} iowait={} caller={caller}",
                    arg("pid"),
                    arg("io_wait")
                )
            }
            "print" | "tracing_mark_write" => arg("buf").trim_end_matches('\n').to_owned(),
            "cpu_frequency" | "cpu_idle" => {
                format!("state={} cpu_id={}", arg("state"), arg("cpu_id"))
            }
            "clock_set_rate" | "clock_enable" | "clock_disable" => format!(
                "{} state={} cpu_id={}",
                arg("name"),
                arg("state"),
                arg("cpu_id")
            ),
            "cgroup_attach_task" => {
                let has = |name: &str| self.args.iter().any(|(key, _)| *key == name);
                let path = if has("cname") {
                    format!("cgroup={}", arg("cname"))
                } else {
                    format!(
                        "dst_level={} dst_path={}",
                        arg("dst_level"),
                        arg("dst_path")
                    )
                };
                format!(
                    "dst_root={} dst_id={} {path} pid={} comm={}",
                    arg("dst_root"),
                    arg("dst_id"),
                    arg("pid"),
                    arg("comm")
                )
            }
            "irq_handler_entry" => format!("irq={} name={}", arg("irq"), arg("name")),
            "irq_handler_exit" => {
                let handled = if self.number("ret") == 0 {
                    "unhandled"
                } else {
                    "handled"
                };
                format!("irq={} ret={handled}", arg("irq"))
            }
            _ => {
                let mut out = String::new();
                for (key, value) in &self.args {
                    let space = if out.is_empty() { "" } else { " " };
                    let value = match value {
                        // Numbers of the kernel are mostly addresses and sizes, which are unsigned.
                        ArgValue::Int(v) if *v < 0 => v.to_string(),
                        value => self.text(*value),
                    };
                    let _ = write!(out, "{space}{key}={value}");
                }
                out
            }
        }
    }

    /// Returns the letters of a task's state.
    fn state(&self, name: &str) -> String {
        let found = self.args.iter().find(|(key, _)| *key == name);
        let Some(state) = found.and_then(|(_, value)| match value {
            ArgValue::Text(_) => None,
            value => value.as_int(),
        }) else {
            return self.arg(name);
        };
        const LETTERS: [(i64, &str); 8] = [
            (0x01, "S"),
            (0x02, "D"),
            (0x04, "T"),
            (0x08, "t"),
            (0x10, "X"),
            (0x20, "Z"),
            (0x40, "P"),
            (0x80, "I"),
        ];
        let letters: Vec<&str> = LETTERS
            .iter()
            .filter(|(bit, _)| state & bit != 0)
            .map(|(_, letter)| *letter)
            .collect();
        let preempted = if state & 0x100 != 0 { "+" } else { "" };
        if letters.is_empty() {
            format!("R{preempted}")
        } else {
            letters.join("|") + preempted
        }
    }
}

/// Returns the four letters of an event's context.
fn flags(flags: u32) -> String {
    let has = |bit: u32| flags & bit != 0;
    let interrupts = if has(1) { 'd' } else { '.' };
    let resched = match (has(4), has(0x20)) {
        (true, true) => 'N',
        (true, false) => 'n',
        (false, true) => 'p',
        (false, false) => '.',
    };
    let context = match (has(8), has(0x10)) {
        (true, true) => 'H',
        (true, false) => 'h',
        (false, true) => 's',
        (false, false) => '.',
    };
    format!("{interrupts}{resched}{context}.")
}

/// Returns an event as a line; `None` if there is no such event.
pub fn kernel_line(trace: &Trace, id: i64) -> Option<String> {
    let tables = trace.tables();
    let events = &tables.ftrace_event;
    let id = u32::try_from(id).ok().filter(|id| *id < events.len())?;
    let strings = trace.strings();
    let utid = events.utid().get(id);
    let thread = (utid < tables.thread.len()).then_some(utid);
    let tid = thread.map_or(-1, |utid| tables.thread.tid().get(utid));
    let comm = match thread.map(|utid| tables.thread.name().get(utid)) {
        _ if tid == 0 => "<idle>",
        Some(name) => strings.get(name).unwrap_or("<unknown>"),
        None => "<unknown>",
    };
    let tgid = thread
        .filter(|_| tid != 0)
        .and_then(|utid| tables.thread.upid().get(utid))
        .map(|upid| format!("{:>5}", tables.process.pid().get(upid)));
    let event = Event {
        trace,
        name: strings.text(events.name().get(id)),
        args: events
            .arg_set_id()
            .get(id)
            .map(|set| {
                let args = tables.args.set(set);
                args.map(|arg| (strings.text(arg.key), arg.value)).collect()
            })
            .unwrap_or_default(),
    };
    let ts = events.ts().get(id);
    let (seconds, micros) = (
        ts.div_euclid(1_000_000_000),
        ts.rem_euclid(1_000_000_000) / 1000,
    );
    Some(format!(
        "{comm:>16}-{tid:<5} ({}) [{:03}] {} {seconds}.{micros:06}: {}: {}",
        tgid.as_deref().unwrap_or("-----"),
        events.ucpu().get(id),
        flags(events.common_flags().get(id)),
        event.name,
        event.fields()
    ))
}
