//! The topics, and their packets.

use ferretto_format::compact_sched::CompactKind;
use ferretto_proto::fields::trace_packet as field;

use super::arena::Span;
use super::chrome::Chrome;
use super::context::{Context, EventState};
use super::etw::Etw;
use super::event::Event;
use super::ftrace::Ftrace;
use super::gpu::Gpus;
use super::profiles::Profiles;
use super::sorter::Stream;
use super::system::{self, System};
use super::trace_info::TraceInfo;
use super::track_event::{Annotation, Encoded, Resolved, TrackEvents};
use super::{Input, Out, android, translation};
use crate::formats::Lines;
use crate::options::Options;

/// The state of each topic.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    track_events: TrackEvents,
    profiles: Profiles,
    info: TraceInfo,
    lines: Lines,
    ftrace: Ftrace,
    etw: Etw,
    deltas: android::Deltas,
    android: android::Android,
    windows: android::Windows,
    system: System,
    gpus: Gpus,
    chrome: Chrome,
}

impl Topics {
    /// Tokenizes a packet.
    pub(super) fn tokenize(&mut self, cx: &mut Context, input: &Input<'_>, out: &mut Out<'_>) {
        match input.field {
            field::TRACK_EVENT => self.track_events.tokenize(cx, input, out),
            field::TRACK_DESCRIPTOR if self.track_events.describe(cx, input) => {
                later(cx, input, out);
            }
            field::THREAD_DESCRIPTOR if self.track_events.describe_thread(cx, input) => {
                later(cx, input, out);
            }
            field::PROCESS_DESCRIPTOR => later(cx, input, out),
            field::TRACK_EVENT_RANGE_OF_INTEREST => {
                self.track_events.range_of_interest(cx, input.bytes);
            }
            number if Profiles::has(number) => later(cx, input, out),
            number if android::Deltas::has(number) => self.deltas.read(cx, input, out),
            number if android::has(number) => later(cx, input, out),
            number if android::Windows::has(number) => {
                if self.windows.begin(cx, number, input.bytes) {
                    later(cx, input, out);
                }
            }
            number if Gpus::has(number) => {
                if self.gpus.begin(cx, input) {
                    later(cx, input, out);
                }
            }
            field::CHROME_METADATA => self.chrome.metadata(cx, input.bytes),
            field::TRANSLATION_TABLE => translation::read(cx, input.bytes),
            field::FTRACE_EVENTS => self.ftrace.tokenize(cx, input, out),
            field::ETW_EVENTS => Etw::tokenize(cx, input, out),
            field::FTRACE_STATS => self.ftrace.stats(cx, input.bytes, input.header.sequence),
            number if System::has_events(number) => {
                if self.system.begin(cx, input, out) {
                    later(cx, input, out);
                }
            }
            number if TraceInfo::has(number) => {
                if number == field::SYSTEM_INFO {
                    system::note_kernel(cx, input.bytes);
                    self.ftrace.kernel_known(cx);
                }
                if self.info.tokenize(cx, input) {
                    later(cx, input, out);
                }
            }
            number => self.system.tokenize(cx, number, input.bytes),
        }
    }

    /// Parses an event, except for data that was decoded ahead.
    pub(super) fn parse(
        &mut self,
        cx: &mut Context,
        ts: i64,
        event: &Event,
        bytes: &[u8],
        state: EventState<'_>,
        resolved: Option<(&Resolved, &[Annotation])>,
    ) {
        match *event {
            Event::TrackEvent { extra, .. } => {
                let encoded = Encoded {
                    bytes,
                    extra,
                    resolved,
                };
                let stacks = &mut self.profiles;
                self.track_events.parse(cx, ts, encoded, state, stacks);
            }
            Event::Packet { field: number, .. } => match number {
                field::TRACK_DESCRIPTOR => self.track_events.parse_descriptor(cx, bytes),
                field::THREAD_DESCRIPTOR => self.track_events.parse_thread(cx, bytes),
                field::PROCESS_DESCRIPTOR => self.track_events.parse_process(cx, bytes),
                number if Profiles::has(number) => {
                    self.profiles.parse(cx, ts, number, bytes, state);
                }
                number if TraceInfo::has(number) => self.info.parse(cx, ts, number, bytes),
                number if android::has(number) => self.android.parse(cx, ts, number, bytes),
                number if android::Windows::has(number) => {
                    let packet = android::WindowPacket {
                        ts,
                        number,
                        bytes,
                        state,
                    };
                    self.windows.parse(cx, packet);
                }
                number if Gpus::has(number) => self.gpus.parse(cx, ts, number, bytes, state),
                number => self.system.parse(cx, ts, number, bytes),
            },
            Event::Counter(number) => self.deltas.counter(cx, ts, number),
            Event::PowerRail(number) => self.system.power_rail(cx, ts, number),
            Event::Line { kind, .. } => self.lines.parse(cx, ts, kind, bytes),
            Event::Etw { cpu, .. } => self.etw.parse(cx, ts, cpu, bytes),
            Event::Ftrace { .. } | Event::Compact { .. } | Event::Switch(_) | Event::Waking(_) => {
                self.ftrace.parse(cx, ts, event, bytes, state);
            }
        }
    }

    /// Calls `each` with the parts of a composite event, and their times.
    pub(super) fn expand(
        &mut self,
        cx: &mut Context,
        cpu: u16,
        kind: CompactKind,
        bytes: (&[u8], Span),
        each: impl FnMut(i64, Event),
    ) {
        self.ftrace.expand(cx, cpu, kind, bytes, each);
    }

    /// Sets what is known of the whole trace if this is a part of it.
    pub(super) fn begin_part(&mut self, options: &Options) {
        self.ftrace.begin_part(options);
    }

    /// Leaves out track events before the range of interest of the trace.
    pub(super) fn crop_track_events(&mut self) {
        self.track_events.crop();
    }

    /// Handles the first packet of a sequence.
    pub(super) fn first_packet(&mut self, sequence_id: u32) {
        self.track_events.first_packet(sequence_id);
    }

    /// Handles a restart of the incremental state of a sequence.
    pub(super) fn restarted(&mut self, sequence: u32) {
        self.track_events.restarted(sequence);
    }

    /// Handles a loss of packets of a sequence.
    pub(super) fn lost(&mut self, sequence: u32) {
        self.track_events.lost(sequence);
    }

    /// Reads an `ExtensionDescriptor`.
    pub(super) fn extension(&mut self, descriptor: &[u8]) {
        self.track_events.extension(descriptor);
    }

    /// Writes the collected data into the tables, after all events were parsed.
    pub(super) fn finish(&mut self, cx: &mut Context) {
        self.ftrace.finish(cx);
        self.etw.finish(cx);
        self.windows.finish(cx);
        self.profiles.finish(cx);
        self.info.finish(cx);
    }
}

/// Pushes a packet that is parsed in the order of time.
fn later(cx: &mut Context, input: &Input<'_>, out: &mut Out<'_>) {
    let event = Event::Packet {
        field: input.field,
        span: input.span(input.bytes),
    };
    out.push(&mut cx.store, Stream::Packets, input.ts, event);
}
