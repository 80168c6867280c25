//! Text formats.

use std::fmt::Write as _;

use crate::hostile::confined::{confined, read, tables};

#[test]
fn query_145_deeply_nested_json_takes_bounded_memory() {
    let test = || {
        for inner in ["[", "{\"a\":"] {
            let mut deep =
                r#"{"traceEvents":[{"ph":"X","ts":1,"dur":1,"name":"a","args":{"x":"#.to_owned();
            deep.push_str(&inner.repeat(200_000));
            // An incomplete event is dropped, and so is one that is too deep.
            let _ = read(deep.as_bytes());
            let close = if inner == "[" { "]" } else { "}" };
            deep.push_str(if inner == "[" { "" } else { "1" });
            deep.push_str(&close.repeat(200_000));
            deep.push_str("}}]}");
            let trace = tables(deep.as_bytes());
            assert_eq!(trace.tables().slice.len(), 0);
        }
    };
    confined(
        "formats::query_145_deeply_nested_json_takes_bounded_memory",
        test,
    );
}

#[test]
fn query_145_large_json_values_take_bounded_memory() {
    let test = || {
        let mut wide = r#"[{"ph":"X","ts":1,"dur":1,"name":"a","args":{"x":["#.to_owned();
        wide.push_str(&"1,".repeat(200_000));
        wide.push_str("1]}}]");
        let trace = tables(wide.as_bytes());
        assert_eq!(trace.tables().slice.len(), 1);
        let mut text = r#"[{"ph":"X","ts":1,"dur":1,"name":""#.to_owned();
        text.push_str(&"x".repeat(64 << 20));
        let _ = read(text.as_bytes());
    };
    confined(
        "formats::query_145_large_json_values_take_bounded_memory",
        test,
    );
}

#[test]
fn query_145_deeply_nested_json_slices_are_cut() {
    let test = || {
        let mut text = "[".to_owned();
        for index in 0..100_000 {
            let _ = write!(
                text,
                r#"{{"ph":"X","ts":{index},"dur":{},"pid":1,"tid":1,"name":"a"}},"#,
                1_000_000 - index
            );
        }
        let trace = tables(text.as_bytes());
        assert_eq!(trace.tables().slice.len(), 512);
    };
    confined("formats::query_145_deeply_nested_json_slices_are_cut", test);
}

#[test]
fn query_145_collapsed_stacks_of_any_depth_are_cut() {
    let test = || {
        let mut line = "a;b 1\n".repeat(1000);
        line.push_str(&"a;".repeat(400_000));
        line.push_str("b 1\n");
        let trace = tables(line.as_bytes());
        assert!(trace.tables().stack_profile_callsite.len() <= 4096);
    };
    confined(
        "formats::query_145_collapsed_stacks_of_any_depth_are_cut",
        test,
    );
}
