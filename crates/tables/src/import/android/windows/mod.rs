//! Windows, layers, views and input: the packets that Winscope shows.

mod containers;
mod geometry;
mod input;
mod layers;
mod part;
mod protolog;
mod rects;
mod transactions;
mod transitions;
mod views;
mod visibility;

use ferretto_proto::fields::android::{
    frameworks_base_winscope_extensions as base,
    frameworks_base_winscope_trace_packet as base_packet,
    frameworks_native_winscope_extensions as native,
    frameworks_native_winscope_trace_packet as packet,
};

use self::containers::Containers;
use self::part::Part;
use self::protolog::Protolog;
use self::rects::Rects;
use self::transactions::Flags;
use self::transitions::Transitions;
use super::super::context::{Context, EventState};
use super::super::reflect::{Keys, Reflection, base64};
use crate::schema::{
    InputmethodClientsRow, InputmethodManagerServiceRow, InputmethodServiceRow, TableId,
};
use crate::trackers::args::ArgSet;

/// The state of these packets.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    messages: Messages,
    rects: Rects,
    flags: Flags,
    transitions: Transitions,
    protolog: Protolog,
    containers: Containers,
}

/// A packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowPacket<'a> {
    pub(crate) ts: i64,
    pub(crate) number: u32,
    pub(crate) bytes: &'a [u8],
    pub(crate) state: EventState<'a>,
}

impl Windows {
    /// Returns true if packets of this field are parsed here, in the order of time.
    pub(crate) fn has(number: u32) -> bool {
        matches!(
            number,
            packet::SURFACEFLINGER_LAYERS_SNAPSHOT
                | packet::SURFACEFLINGER_TRANSACTIONS
                | packet::PROTOLOG_MESSAGE
                | packet::PROTOLOG_VIEWER_CONFIG
                | packet::WINSCOPE_EXTENSIONS
                | base_packet::SHELL_TRANSITION
                | base_packet::SHELL_HANDLER_MAPPINGS
        )
    }

    /// Reads a packet that later ones of the file and earlier ones refer to. Returns true if it is
    /// parsed in the order of time, too.
    pub(crate) fn begin(&mut self, cx: &mut Context, number: u32, bytes: &[u8]) -> bool {
        let is_config = number == packet::PROTOLOG_VIEWER_CONFIG;
        if is_config && cx.store.wants(TableId::protolog) {
            self.protolog.configure(Part(bytes));
        }
        !is_config
    }

    /// Parses a packet.
    pub(crate) fn parse(&mut self, cx: &mut Context, input: WindowPacket<'_>) {
        let part = Part(input.bytes);
        match input.number {
            packet::SURFACEFLINGER_LAYERS_SNAPSHOT => self.layers(cx, input, part),
            packet::SURFACEFLINGER_TRANSACTIONS => self.transactions(cx, input.ts, part),
            packet::PROTOLOG_MESSAGE => self.protolog.message(cx, input, part),
            base_packet::SHELL_TRANSITION => self.transition(cx, part),
            base_packet::SHELL_HANDLER_MAPPINGS => self.handlers(cx, part),
            packet::WINSCOPE_EXTENSIONS => {
                let known = |number| matches!(number, 1..=6);
                let first = part.fields().find(|field| known(field.number));
                if let Some(field) = first
                    && let Some(bytes) = field.as_bytes()
                {
                    self.extension(cx, input, field.number, Part(bytes));
                }
            }
            _ => {}
        }
    }

    fn extension(
        &mut self,
        cx: &mut Context,
        input: WindowPacket<'_>,
        number: u32,
        part: Part<'_>,
    ) {
        match number {
            base::INPUTMETHOD_CLIENTS
            | base::INPUTMETHOD_SERVICE
            | base::INPUTMETHOD_MANAGER_SERVICE => self.input_method(cx, input.ts, number, part),
            base::VIEWCAPTURE => self.views(cx, input, part),
            base::WINDOWMANAGER => self.windows(cx, input.ts, part),
            native::ANDROID_INPUT_EVENT => self.input_event(cx, input.ts, part),
            _ => {}
        }
    }

    fn input_method(&mut self, cx: &mut Context, ts: i64, number: u32, part: Part<'_>) {
        let (table, name) = match number {
            base::INPUTMETHOD_CLIENTS => {
                (TableId::inputmethod_clients, "InputMethodClientsTraceProto")
            }
            base::INPUTMETHOD_SERVICE => {
                (TableId::inputmethod_service, "InputMethodServiceTraceProto")
            }
            _ => (
                TableId::inputmethod_manager_service,
                "InputMethodManagerServiceTraceProto",
            ),
        };
        if !cx.store.wants(table) {
            return;
        }
        let arg_set_id = self.messages.args(cx, name, part);
        let base64_proto_id = encoded(cx, part);
        let tables = &mut cx.store.tables;
        match number {
            base::INPUTMETHOD_CLIENTS => tables.inputmethod_clients.push(InputmethodClientsRow {
                ts,
                arg_set_id,
                base64_proto_id,
            }),
            base::INPUTMETHOD_SERVICE => tables.inputmethod_service.push(InputmethodServiceRow {
                ts,
                arg_set_id,
                base64_proto_id,
            }),
            _ => tables
                .inputmethod_manager_service
                .push(InputmethodManagerServiceRow {
                    ts,
                    arg_set_id,
                    base64_proto_id,
                }),
        };
    }

    /// Writes the collected data into the tables.
    pub(crate) fn finish(&mut self, cx: &mut Context) {
        self.transitions.finish(cx);
    }
}

/// Returns the number of the text with the encoded message.
fn encoded(cx: &mut Context, part: Part<'_>) -> Option<u32> {
    Some(cx.store.strings.intern(&base64(part.0)).raw())
}

/// Converts messages of Android to arguments.
#[derive(Debug, Default)]
struct Messages {
    reflection: Reflection,
    keys: Keys,
}

impl Messages {
    /// Adds the fields of a message that are shown.
    fn add(
        &mut self,
        cx: &mut Context,
        name: &str,
        part: Part<'_>,
        is_shown: &dyn Fn(u32) -> bool,
        args: &mut ArgSet,
    ) {
        self.keys.clear();
        self.keys.start(part.0.len());
        let name = format!("com.android.internal.{name}");
        self.reflection
            .shown_fields(cx, &name, part.0, is_shown, &mut self.keys, args);
    }

    /// Returns the set of all fields of a message.
    fn args(&mut self, cx: &mut Context, name: &str, part: Part<'_>) -> Option<u32> {
        let mut args = ArgSet::default();
        self.add(cx, name, part, &|_| true, &mut args);
        args.finish(&mut cx.store)
    }
}
