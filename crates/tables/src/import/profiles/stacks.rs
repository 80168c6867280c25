//! Interned callstacks of samples.

use ferretto_format::sample::{FrameKind, MAX_FRAMES, mapping_path};
use ferretto_proto::fields::{interned_data, interned_string};
use ferretto_proto::views::{CallstackView, FrameView, MappingView};
use ferretto_wire::Fields;
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::context::{Context, EventState};
use crate::stats::Stat;
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::callsites::Ticket;
use crate::trackers::stack_profile::{Mapping, SourceFrame};

/// The maximum size of a valid callstack: each field takes up to 11 bytes, and one is the iid.
const MAX_BYTES: usize = 11 * (MAX_FRAMES + 1);

/// The numbers of rows for processes that share callstacks that a trace may add in total, and
/// additionally for each sample. Each process has its own rows, so a small file could otherwise add
/// any number.
const FREE_ROWS: u64 = 1 << 20;
const ROWS_PER_SAMPLE: u64 = 64;

/// The rows of interned callstacks, by sequence.
#[derive(Debug)]
pub(super) struct SequenceStacks {
    sequences: FxHashMap<u32, Resolved>,
    /// The remaining number of rows.
    allowance: u64,
    /// The mapping of frames without a mapping.
    no_mapping: Option<u32>,
}

impl Default for SequenceStacks {
    fn default() -> Self {
        Self {
            sequences: FxHashMap::default(),
            allowance: FREE_ROWS,
            no_mapping: None,
        }
    }
}

/// The rows of one generation of incremental state of a sequence.
#[derive(Debug, Default)]
struct Resolved {
    generation: u32,
    /// The first process with each callstack, and its ticket. Most callstacks occur in one
    /// process alone. Their first use is not limited.
    first: Rows<(u32, u32)>,
    processes: FxHashMap<Option<u32>, OfProcess>,
    /// The callstacks that are too deep: many samples may refer to one, and none is read again.
    refused: FxHashSet<u64>,
}

/// The rows of one process, by iid.
#[derive(Debug, Default)]
struct OfProcess {
    mappings: FxHashMap<u64, u32>,
    frames: Rows<u32>,
    callstacks: FxHashMap<u64, Ticket>,
}

/// Rows by iid. Most iids are small.
#[derive(Debug)]
struct Rows<T> {
    near: Vec<T>,
    far: FxHashMap<u64, T>,
    count: usize,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self {
            near: Vec::new(),
            far: FxHashMap::default(),
            count: 0,
        }
    }
}

/// A row that has a value for "none".
trait Row: Copy + PartialEq {
    const NONE: Self;
}

impl Row for u32 {
    const NONE: Self = Self::MAX;
}

impl Row for (u32, u32) {
    const NONE: Self = (u32::NONE, u32::NONE);
}

/// The entry of a callstack that was used without a process, or is invalid.
const NO_CALLSITE: (u32, u32) = (u32::MAX, 0);

impl<T: Row> Rows<T> {
    /// The maximum number of slots for each row, and of unused slots.
    const SLOTS: usize = 4;
    const FREE: usize = 64;

    #[inline]
    fn get(&self, number: u64) -> Option<T> {
        let near = usize::try_from(number).ok();
        match near.and_then(|index| self.near.get(index)) {
            Some(row) if *row != T::NONE => Some(*row),
            _ => self.far.get(&number).copied(),
        }
    }

    /// Changes an existing row.
    #[inline]
    fn change(&mut self, number: u64, row: T) {
        let near = usize::try_from(number).ok();
        match near.and_then(|index| self.near.get_mut(index)) {
            Some(known) if *known != T::NONE => *known = row,
            _ => {
                self.far.insert(number, row);
            }
        }
    }

    /// Adds a row.
    fn insert(&mut self, number: u64, row: T) {
        self.count += 1;
        let slots = Self::FREE + Self::SLOTS * self.count;
        match usize::try_from(number) {
            Ok(index) if index < slots => {
                if self.near.len() <= index {
                    self.near.resize(index + 1, T::NONE);
                }
                self.near[index] = row;
            }
            _ => {
                self.far.insert(number, row);
            }
        }
    }
}

impl SequenceStacks {
    /// Returns the callsite of an interned callstack in a process.
    pub(super) fn callstack(
        &mut self,
        cx: &mut Context,
        state: EventState<'_>,
        upid: Option<u32>,
        iid: u64,
    ) -> Option<u32> {
        let ticket = self.ticket(cx, state, upid, iid)?;
        let Store {
            callsites, tables, ..
        } = &mut cx.store;
        callsites.wait_for(tables, ticket)
    }

    /// Returns an interned callstack in a process.
    pub(super) fn ticket(
        &mut self,
        cx: &mut Context,
        state: EventState<'_>,
        upid: Option<u32>,
        iid: u64,
    ) -> Option<Ticket> {
        self.allowance = self.allowance.saturating_add(ROWS_PER_SAMPLE);
        let resolved = self.sequences.entry(state.state.sequence).or_default();
        if resolved.generation != state.state.generation {
            *resolved = Resolved {
                generation: state.state.generation,
                ..Resolved::default()
            };
        }
        let first = resolved.first.get(iid);
        if let Some((process, ticket)) = first
            && upid == Some(process)
        {
            return Some(Ticket(ticket));
        }
        let rows_of = resolved.processes.entry(upid).or_default();
        if let Some(ticket) = rows_of.callstacks.get(&iid) {
            return Some(*ticket);
        }
        let Some(bytes) = state.message(interned_data::CALLSTACKS, iid) else {
            missing(cx, Stat::stackprofile_invalid_callstack_id);
            return None;
        };
        if bytes.len() > MAX_BYTES || resolved.refused.contains(&iid) {
            cx.store.stats.add(Stat::stackprofile_parser_error, 1);
            return None;
        }
        let mut iids = Vec::with_capacity(bytes.len().min(MAX_FRAMES));
        let frame_ids = CallstackView::read(bytes).frame_ids;
        iids.extend(frame_ids.iter().take(MAX_FRAMES + 1));
        // A frame is a row, as is its callsite, and it may be the first one of a mapping.
        let is_shared = first.is_some();
        if !is_shared {
            resolved.first.insert(iid, NO_CALLSITE);
        }
        let is_too_much = is_shared && iids.len() as u64 * 3 > self.allowance;
        if iids.len() > MAX_FRAMES {
            resolved.refused.insert(iid);
        }
        if iids.len() > MAX_FRAMES || is_too_much {
            cx.store.stats.add(Stat::stackprofile_parser_error, 1);
            return None;
        }
        if is_shared {
            cx.store.store_callsites();
        }
        let before = rows(cx);
        let mut frames = Vec::with_capacity(iids.len());
        for iid in iids {
            let frame = match rows_of.frames.get(iid) {
                Some(frame) => frame,
                None => rows_of.frame(cx, state, upid, iid, &mut self.no_mapping)?,
            };
            frames.push(frame);
        }
        if frames.is_empty() {
            cx.store.stats.add(Stat::stackprofile_empty_callstack, 1);
        }
        let ticket = cx.store.callsites.add(&mut cx.store.tables, &frames)?;
        if is_shared {
            cx.store.store_callsites();
            self.allowance -= (rows(cx) - before).min(self.allowance);
        }
        match (is_shared, upid) {
            (false, Some(upid)) => resolved.first.change(iid, (upid, ticket.0)),
            _ => {
                rows_of.callstacks.insert(iid, ticket);
            }
        }
        Some(ticket)
    }
}

fn rows(cx: &Context) -> u64 {
    let tables = &cx.store.tables;
    [
        tables.stack_profile_mapping.len(),
        tables.stack_profile_frame.len(),
        tables.stack_profile_callsite.len(),
    ]
    .map(u64::from)
    .iter()
    .sum()
}

impl OfProcess {
    /// Returns the row of a frame on its first reference.
    fn frame(
        &mut self,
        cx: &mut Context,
        state: EventState<'_>,
        upid: Option<u32>,
        iid: u64,
        no_mapping: &mut Option<u32>,
    ) -> Option<u32> {
        let Some(bytes) = state.message(interned_data::FRAMES, iid) else {
            missing(cx, Stat::stackprofile_invalid_frame_id);
            return None;
        };
        let frame = FrameView::read(bytes);
        let strings = &mut cx.store.strings;
        let kind = match (frame.kind_str, frame.kind) {
            (Some(name), _) => strings.intern_bytes(name),
            (None, Some(kind)) => match FrameKind::from_number(kind).name() {
                Some(name) => strings.intern(name),
                None => StringId::NULL,
            },
            (None, None) => StringId::NULL,
        };
        let source = SourceFrame {
            function: match frame.function_name_id.unwrap_or(0) {
                0 => StringId::NULL,
                iid => text(cx, state, interned_data::FUNCTION_NAMES, iid)?,
            },
            file: match frame.source_path_iid.unwrap_or(0) {
                0 => StringId::NULL,
                iid => text(cx, state, interned_data::SOURCE_PATHS, iid)?,
            },
            line: frame.line_number,
        };
        let mapping = frame.mapping_id.unwrap_or(0);
        let row = if mapping == 0 {
            let mapping = *no_mapping.get_or_insert_with(|| {
                cx.stacks.add_source_mapping(&mut cx.store, StringId::EMPTY)
            });
            cx.stacks.source_frame(&mut cx.store, mapping, source)
        } else {
            let mapping = self.mapping(cx, state, upid, mapping)?;
            let rel_pc = frame.rel_pc.unwrap_or(0) as i64;
            cx.stacks.frame(&mut cx.store, mapping, rel_pc, source)
        };
        if !kind.is_null() {
            cx.store.tables.stack_profile_frame.type_.set(row, kind);
        }
        self.frames.insert(iid, row);
        Some(row)
    }

    fn mapping(
        &mut self,
        cx: &mut Context,
        state: EventState<'_>,
        upid: Option<u32>,
        iid: u64,
    ) -> Option<u32> {
        if let Some(mapping) = self.mappings.get(&iid) {
            return Some(*mapping);
        }
        let Some(bytes) = state.message(interned_data::MAPPINGS, iid) else {
            missing(cx, Stat::stackprofile_invalid_mapping_id);
            return None;
        };
        let mapping = MappingView::read(bytes);
        let parts = mapping.path_string_ids.iter();
        let path =
            mapping_path(parts.map(|part| bytes_of(state, interned_data::MAPPING_PATHS, part)));
        if path.lacks_part {
            missing(cx, Stat::stackprofile_invalid_string_id);
        }
        let build_id = match mapping.build_id.unwrap_or(0) {
            0 => &[][..],
            iid => {
                let known = bytes_of(state, interned_data::BUILD_IDS, iid);
                if known.is_none() {
                    missing(cx, Stat::stackprofile_invalid_string_id);
                }
                known?
            }
        };
        let number = |value: Option<u64>| value.unwrap_or(0) as i64;
        let of = Mapping {
            build_id: cx.store.strings.intern(&hex(build_id)),
            name: cx.store.strings.intern_bytes(&path.path),
            exact_offset: number(mapping.exact_offset),
            start_offset: number(mapping.start_offset),
            start: number(mapping.start),
            end: number(mapping.end),
            load_bias: number(mapping.load_bias),
        };
        let is_empty = of.start == of.end;
        let is_kernel = is_empty
            && of.start == 0
            && of.exact_offset == 0
            && of.build_id == StringId::EMPTY
            && path.path == b"/kernel";
        let row = match upid {
            _ if is_kernel => cx.stacks.kernel_mapping(&mut cx.store, of),
            Some(_) if !is_empty => cx.stacks.add_mapping(&mut cx.store, of),
            _ => cx.stacks.mapping(&mut cx.store, of),
        };
        self.mappings.insert(iid, row);
        Some(row)
    }
}

/// Returns the hexadecimal digits of a build id.
pub(super) fn hex(bytes: &[u8]) -> String {
    const MAX_BUILD_ID: usize = 64;
    ferretto_text::amount::hex(&bytes[..bytes.len().min(MAX_BUILD_ID)])
}

/// Counts a missing reference.
fn missing(cx: &mut Context, stat: Stat) {
    cx.store.stats.add(stat, 1);
    cx.store.stats.add(Stat::interned_data_tokenizer_errors, 1);
}

/// Returns the bytes of an interned text.
fn bytes_of<'a>(state: EventState<'a>, table: u32, iid: u64) -> Option<&'a [u8]> {
    let message = state.message(table, iid)?;
    let text = Fields::find(interned_string::STR, message);
    Some(text.and_then(|text| text.as_bytes()).unwrap_or_default())
}

fn text(cx: &mut Context, state: EventState<'_>, table: u32, iid: u64) -> Option<StringId> {
    let text = state
        .text(table, iid)
        .or_else(|| Some(cx.store.strings.intern_bytes(bytes_of(state, table, iid)?)));
    if text.is_none() {
        missing(cx, Stat::stackprofile_invalid_string_id);
    }
    text
}
