//! Encoded track events.

use ferretto_proto::fields::track_event::{self as field, legacy_event};
use ferretto_wire::{Field, Fields, Value};

/// The extension of `TrackEvent` with the ids of work of GPUs.
pub(super) const GPU_CORRELATION: u32 = 3000;

/// The values of the field `type`.
pub(super) mod event_type {
    pub(in super::super) const SLICE_BEGIN: u32 = 1;
    pub(in super::super) const SLICE_END: u32 = 2;
    pub(in super::super) const INSTANT: u32 = 3;
    pub(in super::super) const COUNTER: u32 = 4;
    pub(in super::super) const STATE: u32 = 5;
}

/// The common fields of an event, and flags for others.
#[derive(Debug, Default)]
pub(super) struct Event<'a> {
    /// The encoded event, or nothing if it was decoded ahead and no more of it is needed.
    pub(super) bytes: &'a [u8],
    /// The size of the encoded event in bytes.
    pub(super) size: usize,
    pub(super) kind: u32,
    pub(super) track: Option<u64>,
    pub(super) name_iid: u64,
    pub(super) name: Option<&'a [u8]>,
    /// The first category, and the number of categories.
    pub(super) category_iid: u64,
    pub(super) category: Option<&'a [u8]>,
    pub(super) categories: u32,
    /// The encoded legacy part.
    pub(super) legacy: Option<&'a [u8]>,
    pub(super) counter: Option<Field<'a>>,
    /// Set for flow ids, other counters, and callstacks.
    pub(super) has_flows: bool,
    pub(super) has_extra: bool,
    pub(super) has_callstack: bool,
    /// Set for times of old traces.
    pub(super) has_old_times: bool,
    /// Set for debug annotations.
    pub(super) has_annotations: bool,
    /// Set for references to work of GPUs.
    pub(super) has_gpu_work: bool,
    /// Set for other fields, which may become arguments.
    pub(super) has_args: bool,
}

/// The fields of an event that are needed in the order of the file.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Glance {
    pub(super) kind: u32,
    /// Set if the event has a track uuid.
    pub(super) has_track: bool,
    /// Set if the event has times of old traces or other counters.
    pub(super) has_more: bool,
}

impl Glance {
    #[inline]
    pub(in super::super) fn read(bytes: &[u8]) -> Self {
        let mut glance = Self::default();
        Fields::walk(bytes, |part| match part.number {
            field::TYPE => glance.kind = part.as_u64().unwrap_or(0) as u32,
            field::TRACK_UUID => glance.has_track = part.as_u64().is_some(),
            field::EXTRA_COUNTER_VALUES
            | field::EXTRA_DOUBLE_COUNTER_VALUES
            | field::TIMESTAMP_DELTA_US
            | field::TIMESTAMP_ABSOLUTE_US
            | field::THREAD_TIME_DELTA_US
            | field::THREAD_TIME_ABSOLUTE_US
            | field::THREAD_INSTRUCTION_COUNT_DELTA
            | field::THREAD_INSTRUCTION_COUNT_ABSOLUTE => glance.has_more = true,
            _ => {}
        });
        glance
    }
}

impl<'a> Event<'a> {
    #[inline]
    pub(super) fn read(bytes: &'a [u8]) -> Self {
        let mut event = Self {
            bytes,
            size: bytes.len(),
            ..Self::default()
        };
        Fields::walk(bytes, |part| {
            let number = || part.as_u64().unwrap_or(0);
            match part.number {
                field::TYPE => event.kind = number() as u32,
                field::TRACK_UUID => event.track = part.as_u64(),
                field::NAME_IID => event.name_iid = number(),
                field::NAME => event.name = part.as_bytes(),
                field::CATEGORY_IIDS => {
                    for iid in part.as_varints() {
                        event.category_iid = iid;
                        event.categories += 1;
                    }
                }
                field::CATEGORIES => {
                    event.category = part.as_bytes();
                    event.categories += 1;
                }
                field::LEGACY_EVENT => event.legacy = part.as_bytes(),
                field::COUNTER_VALUE | field::DOUBLE_COUNTER_VALUE => event.counter = Some(part),
                field::FLOW_IDS
                | field::FLOW_IDS_OLD
                | field::TERMINATING_FLOW_IDS
                | field::TERMINATING_FLOW_IDS_OLD => event.has_flows = true,
                field::EXTRA_COUNTER_VALUES | field::EXTRA_DOUBLE_COUNTER_VALUES => {
                    event.has_extra = true;
                }
                field::EXTRA_COUNTER_TRACK_UUIDS | field::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS => {}
                field::CALLSTACK | field::CALLSTACK_IID => event.has_callstack = true,
                field::CALLSTACK_WEIGHT => {}
                field::TIMESTAMP_DELTA_US
                | field::TIMESTAMP_ABSOLUTE_US
                | field::THREAD_TIME_DELTA_US
                | field::THREAD_TIME_ABSOLUTE_US
                | field::THREAD_INSTRUCTION_COUNT_DELTA
                | field::THREAD_INSTRUCTION_COUNT_ABSOLUTE => event.has_old_times = true,
                field::DEBUG_ANNOTATIONS => event.has_annotations = true,
                number => {
                    event.has_args = true;
                    event.has_gpu_work |= number == GPU_CORRELATION;
                }
            }
        });
        event
    }

    /// Returns all fields.
    pub(super) fn fields(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        Fields::new(self.bytes).map_while(Result::ok)
    }

    /// Returns the last value of a field.
    pub(super) fn find(&self, number: u32) -> Option<Field<'a>> {
        self.fields().filter(|field| field.number == number).last()
    }

    /// Returns all values of a repeated integer, packed or not.
    pub(super) fn numbers(&self, number: u32) -> Vec<u64> {
        /// The maximum number of values.
        const MAX: usize = 1 << 12;
        let mut all = Vec::new();
        for field in self.fields().filter(|field| field.number == number) {
            if all.len() >= MAX {
                break;
            }
            match (field.value, is_fixed(number)) {
                (Value::Bytes(bytes), true) => {
                    let (words, _) = bytes.as_chunks();
                    all.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
                }
                (Value::Bytes(_), false) => all.extend(field.as_varints()),
                _ => all.extend(field.as_u64()),
            }
        }
        all.truncate(MAX);
        all
    }
}

/// Returns true if elements of this field have eight bytes.
fn is_fixed(number: u32) -> bool {
    matches!(
        number,
        field::FLOW_IDS | field::TERMINATING_FLOW_IDS | field::EXTRA_DOUBLE_COUNTER_VALUES
    )
}

/// The legacy part of an event in old traces.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Legacy<'a> {
    pub(super) name_iid: u64,
    pub(super) phase: Option<u8>,
    pub(super) duration_us: i64,
    pub(super) thread_duration_us: i64,
    pub(super) thread_instruction_delta: i64,
    pub(super) unscoped_id: Option<u64>,
    pub(super) local_id: Option<u64>,
    pub(super) global_id: Option<u64>,
    pub(super) id_scope: Option<&'a [u8]>,
    pub(super) bind_id: Option<u64>,
    pub(super) binds_to_enclosing: bool,
    pub(super) flow_direction: Option<u64>,
    pub(super) scope: u64,
    pub(super) pid: Option<i32>,
    pub(super) tid: Option<i32>,
}

impl<'a> Legacy<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Self {
        use legacy_event as of;
        let mut legacy = Self::default();
        for part in Fields::new(bytes).map_while(Result::ok) {
            let number = part.as_u64().unwrap_or(0);
            match part.number {
                of::NAME_IID => legacy.name_iid = number,
                of::PHASE => legacy.phase = Some(number as u8),
                of::DURATION_US => legacy.duration_us = number as i64,
                of::THREAD_DURATION_US => legacy.thread_duration_us = number as i64,
                of::THREAD_INSTRUCTION_DELTA => legacy.thread_instruction_delta = number as i64,
                of::UNSCOPED_ID => legacy.unscoped_id = Some(number),
                of::LOCAL_ID => legacy.local_id = Some(number),
                of::GLOBAL_ID => legacy.global_id = Some(number),
                of::ID_SCOPE => legacy.id_scope = part.as_bytes(),
                of::BIND_ID => legacy.bind_id = Some(number),
                of::BIND_TO_ENCLOSING => legacy.binds_to_enclosing = number != 0,
                of::FLOW_DIRECTION => legacy.flow_direction = Some(number),
                of::INSTANT_EVENT_SCOPE => legacy.scope = number,
                of::PID_OVERRIDE => legacy.pid = Some(number as i32),
                of::TID_OVERRIDE => legacy.tid = Some(number as i32),
                _ => {}
            }
        }
        legacy
    }
}
