//! Encodes frames byte for byte as upstream does: members in declaration order, flags always
//! present, lengths of nested messages above 127 in four redundant bytes.

use ferretto_proto::fields::ipc_frame as fields;
use ferretto_proto::fields::ipc_frame::bind_service_reply::{self, method_info};
use ferretto_proto::fields::ipc_frame::{invoke_method, invoke_method_reply, set_peer_identity};
use ferretto_wire::{encode_varint, redundant_length, varint_length};

use super::{HEADER_SIZE, Identity, MAX_PAYLOAD_SIZE};

/// A frame that is being encoded, with its buffer.
#[derive(Debug)]
struct FrameEncoder {
    bytes: Vec<u8>,
}

impl FrameEncoder {
    /// Encodes a frame with one member, whose fields `write` appends.
    fn frame(
        request_id: u64,
        member: u32,
        capacity: usize,
        write: impl FnOnce(&mut Self),
    ) -> Vec<u8> {
        let mut frame = Self {
            bytes: Vec::with_capacity(capacity + 32),
        };
        frame.bytes.extend_from_slice(&[0; HEADER_SIZE]);
        frame.varint(fields::REQUEST_ID, request_id);
        frame.nested(member, write);
        let size = frame.bytes.len() - HEADER_SIZE;
        // The out queue refuses frames that do not fit, so a clamped length is never sent.
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        frame.bytes[..HEADER_SIZE].copy_from_slice(&size.to_le_bytes());
        frame.bytes
    }

    fn tag(&mut self, field: u32, wire_type: u32) {
        self.raw_varint(u64::from(field << 3 | wire_type));
    }

    fn raw_varint(&mut self, value: u64) {
        let mut buffer = [0; 10];
        let length = encode_varint(value, &mut buffer);
        self.bytes.extend_from_slice(&buffer[..length]);
    }

    fn varint(&mut self, field: u32, value: u64) {
        self.tag(field, 0);
        self.raw_varint(value);
    }

    fn bool(&mut self, field: u32, value: bool) {
        self.varint(field, u64::from(value));
    }

    fn bytes(&mut self, field: u32, value: &[u8]) {
        self.tag(field, 2);
        self.raw_varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// Appends a byte string of known length, which `write` appends.
    fn bytes_with(&mut self, field: u32, length: usize, write: impl FnOnce(&mut Vec<u8>)) {
        self.tag(field, 2);
        self.raw_varint(length as u64);
        write(&mut self.bytes);
    }

    fn nested(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.tag(field, 2);
        let length_at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        let start = self.bytes.len();
        write(self);
        let length = self.bytes.len() - start;
        if length < 128 {
            self.bytes[length_at] = length as u8;
            self.bytes.drain(length_at + 1..start);
        } else {
            let length = u32::try_from(length).unwrap_or(u32::MAX);
            self.bytes[length_at..start].copy_from_slice(&redundant_length(length));
        }
    }
}

/// Encodes a `BindService` frame.
pub fn bind_service(request_id: u64, service_name: &str) -> Vec<u8> {
    FrameEncoder::frame(
        request_id,
        fields::MSG_BIND_SERVICE,
        service_name.len(),
        |frame| {
            frame.bytes(fields::bind_service::SERVICE_NAME, service_name.as_bytes());
        },
    )
}

/// Encodes the reply to a bind of a service that exists.
pub fn bind_service_reply(request_id: u64, service_id: u32, methods: &[(u32, &str)]) -> Vec<u8> {
    FrameEncoder::frame(request_id, fields::MSG_BIND_SERVICE_REPLY, 512, |frame| {
        frame.bool(bind_service_reply::SUCCESS, true);
        frame.varint(bind_service_reply::SERVICE_ID, service_id.into());
        for (id, name) in methods {
            frame.nested(bind_service_reply::METHODS, |method| {
                method.varint(method_info::ID, (*id).into());
                method.bytes(method_info::NAME, name.as_bytes());
            });
        }
    })
}

/// Encodes the reply to a bind of a service that does not exist.
pub fn bind_service_failed(request_id: u64) -> Vec<u8> {
    FrameEncoder::frame(request_id, fields::MSG_BIND_SERVICE_REPLY, 0, |_| {})
}

/// Encodes an `InvokeMethod` frame. `write` appends the encoded request, which is `args_size` bytes
/// long.
pub fn invoke_method(
    request_id: u64,
    service_id: u32,
    method_id: u32,
    drop_reply: bool,
    args_size: usize,
    write: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    FrameEncoder::frame(request_id, fields::MSG_INVOKE_METHOD, args_size, |frame| {
        frame.varint(invoke_method::SERVICE_ID, service_id.into());
        frame.varint(invoke_method::METHOD_ID, method_id.into());
        frame.bytes_with(invoke_method::ARGS_PROTO, args_size, write);
        frame.bool(invoke_method::DROP_REPLY, drop_reply);
    })
}

/// Encodes an `InvokeMethodReply` with the method's reply. `write` appends the encoded reply, which
/// is `reply_size` bytes long.
pub fn method_reply(
    request_id: u64,
    has_more: bool,
    reply_size: usize,
    write: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    FrameEncoder::frame(
        request_id,
        fields::MSG_INVOKE_METHOD_REPLY,
        reply_size,
        |frame| {
            frame.bool(invoke_method_reply::SUCCESS, true);
            frame.bool(invoke_method_reply::HAS_MORE, has_more);
            frame.bytes_with(invoke_method_reply::REPLY_PROTO, reply_size, write);
        },
    )
}

/// Encodes the reply of a method that refused the request.
pub fn method_rejected(request_id: u64) -> Vec<u8> {
    FrameEncoder::frame(request_id, fields::MSG_INVOKE_METHOD_REPLY, 0, |frame| {
        frame.bool(invoke_method_reply::HAS_MORE, false)
    })
}

/// Encodes the reply to a call that reached no method: unknown service or method, or malformed
/// arguments.
pub fn method_failed(request_id: u64) -> Vec<u8> {
    FrameEncoder::frame(request_id, fields::MSG_INVOKE_METHOD_REPLY, 0, |frame| {
        frame.bool(invoke_method_reply::SUCCESS, false)
    })
}

/// Encodes a `RequestError` frame.
pub fn request_error(request_id: u64, error: &str) -> Vec<u8> {
    FrameEncoder::frame(
        request_id,
        fields::MSG_REQUEST_ERROR,
        error.len(),
        |frame| {
            frame.bytes(fields::request_error::ERROR, error.as_bytes());
        },
    )
}

/// Encodes a `SetPeerIdentity` frame, whose request id is always 0.
pub fn set_peer_identity(identity: &Identity<'_>) -> Vec<u8> {
    let capacity = identity.machine_id_hint.len() + identity.machine_name.len();
    FrameEncoder::frame(0, fields::SET_PEER_IDENTITY, capacity, |frame| {
        frame.varint(set_peer_identity::PID, i64::from(identity.pid) as u64);
        frame.varint(set_peer_identity::UID, i64::from(identity.uid) as u64);
        frame.bytes(set_peer_identity::MACHINE_ID_HINT, identity.machine_id_hint);
        frame.bytes(set_peer_identity::MACHINE_NAME, identity.machine_name);
    })
}

/// Returns the size of the largest encoded reply that fits a frame.
pub(crate) const fn max_message_size(request_id: u64) -> usize {
    // Tags and lengths: request id, member, two flags and the byte string.
    let overhead =
        1 + varint_length(request_id) + 5 + 4 + 1 + varint_length(MAX_PAYLOAD_SIZE as u64);
    MAX_PAYLOAD_SIZE - overhead
}

/// Returns the size of the largest encoded request that fits a frame.
pub(crate) const fn max_request_size(request_id: u64, service_id: u32, method_id: u32) -> usize {
    let ids = varint_length(service_id as u64) + varint_length(method_id as u64) + 2;
    let overhead =
        1 + varint_length(request_id) + 5 + ids + 1 + varint_length(MAX_PAYLOAD_SIZE as u64) + 2;
    MAX_PAYLOAD_SIZE - overhead
}

#[cfg(test)]
mod tests {
    use super::super::MAX_FRAME_SIZE;
    use super::*;

    /// Returns the bytes of a dump in upstream's layout.
    fn hex(text: &str) -> Vec<u8> {
        text.split_whitespace()
            .map(|byte| u8::from_str_radix(byte, 16).unwrap())
            .collect()
    }

    #[test]
    fn frames_are_byte_for_byte_upstreams() {
        assert_eq!(
            bind_service(1, "ProducerPort"),
            hex("12 00 00 00 10 01 1a 0e 0a 0c 50 72 6f 64 75 63 65 72 50 6f 72 74")
        );
        assert_eq!(bind_service_failed(1), hex("04 00 00 00 10 01 22 00"));
        assert_eq!(
            invoke_method(3, 1, 5, false, 0, |_| {}),
            hex("0c 00 00 00 10 03 2a 08 08 01 10 05 1a 00 20 00")
        );
        assert_eq!(
            method_reply(4, false, 0, |_| {}),
            hex("0a 00 00 00 10 04 32 06 08 01 10 00 1a 00")
        );
        assert_eq!(method_failed(5), hex("06 00 00 00 10 05 32 02 08 00"));
        assert_eq!(method_rejected(5), hex("06 00 00 00 10 05 32 02 10 00"));
        assert_eq!(
            request_error(6, "unknown request"),
            hex("15 00 00 00 10 06 3a 11 0a 0f 75 6e 6b 6e 6f 77 6e 20 72 65 71 75 65 73 74")
        );
        let identity = Identity {
            pid: 4242,
            uid: 1000,
            machine_id_hint: b"0f9c6f0e-5b1c-4f5b-9a3f-8f3d0a6c1b2e",
            machine_name: b"guest-vm",
        };
        let frame = hex("3a 00 00 00 10 00 42 36 08 92 21 10 e8 07 1a 24
            30 66 39 63 36 66 30 65 2d 35 62 31 63 2d 34 66
            35 62 2d 39 61 33 66 2d 38 66 33 64 30 61 36 63
            31 62 32 65 22 08 67 75 65 73 74 2d 76 6d");
        assert_eq!(set_peer_identity(&identity), frame);
    }

    #[test]
    fn the_largest_message_fills_a_frame_and_no_more() {
        for id in [0, 127, 128, u64::MAX] {
            let size = max_message_size(id);
            let frame = method_reply(id, true, size, |out| out.resize(out.len() + size, 0));
            assert_eq!(frame.len(), MAX_FRAME_SIZE);
            let size = max_request_size(id, 1, 300);
            let frame = invoke_method(id, 1, 300, true, size, |out| {
                out.resize(out.len() + size, 0)
            });
            assert_eq!(frame.len(), MAX_FRAME_SIZE);
        }
    }
}
