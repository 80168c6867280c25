//! Malformed traces.

use ferretto_trace::profile::{
    FoldOptions, Problem, ProfileReader, Selection, StackCounts, Value, folded, hottest, pprof,
};

use crate::profile::made::{BOOT, NEEDS_STATE, Packet, RAW, SEQUENCE, Trace};
use ferretto_testing::Random;

fn problem(trace: &Trace, problem: Problem) -> u64 {
    trace.samples().1.problems().count(problem)
}

#[test]
fn callstacks_are_left_out_from_the_length_at_which_other_readers_do() {
    use ferretto_format::sample::MAX_FRAMES;
    let deep = |frames: usize| {
        Trace::begun()
            .interned()
            .packet(|p| {
                p.varint(10, SEQUENCE);
                p.varint(13, NEEDS_STATE);
                p.nested(12, |data| {
                    data.nested(7, |stack| {
                        stack.varint(1, 13);
                        (0..frames).for_each(|_| stack.varint(2, 30));
                    });
                });
            })
            .sample(50, 100, 13)
    };
    for (frames, problems) in [(MAX_FRAMES, 0), (MAX_FRAMES + 1, 1), (1_000_000, 1)] {
        let (samples, profile) = deep(frames).samples();
        let known = samples[0].stack.map(|stack| profile.stack(stack).len());
        assert_eq!(known, (problems == 0).then_some(frames));
        assert_eq!(profile.problems().count(Problem::TooMany), problems);
    }
}

#[test]
fn undefined_iids_are_counted() {
    let trace = Trace::begun().interned().sample(50, 100, 99);
    assert_eq!(problem(&trace, Problem::UnknownCallstack), 1);
    let with = |write: fn(&mut Packet<'_>)| {
        Trace::begun()
            .packet(|p| {
                p.varint(10, SEQUENCE);
                p.varint(13, NEEDS_STATE);
                p.nested(12, write);
            })
            .sample(50, 100, 10)
    };
    let empty = with(|data| data.nested(7, |entry| entry.varint(1, 10)));
    assert_eq!(problem(&empty, Problem::EmptyCallstack), 1);
    let no_frame = with(|data| {
        data.nested(7, |entry| {
            entry.varint(1, 10);
            entry.varint(2, 5);
        });
    });
    assert_eq!(problem(&no_frame, Problem::UnknownFrame), 1);
    let no_mapping = with(|data| {
        data.nested(7, |entry| {
            entry.varint(1, 10);
            entry.varint(2, 5);
        });
        data.nested(6, |frame| {
            frame.varint(1, 5);
            frame.varint(2, 6);
            frame.varint(3, 7);
        });
    });
    assert_eq!(problem(&no_mapping, Problem::UnknownMapping), 1);
    assert_eq!(problem(&no_mapping, Problem::UnknownString), 1);
    let twice = Trace::begun().interned().interned().packet(|p| {
        p.varint(10, SEQUENCE);
        p.varint(13, NEEDS_STATE);
        p.nested(12, |data| {
            data.nested(5, |name| {
                name.varint(1, 20);
                name.string(2, "other");
            });
        });
    });
    assert_eq!(
        problem(&twice, Problem::Redefined),
        1,
        "an identical definition is not a problem"
    );
}

#[test]
fn times_on_unknown_clocks_are_counted() {
    let at = |clock: Option<u64>, time: Option<u64>| {
        Trace::begun().interned().packet(|p| {
            time.into_iter().for_each(|time| p.varint(8, time));
            clock.into_iter().for_each(|clock| p.varint(58, clock));
            p.varint(10, SEQUENCE);
            p.varint(13, NEEDS_STATE);
            p.nested(66, |sample| sample.varint(2, 1));
        })
    };
    assert_eq!(problem(&at(Some(3), Some(5)), Problem::UnknownClock), 1);
    assert_eq!(problem(&at(Some(64), Some(5)), Problem::UnknownClock), 1);
    let (samples, _) = at(Some(6), Some(BOOT + 1)).samples();
    assert_eq!(samples[0].time, BOOT + 1);
    let (samples, _) = at(None, Some(RAW + 1)).samples();
    assert_eq!(samples[0].time, BOOT + 1);
    // Without a timestamp, a sample has the latest time so far.
    let begun = at(None, None);
    let (samples, _) = begun.samples();
    assert_eq!(samples[0].time, BOOT);
}

#[test]
fn times_of_samples_may_be_incremental() {
    let trace = Trace::begun().interned().packet(|p| {
        p.varint(10, SEQUENCE);
        p.nested(6, |snapshot| {
            snapshot.nested(1, |reading| {
                reading.varint(1, 6);
                reading.varint(2, BOOT);
            });
            snapshot.nested(1, |reading| {
                reading.varint(1, 64);
                reading.varint(2, 0);
                reading.varint(3, 1); // incremental
                reading.varint(4, 1000); // microseconds
            });
        });
    });
    let sample = |p: &mut Packet<'_>, after: u64, is_sample: bool| {
        p.varint(8, after);
        p.varint(58, 64);
        p.varint(10, SEQUENCE);
        p.varint(13, NEEDS_STATE);
        if is_sample {
            p.nested(66, |sample| sample.varint(2, 1));
        }
    };
    let trace = trace
        .packet(|p| sample(p, 2, true))
        .packet(|p| sample(p, 3, false))
        .packet(|p| sample(p, 4, true));
    let (samples, profile) = trace.samples();
    let times: Vec<u64> = samples.iter().map(|sample| sample.time - BOOT).collect();
    assert_eq!(times, [2_000, 9_000]);
    assert!(profile.problems().is_empty());
}

#[test]
fn a_sample_without_a_sequence_is_counted() {
    let trace = Trace::default().packet(|p| {
        p.varint(8, 5);
        p.nested(66, |sample| sample.varint(2, 1));
    });
    assert_eq!(problem(&trace, Problem::NoSequence), 1);
}

/// A path that refers to a long string a million times would be far larger than the trace.
#[test]
fn paths_are_limited() {
    let trace = Trace::begun()
        .packet(|p| {
            p.varint(10, SEQUENCE);
            p.varint(13, NEEDS_STATE);
            p.nested(12, |data| {
                data.nested(17, |part| {
                    part.varint(1, 1);
                    part.bytes(2, &[b'x'; 5000]);
                });
                data.nested(19, |mapping| {
                    mapping.varint(1, 1);
                    mapping.varint(5, 10);
                    mapping.bytes(7, &[1; 1_000_000]);
                });
                data.nested(6, |frame| {
                    frame.varint(1, 1);
                    frame.varint(3, 1);
                });
                data.nested(7, |stack| {
                    stack.varint(1, 10);
                    stack.bytes(2, &[1; 1_000]);
                });
            });
        })
        .sample(50, 100, 10);
    let (samples, profile) = trace.samples();
    let frames = profile.stack(samples[0].stack.unwrap());
    assert!(frames.len() < 10_000);
    let mapping = profile.frame(frames[0]).unwrap().mapping.unwrap();
    assert!(profile.mapping(mapping).unwrap().path.len() < 20_000);
}

#[test]
fn no_damage_causes_a_panic() {
    let whole = Trace::begun()
        .interned()
        .sample(50, 100, 10)
        .sample(80, 101, 11)
        .sample(100, 101, 12)
        .symbols()
        .0;
    // Damages packets instead of the file, so that damage inside of packets is tested.
    let mut packets: Vec<Vec<u8>> = Vec::new();
    for field in ferretto_wire::Fields::new(&whole).map(Result::unwrap) {
        packets.push(field.as_bytes().unwrap().to_vec());
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..3000 {
        let mut reader = ProfileReader::new();
        let mut counts = StackCounts::new(Selection::default());
        for packet in &packets {
            let mut packet = packet.clone();
            for _ in 0..random.below(4) {
                let at = random.below(packet.len());
                packet[at] = random.below(256) as u8;
            }
            if random.below(10) == 0 {
                packet.truncate(random.below(packet.len()));
            }
            if let Some(sample) = reader.add(&packet) {
                counts.add(&sample);
            }
        }
        let profile = reader.finish();
        folded(&profile, &counts, &FoldOptions::default());
        hottest(&profile, &counts, Value::Weight);
        pprof(&profile, &counts, None);
        profile.modules();
    }
}
