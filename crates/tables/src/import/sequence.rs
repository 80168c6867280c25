//! The incremental state of sequences at the time of each packet.
//!
//! A packet is parsed long after it was read, when later packets have changed its sequence. Each
//! change therefore creates a new [`State`], and events refer to the one of their packet.

use std::cell::Cell;
use std::sync::Arc;

use ferretto_format::Loss;
use ferretto_format::budget::{Budget, entry_bytes};
use ferretto_format::sequence::{InternedEntry, InternedTable};
use ferretto_format::track_event::EventDefaults;
use ferretto_proto::fields::android::{
    frameworks_base_interned_data as base, frameworks_native_interned_data as native,
};
use ferretto_proto::fields::{interned_data, trace_packet_defaults};
use ferretto_wire::Fields;
use rustc_hash::FxHashMap;

use crate::strings::{StringId, StringPool};

/// The maximum number of sequences. Further ones share the state of sequence 0.
const MAX_SEQUENCES: usize = 1 << 18;

/// A sequence: the row of its machine, and its id.
type Key = (u32, u32);

/// The number of recently used sequences.
const RECENT: usize = 64;

/// The sequences of all machines.
#[derive(Debug)]
pub(crate) struct Sequences {
    indexes: FxHashMap<Key, u32>,
    /// The indexes of recently used sequences.
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
    /// The sequence id, or 0.
    pub(crate) id: u32,
    /// The row of its machine.
    pub(crate) machine: u32,
    /// Set if all packets since the last restart were received.
    pub(crate) is_valid: bool,
    /// The number of restarts of incremental state.
    pub(crate) generation: u32,
    /// The state of the next packet.
    pub(crate) state: u32,
    /// The number of packets that needed incremental state, and of those that were skipped.
    pub(crate) needing_state: u64,
    pub(crate) skipped: u64,
    /// The numbers of losses, in total and for each reason, by bit.
    pub(crate) losses: u64,
    pub(crate) loss_reasons: [u64; 16],
}

impl Sequence {
    /// Counts the loss before a packet, if there is one.
    pub(super) fn count_loss(&mut self, loss: Loss) {
        if loss.is_none() {
            return;
        }
        self.losses += 1;
        for (bit, count) in self.loss_reasons.iter_mut().enumerate() {
            *count += u64::from(loss.bits() >> bit & 1);
        }
    }
}

/// The incremental state of a sequence at some time.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The index of the sequence in [`Sequences::all`].
    pub(crate) sequence: u32,
    /// The sequence id.
    pub(crate) sequence_id: u32,
    /// The row of its machine.
    pub(crate) machine: u32,
    /// The number of the restart to which the state belongs.
    pub(crate) generation: u32,
    pub(crate) defaults: Defaults,
    /// The pid and tid of the writing thread, from a descriptor.
    pub(crate) thread: Cell<Option<(i64, i64)>>,
    interned: u32,
    /// The number of events that refer to the state.
    waiting: u32,
    /// Set if this is the state of the next packet.
    is_current: bool,
}

/// Default values for packets.
#[derive(Debug, Clone, Default)]
pub(crate) struct Defaults {
    /// The clock of timestamps.
    pub(crate) clock: Option<u32>,
    /// Those of track events.
    pub(crate) event: EventDefaults,
    /// The encoded `TracePacketDefaults`, for other topics.
    pub(crate) bytes: Box<[u8]>,
}

/// The interned data of a sequence.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interned {
    tables: Vec<(u32, Entries)>,
    taken: usize,
    /// The number of states that refer to it.
    states: u32,
}

#[derive(Debug, Clone)]
enum Entries {
    Texts(InternedTable<StringId>),
    Messages(InternedTable<Box<[u8]>>),
}

/// The tables with a text for each iid, and no other fields.
const TEXTS: [u32; 18] = [
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
    native::PROTOLOG_STRING_ARGS,
    native::PROTOLOG_STACKTRACE,
    base::VIEWCAPTURE_PACKAGE_NAME,
    base::VIEWCAPTURE_WINDOW_NAME,
    base::VIEWCAPTURE_VIEW_ID,
    base::VIEWCAPTURE_CLASS_NAME,
    base::VIEWCAPTURE_CONTENT_DESCRIPTION,
    base::VIEWCAPTURE_TEXT,
];

impl Sequences {
    /// Creates an empty list. Memory of sequences is taken from `budget`.
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            indexes: FxHashMap::default(),
            recent: Box::new([None; RECENT]),
            all: Vec::new(),
            states: Vec::new(),
            free_states: Vec::new(),
            interned: Vec::new(),
            free_interned: Vec::new(),
            budget: budget.clone(),
        }
    }

    /// Starts another file, whose sequence ids are unrelated to those of earlier files.
    pub(crate) fn start_file(&mut self) {
        self.indexes.clear();
        *self.recent = [None; RECENT];
    }

    /// Returns the index of a sequence of a machine, and true if it is new.
    #[inline]
    pub(crate) fn index_of(&mut self, machine: u32, id: u32) -> (u32, bool) {
        match self.recent[id as usize % RECENT] {
            Some((key, index)) if key == (machine, id) => (index, false),
            _ => self.look_up(machine, id),
        }
    }

    fn look_up(&mut self, machine: u32, id: u32) -> (u32, bool) {
        let mut key = (machine, id);
        let bytes = entry_bytes::<(u64, Sequence, State, Interned)>();
        if !self.indexes.contains_key(&key)
            && (self.all.len() >= MAX_SEQUENCES || !self.budget.take(bytes))
        {
            key = (machine, 0);
        }
        if let Some(index) = self.indexes.get(&key) {
            self.recent[key.1 as usize % RECENT] = Some((key, *index));
            return (*index, false);
        }
        let index = self.all.len() as u32;
        let interned = self.new_interned();
        let state = self.new_state(State {
            sequence: index,
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
        self.indexes.insert(key, index);
        self.recent[key.1 as usize % RECENT] = Some((key, index));
        (index, true)
    }

    /// Returns a sequence of a machine, if there is one.
    pub(crate) fn find(&self, machine: u32, id: u32) -> Option<&Sequence> {
        self.all.get(*self.indexes.get(&(machine, id))? as usize)
    }

    /// Restarts the incremental state of a sequence.
    pub(crate) fn restart(&mut self, index: u32) {
        let sequence = &mut self.all[index as usize];
        sequence.is_valid = true;
        sequence.generation += 1;
        let (id, machine, generation) = (sequence.id, sequence.machine, sequence.generation);
        let interned = self.new_interned();
        self.replace(
            index,
            State {
                sequence: index,
                sequence_id: id,
                machine,
                generation,
                interned,
                ..State::default()
            },
        );
    }

    /// Reads a `TracePacketDefaults`, which replaces earlier defaults.
    pub(crate) fn set_defaults(&mut self, index: u32, defaults: &[u8]) {
        let sequence = &self.all[index as usize];
        let current = &self.states[sequence.state as usize];
        if *current.defaults.bytes == *defaults {
            return;
        }
        let state = State {
            sequence: index,
            sequence_id: sequence.id,
            machine: sequence.machine,
            generation: sequence.generation,
            interned: current.interned,
            defaults: Defaults::read(defaults),
            ..State::default()
        };
        self.replace(index, state);
    }

    /// Reads an `InternedData`. Existing entries are kept.
    pub(crate) fn intern(&mut self, index: u32, bytes: &[u8], strings: &mut StringPool) {
        let state = &self.states[self.all[index as usize].state as usize];
        let interned = Arc::make_mut(&mut self.interned[state.interned as usize]);
        for entry in InternedEntry::all(bytes) {
            interned.add(&entry, strings, &self.budget);
        }
    }

    fn replace(&mut self, index: u32, mut state: State) {
        let old = self.all[index as usize].state;
        state.thread = self.states[old as usize].thread.clone();
        let new = self.new_state(state);
        self.all[index as usize].state = new;
        let state = &mut self.states[old as usize];
        state.is_current = false;
        self.drop_unused(old);
    }

    fn new_state(&mut self, mut state: State) -> u32 {
        state.is_current = true;
        Arc::make_mut(&mut self.interned[state.interned as usize]).states += 1;
        match self.free_states.pop() {
            Some(index) => {
                self.states[index as usize] = state;
                index
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

    fn drop_unused(&mut self, index: u32) {
        let state = &mut self.states[index as usize];
        if state.is_current || state.waiting > 0 {
            return;
        }
        let interned_index = state.interned;
        *state = State::default();
        self.free_states.push(index);
        let shared = &mut self.interned[interned_index as usize];
        let interned = Arc::make_mut(shared);
        interned.states -= 1;
        if interned.states == 0 {
            self.budget.give_back(interned.taken);
            *shared = Arc::default();
            self.free_interned.push(interned_index);
        }
    }

    /// Returns a state by its number.
    #[inline]
    pub(crate) fn state(&self, number: u32) -> &State {
        &self.states[number as usize]
    }

    /// Adds references of events to the state.
    #[inline]
    pub(crate) fn keep(&mut self, number: u32, events: u32) {
        self.states[number as usize].waiting += events;
    }

    /// Removes the reference of an event to the state.
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

    /// Returns the interned data of a state, to read it on other threads.
    pub(crate) fn share_interned(&self, number: u32) -> Arc<Interned> {
        self.interned[self.state(number).interned as usize].clone()
    }

    /// Returns an encoded interned message.
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
        /// The maximum number of tables. The schema has fewer.
        const MAX_TABLES: usize = 64;
        let known = self
            .tables
            .iter()
            .position(|(number, _)| *number == entry.table);
        let index = match known {
            Some(index) => index,
            None if self.tables.len() >= MAX_TABLES => return,
            None => {
                let entries = if TEXTS.contains(&entry.table) {
                    Entries::Texts(InternedTable::default())
                } else {
                    Entries::Messages(InternedTable::default())
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
        match &mut self.tables[index].1 {
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
        let clocks = Fields::new(bytes).map_while(Result::ok);
        let clocks =
            clocks.filter(|field| field.number == trace_packet_defaults::TIMESTAMP_CLOCK_ID);
        Self {
            clock: clocks.last().and_then(|clock| clock.as_u32()),
            event: EventDefaults::read(bytes),
            bytes: bytes.into(),
        }
    }
}
