//! The values of profiles of other programs. Each row is a file whose callstacks and amounts are
//! known from a model, not from a reader: the model prints the file, and adds up its samples.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Cursor;

use ferretto_foreign::{Options, import};
use ferretto_tables::Trace;
use ferretto_trace::profile::{By, FoldOptions, Selection, folded, read_profile};
use ferretto_wire::encode;

use super::systrace_cases;

/// Rows with the values of each event.
#[derive(Default)]
struct Rows {
    count: usize,
    wrong: Vec<String>,
}

/// Callstacks with their amounts.
type Amounts = BTreeMap<String, u64>;

fn amounts<'a>(lines: impl IntoIterator<Item = (&'a str, u64)>) -> Amounts {
    let lines = lines.into_iter();
    lines
        .map(|(stack, value)| (stack.to_owned(), value))
        .collect()
}

/// Returns the callstacks of an event in a file, and whether a part of the file is left out.
fn read(file: &[u8], event: Option<&str>) -> Result<(Amounts, bool), String> {
    let mut trace = Vec::new();
    let report = import(Cursor::new(file), &Options::default(), &mut trace);
    let report = report.map_err(|error| error.to_string())?;
    let selection = Selection {
        event: event.map(str::to_owned),
        ..Selection::default()
    };
    let (profile, counts) = read_profile(&trace[..], selection).map_err(|it| it.to_string())?;
    let options = FoldOptions {
        by: By::Function,
        value: counts.value(&profile),
        annotate: false,
    };
    let lines = folded(&profile, &counts, &options);
    let split = |line: &String| {
        let (stack, value) = line.rsplit_once(' ')?;
        Some((stack.to_owned(), value.parse().ok()?))
    };
    let all = lines.iter().map(|line| split(line).ok_or(line.clone()));
    Ok((all.collect::<Result<_, _>>()?, report.is_damaged))
}

impl Rows {
    fn expect(
        &mut self,
        subject: &str,
        file: &[u8],
        event: Option<&str>,
        expected: &Amounts,
        is_damaged: bool,
    ) {
        self.count += 1;
        let found = read(file, event);
        // Tables count the same lines.
        let text = str::from_utf8(file).ok();
        let is_lines = text.is_some_and(|text| !text.starts_with('{') && !text.contains(" -"));
        if is_lines && let Ok(trace) = Trace::read(Cursor::new(file.to_vec()), &Default::default())
        {
            let leaves_out = !trace.health().is_empty();
            if leaves_out != is_damaged {
                let health: Vec<_> = trace.health().iter().map(|it| it.to_string()).collect();
                self.wrong.push(format!("{subject}: {health:?} in tables"));
            }
        }
        if found != Ok((expected.clone(), is_damaged)) {
            let start = String::from_utf8_lossy(&file[..file.len().min(300)]).into_owned();
            self.wrong.push(format!(
                "{subject} {event:?}: {found:?}, not {expected:?}, of\n{start}"
            ));
        }
    }
}

/// A sample of the model.
struct Sample {
    comm: &'static str,
    tid: u32,
    us: u64,
    period: u64,
    event: &'static str,
    /// Functions with their files, the innermost first.
    stack: &'static [(&'static str, &'static str)],
}

const SAMPLES: &[Sample] = &[
    Sample {
        comm: "Web Content",
        tid: 4242,
        us: 5_100_000,
        period: 1,
        event: "cycles:u",
        stack: &[("leaf", "/tmp/my app"), ("main", "/tmp/my app")],
    },
    Sample {
        comm: "kworker/u16:1-e",
        tid: 7,
        us: 5_200_001,
        period: 99,
        event: "cycles:u",
        stack: &[
            ("operator+(int, unsigned long)", "/usr/lib/a (b).so"),
            ("main", "/tmp/my app"),
        ],
    },
    Sample {
        comm: "x",
        tid: 1_234_567,
        us: 6_000_000,
        period: 250_000,
        event: "instructions",
        stack: &[("[unknown]", "[vdso]"), ("f", "[kernel.kallsyms]")],
    },
    Sample {
        comm: "a: b",
        tid: 42,
        us: 15_348_797_252,
        period: 31,
        event: "cycles:u",
        stack: &[("leaf", "/tmp/my app"), ("main", "/tmp/my app")],
    },
];

/// The columns that `perf script` was asked for.
#[derive(Debug, Clone, Copy)]
struct Columns(u32);

impl Columns {
    const COMM: u32 = 1;
    const TID: u32 = 2;
    const PID: u32 = 4;
    const CPU: u32 = 8;
    const TIME: u32 = 16;
    const NANOSECONDS: u32 = 32;
    const PERIOD: u32 = 64;
    const EVENT: u32 = 128;
    const OFFSET: u32 = 256;
    const FILE: u32 = 512;
    const SOURCE: u32 = 1024;
    const MODE: u32 = 2048;

    fn has(self, column: u32) -> bool {
        self.0 & column != 0
    }

    /// Prints the samples as `perf script` does, with callstacks or the innermost function only.
    fn print(self, has_stacks: bool) -> String {
        let mut out = String::new();
        for sample in SAMPLES {
            let width = if has_stacks { 0 } else { 16 };
            if self.has(Self::COMM) {
                write!(out, "{:>width$} ", sample.comm).unwrap();
            }
            let tid = sample.tid;
            match (self.has(Self::PID), self.has(Self::TID)) {
                (true, true) => write!(out, "{tid:>5}/{tid:<5} ").unwrap(),
                (false, false) => {}
                _ => write!(out, "{tid:>5} ").unwrap(),
            }
            if self.has(Self::CPU) {
                out.push_str("[003] ");
            }
            if self.has(Self::MODE) {
                out.push_str("U     ");
            }
            let (seconds, us) = (sample.us / 1_000_000, sample.us % 1_000_000);
            match (self.has(Self::TIME), self.has(Self::NANOSECONDS)) {
                (true, true) => write!(out, "{seconds:>5}.{us:06}000: ").unwrap(),
                (true, false) => write!(out, "{seconds:>5}.{us:06}: ").unwrap(),
                _ => {}
            }
            if self.has(Self::PERIOD) {
                write!(out, "{:>10} ", sample.period).unwrap();
            }
            if self.has(Self::EVENT) {
                write!(out, "{}: ", sample.event).unwrap();
            }
            let frames = if has_stacks { sample.stack.len() } else { 1 };
            if has_stacks {
                out.push('\n');
            }
            for (at, (function, file)) in sample.stack[..frames].iter().enumerate() {
                let before = if has_stacks { '\t' } else { ' ' };
                let address = 0x40_1136 + at as u64 * 0x7f00_0000;
                write!(out, "{before}{address:>16x} {function}").unwrap();
                if self.has(Self::OFFSET) && *function != "[unknown]" {
                    out.push_str("+0x1c");
                }
                if self.has(Self::FILE) {
                    write!(out, " ({file})").unwrap();
                }
                out.push('\n');
                if self.has(Self::SOURCE) {
                    let source = if at == 0 {
                        "src/my file.c:17"
                    } else {
                        "a[401136]"
                    };
                    writeln!(out, "  {source}").unwrap();
                }
            }
            if has_stacks {
                out.push('\n');
            }
        }
        out
    }

    /// Adds up the samples of an event, or of all if events are not printed.
    fn added(self, event: &str, has_stacks: bool) -> Amounts {
        let mut all = Amounts::new();
        for sample in SAMPLES {
            if self.has(Self::EVENT) && sample.event != event {
                continue;
            }
            let frames = if has_stacks { sample.stack.len() } else { 1 };
            let functions = sample.stack[..frames].iter().rev();
            let functions: Vec<_> = functions.map(|(function, _)| *function).collect();
            let weight = if self.has(Self::PERIOD) {
                sample.period
            } else {
                1
            };
            *all.entry(functions.join(";")).or_default() += weight;
        }
        all
    }
}

/// The output of `perf script` with any columns.
fn perf_script(rows: &mut Rows) {
    // Every column is there and is missing, with every other one.
    let mut state = 0x1234_5678_u64;
    let mut columns = vec![0, 0xfff, Columns::TIME, Columns::EVENT, Columns::PERIOD];
    for _ in 0..45 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        columns.push((state >> 40) as u32 & 0xfff);
    }
    for (number, columns) in columns.into_iter().map(Columns).enumerate() {
        let has_stacks = number % 4 != 3;
        let file = columns.print(has_stacks);
        let subject = format!("columns {:#x}", columns.0);
        let first = columns.added("cycles:u", has_stacks);
        rows.expect(&subject, file.as_bytes(), None, &first, false);
        if columns.has(Columns::EVENT) && number % 3 == 0 {
            let second = columns.added("instructions", has_stacks);
            rows.expect(
                &subject,
                file.as_bytes(),
                Some("instructions"),
                &second,
                false,
            );
            rows.expect(&subject, file.as_bytes(), Some("cycles"), &first, false);
        }
        // An odd line leaves out nothing but itself.
        if columns.has(Columns::TIME) && columns.has(Columns::TID) && number % 2 == 0 {
            let odd = format!("{file}[ perf record: words ]\n");
            rows.expect(&subject, odd.as_bytes(), None, &first, true);
        }
    }
}

/// Collapsed stacks: the lines, and their counts.
fn collapsed(rows: &mut Rows) {
    type Case = (&'static str, &'static [(&'static str, u64)], bool);
    let cases: &[Case] = &[
        ("a;b 5\nsingle 6\n", &[("a;b", 5), ("single", 6)], false),
        ("single 6\n", &[("single", 6)], false),
        ("main 1\nmain 2\nmain 3\n", &[("main", 6)], false),
        ("a;b\t5\n", &[("a;b", 5)], false),
        ("a;b\t \t5\t\n", &[("a;b", 5)], false),
        ("a\tb;c 5\n", &[("a b;c", 5)], false),
        ("a;b 1.5\na;c 2.4\n", &[("a;b", 2), ("a;c", 2)], false),
        ("a;b 0.4\na;c 3\n", &[("a;c", 3)], false),
        ("a;b 1e6\n", &[("a;b", 1_000_000)], false),
        ("# x\na;b 5\n#a;b 7\n", &[("a;b", 5)], false),
        ("\n\na;b 5\n\n", &[("a;b", 5)], false),
        ("a;b 5\r\nc;d 6\r\n", &[("a;b", 5), ("c;d", 6)], false),
        (
            "a;b 18446744073709\n",
            &[("a;b", 18_446_744_073_709)],
            false,
        ),
        ("a;b 0\nc;d 1\n", &[("c;d", 1)], false),
        ("a;b 5\na;c 5\nwords\n", &[("a;b", 5), ("a;c", 5)], true),
        ("a;b 5\na;c 5\na;d x\n", &[("a;b", 5), ("a;c", 5)], true),
        ("a;b 5\na;c -5\n", &[("a;b", 5)], true),
        (
            "operator new[](int) 3;x y 4\n",
            &[("operator new[](int) 3;x y", 4)],
            false,
        ),
        ("ä;ü 5\n", &[("ä;ü", 5)], false),
        ("a;b_[k] 5\n", &[("a;b_[k]", 5)], false),
    ];
    for (file, expected, is_damaged) in cases {
        let expected = amounts(expected.iter().copied());
        rows.expect("collapsed", file.as_bytes(), None, &expected, *is_damaged);
        // The lines that are printed are read back.
        if let Ok((found, _)) = read(file.as_bytes(), None) {
            let lines = found
                .iter()
                .map(|(stack, value)| format!("{stack} {value}\n"));
            let lines: String = lines.collect();
            rows.expect("read back", lines.as_bytes(), None, &expected, false);
        }
    }
}

/// Profiles of pprof: values by type, and the type that is shown without a choice.
fn pprof(rows: &mut Rows) {
    let heap = [
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
    ];
    let cpu = [("samples", "count"), ("cpu", "nanoseconds")];
    let wall = [("wall", "milliseconds")];
    for (types, defaults) in [
        (
            &heap[..],
            &[None, Some("alloc_space"), Some("inuse_space")][..],
        ),
        (&cpu[..], &[None, Some("samples"), Some("cpu")][..]),
        (&wall[..], &[None, Some("wall"), Some("nosuch")][..]),
    ] {
        for default in defaults {
            // Three callstacks, of which two are equal.
            let values =
                |stack: u64| (0..types.len() as u64).map(move |of| stack * 1000 + of * 7 + 1);
            let file = pprof_file(types, *default, &values);
            let added = |of: usize| {
                let value = |stack: u64| values(stack).nth(of).unwrap();
                amounts([("main;hot", value(1) + value(3)), ("main", value(2))])
            };
            let shown = default.and_then(|name| types.iter().position(|it| it.0 == name));
            let shown = shown.unwrap_or(types.len() - 1);
            rows.expect("pprof", &file, None, &added(shown), false);
            for (at, (name, _)) in types.iter().enumerate() {
                rows.expect("pprof", &file, Some(name), &added(at), false);
            }
        }
    }
}

fn pprof_file<I: Iterator<Item = u64>>(
    types: &[(&str, &str)],
    default: Option<&str>,
    values: &dyn Fn(u64) -> I,
) -> Vec<u8> {
    let mut strings = vec!["", "main", "hot"];
    strings.extend(types.iter().flat_map(|(kind, unit)| [*kind, *unit]));
    strings.extend(default);
    let number = |text: &str| strings.iter().position(|it| *it == text).unwrap() as u64;
    encode(|out| {
        for (kind, unit) in types {
            out.nested(1, |out| {
                out.varint(1, number(kind));
                out.varint(2, number(unit));
            });
        }
        for (stack, locations) in [(1, &[2, 1][..]), (2, &[1]), (3, &[2, 1])] {
            out.nested(2, |out| {
                locations
                    .iter()
                    .for_each(|location| out.varint(1, *location));
                values(stack).for_each(|value| out.varint(2, value));
            });
        }
        for id in [1, 2] {
            out.nested(4, |out| {
                out.varint(1, id);
                out.nested(4, |out| out.varint(1, id));
            });
            out.nested(5, |out| {
                out.varint(1, id);
                out.varint(2, id);
            });
        }
        if let Some(default) = default {
            out.varint(14, number(default));
        }
        strings.iter().for_each(|text| out.string(6, text));
    })
}

/// Callstack samples in JSON.
fn json(rows: &mut Rows) {
    let chrome = r#"{"traceEvents":[],"samples":[
        {"cpu":0,"tid":7,"ts":1000.0,"name":"cycles:HG","sf":3,"weight":5},
        {"cpu":0,"tid":7,"ts":2000.0,"name":"cycles:HG","sf":1,"weight":7},
        {"cpu":0,"tid":7,"ts":3000.0,"name":"page-faults","sf":3,"weight":1},
        {"cpu":0,"tid":7,"ts":4000.0,"name":"cycles:HG","sf":"3","weight":11}],
        "stackFrames":{"1":{"name":"main","category":"a"},"3":{"name":"work","category":"a","parent":"1"}}}"#;
    let cycles = amounts([("main;work", 16), ("main", 7)]);
    rows.expect("chrome", chrome.as_bytes(), None, &cycles, false);
    rows.expect("chrome", chrome.as_bytes(), Some("cycles"), &cycles, false);
    let faults = amounts([("main;work", 1)]);
    rows.expect(
        "chrome",
        chrome.as_bytes(),
        Some("page-faults"),
        &faults,
        false,
    );
    let unweighted = chrome.replace(r#","weight":5"#, "");
    let counted = amounts([("main;work", 2), ("main", 1)]);
    rows.expect("no weight", unweighted.as_bytes(), None, &counted, false);
    let v8 = r#"{"nodes":[{"id":1,"callFrame":{"functionName":"(root)","url":"","lineNumber":-1},"children":[2,3]},
        {"id":2,"callFrame":{"functionName":"work","url":"a.js","lineNumber":1},"hitCount":3,
         "positionTicks":[{"line":5,"ticks":2},{"line":9,"ticks":1}]},
        {"id":3,"callFrame":{"functionName":"rest","url":"a.js","lineNumber":7},"hitCount":1}],
        "startTime":1000,"endTime":9000,"samples":[2,2,3,2],"timeDeltas":[0,1000,2000,500]}"#;
    let counted = amounts([("(root);work", 3), ("(root);rest", 1)]);
    rows.expect("v8", v8.as_bytes(), None, &counted, false);
    let timed = amounts([
        ("(root);work", 3_000_000 + 4_500_000),
        ("(root);rest", 500_000),
    ]);
    rows.expect("v8", v8.as_bytes(), Some("time"), &timed, false);
    // More elements than fit into one value.
    let mut large =
        r#"{"traceEvents":[],"stackFrames":{"1":{"name":"main"}},"samples":["#.to_owned();
    for ts in 0..50_000 {
        let comma = if ts == 0 { "" } else { "," };
        let note = "x".repeat(400);
        write!(
            large,
            r#"{comma}{{"tid":1,"ts":{ts},"sf":1,"weight":2,"note":"{note}"}}"#
        )
        .unwrap();
    }
    large.push_str("]}");
    assert!(large.len() > 20 << 20);
    rows.expect(
        "large",
        large.as_bytes(),
        None,
        &amounts([("main", 100_000)]),
        false,
    );
}

#[test]
fn values_of_foreign_files_are_those_of_the_model_that_wrote_them() {
    let mut rows = Rows::default();
    perf_script(&mut rows);
    collapsed(&mut rows);
    pprof(&mut rows);
    json(&mut rows);
    let (count, wrong) = systrace_cases::check();
    rows.count += count;
    rows.wrong.extend(wrong);
    println!("{} rows", rows.count);
    assert!(rows.wrong.is_empty(), "{}", rows.wrong.join("\n\n"));
    assert!(rows.count >= 120, "{} rows", rows.count);
}
