//! The non-opaque structs of the interface, with checks of their memory layout.

mod events;
mod fields;

pub use events::*;
pub use fields::*;

use std::ffi::{c_char, c_void};

use crate::writer::Backing;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("the C interface only supports 64-bit machines");

/// Checks the size of a struct and the offsets of its members.
macro_rules! layout {
    ($type:ty, $size:literal $(, $member:ident @ $offset:literal)*) => {
        const _: () = {
            assert!(std::mem::size_of::<$type>() == $size);
            $(assert!(std::mem::offset_of!($type, $member) == $offset);)*
        };
    };
}
pub(crate) use layout;

/// The memory of a message: `begin..write_ptr` is written, `write_ptr..end` is free. Up to version
/// 58.
#[derive(Debug)]
#[repr(C)]
pub struct PerfettoStreamWriter {
    /// Opaque.
    pub backing: *mut Backing,
    /// The first byte.
    pub begin: *mut u8,
    /// The end of the memory.
    pub end: *mut u8,
    /// The next byte to write.
    pub write_ptr: *mut u8,
    /// The number of bytes written before `begin`.
    pub written_previously: usize,
}
layout!(PerfettoStreamWriter, 40, backing @ 0, begin @ 8, end @ 16, write_ptr @ 24, written_previously @ 32);

/// The memory of a message, after version 58.
#[derive(Debug)]
#[repr(C)]
pub struct PerfettoPbMsgWriter {
    /// The members of version 58.
    pub stream: PerfettoStreamWriter,
    /// The encoding of messages: 0 for protobuf.
    pub encoding: u32,
}
layout!(PerfettoPbMsgWriter, 48, stream @ 0, encoding @ 40);

/// The remaining bytes of a message to decode.
#[derive(Debug)]
#[repr(C)]
pub struct PerfettoPbDecoder {
    /// The next byte.
    pub read_ptr: *const u8,
    /// The end of the memory.
    pub end_ptr: *const u8,
}
layout!(PerfettoPbDecoder, 16, read_ptr @ 0, end_ptr @ 8);

/// A range of bytes in a message.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PerfettoPbDecoderDelimitedField {
    /// The first byte.
    pub start: *const u8,
    /// The number of bytes.
    pub len: usize,
}
layout!(PerfettoPbDecoderDelimitedField, 16, start @ 0, len @ 8);

/// The value of a decoded field.
#[derive(Clone, Copy)]
#[repr(C)]
pub union PerfettoPbDecoderValue {
    /// Wire type 2.
    pub delimited: PerfettoPbDecoderDelimitedField,
    /// Wire types 0 and 1.
    pub integer64: u64,
    /// Wire type 5.
    pub integer32: u32,
    /// Wire type 1.
    pub double_val: f64,
    /// Wire type 5.
    pub float_val: f32,
}

impl std::fmt::Debug for PerfettoPbDecoderValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PerfettoPbDecoderValue")
    }
}

/// A decoded field. Valid only if `status` is 0.
#[derive(Debug)]
#[repr(C)]
pub struct PerfettoPbDecoderField {
    /// 0: a field was decoded; 1: end of the message; 2: the message is malformed.
    pub status: u32,
    /// The wire type: 0, 1, 2 or 5.
    pub wire_type: u32,
    /// The number of the field.
    pub id: u32,
    /// Its value.
    pub value: PerfettoPbDecoderValue,
}
layout!(PerfettoPbDecoderField, 32, status @ 0, wire_type @ 4, id @ 8, value @ 16);

/// A timestamp with its clock.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PerfettoDsTimestamp {
    /// The clock id.
    pub clock_id: u32,
    /// The time in nanoseconds.
    pub value: u64,
}
layout!(PerfettoDsTimestamp, 16, clock_id @ 0, value @ 8);

/// A timestamp of a track event.
pub type PerfettoTeTimestamp = PerfettoDsTimestamp;

/// The position of an iteration over the instances of a data source.
#[derive(Debug)]
#[repr(C)]
pub struct PerfettoDsImplTracerIterator {
    /// The index of the instance.
    pub inst_id: u32,
    /// Opaque.
    pub tls: *mut c_void,
    /// Opaque; null at the end.
    pub tracer: *mut c_void,
}
layout!(PerfettoDsImplTracerIterator, 24, inst_id @ 0, tls @ 8, tracer @ 16);

/// The description of a category.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PerfettoTeCategoryDescriptor {
    /// The name.
    pub name: *const c_char,
    /// The description, or null.
    pub desc: *const c_char,
    /// The tags.
    pub tags: *const *const c_char,
    /// The number of tags.
    pub num_tags: usize,
}
layout!(PerfettoTeCategoryDescriptor, 32, name @ 0, desc @ 8, tags @ 16, num_tags @ 24);

/// A track with a descriptor encoded by the program.
#[derive(Debug)]
#[repr(C)]
pub struct PerfettoTeRegisteredTrackImpl {
    /// An encoded TrackDescriptor.
    pub descriptor: *const c_void,
    /// Its size.
    pub descriptor_size: usize,
    /// The uuid of the track.
    pub uuid: u64,
}
layout!(PerfettoTeRegisteredTrackImpl, 24, descriptor @ 0, descriptor_size @ 8, uuid @ 16);

/// The position of an iteration over the instances that record a category.
#[derive(Debug)]
#[repr(C)]
pub struct PerfettoTeLlImplIterator {
    /// The position among the instances.
    pub ds: PerfettoDsImplTracerIterator,
    /// Opaque.
    pub incr: *mut c_void,
    /// Opaque.
    pub tls: *mut c_void,
}
layout!(PerfettoTeLlImplIterator, 40, ds @ 0, incr @ 24, tls @ 32);
