//! Output formats of samples.

use ferretto_trace::profile::{
    By, FoldOptions, Selection, Value, folded, hottest, pprof, processes, threads,
};
use ferretto_wire::Fields;

use crate::profile::made::{BOOT, NEEDS_STATE, SEQUENCE, Trace};

fn trace() -> Trace {
    Trace::begun()
        .interned()
        .sample(50, 100, 10)
        .sample(80, 101, 11)
        .sample(100, 101, 12)
        .sample(110, 101, 12)
        .symbols()
}

fn lines(trace: &Trace, selection: Selection, options: FoldOptions) -> Vec<String> {
    let (profile, counts) = trace.select(selection);
    folded(&profile, &counts, &options)
}

#[test]
fn folded_lines_contain_each_callstack_once() {
    let lines = lines(&trace(), Selection::default(), FoldOptions::default());
    let expected = [
        "server;[truncated: memory invalid];outer;inner 2",
        "server;main;server::work 1",
        "server;main;server::work;do_syscall 1",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn folded_lines_can_have_threads_and_annotations() {
    let options = FoldOptions {
        by: By::Thread,
        value: Value::Weight,
        annotate: true,
    };
    let expected = [
        "server [100];server [100];main;server::work 50",
        "server [100];worker:1 [101];[truncated: memory invalid];outer;inner_[i] 30",
        "server [100];worker:1 [101];main;server::work;do_syscall_[k] 30",
    ];
    assert_eq!(lines(&trace(), Selection::default(), options), expected);
}

#[test]
fn samples_are_selected_by_process_thread_and_time() {
    let count = |write: fn(&mut Selection)| {
        let mut selection = Selection::default();
        write(&mut selection);
        let (profile, counts) = trace().select(selection);
        counts
            .iter(&profile)
            .map(|(_, count)| count.samples)
            .sum::<u64>()
    };
    assert_eq!(count(|_| {}), 4);
    assert_eq!(count(|selection| selection.pids = vec![100]), 4);
    assert_eq!(count(|selection| selection.pids = vec![5]), 0);
    assert_eq!(count(|selection| selection.threads = vec!["100".into()]), 1);
    assert_eq!(
        count(|selection| selection.threads = vec!["worker;1".into()]),
        3
    );
    assert_eq!(count(|selection| selection.from = Some(BOOT + 80)), 3);
    assert_eq!(count(|selection| selection.to = Some(BOOT + 80)), 1);
    assert_eq!(count(|selection| selection.off_cpu = Some(true)), 0);
}

#[test]
fn idle_cpus_are_left_out_unless_selected() {
    let idle = |trace: Trace| {
        trace.perf(120, |sample| {
            sample.varint(1, 0);
            sample.varint(2, 0);
            sample.varint(3, 0);
            sample.varint(4, 11);
        })
    };
    let (profile, counts) = idle(trace()).read();
    assert_eq!(counts.idle, 1);
    assert_eq!(
        counts
            .iter(&profile)
            .map(|(_, count)| count.samples)
            .sum::<u64>(),
        4
    );
    let only = Selection {
        pids: vec![0],
        ..Selection::default()
    };
    let (profile, counts) = idle(trace()).select(only);
    assert_eq!(counts.iter(&profile).count(), 1);
}

#[test]
fn functions_have_own_and_total_samples() {
    let (profile, counts) = trace().read();
    let hot = hottest(&profile, &counts, Value::Samples);
    let found: Vec<_> = hot
        .iter()
        .map(|hot| {
            (
                &hot.name[..],
                &hot.module[..],
                hot.own.samples,
                hot.total.samples,
            )
        })
        .collect();
    let expected = [
        ("inner", "libfoo.so", 2, 2),
        ("server::work", "server", 1, 2),
        ("do_syscall", "[kernel]", 1, 1),
        ("main", "server", 0, 2),
        ("outer", "libfoo.so", 0, 2),
    ];
    for line in expected {
        assert!(found.contains(&line), "{line:?} in {found:?}");
    }
    assert_eq!(found.len(), 5);
    assert_eq!(found[0], expected[0]);
    let processes = processes(&profile, &counts, Value::Samples);
    assert_eq!((processes[0].id, processes[0].count.samples), (100, 4));
    assert_eq!(processes[0].name, "/usr/bin/server --port");
    let threads = threads(&profile, &counts, Value::Samples);
    assert_eq!((threads[0].id, threads[0].count.samples), (101, 3));
}

#[test]
fn no_function_has_more_than_all_samples() {
    // One file without symbols three times in one callstack.
    let trace = Trace::begun()
        .interned()
        .packet(|p| {
            p.varint(10, SEQUENCE);
            p.varint(13, NEEDS_STATE);
            p.nested(12, |data| {
                for iid in [50, 51] {
                    data.nested(6, |frame| {
                        frame.varint(1, iid);
                        frame.varint(3, 3);
                        frame.varint(4, iid);
                    });
                }
                data.nested(7, |stack| {
                    stack.varint(1, 20);
                    [50, 51, 50]
                        .iter()
                        .for_each(|frame| stack.varint(2, *frame));
                });
            });
        })
        .sample(50, 100, 20);
    let (profile, counts) = trace.read();
    let hot = hottest(&profile, &counts, Value::Samples);
    assert_eq!(hot.len(), 1, "{hot:?}");
    assert_eq!((hot[0].own.samples, hot[0].total.samples), (1, 1));
}

#[test]
fn addresses_without_a_name_are_counted_by_file() {
    let trace = Trace::begun().interned().sample(50, 100, 12);
    let (profile, counts) = trace.read();
    let hot = hottest(&profile, &counts, Value::Samples);
    assert_eq!(
        (&hot[0].name[..], &hot[0].module[..]),
        ("[no symbol]", "libfoo.so")
    );
}

/// Returns the numbers of a repeated field.
fn numbers(bytes: &[u8], field: u32) -> Vec<u64> {
    let fields = Fields::new(bytes).map(Result::unwrap);
    fields
        .filter(|f| f.number == field)
        .flat_map(|f| f.as_varints())
        .collect()
}

fn messages(bytes: &[u8], field: u32) -> Vec<&[u8]> {
    let fields = Fields::new(bytes).map(Result::unwrap);
    fields
        .filter(|f| f.number == field)
        .filter_map(|f| f.as_bytes())
        .collect()
}

fn number(bytes: &[u8], field: u32) -> u64 {
    numbers(bytes, field).first().copied().unwrap_or(0)
}

#[test]
fn pprof_locations_start_with_the_innermost_and_have_inlined_lines() {
    let (profile, counts) = trace().read();
    let bytes = pprof(&profile, &counts, None);
    let strings: Vec<String> = messages(&bytes, 6)
        .into_iter()
        .map(|text| String::from_utf8(text.to_vec()).unwrap())
        .collect();
    let text = |number: u64| strings[number as usize].as_str();
    assert_eq!(strings[0], "");
    let types: Vec<_> = messages(&bytes, 1)
        .into_iter()
        .map(|kind| (text(number(kind, 1)), text(number(kind, 2))))
        .collect();
    assert_eq!(types, [("samples", "count"), ("cpu-clock", "nanoseconds")]);
    assert_eq!(number(&bytes, 12), 10_000_000, "the period of 100 Hz");
    assert_eq!(
        number(&bytes, 9),
        149,
        "wall clock time of the first sample"
    );
    assert_eq!(number(&bytes, 10), 60, "until the last sample");
    let by_id = |field: u32, id: u64| {
        let all = messages(&bytes, field);
        *all.iter()
            .find(|message| number(message, 1) == id)
            .expect("the id exists")
    };
    let name = |line: &[u8]| text(number(by_id(5, number(line, 1)), 2)).to_owned();
    let stacks: Vec<(Vec<String>, Vec<u64>)> = messages(&bytes, 2)
        .into_iter()
        .map(|sample| {
            let locations = numbers(sample, 1).into_iter();
            let lines = locations.flat_map(|id| messages(by_id(4, id), 4));
            (lines.map(name).collect(), numbers(sample, 2))
        })
        .collect();
    let stack = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    assert!(
        stacks.contains(&(stack(&["server::work", "main"]), vec![1, 50])),
        "{stacks:?}"
    );
    let inlined = stack(&["inner", "outer", "[truncated: memory invalid]"]);
    assert!(stacks.contains(&(inlined, vec![2, 30])), "{stacks:?}");

    let sample = messages(&bytes, 2)[0];
    let labels: Vec<_> = messages(sample, 3)
        .into_iter()
        .map(|label| {
            (
                text(number(label, 1)),
                text(number(label, 2)),
                number(label, 3),
            )
        })
        .collect();
    assert!(labels.contains(&("pid", "", 100)), "{labels:?}");
    assert!(
        labels.contains(&("process", "/usr/bin/server --port", 0)),
        "{labels:?}"
    );
    let raw = messages(&bytes, 5)
        .into_iter()
        .map(|function| text(number(function, 3)));
    assert!(
        raw.into_iter()
            .any(|raw| raw == "_ZN6server4work17h0123456789abcdefE")
    );
    let build_ids: Vec<_> = messages(&bytes, 3)
        .into_iter()
        .map(|mapping| (text(number(mapping, 5)), text(number(mapping, 6))))
        .collect();
    assert!(
        build_ids.contains(&("/usr/bin/server", "0102ff")),
        "{build_ids:?}"
    );
}

#[test]
fn pprof_can_be_limited_to_one_process() {
    let (profile, counts) = trace().read();
    let all = pprof(&profile, &counts, Some((0, 100)));
    assert_eq!(messages(&all, 2).len(), 3);
    let none = pprof(&profile, &counts, Some((0, 5)));
    assert_eq!(messages(&none, 2).len(), 0);
}

/// The kernel's limit for names was 128 bytes, and is 512 for names of Rust functions.
#[test]
fn long_rust_names_of_the_kernel_are_demangled() {
    let module = "a".repeat(150);
    let mangled = format!("_RNvNtNtC6kernel150{module}4sync4lock");
    let trace = Trace::begun().interned().packet(|p| {
        p.varint(10, SEQUENCE);
        p.varint(13, NEEDS_STATE);
        p.nested(12, |data| {
            data.nested(5, |name| {
                name.varint(1, 90);
                name.bytes(2, mangled.as_bytes());
            });
            data.nested(6, |frame| {
                frame.varint(1, 91);
                frame.varint(2, 90);
                frame.varint(3, 4);
            });
            data.nested(7, |stack| {
                stack.varint(1, 92);
                stack.varint(2, 30);
                stack.varint(2, 91);
            });
        });
    });
    let (profile, counts) = trace.sample(50, 100, 92).read();
    let lines = folded(&profile, &counts, &FoldOptions::default());
    let expected = format!("kernel::{module}::sync::lock");
    assert!(lines[0].contains(&expected), "{lines:?}");
}

/// Adds a symbol with the start address of a function without a name.
fn starts(trace: Trace, name: &str) -> Trace {
    trace.packet(|p| {
        p.nested(61, |module| {
            module.string(1, "/usr/libfoo.so");
            module.nested(3, |address| {
                address.varint(1, 0x1234);
                address.nested(2, |at| at.string(1, name));
            });
        });
    })
}

#[test]
fn functions_without_a_name_are_identified_by_their_start_address() {
    let begun = || Trace::begun().interned().sample(100, 101, 12);
    let fold = |trace: &Trace| lines(trace, Selection::default(), FoldOptions::default());
    let truncated = "server;[truncated: memory invalid]";
    let trace = starts(begun(), "libfoo.so+0x1200");
    assert_eq!(fold(&trace), [format!("{truncated};libfoo.so+0x1200 1")]);
    let (profile, counts) = trace.read();
    assert_eq!(
        hottest(&profile, &counts, Value::Samples)[0].name,
        "libfoo.so+0x1200"
    );
    // The start address is not a name: the address is still reported for symbolization, and a later
    // name replaces it.
    assert_eq!(profile.modules()[0].rel_pcs, [0x1234]);
    assert_eq!(
        fold(&trace.symbols()),
        [format!("{truncated};outer;inner 1")]
    );
    let named = starts(begun().symbols(), "libfoo.so+0x1200");
    assert_eq!(fold(&named), [format!("{truncated};outer;inner 1")]);
    assert!(
        named
            .read()
            .0
            .modules()
            .iter()
            .all(|module| &*module.path != "/usr/libfoo.so")
    );
}
