//! Track events of a program, and their decoding.

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use ferretto_c::*;
use ferretto_trace::events::{Events, read_events};
use ferretto_wire::encode;

use super::{Session, config};

pub const BEGIN: i32 = 1;
pub const END: i32 = 2;
pub const INSTANT: i32 = 3;
pub const COUNTER: i32 = 4;
pub const STATE: i32 = 5;

/// Leaks a descriptor of a category.
pub fn describe(name: &str, tags: &[&str]) -> *mut PerfettoTeCategoryDescriptor {
    let text = |text: &str| CString::new(text).unwrap().into_raw().cast_const();
    let tags: Vec<*const c_char> = tags.iter().map(|tag| text(tag)).collect();
    let tags = tags.leak();
    Box::into_raw(Box::new(PerfettoTeCategoryDescriptor {
        name: text(name),
        desc: ptr::null(),
        tags: tags.as_ptr(),
        num_tags: tags.len(),
    }))
}

/// A registered category.
#[derive(Clone, Copy)]
pub struct Category(pub *mut PerfettoTeCategoryImpl);

// SAFETY: categories may be used from any thread.
unsafe impl Send for Category {}
// SAFETY: as above.
unsafe impl Sync for Category {}

impl Category {
    pub fn register(name: &str) -> Self {
        Self::with_tags(name, &[])
    }

    pub fn with_tags(name: &str, tags: &[&str]) -> Self {
        PerfettoTeInit();
        // SAFETY: by the contract of the headers.
        let category = Self(unsafe { PerfettoTeCategoryImplCreate(describe(name, tags)) });
        PerfettoTePublishCategories();
        category
    }

    pub fn any() -> Self {
        PerfettoTeInit();
        Self(perfetto_te_any_categories.load(Ordering::Relaxed))
    }

    pub fn is_enabled(&self) -> bool {
        // SAFETY: by the contract of the headers.
        let enabled: &AtomicBool = unsafe { &*PerfettoTeCategoryImplGetEnabled(self.0) };
        enabled.load(Ordering::Relaxed)
    }

    pub fn iid(&self) -> u64 {
        // SAFETY: by the contract of the headers.
        unsafe { PerfettoTeCategoryImplGetIid(self.0) }
    }

    /// Emits an event like the macro of the headers.
    pub fn emit(&self, type_: i32, name: Option<&CStr>, extras: &[*const PerfettoTeHlExtra]) {
        let mut list = extras.to_vec();
        list.push(ptr::null());
        let name = name.map_or(ptr::null(), CStr::as_ptr);
        if self.is_enabled() {
            // SAFETY: by the contract of the headers.
            unsafe { PerfettoTeHlEmitImpl(self.0, type_, name, list.as_ptr()) };
        }
    }

    pub fn instant(&self, name: &CStr) {
        self.emit(INSTANT, Some(name), &[]);
    }

    pub fn destroy(self) {
        // SAFETY: by the contract of the headers.
        unsafe { PerfettoTeCategoryImplDestroy(self.0) };
    }
}

/// Leaks an extra.
pub fn extra<T>(extra: T) -> *const PerfettoTeHlExtra {
    Box::into_raw(Box::new(extra)).cast_const().cast()
}

pub const fn header(type_: u32) -> PerfettoTeHlExtra {
    PerfettoTeHlExtra { type_ }
}

pub fn uint(name: Option<&'static CStr>, value: u64) -> *const PerfettoTeHlExtra {
    extra(PerfettoTeHlExtraDebugArgUint64 {
        header: header(extra_type::DEBUG_ARG_UINT64),
        name: name.map_or(ptr::null(), CStr::as_ptr),
        value,
    })
}

pub fn string(name: &'static CStr, value: &'static CStr) -> *const PerfettoTeHlExtra {
    extra(PerfettoTeHlExtraDebugArgString {
        header: header(extra_type::DEBUG_ARG_STRING),
        name: name.as_ptr(),
        value: value.as_ptr(),
    })
}

pub fn timestamp(clock_id: u32, value: u64) -> *const PerfettoTeHlExtra {
    extra(PerfettoTeHlExtraTimestamp {
        header: header(extra_type::TIMESTAMP),
        timestamp: PerfettoTeTimestamp { clock_id, value },
    })
}

/// Leaks a field.
pub fn field<T>(field: T) -> *const PerfettoTeHlProtoField {
    Box::into_raw(Box::new(field)).cast_const().cast()
}

/// Leaks a list of fields.
pub fn fields(fields: &[*const PerfettoTeHlProtoField]) -> Fields {
    let mut list = fields.to_vec();
    list.push(ptr::null());
    list.leak().as_ptr()
}

pub fn text_field(id: u32, text: &'static CStr) -> *const PerfettoTeHlProtoField {
    field(PerfettoTeHlProtoFieldCstr {
        header: PerfettoTeHlProtoField {
            type_: field_type::CSTR,
            id,
        },
        str: text.as_ptr(),
    })
}

/// Records the categories that match a pattern.
pub fn record(pattern: &str) -> Session {
    record_with(&encode(|m| m.string(2, pattern)))
}

/// Records with an encoded TrackEventConfig.
pub fn record_with(events: &[u8]) -> Session {
    Session::start(&config("track_event", |m| m.bytes(113, events)))
}

/// Returns the events of a recording.
pub fn events(packets: &[Vec<u8>]) -> Events {
    let trace = encode(|m| packets.iter().for_each(|packet| m.bytes(1, packet)));
    read_events(&*trace).unwrap()
}

/// Returns the names of the events.
pub fn names(events: &Events) -> Vec<&str> {
    events
        .events
        .iter()
        .map(|event| event.name.as_deref().unwrap_or(""))
        .collect()
}
