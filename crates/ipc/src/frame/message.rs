//! The contents of a frame, borrowed from its bytes.
//!
//! Decoding follows upstream: malformed bytes at the top level void the frame, while a malformed
//! member keeps the fields before the error. A field of the wrong wire type counts as absent.
//! Repeated members are merged.

use ferretto_proto::fields::ipc_frame as fields;
use ferretto_wire::{DecodeError, Field, Fields};

/// An `IPCFrame`.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame<'a> {
    /// Chosen by the client and echoed by the host.
    pub request_id: u64,
    /// The content of the frame.
    pub message: Message<'a>,
}

/// The member of a frame. If a frame has several, the first in the order of this list applies.
#[derive(Clone, Debug, PartialEq)]
pub enum Message<'a> {
    /// Client to host: look up a service.
    BindService {
        /// Its name, such as `ProducerPort`.
        service_name: &'a [u8],
    },
    /// Client to host: call a method.
    InvokeMethod {
        /// The id of the service, from the bind reply.
        service_id: u32,
        /// The id of the method, from the bind reply.
        method_id: u32,
        /// The encoded request.
        args: &'a [u8],
        /// Set if the client wants no reply.
        drop_reply: bool,
    },
    /// Relay to host: the identity of the process that the connection represents.
    SetPeerIdentity(Identity<'a>),
    /// Host to client: the answer to a bind.
    BindServiceReply {
        /// Set if the service exists.
        success: bool,
        /// Its id for calls.
        service_id: u32,
        /// Ids and names of its methods.
        methods: Vec<(u32, &'a [u8])>,
    },
    /// Host to client: the answer to a call.
    InvokeMethodReply {
        /// Set if `reply` is the method's reply.
        success: bool,
        /// Set if more replies to this request follow.
        has_more: bool,
        /// The encoded reply.
        reply: &'a [u8],
    },
    /// Host to client: the frame was invalid.
    RequestError {
        /// The reason.
        error: &'a [u8],
    },
    /// None of the above.
    Unknown,
}

/// The process that a relay represents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The process id on its own machine; −1 if unknown.
    pub pid: i32,
    /// The user id; −1 if unknown.
    pub uid: i32,
    /// A text that is constant for one boot of the machine; may be empty.
    pub machine_id_hint: &'a [u8],
    /// The name of the machine, for humans; not unique.
    pub machine_name: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Decodes a frame's payload.
    ///
    /// # Errors
    ///
    /// Fails if the top level of the message is malformed. Upstream ignores such a frame and
    /// continues.
    pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut request_id = 0;
        let mut members: [Option<&'a [u8]>; 6] = [None; 6];
        let mut repeated = false;
        for field in Fields::new(payload) {
            let field = field?;
            match field.number {
                fields::REQUEST_ID => request_id = field.as_u64().unwrap_or(request_id),
                fields::MSG_BIND_SERVICE..=fields::SET_PEER_IDENTITY => {
                    let slot = &mut members[(field.number - fields::MSG_BIND_SERVICE) as usize];
                    repeated |= slot.is_some();
                    // A number in its place is present but counts as empty.
                    *slot = Some(field.as_bytes().unwrap_or_default());
                }
                _ => {}
            }
        }
        let member = |number: u32| {
            members[(number - fields::MSG_BIND_SERVICE) as usize].map(|last| Member {
                payload,
                number,
                last,
                repeated,
            })
        };
        let message = if let Some(member) = member(fields::MSG_BIND_SERVICE) {
            bind_service(&member)
        } else if let Some(member) = member(fields::MSG_INVOKE_METHOD) {
            invoke_method(&member)
        } else if let Some(member) = member(fields::SET_PEER_IDENTITY) {
            Message::SetPeerIdentity(identity(&member))
        } else if let Some(member) = member(fields::MSG_BIND_SERVICE_REPLY) {
            bind_service_reply(&member)
        } else if let Some(member) = member(fields::MSG_INVOKE_METHOD_REPLY) {
            invoke_method_reply(&member)
        } else if let Some(member) = member(fields::MSG_REQUEST_ERROR) {
            request_error(&member)
        } else {
            Message::Unknown
        };
        Ok(Self {
            request_id,
            message,
        })
    }
}

/// A member of a frame, which may occur several times.
struct Member<'a> {
    payload: &'a [u8],
    number: u32,
    last: &'a [u8],
    repeated: bool,
}

impl<'a> Member<'a> {
    /// Calls `visit` with each field of each occurrence, up to the first
    /// malformed one.
    fn for_each(&self, mut visit: impl FnMut(Field<'a>)) {
        let mut visit_all = |bytes| {
            Fields::new(bytes)
                .map_while(Result::ok)
                .for_each(&mut visit)
        };
        if self.repeated {
            Fields::new(self.payload)
                .map_while(Result::ok)
                .filter(|field| field.number == self.number)
                .filter_map(|field| field.as_bytes())
                .for_each(visit_all);
        } else {
            visit_all(self.last);
        }
    }
}

fn bind_service<'a>(member: &Member<'a>) -> Message<'a> {
    let mut service_name: &[u8] = &[];
    member.for_each(|field| {
        if field.number == fields::bind_service::SERVICE_NAME {
            service_name = field.as_bytes().unwrap_or_default();
        }
    });
    Message::BindService { service_name }
}

fn bind_service_reply<'a>(member: &Member<'a>) -> Message<'a> {
    let (mut success, mut service_id, mut methods) = (false, 0, Vec::new());
    member.for_each(|field| match field.number {
        fields::bind_service_reply::SUCCESS => success = field.as_bool().unwrap_or(success),
        fields::bind_service_reply::SERVICE_ID => service_id = field.as_u32().unwrap_or(service_id),
        fields::bind_service_reply::METHODS => {
            methods.push(method_info(field.as_bytes().unwrap_or_default()))
        }
        _ => {}
    });
    Message::BindServiceReply {
        success,
        service_id,
        methods,
    }
}

fn method_info(bytes: &[u8]) -> (u32, &[u8]) {
    let (mut id, mut name): (u32, &[u8]) = (0, &[]);
    for field in Fields::new(bytes).map_while(Result::ok) {
        match field.number {
            fields::bind_service_reply::method_info::ID => id = field.as_u32().unwrap_or(id),
            fields::bind_service_reply::method_info::NAME => {
                name = field.as_bytes().unwrap_or_default()
            }
            _ => {}
        }
    }
    (id, name)
}

fn invoke_method<'a>(member: &Member<'a>) -> Message<'a> {
    let (mut service_id, mut method_id, mut drop_reply) = (0, 0, false);
    let mut args: &[u8] = &[];
    member.for_each(|field| match field.number {
        fields::invoke_method::SERVICE_ID => service_id = field.as_u32().unwrap_or(service_id),
        fields::invoke_method::METHOD_ID => method_id = field.as_u32().unwrap_or(method_id),
        fields::invoke_method::ARGS_PROTO => args = field.as_bytes().unwrap_or_default(),
        fields::invoke_method::DROP_REPLY => drop_reply = field.as_bool().unwrap_or(drop_reply),
        _ => {}
    });
    Message::InvokeMethod {
        service_id,
        method_id,
        args,
        drop_reply,
    }
}

fn invoke_method_reply<'a>(member: &Member<'a>) -> Message<'a> {
    let (mut success, mut has_more) = (false, false);
    let mut reply: &[u8] = &[];
    member.for_each(|field| match field.number {
        fields::invoke_method_reply::SUCCESS => success = field.as_bool().unwrap_or(success),
        fields::invoke_method_reply::HAS_MORE => has_more = field.as_bool().unwrap_or(has_more),
        fields::invoke_method_reply::REPLY_PROTO => reply = field.as_bytes().unwrap_or_default(),
        _ => {}
    });
    Message::InvokeMethodReply {
        success,
        has_more,
        reply,
    }
}

fn request_error<'a>(member: &Member<'a>) -> Message<'a> {
    let mut error: &[u8] = &[];
    member.for_each(|field| {
        if field.number == fields::request_error::ERROR {
            error = field.as_bytes().unwrap_or_default();
        }
    });
    Message::RequestError { error }
}

fn identity<'a>(member: &Member<'a>) -> Identity<'a> {
    let mut identity = Identity::default();
    member.for_each(|field| match field.number {
        fields::set_peer_identity::PID => {
            identity.pid = field.as_i64().map_or(identity.pid, |pid| pid as i32)
        }
        fields::set_peer_identity::UID => {
            identity.uid = field.as_i64().map_or(identity.uid, |uid| uid as i32)
        }
        fields::set_peer_identity::MACHINE_ID_HINT => {
            identity.machine_id_hint = field.as_bytes().unwrap_or_default()
        }
        fields::set_peer_identity::MACHINE_NAME => {
            identity.machine_name = field.as_bytes().unwrap_or_default()
        }
        _ => {}
    });
    identity
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipc_009_a_wrong_wire_type_reads_as_absent() {
        // request_id as bytes, then a bind with a number for its name.
        let frame = Frame::decode(b"\x12\x03abc\x1a\x02\x08\x05").unwrap();
        assert_eq!(frame.request_id, 0);
        assert_eq!(frame.message, Message::BindService { service_name: b"" });
        // The whole member as a number.
        let frame = Frame::decode(b"\x28\x07").unwrap();
        let empty = Message::InvokeMethod {
            service_id: 0,
            method_id: 0,
            args: b"",
            drop_reply: false,
        };
        assert_eq!(frame.message, empty);
    }

    #[test]
    fn ipc_005_malformed_at_the_top_voids_the_frame() {
        for bytes in [
            &b"\x1a\x05ab"[..],
            b"\x10\x80",
            b"\x0b",
            b"\x00",
            b"\xff\xff",
        ] {
            assert!(Frame::decode(bytes).is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn a_malformed_member_keeps_the_fields_before_the_error() {
        let frame = Frame::decode(b"\x10\x01\x2a\x05\x08\x01\x10\x05\xff").unwrap();
        let kept = Message::InvokeMethod {
            service_id: 1,
            method_id: 5,
            args: b"",
            drop_reply: false,
        };
        assert_eq!(frame.message, kept);
    }

    #[test]
    fn ipc_008_redundant_lengths_are_accepted_at_every_level() {
        let frame = Frame::decode(
            b"\x10\x03\x32\x8d\x80\x80\x00\x08\x01\x10\x01\x1a\x87\x80\x80\x00abcdefg",
        );
        // The member's length (13) is shorter than its contents here, so that the reply is
        // truncated; with the right length it is complete.
        assert!(frame.is_err());
        let frame = Frame::decode(
            b"\x10\x03\x32\x90\x80\x80\x00\x08\x01\x10\x01\x1a\x87\x80\x80\x00abcdefg",
        )
        .unwrap();
        let reply = Message::InvokeMethodReply {
            success: true,
            has_more: true,
            reply: b"abcdefg",
        };
        assert_eq!(frame.message, reply);
    }

    #[test]
    fn the_first_known_member_applies_and_repetitions_are_merged() {
        let frame = Frame::decode(b"\x2a\x02\x08\x01\x1a\x03\x0a\x01x\x2a\x02\x10\x02").unwrap();
        assert_eq!(frame.message, Message::BindService { service_name: b"x" });
        let frame = Frame::decode(b"\x2a\x02\x08\x01\x2a\x02\x10\x02").unwrap();
        let merged = Message::InvokeMethod {
            service_id: 1,
            method_id: 2,
            args: b"",
            drop_reply: false,
        };
        assert_eq!(frame.message, merged);
    }
}
