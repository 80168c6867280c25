//! Decoding of samples.

use ferretto_format::CpuMode;
use ferretto_trace::profile::{Interval, Problem, SkipReason};

use crate::profile::made::{BOOT, CLEARED, NEEDS_STATE, SEQUENCE, Trace, names};

#[test]
fn samples_have_time_thread_weight_and_callstack() {
    let trace = Trace::begun()
        .interned()
        .sample(50, 100, 10)
        .sample(80, 101, 11);
    let (samples, profile) = trace.samples();
    let [first, second] = &samples[..] else {
        panic!("{samples:?}")
    };
    assert_eq!(first.time, BOOT + 50);
    assert_eq!(
        (first.cpu, first.pid, first.tid),
        (Some(1), Some(100), Some(100))
    );
    assert_eq!(first.mode, CpuMode::User);
    assert_eq!(
        (first.weight, second.weight),
        (Some(50), Some(30)),
        "counters only grow"
    );
    assert_eq!(names(&profile, first), ["main", "server::work"]);
    assert_eq!(
        names(&profile, second),
        ["main", "server::work", "do_syscall"]
    );
    let session = profile.session(first.session).unwrap();
    assert_eq!(session.event.name, "cpu-clock");
    assert_eq!(session.event.unit, "ns");
    assert_eq!(session.interval, Interval::Frequency(100));
    assert_eq!(session.samples, 2);
    assert!(profile.problems().is_empty(), "{:?}", profile.problems());
}

#[test]
fn mappings_have_path_build_id_and_offset() {
    let trace = Trace::begun()
        .interned()
        .sample(50, 100, 10)
        .sample(60, 100, 11);
    let (samples, profile) = trace.samples();
    let frames = profile.stack(samples[1].stack.unwrap());
    let mapping = |n: usize| {
        let frame = profile.frame(frames[n]).unwrap();
        profile.mapping(frame.mapping.unwrap()).unwrap()
    };
    assert_eq!(&*mapping(0).path, "/usr/bin/server");
    assert_eq!(&*mapping(0).build_id, b"\x01\x02\xff");
    assert_eq!((mapping(0).start, mapping(0).end), (0x40_0000, 0x41_0000));
    assert_eq!(
        (mapping(0).exact_offset, mapping(0).load_bias),
        (0x1000, 0x2000)
    );
    assert!(mapping(2).is_kernel());
    let modules = profile.modules();
    assert_eq!(modules.len(), 1, "the kernel needs no symbols: {modules:?}");
    assert_eq!(&*modules[0].path, "/usr/bin/server");
    assert_eq!(modules[0].load_bias, 0x2000);
    assert_eq!(modules[0].rel_pcs, [0x100, 0x200]);
}

#[test]
fn symbols_at_the_end_name_frames_and_inlined_functions() {
    let trace = Trace::begun().interned().sample(50, 100, 12);
    let (samples, profile) = trace.samples();
    let unnamed = ["[truncated: memory invalid]", "libfoo.so+0x1234"];
    assert_eq!(names(&profile, &samples[0]), unnamed);
    assert_eq!(samples[0].truncated.unwrap().name(), "MEMORY_INVALID");
    assert_eq!(profile.modules()[0].rel_pcs, [0x1234]);

    let (samples, profile) = trace.symbols().samples();
    let named = ["[truncated: memory invalid]", "outer", "inner"];
    assert_eq!(names(&profile, &samples[0]), named);
    let lines: Vec<_> = profile.functions(samples[0].stack.unwrap()).collect();
    assert_eq!((lines[1].line, lines[1].is_inlined), (70, false));
    assert_eq!((lines[2].line, lines[2].is_inlined), (7, true));
    assert!(profile.modules().is_empty());
    assert!(profile.problems().is_empty(), "{:?}", profile.problems());
}

#[test]
fn symbols_of_a_file_without_frames_are_a_problem() {
    let trace = Trace::begun().interned().sample(50, 100, 10).symbols();
    let (_, profile) = trace.samples();
    assert_eq!(profile.problems().count(Problem::SymbolsWithoutMapping), 1);
}

#[test]
fn skipped_and_lost_samples_are_counted_by_reason() {
    let skipped = |trace: Trace, reason| {
        trace.perf(60, |sample| {
            sample.varint(1, 0);
            sample.varint(2, 100);
            sample.varint(18, reason);
        })
    };
    let mut trace = Trace::begun().interned();
    for reason in [1, 2, 3, 3, 4, 77] {
        trace = skipped(trace, reason);
    }
    let trace = trace
        .perf(70, |lost| {
            lost.varint(1, 1);
            lost.varint(17, 12);
        })
        .perf(70, |event| event.nested(19, |event| event.varint(1, 1)))
        .perf(80, |counted| {
            counted.varint(1, 0);
            counted.varint(2, 100);
        });
    let (samples, profile) = trace.samples();
    assert_eq!(samples.len(), 7);
    let (_, session) = profile.sessions().next().unwrap();
    let count = |reason| session.skipped.get(&reason).copied();
    assert_eq!(count(SkipReason::ReadStage), Some(1));
    assert_eq!(count(SkipReason::UnwindStage), Some(1));
    assert_eq!(count(SkipReason::UnwindEnqueue), Some(2));
    assert_eq!(count(SkipReason::NotInScope), Some(1));
    assert_eq!(count(SkipReason::Unknown), Some(1));
    assert_eq!(session.kernel_lost, 12);
    assert!(session.is_stopped_by_guardrail);
    assert_eq!((session.samples, session.without_stack), (0, 1));
}

#[test]
fn iids_are_invalid_after_the_state_is_cleared() {
    let again = |p: &mut crate::profile::made::Packet<'_>| {
        p.varint(10, SEQUENCE);
        p.varint(13, CLEARED);
        p.nested(59, |defaults| defaults.varint(58, 6));
    };
    let trace = Trace::begun().interned().sample(50, 100, 10).packet(again);
    let (samples, profile) = trace.sample(60, 100, 10).samples();
    assert_eq!(samples.len(), 2);
    assert_eq!(samples[1].stack, None);
    assert_eq!(profile.problems().count(Problem::UnknownCallstack), 1);
}

#[test]
fn samples_after_a_loss_are_skipped_until_the_state_is_cleared() {
    let lost = |p: &mut crate::profile::made::Packet<'_>| {
        p.varint(10, SEQUENCE);
        p.varint(42, 64);
    };
    let trace = Trace::begun().interned().sample(50, 100, 10).packet(lost);
    let (samples, profile) = trace.sample(60, 100, 10).samples();
    assert_eq!(samples.len(), 1);
    assert_eq!(profile.problems().count(Problem::StateInvalid), 1);
}

/// Creates a trace with samples in the common format.
fn common(sample: impl FnOnce(&mut crate::profile::made::Packet<'_>)) -> Trace {
    Trace::default()
        .clocks()
        .packet(|p| {
            p.varint(10, SEQUENCE);
            p.varint(13, CLEARED);
            p.nested(59, |defaults| {
                defaults.varint(58, 6);
                defaults.nested(100, |stack| {
                    stack.string(1, "linux.off_cpu");
                    stack.nested(2, |counter| {
                        counter.string(2, "off-cpu");
                        counter.varint(3, 1);
                        counter.varint(7, 1);
                    });
                });
            });
            p.nested(12, |data| {
                data.nested(48, |task| {
                    task.varint(1, 9);
                    task.varint(2, 100);
                    task.varint(3, 101);
                });
                data.nested(49, |execution| {
                    execution.varint(1, 9);
                    execution.varint(2, 3);
                    execution.varint(3, 2);
                });
                data.nested(50, |counter| {
                    counter.varint(1, 9);
                    counter.string(2, "faults");
                    counter.varint(3, 9);
                    counter.varint(7, 2);
                });
            });
        })
        .packet(|p| {
            p.varint(8, BOOT + 4);
            p.varint(10, SEQUENCE);
            p.varint(13, NEEDS_STATE);
            p.nested(135, sample);
        })
}

#[test]
fn perf_048_the_common_format_is_read() {
    let trace = common(|sample| {
        sample.varint(2, 9);
        sample.varint(4, 9);
        sample.varint(11, 1234);
        sample.nested(5, |stack| {
            for name in ["main", "wait"] {
                stack.nested(1, |frame| {
                    frame.string(1, name);
                    frame.string(2, "a.py");
                    frame.varint(3, 5);
                });
            }
        });
    });
    let (samples, profile) = trace.samples();
    let [sample] = &samples[..] else {
        panic!("{samples:?}")
    };
    assert_eq!(sample.time, BOOT + 4);
    assert_eq!(
        (sample.pid, sample.tid, sample.cpu),
        (Some(100), Some(101), Some(3))
    );
    assert_eq!(
        sample.mode,
        CpuMode::Kernel,
        "the numbers differ from those of perf samples"
    );
    assert_eq!(sample.weight, Some(1234));
    assert_eq!(names(&profile, sample), ["main", "wait"]);
    let session = profile.session(sample.session).unwrap();
    assert_eq!(
        (&session.source[..], &session.event.name[..]),
        ("linux.off_cpu", "off-cpu")
    );
    assert!(session.is_off_cpu());
    assert!(profile.problems().is_empty(), "{:?}", profile.problems());
}

#[test]
fn perf_048_a_weight_needs_a_counter_and_for_some_a_cpu() {
    let weight = |write: fn(&mut crate::profile::made::Packet<'_>)| {
        let (samples, profile) = common(|sample| {
            sample.varint(11, 5);
            write(sample);
        })
        .samples();
        (
            samples[0].weight,
            profile.problems().count(Problem::UnknownContext),
        )
    };
    assert_eq!(weight(|_| {}), (Some(5), 0), "the defaults apply");
    assert_eq!(
        weight(|sample| sample.varint(10, 9)),
        (None, 0),
        "the CPU is missing"
    );
    assert_eq!(
        weight(|sample| {
            sample.varint(4, 9);
            sample.varint(10, 9);
        }),
        (Some(5), 0)
    );
    assert_eq!(
        weight(|sample| sample.varint(10, 8)),
        (None, 1),
        "the counter is not defined"
    );
    let inline = |sample: &mut crate::profile::made::Packet<'_>| {
        sample.nested(9, |counter| counter.string(2, "inline"));
    };
    assert_eq!(weight(inline), (Some(5), 0), "global by default");
}
