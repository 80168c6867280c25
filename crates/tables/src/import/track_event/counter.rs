//! Descriptors of counters.

use ferretto_proto::views::CounterDescriptorView;
use ferretto_proto::views::counter_descriptor::builtin_counter_type::{
    COUNTER_THREAD_INSTRUCTION_COUNT, COUNTER_THREAD_TIME_NS,
};
use ferretto_proto::views::counter_descriptor::unit::{UNIT_COUNT, UNIT_SIZE_BYTES, UNIT_TIME_NS};

use super::super::context::Context;
use crate::strings::StringId;

/// The maximum number of categories of a counter. Others are left out.
const MAX_CATEGORIES: usize = 1 << 16;

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
        let strings = &mut cx.store.strings;
        let descriptor = CounterDescriptorView::read(bytes);
        let categories = descriptor.categories.iter().take(MAX_CATEGORIES);
        let categories: Vec<&[u8]> = categories.collect();
        let category = if categories.is_empty() {
            StringId::NULL
        } else {
            strings.intern_bytes(&categories.join(&b','))
        };
        let builtin = match descriptor.r#type {
            Some(COUNTER_THREAD_TIME_NS) => Some(("thread_time", "ns")),
            Some(COUNTER_THREAD_INSTRUCTION_COUNT) => Some(("thread_instruction_count", "count")),
            _ => None,
        };
        let y_axis = descriptor.y_axis_share_key;
        let y_axis = y_axis.map_or(StringId::NULL, |text| strings.intern_bytes(text));
        let unit_name = descriptor.unit_name;
        let unit = match (builtin, descriptor.unit) {
            (Some((_, unit)), _) => strings.intern(unit),
            (None, Some(UNIT_TIME_NS)) => strings.intern("ns"),
            (None, Some(UNIT_COUNT)) => strings.intern("count"),
            (None, Some(UNIT_SIZE_BYTES)) => strings.intern("bytes"),
            (None, _) => unit_name.map_or(StringId::NULL, |text| strings.intern_bytes(text)),
        };
        let builtin = builtin.map_or(StringId::NULL, |(name, _)| strings.intern(name));
        if !builtin.is_null() {
            *name = name.or(builtin);
        }
        Self {
            category,
            multiplier: descriptor.unit_multiplier.unwrap_or(0),
            is_incremental: descriptor.is_incremental.unwrap_or(false),
            unit,
            builtin,
            y_axis,
        }
    }
}
