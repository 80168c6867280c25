//! The import of packets into tables.
//!
//! 1. **Tokenize**, in the order of the file: [`Importer::batch`] reads the header of each packet,
//!    updates the incremental state of its sequence, converts its time, and passes it to its topic,
//!    which pushes [`Event`]s into the [`Sorter`].
//! 2. **Sort**, by time: in windows, whenever the trace states that no older events can follow, or
//!    otherwise at the end.
//! 3. **Parse**, in the order of time: the topic decodes the event and fills tables by means of
//!    trackers.

mod ahead;
mod android;
mod arena;
mod chrome;
mod content;
mod context;
mod diagnostics;
mod etw;
mod event;
mod ftrace;
mod gpu;
mod head;
mod input;
mod machines;
mod message;
mod packets;
mod parser;
mod profiles;
mod protovm;
mod reflect;
mod sequence;
mod service;
mod snapshots;
mod sorter;
mod system;
mod tokenizer;
mod topics;
mod trace_info;
mod trace_stats;
mod track_event;
mod translation;

pub(crate) use self::arena::Batch;
pub(crate) use self::context::Context;
pub(crate) use self::event::{Line, LineKind};
pub(crate) use self::ftrace::{Binder, Print};
pub(crate) use self::input::{Input, Out};
pub(crate) use self::machines::FileMachines;
pub(crate) use self::packets::{Source, read_packets};
pub(crate) use self::snapshots::choose_trace_clock;
pub(crate) use self::trace_info::{begin_file, end_file, guess_uuid};

use ferretto_format::budget::Budget;
use ferretto_format::sequence::PacketHeader;

use self::ahead::Ahead;
use self::arena::{Arena, Span};
use self::content::ProtoContent;
use self::context::EventState;
use self::event::Event;
use self::head::{Content, Head};
use self::machines::Machines;
use self::parser::Parser;
use self::protovm::Vms;
use self::sequence::Sequences;
use self::sorter::{Sorter, Stream};
use self::tokenizer::{PacketLocation, Tokenizer};
use self::topics::Topics;
use crate::options::Options;
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::store::Store;
use crate::trackers::args::ArgSet;
use crate::trackers::clock;

/// The state of an import.
#[derive(Debug)]
pub(crate) struct Importer {
    pub(crate) context: Context,
    arena: Arena,
    sequences: Sequences,
    sorter: Sorter,
    topics: Topics,
    vms: Vms,
    ahead: Ahead,
    latest: i64,
    parked: Parked,
    /// The memory limit of tables and waiting packets in bytes.
    allowed: usize,
    /// Set if the limit is exceeded. The rest is dropped.
    is_over: bool,
    machines: Machines,
    /// The sizes of fields, if they are wanted.
    content: Option<ProtoContent>,
}

/// Packets whose time cannot be converted yet.
#[derive(Debug, Default)]
struct Parked {
    /// The packets, and their offsets in the file.
    packets: Vec<(Box<[u8]>, u64)>,
    bytes: usize,
    /// Set at the end of the file, when no more snapshots follow.
    is_at_end: bool,
}

/// The maximum size of parked packets in bytes.
const MAX_PARKED: usize = 256 << 20;

impl Importer {
    /// Returns the row of the machine with this name, or of the machine without a name.
    pub(crate) fn machine_row(&mut self, name: Option<&str>) -> u32 {
        let Context {
            machines, store, ..
        } = &mut self.context;
        let (machine, is_new) = match name {
            Some(name) => machines.declare(store, name),
            None => machines.intern(store, 0),
        };
        if is_new {
            self.start_machine(machine);
        }
        machine
    }

    /// Creates an import. Memory of sequences is taken from `budget`.
    pub(crate) fn new(store: Store, budget: &Budget, options: &Options) -> Self {
        let mut context = Context::new(store, options);
        let (machine, _) = context.machines.intern(&mut context.store, 0);
        context.store.set_machine(machine);
        context.processes.start_machine(&mut context.store);
        let mut topics = Topics::default();
        topics.begin_part(options);
        if options.crop_track_events {
            topics.crop_track_events();
        }
        Self {
            context,
            arena: Arena::default(),
            sequences: Sequences::new(budget),
            sorter: Sorter::new(options.full_sort),
            topics,
            vms: Vms::default(),
            ahead: Ahead::new(options.threads),
            latest: 0,
            parked: Parked::default(),
            allowed: options.memory,
            is_over: false,
            machines: Machines::default(),
            content: options.proto_content.then(ProtoContent::default),
        }
    }

    /// Tokenizes packets. Leaves an empty batch with memory for others.
    pub(crate) fn batch(&mut self, batch: &mut Batch) {
        self.context.store.set_machine(self.machines.file.machine);
        // Packets come from Linux, where thread 0 is the idle task.
        self.context
            .processes
            .set_idle_task(&mut self.context.store);
        let number = self.arena.add(std::mem::take(batch));
        for index in 0..self.arena.packets(number) {
            if let Some((span, offset)) = self.arena.packet(number, index) {
                self.packet(span, offset, self.arena.head(number, index), false);
            }
        }
        *batch = self.arena.tokenized(number);
    }

    /// Starts another file: a row of `trace_file`.
    pub(crate) fn start_file(&mut self, row: u32, file: FileMachines) {
        self.context.store.trace_file = row;
        self.context.store.set_machine(file.machine);
        self.machines.file = file;
        self.sequences.start_file();
        self.vms = Vms::default();
    }

    /// Initializes a new machine: a row of `machine`.
    pub(crate) fn start_machine(&mut self, machine: u32) {
        machines::start(&mut self.context, machine, 0);
    }

    /// Returns the rule that the file breaks, if there is one.
    pub(crate) fn broken(&self) -> Option<String> {
        if let Some(raw_id) = self.machines.undeclared {
            return Some(format!(
                "perfetto_manifest: machines: trace has a packet from undeclared machine id \
                 {raw_id}"
            ));
        }
        self.machines.broken.map(str::to_owned)
    }

    /// Sorts all events at the end. Returns false if some were taken already.
    pub(crate) fn sort_fully(&mut self) -> bool {
        self.sorter.sort_fully()
    }

    /// Adds lines of a file without packets.
    pub(crate) fn lines(&mut self, batch: Batch, lines: &[Line]) {
        let number = self.arena.add(batch);
        let (sequence, _) = self.sequences.index_of(self.context.store.machine, 0);
        let state = self.sequences.all[sequence as usize].state;
        self.sorter.sort_fully();
        for (index, line) in lines.iter().enumerate() {
            let Some((span, _)) = self.arena.packet(number, index) else {
                break;
            };
            let event = Event::Line {
                kind: line.kind,
                span,
                rank: line.rank,
            };
            let store = &mut self.context.store;
            if self
                .sorter
                .push(store, Stream::Packets, line.ts, state, event)
            {
                self.arena.keep(span, 1);
                self.sequences.keep(state, 1);
            }
        }
        self.arena.tokenized(number);
    }

    /// Returns true if tables and waiting packets have exceeded the memory limit.
    pub(crate) fn is_over(&mut self) -> bool {
        let waiting = self.arena.memory() + self.sorter.memory() + self.parked.bytes;
        self.is_over |= waiting + self.context.store.memory() > self.allowed;
        self.is_over
    }

    /// Parses all waiting events, and returns the result. The flag is true if data was dropped
    /// because of the memory limit.
    pub(crate) fn finish(mut self) -> (Context, bool) {
        self.parked.is_at_end = true;
        let parked = std::mem::take(&mut self.parked.packets);
        let mut batch = Batch::default();
        for (packet, offset) in &parked {
            if batch.is_full_for(packet.len()) {
                self.parked_batch(std::mem::take(&mut batch));
            }
            batch.push(packet, *offset);
        }
        self.parked_batch(batch);
        self.take(true);
        self.topics.finish(&mut self.context);
        if let Some(content) = &mut self.content {
            content.finish(&mut self.context);
        }
        service::finish(&mut self.context, &self.sequences);
        self.context.finish();
        (self.context, self.is_over)
    }

    /// Tokenizes parked packets, whose incremental state was read before.
    fn parked_batch(&mut self, batch: Batch) {
        let number = self.arena.add(batch);
        for index in 0..self.arena.packets(number) {
            if let Some((span, offset)) = self.arena.packet(number, index) {
                let Self {
                    context,
                    sequences,
                    arena,
                    sorter,
                    topics,
                    ..
                } = self;
                let (header, content, _) = Content::read(arena.bytes(span));
                let machine = self.machines.of_packet(context, header.machine);
                context.store.set_machine(machine);
                let (sequence, _) = sequences.index_of(machine, header.sequence);
                let mut tokenizer = Tokenizer {
                    context,
                    sequences,
                    sorter,
                    topics,
                    latest: &mut self.latest,
                    parked: &mut self.parked,
                };
                let at = PacketLocation {
                    span,
                    offset,
                    sequence,
                };
                let events = tokenizer.packet(arena, at, &header, &content);
                arena.keep(span, events);
            }
        }
        self.arena.tokenized(number);
    }

    /// Tokenizes a packet whose header may have been read. `is_patched` is true for the result of a
    /// patch.
    fn packet(&mut self, span: Span, offset: u64, head: Option<Head>, is_patched: bool) {
        let Self {
            context,
            sequences,
            arena,
            ..
        } = self;
        let bytes = arena.bytes(span);
        let read = head.and_then(|head| head.expand(bytes));
        let (header, content) = match read {
            Some(read) => read,
            None => {
                let (header, content, is_whole) = Content::read(bytes);
                if !is_whole {
                    let stat = Stat::tokenizer_skipped_packets;
                    return context.store.log_at(stat, offset);
                }
                (header, content)
            }
        };
        let machine = self.machines.of_packet(context, header.machine);
        context.store.set_machine(machine);
        let data = content.data.map(|field| field.number);
        let key = (machine, header.sequence);
        if !is_patched && let Some(patched) = self.vms.packet(&mut context.store, key, data, bytes)
        {
            let number = arena.add(Batch::of_one(&patched, offset));
            if let Some((span, offset)) = arena.packet(number, 0) {
                self.packet(span, offset, None, true);
            }
            self.arena.tokenized(number);
            return;
        }
        let (sequence, is_new) = sequences.index_of(machine, header.sequence);
        if header.has_sequence && !is_new {
            sequences.all[sequence as usize].count_loss(header.loss);
        }
        if let Some(attributes) = content.attributes {
            service::attributes(context, attributes);
        }
        if header.is_first {
            self.topics.first_packet(header.sequence);
        }
        let own = header.has_sequence.then_some(sequence);
        add_state(context, sequences, &mut self.topics, (own, offset), &header);
        if let Some(content) = &mut self.content {
            let of_sequence = &sequences.all[sequence as usize];
            let state = EventState {
                sequences,
                state: sequences.state(of_sequence.state),
            };
            let is_known = of_sequence.is_valid || !header.needs_state;
            content.packet(context, bytes, is_known.then_some(state));
        }
        if let Some(snapshot) = header.snapshot {
            self.machines.check_clocks();
            snapshots::snapshot(context, snapshot, header.sequence);
            return;
        }
        if let Some(sync) = content.remote_clock_sync {
            self.machines.check_single();
            snapshots::remote_sync(context, sync);
            return;
        }
        if let Some(event) = content.service_event {
            let sorting = service::event(context, &header, event);
            if sorting.is_flushed {
                self.sorter.flushed();
            }
            if sorting.buffers_were_read && self.sorter.buffers_were_read() {
                self.take(false);
            }
            return;
        }
        if let Some(descriptor) = content.extension_descriptor {
            self.topics.extension(descriptor);
            return;
        }
        if header.needs_state {
            let counted = &mut sequences.all[sequence as usize];
            counted.needing_state += 1;
            if !counted.is_valid {
                counted.skipped += 1;
                let stat = Stat::packet_skipped_seq_needs_incremental_state_invalid;
                let mut args = ArgSet::default();
                let id = ArgValue::Uint(header.sequence.into());
                args.put(&mut context.store, "packet_sequence_id", id);
                context.store.log_about(stat, offset, args);
                return;
            }
        }
        let mut tokenizer = Tokenizer {
            context,
            sequences,
            sorter: &mut self.sorter,
            topics: &mut self.topics,
            latest: &mut self.latest,
            parked: &mut self.parked,
        };
        let at = PacketLocation {
            span,
            offset,
            sequence,
        };
        let events = tokenizer.packet(arena, at, &header, &content);
        arena.keep(span, events);
    }

    /// Parses the events that can be taken from the sorter.
    fn take(&mut self, is_all: bool) {
        let machine = self.context.store.machine;
        let mut parser = Parser {
            sequences: &mut self.sequences,
            arena: &mut self.arena,
            topics: &mut self.topics,
            ahead: &mut self.ahead,
            allowed: self.allowed,
            is_over: &mut self.is_over,
            events: 0,
        };
        self.sorter.take(&mut self.context, is_all, &mut parser);
        parser.apply_all(&mut self.context);
        self.context.store.set_machine(machine);
        self.arena.shrink();
    }
}

/// Adds the state that a packet has for later ones to its sequence. Logs the state of a packet
/// without a sequence, which is lost.
fn add_state(
    context: &mut Context,
    sequences: &mut Sequences,
    topics: &mut Topics,
    (sequence, offset): (Option<u32>, u64),
    header: &PacketHeader<'_>,
) {
    let missing = |context: &mut Context, stat| context.store.log_at(stat, offset);
    if header.is_cleared {
        match sequence {
            Some(sequence) => {
                sequences.restart(sequence);
                topics.restarted(sequence);
            }
            None => missing(context, Stat::incremental_state_cleared_missing_sequence_id),
        }
    } else if !header.loss.is_none() {
        match sequence {
            Some(sequence) => {
                sequences.all[sequence as usize].is_valid = false;
                topics.lost(sequence);
            }
            None => missing(context, Stat::previous_packet_dropped_missing_sequence_id),
        }
    }
    if let Some(defaults) = header.defaults {
        match sequence {
            Some(sequence) => sequences.set_defaults(sequence, defaults),
            None => missing(context, Stat::trace_packet_defaults_missing_sequence_id),
        }
    }
    if let Some(interned) = header.interned {
        match sequence {
            None => missing(context, Stat::interned_data_missing_sequence_id),
            Some(sequence) if sequences.all[sequence as usize].is_valid => {
                sequences.intern(sequence, interned, &mut context.store.strings);
            }
            Some(_) => {
                let stat = Stat::interned_data_skipped_incremental_state_invalid;
                missing(context, stat);
            }
        }
    }
}

/// Converts a time on the clock of the current file to the trace clock. Returns `None` and logs the
/// error if they are not related.
pub(crate) fn file_time(context: &mut Context, value: i64) -> Option<i64> {
    match context.clocks.file_time(value) {
        Ok(ts) => Some(ts),
        Err((error, clock)) => {
            let trace = context.clocks.trace_clock();
            clock::log(error, &mut context.store, clock, value, trace, None);
            None
        }
    }
}
