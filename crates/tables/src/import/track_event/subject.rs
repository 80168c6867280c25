//! The names, thread, process and track of a track event.

use ferretto_format::track_event::{Text, legacy_phase};
use ferretto_proto::fields::interned_data;
use ferretto_proto::views::track_event::LegacyEventView;
use ferretto_proto::views::track_event::legacy_event::instant_event_scope as scope;

use super::Nesting;
use super::apply::{Applying, Fault};
use super::tracks::{Owner, Part};
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::track::{Dimension, TrackSpec};

/// Returns a generated tid for a thread whose tid is not unique in the trace.
fn generated_tid(tid: i64, pid: i64) -> i64 {
    pid << 32 | tid
}

impl Applying<'_, '_> {
    /// Returns the joined categories of the event.
    pub(super) fn category(&mut self) -> StringId {
        if let Some(names) = &self.names {
            return names.category;
        }
        let event = &self.event;
        let strings = &mut self.cx.store.strings;
        let table = interned_data::EVENT_CATEGORIES;
        match (event.categories, event.category) {
            (0, _) => StringId::NULL,
            (1, Some(text)) => strings.intern_bytes(text),
            (1, None) => match self.state.text(table, event.category_iid) {
                Some(category) => category,
                None => {
                    let stats = &mut self.cx.store.stats;
                    stats.add(Stat::interned_data_tokenizer_errors, 1);
                    strings.intern(&format!("unknown({})", event.category_iid))
                }
            },
            _ => {
                let mut all = Vec::new();
                let mut add = |text: &[u8]| {
                    if !all.is_empty() {
                        all.push(b',');
                    }
                    all.extend_from_slice(text);
                };
                for category in event.categories() {
                    match category {
                        Text::Literal(text) => add(text),
                        Text::Interned(iid) => match self.state.text(table, iid) {
                            Some(text) => add(strings.text(text).as_bytes()),
                            None => {
                                let stats = &mut self.cx.store.stats;
                                stats.add(Stat::interned_data_tokenizer_errors, 1);
                            }
                        },
                    }
                }
                if all.is_empty() {
                    StringId::NULL
                } else {
                    strings.intern_bytes(&all)
                }
            }
        }
    }

    /// Returns the name of the event.
    pub(super) fn name(&mut self, legacy: &LegacyEventView<'_>) -> StringId {
        if let Some(names) = &self.names {
            return names.name;
        }
        let iid = match self.event.name_iid {
            0 => legacy.name_iid.unwrap_or(0),
            iid => iid,
        };
        if iid != 0 {
            let name = self.state.text(interned_data::EVENT_NAMES, iid);
            if name.is_none() {
                let stats = &mut self.cx.store.stats;
                stats.add(Stat::interned_data_tokenizer_errors, 1);
            }
            return name.unwrap_or(StringId::NULL);
        }
        match self.event.name {
            Some(name) => self.cx.store.strings.intern_bytes(name),
            None => StringId::NULL,
        }
    }

    /// Determines the owner of the event.
    pub(super) fn find_owner(&mut self, legacy: &LegacyEventView<'_>) -> Result<(), Fault> {
        let cx = &mut *self.cx;
        let of = &mut self.of;
        let track = self.event.track.or(self.state.state.defaults.event.track);
        of.uuid = track.unwrap_or(0);
        if of.uuid != 0 {
            let resolved = self.tracks.resolve(cx, of.uuid).ok_or(Fault)?;
            match resolved.owner {
                Owner::Thread(utid) => {
                    of.utid = Some(utid);
                    of.upid = cx.store.tables.thread.upid.get(utid);
                }
                Owner::Process(upid) => {
                    of.upid = Some(upid);
                    if let Some((pid, tid)) = self.thread {
                        let utid = cx.processes.thread_in_process(&mut cx.store, tid, pid);
                        if cx.store.tables.thread.upid.get(utid) == of.upid {
                            of.passthrough = Some(utid);
                        }
                    }
                }
                Owner::Nobody => {
                    if let Some((pid, tid)) = self.thread {
                        let utid = cx.processes.thread_in_process(&mut cx.store, tid, pid);
                        of.passthrough = Some(utid);
                    }
                }
            }
        } else {
            let has_thread = self.thread.is_some();
            of.is_on_thread = has_thread
                && (self.event.track.is_none()
                    || self.event.event_type == 0
                    || legacy.tid_override.is_some())
                || legacy.pid_override.is_some();
            if of.is_on_thread {
                let (mut pid, mut tid) = self.thread.unwrap_or((0, 0));
                if let Some(number) = legacy.pid_override {
                    pid = i64::from(number as u32);
                    tid = generated_tid(-1, pid);
                }
                if let Some(number) = legacy.tid_override {
                    let is_made_up = self.thread.is_some_and(|(_, tid)| tid >> 32 != 0);
                    tid = i64::from(number as u32);
                    if is_made_up {
                        tid = generated_tid(tid, pid);
                    }
                }
                if pid == 0 || tid == 0 {
                    return Err(Fault);
                }
                let utid = cx.processes.thread_in_process(&mut cx.store, tid, pid);
                of.utid = Some(utid);
                of.upid = cx.store.tables.thread.upid.get(utid);
            }
        }
        match legacy_phase(legacy) {
            Some(b'b' | b'e' | b'n' | b'S' | b'T' | b'p' | b'F') => of.passthrough = of.utid,
            Some(b'i' | b'I') => match legacy.instant_event_scope.unwrap_or(0) {
                scope::SCOPE_GLOBAL => of.passthrough = of.utid.take(),
                scope::SCOPE_PROCESS if of.upid.is_none() => return Err(Fault),
                scope::SCOPE_PROCESS => of.passthrough = of.utid.take(),
                _ if of.utid.is_none() => return Err(Fault),
                _ => {}
            },
            _ => {}
        }
        Ok(())
    }

    /// Returns the track of the event.
    pub(super) fn track(&mut self, legacy: &LegacyEventView<'_>, part: Part) -> Result<u32, Fault> {
        match legacy_phase(legacy) {
            Some(phase @ (b'b' | b'e' | b'n' | b'S' | b'T' | b'p' | b'F')) => {
                // The event's own track counts as used in any case.
                if !self.of.is_on_thread {
                    self.own_row(part);
                }
                return self.async_track(legacy, phase);
            }
            Some(b'i' | b'I')
                if matches!(
                    legacy.instant_event_scope,
                    Some(scope::SCOPE_GLOBAL | scope::SCOPE_PROCESS)
                ) =>
            {
                if !self.of.is_on_thread {
                    self.own_row(part);
                }
                let mut source = ArgSet::default();
                source.text(&mut self.cx.store, "source", "chrome");
                let (type_, dimensions) = match (legacy.instant_event_scope, self.of.upid) {
                    (Some(scope::SCOPE_PROCESS), Some(upid)) => {
                        ("chrome_process_instant", Some(Dimension::Upid(upid)))
                    }
                    _ => ("legacy_chrome_global_instants", None),
                };
                let spec = TrackSpec::slices(type_, dimensions.as_slice()).with_source(source);
                return Ok(self.cx.tracks.intern(&mut self.cx.store, spec));
            }
            _ => {}
        }
        match self.of.utid {
            Some(utid) if self.of.is_on_thread => {
                Ok(self.cx.tracks.of_thread(&mut self.cx.store, utid))
            }
            _ => self.own_row(part).ok_or(Fault),
        }
    }

    /// Returns the row of the track with the event's uuid.
    pub(super) fn own_row(&mut self, part: Part) -> Option<u32> {
        let uuid = self.of.uuid;
        let sequence = (uuid != 0).then_some(self.state.state.sequence_id);
        self.tracks.row(self.cx, uuid, self.of.name, sequence, part)
    }

    /// Returns the track of an event of old traces that may overlap others.
    fn async_track(&mut self, legacy: &LegacyEventView<'_>, phase: u8) -> Result<u32, Fault> {
        let (id, owner) = match (legacy.unscoped_id, legacy.global_id, legacy.local_id) {
            (Some(id), _, _) | (_, Some(id), _) => (id as i64, None),
            (_, _, Some(id)) => (id as i64, Some(self.of.upid.ok_or(Fault)?)),
            _ => return Err(Fault),
        };
        self.of.source_id = Some(id);
        let strings = &mut self.cx.store.strings;
        let mut scope = match phase {
            b'S' | b'T' | b'p' | b'F' => self.of.name,
            _ => self.of.category,
        };
        if let Some(id_scope) = legacy.id_scope {
            let category = strings.text(self.of.category);
            let text = format!("{category}:{}", String::from_utf8_lossy(id_scope));
            scope = strings.intern(&text);
        }
        let root = self.reader.first_name(owner, id, self.of.name);
        let mut dimensions = Vec::new();
        dimensions.extend(owner.map(Dimension::Upid));
        dimensions.push(Dimension::Text("scope", scope));
        dimensions.push(Dimension::Text("name", root));
        let type_ = match owner {
            Some(_) => "legacy_async_process_slice",
            None => "legacy_async_global_slice",
        };
        let group = self.cx.lanes.group(&self.cx.store, type_, &dimensions);
        let lanes = &mut self.cx.lanes;
        let lane = match phase {
            b'b' | b'S' => lanes.begin(group, id, Nesting::Nested),
            b'e' | b'T' => lanes.end(group, id),
            _ => lanes.instant(group, id),
        };
        let (name, upid) = (self.of.name, self.of.upid);
        Ok(lanes.track(&mut self.cx.store, lane, |store| {
            let mut source = ArgSet::default();
            source.text(store, "source", "chrome");
            let is_local = ArgValue::Bool(owner.is_some());
            source.put(store, "trace_id_is_process_scoped", is_local);
            source.put(store, "upid", ArgValue::Uint(upid.unwrap_or(0).into()));
            source.put(store, "source_scope", ArgValue::Text(scope));
            let spec = TrackSpec::slices(type_, &[]);
            (spec.named(name).with_source(source), dimensions)
        }))
    }
}
