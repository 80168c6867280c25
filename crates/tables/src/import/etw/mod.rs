//! Kernel events of Windows (ETW).

mod disk_io;
mod file_io;
mod memory;
mod threads;

use ferretto_proto::fields::{
    etw_trace_event as event, etw_trace_event_bundle as bundle, trace_packet,
};
use ferretto_wire::Fields;

use self::file_io::FileIo;
use super::context::Context;
use super::event::Event;
use super::message::Message;
use super::sorter::Stream;
use super::{Input, Out};
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;

/// The number of a CPU that events do not name. No CPU has it.
const UNKNOWN_CPU: u16 = u16::MAX;

/// The state of the events between packets.
#[derive(Debug, Default)]
pub(super) struct Etw {
    file_io: FileIo,
}

impl Etw {
    /// Pushes the events of an `EtwTraceEventBundle`.
    pub(super) fn tokenize(cx: &mut Context, input: &Input<'_>, out: &mut Out<'_>) {
        let cpu = |number, bytes| {
            let cpu = Fields::find(number, bytes).and_then(|field| field.as_u64());
            cpu.map(|cpu| u16::try_from(cpu).unwrap_or(UNKNOWN_CPU))
        };
        let of_all = cpu(bundle::CPU, input.bytes);
        let fields = Fields::new(input.bytes).map_while(Result::ok);
        for field in fields.filter(|field| field.number == bundle::EVENT) {
            let bytes = field.as_bytes().unwrap_or_default();
            let ts = Fields::find(event::TIMESTAMP, bytes).and_then(|field| field.as_u64());
            let Some(ts) = ts else {
                let stat = Stat::tokenizer_skipped_packets;
                cx.store.log_at(stat, input.offset);
                continue;
            };
            let event = Event::Etw {
                cpu: cpu(event::CPU, bytes).or(of_all).unwrap_or(UNKNOWN_CPU),
                span: input.span(bytes),
            };
            out.push(&mut cx.store, Stream::Packets, ts as i64, event);
        }
    }

    /// Parses an `EtwTraceEvent`.
    pub(super) fn parse(&mut self, cx: &mut Context, ts: i64, cpu: u16, bytes: &[u8]) {
        let whole = Message::<16>::read(bytes);
        let tid = i64::from(whole.u32(event::THREAD_ID));
        let body = |number| whole.has(number).then(|| whole.bytes(number));
        if let Some(body) = body(event::C_SWITCH) {
            threads::switch(cx, ts, cpu, body);
        }
        if let Some(body) = body(event::READY_THREAD) {
            threads::ready(cx, ts, tid, body);
        }
        if let Some(body) = body(event::MEM_INFO) {
            memory::parse(cx, ts, body);
        }
        if let Some(body) = body(event::DISK_IO) {
            disk_io::parse(cx, ts, tid, body);
        }
        for number in file_io::EVENTS {
            if let Some(body) = body(number) {
                self.file_io.parse(cx, ts, tid, number, body);
            }
        }
    }

    /// Ends requests whose ends are missing.
    pub(super) fn finish(&mut self, cx: &mut Context) {
        self.file_io.finish(cx);
    }
}

/// Counts an event that is not shown.
fn count_unknown(cx: &mut Context) {
    let field = i64::from(trace_packet::ETW_EVENTS);
    let stats = &mut cx.store.stats;
    stats.add_indexed(Stat::packets_not_imported, field, 1);
}

/// The type of an argument.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// An address or flags.
    Pointer,
    Uint,
    Int,
    Text,
    /// The class of information of a file.
    InfoClass,
}

/// The number of a field, its name as an argument, and its type.
type Named = (u32, &'static str, Kind);

/// Returns the fields of an event as arguments.
fn args_of<const N: usize>(cx: &mut Context, body: &Message<'_, N>, fields: &[Named]) -> ArgSet {
    let mut args = ArgSet::default();
    for (number, name, kind) in fields.iter().filter(|field| body.has(field.0)) {
        let value = match kind {
            Kind::Pointer => ArgValue::Pointer(body.uint(*number)),
            Kind::Uint => ArgValue::Uint(body.uint(*number)),
            Kind::Int => ArgValue::Int(body.int(*number)),
            Kind::Text => ArgValue::Text(cx.store.strings.intern_bytes(body.bytes(*number))),
            Kind::InfoClass => file_io::info_class(cx, body.u32(*number)),
        };
        args.put(&mut cx.store, name, value);
    }
    args
}

/// Returns a known name as a text of the trace; NULL for an unknown number.
fn named(cx: &mut Context, names: &[&str], number: u32) -> StringId {
    let name = names.get(number as usize).filter(|name| !name.is_empty());
    name.map_or(StringId::NULL, |name| cx.store.strings.intern(name))
}
