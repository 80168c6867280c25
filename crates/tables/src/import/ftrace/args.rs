//! Converts fields of kernel events to arguments, by the schema.

use ferretto_proto::fields::ftrace_event as event;
use ferretto_text::schema::{Kind, Schema};
use ferretto_wire::{Field, Fields, Value};

use super::{Context, Head};
use crate::schema::ArgValue;
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;

/// The names of used events and their fields.
#[derive(Debug, Default)]
pub(super) struct EventArgs {
    /// The events by number.
    events: Vec<Option<Box<KnownEvent>>>,
    scratch: ArgSet,
}

#[derive(Debug)]
struct KnownEvent {
    name: StringId,
    /// The fields by number.
    fields: Vec<Option<(StringId, Kind)>>,
    /// The field with the iid of the name of a kernel function.
    symbol: Option<u32>,
}

/// The maximum number of a field.
const MAX_FIELDS: u32 = 64;

impl EventArgs {
    /// Returns the set in which arguments are collected.
    pub(super) fn scratch(&mut self) -> &mut ArgSet {
        &mut self.scratch
    }

    /// Collects the fields of an event, and returns its name; `None` if it is not in the schema.
    pub(super) fn read(
        &mut self,
        cx: &mut Context,
        head: &Head<'_>,
        number: u32,
        body: &[u8],
    ) -> Option<StringId> {
        let index = number as usize;
        if self.events.get(index).is_none_or(Option::is_none) {
            let known = KnownEvent::find(&mut cx.store, number)?;
            if self.events.len() <= index {
                self.events.resize_with(index + 1, || None);
            }
            self.events[index] = Some(Box::new(known));
        }
        let known = self.events.get(index)?.as_deref()?;
        for Field { number, value } in Fields::new(body).map_while(Result::ok) {
            let Some(Some((name, kind))) = known.fields.get(number as usize) else {
                continue;
            };
            if known.symbol == Some(number)
                && let Value::Varint(iid) = value
                && let Some(symbol) = head.known_symbol(cx, iid)
            {
                self.scratch.add(*name, *name, ArgValue::Text(symbol));
                continue;
            }
            if let Some(value) = arg(&mut cx.store, *kind, value) {
                self.scratch.add(*name, *name, value);
            }
        }
        Some(known.name)
    }
}

impl KnownEvent {
    #[cold]
    fn find(store: &mut Store, number: u32) -> Option<Self> {
        let schema = Schema::perfetto();
        let events = schema.message_named("perfetto.protos.FtraceEvent")?;
        let field = schema.message(events).field(number)?;
        let Kind::Message(message) = field.kind else {
            return None;
        };
        let mut fields = Vec::new();
        for field in schema.message(message).fields() {
            let index = field.number as usize;
            if field.number >= MAX_FIELDS {
                continue;
            }
            if fields.len() <= index {
                fields.resize(index + 1, None);
            }
            fields[index] = Some((store.strings.intern(field.name), field.kind));
        }
        let symbol = match number {
            event::SCHED_BLOCKED_REASON => Some("caller"),
            event::WORKQUEUE_QUEUE_WORK
            | event::WORKQUEUE_ACTIVATE_WORK
            | event::WORKQUEUE_EXECUTE_START
            | event::WORKQUEUE_EXECUTE_END
            | event::HRTIMER_EXPIRE_ENTRY => Some("function"),
            event::FUNCGRAPH_ENTRY | event::FUNCGRAPH_EXIT => Some("func"),
            event::MM_SHRINK_SLAB_START => Some("shrink"),
            _ => None,
        };
        let symbol = symbol.and_then(|name| schema.message(message).field_named(name));
        Some(Self {
            name: store.strings.intern(field.name),
            fields,
            symbol: symbol.map(|field| field.number),
        })
    }
}

/// Returns the value of a field as an argument; `None` if it is a message.
pub(super) fn arg(store: &mut Store, kind: Kind, value: Value<'_>) -> Option<ArgValue> {
    let number = match value {
        Value::Varint(value) | Value::Fixed64(value) => value,
        Value::Fixed32(value) => value.into(),
        Value::Bytes(bytes) => {
            return match kind {
                Kind::String | Kind::Bytes => {
                    Some(ArgValue::Text(store.strings.intern_bytes(bytes)))
                }
                _ => None,
            };
        }
    };
    Some(match kind {
        Kind::Uint32 | Kind::Uint64 | Kind::Fixed32 | Kind::Fixed64 => ArgValue::Uint(number),
        Kind::Double => ArgValue::Real(f64::from_bits(number)),
        Kind::Float => ArgValue::Real(f32::from_bits(number as u32).into()),
        Kind::Sint32 | Kind::Sint64 => ArgValue::Int(ferretto_wire::zigzag_decode(number)),
        Kind::Sfixed32 | Kind::Int32 | Kind::Enum(_) => ArgValue::Int((number as i32).into()),
        _ => ArgValue::Int(number as i64),
    })
}
