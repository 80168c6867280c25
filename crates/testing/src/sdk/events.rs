//! A decoder of the track events of a recording.

use std::collections::BTreeMap;
use std::time::Duration;

use ferretto_client::Consumer;
use ferretto_wire::{Field, Fields};

use super::{LIMIT, Service, config, source, start, stop};

/// An event.
#[derive(Clone, Debug, Default)]
pub struct Event {
    pub sequence: u64,
    /// 1 begin, 2 end, 3 instant, 4 counter.
    pub kind: u64,
    pub category: String,
    pub name: String,
    /// Names and values; see [`value`].
    pub arguments: Vec<(String, String)>,
    pub track: Option<u64>,
    pub flows: Vec<u64>,
    pub ended_flows: Vec<u64>,
    pub counter: String,
}

impl Event {
    /// Formats kind, category, name and arguments: `B app draw frame=u7`.
    pub fn line(&self) -> String {
        let mut line = ["?", "B", "E", "I", "C", "S"][self.kind as usize].to_owned();
        for word in [&self.category, &self.name, &self.counter] {
            if !word.is_empty() {
                line += &format!(" {word}");
            }
        }
        for (name, value) in &self.arguments {
            line += &format!(" {name}={value}");
        }
        line
    }
}

/// The decoded fields of a track.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Track {
    pub name: String,
    pub parent: Option<u64>,
    pub is_counter: bool,
    pub thread: Option<u64>,
}

/// The decoded track events of a recording.
#[derive(Debug, Default)]
pub struct Decoded {
    pub events: Vec<Event>,
    pub tracks: BTreeMap<u64, Track>,
    /// Interned strings by sequence, table and iid.
    strings: BTreeMap<(u64, u32, u64), String>,
    default_tracks: BTreeMap<u64, u64>,
}

impl Decoded {
    pub fn new(packets: &[Vec<u8>]) -> Self {
        let mut decoded = Self::default();
        for packet in packets {
            decoded.packet(packet);
        }
        decoded
    }

    /// Returns all events, one per line.
    pub fn lines(&self) -> Vec<String> {
        self.events.iter().map(Event::line).collect()
    }

    /// Returns the track of an event, which may be the default track of its thread.
    pub fn track(&self, event: &Event) -> u64 {
        event
            .track
            .unwrap_or_else(|| self.default_tracks[&event.sequence])
    }

    fn packet(&mut self, packet: &[u8]) {
        let sequence = number(packet, 10).unwrap_or(0);
        if number(packet, 13).is_some_and(|flags| flags & 1 != 0) {
            self.strings.retain(|key, _| key.0 != sequence);
        }
        for entry in fields(Fields::find(12, packet)) {
            let bytes = entry.as_bytes().unwrap();
            let text = Fields::find(2, bytes).and_then(|field| field.as_str_lossy());
            let key = (sequence, entry.number, number(bytes, 1).unwrap());
            self.strings
                .insert(key, text.unwrap_or_default().into_owned());
        }
        if let Some(defaults) = bytes(packet, 59).and_then(|bytes| self::bytes(bytes, 11)) {
            let track = number(defaults, 11).unwrap();
            self.default_tracks.insert(sequence, track);
        }
        if let Some(track) = bytes(packet, 60) {
            self.describe(track);
        }
        if let Some(event) = Fields::find(11, packet) {
            let event = self.event(sequence, event);
            self.events.push(event);
        }
    }

    fn describe(&mut self, descriptor: &[u8]) {
        let name = [2, 10, 13]
            .iter()
            .find_map(|&n| Fields::find(n, descriptor));
        let track = Track {
            name: name.map(text).unwrap_or_default(),
            parent: number(descriptor, 5),
            is_counter: Fields::find(8, descriptor).is_some(),
            thread: bytes(descriptor, 4).and_then(|thread| number(thread, 2)),
        };
        self.tracks.insert(number(descriptor, 1).unwrap(), track);
    }

    fn string(&self, sequence: u64, table: u32, iid: u64) -> String {
        self.strings[&(sequence, table, iid)].clone()
    }

    fn event(&self, sequence: u64, event: Field<'_>) -> Event {
        let mut decoded = Event {
            sequence,
            ..Event::default()
        };
        for field in fields(Some(event)) {
            let varint = || field.as_u64().unwrap();
            match field.number {
                9 => decoded.kind = varint(),
                3 => decoded.category += &self.string(sequence, 1, varint()),
                22 => decoded.category += &text(field),
                10 => decoded.name = self.string(sequence, 2, varint()),
                23 => decoded.name = text(field),
                11 => decoded.track = Some(varint()),
                30 => decoded.counter = field.as_i64().unwrap().to_string(),
                44 => decoded.counter = field.as_f64().unwrap().to_string(),
                47 => decoded.flows.push(field.as_u64().unwrap()),
                48 => decoded.ended_flows.push(field.as_u64().unwrap()),
                4 => {
                    let annotation = field.as_bytes().unwrap();
                    decoded
                        .arguments
                        .push(self.annotation(sequence, annotation));
                }
                _ => {}
            }
        }
        decoded
    }

    /// Decodes the name and value of an annotation. Values show their encoding: `i-1`, `u1`,
    /// `d0.5`, `true`, `"text"`, `p16`, `[…]`, `{key=…}`, `name<bytes>` for a message; empty
    /// without a value.
    fn annotation(&self, sequence: u64, annotation: &[u8]) -> (String, String) {
        let mut name = String::new();
        let mut values: Vec<String> = Vec::new();
        let (mut entries, mut items) = (Vec::new(), Vec::new());
        for field in Fields::new(annotation).map(Result::unwrap) {
            match field.number {
                1 => name = self.string(sequence, 3, field.as_u64().unwrap()),
                10 => name = text(field),
                2 => values.push((field.as_u64().unwrap() == 1).to_string()),
                3 => values.push(format!("u{}", field.as_u64().unwrap())),
                4 => values.push(format!("i{}", field.as_i64().unwrap())),
                5 => values.push(format!("d{}", field.as_f64().unwrap())),
                6 => values.push(format!("{:?}", text(field))),
                7 => values.push(format!("p{}", field.as_u64().unwrap())),
                13 => values.push(self.string(sequence, 27, field.as_u64().unwrap())),
                14 => values.push(format!("<{:02x?}>", field.as_bytes().unwrap())),
                11 => {
                    let (name, value) = self.annotation(sequence, field.as_bytes().unwrap());
                    entries.push(format!("{name}={value}"));
                }
                12 => items.push(self.annotation(sequence, field.as_bytes().unwrap()).1),
                number => panic!("annotation field {number}"),
            }
        }
        if !entries.is_empty() {
            values.push(format!("{{{}}}", entries.join(" ")));
        }
        if !items.is_empty() {
            values.push(format!("[{}]", items.join(" ")));
        }
        (name, values.concat())
    }
}

/// Records the events of `work` with this track event config, in a process that does not use the
/// library otherwise.
pub fn record(configuration: Option<Vec<u8>>, work: impl FnOnce()) -> Decoded {
    let mut recorder = Recorder::new();
    recorder.record(configuration, work)
}

/// A service, and this process connected to it.
pub struct Recorder {
    consumer: Consumer,
    _service: Service,
}

impl Recorder {
    pub fn new() -> Self {
        let service = Service::start();
        ferretto::Options::new()
            .address(service.producers.clone())
            .wait(LIMIT)
            .init()
            .unwrap();
        Self {
            consumer: Consumer::connect(&service.consumers, LIMIT).unwrap(),
            _service: service,
        }
    }

    /// Records the events of `work`.
    pub fn record(&mut self, configuration: Option<Vec<u8>>, work: impl FnOnce()) -> Decoded {
        self.start(configuration);
        work();
        self.stop()
    }

    pub fn start(&mut self, configuration: Option<Vec<u8>>) {
        let source = source("track_event", configuration);
        start(&mut self.consumer, config(vec![source]));
    }

    pub fn stop(&mut self) -> Decoded {
        ferretto::flush(Duration::from_secs(30));
        let packets = stop(&mut self.consumer);
        self.consumer.free_buffers(LIMIT).unwrap();
        Decoded::new(&packets)
    }
}

fn number(message: &[u8], field: u32) -> Option<u64> {
    Fields::find(field, message)?.as_u64()
}

fn bytes(message: &[u8], field: u32) -> Option<&[u8]> {
    Fields::find(field, message)?.as_bytes()
}

fn fields(message: Option<Field<'_>>) -> impl Iterator<Item = Field<'_>> {
    let fields = message.and_then(|field| field.as_message());
    fields.into_iter().flatten().map(Result::unwrap)
}

fn text(field: Field<'_>) -> String {
    field.as_str_lossy().unwrap().into_owned()
}
