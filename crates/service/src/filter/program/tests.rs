use super::super::words::encode;
use super::*;

const END: u32 = opcode::END_OF_MESSAGE;

fn word(field: u32, opcode: u32) -> u32 {
    field << OPCODE_BITS | opcode
}

fn simple(field: u32) -> u32 {
    word(field, opcode::SIMPLE)
}

fn range(field: u32) -> u32 {
    word(field, opcode::SIMPLE_RANGE)
}

fn nested(field: u32) -> u32 {
    word(field, opcode::NESTED)
}

fn load(code: &[u32]) -> Option<Program> {
    Program::load(&encode(code), &[])
}

fn overlaid(code: &[u32], overlay: &[u32]) -> Option<Program> {
    Program::load(&encode(code), &encode(overlay))
}

/// Returns the allowed fields of a message up to 3000.
fn allowed(program: &Program, message: u32) -> Vec<u32> {
    (0..3000)
        .filter(|field| program.rule(message, *field) != Rule::Drop)
        .collect()
}

#[test]
fn fields_and_ranges() {
    let program = load(&[
        simple(1),
        simple(7),
        simple(127),
        simple(128),
        simple(2000),
        END,
    ]);
    let program = program.unwrap();
    assert_eq!(allowed(&program, 0), [1, 7, 127, 128, 2000]);
    assert_eq!(allowed(&program, 1), []);
    assert_eq!(program.rule(u32::MAX, u32::MAX), Rule::Drop);

    let program = load(&[range(1), 2, simple(4), range(126), 4, simple(150), END]).unwrap();
    assert_eq!(allowed(&program, 0), [1, 2, 4, 126, 127, 128, 129, 150]);

    let empty = load(&[
        range(2),
        0,
        range(127),
        0,
        range(128),
        0,
        range(128),
        0,
        END,
    ])
    .unwrap();
    assert_eq!(allowed(&empty, 0), []);
    let endless = load(&[range(200), u32::MAX, END]).unwrap();
    assert_eq!(endless.rule(0, 200), Rule::Drop, "leaves the number space");
    let all = load(&[range(1), u32::MAX - 1, END]).unwrap();
    assert_eq!(all.rule(0, u32::MAX - 1), Rule::Copy);
}

#[test]
fn nested_messages_may_form_cycles() {
    let code = [
        nested(4),
        2,
        simple(10),
        nested(127),
        1,
        nested(128),
        1,
        END,
        nested(2),
        1,
        simple(11),
        END,
        nested(2),
        0,
        END,
    ];
    let program = load(&code).unwrap();
    assert_eq!(program.rule(0, 4), Rule::Nested(2));
    assert_eq!(program.rule(0, 128), Rule::Nested(1));
    assert_eq!(program.rule(1, 2), Rule::Nested(1));
    assert_eq!(program.rule(2, 2), Rule::Nested(0));
    assert_eq!(allowed(&program, 1), [2, 11]);
    assert_eq!(load(&[]).unwrap().rule(0, 1), Rule::Drop);
}

#[test]
fn service_061_invalid_bytecode() {
    let bad: &[&[u32]] = &[
        &[simple(1)],
        &[range(1), END],
        &[range(2)],
        &[nested(4), END],
        &[word(4, opcode::TYPED_STRING)],
        &[simple(0), END],
        &[word(1, 6), END],
        &[word(1, 7), END],
        &[nested(4), 1, END],
        &[range(130), 10, simple(139), END],
        &[simple(150), simple(140), END],
    ];
    for code in bad {
        assert!(load(code).is_none(), "{code:?}");
    }
    assert!(Program::load(&[], &[]).is_none());
}

#[test]
fn service_063_overlay() {
    let string = |field| word(field, opcode::STRING);
    let typed = |field| word(field, opcode::TYPED_STRING);
    let base = [
        simple(1),
        simple(2),
        simple(300),
        END,
        simple(1),
        range(5),
        3,
        END,
    ];

    let program = overlaid(&base, &[0, string(2), 0, 0, typed(300), 7, 1, simple(3), 0]).unwrap();
    assert_eq!(program.rule(0, 2), Rule::String(0));
    assert_eq!(program.rule(0, 300), Rule::String(7));
    assert_eq!(allowed(&program, 0), [1, 2, 300]);
    assert_eq!(allowed(&program, 1), [1, 3, 5, 6, 7]);

    let program = overlaid(&base, &[1, string(6), 0, 1, simple(500), 0]).unwrap();
    assert_eq!(program.rule(1, 6), Rule::String(0), "inside a range");
    assert_eq!(program.rule(1, 7), Rule::Copy);
    assert_eq!(program.rule(1, 500), Rule::Copy);

    let nested = overlaid(&[nested(1), 1, END, END], &[0, typed(1), 0xffff]).unwrap();
    assert_eq!(
        nested.rule(0, 1),
        Rule::String(0xffff),
        "never a plain copy"
    );

    let bad: &[&[u32]] = &[
        &[0, string(2)],
        &[0, string(2), 0, 0, string(2), 0],
        &[0, string(2), 0, 0, string(1), 0],
        &[1, string(2), 0, 0, string(3), 0],
        &[2, string(2), 0],
        &[u32::MAX, string(2), 0],
        &[0, word(2, opcode::NESTED), 0],
        &[0, word(2, opcode::SIMPLE_RANGE), 1],
        &[0, END, 0],
        &[0, simple(0), 0],
    ];
    for overlay in bad {
        assert!(overlaid(&base, overlay).is_none(), "{overlay:?}");
    }
    let mut broken = encode(&[0, string(2), 0]);
    broken[0] ^= 1;
    assert!(Program::load(&encode(&base), &broken).is_none());
}

mod properties {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes(code in vec(any::<u8>(), 0..64), overlay in vec(any::<u8>(), 0..32)) {
            let _ = Program::load(&code, &overlay);
        }

        #[test]
        fn any_words(
            code in vec(prop_oneof![0u32..64, any::<u32>()], 0..64),
            overlay in vec(0u32..64, 0..12),
            message in 0u32..8,
            field: u32,
        ) {
            let mut code = code;
            code.push(END);
            if let Some(program) = overlaid(&code, &overlay) {
                let rule = program.rule(message, field % 512);
                let nested_is_there = match rule {
                    Rule::Nested(message) => (message as usize) < program.message_count(),
                    _ => true,
                };
                prop_assert!(nested_is_there);
                program.rule(message, field);
            }
        }
    }
}
