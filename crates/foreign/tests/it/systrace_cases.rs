//! Kernel events as text: the states of CPUs and threads, slices and counters that tables have of
//! them. The expected values are those of the events, by hand.

use std::io::Cursor;

use ferretto_tables::{ImportError, Options, Trace};

/// A file, and its facts, sorted. None if it is refused.
type Case = (&'static str, String, Option<&'static [&'static str]>);

const SWITCHES: &str = "          <idle>-0     [000] d..2  100.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=Web Content next_pid=600 next_prio=120
     Web Content-600   [000] d..2  100.006000: sched_switch: prev_comm=Web Content prev_pid=600 prev_prio=120 prev_state=D ==> next_comm=swapper/0 next_pid=0 next_prio=120
          <idle>-0     [000] d..2  100.009000: sched_waking: comm=Web Content pid=600 prio=120 target_cpu=000
          <idle>-0     [000] d..2  100.010000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=Web Content next_pid=600 next_prio=120
     Web Content-600   [000] d..2  100.011500: sched_switch: prev_comm=Web Content prev_pid=600 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
";

const SWITCH_FACTS: &[&str] = &[
    "run Web Content 600 cpu 0 at 100000000 us for 6000 us D",
    "run Web Content 600 cpu 0 at 100010000 us for 1500 us S",
];

/// The same switches as `trace-cmd report` prints them.
const REPORT: &str = "\
cpus=2
          <idle>-0     [000]   100.000000: sched_switch:         swapper/0:0 [120] R ==> Web Content:600 [120]
     Web Content-600   [000]   100.006000: sched_switch:         Web Content:600 [120] D ==> swapper/0:0 [120]
          <idle>-0     [000]   100.009000: sched_waking:         Web Content:600 [120] CPU:000
          <idle>-0     [000]   100.010000: sched_switch:         swapper/0:0 [120] R ==> Web Content:600 [120]
     Web Content-600   [000]   100.011500: sched_switch:         Web Content:600 [120] S ==> swapper/0:0 [120]
";

const MARKS: &str =
    "     Web Content-600   (  500) [001] ....  7.000100: tracing_mark_write: B|500|load page
     Web Content-600   (  500) [001] ....  7.000350: tracing_mark_write: E|500
     Web Content-600   (  500) [001] ....  7.000400: tracing_mark_write: C|500|frames|42
     Web Content-600   (  500) [001] ....  7.000450: tracing_mark_write: S|500|wait|9
     Web Content-600   (  500) [001] ....  7.000950: tracing_mark_write: F|500|wait|9
          a-b-12-3     [001] ....  7.001000: cpu_frequency: state=1200000 cpu_id=1
";

const MARK_FACTS: &[&str] = &[
    "counter cpufreq at 7001000 us is 1200000",
    "counter frames at 7000400 us is 42",
    "slice load page at 7000100 us for 250 us",
    "slice wait at 7000450 us for 500 us",
];

fn cases() -> Vec<Case> {
    let head = "# tracer: nop\n#\n";
    let script = |text: &str| text.replace('\n', "\\n\\\n");
    let old = format!(
        "<!DOCTYPE HTML>\n<html>\n<script>\n  var linuxPerfData = \"\\\n{}\\n\";\n</script>\n</html>\n",
        script(&format!("{head}{SWITCHES}"))
    );
    let new = format!(
        "<!DOCTYPE html>\n<html>\n<body>\n<script class=\"trace-data\" type=\"application/text\">\n# tracer: nop\n#\n#           TASK-PID   CPU#  ||||    TIMESTAMP  FUNCTION\n{SWITCHES}</script>\n</body></html>\n"
    );
    let json = format!(
        "{{\"traceEvents\":[],\"systemTraceEvents\":\"{}\"}}",
        format!("{head}{SWITCHES}").replace('\n', "\\n")
    );
    vec![
        ("systrace", format!("{head}{SWITCHES}"), Some(SWITCH_FACTS)),
        (
            "atrace",
            format!("TRACE:\n{head}{SWITCHES}"),
            Some(SWITCH_FACTS),
        ),
        ("trace-cmd report", REPORT.to_owned(), Some(SWITCH_FACTS)),
        ("no header", SWITCHES.to_owned(), Some(SWITCH_FACTS)),
        (
            "no spaces before",
            SWITCHES
                .lines()
                .map(|line| format!("{}\n", line.trim_start()))
                .collect(),
            Some(SWITCH_FACTS),
        ),
        ("old HTML", old, Some(SWITCH_FACTS)),
        ("HTML", new, Some(SWITCH_FACTS)),
        ("in JSON", json, Some(SWITCH_FACTS)),
        (
            "carriage returns",
            format!("{head}{SWITCHES}").replace('\n', "\r\n"),
            Some(SWITCH_FACTS),
        ),
        ("markers", format!("{head}{MARKS}"), Some(MARK_FACTS)),
        (
            "trace-cmd markers",
            MARKS.replace(
                "tracing_mark_write: ",
                "print:                tracing_mark_write: ",
            ),
            Some(MARK_FACTS),
        ),
        (
            "HTML without a trace",
            "<!DOCTYPE html>\n<html><body>words</body></html>\n".to_owned(),
            None,
        ),
        (
            "HTML with an empty trace",
            "<html>\n<script>var x = 1;</script>\n</html>\n".to_owned(),
            None,
        ),
    ]
}

/// Returns the facts of a trace, sorted.
fn facts(trace: &Trace) -> Vec<String> {
    let (tables, strings) = (trace.tables(), trace.strings());
    let mut facts = Vec::new();
    let sched = &tables.sched_slice;
    for row in 0..sched.len() {
        let utid = sched.utid().get(row);
        let tid = tables.thread.tid().get(utid);
        if tid == 0 || sched.dur().get(row) < 0 {
            continue;
        }
        let name = strings.text(tables.thread.name().get(utid));
        let cpu = tables.cpu.cpu().get(sched.ucpu().get(row)).unwrap_or(99);
        let (ts, dur) = (sched.ts().get(row) / 1000, sched.dur().get(row) / 1000);
        let state = strings.text(sched.end_state().get(row));
        facts.push(format!(
            "run {name} {tid} cpu {cpu} at {ts} us for {dur} us {state}"
        ));
    }
    for (name, _, ts, dur, _) in super::slices(trace) {
        facts.push(format!(
            "slice {name} at {} us for {} us",
            ts / 1000,
            dur / 1000
        ));
    }
    for (name, ts, value) in super::counters(trace) {
        facts.push(format!("counter {name} at {} us is {value}", ts / 1000));
    }
    facts.sort();
    facts
}

/// Returns the number of values, and the wrong ones.
pub(crate) fn check() -> (usize, Vec<String>) {
    let (mut count, mut wrong) = (0, Vec::new());
    for (subject, file, expected) in cases() {
        let trace = Trace::read(Cursor::new(file.into_bytes()), &Options::default());
        let found = match &trace {
            Ok(trace) => Some(facts(trace)),
            Err(ImportError::Parse { .. }) => None,
            Err(error) => Some(vec![error.to_string()]),
        };
        count += expected.map_or(1, <[_]>::len);
        let expected = expected.map(|facts| facts.iter().map(|it| (*it).to_owned()).collect());
        if found != expected {
            wrong.push(format!("{subject}: {found:?}, not {expected:?}"));
        }
        let health = trace.as_ref().map(|trace| trace.health().is_empty());
        if health.is_ok_and(|is_empty| !is_empty) {
            wrong.push(format!("{subject}: parts are left out"));
        }
    }
    (count, wrong)
}
