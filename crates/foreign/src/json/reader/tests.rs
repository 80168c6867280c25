//! The parts of JSON files in pieces of any size.

use super::*;

fn parts(pieces: &[&[u8]], max_value: usize) -> (Vec<String>, Result<(), Broken>) {
    let mut reader = Reader {
        max_value,
        ..Reader::default()
    };
    let mut seen = Vec::new();
    let mut each = |part: Part<'_>| {
        seen.push(match part {
            Part::Event(at, bytes) => format!("{at} {}", String::from_utf8_lossy(bytes)),
            Part::SystemLine(line) => format!("line {line}"),
            Part::DisplayTimeUnit => "unit".to_owned(),
            Part::Metadata(bytes) => format!("metadata {}", String::from_utf8_lossy(bytes)),
            Part::NoEvent(at) => format!("no event at {at}"),
            Part::Unterminated(at) => format!("unterminated at {at}"),
            Part::Samples(key, bytes) => {
                format!("{key} {}", String::from_utf8_lossy(bytes))
            }
            Part::StackFrame(id, bytes) => {
                format!("frame {id} {}", String::from_utf8_lossy(bytes))
            }
            Part::TooLarge(key, at) => format!("too large {key} at {at}"),
        });
    };
    let mut result = Ok(());
    for piece in pieces {
        result = result.and_then(|()| reader.push(piece, &mut each));
    }
    let result = result.and_then(|()| reader.finish(&mut each));
    (seen, result)
}

fn check(text: &str, expected: &[&str], end: Result<(), Broken>) {
    let whole = parts(&[text.as_bytes()], MAX_VALUE);
    assert_eq!(
        whole,
        (expected.iter().map(|&s| s.to_owned()).collect(), end),
        "{text}"
    );
    let bytes: Vec<_> = text.as_bytes().chunks(1).collect();
    assert_eq!(parts(&bytes, MAX_VALUE), whole, "{text}");
}

#[test]
fn parts_are_the_same_however_the_bytes_are_split() {
    check(
        r#"[{"a":"]}"},{"b":[1]}]"#,
        &[r#"1 {"a":"]}"}"#, r#"12 {"b":[1]}"#],
        Ok(()),
    );
    check(
        r#"{"x":{"y":[]}, "traceEvents":[ {} ,], "displayTimeUnit":"ns","metadata":{"k":1}}"#,
        &["31 {}", "unit", r#"metadata {"k":1}"#],
        Ok(()),
    );
    check(
        r#"{"systemTraceEvents":"a\tb\nc \"d\" \u00e9\n", "n": 5}"#,
        &["line a\tb", "line c \"d\" é"],
        Ok(()),
    );
    // The traces of crashed programs have no end.
    check("[{},", &["1 {}"], Ok(()));
    check(
        r#"{"traceEvents":[{}"#,
        &["16 {}"],
        Err(Broken::Unterminated),
    );
    check(
        "[1, {}, \"x\"]",
        &["no event at 1", "4 {}", "no event at 8"],
        Ok(()),
    );
    check(
        "[{}, {\"a\":",
        &["1 {}", "unterminated at 5"],
        Err(Broken::InEvent(5)),
    );
    check("\u{feff}[{}]", &["4 {}"], Ok(()));
    check("x", &[], Err(Broken::Syntax(0)));
    check(r#"{"traceEvents":1}"#, &[], Err(Broken::Syntax(15)));
}

#[test]
fn events_after_a_broken_one_are_read() {
    check(
        "[{\"a\":\"q\"u\"},{\"b\":1},{\"c\":2}]",
        &["unterminated at 1", "13 {\"b\":1}", "21 {\"c\":2}"],
        Err(Broken::InEvent(1)),
    );
    check(
        "[{\"a\":\"x,\n{\"b\":1}\n]",
        &["unterminated at 1", "10 {\"b\":1}"],
        Err(Broken::InEvent(1)),
    );
}

#[test]
fn parts_of_unexpected_types_are_skipped() {
    let text = r#"{"systemTraceEvents":[{}],"samples":[1],"stackFrames":{},"traceEvents":[{}]}"#;
    check(text, &["samples 1", "72 {}"], Ok(()));
}

#[test]
fn lists_of_samples_are_passed_on_by_element() {
    check(
        r#"{"samples":[{"a":[1]},2,"x"],"timeDeltas":[1, 2.5],"nodes":[{}],"endTime":7,
            "stackFrames":{"1":{"name":"}"},"b":{}},"traceEvents":[{}]}"#,
        &[
            r#"samples {"a":[1]}"#,
            "samples 2",
            r#"samples "x""#,
            "timeDeltas 1",
            "timeDeltas 2.5",
            "nodes {}",
            "endTime 7",
            r#"frame 1 {"name":"}"}"#,
            "frame b {}",
            "144 {}",
        ],
        Ok(()),
    );
    check(
        r#"{"samples":[1,2"#,
        &["samples 1"],
        Err(Broken::Unterminated),
    );
    let large = format!(
        r#"{{"samples":["{}",1],"traceEvents":[]}}"#,
        "x".repeat(5000)
    );
    let pieces: Vec<_> = large.as_bytes().chunks(100).collect();
    let (seen, end) = parts(&pieces, 1000);
    assert_eq!(seen, ["too large samples at 12", "samples 1"]);
    assert_eq!(end, Ok(()));
}

#[test]
fn other_files_are_refused_by_their_kind() {
    let kind = |text: &str| match parts(&[text.as_bytes()], MAX_VALUE).1 {
        Err(Broken::NoTrace(kind)) => kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        kind(r#"{"nodes":[],"startTime":1}"#),
        "a CPU profile of V8 (.cpuprofile)"
    );
    assert_eq!(kind(r#"{"name":"x"}"#), "a JSON file of an unknown kind");
}

#[test]
fn a_too_large_value_is_skipped_in_bounded_memory() {
    let large = format!("[{{\"a\":\"{}\"}},{{}}]", "x".repeat(5000));
    let pieces: Vec<_> = large.as_bytes().chunks(100).collect();
    let (seen, end) = parts(&pieces, 1000);
    assert_eq!(seen, ["no event at 1", "5010 {}"]);
    assert_eq!(end, Ok(()));
}
