//! Tests of events without a dedicated message.

use super::support::*;

pub(super) fn generic_plan(legacy: bool) -> Plan {
    let fields = [
        ("int a", 8, 4, 1),
        ("u8 b[3]", 12, 3, 0),
        ("char c[4]", 16, 4, 0),
        ("u64 d", 24, 8, 0),
    ];
    let text = format("own_event", GENERIC, &fields);
    let format = EventFormat::parse(&text).expect("a format");
    let mut plan = plan();
    plan.legacy_generic = legacy;
    let decoder = EventDecoder::generic("own", &format, 65_540);
    plan.set_action(GENERIC, Action::Event(Arc::new(decoder)));
    plan
}

fn generic_page() -> Vec<u8> {
    let mut record = head(GENERIC, 1);
    record.extend((-3i32).to_le_bytes());
    record.extend([1, 2, 3, 0]);
    record.extend(b"text\0\0\0\0");
    record.extend(u64::MAX.to_le_bytes());
    PageBuilder::new(1)
        .record(1, &record)
        .record(1, &record)
        .build()
}

#[test]
fn probes_045_events_without_a_message_describe_themselves() {
    let outcome = parse_with(
        &generic_plan(false),
        &[generic_page()],
        &mut CpuState::default(),
    );
    let bundle = &outcome.bundles[0];
    assert_eq!(
        (bundle.event.len(), bundle.generic_event_descriptors.len()),
        (2, 1)
    );
    let described = &bundle.generic_event_descriptors[0];
    assert_eq!(described.field_id, Some(65_540));
    assert_eq!(described.group_name.as_deref(), Some(&b"own"[..]));
    use ferretto_wire::Fields;
    let descriptor = described.event_descriptor.clone().expect("a descriptor");
    let mut fields = Fields::new(&descriptor).map(|field| field.expect("a field"));
    assert_eq!(
        fields.next().and_then(|name| name.as_bytes()),
        Some(&b"own_event"[..])
    );
    let described: Vec<(Vec<u8>, u64, u64)> = fields
        .map(|field| {
            let inner: Vec<_> = Fields::new(field.as_bytes().expect("a message"))
                .map(|field| field.expect("a field"))
                .collect();
            let number = |index: usize| inner[index].as_u64().expect("a number");
            (
                inner[0].as_bytes().expect("a name").to_vec(),
                number(1),
                number(2),
            )
        })
        .collect();
    // int64, string, uint64; a field of an unsupported type has no number.
    assert_eq!(
        described,
        [
            (b"a".to_vec(), 1, 3),
            (b"c".to_vec(), 2, 9),
            (b"d".to_vec(), 3, 4)
        ]
    );
    // Field 65540 with a = -3, c = "text", d.
    let tag = [0xa2, 0x80, 0x20];
    assert_eq!(
        outcome.raw[0]
            .windows(3)
            .filter(|window| *window == tag)
            .count(),
        2
    );
}

#[test]
fn probes_046_the_older_form_has_names_and_values() {
    let outcome = parse_with(
        &generic_plan(true),
        &[generic_page()],
        &mut CpuState::default(),
    );
    let bundle = &outcome.bundles[0];
    assert!(bundle.generic_event_descriptors.is_empty());
    let Some(Event::Generic(generic)) = &bundle.event[0].event else {
        panic!("{bundle:?}")
    };
    assert_eq!(generic.event_name.as_deref(), Some(&b"own_event"[..]));
    use ferretto_proto::generic_ftrace_event::field::Value;
    let values: Vec<_> = generic
        .field
        .iter()
        .map(|f| (f.name.clone(), f.value.clone()))
        .collect();
    let name = |text: &str| Some(text.as_bytes().to_vec());
    assert_eq!(
        values,
        [
            (name("a"), Some(Value::IntValue(-3))),
            (name("c"), Some(Value::StrValue(b"text".to_vec()))),
            (name("d"), Some(Value::UintValue(u64::MAX))),
        ]
    );
}
