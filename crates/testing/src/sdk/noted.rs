//! A data source that reports its callbacks and behaves as the test requires.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use ferretto::proto::DataSourceConfig;
use ferretto::{
    Completion, DataSource, DataSourceHandle, DataSourceOptions, FlushFlags, Instance, TraceContext,
};
use ferretto_wire::Fields;

use super::LIMIT;

/// A note of a callback.
#[derive(Debug, PartialEq, Eq)]
pub enum Note {
    Setup,
    Start(usize),
    Stop(usize),
    Flush(usize),
    Clear(usize),
    /// The instance's data is dropped.
    Dropped,
}

pub struct Noted {
    notes: Mutex<Sender<Note>>,
    /// The channel for completions that the test delays.
    stops: Option<Mutex<Sender<Completion>>>,
    flushes: Option<Mutex<Sender<Completion>>>,
    keeps_state: bool,
}

/// The test's ends of the channels.
pub struct Ends {
    pub notes: Receiver<Note>,
    pub stops: Receiver<Completion>,
    pub flushes: Receiver<Completion>,
}

impl Noted {
    pub fn new() -> (Self, Ends) {
        let (notes, received) = channel();
        let noted = Self {
            notes: Mutex::new(notes),
            stops: None,
            flushes: None,
            keeps_state: false,
        };
        let ends = Ends {
            notes: received,
            stops: channel().1,
            flushes: channel().1,
        };
        (noted, ends)
    }

    /// Creates a data source whose stops and flushes the test completes.
    pub fn postponing() -> (Self, Ends) {
        let (mut noted, mut ends) = Self::new();
        let (stops, flushes) = (channel(), channel());
        noted.stops = Some(Mutex::new(stops.0));
        noted.flushes = Some(Mutex::new(flushes.0));
        (ends.stops, ends.flushes) = (stops.1, flushes.1);
        (noted, ends)
    }

    /// Makes `clear_thread` keep the state of threads.
    pub fn keeping(mut self) -> Self {
        self.keeps_state = true;
        self
    }

    pub fn register(self, name: &str) -> DataSourceHandle<Self> {
        DataSourceOptions::new(name).register(self).unwrap()
    }

    fn note(&self, note: Note) {
        // The test may have ended.
        let _ = self.notes.lock().unwrap().send(note);
    }
}

/// The data that belongs to an instance.
pub struct Data(Sender<Note>);

impl Drop for Data {
    fn drop(&mut self) {
        let _ = self.0.send(Note::Dropped);
    }
}

impl DataSource for Noted {
    type Instance = Data;
    /// The number of packets written since the state was created.
    type Thread = u32;

    fn setup(&self, _: &DataSourceConfig) -> Data {
        self.note(Note::Setup);
        Data(self.notes.lock().unwrap().clone())
    }

    fn start(&self, instance: &Instance<Self>) {
        self.note(Note::Start(instance.index()));
    }

    fn stop(&self, instance: &Instance<Self>, completion: Completion) {
        self.note(Note::Stop(instance.index()));
        match &self.stops {
            Some(stops) => stops.lock().unwrap().send(completion).unwrap(),
            None => completion.complete(),
        }
    }

    fn flush(&self, instance: &Instance<Self>, _: FlushFlags, completion: Completion) {
        self.note(Note::Flush(instance.index()));
        match &self.flushes {
            Some(flushes) => flushes.lock().unwrap().send(completion).unwrap(),
            None => completion.complete(),
        }
    }

    fn clear_incremental_state(&self, instance: &Instance<Self>) {
        self.note(Note::Clear(instance.index()));
    }

    fn clear_thread(&self, _: &mut u32) -> bool {
        self.keeps_state
    }
}

/// The field of TracePacket for test data.
const FOR_TESTING: u32 = 900;

/// Writes a text to every recording.
pub fn write(source: &DataSourceHandle<Noted>, text: &str) {
    source.trace(|context| write_into(context, text));
}

pub fn write_into(context: &mut TraceContext<'_, Noted>, text: &str) {
    *context.state() += 1;
    context
        .new_packet()
        .nested(FOR_TESTING, |message| message.string(1, text));
}

/// Returns the texts in a trace.
pub fn texts(packets: &[Vec<u8>]) -> Vec<String> {
    packets
        .iter()
        .filter_map(|packet| Fields::find(FOR_TESTING, packet)?.as_bytes())
        .filter_map(|nested| Some(Fields::find(1, nested)?.as_str_lossy()?.into_owned()))
        .collect()
}

/// Waits for a note, skipping earlier ones.
pub fn wait_for(notes: &Receiver<Note>, wanted: &Note) {
    while notes.recv_timeout(LIMIT).expect("it happens in time") != *wanted {}
}
