//! One life: its possible steps, and the checks at its end.

use std::collections::BTreeMap;

use ferretto_ipc::port::consumer::Request;
use ferretto_proto::AttachRequest;
use ferretto_service::{ClientId, Inventory, ServiceOptions};
use ferretto_shm::TraceWriter;
use ferretto_wire::Fields;

use crate::consumers::{Reader, Reading};
use crate::ledger::Ledger;
use crate::producers::Person;
use crate::random::Random;
use crate::requests::{Kind, Requests};
use crate::tally::Tally;
use crate::world::{File, IO_ERROR, Log, NO_SPACE, SERVICE_UID, World, WriteFault, split_file};

/// Returns the number of steps in the life of a seed.
pub fn length(seed: u64) -> u64 {
    20 + Random(!seed).below(160)
}

/// A writer of an honest producer, by its index in the ledger.
pub struct Writer {
    pub producer: ClientId,
    pub index: usize,
    pub writer: TraceWriter,
}

pub struct Life {
    pub world: World,
    /// An option of the service.
    scraping_piece: u64,
    pub random: Random,
    /// Set if there are hostile producers.
    pub hostile: bool,
    /// Set if files and memory fail.
    pub faulty: bool,
    pub people: BTreeMap<ClientId, Person>,
    pub readers: BTreeMap<ClientId, Reader>,
    pub reading: BTreeMap<u64, Reading>,
    pub writers: Vec<Writer>,
    pub requests: Requests,
    /// The traces of consumers that detached from a session, by user and key.
    pub left: BTreeMap<(u32, u8), Vec<usize>>,
    pub ledger: Ledger,
    pub last_label: u64,
    pub tally: Tally,
}

fn options(scraping_piece: u64) -> ServiceOptions {
    ServiceOptions {
        uid: SERVICE_UID,
        seed: 1,
        scraping_piece,
        ..ServiceOptions::default()
    }
}

/// Returns the length of the whole packets at the start of a file.
fn whole_packets(file: &[u8]) -> usize {
    let mut fields = Fields::new(file);
    let mut whole = 0;
    while let Some(Ok(_)) = fields.next() {
        whole = fields.offset();
    }
    whole
}

impl Life {
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let scraping_piece = random.of(&[2, 8, 40, 2048]);
        Self {
            world: World::with(options(scraping_piece)),
            scraping_piece,
            hostile: random.one_in(2),
            faulty: random.one_in(2),
            random,
            people: BTreeMap::new(),
            readers: BTreeMap::new(),
            reading: BTreeMap::new(),
            writers: Vec::new(),
            requests: Requests::default(),
            left: BTreeMap::new(),
            ledger: Ledger::default(),
            last_label: 0,
            tally: Tally::default(),
        }
    }

    /// Runs this many steps, then ends in order.
    pub fn live(mut self, steps: u64) -> (Tally, Option<Log>) {
        self.tally.lives = 1;
        for _ in 0..2 {
            self.connect_consumer();
            self.connect_producer();
            self.enable();
        }
        for _ in 0..steps {
            self.step();
            self.collect();
            self.tally.steps += 1;
        }
        self.end();
        (self.tally, self.world.log)
    }

    fn step(&mut self) {
        match self.random.below(60) {
            0 => self.connect_producer(),
            1 if self.random.one_in(3) => self.disconnect_producer(),
            1..=3 => self.register(),
            4 => self.connect_consumer(),
            5 if self.random.one_in(4) => self.disconnect_consumer(),
            5..=9 => self.enable(),
            10 | 11 => self.control(Request::StartTracing(Default::default())),
            12 => self.control(Request::DisableTracing(Default::default())),
            13 if self.random.one_in(2) => self.free(),
            14 => self.flush(),
            15..=18 => self.read(),
            19 => self.ask(),
            20 => self.attach_or_detach(),
            21..=25 => self.create_writer(),
            26..=42 => self.write(),
            43 => self.call_out_of_order(),
            44 | 45 if self.hostile => self.attack(),
            46 if self.faulty => self.break_something(),
            47 => self.stick(),
            48 => self.world.slow = self.random.one_in(2),
            49 | 53 => self.clone_session(),
            50 => self.pay_debts(),
            51 => self.nonsense(),
            52 if self.random.one_in(4) => self.suspend(),
            54 if self.faulty && self.random.one_in(3) => self.crash(),
            _ => self.wait(),
        }
    }

    fn wait(&mut self) {
        let ms = self.random.of(&[1, 10, 100, 1000, 6000]);
        self.world.run_for(ms);
        self.world.deliver_late();
    }

    /// Lets time pass for some clocks only.
    fn suspend(&mut self) {
        let ns = 1_000_000 * self.random.of(&[1, 500, 20_000]);
        let now = &mut self.world.now;
        now.boottime += ns;
        now.realtime += ns;
        now.realtime_coarse += ns;
        self.world.run_for(0);
    }

    fn break_something(&mut self) {
        match self.random.below(4) {
            0 => self.world.memory_available = !self.random.one_in(3),
            1 => self.world.copies = !self.random.one_in(3),
            2 => self.world.disk = self.random.of(&[usize::MAX, usize::MAX, 20_000]),
            _ => {
                let faults = [
                    WriteFault::None,
                    WriteFault::Short,
                    WriteFault::Short,
                    WriteFault::Error(NO_SPACE),
                    WriteFault::Error(IO_ERROR),
                ];
                for _ in 0..3 {
                    let fault = self.random.of(&faults);
                    self.world.write_faults.push_back(fault);
                }
            }
        }
    }

    /// Checks all outputs of the service since the last call.
    pub fn collect(&mut self) {
        self.forget_the_gone();
        self.collect_answers();
        self.collect_commands();
        self.collect_files();
        self.check_bounds();
    }

    fn forget_the_gone(&mut self) {
        for client in std::mem::take(&mut self.world.disconnects) {
            self.tally.disconnected += 1;
            self.forget(client);
        }
    }

    /// Forgets a client that is gone.
    pub fn forget(&mut self, client: ClientId) {
        self.requests.forget_client(client);
        self.readers.remove(&client);
        self.reading.retain(|_, reading| reading.client != client);
        self.people.remove(&client);
        self.writers.retain(|writer| writer.producer != client);
    }

    fn collect_files(&mut self) {
        for file in self.world.files.values_mut().filter(|file| file.closed) {
            let bytes = std::mem::take(&mut file.bytes);
            if bytes.is_empty() {
                continue;
            }
            self.tally.files += 1;
            self.tally.failed_files += u64::from(file.failed);
            let packets = crate::consumers::unpacked(split_file(&bytes));
            let trace = self.ledger.read_file(&packets, &mut self.tally);
            self.ledger.traces[trace].broken = file.failed;
            self.ledger.check(trace, &mut self.tally);
        }
    }

    /// Kills the service in the middle of a write, and starts it again. All clients are gone, and
    /// files end anywhere in the last write.
    fn crash(&mut self) {
        self.collect();
        let files = std::mem::take(&mut self.world.files);
        for file in files.values().filter(|file| !file.closed) {
            let lost = self.random.below(1 + file.last_write as u64) as usize;
            let bytes = &file.bytes[..file.bytes.len() - lost];
            let whole = whole_packets(bytes);
            if whole == 0 {
                continue;
            }
            self.tally.crashed_files += 1;
            let packets = crate::consumers::unpacked(split_file(&bytes[..whole]));
            let trace = self.ledger.read_file(&packets, &mut self.tally);
            self.ledger.traces[trace].broken = true;
        }
        let clients: Vec<_> = self
            .readers
            .keys()
            .chain(self.people.keys())
            .copied()
            .collect();
        for client in clients {
            self.forget(client);
        }
        self.left.clear();
        self.requests = Requests::default();
        self.world.restart(options(self.scraping_piece));
        self.tally.crashes += 1;
        for _ in 0..2 {
            self.connect_consumer();
            self.connect_producer();
            self.enable();
        }
    }

    /// Checks that the service keeps no more state than its clients may cause.
    fn check_bounds(&self) {
        let held = self.world.service.inventory();
        let (sessions, people) = (held.sessions, self.world.producers.len());
        assert!(sessions <= 15, "{held:?}");
        assert!(held.buffers <= 3 * sessions, "{held:?}");
        assert!(
            held.buffer_bytes <= (3 * 256 * 1024) * sessions as u64,
            "{held:?}"
        );
        assert!(held.producers <= people, "{held:?}");
        assert!(held.consumers <= self.world.consumers.len(), "{held:?}");
        // Departed producers are kept until their memory was scraped.
        let departed = held.scrapes;
        assert!(departed <= sessions + 65, "{held:?}");
        assert!(
            held.permissions <= held.buffers * (people + departed),
            "{held:?}"
        );
        let pending = held.flushes + 80 * sessions;
        assert!(
            held.timers <= pending && held.flushes <= 1001 * sessions,
            "{held:?}"
        );
        if sessions == 0 {
            let left = [
                held.instances,
                held.buffers,
                held.flushes,
                held.clones,
                held.timers,
            ];
            assert_eq!(left, [0; 5], "{held:?}");
        }
        if people == 0 {
            let left = [held.instances, held.data_sources];
            assert_eq!(left, [0; 2], "{held:?}");
            assert!(held.writers == 0 || departed > 0, "{held:?}");
        }
    }

    /// Lets all clients finish and disconnect; then no state may be left.
    fn end(&mut self) {
        self.world.slow = false;
        self.world.write_faults.clear();
        self.world.deliver_late();
        self.finish_sessions();
        self.requests
            .check(&[Kind::Enable, Kind::Detached, Kind::Watch]);
        if self.random.one_in(2) {
            self.part_with_producers();
            self.part_with_consumers();
        } else {
            self.part_with_consumers();
            self.part_with_producers();
        }
        self.world.run_for(0);
        assert_eq!(self.world.service.inventory(), Inventory::default());
        assert_eq!(self.world.service.poll_timeout(), None);
        assert!(self.world.files.values().all(|file: &File| file.closed));
    }

    fn finish_sessions(&mut self) {
        let consumers: Vec<_> = self.readers.keys().copied().collect();
        for consumer in &consumers {
            self.world.unstick(*consumer);
        }
        self.collect();
        self.deliver_everything();
        self.world.run_for(1);
        for consumer in &consumers {
            self.call(
                *consumer,
                Request::DisableTracing(Default::default()),
                Kind::Once,
            );
        }
        self.world.run_for(10_000);
        self.collect();
        for consumer in &consumers {
            self.read_all(*consumer);
        }
        self.collect();
    }

    fn part_with_producers(&mut self) {
        for producer in self.world.producers.keys().copied().collect::<Vec<_>>() {
            self.world.disconnect(producer);
            self.forget(producer);
        }
        self.collect();
    }

    fn part_with_consumers(&mut self) {
        for consumer in self.readers.keys().copied().collect::<Vec<_>>() {
            if self.random.one_in(2) {
                self.call(
                    consumer,
                    Request::FreeBuffers(Default::default()),
                    Kind::Once,
                );
                self.collect();
            }
            if self.requests.is_open(consumer, |kind| kind == Kind::Enable) {
                let held = self.world.sessions();
                assert!(
                    held > 0,
                    "a session ended and its consumer was not notified"
                );
            }
            self.world.disconnect(consumer);
            self.forget(consumer);
        }
        // Detached sessions of unlimited duration wait for ever to be attached to.
        for uid in crate::consumers::UIDS {
            for key in crate::consumers::KEYS {
                let consumer = self.world.consumer_of(uid);
                let request = AttachRequest {
                    key: Some(vec![key]),
                    ..Default::default()
                };
                self.world.call(consumer, Request::Attach(request));
                self.world.disconnect(consumer);
            }
        }
        self.world.deliver_late();
        self.collect();
    }
}
