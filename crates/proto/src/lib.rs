//! The Perfetto schema: generated messages, field numbers and the descriptor set.
//!
//! # Guarantees
//!
//! * Names, numbers, types and labels are upstream's: they are the ABI.
//! * A message that is decoded and encoded again keeps the fields and the enum
//!   values it does not know, byte for byte, behind the fields it knows.
//! * `string` fields are byte vectors: nothing is refused for not being UTF-8.
//! * The configs of single data sources inside [`DataSourceConfig`], and the parts of
//!   [`DataSourceDescriptor`] for single sources, are left encoded, as bytes: they are passed on
//!   unchanged, and producers compare them. Write them with `FtraceConfig { .. }.encode_to_vec()`
//!   and read them with [`decode_lazy`].
//! * Repeated numbers are written unpacked unless the schema says packed, and
//!   are read either way.
//! * Decoding never panics and never allocates out of proportion to its input: messages nest at
//!   most a hundred deep, and values that are small encoded but large in memory, such as empty
//!   messages, take at most 32 MiB.
//! * Malformed input is refused with a [`DecodeError`] that names the message.
//!
//! # Types to know
//!
//! [`TraceConfig`] is a consumer's request and [`IPCFrame`] is a message on a socket; with the
//! feature `trace` there is `TracePacket` too. Every type of the package `perfetto.protos` is at
//! the root of this crate, and nested types are in modules named after their parent, such as
//! [`trace_config::BufferConfig`]. A `oneof` is an enum in the module of its message, such as
//! [`ipc_frame::Msg`].
//!
//! [`fields`] has the field numbers, for code that encodes or decodes by hand.
//!
//! # Features
//!
//! By default there are the messages of the sockets, of the configuration and those that the
//! service itself writes, to keep the build short. `sources` adds the configs and descriptors of
//! the Linux data sources, `trace` these and `TracePacket` with their messages, track events and
//! profiles. `views` adds the module `views`, borrowed views of messages for readers. `descriptors`
//! adds `DESCRIPTORS`: the complete schema, also of messages without a Rust type here (Android,
//! Chrome, GPU, rare kernel events), and the field numbers of that. To the Rust types such fields
//! are unknown ones, and so they are kept.
#![forbid(unsafe_code)]

mod runtime;
#[cfg(feature = "views")]
mod view;

pub use runtime::{DecodeError, Enumeration, Message, MessageField, UnknownField, UnknownFields};

/// Decodes a field that is left encoded, such as [`DataSourceConfig::ftrace_config`].
/// An absent field is the message without any fields.
///
/// # Errors
///
/// Fails if the bytes are not such a message.
pub fn decode_lazy<M: Message>(field: &Option<Vec<u8>>) -> Result<M, DecodeError> {
    M::decode_from_slice(field.as_deref().unwrap_or_default())
}

/// Field numbers, one module for each message, nested as messages are.
#[rustfmt::skip]
#[allow(missing_docs)]
#[path = "generated/fields.rs"]
pub mod fields;

/// Borrowed views of the messages that readers of traces use: the fields of one message, read in
/// one pass without allocation. Messages inside it stay encoded.
///
/// Views accept any bytes: they have the fields before the first malformed one, and fields of an
/// unexpected type are left out.
#[cfg(feature = "views")]
#[rustfmt::skip]
#[allow(missing_docs, unused_imports, unused_variables, clippy::single_match)]
#[path = "generated/views.rs"]
pub mod views;

#[cfg(feature = "views")]
pub use view::{Element, Elements, Number, Repeated};

#[rustfmt::skip]
#[allow(missing_docs, unused_imports, unused_qualifications, unreachable_pub, dead_code)]
#[allow(non_camel_case_types, clippy::all, clippy::pedantic, clippy::nursery, rustdoc::all)]
#[path = "generated/messages.rs"]
mod generated;

pub use generated::*;

/// The whole schema: an encoded `google.protobuf.FileDescriptorSet`, files in
/// order of dependency.
#[cfg(feature = "descriptors")]
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");

/// The fields that Android, Chrome and GPU libraries add to packets, interned data and track
/// events, and their messages: an encoded `google.protobuf.FileDescriptorSet` of these files alone.
#[cfg(feature = "descriptors")]
pub const EXTENSION_DESCRIPTORS: &[u8] = include_bytes!("generated/extensions.bin");
