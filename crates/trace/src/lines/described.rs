//! Kernel events that the recorder describes, such as those of probes.

use std::collections::HashMap;
use std::io::Write as _;

use ferretto_proto::fields::{
    descriptor_proto as descriptor, field_descriptor_proto as described,
    ftrace_event_bundle::generic_event_descriptor as field,
};
use ferretto_wire::{Field, Fields, Value};

use super::tasks::push;
use crate::printable::printable_within;

/// The maximum numbers of described events and of their fields.
const MAX_EVENTS: usize = 1 << 12;
const MAX_FIELDS: usize = 32;
/// The maximum length of a name, in bytes.
const MAX_NAME: usize = 128;
/// The start of the names of fields with addresses.
const ADDRESS: &str = "__probe_";

/// The types of fields with signed numbers, in the numbering of descriptors.
const SIGNED: [u64; 2] = [3, 5];

/// The described events, by machine, sequence and number.
#[derive(Debug, Default)]
pub(super) struct Described(HashMap<(u32, u32, u32), Event>);

#[derive(Debug)]
struct Event {
    name: String,
    /// The names and types of the fields, by number.
    fields: HashMap<u32, (String, u64)>,
}

impl Described {
    /// Reads a `GenericEventDescriptor`.
    pub(super) fn describe(&mut self, (machine, sequence): (u32, u32), bytes: &[u8]) {
        let number = Fields::find(field::FIELD_ID, bytes).and_then(|number| number.as_u32());
        let descriptor = Fields::find(field::EVENT_DESCRIPTOR, bytes);
        let descriptor = descriptor.and_then(|descriptor| descriptor.as_bytes());
        let (Some(number), Some(descriptor)) = (number, descriptor) else {
            return;
        };
        let key = (machine, sequence, number);
        if self.0.len() < MAX_EVENTS && !self.0.contains_key(&key) {
            self.0.insert(key, Event::read(descriptor));
        }
    }

    /// Appends the name and the fields of an event. Returns false if it is not described.
    pub(super) fn print(
        &self,
        line: &mut Vec<u8>,
        (machine, sequence): (u32, u32),
        number: u32,
        body: &[u8],
    ) -> bool {
        let Some(event) = self.0.get(&(machine, sequence, number)) else {
            return false;
        };
        push(line, &event.name);
        line.push(b':');
        for Field { number, value } in Fields::new(body).map_while(Result::ok) {
            let Some((name, kind)) = event.fields.get(&number) else {
                continue;
            };
            line.push(b' ');
            push(line, name);
            line.push(b'=');
            // Writing to a vector cannot fail.
            let _ = match value {
                Value::Bytes(text) => {
                    line.push(b'"');
                    push(line, &String::from_utf8_lossy(text));
                    line.push(b'"');
                    Ok(())
                }
                Value::Varint(value) if name.starts_with(ADDRESS) => write!(line, "{value:#x}"),
                Value::Varint(value) if SIGNED.contains(kind) => {
                    write!(line, "{}", value.cast_signed())
                }
                Value::Varint(value) | Value::Fixed64(value) => write!(line, "{value}"),
                Value::Fixed32(value) => write!(line, "{value}"),
            };
        }
        true
    }
}

impl Event {
    fn read(bytes: &[u8]) -> Self {
        let name = Fields::find(descriptor::NAME, bytes).and_then(|name| name.as_bytes());
        let mut event = Self {
            name: printable_within(name.unwrap_or_default(), MAX_NAME),
            fields: HashMap::new(),
        };
        let fields = Fields::new(bytes).map_while(Result::ok);
        for part in fields
            .filter(|part| part.number == descriptor::FIELD)
            .take(MAX_FIELDS)
        {
            let part = part.as_bytes().unwrap_or_default();
            let number = |number| Fields::find(number, part).and_then(|field| field.as_u64());
            let name = Fields::find(described::NAME, part).and_then(|name| name.as_bytes());
            let name = printable_within(name.unwrap_or_default(), MAX_NAME);
            let key = number(described::NUMBER).and_then(|number| u32::try_from(number).ok());
            if let Some(key) = key {
                let kind = number(described::TYPE).unwrap_or(0);
                event.fields.insert(key, (name, kind));
            }
        }
        event
    }
}
