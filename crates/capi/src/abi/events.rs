//! The extras that a program attaches to an event.

use std::ffi::c_char;

use super::{Fields, PerfettoTeCategoryDescriptor, PerfettoTeRegisteredTrackImpl};
use super::{PerfettoTeTimestamp, layout};

/// The header of every extra.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PerfettoTeHlExtra {
    /// The struct that starts with this header: see [`extra_type`].
    pub type_: u32,
}
layout!(PerfettoTeHlExtra, 4, type_ @ 0);

/// A null-terminated list of extras.
pub type Extras = *const *const PerfettoTeHlExtra;

/// The types of extras.
#[allow(missing_docs)]
pub mod extra_type {
    pub const REGISTERED_TRACK: u32 = 1;
    pub const NAMED_TRACK: u32 = 2;
    pub const TIMESTAMP: u32 = 3;
    pub const DYNAMIC_CATEGORY: u32 = 4;
    pub const COUNTER_INT64: u32 = 5;
    pub const COUNTER_DOUBLE: u32 = 6;
    pub const DEBUG_ARG_BOOL: u32 = 7;
    pub const DEBUG_ARG_UINT64: u32 = 8;
    pub const DEBUG_ARG_INT64: u32 = 9;
    pub const DEBUG_ARG_DOUBLE: u32 = 10;
    pub const DEBUG_ARG_STRING: u32 = 11;
    pub const DEBUG_ARG_POINTER: u32 = 12;
    pub const FLOW: u32 = 13;
    pub const TERMINATING_FLOW: u32 = 14;
    pub const FLUSH: u32 = 15;
    pub const NO_INTERN: u32 = 16;
    pub const PROTO_FIELDS: u32 = 17;
    pub const PROTO_TRACK: u32 = 18;
    pub const NESTED_TRACKS: u32 = 19;
    pub const CORRELATION_ID: u32 = 20;
    pub const CORRELATION_ID_STR: u32 = 21;
}

/// The header of every level of a nested track.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PerfettoTeHlNestedTrack {
    /// The struct that starts with this header: see [`nested_type`].
    pub type_: u32,
}
layout!(PerfettoTeHlNestedTrack, 4, type_ @ 0);

/// A null-terminated list of levels, the outermost first.
pub type Levels = *const *const PerfettoTeHlNestedTrack;

/// The types of levels.
#[allow(missing_docs)]
pub mod nested_type {
    pub const NAMED: u32 = 1;
    pub const PROTO: u32 = 2;
    pub const REGISTERED: u32 = 3;
    pub const THREAD: u32 = 4;
    pub const PROCESS: u32 = 5;
}

/// Declares a struct with a header by its members and its layout.
macro_rules! following {
    ($header:ty: $($(#[$doc:meta])* $name:ident, $size:literal { $($member:ident: $type:ty = $offset:literal),+ })+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            #[repr(C)]
            pub struct $name {
                /// The header with the type of the struct.
                pub header: $header,
                $(
                    #[allow(missing_docs)]
                    pub $member: $type,
                )+
            }
            layout!($name, $size, header @ 0 $(, $member @ $offset)+);
        )+
    };
}

following! {
    PerfettoTeHlExtra:
    /// A registered track.
    PerfettoTeHlExtraRegisteredTrack, 16 { track: *const PerfettoTeRegisteredTrackImpl = 8 }
    /// A track with a name.
    PerfettoTeHlExtraNamedTrack, 40 {
        name: *const c_char = 8, id: u64 = 16, parent_uuid: u64 = 24, is_name_static: bool = 32
    }
    /// The timestamp.
    PerfettoTeHlExtraTimestamp, 24 { timestamp: PerfettoTeTimestamp = 8 }
    /// A category without registration.
    PerfettoTeHlExtraDynamicCategory, 16 { desc: *const PerfettoTeCategoryDescriptor = 8 }
    /// A counter's value.
    PerfettoTeHlExtraCounterInt64, 16 { value: i64 = 8 }
    /// A counter's value.
    PerfettoTeHlExtraCounterDouble, 16 { value: f64 = 8 }
    /// An argument.
    PerfettoTeHlExtraDebugArgBool, 24 { name: *const c_char = 8, value: bool = 16 }
    /// An argument.
    PerfettoTeHlExtraDebugArgUint64, 24 { name: *const c_char = 8, value: u64 = 16 }
    /// An argument.
    PerfettoTeHlExtraDebugArgInt64, 24 { name: *const c_char = 8, value: i64 = 16 }
    /// An argument.
    PerfettoTeHlExtraDebugArgDouble, 24 { name: *const c_char = 8, value: f64 = 16 }
    /// An argument.
    PerfettoTeHlExtraDebugArgString, 24 { name: *const c_char = 8, value: *const c_char = 16 }
    /// An argument.
    PerfettoTeHlExtraDebugArgPointer, 24 { name: *const c_char = 8, value: usize = 16 }
    /// A flow of the event.
    PerfettoTeHlExtraFlow, 16 { id: u64 = 8 }
    /// A correlation id: a number that events have in common.
    PerfettoTeHlExtraCorrelationId, 16 { id: u64 = 8 }
    /// A correlation id: a text that events have in common.
    PerfettoTeHlExtraCorrelationIdStr, 16 { str: *const c_char = 8 }
    /// Additional fields of the event.
    PerfettoTeHlExtraProtoFields, 16 { fields: Fields = 8 }
    /// A track described by fields.
    PerfettoTeHlExtraProtoTrack, 24 { uuid: u64 = 8, fields: Fields = 16 }
    /// A track with its parents.
    PerfettoTeHlExtraNestedTracks, 16 { tracks: Levels = 8 }
}

following! {
    PerfettoTeHlNestedTrack:
    /// A level with a name.
    PerfettoTeHlNestedTrackNamed, 56 {
        name: *const c_char = 8, id: u64 = 16, is_name_static: bool = 24, sibling_order_rank: i32 = 28,
        child_ordering: u32 = 32, sibling_merge_behavior: u32 = 36, sibling_merge_key_str: *const c_char = 40,
        sibling_merge_key_int: u64 = 48
    }
    /// A level described by fields.
    PerfettoTeHlNestedTrackProto, 24 { id: u64 = 8, fields: Fields = 16 }
    /// A registered track as a level.
    PerfettoTeHlNestedTrackRegistered, 16 { track: *const PerfettoTeRegisteredTrackImpl = 8 }
}
