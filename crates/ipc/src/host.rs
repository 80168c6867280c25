//! The service's side of a connection: decodes requests from frames, and encodes replies as frames.
//! It is independent of sockets.

use std::sync::Arc;

use ferretto_format::Fnv1a;
use ferretto_wire::DecodeError as WireError;

use crate::frame::{self, Frame, FrameDecoder, FrameTooLarge, Identity, Message};
use crate::passed::PassedFd;
use crate::port::commit::Commit;
use crate::port::{self, Method as _, PortKind, PortMessage};

/// The text that upstream sends.
const UNKNOWN_REQUEST: &str = "unknown request";

/// The user id of a remote peer that has not identified itself: no user of this machine. Upstream
/// treats it as root.
pub const NOBODY: u32 = 65_534;

/// The process at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user id; [`NOBODY`] for a remote peer that has not identified itself.
    pub uid: u32,
    /// The process id; −1 if unknown.
    pub pid: i32,
    /// The id of the machine; 0 for this one.
    pub machine_id: u32,
    /// The name of the machine, for humans; may be empty.
    pub machine_name: Vec<u8>,
}

impl Peer {
    /// Returns a remote peer that has not identified itself.
    pub fn unidentified() -> Self {
        Self {
            uid: NOBODY,
            pid: -1,
            machine_id: 0,
            machine_name: Vec::new(),
        }
    }
}

/// A request of any port.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// A request to `ProducerPort`.
    Producer(port::producer::Request),
    /// A request to `ConsumerPort`. Boxed because it is rare and large, while the others are
    /// frequent and small.
    Consumer(Box<port::consumer::Request>),
    /// A request to `RelayPort`. Boxed for the same reason.
    Relay(Box<port::relay::Request>),
}

/// A method call by the peer.
#[derive(Debug)]
pub struct Incoming {
    /// The id to repeat in each reply.
    pub request_id: u64,
    /// Set if the peer wants no reply.
    pub drop_reply: bool,
    /// The call.
    pub request: Request,
    /// The descriptor that came with the frame.
    pub fd: Option<PassedFd>,
}

/// The fields of a call that its reply needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The id to repeat in each reply.
    pub request_id: u64,
    /// Set if the peer wants no reply.
    pub drop_reply: bool,
}

/// An action for received bytes. Actions are in order.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "the large one is the usual one")]
pub enum Action {
    /// The peer calls a method.
    Invoke(Incoming),
    /// Send a frame: the answer to a bind or to an invalid request.
    Send(Vec<u8>),
}

/// The service's side of one connection.
///
/// It does not remember requests: as in upstream, calls need no binding before, and ids are neither
/// checked nor stored. A peer can make it store at most one unfinished frame.
#[derive(Debug)]
pub struct Connection {
    services: Arc<[PortKind]>,
    decoder: FrameDecoder,
    peer: Peer,
    remote: Option<Remote>,
}

/// The state of connections from other machines.
#[derive(Debug)]
struct Remote {
    local_host: String,
    identified: bool,
}

impl Connection {
    /// Creates a connection over a UNIX socket, whose peer the kernel vouches for.
    ///
    /// `services` are those of its listening address; their ids are their positions, counted from
    /// 1.
    pub fn local(services: Arc<[PortKind]>, peer: Peer) -> Self {
        Self {
            services,
            decoder: FrameDecoder::new(),
            peer,
            remote: None,
        }
    }

    /// Creates a connection over another kind of socket, whose peer may identify itself once.
    ///
    /// `local_host` is this end's address without the port: it replaces the machine id hint of a
    /// peer without one.
    pub fn remote(services: Arc<[PortKind]>, local_host: String) -> Self {
        let remote = Some(Remote {
            local_host,
            identified: false,
        });
        Self {
            services,
            decoder: FrameDecoder::new(),
            peer: Peer::unidentified(),
            remote,
        }
    }

    /// Returns the process at the other end. It may change until the first call of a method.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns true for a remote peer that has not identified itself.
    pub fn is_unidentified(&self) -> bool {
        let remote = self.remote.as_ref();
        remote.is_some_and(|remote| !remote.identified)
    }

    /// Returns true if shared memory cannot be used with this peer.
    pub fn is_remote(&self) -> bool {
        self.remote.is_some()
    }

    /// Returns the memory of an unfinished frame in bytes.
    pub fn held(&self) -> usize {
        self.decoder.held()
    }

    /// Takes the decoder that splits received bytes into frames, for a caller that processes them
    /// with [`commit`](Self::commit) and [`take_frame`](Self::take_frame) and [puts it
    /// back](Self::put_back).
    pub fn take_decoder(&mut self) -> FrameDecoder {
        std::mem::take(&mut self.decoder)
    }

    /// Puts back the decoder from [`take_decoder`](Self::take_decoder).
    pub fn put_back(&mut self, decoder: FrameDecoder) {
        self.decoder = decoder;
    }

    /// Reads a frame into `commit` if it is a producer's commit with the [common](Commit::read)
    /// content.
    pub fn commit(&self, payload: &[u8], commit: &mut Commit) -> Option<Call> {
        let Frame {
            request_id,
            message,
        } = Frame::decode(payload).ok()?;
        let Message::InvokeMethod {
            service_id,
            method_id,
            args,
            drop_reply,
        } = message
        else {
            return None;
        };
        let is_commit = kind(&self.services, service_id) == Some(PortKind::Producer)
            && method_id == port::producer::Method::CommitData.id();
        (is_commit && commit.read(args)).then_some(Call {
            request_id,
            drop_reply,
        })
    }

    /// Returns the action for a frame; `None` if it is malformed or requires no action.
    pub fn take_frame(&mut self, payload: &[u8], fd: Option<PassedFd>) -> Option<Action> {
        let Self {
            services,
            peer,
            remote,
            ..
        } = self;
        let mut identify = |identity: &Identity<'_>| identify(peer, remote, identity);
        dispatch(services, payload, fd, &mut identify).ok()?
    }

    /// Handles the bytes and the descriptor of one receive, and calls `act` with the action for
    /// each frame that they complete.
    ///
    /// Malformed frames are ignored. A descriptor on a frame that is not a call is closed.
    ///
    /// # Errors
    ///
    /// Fails if the peer announces a frame that is too large. This receive then has no effect, and
    /// the connection must be closed.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        fd: Option<PassedFd>,
        mut act: impl FnMut(&Peer, Action),
    ) -> Result<(), FrameTooLarge> {
        let mut decoder = self.take_decoder();
        let received = decoder.decode(bytes, fd, |payload, fd| {
            if let Some(action) = self.take_frame(payload, fd) {
                act(&self.peer, action);
            }
        });
        self.put_back(decoder);
        received
    }
}

fn dispatch(
    services: &[PortKind],
    payload: &[u8],
    fd: Option<PassedFd>,
    identify: &mut dyn FnMut(&Identity<'_>),
) -> Result<Option<Action>, WireError> {
    let Frame {
        request_id,
        message,
    } = Frame::decode(payload)?;
    Ok(Some(match message {
        Message::BindService { service_name } => {
            Action::Send(bind(services, request_id, service_name))
        }
        Message::InvokeMethod {
            service_id,
            method_id,
            args,
            drop_reply,
        } => match decode_request(services, service_id, method_id, args) {
            Some(request) => Action::Invoke(Incoming {
                request_id,
                drop_reply,
                request,
                fd,
            }),
            None => Action::Send(frame::method_failed(request_id)),
        },
        Message::SetPeerIdentity(identity) => {
            identify(&identity);
            return Ok(None);
        }
        _ => Action::Send(frame::request_error(request_id, UNKNOWN_REQUEST)),
    }))
}

fn bind(services: &[PortKind], request_id: u64, name: &[u8]) -> Vec<u8> {
    let found = services
        .iter()
        .zip(1..)
        .find(|(kind, _)| kind.service_name().as_bytes() == name);
    match found {
        Some((kind, id)) => frame::bind_service_reply(request_id, id, &kind.methods()),
        None => frame::bind_service_failed(request_id),
    }
}

fn decode_request(
    services: &[PortKind],
    service: u32,
    method: u32,
    args: &[u8],
) -> Option<Request> {
    fn decode<M: PortMessage>(method: u32, args: &[u8]) -> Option<M> {
        M::decode(M::Method::from_id(method)?, args).ok()
    }
    Some(match kind(services, service)? {
        PortKind::Producer => Request::Producer(decode(method, args)?),
        PortKind::Consumer => Request::Consumer(Box::new(decode(method, args)?)),
        PortKind::Relay => Request::Relay(Box::new(decode(method, args)?)),
    })
}

/// Returns the service with this id.
fn kind(services: &[PortKind], id: u32) -> Option<PortKind> {
    let index = usize::try_from(id).ok()?.checked_sub(1)?;
    services.get(index).copied()
}

fn identify(peer: &mut Peer, remote: &mut Option<Remote>, identity: &Identity<'_>) {
    let Some(remote) = remote else { return };
    if remote.identified {
        return;
    }
    remote.identified = identity.pid != -1 || identity.uid != -1;
    let hint = match identity.machine_id_hint {
        [] => remote.local_host.as_bytes(),
        hint => hint,
    };
    *peer = Peer {
        uid: identity.uid as u32,
        pid: identity.pid,
        machine_id: machine_id(hint),
        machine_name: identity.machine_name.to_vec(),
    };
}

/// Returns the id of a machine from its hint: the low half of the 64-bit FNV-1a hash, but never 0,
/// which is this machine.
pub fn machine_id(hint: &[u8]) -> u32 {
    (Fnv1a::hash(hint) as u32).max(1)
}

/// The error of a reply that does not fit a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTooLarge {
    /// The name of the method.
    pub method: &'static str,
    /// The encoded size of the reply.
    pub size: usize,
}

ferretto_wire::error_text! {
    ReplyTooLarge {
        Self { method, size } => "the {method} reply of {size} bytes does not fit a frame",
    }
}

/// Encodes the frame of a method's reply. With `has_more`, others to the same request follow.
///
/// # Errors
///
/// Fails if the reply is larger than [`max_reply_size`].
pub fn reply_frame<M: PortMessage>(
    request_id: u64,
    reply: &M,
    has_more: bool,
) -> Result<Vec<u8>, ReplyTooLarge> {
    let size = reply.encoded_len();
    if size > max_reply_size(request_id) {
        return Err(ReplyTooLarge {
            method: reply.method().name(),
            size,
        });
    }
    Ok(frame::method_reply(request_id, has_more, size, |out| {
        reply.encode(out)
    }))
}

/// Encodes the frame of a method that refused its request.
pub fn rejection_frame(request_id: u64) -> Vec<u8> {
    frame::method_rejected(request_id)
}

/// Returns the size of the largest encoded reply to this request that fits a frame, in bytes.
pub const fn max_reply_size(request_id: u64) -> usize {
    frame::max_message_size(request_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn services(kinds: &[PortKind]) -> Arc<[PortKind]> {
        kinds.into()
    }

    fn local(kinds: &[PortKind]) -> Connection {
        let peer = Peer {
            uid: 7,
            pid: 8,
            machine_id: 0,
            machine_name: b"here".to_vec(),
        };
        Connection::local(services(kinds), peer)
    }

    fn actions(connection: &mut Connection, bytes: &[u8]) -> Vec<Action> {
        let mut actions = Vec::new();
        connection
            .receive(bytes, None, |_, action| actions.push(action))
            .unwrap();
        actions
    }

    /// Returns the single frame sent in answer.
    fn answer(connection: &mut Connection, bytes: &[u8]) -> Vec<u8> {
        match actions(connection, bytes).as_slice() {
            [Action::Send(frame)] => frame.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ipc_011_binding_returns_the_method_tables() {
        for (kind, count) in [(PortKind::Producer, 12), (PortKind::Consumer, 15)] {
            let reply = answer(
                &mut local(&[kind]),
                &frame::bind_service(1, kind.service_name()),
            );
            let frame = Frame::decode(&reply[4..]).unwrap();
            let Message::BindServiceReply {
                success: true,
                service_id: 1,
                methods,
            } = frame.message
            else {
                panic!("{frame:?}")
            };
            assert_eq!(methods.len(), count);
            let expected: Vec<_> = kind
                .methods()
                .into_iter()
                .map(|(id, name)| (id, name.as_bytes()))
                .collect();
            assert_eq!(methods, expected);
        }
    }

    #[test]
    fn ipc_012_only_exposed_services_can_be_bound() {
        let mut producer = local(&[PortKind::Producer]);
        for name in ["ConsumerPort", "RelayPort", "producerport", ""] {
            let reply = answer(&mut producer, &frame::bind_service(9, name));
            assert_eq!(reply, frame::bind_service_failed(9));
        }
        let mut consumer = local(&[PortKind::Consumer]);
        let reply = answer(&mut consumer, &frame::bind_service(9, "ProducerPort"));
        assert_eq!(reply, frame::bind_service_failed(9));
    }

    #[test]
    fn ipc_013_service_ids_count_from_one() {
        let mut connection = local(&[PortKind::Producer, PortKind::Relay]);
        for (name, id) in [("ProducerPort", 1), ("RelayPort", 2)] {
            let reply = answer(&mut connection, &frame::bind_service(1, name));
            let frame = Frame::decode(&reply[4..]).unwrap();
            assert!(
                matches!(frame.message, Message::BindServiceReply { service_id, .. } if service_id == id)
            );
        }
    }

    #[test]
    fn ipc_014_methods_can_be_called_without_binding() {
        let mut connection = local(&[PortKind::Producer]);
        let bytes = frame::invoke_method(3, 1, 5, false, 0, |_| {});
        let actions = actions(&mut connection, &bytes);
        let [Action::Invoke(incoming)] = actions.as_slice() else {
            panic!("{actions:?}")
        };
        let Request::Producer(request) = &incoming.request else {
            panic!("{incoming:?}")
        };
        assert_eq!(
            (incoming.request_id, request.method_name()),
            (3, "GetAsyncCommand")
        );
    }

    #[test]
    fn ipc_015_bad_calls_fail_even_when_no_reply_is_wanted() {
        let mut connection = local(&[PortKind::Producer]);
        for (service, method, args) in [
            (0, 1, &b""[..]),
            (2, 1, b""),
            (u32::MAX, 1, b""),
            (1, 0, b""),
            (1, 13, b""),
            (1, 1, b"\x0a\xff"),
        ] {
            for drop_reply in [false, true] {
                let call =
                    frame::invoke_method(5, service, method, drop_reply, args.len(), |out| {
                        out.extend_from_slice(args);
                    });
                assert_eq!(answer(&mut connection, &call), frame::method_failed(5));
            }
        }
        // The connection is still usable.
        assert_eq!(
            actions(
                &mut connection,
                &frame::invoke_method(6, 1, 11, false, 0, |_| {})
            )
            .len(),
            1
        );
    }

    #[test]
    fn ipc_016_frames_that_are_no_request_get_an_error() {
        let mut connection = local(&[PortKind::Producer]);
        let expected = frame::request_error(6, "unknown request");
        assert_eq!(
            answer(&mut connection, b"\x02\x00\x00\x00\x10\x06"),
            expected
        );
        assert_eq!(answer(&mut connection, &frame::method_failed(6)), expected);
    }

    #[test]
    fn ipc_017_request_ids_are_echoed() {
        let mut connection = local(&[PortKind::Producer]);
        for id in [5, 5, 0, 3, u64::MAX] {
            let reply = answer(&mut connection, &frame::bind_service(id, "x"));
            assert_eq!(Frame::decode(&reply[4..]).unwrap().request_id, id);
        }
    }

    #[test]
    fn ipc_005_undecodable_frames_are_dropped_in_silence() {
        let mut connection = local(&[PortKind::Producer]);
        let bytes = [
            &b"\x02\x00\x00\x00\x10\x80"[..],
            &frame::bind_service(1, "x"),
        ]
        .concat();
        assert_eq!(actions(&mut connection, &bytes).len(), 1);
    }

    #[test]
    fn ipc_031_relay_007_a_local_peer_cannot_change_its_identity() {
        let mut connection = local(&[PortKind::Producer]);
        let before = connection.peer().clone();
        let identity = Identity {
            pid: 1,
            uid: 0,
            machine_id_hint: b"h",
            machine_name: b"n",
        };
        assert!(actions(&mut connection, &frame::set_peer_identity(&identity)).is_empty());
        assert_eq!(*connection.peer(), before);
    }

    #[test]
    fn ipc_032_relay_008_a_remote_peer_identifies_itself_once() {
        let mut connection = Connection::remote(services(&[PortKind::Producer]), "10.0.0.1".into());
        assert_eq!(*connection.peer(), Peer::unidentified());
        let mut say = |pid, uid, hint: &[u8]| {
            let identity = Identity {
                pid,
                uid,
                machine_id_hint: hint,
                machine_name: b"guest",
            };
            actions(&mut connection, &frame::set_peer_identity(&identity));
            connection.peer().clone()
        };
        // Says nothing about the process, so it does not count as the identification.
        assert_eq!(say(-1, -1, b"").machine_id, machine_id(b"10.0.0.1"));
        let peer = say(42, 1000, b"test_machine_id_hint");
        assert_eq!(
            (peer.pid, peer.uid, peer.machine_id),
            (42, 1000, 3_820_972_779)
        );
        assert_eq!(peer.machine_name, b"guest");
        assert_eq!(say(1, 0, b"other"), peer);
    }

    #[test]
    fn ipc_032_relay_006_machine_ids_are_upstreams() {
        assert_eq!(machine_id(b"test_machine_id_hint"), 3_820_972_779);
        assert_eq!(
            machine_id(b"0f9c6f0e-5b1c-4f5b-9a3f-8f3d0a6c1b2e"),
            3_065_374_638
        );
    }
}
