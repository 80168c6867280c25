//! Tests of the encoded bytes, compared with those of the official library.

mod bytes;
mod clocks;
mod events;
mod fast;
mod loss;
mod random;
mod tracks;

use std::collections::BTreeMap;
use std::sync::Arc;

use ferretto_engine::EventBuffer;
use ferretto_format::{Process, Thread};
use ferretto_shm::{
    Arbiter, ArbiterOptions, ChunkFlags, ExhaustedPolicy, Outlet, PageSize, Region, ServiceRegion,
};
use ferretto_wire::{Encoder, Field as FieldOf, Fields, decode_varint, encode};

use super::category::Category;
use super::event::{Categories, CounterValue, Event, EventTrack, Kind, ShortEvent};
use super::field::Field;
use super::filter::Filter;
use super::name::Name;
use super::sequence::Sequence;
use super::time::Timestamp;
use super::track::{CounterTrack, StateTrack, Track};

static GFX: Category = Category::new("gfx");

/// The length of a fragment whose packet was lost.
const ABANDONED: u64 = (1 << 28) - 1;

const START: u64 = 1_000_000_000_000;

static PROCESS: std::sync::LazyLock<Process> = std::sync::LazyLock::new(|| Process {
    uuid: 0x1122_3344_5566_7788,
    pid: 4242,
    command_line: vec![b"./app".to_vec(), b"-x".to_vec()],
});

struct Nowhere;

impl Outlet for Nowhere {
    fn wake(&self) {}
    fn flush_now(&self) {}
}

struct World {
    arbiter: Arc<Arbiter>,
    service: ServiceRegion,
}

impl World {
    fn new(pages: usize) -> Self {
        let region = Arc::new(Region::heap(pages * 4096).unwrap());
        let options = ArbiterOptions::default();
        let page = PageSize::DEFAULT;
        Self {
            arbiter: Arbiter::new(Arc::clone(&region), page, options, Box::new(Nowhere)).unwrap(),
            service: ServiceRegion::new(region, page).unwrap(),
        }
    }

    /// Returns a thread of the sample process whose recording has this filter.
    fn thread(&self, filter: Filter) -> TestThread {
        let thread = Thread {
            tid: 4243,
            name: b"worker".to_vec(),
        };
        self.thread_of(filter, &PROCESS, thread)
    }

    fn thread_of(&self, filter: Filter, process: &'static Process, thread: Thread) -> TestThread {
        let writer = self.arbiter.create_writer(1, ExhaustedPolicy::Drop);
        TestThread {
            sequence: Sequence::new(writer, Arc::new(filter), process, thread),
            buffer: EventBuffer::new(),
            now: START,
        }
    }

    /// Takes all complete chunks and returns their packets, including packets that span chunks.
    fn packets(&self) -> Vec<Vec<u8>> {
        let mut chunks = BTreeMap::new();
        for (page, chunk) in
            (0..self.service.page_count()).flat_map(|page| (0..14).map(move |chunk| (page, chunk)))
        {
            if let Some(chunk) = self.service.try_read(page, chunk) {
                let mut payload = Vec::new();
                chunk.copy_payload(&mut payload);
                chunks.insert(chunk.header().chunk_id, (chunk.header(), payload));
            }
        }
        let mut packets = Vec::new();
        let mut begun = None;
        for (header, payload) in chunks.into_values() {
            let mut rest = payload.as_slice();
            for index in 0..header.count {
                let (length, width) = decode_varint(rest).unwrap();
                if length == ABANDONED {
                    begun = None;
                    break;
                }
                let (fragment, after) = rest[width..].split_at(length as usize);
                rest = after;
                let is_rest = index == 0 && header.flags.contains(ChunkFlags::FIRST_CONTINUES);
                let mut packet = match (is_rest, begun.take()) {
                    (true, Some(begun)) => begun,
                    (true, None) => continue,
                    (false, _) => Vec::new(),
                };
                packet.extend_from_slice(fragment);
                let is_last = index + 1 == header.count;
                if is_last && header.flags.contains(ChunkFlags::LAST_CONTINUES) {
                    begun = Some(packet);
                } else {
                    packets.push(packet);
                }
            }
        }
        packets.retain(|packet| !packet.is_empty());
        packets
    }
}

/// A thread with a simulated clock.
struct TestThread {
    sequence: Sequence,
    buffer: EventBuffer,
    now: u64,
}

impl TestThread {
    fn write(&mut self, event: &Event<'_>) {
        self.sequence.event(&mut self.buffer, self.now, event);
    }

    /// Advances the clock, in nanoseconds.
    fn after(&mut self, time: u64) -> &mut Self {
        self.now += time;
        self
    }

    fn event(&mut self, kind: Kind, name: Option<Name<'_>>, fields: &[Field<'_>]) -> &mut Self {
        self.write(&Event {
            kind,
            categories: Categories::Static(&GFX),
            name,
            track: EventTrack::Thread,
            value: None,
            fields,
        });
        self
    }

    /// Writes an event without fields as the macros do.
    fn short(&mut self, event: &ShortEvent) -> &mut Self {
        if !self.sequence.short_event(self.now, event) {
            self.write(&event.event());
        }
        self
    }

    fn named(&mut self, kind: Kind, name: &'static str, fields: &[Field<'_>]) -> &mut Self {
        if !fields.is_empty() {
            return self.event(kind, Some(Name::Static(name)), fields);
        }
        let category = &GFX;
        self.short(&ShortEvent::Named {
            kind,
            category,
            name,
        })
    }

    fn begin(&mut self, name: &'static str, fields: &[Field<'_>]) -> &mut Self {
        self.named(Kind::Begin, name, fields)
    }

    fn instant(&mut self, name: &'static str, fields: &[Field<'_>]) -> &mut Self {
        self.named(Kind::Instant, name, fields)
    }

    fn end(&mut self, fields: &[Field<'_>]) -> &mut Self {
        if fields.is_empty() {
            return self.short(&ShortEvent::End);
        }
        self.write(&Event {
            kind: Kind::End,
            categories: Categories::None,
            name: None,
            track: EventTrack::Thread,
            value: None,
            fields,
        });
        self
    }

    fn counter(&mut self, counter: &CounterTrack<'_>, value: impl Into<CounterValue>) -> &mut Self {
        self.write(&Event {
            kind: Kind::Counter,
            categories: Categories::None,
            name: None,
            track: EventTrack::Counter(counter),
            value: Some(value.into()),
            fields: &[],
        });
        self
    }

    fn state(&mut self, track: &StateTrack<'_>, state: Option<&'static str>) -> &mut Self {
        self.write(&Event {
            kind: Kind::State,
            categories: Categories::Static(&GFX),
            name: state.map(Name::Static),
            track: EventTrack::State(track),
            value: None,
            fields: &[],
        });
        self
    }

    fn dynamic(&mut self, categories: &str, name: &'static str) -> &mut Self {
        self.write(&Event {
            kind: Kind::Instant,
            categories: Categories::Dynamic(categories),
            name: Some(Name::Static(name)),
            track: EventTrack::Thread,
            value: None,
            fields: &[],
        });
        self
    }
}

/// Returns all fields at the end of a path of field numbers.
fn all<'a>(message: &'a [u8], path: &[u32]) -> Vec<FieldOf<'a>> {
    let (&last, path) = path.split_last().unwrap();
    let mut message = message;
    for &number in path {
        match Fields::find(number, message).and_then(|field| field.as_bytes()) {
            Some(nested) => message = nested,
            None => return Vec::new(),
        }
    }
    let fields = Fields::new(message).map(Result::unwrap);
    fields.filter(|field| field.number == last).collect()
}

fn numbers(message: &[u8], path: &[u32]) -> Vec<u64> {
    let fields = all(message, path).into_iter();
    fields.map(|field| field.as_u64().unwrap()).collect()
}

fn number(message: &[u8], path: &[u32]) -> Option<u64> {
    numbers(message, path).first().copied()
}

fn texts(message: &[u8], path: &[u32]) -> Vec<String> {
    let fields = all(message, path).into_iter();
    fields
        .map(|field| field.as_str_lossy().unwrap().into_owned())
        .collect()
}

/// The field numbers of a packet and of its messages.
const TIMESTAMP: u32 = 8;
const EVENT: u32 = 11;
const INTERNED: u32 = 12;
const CLOCK: u32 = 58;
const TRACK: u32 = 60;

/// Decodes the filter of a TrackEventConfig with these fields.
fn filter(write: impl FnOnce(&mut Encoder<'_, Vec<u8>>)) -> Filter {
    Filter::decode(&encode(write))
}

fn bytes(hex: &str) -> Vec<u8> {
    hex.split_whitespace()
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}
