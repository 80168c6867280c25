//! Descriptors of counters.

use ferretto_proto::fields::counter_descriptor;
use ferretto_wire::Fields;

use super::super::context::Context;
use crate::strings::StringId;

/// A declared counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counter {
    pub(super) category: StringId,
    pub(super) multiplier: i64,
    pub(super) is_incremental: bool,
    pub(super) unit: StringId,
    pub(super) builtin: StringId,
    pub(super) y_axis: StringId,
}

impl Counter {
    /// Reads a `CounterDescriptor`, which may name the track.
    pub(super) fn read(cx: &mut Context, bytes: &[u8], name: &mut StringId) -> Self {
        use counter_descriptor as of;
        let strings = &mut cx.store.strings;
        let (mut kind, mut unit, mut unit_name) = (0, 0, StringId::NULL);
        let mut categories = Vec::new();
        let mut counter = Self {
            category: StringId::NULL,
            multiplier: 0,
            is_incremental: false,
            unit: StringId::NULL,
            builtin: StringId::NULL,
            y_axis: StringId::NULL,
        };
        for part in Fields::new(bytes).map_while(Result::ok) {
            let number = part.as_u64().unwrap_or(0);
            let bytes = part.as_bytes().unwrap_or_default();
            match part.number {
                of::TYPE => kind = number,
                of::CATEGORIES if categories.len() < 1 << 16 => {
                    if !categories.is_empty() {
                        categories.push(b',');
                    }
                    categories.extend_from_slice(bytes);
                }
                of::UNIT => unit = number,
                of::UNIT_NAME => unit_name = strings.intern_bytes(bytes),
                of::UNIT_MULTIPLIER => counter.multiplier = number as i64,
                of::IS_INCREMENTAL => counter.is_incremental = number != 0,
                of::Y_AXIS_SHARE_KEY => counter.y_axis = strings.intern_bytes(bytes),
                _ => {}
            }
        }
        if !categories.is_empty() {
            counter.category = strings.intern_bytes(&categories);
        }
        let builtin = match kind {
            1 => Some(("thread_time", "ns")),
            2 => Some(("thread_instruction_count", "count")),
            _ => None,
        };
        if let Some((builtin, unit)) = builtin {
            counter.builtin = strings.intern(builtin);
            counter.unit = strings.intern(unit);
            *name = name.or(counter.builtin);
        } else {
            counter.unit = match unit {
                1 => strings.intern("ns"),
                2 => strings.intern("count"),
                3 => strings.intern("bytes"),
                _ => unit_name,
            };
        }
        counter
    }
}
