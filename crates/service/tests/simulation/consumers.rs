//! Consumers: their requests, and the replies.

use std::os::fd::OwnedFd;

use ferretto_ipc::port::consumer::{Reply, Request};
use ferretto_proto::clone_session_request::Selector;
use ferretto_proto::fields::trace_packet;
use ferretto_proto::observable_events::Type;
use ferretto_proto::{
    AttachRequest, ChangeTraceConfigRequest, CloneSessionRequest, DetachRequest,
    EnableTracingRequest, ObserveEventsRequest, ReadBuffersResponse,
};
use ferretto_service::{ClientId, Event};

use crate::config;
use crate::life::Life;
use crate::requests::Kind;
use crate::stamp::{Look, Stamp};
use crate::world::pipeline::decompressed;
use crate::world::{Answer, ConfigBuilder, Packet};

/// The users of consumers.
pub const UIDS: [u32; 3] = [0, 1, 2];
/// The keys for detached sessions.
pub const KEYS: [u8; 2] = [b'a', b'b'];

/// A consumer, with the traces that it may be reading, the last one last.
#[derive(Debug, Default)]
pub struct Reader {
    pub uid: u32,
    pub traces: Vec<usize>,
}

/// A pending ReadBuffers request.
#[derive(Debug)]
pub struct Reading {
    pub client: ClientId,
    partial: Vec<u8>,
    /// The trace that it reads, once known.
    trace: Option<usize>,
    /// Packets of the service, kept until the trace is known.
    own: Vec<Packet>,
}

impl Life {
    pub fn consumer(&mut self) -> Option<ClientId> {
        let consumers: Vec<_> = self.readers.keys().copied().collect();
        self.random.pick(&consumers)
    }

    pub fn connect_consumer(&mut self) {
        if self.readers.len() < 6 {
            let uid = self.random.of(&UIDS);
            let client = self.world.consumer_of(uid);
            let traces = Vec::new();
            self.readers.insert(client, Reader { uid, traces });
        }
    }

    pub fn disconnect_consumer(&mut self) {
        if let Some(consumer) = self.consumer() {
            self.world.disconnect(consumer);
            self.forget(consumer);
        }
    }

    pub fn call(&mut self, client: ClientId, request: Request, kind: Kind) -> u64 {
        let id = self.world.call(client, request);
        self.requests.ask(id, client, kind);
        id
    }

    pub fn control(&mut self, request: Request) {
        if let Some(consumer) = self.consumer() {
            self.call(consumer, request, Kind::Once);
        }
    }

    pub fn free(&mut self) {
        self.control(Request::FreeBuffers(Default::default()));
    }

    pub fn enable(&mut self) {
        let Some(consumer) = self.consumer() else {
            return;
        };
        self.last_label += 1;
        let label = self.last_label;
        let (config, plan) = config::draw(&mut self.random, label);
        self.ledger.plans.insert(label, plan);
        let into_file = config.write_into_file == Some(true);
        let fd = (into_file && (config.output_path.is_none() || self.random.one_in(4))).then(null);
        let request = Request::EnableTracing(EnableTracingRequest {
            trace_config: config.into(),
            ..Default::default()
        });
        let id = self.world.call_with(consumer, request, fd);
        self.requests.ask(id, consumer, Kind::Enable);
        let trace = self.ledger.new_trace(Some(label));
        // If the file fails, the rest can be read.
        self.ledger.traces[trace].broken = into_file;
        self.reads_from(consumer, trace);
        self.tally.sessions += u64::from(!self.world.is_answered(consumer, id));
    }

    pub fn flush(&mut self) {
        let Some(consumer) = self.consumer() else {
            return;
        };
        let timeout = self.random.of(&[0, 50, 500]);
        let id = self.world.flush(consumer, timeout);
        self.requests.ask(id, consumer, Kind::Once);
    }

    pub fn read(&mut self) {
        if let Some(consumer) = self.consumer() {
            self.read_all(consumer);
        }
    }

    pub fn read_all(&mut self, consumer: ClientId) {
        let request = Request::ReadBuffers(Default::default());
        let id = self.call(consumer, request, Kind::Read);
        let reading = Reading {
            client: consumer,
            partial: Vec::new(),
            trace: None,
            own: Vec::new(),
        };
        self.reading.insert(id, reading);
    }

    pub fn ask(&mut self) {
        let Some(consumer) = self.consumer() else {
            return;
        };
        let (request, kind) = match self.random.below(6) {
            0 => (
                Request::QueryServiceState(Default::default()),
                Kind::Several,
            ),
            1 => (Request::GetTraceStats(Default::default()), Kind::Once),
            2 => (Request::QueryCapabilities(Default::default()), Kind::Once),
            3 => (
                Request::SaveTraceForBugreport(Default::default()),
                Kind::Once,
            ),
            4 => {
                let change = ChangeTraceConfigRequest {
                    trace_config: ConfigBuilder::new().source("s1").0.into(),
                    ..Default::default()
                };
                (Request::ChangeTraceConfig(change), Kind::Once)
            }
            _ => {
                let types = [
                    Type::TYPE_DATA_SOURCES_INSTANCES,
                    Type::TYPE_ALL_DATA_SOURCES_STARTED,
                    Type::TYPE_CLONE_TRIGGER_HIT,
                ];
                let request = ObserveEventsRequest {
                    events_to_observe: types[..self.random.below(4) as usize].to_vec(),
                    ..Default::default()
                };
                (Request::ObserveEvents(request), Kind::Watch)
            }
        };
        self.call(consumer, request, kind);
    }

    /// Returns true during a read, or before the reply to an earlier one: replies could not be
    /// matched to requests.
    fn is_busy(&self, consumer: ClientId) -> bool {
        self.requests.is_open(consumer, |kind| {
            matches!(
                kind,
                Kind::Read | Kind::Clone | Kind::Attach(_) | Kind::Detach(_)
            )
        })
    }

    pub fn attach_or_detach(&mut self) {
        let Some(consumer) = self.consumer().filter(|client| !self.is_busy(*client)) else {
            return;
        };
        let uid = self.readers[&consumer].uid;
        let left: Vec<_> = self.left.keys().filter(|left| left.0 == uid).collect();
        let known = self.random.pick(&left).map(|left| left.1);
        let key = known.filter(|_| !self.random.one_in(4));
        let key = key.unwrap_or_else(|| self.random.of(&KEYS));
        let (request, kind) = if self.random.one_in(2) {
            let request = DetachRequest {
                key: Some(vec![key]),
                ..Default::default()
            };
            (Request::Detach(request), Kind::Detach(key))
        } else {
            let request = AttachRequest {
                key: Some(vec![key]),
                ..Default::default()
            };
            (Request::Attach(request), Kind::Attach(key))
        };
        self.call(consumer, request, kind);
    }

    pub fn clone_session(&mut self) {
        let Some(consumer) = self.consumer().filter(|client| !self.is_busy(*client)) else {
            return;
        };
        self.ledger.give_away();
        let selector = match self.random.below(8) {
            0 => Selector::SessionId(u64::MAX),
            1 => Selector::UniqueSessionName(b"x".to_vec()),
            2 => Selector::SessionId(self.random.below(self.last_label + 2)),
            _ => Selector::SessionId(self.some_session()),
        };
        let request = CloneSessionRequest {
            selector: Some(selector),
            skip_trace_filter: Some(self.random.one_in(2)),
            for_bugreport: Some(self.random.one_in(8)),
            ..Default::default()
        };
        let fd = self.random.one_in(2).then(null);
        let request = Request::CloneSession(request);
        let id = self.world.call_with(consumer, request, fd);
        self.requests.ask(id, consumer, Kind::Clone);
    }

    /// Returns the id of an existing session, if any.
    fn some_session(&mut self) -> u64 {
        let asker = self.world.consumer_of(0);
        let sessions = self.world.state(asker).tracing_sessions;
        self.world.disconnect(asker);
        let ids: Vec<u64> = sessions.iter().filter_map(|session| session.id).collect();
        self.random.pick(&ids).unwrap_or(0)
    }

    /// Sends a request that is invalid for this consumer now, or needs no reply.
    pub fn call_out_of_order(&mut self) {
        let Some(client) = self.consumer() else {
            return;
        };
        let requests = [
            Request::StartTracing(Default::default()),
            Request::Flush(Default::default()),
            Request::GetTraceStats(Default::default()),
            Request::EnableTracing(Default::default()),
            Request::CloneSession(Default::default()),
            Request::Detach(Default::default()),
        ];
        let request = requests[self.random.below(requests.len() as u64) as usize].clone();
        self.world.event(Event::ConsumerRequest {
            client,
            request_id: None,
            request,
            fd: self.random.one_in(4).then(null).map(Into::into),
        });
        // It may have started a session without a label.
        let unknown = self.ledger.new_trace(None);
        self.reads_from(client, unknown);
    }

    /// Makes a consumer stop reading, or read again.
    pub fn stick(&mut self) {
        let Some(consumer) = self.consumer() else {
            return;
        };
        if self.random.one_in(3) {
            self.world.consumers.get_mut(&consumer).unwrap().stuck = true;
        } else {
            self.world.unstick(consumer);
        }
    }

    pub fn collect_answers(&mut self) {
        let clients: Vec<_> = self.readers.keys().copied().collect();
        for client in clients {
            let Some(consumer) = self.world.consumers.get_mut(&client) else {
                continue;
            };
            for answer in std::mem::take(&mut consumer.answers) {
                self.answered(client, answer);
            }
        }
    }

    fn answered(&mut self, client: ClientId, answer: Answer) {
        let (id, has_more) = (answer.request_id, answer.has_more);
        let asked = self.requests.answer(id, client, has_more);
        match (asked.kind, answer.reply) {
            (Kind::Read, reply) => self.read_reply(id, reply, has_more),
            (Kind::Detach(key), Some(_)) => {
                self.requests.detach(client);
                let reader = &self.readers[&client];
                self.left.insert((reader.uid, key), reader.traces.clone());
            }
            (Kind::Attach(key), Some(_)) => {
                self.tally.attached += 1;
                let uid = self.readers[&client].uid;
                for trace in self.left.remove(&(uid, key)).unwrap_or_default() {
                    self.reads_from(client, trace);
                }
            }
            (Kind::Clone, Some(Reply::CloneSession(reply))) if reply.success == Some(true) => {
                self.tally.clones += 1;
                let label = reply.uuid_lsb.unwrap_or(0) as u64;
                let trace = self.ledger.new_trace(Some(label));
                self.ledger.traces[trace].clone = true;
                self.reads_from(client, trace);
            }
            _ => {}
        }
    }

    fn reads_from(&mut self, client: ClientId, trace: usize) {
        if let Some(reader) = self.readers.get_mut(&client) {
            reader.traces.push(trace);
        }
    }

    fn read_reply(&mut self, id: u64, reply: Option<Reply>, has_more: bool) {
        let mut reading = self.reading.remove(&id).expect("a read");
        let mut packets = Vec::new();
        if let Some(Reply::ReadBuffers(ReadBuffersResponse { slices, .. })) = reply {
            for slice in slices {
                reading.partial.extend(slice.data.unwrap_or_default());
                if slice.last_slice_for_packet == Some(true) {
                    packets.push(Packet(std::mem::take(&mut reading.partial)));
                }
            }
        }
        for packet in unpacked(packets) {
            self.read_packet(&mut reading, packet);
        }
        if has_more {
            self.reading.insert(id, reading);
        } else {
            self.end_read(reading);
        }
    }

    fn read_packet(&mut self, reading: &mut Reading, packet: Packet) {
        let look = Look::at(&packet);
        if !look.is_data() {
            reading.own.push(packet);
            return;
        }
        let Some(stamp) = look.text.and_then(Stamp::of) else {
            return;
        };
        let trace = self.trace_of(reading.client, stamp.label);
        assert!(
            *reading.trace.get_or_insert(trace) == trace,
            "a read is of one session"
        );
        self.ledger.read(trace, stamp, &look, &mut self.tally);
    }

    /// Returns the consumer's latest trace of this label.
    fn trace_of(&self, client: ClientId, label: u64) -> usize {
        let traces = self.readers.get(&client).map(|reader| &reader.traces);
        let mut traces = traces.into_iter().flatten().rev();
        let trace = traces.find(|trace| self.ledger.traces[**trace].label == Some(label));
        *trace.unwrap_or_else(|| panic!("{client:?} reads session {label}, which is not its own"))
    }

    fn end_read(&mut self, reading: Reading) {
        self.tally.reads += 1;
        let reader = self.readers.get(&reading.client);
        let last = reader.and_then(|reader| reader.traces.last().copied());
        let own_label = reading.own.iter().find_map(|p| Look::at(p).uuid_lsb);
        if own_label.is_some_and(|label| !self.ledger.plans.contains_key(&label)) {
            // The result of this session is not needed.
            return;
        }
        let own_label = own_label.map(|label| self.trace_of(reading.client, label));
        let Some(trace) = reading.trace.or(own_label).or(last) else {
            return;
        };
        for packet in &reading.own {
            self.ledger.note(trace, Look::at(packet));
        }
        self.ledger.check(trace, &mut self.tally);
    }
}

fn null() -> OwnedFd {
    std::fs::File::open("/dev/null").unwrap().into()
}

/// Returns the packets, including those inside compressed ones.
pub fn unpacked(packets: Vec<Packet>) -> Vec<Packet> {
    let inside = |packet: Packet| {
        let compressed = packet.has(trace_packet::COMPRESSED_PACKETS)
            || packet.has(trace_packet::ZSTD_COMPRESSED_PACKETS);
        if compressed {
            decompressed(&[packet]).1
        } else {
            vec![packet]
        }
    };
    packets.into_iter().flat_map(inside).collect()
}
