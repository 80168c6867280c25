//! Track events and the descriptors of their tracks.

mod descriptor;

use std::num::NonZeroU32;

use ferretto_proto::fields::{interned_data, track_event as field};
use ferretto_wire::Fields;

use self::descriptor::Tracks;
use super::context::{Context, EventState};
use super::event::Event;
use super::sorter::Stream;
use super::{Input, Out};
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::slice::SliceStart;

/// The values of the field `type`.
mod event_type {
    pub(super) const SLICE_BEGIN: u32 = 1;
    pub(super) const SLICE_END: u32 = 2;
    pub(super) const INSTANT: u32 = 3;
}

/// Track events and the tracks they are on.
#[derive(Debug, Default)]
pub(crate) struct TrackEvents {
    tracks: Tracks,
    args: ArgSet,
}

impl TrackEvents {
    /// Reads a `TrackEvent` in the order of the file.
    pub(super) fn tokenize(&mut self, cx: &mut Context, input: &Input<'_>, out: &mut Out<'_>) {
        let event = Event::TrackEvent {
            span: input.span(input.bytes),
            extra: None,
        };
        out.push(&mut cx.store, Stream::TrackEvents, input.ts, event);
    }

    /// Reads a `TrackDescriptor` in the order of the file. Returns true if it is to be parsed.
    pub(super) fn describe(&mut self, cx: &mut Context, input: &Input<'_>) -> bool {
        self.tracks.describe(cx, input.bytes)
    }

    /// Incremental state of the sequence at this place starts anew.
    pub(super) fn restarted(&mut self, _sequence: u32) {}

    /// Reads a `TrackDescriptor` in the order of time.
    pub(super) fn parse_descriptor(
        &mut self,
        cx: &mut Context,
        bytes: &[u8],
        _state: EventState<'_>,
    ) {
        self.tracks.parse(cx, bytes);
    }

    /// Reads a `TrackEvent` in the order of time.
    pub(super) fn parse(
        &mut self,
        cx: &mut Context,
        ts: i64,
        bytes: &[u8],
        _extra: Option<NonZeroU32>,
        state: EventState<'_>,
    ) {
        let (mut kind, mut uuid) = (0, state.state.defaults.track.unwrap_or(0));
        let (mut name, mut category) = (StringId::NULL, StringId::NULL);
        for part in Fields::new(bytes).map_while(Result::ok) {
            let iid = || part.as_u64().unwrap_or(0);
            match part.number {
                field::TYPE => kind = part.as_u32().unwrap_or(0),
                field::TRACK_UUID => uuid = iid(),
                field::NAME_IID => {
                    let known = state.text(interned_data::EVENT_NAMES, iid());
                    name = known.unwrap_or(StringId::NULL);
                }
                field::NAME => {
                    let text = part.as_bytes().unwrap_or_default();
                    name = cx.store.strings.intern_bytes(text);
                }
                field::CATEGORY_IIDS => {
                    let known = state.text(interned_data::EVENT_CATEGORIES, iid());
                    category = known.unwrap_or(StringId::NULL);
                }
                _ => {}
            }
        }
        let track = self.tracks.resolve(cx, uuid);
        let start = SliceStart {
            ts,
            track,
            category,
            name,
        };
        let store = &mut cx.store;
        match kind {
            event_type::SLICE_BEGIN => cx.slices.begin(store, start, &mut self.args),
            event_type::SLICE_END => {
                let of = (category, name);
                cx.slices.end(store, ts, track, of, &mut self.args)
            }
            event_type::INSTANT => cx.slices.complete(store, start, 0, &mut self.args),
            _ => None,
        };
    }

    /// Puts what was collected into the tables, when all was parsed.
    pub(super) fn finish(&mut self, _cx: &mut Context) {}
}
