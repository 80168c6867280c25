//! Transitions between windows: `ShellTransition`.

use std::collections::BTreeMap;

use ferretto_proto::fields::android::{
    shell_handler_mapping, shell_handler_mappings, shell_transition as of, shell_transition::change,
};
use rustc_hash::FxHashMap;

use super::super::super::context::Context;
use super::geometry::Rect;
use super::part::Part;
use super::{Windows, encoded};
use crate::schema::{
    TableId, WindowManagerShellTransitionHandlersRow, WindowManagerShellTransitionParticipantsRow,
    WindowManagerShellTransitionProtosRow, WindowManagerShellTransitionsRow,
};
use crate::strings::StringId;
use crate::trackers::args::ArgSet;

/// The transitions, whose fields come in several packets.
#[derive(Debug, Default)]
pub(super) struct Transitions {
    /// The indexes in `all` by the ids of transitions.
    known: FxHashMap<i32, usize>,
    all: Vec<Transition>,
}

/// A transition.
#[derive(Debug)]
struct Transition {
    id: i32,
    /// The last value of each field that is a number.
    fields: BTreeMap<u32, i64>,
    ts: i64,
    args: ArgSet,
}

impl Transitions {
    fn of(&mut self, id: i32) -> &mut Transition {
        let next = self.all.len();
        let index = *self.known.entry(id).or_insert(next);
        if index == next {
            self.all.push(Transition {
                id,
                fields: BTreeMap::new(),
                ts: 0,
                args: ArgSet::default(),
            });
        }
        &mut self.all[index]
    }

    /// Adds the rows of all transitions.
    pub(super) fn finish(&mut self, cx: &mut Context) {
        self.known.clear();
        for mut transition in self.all.drain(..) {
            let arg_set_id = transition.args.finish(&mut cx.store);
            let row = transition.row(cx, arg_set_id);
            cx.store.tables.window_manager_shell_transitions.push(row);
        }
    }
}

impl Transition {
    fn row(&self, cx: &mut Context, arg_set_id: Option<u32>) -> WindowManagerShellTransitionsRow {
        let field = |number| self.fields.get(&number).copied();
        let time = |number| field(number).filter(|time| *time > 0);
        let played = time(of::DISPATCH_TIME_NS).zip(time(of::FINISH_TIME_NS));
        let is_aborted = time(of::SHELL_ABORT_TIME_NS)
            .or(time(of::WM_ABORT_TIME_NS))
            .is_some();
        let is_merged = time(of::MERGE_TIME_NS).is_some();
        let status = match played {
            _ if is_merged => Some("merged"),
            Some(_) => Some("played"),
            // A transition that is played cannot be aborted any more.
            None if is_aborted && time(of::DISPATCH_TIME_NS).is_none() => Some("aborted"),
            None => None,
        };
        let duration = played.map(|(from, to)| to.wrapping_sub(from));
        WindowManagerShellTransitionsRow {
            ts: self.ts,
            transition_id: self.id.into(),
            arg_set_id,
            transition_type: field(of::TYPE).map(|value| value as u32),
            send_time_ns: field(of::SEND_TIME_NS),
            dispatch_time_ns: field(of::DISPATCH_TIME_NS),
            duration_ns: duration.filter(|_| !is_merged),
            finish_time_ns: field(of::FINISH_TIME_NS),
            shell_abort_time_ns: field(of::SHELL_ABORT_TIME_NS),
            wm_abort_time_ns: field(of::WM_ABORT_TIME_NS),
            merge_time_ns: field(of::MERGE_TIME_NS),
            create_time_ns: field(of::CREATE_TIME_NS),
            handler: field(of::HANDLER),
            status: status.map_or(StringId::NULL, |name| cx.store.strings.intern(name)),
            flags: field(of::FLAGS).map(|value| value as u32),
            start_transaction_id: field(of::START_TRANSACTION_ID),
            finish_transaction_id: field(of::FINISH_TRANSACTION_ID),
        }
    }
}

impl Windows {
    /// Reads a `ShellTransition`: some fields of a transition.
    pub(super) fn transition(&mut self, cx: &mut Context, part: Part<'_>) {
        let tables = [
            TableId::window_manager_shell_transitions,
            TableId::window_manager_shell_transition_participants,
            TableId::window_manager_shell_transition_protos,
        ];
        if !tables.iter().any(|table| cx.store.wants(*table)) {
            return;
        }
        let id = part.int(of::ID).unwrap_or(0);
        let row = WindowManagerShellTransitionProtosRow {
            transition_id: id.into(),
            base64_proto_id: encoded(cx, part),
        };
        let protos = &mut cx.store.tables.window_manager_shell_transition_protos;
        protos.push(row);
        let mut args = ArgSet::default();
        self.messages
            .add(cx, "ShellTransition", part, &|_| true, &mut args);
        let transition = self.transitions.of(id);
        transition.args.append(&args);
        for field in part.fields() {
            if let Some(value) = field.as_u64() {
                transition.fields.insert(field.number, value as i64);
            }
        }
        if let Some(ts) = part.long(of::SEND_TIME_NS) {
            transition.ts = ts;
        }
        if let Some(ts) = part.long(of::DISPATCH_TIME_NS)
            && transition.ts == 0
        {
            transition.ts = ts;
        }
        for change in part.parts(of::CHANGES) {
            self.participant(cx, id, change);
        }
    }

    fn participant(&mut self, cx: &mut Context, id: i32, part: Part<'_>) {
        let mut bounds = |number| {
            let bounds = part.part(number)?;
            Some(self.rects.rect(cx, Rect::of_integers(bounds)))
        };
        let start_abs_bounds_rect_id = bounds(change::START_ABSOLUTE_BOUNDS);
        let end_abs_bounds_rect_id = bounds(change::END_ABSOLUTE_BOUNDS);
        let row = WindowManagerShellTransitionParticipantsRow {
            transition_id: id.into(),
            layer_id: part.uint(change::LAYER_ID),
            window_id: part.uint(change::WINDOW_ID),
            mode: part.uint(change::MODE),
            flags: part.uint(change::FLAGS),
            start_display_id: part.uint(change::START_DISPLAY_ID),
            end_display_id: part.uint(change::END_DISPLAY_ID),
            start_rotation: part.uint(change::START_ROTATION),
            end_rotation: part.uint(change::END_ROTATION),
            start_abs_bounds_rect_id,
            end_abs_bounds_rect_id,
        };
        let tables = &mut cx.store.tables;
        tables
            .window_manager_shell_transition_participants
            .push(row);
    }

    /// Reads a `ShellHandlerMappings`.
    pub(super) fn handlers(&mut self, cx: &mut Context, part: Part<'_>) {
        use shell_handler_mapping as of;
        if !cx
            .store
            .wants(TableId::window_manager_shell_transition_handlers)
        {
            return;
        }
        let base64_proto_id = encoded(cx, part);
        for handler in part.parts(shell_handler_mappings::MAPPING) {
            let name = handler.bytes(of::NAME).unwrap_or_default();
            let row = WindowManagerShellTransitionHandlersRow {
                handler_id: handler.int(of::ID).unwrap_or(0).into(),
                handler_name: cx.store.strings.intern_bytes(name),
                base64_proto_id,
            };
            let tables = &mut cx.store.tables;
            tables.window_manager_shell_transition_handlers.push(row);
        }
    }
}
