//! Frames: a little-endian `u32` length, then that many bytes of `IPCFrame`.

mod decoder;
mod encode;
mod message;

pub use decoder::{FrameDecoder, FrameTooLarge};
pub use encode::{
    bind_service, bind_service_failed, bind_service_reply, invoke_method, method_failed,
    method_rejected, method_reply, request_error, set_peer_identity,
};
pub(crate) use encode::{max_message_size, max_request_size};
pub use message::{Frame, Identity, Message};

/// The length prefix of a frame, in bytes.
pub const HEADER_SIZE: usize = 4;
/// The largest frame on the wire, length prefix included.
pub const MAX_FRAME_SIZE: usize = 128 * 1024;
/// The largest `IPCFrame` in a frame.
pub const MAX_PAYLOAD_SIZE: usize = MAX_FRAME_SIZE - HEADER_SIZE;
