//! Events that the library writes completely.

use std::ffi::c_char;

use ferretto_engine::{EventBuffer, EventEncoder};
use ferretto_engine::{bits, point};
use ferretto_proto::fields::{debug_annotation, interned_data, trace_packet, track_event as field};

use super::category::PerfettoTeCategoryImpl;
use super::interner::Interner;
use super::sequence::now_timestamp;
use super::source::SLOTS;
use super::thread::Entry;
use super::tracks::{Describer, Track};
use super::{fields, list, text};
use crate::abi::*;
use crate::thread;

/// The types of events.
const SLICE_END: i32 = 2;
const COUNTER: i32 = 4;
const STATE: i32 = 5;

/// An event as a program describes it.
#[derive(Clone, Copy)]
struct Event {
    category: *const PerfettoTeCategoryImpl,
    type_: i32,
    name: *const c_char,
    extras: Extras,
    track: Track,
    time: Option<PerfettoTeTimestamp>,
    /// A dynamic category instead of `category`.
    dynamic: *const PerfettoTeCategoryDescriptor,
    is_name_interned: bool,
    flush: bool,
    /// A bit for each type of extra.
    kinds: u32,
}

/// The types of extras in groups whose order is kept.
const ARGUMENTS: u32 = 1 << extra_type::DEBUG_ARG_BOOL
    | 1 << extra_type::DEBUG_ARG_UINT64
    | 1 << extra_type::DEBUG_ARG_INT64
    | 1 << extra_type::DEBUG_ARG_DOUBLE
    | 1 << extra_type::DEBUG_ARG_STRING
    | 1 << extra_type::DEBUG_ARG_POINTER;
const VALUES: u32 = 1 << extra_type::COUNTER_INT64 | 1 << extra_type::COUNTER_DOUBLE;
const FLOWS: u32 = 1 << extra_type::FLOW;
const TERMINATING_FLOWS: u32 = 1 << extra_type::TERMINATING_FLOW;
const CORRELATIONS: u32 = 1 << extra_type::CORRELATION_ID | 1 << extra_type::CORRELATION_ID_STR;
const FIELDS: u32 = 1 << extra_type::PROTO_FIELDS;

impl Event {
    /// Reads the attached extras. If an extra that may occur once is repeated, the last one is
    /// used.
    ///
    /// # Safety
    ///
    /// The pointers are null or valid, with all data they point to.
    unsafe fn new(
        category: *const PerfettoTeCategoryImpl,
        type_: i32,
        name: *const c_char,
        extras: Extras,
    ) -> Self {
        let mut event = Self {
            category,
            type_,
            name,
            extras,
            track: Track::Thread,
            time: None,
            dynamic: std::ptr::null(),
            is_name_interned: true,
            flush: false,
            kinds: 0,
        };
        // SAFETY: by contract; each extra is the header of the struct for its type.
        unsafe { list(extras).for_each(|extra| event.note(extra)) };
        event
    }

    /// # Safety
    ///
    /// As for [`new`](Self::new).
    unsafe fn note(&mut self, extra: *const PerfettoTeHlExtra) {
        // SAFETY: by contract.
        unsafe {
            let kind = (*extra).type_;
            self.kinds |= 1u32.checked_shl(kind).unwrap_or(0);
            match kind {
                extra_type::REGISTERED_TRACK => {
                    self.track = Track::Registered(
                        (*extra.cast::<PerfettoTeHlExtraRegisteredTrack>()).track,
                    );
                }
                extra_type::NAMED_TRACK => self.track = Track::Named(extra.cast()),
                extra_type::PROTO_TRACK => self.track = Track::Proto(extra.cast()),
                extra_type::NESTED_TRACKS => {
                    self.track =
                        Track::Nested((*extra.cast::<PerfettoTeHlExtraNestedTracks>()).tracks);
                }
                extra_type::TIMESTAMP => {
                    self.time = Some((*extra.cast::<PerfettoTeHlExtraTimestamp>()).timestamp);
                }
                extra_type::DYNAMIC_CATEGORY => {
                    self.dynamic = (*extra.cast::<PerfettoTeHlExtraDynamicCategory>()).desc;
                }
                extra_type::NO_INTERN => self.is_name_interned = false,
                extra_type::FLUSH => self.flush = true,
                _ => {}
            }
        }
    }

    /// Writes the event into a recording.
    ///
    /// # Safety
    ///
    /// As for [`new`](Self::new).
    unsafe fn write(&self, entry: &mut Entry, buffer: &mut EventBuffer, time: PerfettoTeTimestamp) {
        let Entry { tracer, sequence } = entry;
        let writer = &mut tracer.writer;
        // SAFETY: by contract.
        unsafe {
            if let Some(dynamic) = self.dynamic.as_ref()
                && !sequence.wants(dynamic)
            {
                return;
            }
            if !sequence.prepare(writer, buffer, time) {
                return;
            }
            let track = match self.track {
                Track::Thread => None,
                track => Describer {
                    sequence,
                    writer,
                    buffer,
                }
                .describe(track),
            };
            let mut packet = sequence.packet(buffer, time);
            let interner = &mut sequence.interner;
            packet.nested(trace_packet::TRACK_EVENT, |event| {
                self.write_fields(event, interner, track)
            });
            interner.new_entries().write_to(&mut packet);
        }
        writer.write_packet(buffer.written());
        if self.flush {
            ferretto_engine::wait_for_continued();
            writer.flush(None);
        }
    }

    /// # Safety
    ///
    /// As for [`write`](Self::write).
    #[inline]
    unsafe fn write_fields(
        &self,
        event: &mut EventEncoder<'_>,
        interner: &mut Interner,
        track: Option<u64>,
    ) {
        if (1..=STATE).contains(&self.type_) {
            event.varint(field::TYPE, self.type_ as u64);
        }
        // SAFETY: by contract.
        unsafe {
            let has_category = !matches!(self.type_, SLICE_END | COUNTER);
            if has_category && self.dynamic.is_null() {
                self.write_category(event, interner);
            }
            if self.type_ != SLICE_END && !self.name.is_null() {
                if self.is_name_interned {
                    let iid = interner.text(interned_data::EVENT_NAMES, self.name);
                    event.varint(field::NAME_IID, iid);
                } else {
                    event.bytes(field::NAME, text(self.name).unwrap_or_default());
                }
            }
            if has_category && let Some(dynamic) = self.dynamic.as_ref() {
                event.bytes(field::CATEGORIES, text(dynamic.name).unwrap_or_default());
            }
            if let Some(track) = track {
                event.varint(field::TRACK_UUID, track);
            }
            if self.kinds & !(1 << extra_type::NO_INTERN | 1 << extra_type::FLUSH) != 0 {
                self.write_extras(event, interner);
            }
        }
    }

    /// # Safety
    ///
    /// As for [`write`](Self::write).
    #[inline]
    unsafe fn write_category(&self, event: &mut EventEncoder<'_>, interner: &mut Interner) {
        // SAFETY: by contract.
        let category = unsafe { &*self.category };
        let iid = category.iid();
        if iid == 0 {
            // The category stands for all categories, and has no name.
            return;
        }
        if !interner.has_category(iid) {
            // SAFETY: by contract; programs keep descriptors for as long as their categories.
            let name = unsafe {
                category
                    .descriptor()
                    .and_then(|descriptor| text(descriptor.name))
            };
            let table = interned_data::EVENT_CATEGORIES;
            let new = interner.new_entries();
            new.add_text(table, iid, name.unwrap_or_default());
        }
        event.varint(field::CATEGORY_IIDS, iid);
    }

    /// Writes the attached extras grouped by type, each group in the order of the list.
    ///
    /// # Safety
    ///
    /// As for [`write`](Self::write).
    unsafe fn write_extras(&self, event: &mut EventEncoder<'_>, interner: &mut Interner) {
        let order = [
            VALUES,
            ARGUMENTS,
            FLOWS,
            TERMINATING_FLOWS,
            CORRELATIONS,
            FIELDS,
        ];
        for kinds in order.into_iter().filter(|kinds| self.kinds & kinds != 0) {
            // SAFETY: by contract.
            unsafe {
                for extra in list(self.extras) {
                    if 1u32.checked_shl((*extra).type_).unwrap_or(0) & kinds != 0 {
                        self.write_extra(event, interner, extra);
                    }
                }
            }
        }
    }

    /// # Safety
    ///
    /// `extra` is the header of the struct for its type, valid with all data it points to.
    #[inline]
    unsafe fn write_extra(
        &self,
        event: &mut EventEncoder<'_>,
        interner: &mut Interner,
        extra: *const PerfettoTeHlExtra,
    ) {
        // SAFETY: by contract.
        unsafe {
            match (*extra).type_ {
                extra_type::COUNTER_INT64 if self.type_ == COUNTER => {
                    let value = (*extra.cast::<PerfettoTeHlExtraCounterInt64>()).value;
                    event.int(field::COUNTER_VALUE, value);
                }
                extra_type::COUNTER_DOUBLE => {
                    let value = (*extra.cast::<PerfettoTeHlExtraCounterDouble>()).value;
                    event.double(field::DOUBLE_COUNTER_VALUE, value);
                }
                extra_type::FLOW => {
                    event.fixed64(field::FLOW_IDS, (*extra.cast::<PerfettoTeHlExtraFlow>()).id);
                }
                extra_type::TERMINATING_FLOW => {
                    let id = (*extra.cast::<PerfettoTeHlExtraFlow>()).id;
                    event.fixed64(field::TERMINATING_FLOW_IDS, id);
                }
                extra_type::CORRELATION_ID => {
                    let id = (*extra.cast::<PerfettoTeHlExtraCorrelationId>()).id;
                    event.varint(field::CORRELATION_ID, id);
                }
                extra_type::CORRELATION_ID_STR => {
                    let id = text((*extra.cast::<PerfettoTeHlExtraCorrelationIdStr>()).str);
                    event.bytes(field::CORRELATION_ID_STR, id.unwrap_or_default());
                }
                extra_type::PROTO_FIELDS => {
                    let list = (*extra.cast::<PerfettoTeHlExtraProtoFields>()).fields;
                    fields::write(event, interner, list);
                }
                kind if 1 << kind & ARGUMENTS != 0 => write_argument(event, interner, extra),
                _ => {}
            }
        }
    }
}

/// Writes an argument.
///
/// # Safety
///
/// `extra` is the header of the struct for its type, which is an argument, valid with all data it
/// points to.
#[inline]
unsafe fn write_argument(
    event: &mut EventEncoder<'_>,
    interner: &mut Interner,
    extra: *const PerfettoTeHlExtra,
) {
    use debug_annotation as field;
    // SAFETY: by contract; the name has the same offset in all types.
    unsafe {
        let name = (*extra.cast::<PerfettoTeHlExtraDebugArgBool>()).name;
        event.nested(super::emit::field::DEBUG_ANNOTATIONS, |argument| {
            match (*extra).type_ {
                extra_type::DEBUG_ARG_BOOL => {
                    let value = (*extra.cast::<PerfettoTeHlExtraDebugArgBool>()).value;
                    argument.bool(field::BOOL_VALUE, value);
                }
                extra_type::DEBUG_ARG_UINT64 => {
                    let value = (*extra.cast::<PerfettoTeHlExtraDebugArgUint64>()).value;
                    argument.varint(field::UINT_VALUE, value);
                }
                extra_type::DEBUG_ARG_INT64 => {
                    let value = (*extra.cast::<PerfettoTeHlExtraDebugArgInt64>()).value;
                    argument.int(field::INT_VALUE, value);
                }
                extra_type::DEBUG_ARG_DOUBLE => {
                    let value = (*extra.cast::<PerfettoTeHlExtraDebugArgDouble>()).value;
                    argument.double(field::DOUBLE_VALUE, value);
                }
                extra_type::DEBUG_ARG_STRING => {
                    let value = text((*extra.cast::<PerfettoTeHlExtraDebugArgString>()).value);
                    argument.bytes(field::STRING_VALUE, value.unwrap_or_default());
                }
                _ => {
                    let value = (*extra.cast::<PerfettoTeHlExtraDebugArgPointer>()).value;
                    argument.varint(field::POINTER_VALUE, value as u64);
                }
            }
            if !name.is_null() {
                let iid = interner.text(interned_data::DEBUG_ANNOTATION_NAMES, name);
                argument.varint(field::NAME_IID, iid);
            }
        });
    }
}

/// Writes an event to every recording of its category.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTeHlEmitImpl(
    cat: *mut PerfettoTeCategoryImpl,
    type_: i32,
    name: *const c_char,
    extra_data: Extras,
) {
    // SAFETY: by the contract of the crate.
    let Some(category) = (unsafe { cat.as_ref() }) else {
        return;
    };
    let instances = recording(category);
    if instances == 0 {
        return;
    }
    let Some(_inside) = point::enter() else {
        return;
    };
    let thread = thread::current();
    if thread.is_null() {
        return;
    }
    // SAFETY: the state belongs to this thread, and the trace point prevents other uses; no
    // callbacks of the program are called here.
    let events = unsafe { &mut (*thread).events };
    // SAFETY: by the contract of the crate.
    let event = unsafe { Event::new(cat, type_, name, extra_data) };
    let time = event.time.unwrap_or_else(now_timestamp);
    for slot in bits(instances) {
        if let Some((entry, buffer)) = events.entry(slot) {
            // SAFETY: by the contract of the crate.
            unsafe { event.write(entry, buffer, time) };
        }
    }
}

/// Returns the recordings of a category. A forked child first determines its recordings.
#[inline]
pub(super) fn recording(category: &PerfettoTeCategoryImpl) -> u32 {
    if category.flag.is_unknown() {
        // Resets the flag, through `forked`.
        SLOTS.recording();
    }
    category.flag.instances()
}
