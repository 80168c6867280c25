//! Recorded conversations of upstream's programs with upstream's `traced`, replayed against this
//! service. Its answers must be the same, apart from values that differ in each run.
//!
//! The recordings are those of `ferretto-ipc`, whose tests only check the frames. They lack the
//! contents of shared memory, so that only the service's own packets in traces are compared.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use crate::common::{TestHost, wait};
use ferretto_host::RelayEndpoints;
use ferretto_ipc::Address;
use ferretto_ipc::frame::{self, Frame, Message};
use ferretto_ipc::port::{Method as _, PortKind, consumer, producer, relay};
use ferretto_ipc::socket::{Received, Socket};
use ferretto_proto::get_async_command_response::Cmd;
use ferretto_proto::{
    CommitDataRequest, GetAsyncCommandResponse, Message as _, ReadBuffersResponse,
    TracingServiceState, UnknownFields,
};
use ferretto_shm::Region;
use ferretto_wire::Fields;
use rustix::event::PollFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// One recorded frame.
struct Record {
    connection: [u8; 2],
    to_service: bool,
    fds: usize,
    bytes: Vec<u8>,
}

fn records(name: &str) -> Vec<Record> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ipc/tests/data");
    let bytes = std::fs::read(folder.join(name).with_extension("frames")).unwrap();
    let mut rest = &bytes[..];
    let mut records = Vec::new();
    while let [first, second, direction, fds, after @ ..] = rest {
        let size = u32::from_le_bytes(after[..4].try_into().unwrap()) as usize + 4;
        records.push(Record {
            connection: [*first, *second],
            to_service: *direction == b'>',
            fds: usize::from(fds - b'0'),
            bytes: shorten(&after[..size]),
        });
        rest = &after[size..];
    }
    records
}

/// Shortens sessions of two or three seconds to a quarter or half of one. `duration_ms` and
/// `trace_duration_ms` have the same number, and the varints the same length.
fn shorten(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if frame.len() < 200 {
        for start in 0..frame.len().saturating_sub(2) {
            match &mut frame[start..start + 3] {
                [0x18, duration @ ..] if *duration == [0xd0, 0x0f] => {
                    duration.copy_from_slice(&[0xfa, 0x01]);
                }
                [0x18, duration @ ..] if *duration == [0xb8, 0x17] => {
                    duration.copy_from_slice(&[0xf4, 0x03]);
                }
                _ => {}
            }
        }
    }
    frame
}

/// One client of the recording.
struct Peer {
    socket: Socket,
    /// Set if it is a producer that did not identify its machine.
    is_tcp: bool,
    binds: HashMap<u64, PortKind>,
    services: HashMap<u32, PortKind>,
    calls: HashMap<u64, (PortKind, u32)>,
    /// Frames that came before they were expected.
    early: VecDeque<(Vec<u8>, usize)>,
}

impl Peer {
    fn new(socket: Socket) -> Self {
        Self {
            is_tcp: !socket.is_unix(),
            socket,
            binds: HashMap::new(),
            services: HashMap::new(),
            calls: HashMap::new(),
            early: VecDeque::new(),
        }
    }

    /// Remembers a request, to interpret its answer.
    fn note(&mut self, frame: &Frame<'_>) {
        match frame.message {
            Message::SetPeerIdentity(_) => self.is_tcp = false,
            Message::BindService { service_name } => {
                let kinds = [PortKind::Producer, PortKind::Consumer, PortKind::Relay];
                let kind = kinds
                    .into_iter()
                    .find(|kind| kind.service_name().as_bytes() == service_name);
                self.binds.insert(frame.request_id, kind.unwrap());
            }
            Message::BindServiceReply { service_id, .. } => {
                let kind = self.binds[&frame.request_id];
                self.services.insert(service_id, kind);
            }
            Message::InvokeMethod {
                service_id,
                method_id,
                ..
            } => {
                let call = (self.services[&service_id], method_id);
                self.calls.insert(frame.request_id, call);
            }
            _ => {}
        }
    }

    /// Returns true if this answers EnableTracing.
    fn ends_session(&self, answer: &Frame<'_>) -> bool {
        let enable = (PortKind::Consumer, consumer::Method::EnableTracing.id());
        self.calls.get(&answer.request_id) == Some(&enable)
    }

    fn send(&self, bytes: &[u8], fd: Option<&OwnedFd>) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = fd.map(|fd| [fd.as_fd()]);
        if let Some(fds) = &fds {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        }
        let slices = [IoSlice::new(bytes)];
        let sent = sendmsg(&self.socket, &slices, &mut control, SendFlags::NOSIGNAL).unwrap();
        assert_eq!(sent, bytes.len());
    }

    /// Waits until the service has processed earlier messages: it answers a call of an unknown
    /// service at once.
    fn sync(&mut self) {
        const UNUSED: u64 = 1 << 40;
        self.send(&frame::invoke_method(UNUSED, 0, 1, false, 0, |_| {}), None);
        loop {
            let received = self.receive_any();
            if Frame::decode(&received.0[4..]).unwrap().request_id == UNUSED {
                return;
            }
            self.early.push_back(received);
        }
    }

    /// Returns the next frame, with its number of descriptors. A producer over TCP that is asked to
    /// flush its memory does so: upstream asks only producers behind relays.
    fn receive(&mut self) -> (Vec<u8>, usize) {
        loop {
            let received = match self.early.pop_front() {
                Some(received) => received,
                None => self.receive_any(),
            };
            let frame = Frame::decode(&received.0[4..]).unwrap();
            let Some(flush) = self.is_tcp.then(|| flush_of_memory(&frame)).flatten() else {
                return received;
            };
            let commit = CommitDataRequest {
                flush_request_id: Some(flush),
                ..Default::default()
            };
            let size = commit.encoded_len() as usize;
            let method = producer::Method::CommitData.id();
            let write = |out: &mut Vec<u8>| commit.encode(out);
            self.send(
                &frame::invoke_method(99, 1, method, true, size, write),
                None,
            );
        }
    }

    /// Returns the next frame, with its number of descriptors.
    fn receive_any(&self) -> (Vec<u8>, usize) {
        let (mut bytes, mut fds) = (vec![0; 4], 0);
        let mut filled = 0;
        while filled < bytes.len() {
            wait(&self.socket, PollFlags::IN);
            match self.socket.receive(&mut bytes[filled..]).unwrap() {
                Received::Data { len, fd } => {
                    filled += len;
                    fds += usize::from(fd.is_some());
                }
                Received::WouldBlock => {}
                Received::Closed => panic!("the service closed the connection"),
            }
            if filled == 4 {
                let size = u32::from_le_bytes(bytes[..4].try_into().unwrap());
                bytes.resize(4 + size as usize, 0);
            }
        }
        (bytes, fds)
    }
}

/// Returns the id of a flush that no data source asked for.
fn flush_of_memory(frame: &Frame<'_>) -> Option<u64> {
    let Message::InvokeMethodReply { reply, .. } = frame.message else {
        return None;
    };
    let reply = GetAsyncCommandResponse::decode_from_slice(reply).ok()?;
    match reply.cmd {
        Some(Cmd::Flush(flush)) if flush.data_source_ids.is_empty() => flush.request_id,
        _ => None,
    }
}

/// Returns the part of an answer that is the same in each run.
fn essence(kind: PortKind, method: u32, reply: &[u8]) -> String {
    match kind {
        PortKind::Producer => {
            let method = producer::Method::from_id(method).unwrap();
            format!("{:?}", producer::Reply::decode(method, reply).unwrap())
        }
        PortKind::Relay => {
            let method = relay::Method::from_id(method).unwrap();
            format!("{:?}", relay::Reply::decode(method, reply).unwrap())
        }
        PortKind::Consumer => {
            let method = consumer::Method::from_id(method).unwrap();
            let mut reply = consumer::Reply::decode(method, reply).unwrap();
            match &mut reply {
                consumer::Reply::CloneSession(reply) => {
                    // Half of the clone's own uuid is new each time.
                    reply.uuid_msb = None;
                }
                consumer::Reply::QueryServiceState(reply) => {
                    if let Some(state) = reply.service_state.as_option_mut() {
                        forget_processes(state);
                    }
                }
                _ => {}
            }
            format!("{reply:?}")
        }
    }
}

fn forget_processes(state: &mut TracingServiceState) {
    for producer in &mut state.producers {
        (producer.pid, producer.uid) = (None, None);
    }
    state.tracing_service_version = None;
    // This service adds fields to upstream's: the use of buffers, clocks of machines.
    state.unknown_fields = UnknownFields::default();
    for session in &mut state.tracing_sessions {
        session.unknown_fields = UnknownFields::default();
    }
}

/// Collects the kinds of the service's own packets in a reply.
fn kinds(reply: &ReadBuffersResponse, kinds: &mut BTreeSet<u32>) {
    use ferretto_proto::fields::trace_packet as packet;
    let envelope = [
        packet::TIMESTAMP,
        packet::TRUSTED_UID,
        packet::TRUSTED_PACKET_SEQUENCE_ID,
    ];
    for slices in reply
        .slices
        .chunk_by(|slice, _| slice.last_slice_for_packet != Some(true))
    {
        let bytes: Vec<u8> = slices
            .iter()
            .flat_map(|slice| slice.data.clone().unwrap_or_default())
            .collect();
        let sequence = Fields::find(packet::TRUSTED_PACKET_SEQUENCE_ID, &bytes);
        if sequence
            .and_then(|field| field.as_u64())
            .is_none_or(|id| id == 1)
        {
            let fields = Fields::new(&bytes).map(|field| field.unwrap().number);
            kinds.extend(fields.filter(|number| !envelope.contains(number)));
        }
    }
}

struct Replay {
    host: TestHost,
    remote_producers: bool,
    peers: HashMap<[u8; 2], Peer>,
}

impl Replay {
    fn new(remote_producers: bool) -> Self {
        let host = TestHost::start_with(|options| {
            if remote_producers {
                options.producers.push("127.0.0.1:0".parse().unwrap());
                options.relays = RelayEndpoints::Everywhere;
            }
        });
        Self {
            host,
            remote_producers,
            peers: HashMap::new(),
        }
    }

    fn connect(&self, connection: [u8; 2]) -> Socket {
        match connection[0] {
            b'P' if self.remote_producers => {
                let port = self.host.port.unwrap();
                let host = "127.0.0.1".to_owned();
                Socket::connect(&Address::Tcp { host, port }).unwrap()
            }
            b'P' => self.host.producer_socket(),
            _ => self.host.consumer_socket(),
        }
    }

    /// Returns a descriptor as a client of this kind passes it: memory, or a file for a trace.
    fn descriptor(&self, record: &Record) -> OwnedFd {
        if record.connection[0] == b'P' {
            let region = Region::create(256 * 1024).unwrap();
            return region.fd().unwrap().try_clone_to_owned().unwrap();
        }
        tempfile::tempfile_in(self.host.folder()).unwrap().into()
    }

    /// Disconnects producers without further messages, which would delay the end of the session.
    fn end_producers(&mut self, records: &[Record]) {
        self.peers
            .retain(|connection, _| connection[0] == b'C' || occurs(*connection, records));
    }

    fn run(&mut self, records: &[Record]) {
        for (index, record) in records.iter().enumerate() {
            if !self.peers.contains_key(&record.connection) {
                let peer = Peer::new(self.connect(record.connection));
                self.peers.insert(record.connection, peer);
            }
            let frame = Frame::decode(&record.bytes[4..]).unwrap();
            let fd = (record.to_service && record.fds > 0).then(|| self.descriptor(record));
            let peer = self.peers.get_mut(&record.connection).unwrap();
            if record.to_service {
                peer.note(&frame);
                peer.send(&record.bytes, fd.as_ref());
                // The recording has the order in which upstream received the frames of all
                // connections.
                peer.sync();
            } else {
                if peer.ends_session(&frame) {
                    self.end_producers(&records[index..]);
                }
                let peer = self.peers.get_mut(&record.connection).unwrap();
                expect(peer, record, &format!("frame {index}"));
            }
        }
    }
}

/// Returns true if a connection is used again.
fn occurs(connection: [u8; 2], records: &[Record]) -> bool {
    records.iter().any(|record| record.connection == connection)
}

/// Compares the next answer with the recorded one.
fn expect(peer: &mut Peer, record: &Record, context: &str) {
    let recorded = Frame::decode(&record.bytes[4..]).unwrap();
    let (bytes, fds) = peer.receive();
    let frame = Frame::decode(&bytes[4..]).unwrap();
    assert_eq!(fds, record.fds, "descriptors of {context}");
    assert_eq!(frame.request_id, recorded.request_id, "{context}");
    peer.note(&frame);
    if bytes == record.bytes {
        return;
    }
    let call = peer.calls.get(&frame.request_id);
    let (
        Message::InvokeMethodReply {
            success,
            has_more,
            reply,
        },
        Message::InvokeMethodReply {
            success: recorded_success,
            has_more: recorded_has_more,
            reply: recorded_reply,
        },
        Some((kind, method)),
    ) = (frame.message, recorded.message, call)
    else {
        panic!("{context}: {:?} instead of {:?}", bytes, record.bytes)
    };
    assert_eq!(success, recorded_success, "{context}");
    let is_reading = (*kind, *method) == (PortKind::Consumer, consumer::Method::ReadBuffers.id());
    if is_reading {
        return expect_trace(peer, has_more, reply, recorded_reply, context);
    }
    assert_eq!(has_more, recorded_has_more, "{context}");
    let (ours, theirs) = (
        essence(*kind, *method, reply),
        essence(*kind, *method, recorded_reply),
    );
    assert_eq!(ours, theirs, "{context}");
}

/// Compares the service's packets in a trace, whose recording is one reply.
fn expect_trace(peer: &mut Peer, has_more: bool, reply: &[u8], recorded: &[u8], context: &str) {
    let read = |reply: &[u8], into: &mut BTreeSet<u32>| {
        let reply = consumer::Reply::decode(consumer::Method::ReadBuffers, reply).unwrap();
        let consumer::Reply::ReadBuffers(reply) = reply else {
            panic!("{reply:?}")
        };
        kinds(&reply, into);
    };
    let (mut ours, mut theirs) = (BTreeSet::new(), BTreeSet::new());
    read(recorded, &mut theirs);
    read(reply, &mut ours);
    let mut more = has_more;
    while more {
        let (bytes, _) = peer.receive();
        let frame = Frame::decode(&bytes[4..]).unwrap();
        let Message::InvokeMethodReply {
            has_more, reply, ..
        } = frame.message
        else {
            panic!("{frame:?}")
        };
        read(reply, &mut ours);
        more = has_more;
    }
    assert_eq!(ours, theirs, "kinds of packets in {context}");
}

fn replay(name: &str) {
    Replay::new(false).run(&records(name));
}

#[test]
fn ipc_063_a_clone() {
    replay("clone_session");
}

#[test]
fn ipc_059_detaching_and_attaching() {
    replay("detach_attach");
}

#[test]
fn a_trigger_that_stops() {
    replay("trigger_stop");
}

#[test]
fn a_session_that_cannot_be_detached() {
    replay("detach_error_trigger_write_into_file");
}

#[test]
fn startup_tracing_with_memory_of_the_producer() {
    replay("startup_trace");
}

#[test]
fn ipc_042_a_producer_over_tcp() {
    Replay::new(true).run(&records("tcp_shmem_emulation"));
}

#[test]
fn ipc_068_ipc_070_a_relay_and_a_producer_behind_it() {
    Replay::new(true).run(&records("relay"));
}

#[test]
fn commits_and_flushes_under_load() {
    replay("load_flush");
}

#[test]
fn probes_that_register_and_a_query() {
    replay("probes_register_and_query");
}

#[test]
fn track_events_of_the_official_sdk() {
    replay("sdk_track_event_2s");
    replay("shlib_track_event_2s");
}

#[test]
fn a_trace_in_a_file_given_by_descriptor() {
    replay("sdk_write_into_file_2s");
}
