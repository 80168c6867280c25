//! From packets to rows.
//!
//! 1. **Tokenize**, in the order of the file: [`Importer::batch`] reads each packet's header, keeps
//!    the incremental state of its sequence, converts its time, and hands it to the topic it
//!    belongs to, which puts [`Event`]s into the [`Sorter`].
//! 2. **Sort**, by time: in windows, as soon as the trace says that nothing older can follow, or
//!    else when all was read.
//! 3. **Parse**, in the order of time: the topic reads the event and fills tables, with the help of
//!    trackers.

mod ahead;
mod arena;
mod context;
mod diagnostics;
mod event;
mod ftrace;
mod gpu;
mod head;
mod machines;
mod message;
mod packets;
mod profiles;
mod protovm;
mod reflect;
mod sequence;
mod service;
mod snapshots;
mod sorter;
mod system;
mod topics;
mod trace_info;
mod trace_stats;
mod track_event;

pub(crate) use self::arena::Batch;
pub(crate) use self::context::{Context, EventState};
pub(crate) use self::event::{Line, LineKind};
pub(crate) use self::ftrace::Print;
pub(crate) use self::machines::FilePlace;
pub(crate) use self::packets::{Source, read_packets};
pub(crate) use self::snapshots::choose_trace_clock;
pub(crate) use self::trace_info::{begin_file, end_file, guess_uuid};

use ferretto_format::budget::Budget;
use ferretto_format::sequence::PacketHeader;

use self::ahead::{Ahead, Chunk};
use self::arena::{Arena, Span};
use self::event::Event;
use self::head::{Content, Head};
use self::machines::Machines;
use self::protovm::Vms;
use self::sequence::Sequences;
use self::sorter::{Sorter, Stream, Take, Token};
use self::topics::Topics;
use self::track_event::{Annotation, Glance, Resolved};
use crate::options::Options;
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::store::{Lost, Store};
use crate::trackers::args::ArgSet;
use crate::trackers::clock::ClockId;

/// A packet as topics see it in the order of the file.
#[derive(Debug)]
pub(crate) struct Input<'a> {
    /// The field of `TracePacket` that the topic is in.
    pub(crate) field: u32,
    /// The value of the field; empty if it is no message.
    pub(crate) bytes: &'a [u8],
    /// The track event at a glance, if it was looked at.
    pub(crate) glance: Option<Glance>,
    pub(crate) header: &'a PacketHeader<'a>,
    /// The place of the packet in the file.
    pub(crate) offset: u64,
    /// The time of the packet.
    pub(crate) ts: i64,
    /// The place of its sequence in [`Sequences::all`].
    pub(crate) sequence: u32,
    pub(crate) state: EventState<'a>,
    arena: &'a Arena,
    span: Span,
}

impl Input<'_> {
    /// Returns true if everything since the last new start of incremental state is known.
    pub(crate) fn is_state_valid(&self) -> bool {
        self.state.sequences.all[self.sequence as usize].is_valid
    }

    /// Returns the span of a length-delimited field in the packet.
    #[inline]
    pub(crate) fn span(&self, part: &[u8]) -> Span {
        self.arena.part(self.span, part)
    }
}

/// Takes the events of one packet.
#[derive(Debug)]
pub(crate) struct Out<'a> {
    sorter: &'a mut Sorter,
    state: u32,
    /// The events that were taken.
    events: u32,
}

impl Out<'_> {
    /// Puts an event into the sorter.
    #[inline]
    pub(crate) fn push(&mut self, store: &mut Store, stream: Stream, ts: i64, event: Event) {
        self.push_until(store, stream, (ts, ts), event);
    }

    /// Puts an event that consists of others into the sorter: the times of the first and the last.
    #[inline]
    pub(crate) fn push_until(
        &mut self,
        store: &mut Store,
        stream: Stream,
        times: (i64, i64),
        event: Event,
    ) {
        let sorter = &mut self.sorter;
        if sorter.push_until(store, stream, times, self.state, event) {
            self.events += 1;
        }
    }
}

/// An import under way.
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
    /// The memory that tables and waiting packets may take, in bytes.
    allowed: usize,
    /// True if they take more. The rest is left out.
    is_over: bool,
    machines: Machines,
}

/// The memory of tables is looked at each time that so many events were parsed.
const EVENTS_A_CHECK: u32 = 256;

/// Packets whose time cannot be converted yet.
#[derive(Debug, Default)]
struct Parked {
    /// The packets, and where they begin in the file.
    packets: Vec<(Box<[u8]>, u64)>,
    bytes: usize,
    /// True if nothing more follows that could help.
    is_at_end: bool,
}

/// Packets that are parked beyond so many bytes are dropped.
const MAX_PARKED: usize = 256 << 20;

impl Importer {
    /// Returns an import of which nothing was read. What sequences keep is taken from `budget`.
    pub(crate) fn new(store: Store, budget: &Budget, options: &Options) -> Self {
        let mut context = Context::new(store);
        let (machine, _) = context.machines.intern(&mut context.store, 0);
        context.store.set_machine(machine);
        context.processes.start_machine(&mut context.store);
        Self {
            context,
            arena: Arena::default(),
            sequences: Sequences::new(budget),
            sorter: Sorter::new(options.full_sort),
            topics: Topics::default(),
            vms: Vms::default(),
            ahead: Ahead::new(options.threads),
            latest: 0,
            parked: Parked::default(),
            allowed: options.memory,
            is_over: false,
            machines: Machines::default(),
        }
    }

    /// Takes packets in the order of the file.
    pub(crate) fn batch(&mut self, batch: Batch) {
        // What packets tell of is Linux.
        self.context.store.set_machine(self.machines.place.machine);
        self.context.processes.zero_is_idle(&mut self.context.store);
        let number = self.arena.add(batch);
        for place in 0..self.arena.packets(number) {
            if let Some((span, offset)) = self.arena.packet(number, place) {
                self.packet(span, offset, self.arena.head(number, place), false);
            }
        }
        self.arena.tokenized(number);
    }

    /// Reads another file from now on: a row of `trace_file`.
    pub(crate) fn start_file(&mut self, row: u32, place: FilePlace) {
        self.context.store.trace_file = row;
        self.context.store.set_machine(place.machine);
        self.machines.place = place;
        self.sequences.start_file();
        self.vms = Vms::default();
    }

    /// Adds what a new machine has: a row of `machine`.
    pub(crate) fn start_machine(&mut self, machine: u32) {
        machines::start(&mut self.context, machine, 0);
    }

    /// Returns the rule that packets of the file break, if there is one.
    pub(crate) fn broken(&self) -> Option<String> {
        if let Some(raw_id) = self.machines.undeclared {
            return Some(format!(
                "perfetto_manifest: machines: trace has a packet from undeclared machine id \
                 {raw_id}"
            ));
        }
        self.machines.broken.map(str::to_owned)
    }

    /// Takes nothing before the end from now on. Returns false if something was taken already.
    pub(crate) fn sort_fully(&mut self) -> bool {
        self.sorter.sort_fully()
    }

    /// Takes lines of a file that has no packets, in the order of the file.
    pub(crate) fn lines(&mut self, batch: Batch, lines: &[Line]) {
        let number = self.arena.add(batch);
        let (sequence, _) = self.sequences.place(self.context.store.machine, 0);
        let state = self.sequences.all[sequence as usize].state;
        self.sorter.sort_fully();
        for (place, line) in lines.iter().enumerate() {
            let Some((span, _)) = self.arena.packet(number, place) else {
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

    /// Returns true if tables and waiting packets take more memory than is allowed, or did before.
    pub(crate) fn is_over(&mut self) -> bool {
        let waiting = self.arena.memory() + self.sorter.memory() + self.parked.bytes;
        self.is_over |= waiting + self.context.store.memory() > self.allowed;
        self.is_over
    }

    /// Parses all that waits, and returns what was filled. True if something was left out, as it
    /// would take more memory than is allowed.
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
        service::finish(&mut self.context, &self.sequences);
        self.context.finish();
        (self.context, self.is_over)
    }

    /// Takes packets that were parked. What they say for later ones was taken in then.
    fn parked_batch(&mut self, batch: Batch) {
        let number = self.arena.add(batch);
        for place in 0..self.arena.packets(number) {
            if let Some((span, offset)) = self.arena.packet(number, place) {
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
                let (sequence, _) = sequences.place(machine, header.sequence);
                let mut tokenizer = Tokenizer {
                    context,
                    sequences,
                    sorter,
                    topics,
                    latest: &mut self.latest,
                    parked: &mut self.parked,
                };
                let at = Place {
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

    /// Reads a packet in the order of the file, of which the header may have been read. One that
    /// `is_patched` is read in the place of a patch.
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
        let (sequence, is_new) = sequences.place(machine, header.sequence);
        let has_sequence = header.has_sequence;
        if has_sequence && !is_new && !header.loss.is_none() {
            let counted = &mut sequences.all[sequence as usize];
            counted.losses += 1;
            for (bit, count) in counted.loss_reasons.iter_mut().enumerate() {
                *count += u64::from(header.loss.bits() >> bit & 1);
            }
        }
        if let Some(attributes) = content.attributes {
            service::attributes(context, attributes);
        }
        if header.is_first {
            self.topics.first_packet(header.sequence);
        }
        let missing = |context: &mut Context, stat| context.store.log_at(stat, offset);
        if header.is_cleared {
            match has_sequence {
                true => {
                    sequences.restart(sequence);
                    self.topics.restarted(sequence);
                }
                false => missing(context, Stat::incremental_state_cleared_missing_sequence_id),
            }
        } else if !header.loss.is_none() {
            match has_sequence {
                true => {
                    sequences.all[sequence as usize].is_valid = false;
                    self.topics.lost(sequence);
                }
                false => missing(context, Stat::previous_packet_dropped_missing_sequence_id),
            }
        }
        if let Some(defaults) = header.defaults {
            match has_sequence {
                true => sequences.set_defaults(sequence, defaults),
                false => missing(context, Stat::trace_packet_defaults_missing_sequence_id),
            }
        }
        if let Some(interned) = header.interned {
            if !has_sequence {
                missing(context, Stat::interned_data_missing_sequence_id);
            } else if sequences.all[sequence as usize].is_valid {
                sequences.intern(sequence, interned, &mut context.store.strings);
            } else {
                let stat = Stat::interned_data_skipped_incremental_state_invalid;
                missing(context, stat);
            }
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
            let happened = service::event(context, &header, event);
            if happened.is_flushed {
                self.sorter.flushed();
            }
            if happened.buffers_were_read && self.sorter.buffers_were_read() {
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
        let at = Place {
            span,
            offset,
            sequence,
        };
        let events = tokenizer.packet(arena, at, &header, &content);
        arena.keep(span, events);
    }

    /// Parses what can be taken from the sorter.
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

/// The place of a packet.
#[derive(Debug, Clone, Copy)]
struct Place {
    span: Span,
    /// Its beginning in the file.
    offset: u64,
    /// The place of its sequence.
    sequence: u32,
}

/// The parts of an import that a packet's time and topic concern.
struct Tokenizer<'a> {
    context: &'a mut Context,
    sequences: &'a mut Sequences,
    sorter: &'a mut Sorter,
    topics: &'a mut Topics,
    latest: &'a mut i64,
    parked: &'a mut Parked,
}

impl Tokenizer<'_> {
    /// Finds out a packet's time, and hands it to its topic. Returns the number of events.
    fn packet(
        &mut self,
        arena: &Arena,
        at: Place,
        header: &PacketHeader<'_>,
        content: &Content<'_>,
    ) -> u32 {
        let Self {
            context,
            sequences,
            sorter,
            topics,
            parked,
            ..
        } = self;
        let Place {
            span,
            offset,
            sequence,
        } = at;
        let number = sequences.all[sequence as usize].state;
        let state = sequences.state(number);
        let ts = match header.timestamp {
            None => (*self.latest).max(sorter.latest),
            Some(value) => {
                let named = header.clock.filter(|clock| *clock != 0);
                let named = named.or(state.defaults.clock.filter(|clock| *clock != 0));
                let clock = match named {
                    Some(id) if ClockId::is_of_sequence(id) => Some(ClockId {
                        id,
                        sequence: header.sequence,
                        file: context.store.trace_file,
                        machine: context.store.machine,
                    }),
                    Some(id) => Some(ClockId::of_machine(context.store.machine, id)),
                    None => context.clocks.default_clock(context.store.machine),
                };
                let value = value as i64;
                let converted = match clock {
                    Some(clock) => context.clocks.trace_time(clock, value),
                    None => Ok(value),
                };
                match converted {
                    Ok(ts) => ts,
                    Err(error) => {
                        let bytes = arena.bytes(span);
                        if !parked.is_at_end
                            && parked.bytes + bytes.len() <= MAX_PARKED
                            && sorter.sort_fully()
                        {
                            parked.bytes += bytes.len();
                            parked.packets.push((bytes.into(), offset));
                            return 0;
                        }
                        if let Some(clock) = clock {
                            let trace = context.clocks.trace_clock();
                            error.log(&mut context.store, clock, value, trace, Some(offset));
                        }
                        let stat = Stat::clock_sync_failure_undeferrable_packet_loss;
                        context.store.log_at(stat, offset);
                        return 0;
                    }
                }
            }
        };
        *self.latest = (*self.latest).max(ts);
        if !header.loss.is_none() && sequences.all[sequence as usize].losses > 0 {
            let sequence = header.sequence;
            context.store.lost(ts, Lost::Packets { sequence });
        }
        let Some(field) = content.data else {
            return 0;
        };
        let input = Input {
            field: field.number,
            bytes: field.as_bytes().unwrap_or_default(),
            glance: content.glance,
            header,
            offset,
            ts,
            sequence,
            state: EventState { sequences, state },
            arena,
            span,
        };
        let mut out = Out {
            sorter,
            state: number,
            events: 0,
        };
        topics.tokenize(context, &input, &mut out);
        let events = out.events;
        sequences.keep(number, events);
        events
    }
}

/// Parses events as their time has come.
struct Parser<'a> {
    sequences: &'a mut Sequences,
    arena: &'a mut Arena,
    topics: &'a mut Topics,
    ahead: &'a mut Ahead,
    allowed: usize,
    is_over: &'a mut bool,
    events: u32,
}

impl Take for Parser<'_> {
    fn expand(&mut self, context: &mut Context, token: Token, out: &mut Vec<Token>) {
        if let Event::Compact { cpu, kind, span } = token.event {
            // It looks at what those before it left.
            self.apply_all(context);
            let before = out.len();
            let bytes = self.arena.bytes(span);
            let topics = &mut self.topics;
            topics.expand(context, cpu, kind, bytes, |ts, event| {
                out.push(Token { ts, event, ..token });
            });
            let events = out.len() - before;
            self.sequences.keep(token.state, events as u32);
            self.sequences.release(token.state);
            self.arena.release(span);
        }
    }

    #[inline]
    fn take(&mut self, context: &mut Context, token: Token, is_late: bool) {
        if self.ahead.has_no_use_for(&token) {
            return self.apply(context, token, is_late, None);
        }
        let Self {
            arena, sequences, ..
        } = self;
        if let Some(chunk) = self.ahead.push(token, is_late, arena, sequences) {
            self.apply_chunk(context, chunk);
        }
    }
}

impl Parser<'_> {
    /// Applies all events that wait.
    fn apply_all(&mut self, context: &mut Context) {
        while let Some(chunk) = self.ahead.take() {
            self.apply_chunk(context, chunk);
        }
    }

    fn apply_chunk(&mut self, context: &mut Context, chunk: Chunk) {
        for (token, is_late, resolved) in chunk.events() {
            let resolved = resolved.map(|resolved| (resolved, chunk.annotations()));
            self.apply(context, token, is_late, resolved);
        }
        self.ahead.give_back(chunk);
    }

    /// Applies an event to the tables.
    #[inline]
    fn apply(
        &mut self,
        context: &mut Context,
        token: Token,
        is_late: bool,
        resolved: Option<(&Resolved, &[Annotation])>,
    ) {
        let Self {
            sequences,
            arena,
            topics,
            ..
        } = self;
        self.events = self.events.wrapping_add(1);
        if self.events.is_multiple_of(EVENTS_A_CHECK) {
            // What waits has been allowed: tables take its place.
            *self.is_over |= context.store.memory() > self.allowed;
        }
        if !is_late && !*self.is_over {
            let state = sequences.state(token.state);
            let bytes = token.event.span().map_or(&[][..], |span| arena.bytes(span));
            context.store.set_machine(state.machine);
            let state = EventState { sequences, state };
            topics.parse(context, token.ts, &token.event, bytes, state, resolved);
            for (track, slice) in context.slices.take_begun() {
                context.flows.slice_began(&mut context.store, track, slice);
            }
        }
        sequences.release(token.state);
        if let Some(span) = token.event.span() {
            arena.release(span);
        }
    }
}

/// Returns the time of the trace at a time on the clock of the file that is read; `None` if nothing
/// relates them, which is logged.
pub(crate) fn file_time(context: &mut Context, value: i64) -> Option<i64> {
    match context.clocks.file_time(value) {
        Ok(ts) => Some(ts),
        Err((error, clock)) => {
            let trace = context.clocks.trace_clock();
            error.log(&mut context.store, clock, value, trace, None);
            None
        }
    }
}
