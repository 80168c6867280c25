//! Tests of kernel addresses.

use ferretto_symbols::KernelSymbols;

use super::support::*;

#[test]
fn probes_053_and_054_addresses_become_small_numbers() {
    let fields = [("void * work", 8, 8, 0), ("void * function", 16, 8, 0)];
    let decoder = known("workqueue", "workqueue_execute_start", FREE, &fields);
    let mut plan = plan();
    plan.set_action(FREE, Action::Event(Arc::new(decoder)));
    let address = 0xffff_ffff_8123_4560u64;
    let mut record = head(FREE, 1);
    record.extend(0xffff_8880_0000_1000u64.to_le_bytes());
    record.extend(address.to_le_bytes());
    let page = PageBuilder::new(1)
        .record(1, &record)
        .record(1, &record)
        .build();
    let outcome = parse_with(&plan, std::slice::from_ref(&page), &mut CpuState::default());
    assert_eq!(
        numbers(&outcome.raw[0], 58),
        [[(1, 1), (2, 2)], [(1, 1), (2, 2)]]
    );

    // Names come with the first packet of a pass, which has the flag of cleared state.
    let symbols = format!("{address:x} T do_it\n");
    plan.symbols = Some(Arc::new(KernelSymbols::parse(symbols.as_bytes()).unwrap()));
    let packets = Packets::default();
    let (mut metadata, mut errors) = (Metadata::default(), BTreeSet::new());
    let (mut state, mut sink, mut bundler) =
        (CpuState::default(), packets.clone(), Bundler::default());
    let batch = Batch {
        cpu: 0,
        pages: &Page::parse_all(&page, 4096, plan.commit_size),
        clock: None,
    };
    for pass in 0..2 {
        for _ in 0..2 {
            bundler.process(
                &plan,
                &batch,
                &mut state,
                &mut metadata,
                &mut errors,
                &mut sink,
            );
        }
        metadata.clear();
        let decoded = packets.decoded();
        let [first, second] = &decoded[pass * 2..] else {
            panic!("two packets")
        };
        assert_eq!(
            (first.sequence_flags, second.sequence_flags),
            (Some(1), None)
        );
        let names = &first.interned_data.kernel_symbols;
        assert_eq!((names.len(), names[0].iid), (1, Some(2)));
        assert_eq!(names[0].str.as_deref(), Some(&b"do_it"[..]));
        assert!(second.interned_data.as_option().is_none());
    }
}
