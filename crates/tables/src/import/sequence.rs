//! The incremental state of sequences, as each packet found it.
//!
//! A packet is parsed long after it was read, when later packets have changed its sequence. So each
//! change makes a new [`State`], and events name the one they were written with.

use std::cell::Cell;
use std::sync::Arc;

use ferretto_format::budget::{Budget, entry_bytes};
use ferretto_format::sequence::{InternedEntry, InternedTable};
use ferretto_proto::fields::{interned_data, trace_packet_defaults, track_event_defaults};
use ferretto_wire::Fields;
use rustc_hash::FxHashMap;

use crate::strings::{StringId, StringPool};

/// Sequences beyond this number share the state of sequence 0.
const MAX_SEQUENCES: usize = 1 << 18;
/// Values of a list of counters beyond this number are left out.
const MAX_LIST: usize = 64;

/// A sequence: the row of its machine, and its id.
type Key = (u32, u32);

/// Sequences whose places are at hand.
const RECENT: usize = 64;

/// The sequences of all machines.
#[derive(Debug)]
pub(crate) struct Sequences {
    places: FxHashMap<Key, u32>,
    /// The places of sequences that had packets not long ago.
    recent: Box<[Option<(Key, u32)>; RECENT]>,
    pub(crate) all: Vec<Sequence>,
    states: Vec<State>,
    free_states: Vec<u32>,
    interned: Vec<Arc<Interned>>,
    free_interned: Vec<u32>,
    budget: Budget,
}

/// The packets of one writer.
#[derive(Debug)]
pub(crate) struct Sequence {
    /// The sequence id; 0 is none.
    pub(crate) id: u32,
    /// The row of its machine.
    pub(crate) machine: u32,
    /// True if everything since the last new start is known.
    pub(crate) is_valid: bool,
    /// Counts the starts of incremental state.
    pub(crate) generation: u32,
    /// The state of the next packet.
    pub(crate) state: u32,
    /// Packets that relied on incremental state, and those of them that were skipped.
    pub(crate) needing_state: u64,
    pub(crate) skipped: u64,
    /// Counts of losses, of all and for each reason, by its bit.
    pub(crate) losses: u64,
    pub(crate) loss_reasons: [u64; 16],
}

/// The incremental state of a sequence at one time.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The place of the sequence in [`Sequences::all`].
    pub(crate) sequence: u32,
    /// The sequence id.
    pub(crate) sequence_id: u32,
    /// The row of its machine.
    pub(crate) machine: u32,
    /// The start of incremental state it belongs to.
    pub(crate) generation: u32,
    pub(crate) defaults: Defaults,
    /// The process and thread that write, if a descriptor says so.
    pub(crate) thread: Cell<Option<(i64, i64)>>,
    interned: u32,
    /// Events that name it.
    waiting: u32,
    /// True while it is that of the next packet.
    is_current: bool,
}

/// Values that hold for packets that do not say otherwise.
#[derive(Debug, Clone, Default)]
pub(crate) struct Defaults {
    /// The clock of timestamps.
    pub(crate) clock: Option<u32>,
    /// The track of track events.
    pub(crate) track: Option<u64>,
    /// The tracks of further values.
    pub(crate) extra_tracks: Box<[u64]>,
    pub(crate) extra_double_tracks: Box<[u64]>,
    /// The encoded `TracePacketDefaults`, for other topics.
    pub(crate) bytes: Box<[u8]>,
}

/// The entries that packets refer to by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interned {
    tables: Vec<(u32, Entries)>,
    taken: usize,
    /// States that have it.
    states: u32,
}

#[derive(Debug, Clone)]
enum Entries {
    Texts(InternedTable<StringId>),
    Messages(InternedTable<Box<[u8]>>),
}

/// The tables that hold a text for each number, and no more.
const TEXTS: [u32; 10] = [
    interned_data::EVENT_CATEGORIES,
    interned_data::EVENT_NAMES,
    interned_data::DEBUG_ANNOTATION_NAMES,
    interned_data::DEBUG_ANNOTATION_VALUE_TYPE_NAMES,
    interned_data::DEBUG_ANNOTATION_STRING_VALUES,
    interned_data::LOG_MESSAGE_BODY,
    interned_data::FUNCTION_NAMES,
    interned_data::KERNEL_SYMBOLS,
    interned_data::CORRELATION_ID_STR,
    interned_data::HISTOGRAM_NAMES,
];

impl Sequences {
    /// Returns none. Their memory is taken from `budget`.
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            places: FxHashMap::default(),
            recent: Box::new([None; RECENT]),
            all: Vec::new(),
            states: Vec::new(),
            free_states: Vec::new(),
            interned: Vec::new(),
            free_interned: Vec::new(),
            budget: budget.clone(),
        }
    }

    /// Sequences of another file follow, which have the same numbers and nothing else in common.
    pub(crate) fn start_file(&mut self) {
        self.places.clear();
        *self.recent = [None; RECENT];
    }

    /// Returns the place of a sequence of a machine. True if it is new.
    #[inline]
    pub(crate) fn place(&mut self, machine: u32, id: u32) -> (u32, bool) {
        match self.recent[id as usize % RECENT] {
            Some((key, place)) if key == (machine, id) => (place, false),
            _ => self.look_up(machine, id),
        }
    }

    fn look_up(&mut self, machine: u32, id: u32) -> (u32, bool) {
        let mut key = (machine, id);
        let bytes = entry_bytes::<(u64, Sequence, State, Interned)>();
        if !self.places.contains_key(&key)
            && (self.all.len() >= MAX_SEQUENCES || !self.budget.take(bytes))
        {
            key = (machine, 0);
        }
        if let Some(place) = self.places.get(&key) {
            self.recent[key.1 as usize % RECENT] = Some((key, *place));
            return (*place, false);
        }
        let place = self.all.len() as u32;
        let interned = self.new_interned();
        let state = self.new_state(State {
            sequence: place,
            sequence_id: key.1,
            machine,
            interned,
            ..State::default()
        });
        self.all.push(Sequence {
            id: key.1,
            machine,
            is_valid: false,
            generation: 0,
            state,
            needing_state: 0,
            skipped: 0,
            losses: 0,
            loss_reasons: [0; 16],
        });
        self.places.insert(key, place);
        self.recent[key.1 as usize % RECENT] = Some((key, place));
        (place, true)
    }

    /// Returns a sequence of a machine, if there is one.
    pub(crate) fn find(&self, machine: u32, id: u32) -> Option<&Sequence> {
        self.all.get(*self.places.get(&(machine, id))? as usize)
    }

    /// Incremental state of a sequence starts anew.
    pub(crate) fn restart(&mut self, place: u32) {
        let sequence = &mut self.all[place as usize];
        sequence.is_valid = true;
        sequence.generation += 1;
        let (id, machine, generation) = (sequence.id, sequence.machine, sequence.generation);
        let interned = self.new_interned();
        self.replace(
            place,
            State {
                sequence: place,
                sequence_id: id,
                machine,
                generation,
                interned,
                ..State::default()
            },
        );
    }

    /// Reads a `TracePacketDefaults`, which replaces what was before.
    pub(crate) fn set_defaults(&mut self, place: u32, defaults: &[u8]) {
        let sequence = &self.all[place as usize];
        let current = &self.states[sequence.state as usize];
        if *current.defaults.bytes == *defaults {
            return;
        }
        let state = State {
            sequence: place,
            sequence_id: sequence.id,
            machine: sequence.machine,
            generation: sequence.generation,
            interned: current.interned,
            defaults: Defaults::read(defaults),
            ..State::default()
        };
        self.replace(place, state);
    }

    /// Reads an `InternedData`. Present entries stay.
    pub(crate) fn intern(&mut self, place: u32, bytes: &[u8], strings: &mut StringPool) {
        let state = &self.states[self.all[place as usize].state as usize];
        let interned = Arc::make_mut(&mut self.interned[state.interned as usize]);
        for entry in InternedEntry::all(bytes) {
            interned.add(&entry, strings, &self.budget);
        }
    }

    fn replace(&mut self, place: u32, mut state: State) {
        let old = self.all[place as usize].state;
        state.thread = self.states[old as usize].thread.clone();
        let new = self.new_state(state);
        self.all[place as usize].state = new;
        let state = &mut self.states[old as usize];
        state.is_current = false;
        self.drop_unused(old);
    }

    fn new_state(&mut self, mut state: State) -> u32 {
        state.is_current = true;
        Arc::make_mut(&mut self.interned[state.interned as usize]).states += 1;
        match self.free_states.pop() {
            Some(place) => {
                self.states[place as usize] = state;
                place
            }
            None => {
                self.states.push(state);
                self.states.len() as u32 - 1
            }
        }
    }

    fn new_interned(&mut self) -> u32 {
        self.free_interned.pop().unwrap_or_else(|| {
            self.interned.push(Arc::default());
            self.interned.len() as u32 - 1
        })
    }

    fn drop_unused(&mut self, place: u32) {
        let state = &mut self.states[place as usize];
        if state.is_current || state.waiting > 0 {
            return;
        }
        let place_of_interned = state.interned;
        *state = State::default();
        self.free_states.push(place);
        let shared = &mut self.interned[place_of_interned as usize];
        let interned = Arc::make_mut(shared);
        interned.states -= 1;
        if interned.states == 0 {
            self.budget.give_back(interned.taken);
            *shared = Arc::default();
            self.free_interned.push(place_of_interned);
        }
    }

    /// Returns a state by the number that events name it by.
    #[inline]
    pub(crate) fn state(&self, number: u32) -> &State {
        &self.states[number as usize]
    }

    /// So many events name the state from now on.
    #[inline]
    pub(crate) fn keep(&mut self, number: u32, events: u32) {
        self.states[number as usize].waiting += events;
    }

    /// An event no longer names the state.
    #[inline]
    pub(crate) fn release(&mut self, number: u32) {
        let state = &mut self.states[number as usize];
        state.waiting -= 1;
        if state.waiting == 0 && !state.is_current {
            self.drop_unused(number);
        }
    }

    /// Returns an interned text.
    #[inline]
    pub(crate) fn text(&self, state: &State, table: u32, iid: u64) -> Option<StringId> {
        self.interned[state.interned as usize].text(table, iid)
    }

    /// Returns the interned data of a state, to be read on other threads.
    pub(crate) fn share_interned(&self, number: u32) -> Arc<Interned> {
        self.interned[self.state(number).interned as usize].clone()
    }

    /// Returns an interned message as it is encoded.
    pub(crate) fn message(&self, state: &State, table: u32, iid: u64) -> Option<&[u8]> {
        match self.interned[state.interned as usize].entries(table)? {
            Entries::Texts(_) => None,
            Entries::Messages(messages) => messages.get(iid).map(|bytes| &**bytes),
        }
    }
}

impl Interned {
    /// Returns a text.
    #[inline]
    pub(crate) fn text(&self, table: u32, iid: u64) -> Option<StringId> {
        match self.entries(table)? {
            Entries::Texts(texts) => texts.get(iid).copied(),
            Entries::Messages(_) => None,
        }
    }

    #[inline]
    fn entries(&self, table: u32) -> Option<&Entries> {
        let mut tables = self.tables.iter();
        let (_, entries) = tables.find(|(number, _)| *number == table)?;
        Some(entries)
    }

    fn add(&mut self, entry: &InternedEntry<'_>, strings: &mut StringPool, budget: &Budget) {
        /// Tables beyond this number are left out; the schema has fewer.
        const MAX_TABLES: usize = 64;
        let known = self
            .tables
            .iter()
            .position(|(number, _)| *number == entry.table);
        let place = match known {
            Some(place) => place,
            None if self.tables.len() >= MAX_TABLES => return,
            None => {
                let entries = match TEXTS.contains(&entry.table) {
                    true => Entries::Texts(InternedTable::default()),
                    false => Entries::Messages(InternedTable::default()),
                };
                self.tables.push((entry.table, entries));
                self.tables.len() - 1
            }
        };
        let mut take = |bytes| {
            let is_there = budget.take(bytes);
            self.taken += if is_there { bytes } else { 0 };
            is_there
        };
        match &mut self.tables[place].1 {
            Entries::Texts(texts) => {
                if texts.get(entry.iid).is_none() && take(InternedTable::<StringId>::ENTRY_BYTES) {
                    let text = strings.intern_bytes(entry.string.unwrap_or_default());
                    texts.insert(entry.iid, text);
                }
            }
            Entries::Messages(messages) => {
                let bytes = entry.bytes.len() + InternedTable::<Box<[u8]>>::ENTRY_BYTES;
                if messages.get(entry.iid).is_none() && take(bytes) {
                    messages.insert(entry.iid, entry.bytes.into());
                }
            }
        }
    }
}

impl Defaults {
    fn read(bytes: &[u8]) -> Self {
        let mut defaults = Self {
            bytes: bytes.into(),
            ..Self::default()
        };
        for field in Fields::new(bytes).map_while(Result::ok) {
            match field.number {
                trace_packet_defaults::TIMESTAMP_CLOCK_ID => defaults.clock = field.as_u32(),
                trace_packet_defaults::TRACK_EVENT_DEFAULTS => {
                    let (mut extra, mut doubles) = (Vec::new(), Vec::new());
                    let fields = field.as_message().into_iter().flatten();
                    for field in fields.map_while(Result::ok) {
                        use track_event_defaults as of;
                        match field.number {
                            of::TRACK_UUID => defaults.track = field.as_u64(),
                            of::EXTRA_COUNTER_TRACK_UUIDS => extra.extend(field.as_varints()),
                            of::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS => {
                                doubles.extend(field.as_varints());
                            }
                            _ => {}
                        }
                    }
                    extra.truncate(MAX_LIST);
                    doubles.truncate(MAX_LIST);
                    defaults.extra_tracks = extra.into();
                    defaults.extra_double_tracks = doubles.into();
                }
                _ => {}
            }
        }
        defaults
    }
}
