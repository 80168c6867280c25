//! Heap dumps.

use ferretto_trace::profile::{
    CallTree, Count, DumpChoice, FoldOptions, HeapCount, HeapView, Selection, TreeOptions, Value,
    folded, read_profile,
};
use ferretto_trace::summarize;
use ferretto_trace::summary::HeapSummary;

use crate::profile::made::{BOOT, NEEDS_STATE, Packet, SEQUENCE, Trace};

/// A row of a dump: callstack, allocated and freed bytes, allocations and frees.
type Row = (u64, u64, u64, u64, u64);

const SECOND: u64 = 1_000_000_000;

impl Trace {
    /// Adds a packet of the profiler, `seconds` after the start.
    fn heap_packet(
        self,
        seconds: u64,
        sequence: u64,
        is_continued: bool,
        write: impl FnOnce(&mut Packet<'_>),
    ) -> Self {
        self.packet(|p| {
            p.varint(8, BOOT + seconds * SECOND);
            p.varint(58, 6);
            p.varint(10, sequence);
            p.varint(13, NEEDS_STATE);
            p.nested(37, |profile| {
                write(profile);
                if is_continued {
                    profile.varint(6, 1);
                }
            });
        })
    }

    /// Adds a part of a dump of process 100.
    fn part(self, seconds: u64, heap: &str, rows: &[Row], is_continued: bool) -> Self {
        self.heap_packet(seconds, SEQUENCE, is_continued, |p| {
            dump(p, 100, heap, rows);
        })
    }

    /// Adds a dump as upstream's profiler writes it: with an empty packet at the end.
    fn dumped(self, seconds: u64, heap: &str, rows: &[Row]) -> Self {
        let dumped = self.part(seconds, heap, rows, true);
        dumped.heap_packet(seconds, SEQUENCE, false, |_| {})
    }
}

fn dump(p: &mut Packet<'_>, pid: u64, heap: &str, rows: &[Row]) {
    p.nested(5, |dump| {
        dump.varint(1, pid);
        dump.string(11, heap);
        dump.varint(12, 4096);
        for &(stack, allocated, freed, allocations, frees) in rows {
            dump.nested(2, |row| {
                let fields = [
                    (1, stack),
                    (2, allocated),
                    (3, freed),
                    (5, allocations),
                    (6, frees),
                ];
                fields
                    .iter()
                    .for_each(|&(field, value)| row.varint(field, value));
            });
        }
    });
}

fn lines(trace: &Trace, view: HeapView, choice: DumpChoice) -> Vec<String> {
    let (profile, _) = trace.read();
    let counts = profile.heap_counts(&Selection::default(), view, choice);
    let options = FoldOptions {
        value: Value::Weight,
        ..FoldOptions::default()
    };
    folded(&profile, &counts, &options)
}

fn heaps(trace: &Trace) -> Vec<HeapSummary> {
    summarize(&trace.0[..]).expect("it is a trace").heaps
}

#[test]
fn views_of_a_dump_are_live_and_all_allocations() {
    let rows = [(10, 4000, 1000, 4, 1), (11, 500, 500, 5, 5)];
    let trace = Trace::begun().interned().dumped(1, "libc.malloc", &rows);
    let last = DumpChoice::Last;
    assert_eq!(
        lines(&trace, HeapView::Leaked, last),
        ["server;main;server::work 3000"]
    );
    assert_eq!(
        lines(&trace, HeapView::Allocated, last),
        [
            "server;main;server::work 4000",
            "server;main;server::work;do_syscall 500"
        ]
    );
    let (profile, _) = trace.read();
    let total = profile.heap_dumps()[0].total();
    let count = |samples, weight| Count { samples, weight };
    assert_eq!(
        (total.allocated, total.freed),
        (count(9, 4500), count(6, 1500))
    );
}

#[test]
fn dumps_of_one_heap_are_separate() {
    // All packets of a dump except the last, empty one are marked as continued.
    let trace = Trace::begun()
        .interned()
        .part(1, "libc.malloc", &[(10, 100, 0, 1, 0)], true)
        .part(1, "libc.malloc", &[(11, 200, 0, 1, 0)], true)
        .heap_packet(1, SEQUENCE, false, |_| {})
        .dumped(
            2,
            "libc.malloc",
            &[(10, 300, 0, 3, 0), (11, 200, 150, 1, 1)],
        );
    let (profile, _) = trace.read();
    let sums: Vec<u64> = profile
        .heap_dumps()
        .iter()
        .map(|dump| dump.total().leaked().weight)
        .collect();
    assert_eq!(sums, [300, 350]);
    let of = |number| lines(&trace, HeapView::Leaked, DumpChoice::Number(number));
    assert_eq!(
        of(1),
        [
            "server;main;server::work 100",
            "server;main;server::work;do_syscall 200"
        ]
    );
    assert_eq!(of(2), of(9), "the last dump");
    let heaps = heaps(&trace);
    assert_eq!((heaps.len(), &heaps[0].live[..]), (1, &[300, 350][..]));
    let grown: Vec<i64> = heaps[0].sites.iter().map(|site| site.growth).collect();
    assert_eq!(grown, [200, -150]);
}

#[test]
fn packets_of_several_profilers_are_separated() {
    // Upstream has one profiler per process, so the parts of their dumps are interleaved.
    let other = SEQUENCE + 1;
    let rows = |bytes| [(10, bytes, 0, 1, 0)];
    let trace = Trace::begun()
        .interned()
        .part(1, "libc.malloc", &rows(100), true)
        .packet(|p| {
            p.varint(10, other);
            p.varint(13, 1);
        })
        .heap_packet(1, other, true, |p| dump(p, 200, "libc.malloc", &[]))
        .part(1, "libc.malloc", &[(11, 50, 0, 1, 0)], true)
        .heap_packet(1, other, false, |_| {})
        .heap_packet(1, SEQUENCE, false, |_| {});
    let (profile, _) = trace.read();
    let dumps: Vec<(i32, usize)> = profile
        .heap_dumps()
        .iter()
        .map(|dump| (dump.pid, dump.rows().len()))
        .collect();
    assert_eq!(dumps, [(100, 2), (200, 0)]);
}

#[test]
fn callstacks_that_upstream_omits_remain_counted() {
    // Upstream removes callstacks without live memory, and restarts their counts at 0 when they
    // reappear.
    let trace = Trace::begun()
        .interned()
        .dumped(1, "libc.malloc", &[(10, 100, 0, 1, 0), (11, 70, 70, 7, 7)])
        .dumped(2, "libc.malloc", &[(10, 100, 0, 1, 0)])
        .dumped(3, "libc.malloc", &[(10, 100, 0, 1, 0), (11, 20, 10, 2, 1)])
        .dumped(4, "libc.malloc", &[(10, 100, 0, 1, 0), (11, 30, 10, 3, 1)]);
    let (profile, _) = trace.read();
    let sums: Vec<(u64, u64)> = profile
        .heap_dumps()
        .iter()
        .map(|dump| (dump.total().allocated.weight, dump.total().leaked().weight))
        .collect();
    assert_eq!(sums, [(170, 100), (170, 100), (190, 110), (200, 120)]);
}

#[test]
fn heaps_of_one_process_are_separated() {
    let trace = Trace::begun()
        .interned()
        .dumped(1, "libc.malloc", &[(10, 100, 0, 1, 0)])
        .dumped(1, "arena", &[(10, 30, 0, 3, 0), (11, 5, 0, 1, 0)])
        .dumped(2, "libc.malloc", &[(10, 150, 0, 2, 0)])
        .dumped(2, "arena", &[(10, 30, 0, 3, 0), (11, 9, 0, 2, 0)]);
    assert_eq!(
        lines(&trace, HeapView::Leaked, DumpChoice::Last),
        [
            "server;arena;main;server::work 30",
            "server;arena;main;server::work;do_syscall 9",
            "server;libc.malloc;main;server::work 150",
        ]
    );
    let (profile, _) = trace.read();
    let selection = Selection::default();
    let counts = profile.heap_counts(&selection, HeapView::Leaked, DumpChoice::Last);
    let options = TreeOptions {
        value: Value::Weight,
        ..TreeOptions::default()
    };
    let tree = CallTree::new(&profile, &counts, &options);
    let server = tree.node(CallTree::ROOT).children[0];
    assert_eq!(tree.node(server).children.len(), 2, "one node per heap");
    let heaps = heaps(&trace);
    let reported: Vec<_> = heaps
        .iter()
        .map(|heap| {
            let sites = heap.sites.iter();
            let sites = sites.map(|site| (site.function.own.weight, site.growth));
            (
                &*heap.heap,
                heap.total.leaked().weight,
                sites.collect::<Vec<(u64, i64)>>(),
            )
        })
        .collect();
    assert_eq!(
        reported,
        [
            ("libc.malloc", 150, vec![(150, 50)]),
            ("arena", 39, vec![(30, 0), (9, 4)]),
        ]
    );
}

#[test]
fn problems_are_reported_once_per_process() {
    let mut trace = Trace::begun().interned();
    for heap in ["libc.malloc", "arena"] {
        trace = trace.heap_packet(1, SEQUENCE, false, |p| {
            p.nested(5, |dump| {
                dump.varint(1, 100);
                dump.string(11, heap);
                dump.varint(7, 1);
            });
        });
    }
    let trace = trace.heap_packet(2, SEQUENCE, false, |p| {
        p.nested(5, |dump| {
            dump.varint(1, 101);
            dump.varint(4, 1);
        });
    });
    let notes = summarize(&trace.0[..]).expect("it is a trace").notes;
    let about = |text: &str| notes.iter().filter(|note| note.contains(text)).count();
    assert_eq!(
        about("heap of process 100: some samples were lost"),
        1,
        "{notes:?}"
    );
    assert_eq!(
        about("heap of process 101: not recorded, because another"),
        1,
        "{notes:?}"
    );
}

/// A recording by upstream's client and profiler. The expected sums are from upstream's trace
/// processor (v58.2): allocated bytes and samples, freed bytes and samples.
///
/// ```sql
/// select heap_name, sum(iif(size > 0, size, 0)), sum(iif(size > 0, count, 0)),
///   -sum(iif(size < 0, size, 0)), -sum(iif(size < 0, count, 0))
/// from heap_profile_allocation group by 1
/// ```
#[test]
fn sums_of_upstreams_recordings_match_its_trace_processor() {
    let trace = &include_bytes!("heap/upstream.trace")[..];
    let (profile, _) = read_profile(trace, Selection::default()).expect("it is a trace");
    assert!(profile.heap_dumps().len() > 1);
    let last = profile.chosen(&Selection::default(), DumpChoice::Last);
    let [dump] = &last[..] else {
        panic!("expected one heap: {last:?}");
    };
    let HeapCount {
        allocated, freed, ..
    } = dump.total();
    assert_eq!(dump.heap, "libc.malloc");
    assert_eq!((allocated.weight, allocated.samples), (38_033, 105));
    assert_eq!((freed.weight, freed.samples), (256, 4));
}

#[test]
fn allocators_and_standard_libraries_allocate_for_their_callers() {
    let functions = [
        (40, "std::vector<int, std::allocator<int> >::push_back"),
        (41, "operator new(unsigned long)"),
    ];
    let trace = Trace::begun()
        .interned()
        .packet(|p| {
            p.varint(10, SEQUENCE);
            p.varint(13, NEEDS_STATE);
            p.nested(12, |data| {
                for (iid, name) in functions {
                    data.nested(5, |entry| {
                        entry.varint(1, iid);
                        entry.bytes(2, name.as_bytes());
                    });
                    data.nested(6, |frame| {
                        frame.varint(1, iid);
                        frame.varint(2, iid);
                        frame.varint(3, 3);
                        frame.varint(4, iid);
                    });
                }
                for (iid, frames) in [(13, &[30, 31, 40, 41][..]), (14, &[41])] {
                    data.nested(7, |stack| {
                        stack.varint(1, iid);
                        frames.iter().for_each(|frame| stack.varint(2, *frame));
                    });
                }
            });
        })
        .dumped(
            1,
            "libc.malloc",
            &[(10, 100, 0, 1, 0), (13, 900, 0, 9, 0), (14, 70, 0, 1, 0)],
        );
    let heaps = heaps(&trace);
    let sites: Vec<(&str, u64)> = heaps[0]
        .sites
        .iter()
        .map(|site| (&*site.function.name, site.function.own.weight))
        .collect();
    // If there is no other function in the callstack, the allocation counts for the allocator.
    assert_eq!(
        sites,
        [("server::work", 1000), ("operator new(unsigned long)", 70)]
    );
    let all = lines(&trace, HeapView::Leaked, DumpChoice::Last);
    assert!(
        all.iter()
            .any(|line| line.contains("push_back;operator new")),
        "{all:?}"
    );
}
