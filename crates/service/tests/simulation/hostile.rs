//! Hostile producers, and faulty drivers.

use std::os::fd::AsFd;

use ferretto_ipc::port::producer::Request;
use ferretto_proto::commit_data_request::chunk_to_patch::Patch;
use ferretto_proto::commit_data_request::{ChunkToPatch, ChunksToMove};
use ferretto_proto::{
    ActivateTriggersRequest, CommitDataRequest, InitializeConnectionRequest,
    NotifyDataSourceStartedRequest, NotifyDataSourceStoppedRequest, RegisterDataSourceRequest,
    RegisterTraceWriterRequest, UnregisterTraceWriterRequest,
};
use ferretto_service::{ClientId, Event, FileId};
use ferretto_shm::Region;

use crate::life::Life;

impl Life {
    /// Makes calls that even an honest producer might make at the wrong time.
    pub fn nonsense(&mut self) {
        let Some(producer) = self.producer() else {
            return;
        };
        let nobody = ClientId(1_000_000);
        match self.random.below(8) {
            0 => self.produce(producer, Request::InitializeConnection(Default::default())),
            1 => self.produce(producer, Request::Sync(Default::default())),
            2..=4 => {
                let request = ActivateTriggersRequest {
                    trigger_names: vec![b"t".to_vec(), b"u".to_vec()],
                    ..Default::default()
                };
                self.produce(producer, Request::ActivateTriggers(request));
            }
            5 => {
                // Before that, the order of two streams is not defined.
                if self.world.producers[&producer].initialized.is_some() {
                    self.world.open_stream(producer);
                }
            }
            6 => {
                self.world.event(Event::Disconnected { client: nobody });
                self.world.event(Event::ConsumerDrained { client: nobody });
                self.world
                    .event(Event::SharedMemoryFailed { client: nobody });
            }
            _ => {
                let file = FileId(1_000_000);
                self.world.event(Event::FileWritten { file, bytes: 1 });
                let error = "of no file".into();
                self.world.event(Event::FileFailed { file, error });
            }
        }
    }

    /// Lets a hostile producer attack.
    pub fn attack(&mut self) {
        let hostile = self.people.iter().filter(|(_, person)| person.hostile);
        let hostile: Vec<_> = hostile.map(|(client, _)| *client).collect();
        let Some(attacker) = self.random.pick(&hostile) else {
            return;
        };
        for _ in 0..1 + self.random.below(4) {
            match self.random.below(3) {
                0 => self.scribble(attacker),
                1 => self.call_wildly(attacker),
                _ => self.commit_wildly(attacker),
            }
        }
    }

    /// Returns a buffer id: one of its own, or an arbitrary one.
    fn wild_buffer(&mut self, attacker: ClientId) -> u32 {
        let instances = self.people[&attacker].instances.values();
        let own: Vec<u16> = instances.map(|instance| instance.target).collect();
        let any = self.random.below(70_000) as u32;
        match self.random.below(4) {
            0 => any,
            1 => any % 24,
            _ => self.random.pick(&own).map_or(any, u32::from),
        }
    }

    fn commit_wildly(&mut self, attacker: ClientId) {
        let mut moves = Vec::new();
        for _ in 0..self.random.below(6) {
            let target = self.wild_buffer(attacker);
            let r = &mut self.random;
            let mut data: Vec<u8> = (0..r.below(60)).map(|_| r.next() as u8).collect();
            if r.one_in(2) && data.len() > 16 {
                // A plausible header: chunk, writer, one fragment, no flags.
                data[..8].copy_from_slice(&[r.below(4) as u8, 0, 0, 0, r.below(5) as u8, 0, 1, 0]);
                data[8] = (data.len() - 9) as u8;
            }
            moves.push(ChunksToMove {
                page: Some(r.below(20) as u32),
                chunk: Some(r.below(20) as u32),
                target_buffer: Some(target),
                data: (!r.one_in(3)).then_some(data),
                chunk_incomplete: Some(r.one_in(2)),
                ..Default::default()
            });
        }
        let target = self.wild_buffer(attacker);
        let r = &mut self.random;
        let patches = (0..r.below(4)).map(|_| Patch {
            offset: Some(r.below(5000) as u32),
            data: Some(vec![0xff; r.below(6) as usize]),
            ..Default::default()
        });
        let patches = ChunkToPatch {
            patches: patches.collect(),
            target_buffer: Some(target),
            writer_id: Some(r.below(40_000) as u32 >> r.below(16)),
            chunk_id: Some(r.below(20) as u32),
            has_more_patches: Some(r.one_in(2)),
            ..Default::default()
        };
        let request = CommitDataRequest {
            chunks_to_move: moves,
            chunks_to_patch: vec![patches],
            flush_request_id: r.one_in(2).then(|| r.below(100)),
            ..Default::default()
        };
        self.produce(attacker, Request::CommitData(request));
    }

    fn call_wildly(&mut self, attacker: ClientId) {
        let data_source_id = Some(self.random.below(60));
        let buffer = self.wild_buffer(attacker);
        let writer = Some(self.random.below(70_000) as u32 >> self.random.below(17));
        let request = match self.random.below(6) {
            0 => Request::NotifyDataSourceStarted(NotifyDataSourceStartedRequest {
                data_source_id,
                ..Default::default()
            }),
            1 => Request::NotifyDataSourceStopped(NotifyDataSourceStoppedRequest {
                data_source_id,
                ..Default::default()
            }),
            2 => Request::RegisterTraceWriter(RegisterTraceWriterRequest {
                trace_writer_id: writer,
                target_buffer: Some(buffer),
                ..Default::default()
            }),
            3 => Request::UnregisterTraceWriter(UnregisterTraceWriterRequest {
                trace_writer_id: writer,
                ..Default::default()
            }),
            4 => {
                let mut request = RegisterDataSourceRequest::default();
                let descriptor = request.data_source_descriptor.get_or_insert_default();
                descriptor.name = Some(vec![b's'; self.random.below(20_000) as usize]);
                Request::RegisterDataSource(request)
            }
            _ => Request::InitializeConnection(InitializeConnectionRequest {
                producer_name: Some(vec![0xff; 100]),
                ..Default::default()
            }),
        };
        self.produce(attacker, request);
    }

    /// Writes arbitrary bytes anywhere into shared memory.
    fn scribble(&mut self, attacker: ClientId) {
        let Some(region) = self.world.producers[&attacker].region.clone() else {
            return;
        };
        let region: &Region = &region;
        let Some(fd) = region.fd() else { return };
        for _ in 0..4 {
            let page = self.random.below(region.size() as u64 / 4096);
            // Most often at the header of the page or of its first chunk.
            let offset = match self.random.below(4) {
                0 => self.random.below(4088),
                _ => 4 * self.random.below(4),
            };
            let word = if self.random.one_in(2) {
                self.random.next() as u32
            } else {
                // A page of one complete chunk.
                0x0100_0002
            };
            let at = page * 4096 + offset;
            rustix::io::pwrite(fd.as_fd(), &word.to_ne_bytes(), at).expect("a write");
        }
    }
}
