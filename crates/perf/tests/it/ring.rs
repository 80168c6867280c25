//! Tests of reading rings, including those of misbehaving kernels.

use crate::common::ring::{LOST, SAMPLE, Simulated, halves, id, record, words};
use ferretto_perf::record::{Counts, CpuMode, Format, Record};
use ferretto_perf::ring::{Drained, RecordReader};
use proptest::prelude::*;

const ALL: u64 = u64::MAX;

/// Returns a format of samples with a count and optionally a stack copy.
fn format(registers: u64) -> Format {
    Format {
        cpu: 3,
        counters: 1,
        counts: Counts::Read {
            group: false,
            lost: false,
            of_task: false,
        },
        registers,
        sample_id: true,
        ..Format::default()
    }
}

fn reader(size: usize, start: u64, registers: u64) -> RecordReader<Simulated> {
    RecordReader::new(Simulated::new(size, start), format(registers))
}

/// Returns a sample of process 1 and thread 2 with two registers and that stack, all of it valid.
fn sample(time: u64, stack: &[u8]) -> Vec<u8> {
    assert!(stack.len().is_multiple_of(8) && !stack.is_empty());
    let size = stack.len() as u64;
    let body = [
        halves(&[1, 2]),
        words(&[time, time * 10]),
        words(&[2, 11, 12]),
        words(&[size]),
        stack.to_vec(),
        words(&[size]),
    ];
    record(SAMPLE, 2, &body.concat())
}

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|at| (seed.wrapping_mul(31) ^ at.wrapping_mul(at | 7)) as u8)
        .collect()
}

/// Returns the records that were read, as text.
fn all(reader: &mut RecordReader<Simulated>) -> Vec<String> {
    let mut found = Vec::new();
    reader.read(ALL, &mut |record| found.push(format!("{record:?}")));
    found
}

/// Writes samples into a ring, reads some in between, and checks that each is read or reported as
/// lost.
fn written_is_read_or_lost(
    size: usize,
    start: u64,
    steps: &[(usize, Option<u8>)],
) -> Result<(), TestCaseError> {
    let mut reader = reader(size, start, 3);
    let (mut read, mut lost) = (Vec::new(), 0);
    let mut expected = Vec::new();
    let mut take = |reader: &mut RecordReader<Simulated>, limit| {
        reader.read(limit, &mut |record| match record {
            Record::Sample(sample) => read.push((sample.time, sample.stack.to_vec())),
            Record::Lost { count } => lost += count,
            other => panic!("{other:?}"),
        })
    };
    for (time, &(stack, limit)) in (1..).zip(steps) {
        let dropped = reader.memory().dropped;
        let stack = bytes(time, 8 * (stack + 1));
        reader.memory_mut().write(&sample(time, &stack));
        if reader.memory().dropped <= dropped {
            expected.push((time, stack));
        }
        if let Some(limit) = limit {
            take(&mut reader, limit.into());
        }
    }
    take(&mut reader, ALL);
    let unreported = reader.memory().dropped;
    prop_assert_eq!(&read, &expected);
    prop_assert_eq!(lost + unreported, (steps.len() - expected.len()) as u64);
    prop_assert_eq!(reader.lost(), lost);
    prop_assert_eq!(reader.malformed(), 0);
    prop_assert_eq!(reader.memory().tail, reader.memory().head);
    Ok(())
}

fn starts() -> impl Strategy<Value = u64> {
    let far = [0, (1 << 32) - 64, 1 << 33, u64::MAX - 4095, u64::MAX - 63];
    (proptest::sample::select(far.to_vec()), 0..8_u64)
        .prop_map(|(far, words)| (far & !7) + 8 * words.min(7))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn perf_022_what_is_written_is_read_to_the_bit_or_lost(
        size in 10..15_u32,
        start in starts(),
        steps in proptest::collection::vec((0..60_usize, proptest::option::of(0..5_u8)), 1..200),
    ) {
        written_is_read_or_lost(1 << size, start, &steps)?;
    }

    #[test]
    fn perf_024_no_contents_make_it_panic_loop_or_stay(
        start in any::<u64>(),
        contents in proptest::collection::vec(any::<u8>(), 512),
        length in 0..=1024_u64,
        format in (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), 0..4_u64),
    ) {
        let (group, lost, of_task, callchain, sample_id, registers) = format;
        let format = Format {
            cpu: 0,
            counters: 2,
            counts: Counts::Read { group, lost, of_task },
            callchain,
            registers,
            sample_id,
        };
        let mut memory = Simulated::new(512, start);
        memory.data = contents;
        // Records that are probably valid.
        for at in (0..512).step_by(64) {
            memory.data[at + 1..at + 4].fill(0);
            memory.data[at] %= 18;
            memory.data[at + 7] = 0;
        }
        memory.head = start.wrapping_add(length);
        let mut reader = RecordReader::new(memory, format);
        let mut records = 0;
        let drained = reader.read(ALL, &mut |_| records += 1);
        prop_assert!(drained.empty);
        prop_assert_eq!(reader.memory().tail, reader.memory().head);
        prop_assert!(records <= 512 / 8 + 1);
    }
}

#[test]
fn perf_022_a_record_torn_by_the_end_is_put_together() {
    for start in [0, (1_u64 << 32) - 8, u64::MAX - 7] {
        for before in 0..16 {
            let mut reader = reader(1024, start.wrapping_add(8 * before), 3);
            for round in 1..20 {
                let stack = bytes(round, 600);
                reader.memory_mut().write(&sample(round, &stack));
                let mut samples = 0;
                reader.read(ALL, &mut |record| match record {
                    Record::Sample(sample) => {
                        assert_eq!((sample.time, sample.stack), (round, &stack[..]));
                        assert_eq!((sample.pid, sample.tid, sample.cpu), (1, 2, 3));
                        assert_eq!(
                            (sample.counts, sample.cpu_mode),
                            (&[round * 10][..], CpuMode::User)
                        );
                        assert!(sample.stack_maxed);
                        samples += 1;
                    }
                    other => panic!("{other:?}"),
                });
                assert_eq!(samples, 1);
            }
        }
    }
}

#[test]
fn perf_023_lost_throttled_and_unknown_records_are_told_and_passed() {
    let mut reader = reader(1 << 16, 0, 3);
    let memory = reader.memory_mut();
    memory.write(&record(LOST, 0, &[words(&[7, 41]), id(5)].concat()));
    memory.write(&record(5, 0, &[words(&[50, 7, 7]), id(50)].concat()));
    memory.write(&record(6, 0, &[words(&[60, 7, 7]), id(60)].concat()));
    memory.write(&record(99, 0, &words(&[1, 2, 3])));
    memory.write(&record(13, 0, &[words(&[2]), id(5)].concat()));
    memory.write(&sample(70, &[1; 8]));
    let found = all(&mut reader);
    let expected = [
        "Lost { count: 41 }",
        "Throttle { time: 50 }",
        "Unthrottle { time: 60 }",
        "Other { kind: 99 }",
        "Lost { count: 2 }",
        "Sample(",
    ];
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}");
    }
    assert_eq!(reader.lost(), 43);
}

#[test]
fn tasks_mappings_and_switches_are_read() {
    let mut reader = reader(1 << 16, 0, 0);
    let memory = reader.memory_mut();
    let task = [halves(&[10, 9, 11, 8]), words(&[100]), id(100)].concat();
    memory.write(&record(7, 0, &task));
    memory.write(&record(4, 0, &task));
    let name = [halves(&[10, 11]), b"cargo\0\0\0".to_vec(), id(200)].concat();
    memory.write(&record(3, 1 << 13, &name));
    let mapping = [
        halves(&[10, 11]),
        words(&[0x1000, 0x2000, 0x3000]),
        halves(&[8, 1]),
        words(&[99, 5, 0]),
        b"/lib/libc.so\0\0\0\0".to_vec(),
        id(300),
    ];
    memory.write(&record(10, 2, &mapping.concat()));
    memory.write(&record(14, 3 << 13, &id(400)));
    memory.write(&record(15, 0, &[halves(&[5, 6]), id(500)].concat()));
    let found = all(&mut reader).join("\n");
    let expected = format!(
        "Fork(TaskRecord {{ time: 100, pid: 10, tid: 11, parent_pid: 9, parent_tid: 8 }})\n\
         Exit(TaskRecord {{ time: 100, pid: 10, tid: 11, parent_pid: 9, parent_tid: 8 }})\n\
         Comm {{ time: 200, pid: 10, tid: 11, exec: true, name: {:?} }}\n\
         Mmap2 {{ time: 300, pid: 10, tid: 11, start: 4096, length: 8192, offset: 12288, device: (8, 1), inode: 99, path: {:?} }}\n\
         Switch(SwitchRecord {{ time: 400, pid: 1, tid: 2, out: true, preempted: true, other: None }})\n\
         Switch(SwitchRecord {{ time: 500, pid: 1, tid: 2, out: false, preempted: false, other: Some((5, 6)) }})",
        b"cargo", b"/lib/libc.so"
    );
    assert_eq!(found, expected);
}

#[test]
fn perf_024_padding_is_accepted_and_too_short_records_are_not() {
    let whole = sample(9, &[5; 64]);
    let mut padded = whole[8..].to_vec();
    padded.extend_from_slice(&[0; 8]);
    let mut ring = reader(1 << 16, 0, 3);
    ring.memory_mut().write(&record(SAMPLE, 2, &padded));
    assert!(all(&mut ring)[0].starts_with("Sample"));
    for length in (0..whole.len() - 8).step_by(8) {
        let mut ring = reader(1 << 16, 0, 3);
        ring.memory_mut()
            .write(&record(SAMPLE, 2, &whole[8..8 + length]));
        ring.memory_mut().write(&whole);
        let found = all(&mut ring);
        assert_eq!(found[0], format!("Malformed {{ bytes: {} }}", 8 + length));
        assert!(found[1].starts_with("Sample"), "{found:?}");
        assert_eq!(ring.malformed(), 8 + length as u64);
    }
}

#[test]
fn perf_024_sizes_of_stacks_that_lie_are_malformed() {
    for (size, valid) in [(u64::MAX, 8), (72, 8), (64, 65), (64, u64::MAX)] {
        let body = [
            halves(&[1, 2]),
            words(&[1, 1, 2, 11, 12, size]),
            vec![5; 64],
            words(&[valid]),
        ];
        let mut ring = reader(1 << 16, 0, 3);
        ring.memory_mut().write(&record(SAMPLE, 2, &body.concat()));
        assert!(all(&mut ring)[0].starts_with("Malformed"), "{size} {valid}");
    }
}

#[test]
fn perf_024_a_header_without_a_size_is_passed() {
    for size in [0_u16, 1, 4, 7, 9, 12, 65_535] {
        let mut ring = reader(1 << 16, 0, 3);
        let mut broken = record(SAMPLE, 0, &[0; 24]);
        broken[6..8].copy_from_slice(&size.to_ne_bytes());
        ring.memory_mut().write(&sample(1, &[1; 8]));
        ring.memory_mut().write_bytes(&broken);
        let found = all(&mut ring);
        assert!(found[0].starts_with("Sample"), "{found:?}");
        assert_eq!(found[1..], ["Malformed { bytes: 32 }"]);
        // Reading continues.
        ring.memory_mut().write(&sample(2, &[1; 8]));
        assert!(all(&mut ring)[0].starts_with("Sample"));
    }
}

#[test]
fn perf_024_a_head_beyond_the_ring_is_passed() {
    let mut ring = reader(1024, 40, 3);
    ring.memory_mut().head = 40 + 1032;
    assert_eq!(all(&mut ring), ["Malformed { bytes: 1032 }"]);
    // The head moves backwards as far as possible.
    ring.memory_mut().head = 8;
    assert_eq!(all(&mut ring).len(), 1);
    ring.memory_mut().write(&sample(2, &[1; 8]));
    assert!(all(&mut ring)[0].starts_with("Sample"));
}

#[test]
fn perf_025_the_limit_holds_and_the_rest_is_read_next_time() {
    let mut ring = reader(1 << 16, 0, 3);
    for time in 1..=5 {
        ring.memory_mut().write(&sample(time, &[1; 8]));
        ring.memory_mut().write(&record(99, 0, &[]));
    }
    let mut times = Vec::new();
    let mut read = |ring: &mut RecordReader<Simulated>| {
        times.clear();
        let drained = ring.read(2, &mut |record| {
            if let Record::Sample(sample) = record {
                times.push(sample.time);
            }
        });
        (drained, times.clone())
    };
    let full = Drained {
        samples: 2,
        empty: false,
    };
    assert_eq!(read(&mut ring), (full, vec![1, 2]));
    assert_eq!(read(&mut ring), (full, vec![3, 4]));
    let last = Drained {
        samples: 1,
        empty: true,
    };
    assert_eq!(read(&mut ring), (last, vec![5]));
    let nothing = Drained {
        samples: 0,
        empty: true,
    };
    assert_eq!(read(&mut ring), (nothing, vec![]));
}

#[test]
fn perf_026_groups_of_another_size_are_read_as_far_as_they_fit() {
    let counts = |nr: u64, values: &[u64]| {
        let mut ring = RecordReader::new(
            Simulated::new(1 << 12, 0),
            Format {
                counters: 3,
                counts: Counts::Read {
                    group: true,
                    lost: false,
                    of_task: false,
                },
                ..format(0)
            },
        );
        let body = [halves(&[1, 2]), words(&[9, nr]), words(values)].concat();
        ring.memory_mut().write(&record(SAMPLE, 1, &body));
        let mut found = None;
        ring.read(ALL, &mut |record| {
            if let Record::Sample(sample) = record {
                found = Some(sample.counts.to_vec());
            }
        });
        found
    };
    assert_eq!(counts(3, &[1, 2, 3]), Some(vec![1, 2, 3]));
    assert_eq!(counts(2, &[1, 2]), Some(vec![1, 2, 0]));
    assert_eq!(counts(0, &[]), Some(vec![0, 0, 0]));
    assert_eq!(counts(4, &[1, 2, 3, 4]), Some(vec![1, 2, 3]));
    assert_eq!(counts(4, &[1, 2, 3]), None);
    assert_eq!(counts(u64::MAX, &[1, 2, 3]), None);
    assert_eq!(counts(1 << 61, &[1, 2, 3]), None);
}

#[test]
fn counts_of_single_tasks_are_added_up() {
    let mut ring = RecordReader::new(
        Simulated::new(1 << 12, 0),
        Format {
            counters: 2,
            counts: Counts::Read {
                group: true,
                lost: true,
                of_task: true,
            },
            ..format(0)
        },
    );
    let sample = |tid: u32, count: u64, other: u64| {
        let body = [halves(&[1, tid]), words(&[9, 2, count, 0, other, 0])];
        record(SAMPLE, 1, &body.concat())
    };
    let exit = [halves(&[1, 1, 7, 1]), words(&[100]), id(100)].concat();
    for record in [
        sample(7, 100, 1),
        sample(8, 50, 2),
        sample(7, 130, 1),
        record(4, 0, &exit),
        sample(7, 140, 0),
    ] {
        ring.memory_mut().write(&record);
    }
    let mut found = Vec::new();
    ring.read(ALL, &mut |record| {
        if let Record::Sample(sample) = record {
            found.push(sample.counts.to_vec());
        }
    });
    assert_eq!(found, [[100, 1], [150, 3], [180, 3], [320, 3]]);
}

#[test]
fn callchains_are_split_at_the_markers() {
    const KERNEL: u64 = -128_i64 as u64;
    const USER: u64 = -512_i64 as u64;
    const GUEST: u64 = -2048_i64 as u64;
    let chain = |frames: &[u64]| {
        let mut ring = RecordReader::new(
            Simulated::new(1 << 12, 0),
            Format {
                callchain: true,
                ..format(0)
            },
        );
        let body = [
            halves(&[1, 2]),
            words(&[9, 1, frames.len() as u64]),
            words(frames),
        ];
        ring.memory_mut().write(&record(SAMPLE, 1, &body.concat()));
        let mut found = None;
        ring.read(ALL, &mut |record| {
            if let Record::Sample(sample) = record {
                let chain = sample.callchain;
                let user = chain.user.map(|user| user.iter().collect::<Vec<_>>());
                found = Some((chain.kernel.iter().collect::<Vec<_>>(), user));
            }
        });
        found.expect("a sample")
    };
    assert_eq!(chain(&[]), (vec![], None));
    assert_eq!(chain(&[KERNEL, 1, 2]), (vec![1, 2], None));
    assert_eq!(chain(&[USER, 3]), (vec![], Some(vec![3])));
    assert_eq!(chain(&[KERNEL, 1, USER, 3, 4]), (vec![1], Some(vec![3, 4])));
    assert_eq!(chain(&[KERNEL, 1, USER]), (vec![1], Some(vec![])));
    assert_eq!(chain(&[GUEST, 8, KERNEL, 1]), (vec![1], None));
    assert_eq!(chain(&[9, 9, KERNEL, 1]), (vec![1], None));
}
