//! Producers: their requests, and the commands to them.

use std::collections::BTreeMap;

use ferretto_ipc::port::producer::Request;
use ferretto_proto::get_async_command_response::{Cmd, SetupDataSource};
use ferretto_proto::{
    CommitDataRequest, NotifyDataSourceStartedRequest, NotifyDataSourceStoppedRequest,
    UpdateDataSourceRequest,
};
use ferretto_service::ClientId;
use ferretto_shm::ExhaustedPolicy;

use crate::config::SOURCES;
use crate::ledger::Record;
use crate::life::{Life, Writer};
use crate::requests::Kind;
use crate::stamp::Stamp;
use crate::world::{Behaviour, TEST_FIELD};

/// The largest number of simultaneous writers.
const MAX_WRITERS: usize = 16;
/// The user of hostile producers.
const HOSTILE_UID: u32 = 666;

/// A producer.
#[derive(Debug)]
pub struct Person {
    pub hostile: bool,
    pub instances: BTreeMap<u64, Instance>,
    /// The answers that it has not given yet.
    owed: Vec<Request>,
    last_flush: u64,
}

/// A data source that it was asked to set up.
#[derive(Debug)]
pub struct Instance {
    pub label: u64,
    /// The index of the buffer in the session's config, and its id.
    buffer: usize,
    pub target: u16,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    SetUp,
    Started,
    Stopped,
}

impl Life {
    pub fn producer(&mut self) -> Option<ClientId> {
        let producers: Vec<_> = self.people.keys().copied().collect();
        self.random.pick(&producers)
    }

    pub fn connect_producer(&mut self) {
        if self.people.len() >= 8 {
            return;
        }
        let hostile = self.hostile && self.random.one_in(4);
        let r = &mut self.random;
        let old = r.one_in(6);
        let shares_memory = !r.one_in(4);
        let page_hint = 4096 << r.below(2);
        let behaviour = Behaviour {
            uid: if hostile {
                HOSTILE_UID
            } else {
                2000 + r.below(2) as u32
            },
            pid: (!r.one_in(8)).then(|| 4000 + r.below(100) as i32),
            shares_memory,
            machine_id: u32::from(r.one_in(5)),
            scraping: if old {
                None
            } else {
                r.of(&[None, Some(true), Some(false)])
            },
            size_hint: if old { 0 } else { 4096 << r.below(7) },
            page_hint,
            confirms_start: !r.one_in(4),
            confirms_stop: !r.one_in(4),
            confirms_flush: !r.one_in(4),
            opens_stream: !r.one_in(8),
            brings: (shares_memory && r.one_in(6)).then(|| page_hint as usize * r.of(&[8, 16])),
            ..Behaviour::default()
        };
        let name = format!("p{}", r.below(3));
        let producer = self.world.producer_with(&name, behaviour);
        let person = Person {
            hostile,
            instances: BTreeMap::new(),
            owed: Vec::new(),
            last_flush: 0,
        };
        self.people.insert(producer, person);
        self.tally.hostile += u64::from(hostile);
        for _ in 0..2 + self.random.below(3) {
            self.register_at(producer);
        }
    }

    pub fn disconnect_producer(&mut self) {
        if let Some(producer) = self.producer() {
            self.world.disconnect(producer);
            self.forget(producer);
        }
    }

    pub fn produce(&mut self, client: ClientId, request: Request) {
        let id = self.world.produce(client, request);
        self.requests.ask(id, client, Kind::Once);
    }

    pub fn register(&mut self) {
        if let Some(producer) = self.producer() {
            self.register_at(producer);
        }
    }

    fn register_at(&mut self, producer: ClientId) {
        let name = self.random.of(&SOURCES);
        let bits = self.random.next();
        match bits >> 8 & 7 {
            0 => return self.world.unregister(producer, name),
            1 => {
                let mut request = UpdateDataSourceRequest::default();
                let descriptor = request.data_source_descriptor.get_or_insert_default();
                descriptor.name = Some(name.into());
                descriptor.id = Some(1 + (bits >> 16 & 3));
                descriptor.no_flush = Some(bits & 1 != 0);
                return self.produce(producer, Request::UpdateDataSource(request));
            }
            _ => {}
        }
        self.world.register_with(producer, name, |descriptor| {
            descriptor.id = (bits & 0x40 != 0).then_some(1 + (bits >> 16 & 3));
            // Merges all packets, or only loads fields that they do not have.
            descriptor.protovm_program = match bits >> 24 & 7 {
                0 => Some(vec![0x12, 2, 0x1a, 0]),
                1 => Some(vec![0x12, 2, 0x12, 0]),
                _ => None,
            };
            // Old producers know none of these.
            if bits & 0xc0_0000 != 0 {
                descriptor.will_notify_on_start = Some(bits & 1 != 0);
                descriptor.will_notify_on_stop = Some(bits & 2 != 0);
                descriptor.no_flush = Some(bits & 12 == 0);
                descriptor.handles_incremental_state_clear = Some(bits & 16 != 0);
            }
        });
    }

    pub fn create_writer(&mut self) {
        let Some(producer) = self.producer() else {
            return;
        };
        let Some(person) = self.people.get(&producer).filter(|p| !p.hostile) else {
            return;
        };
        let Some(known) = self.world.producers.get(&producer) else {
            return;
        };
        let instances: Vec<_> = person.instances.values().collect();
        let arbiter = known.arbiter.clone();
        let (Some(arbiter), false) = (arbiter, instances.is_empty()) else {
            return;
        };
        if self.writers.len() >= MAX_WRITERS {
            return;
        }
        let instance = instances[self.random.below(instances.len() as u64) as usize];
        self.ledger.writers.push(Record {
            producer,
            uid: known.behaviour.uid,
            pid: known.behaviour.pid,
            machine: known.behaviour.machine_id,
            label: instance.label,
            buffer: instance.buffer,
            written: 0,
            delivered: Vec::new(),
            harmed: false,
        });
        self.writers.push(Writer {
            producer,
            index: self.ledger.writers.len() - 1,
            writer: arbiter.create_writer(instance.target, ExhaustedPolicy::Drop),
        });
    }

    pub fn write(&mut self) {
        if self.writers.is_empty() {
            return self.create_writer();
        }
        let chosen = self.random.below(self.writers.len() as u64) as usize;
        let size = self.random.of(&[10, 100, 100, 3000, 9000]);
        let Writer {
            producer,
            index,
            writer,
        } = &mut self.writers[chosen];
        let (producer, index) = (*producer, *index);
        let record = &mut self.ledger.writers[index];
        for _ in 0..1 + self.random.below(5) {
            record.written += 1;
            let stamp = Stamp {
                writer: index,
                count: record.written,
                label: record.label,
            };
            writer.new_packet().bytes(TEST_FIELD, &stamp.bytes(size));
            self.tally.written += 1;
        }
        let flushes = self.random.one_in(2);
        if flushes {
            writer.flush(None);
        }
        match self.random.below(12) {
            0 => self.lose_commits(producer),
            1 | 2 => {}
            _ => {
                self.world.commit(producer);
                if flushes {
                    self.delivered(chosen);
                }
            }
        }
        if self.random.one_in(20) {
            let gone = self.writers.swap_remove(chosen);
            drop(gone.writer);
            self.world.commit(producer);
        }
    }

    /// Notes that everything this writer wrote was delivered, unless it has aborted a packet.
    fn delivered(&mut self, chosen: usize) {
        let Writer { index, writer, .. } = &self.writers[chosen];
        let record = &mut self.ledger.writers[*index];
        record.harmed |= writer.drop_count() > 0;
        record
            .delivered
            .push((self.world.now.boottime, record.written));
    }

    pub fn deliver_everything(&mut self) {
        for chosen in 0..self.writers.len() {
            self.writers[chosen].writer.flush(None);
            self.world.commit(self.writers[chosen].producer);
            self.delivered(chosen);
        }
    }

    /// Loses the committed chunks of the producer's writers, before they reach the service.
    fn lose_commits(&mut self, producer: ClientId) {
        self.world.lose_commits(producer);
        for record in &mut self.ledger.writers {
            record.harmed |= record.producer == producer;
        }
    }

    /// Lets some producer answer pending requests, in any order.
    pub fn pay_debts(&mut self) {
        let Some(producer) = self.producer() else {
            return;
        };
        let Some(person) = self.people.get_mut(&producer) else {
            return;
        };
        let mut owed = std::mem::take(&mut person.owed);
        while !owed.is_empty() {
            let index = self.random.below(owed.len() as u64) as usize;
            let request = owed.swap_remove(index);
            if !self.random.one_in(4) {
                self.produce(producer, request);
            }
        }
    }

    pub fn collect_commands(&mut self) {
        let clients: Vec<_> = self.people.keys().copied().collect();
        for client in clients {
            let Some(producer) = self.world.producers.get_mut(&client) else {
                continue;
            };
            let manners = [
                producer.behaviour.confirms_start,
                producer.behaviour.confirms_stop,
                producer.behaviour.confirms_flush,
            ];
            let commands = std::mem::take(&mut producer.commands);
            for (id, _) in std::mem::take(&mut producer.replies) {
                self.requests.answer_producer(id, client);
            }
            for command in commands {
                self.obey(client, command, manners);
            }
        }
    }

    fn obey(&mut self, client: ClientId, command: Cmd, confirms: [bool; 3]) {
        let Some(person) = self.people.get_mut(&client) else {
            return;
        };
        match command {
            Cmd::SetupTracing(_) => {}
            Cmd::SetupDataSource(setup) => {
                let id = setup.new_instance_id.expect("an id");
                let last = person.instances.last_key_value();
                assert!(last.is_none_or(|(last, _)| *last < id), "{id} is not new");
                person.instances.insert(id, instance_of(&setup));
            }
            Cmd::StartDataSource(start) => {
                let id = start.new_instance_id.expect("an id");
                person.enter(id, State::Started);
                let confirmation = NotifyDataSourceStartedRequest {
                    data_source_id: Some(id),
                    ..Default::default()
                };
                let confirmation = Request::NotifyDataSourceStarted(confirmation);
                person.owe(!confirms[0], confirmation);
            }
            Cmd::StopDataSource(stop) => {
                let id = stop.instance_id.expect("an id");
                person.enter(id, State::Stopped);
                let confirmation = NotifyDataSourceStoppedRequest {
                    data_source_id: Some(id),
                    ..Default::default()
                };
                let confirmation = Request::NotifyDataSourceStopped(confirmation);
                person.owe(!confirms[1], confirmation);
            }
            Cmd::Flush(flush) => {
                let id = flush.request_id.expect("an id");
                assert!(id > person.last_flush, "flush {id} is not new");
                person.last_flush = id;
                person.check_known(&flush.data_source_ids);
                let confirmation = CommitDataRequest {
                    flush_request_id: Some(id),
                    ..Default::default()
                };
                person.owe(!confirms[2], Request::CommitData(confirmation));
            }
            Cmd::ClearIncrementalState(clear) => person.check_known(&clear.data_source_ids),
        }
    }
}

fn instance_of(setup: &SetupDataSource) -> Instance {
    let config = &*setup.config;
    let text = config.legacy_config.clone().unwrap_or_default();
    let text = String::from_utf8(text).expect("text");
    let (label, buffer) = text.split_once(' ').expect("label and buffer");
    Instance {
        label: label.parse().expect("a label"),
        buffer: buffer.parse().expect("an index"),
        target: config.target_buffer.expect("a buffer") as u16,
        state: State::SetUp,
    }
}

impl Person {
    /// Checks the order: set up, started, stopped, each once.
    fn enter(&mut self, id: u64, state: State) {
        let instance = self.instances.get_mut(&id);
        let instance = instance.unwrap_or_else(|| panic!("{state:?} for unknown {id}"));
        assert!(instance.state < state, "{state:?} for {instance:?}");
        instance.state = state;
    }

    fn check_known(&self, ids: &[u64]) {
        for id in ids {
            assert!(self.instances.contains_key(id), "unknown data source {id}");
        }
    }

    fn owe(&mut self, later: bool, request: Request) {
        if later {
            self.owed.push(request);
        }
    }
}
