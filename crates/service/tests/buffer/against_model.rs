//! The buffer and its model, with the same input.

use ferretto_service::buffer::{BufferOptions, BufferStats, Patch, Policy, TraceBuffer};
use proptest::prelude::*;

use crate::model::{Key, Model, SIZE};
use crate::support::*;

/// An input of the buffer.
#[derive(Debug, Clone)]
enum Step {
    Copy(Make),
    Patch {
        key: Key,
        id: u32,
        patches: Vec<Patch>,
        more: bool,
    },
    Drain,
    Clone,
}

fn keys() -> impl Strategy<Value = Key> {
    prop_oneof![Just((1, 1)), Just((1, 2)), Just((2, 1))]
}

fn ids() -> impl Strategy<Value = u32> {
    prop_oneof![
        20 => (0..12u32).prop_map(|step| 0xffff_fffa_u32.wrapping_add(step)),
        1 => any::<u32>(),
    ]
}

/// Returns chunks whose fragments only depend on their writer and id, so that two copies agree.
fn consistent() -> impl Strategy<Value = Make> {
    (keys(), ids(), 0..8usize, any::<bool>(), 0..100usize).prop_map(
        |((producer, writer), id, count, complete, pad)| {
            let mut made = chunk(producer, writer, id);
            let seed = id.wrapping_mul(2_654_435_761) ^ u32::from(producer * 7 + writer);
            let total = seed as usize % 7;
            let count = if complete { total } else { count.min(total) };
            for index in 0..count {
                let size = (seed >> index) as usize % 180;
                made = made.bytes(&vec![index as u8 + 1; size]);
            }
            made.flags = (seed >> 20) as u8 & 7;
            let len = made.payload.len();
            let made = made.pad(len + if complete { 0 } else { 400 + pad });
            if complete { made } else { made.scraped() }
        },
    )
}

/// Returns arbitrary chunks.
fn wild() -> impl Strategy<Value = Make> {
    let payload = prop::collection::vec(
        prop_oneof![
            3 => prop::collection::vec(any::<u8>(), 0..40),
            6 => (0..120u8).prop_map(|size| [&[size][..], &vec![7; size.into()]].concat()),
            1 => Just(ABORT.to_vec()),
            1 => Just(vec![0]),
            1 => Just(vec![9; 2000]),
        ],
        0..6,
    );
    (
        keys(),
        ids(),
        payload,
        0..8u16,
        0..8u8,
        prop::bool::weighted(0.8),
    )
        .prop_map(
            |((producer, writer), id, payload, count, flags, complete)| {
                let made = chunk(producer, writer, id)
                    .raw(&payload.concat())
                    .count(count)
                    .flags(flags);
                if complete { made } else { made.scraped() }
            },
        )
}

/// Returns the chunks of a mostly correct writer.
fn orderly() -> impl Strategy<Value = Make> {
    (keys(), 0..60u32, 1..200usize, 0..8u8).prop_map(|((producer, writer), id, size, flags)| {
        let first = if id % 3 == 0 { 0 } else { FIRST };
        let last = if id % 3 == 2 { 0 } else { LAST };
        let patch = if flags == 0 && last != 0 { PATCH } else { 0 };
        chunk(producer, writer, id)
            .packet(size + 1, 1)
            .packet(size + 1, 2)
            .flags(first | last | patch)
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let patch = (
        keys(),
        prop_oneof![ids(), 0..60u32],
        prop::collection::vec((0..300u32, any::<[u8; 4]>()), 0..3),
        any::<bool>(),
    )
        .prop_map(|(key, id, patches, more)| Step::Patch {
            key,
            id,
            patches: patches
                .into_iter()
                .map(|(offset, data)| Patch { offset, data })
                .collect(),
            more,
        });
    let step = prop_oneof![
        10 => consistent().prop_map(Step::Copy),
        4 => wild().prop_map(Step::Copy),
        10 => orderly().prop_map(Step::Copy),
        4 => patch,
        3 => Just(Step::Drain),
        1 => Just(Step::Clone),
    ];
    prop::collection::vec(step, 1..120)
}

/// Sorts packets by writer; the order between writers is not guaranteed.
fn sorted(mut packets: Vec<Got>) -> Vec<Got> {
    packets.sort_by_key(|got| (got.producer, got.writer));
    packets
}

fn run(policy: Policy, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut buffer = TraceBuffer::new(BufferOptions {
        policy,
        ..BufferOptions::ring(SIZE as u64)
    })
    .expect("memory");
    let mut model = Model::new(policy);
    for step in steps {
        match step {
            Step::Copy(made) => {
                made.copy_to(&mut buffer);
                model.copy(made);
            }
            Step::Patch {
                key,
                id,
                patches,
                more,
            } => {
                let done = buffer.try_patch(key.0, key.1, *id, patches, *more);
                prop_assert_eq!(done, model.patch(*key, *id, patches, *more));
            }
            Step::Drain => {
                prop_assert_eq!(sorted(read_all(&mut buffer)), model.drain());
            }
            Step::Clone => {
                let mut clone = buffer.try_clone().expect("memory");
                let seen = read_all(&mut clone);
                prop_assert_eq!(&seen, &read_all(&mut buffer));
                prop_assert_eq!(sorted(seen), model.drain());
            }
        }
        let stats = BufferStats {
            // The model tries each time, the buffer only after a change.
            readaheads_failed: 0,
            ..buffer.stats()
        };
        prop_assert_eq!(stats, model.stats);
    }
    prop_assert_eq!(sorted(read_all(&mut buffer)), model.drain());
    Ok(())
}

proptest! {
    #![proptest_config(cases(120))]

    #[test]
    fn tracebuf_049_a_ring_does_as_the_model(steps in steps()) {
        run(Policy::Ring, &steps)?;
    }

    #[test]
    fn tracebuf_049_a_discarding_buffer_does_as_the_model(steps in steps()) {
        run(Policy::Discard, &steps)?;
    }
}
