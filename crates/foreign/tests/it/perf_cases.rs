//! Profiles as text: each case is imported, and must have the callstacks that the file lists.

use std::io::Cursor;

use ferretto_foreign::{Options, import};
use ferretto_trace::profile::{Selection, folded, read_profile};

/// The subject of a case, the file, its callstacks, and whether a part of it is left out.
type Case = (&'static str, &'static str, &'static [&'static str], bool);

/// Frames of one callstack of `perf script`.
macro_rules! stack {
    () => {
        "\n\t401136 leaf+0x6 (/bin/x)\n\t401150 main+0x1c (/bin/x)\n\n"
    };
}

const CASES: &[Case] = &[
    (
        "six decimals",
        concat!("x 7/7 1.000001: 1 cycles:", stack!()),
        &["x;main;leaf 1"],
        false,
    ),
    (
        "one decimal",
        concat!("x 7/7 1.1: 1 cycles:", stack!()),
        &["x;main;leaf 1"],
        false,
    ),
    (
        "two decimals",
        concat!("x 7/7 1.12: 1 cycles:", stack!()),
        &["x;main;leaf 1"],
        false,
    ),
    (
        "four decimals",
        concat!("x 7/7 1.1234: 1 cycles:", stack!()),
        &["x;main;leaf 1"],
        false,
    ),
    (
        "nine decimals",
        concat!("x 7/7 1.123456789: 1 cycles:", stack!()),
        &["x;main;leaf 1"],
        false,
    ),
    (
        "no time",
        concat!("x 7/7 cycles:", stack!()),
        &["x;main;leaf 1"],
        false,
    ),
    (
        "no time, a period",
        concat!("x 7/7 99 cycles:", stack!()),
        &["x;main;leaf 1"],
        false,
    ),
    (
        "no time, a CPU",
        concat!("x 7/7 [001] cycles:", stack!()),
        &["x;main;leaf 1"],
        false,
    ),
    (
        "no process",
        concat!("x 7 1.5: 1 cycles:", stack!()),
        &["x;main;leaf 1"],
        false,
    ),
    (
        "no process and no time",
        concat!("x 7 cycles:", stack!()),
        &["x;main;leaf 1"],
        false,
    ),
    (
        "no ids",
        concat!("x 1.5: 1 cycles:", stack!()),
        &["x;main;leaf 1"],
        false,
    ),
    (
        "no name",
        concat!("7/7 1.5: 1 cycles:", stack!()),
        &["pid 7;main;leaf 1"],
        false,
    ),
    (
        "no event",
        concat!("x 7/7 1.5:", stack!()),
        &["x;main;leaf 1"],
        false,
    ),
    (
        "a mode",
        concat!("x 7/7 [001] U 1.5: cycles:", stack!()),
        &["x;main;leaf 1"],
        false,
    ),
    (
        "a name with a space",
        concat!("Web Content 7/7 1.5: 1 cycles:", stack!()),
        &["Web Content;main;leaf 1"],
        false,
    ),
    (
        "two such names",
        concat!(
            "Web Content 7/7 1.5: 1 c:",
            stack!(),
            "Web Server 8/8 1.6: 1 c:",
            stack!()
        ),
        &["Web Content;main;leaf 1", "Web Server;main;leaf 1"],
        false,
    ),
    (
        "a name with a colon",
        concat!("a: b 7/7 1.5: 1 cycles:", stack!()),
        &["a: b;main;leaf 1"],
        false,
    ),
    (
        "a name of digits",
        concat!("42 7/7 1.5: 1 cycles:", stack!()),
        &["42;main;leaf 1"],
        false,
    ),
    (
        "an empty line before the stack",
        "x 7/7 1.5: 1 cycles:\n\n\t401136 leaf (/bin/x)\n\n",
        &["x;leaf 1"],
        false,
    ),
    (
        "several empty lines",
        "x 7/7 1.5: 1 cycles:\n\n\n\t401136 leaf (/bin/x)\n\n\n",
        &["x;leaf 1"],
        false,
    ),
    (
        "no empty line between samples",
        "x 7/7 1.5: 1 c:\n\t1136 a (/x)\nx 7/7 1.6: 1 c:\n\t1136 b (/x)\n",
        &["x;a 1", "x;b 1"],
        false,
    ),
    (
        "no empty line at the end",
        "x 7/7 1.5: 1 c:\n\t401136 leaf (/x)",
        &["x;leaf 1"],
        false,
    ),
    (
        "a comment before",
        concat!("# captured on\n#\n", "x 7/7 1.5: 1 c:", stack!()),
        &["x;main;leaf 1"],
        false,
    ),
    (
        "an odd line between",
        concat!(
            "x 7/7 1.5: 1 c:",
            stack!(),
            "words\n\n",
            "x 7/7 1.6: 1 c:",
            stack!()
        ),
        &["x;main;leaf 2"],
        true,
    ),
    (
        "an odd line first",
        concat!("Warning: words\n", "x 7/7 1.5: 1 c:", stack!()),
        &["x;main;leaf 1"],
        true,
    ),
    (
        "an odd line last",
        concat!("x 7/7 1.5: 1 c:", stack!(), "words\n"),
        &["x;main;leaf 1"],
        true,
    ),
    (
        "records of tasks",
        concat!(
            "x 7/7 1.4: PERF_RECORD_COMM exec: x:7/7\n",
            "x 7/7 1.5: 1 c:",
            stack!(),
            "x 7/7 1.6: PERF_RECORD_FORK(8:8):(7:7)\nx 7/7 1.7: PERF_RECORD_EXIT(7:7):(1:1)\n"
        ),
        &["x;main;leaf 1"],
        false,
    ),
    (
        "a record of a name",
        concat!(
            "x 7/7 1.4: PERF_RECORD_COMM: Web Content:8/8\n",
            "8/8 1.5: 1 c:",
            stack!()
        ),
        &["Web Content;main;leaf 1"],
        false,
    ),
    (
        "a frame on the line",
        "x 7/7 1.5: 1 cycles: 401136 leaf+0x6 (/bin/x)\n",
        &["x;leaf 1"],
        false,
    ),
    (
        "no files",
        "x 7/7 1.5: 1 c:\n\t401136 leaf\n\t401150 main\n\n",
        &["x;main;leaf 1"],
        false,
    ),
    (
        "no addresses",
        "x 7/7 1.5: 1 c:\n\tleaf+0x6 (/bin/x)\n\tmain (/bin/x)\n\n",
        &["x;main;leaf 1"],
        false,
    ),
    (
        "an operator",
        "x 7/7 1.5: 1 c:\n\t401136 operator+(int) (/bin/x)\n\n",
        &["x;operator+(int) 1"],
        false,
    ),
    (
        "a deleted file",
        "x 7/7 1.5: 1 c:\n\t401136 f (/bin/x (deleted))\n\n",
        &["x;f 1"],
        false,
    ),
    (
        "an inlined function",
        "x 7/7 1.5: 1 c:\n\t401136 f (inlined)\n\t401150 main (/x)\n\n",
        &["x;main;f 1"],
        false,
    ),
    (
        "collapsed",
        "main;work;copy 17\nmain;wait 5\n",
        &["main;wait 5", "main;work;copy 17"],
        false,
    ),
    (
        "collapsed, one frame",
        "a;b 5\nsingle 6\n",
        &["a;b 5", "single 6"],
        false,
    ),
    (
        "collapsed, one frame first",
        "single 6\na;b 5\n",
        &["a;b 5", "single 6"],
        false,
    ),
    (
        "collapsed, only single frames",
        "work 6\nmain 5\n",
        &["main 5", "work 6"],
        false,
    ),
    ("collapsed, tabs", "a;b\t5\n", &["a;b 5"], false),
    (
        "collapsed, fractions",
        "a;b 1.75\nc;d 2.25\n",
        &["a;b 2", "c;d 2"],
        false,
    ),
    (
        "collapsed, a negative count",
        "a;b 5\nc;d -3\n",
        &["a;b 5"],
        true,
    ),
    (
        "collapsed, comments",
        "# x\na;b 5\n\n# y\nc;d 3\n",
        &["a;b 5", "c;d 3"],
        false,
    ),
    (
        "collapsed, a bad line",
        "a;b 5\na;c 5\na;d 5\nbad\n",
        &["a;b 5", "a;c 5", "a;d 5"],
        true,
    ),
    (
        "collapsed, a bad line first",
        "bad\na;b 5\na;c 5\na;d 5\n",
        &["a;b 5", "a;c 5", "a;d 5"],
        true,
    ),
    (
        "collapsed, spaces in names",
        "a b;operator new 5\n",
        &["a b;operator new 5"],
        false,
    ),
    (
        "collapsed, equal stacks",
        "a;b 5\na;b 6\n",
        &["a;b 11"],
        false,
    ),
    (
        "collapsed, carriage returns",
        "a;b 5\r\na;c 6\r\n",
        &["a;b 5", "a;c 6"],
        false,
    ),
    (
        "collapsed, no end of line",
        "a;b 5\na;c 6",
        &["a;b 5", "a;c 6"],
        false,
    ),
    ("collapsed, exponents", "a;b 1e3\n", &["a;b 1000"], false),
    (
        "collapsed, deep",
        "a;b;c;d;e;f;g;h;i;j 1\n",
        &["a;b;c;d;e;f;g;h;i;j 1"],
        false,
    ),
    (
        "collapsed, kernel",
        "swapper;cpu_idle_[k] 7\n",
        &["swapper;cpu_idle_[k] 7"],
        false,
    ),
];

#[test]
fn profiles_as_text_have_the_callstacks_of_the_file() {
    let mut wrong = Vec::new();
    for (subject, file, expected, is_damaged) in CASES {
        let mut trace = Vec::new();
        let report = match import(Cursor::new(file), &Options::default(), &mut trace) {
            Ok(report) => report,
            Err(error) => {
                wrong.push(format!("{subject}: {error}"));
                continue;
            }
        };
        let (profile, counts) = read_profile(&trace[..], Selection::default()).unwrap();
        let lines = folded(&profile, &counts, &Default::default());
        let lines: Vec<_> = lines
            .iter()
            .map(|line| line.strip_prefix("pid 0;").unwrap_or(line))
            .collect();
        if lines != *expected || report.is_damaged != *is_damaged {
            wrong.push(format!("{subject}: {lines:?}, {report:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Encodes a profile with two samples of a function each.
fn pprof(types: &[(&str, &str)], values: [&[u64]; 2], default: Option<&str>) -> Vec<u8> {
    let names = ["", "hot", "cold"].into_iter();
    let of_types = types.iter().flat_map(|(kind, unit)| [*kind, *unit]);
    let strings: Vec<_> = names.chain(of_types).collect();
    let number = |text: &str| strings.iter().position(|it| *it == text).unwrap() as u64;
    ferretto_wire::encode(|out| {
        for (kind, unit) in types {
            out.nested(1, |out| {
                out.varint(1, number(kind));
                out.varint(2, number(unit));
            });
        }
        for (at, values) in values.iter().enumerate() {
            let id = at as u64 + 1;
            out.nested(2, |out| {
                out.varint(1, id);
                values.iter().for_each(|value| out.varint(2, *value));
            });
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

#[test]
fn values_of_pprof_are_weights_of_the_default_type() {
    const MS: u64 = 1_000_000;
    let cpu = ("cpu", "nanoseconds");
    let heap = [
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
    ];
    let heap_values: [&[u64]; 2] = [&[1, 10, 100, 1000], &[2, 20, 200, 2000]];
    type Case<'a> = (
        &'a [(&'a str, &'a str)],
        [&'a [u64]; 2],
        Option<&'a str>,
        [u64; 2],
    );
    let cases: [Case<'_>; 5] = [
        (
            &[cpu],
            [&[900 * MS], &[100 * MS]],
            None,
            [900 * MS, 100 * MS],
        ),
        (
            &[("samples", "count"), cpu],
            [&[9, 90], &[1, 10]],
            None,
            [90, 10],
        ),
        (
            &[("samples", "count"), cpu],
            [&[9, 90], &[1, 10]],
            Some("cpu"),
            [90, 10],
        ),
        (&heap, heap_values, Some("inuse_space"), [1000, 2000]),
        (&heap, heap_values, Some("alloc_space"), [10, 20]),
    ];
    for (types, values, default, [hot, cold]) in cases {
        let file = pprof(types, values, default);
        let mut trace = Vec::new();
        import(Cursor::new(&file), &Options::default(), &mut trace).unwrap();
        let (profile, counts) = read_profile(&trace[..], Selection::default()).unwrap();
        let lines = folded(&profile, &counts, &Default::default()).join("\n");
        let has = |name: &str, value: u64| lines.contains(&format!("{name} {value}"));
        assert!(
            has("hot", hot) && has("cold", cold),
            "{types:?} {default:?}: {lines}"
        );
    }
}
