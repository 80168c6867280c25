//! Protobuf fields.

use ferretto_wire::{Encoder, Fields, Value};

/// Walks any bytes as a message, and what looks like messages in it, and encodes again what was
/// understood.
pub fn wire_fields(data: &[u8]) {
    walk(data, 0);
}

fn walk(bytes: &[u8], depth: usize) {
    let mut again = Vec::new();
    let mut complete = true;
    let mut fields = Fields::new(bytes);
    let mut count = 0;
    loop {
        assert!(fields.offset() <= bytes.len());
        let Some(field) = fields.next() else { break };
        let Ok(field) = field else {
            complete = false;
            break;
        };
        count += 1;
        let mut encoder = Encoder::new(&mut again);
        match field.value {
            Value::Varint(value) => encoder.varint(field.number, value),
            Value::Fixed64(value) => encoder.fixed64(field.number, value),
            Value::Fixed32(value) => encoder.fixed32(field.number, value),
            Value::Bytes(value) => {
                encoder.bytes(field.number, value);
                if depth < 8 {
                    walk(value, depth + 1);
                }
            }
        }
        let _ = (
            field.as_u32(),
            field.as_i64(),
            field.as_sint(),
            field.as_bool(),
        );
        let _ = (field.as_f64(), field.as_str_lossy());
        field.as_varints().for_each(drop);
    }
    // A field takes at least a byte of key and one of value or length.
    assert!(count <= bytes.len());
    if complete {
        let same = Fields::new(&again).filter_map(Result::ok).count();
        assert_eq!(same, count, "encoded again, the fields differ in number");
    }
}
