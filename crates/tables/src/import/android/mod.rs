//! Lists and counters that probes of Android write.

mod buffers;
mod deltas;
mod frames;
mod jank;
mod lists;
mod packages;
mod properties;
mod windows;

use ferretto_proto::fields::trace_packet as field;

use self::buffers::Buffers;
pub(super) use self::deltas::Deltas;
use self::frames::Frames;
pub(super) use self::windows::{WindowPacket, Windows};
use super::context::Context;

/// Returns true if packets of this field are parsed here, in the order of time.
pub(super) fn has(number: u32) -> bool {
    matches!(
        number,
        field::PACKAGES_LIST
            | field::USER_LIST
            | field::ANDROID_AFLAGS
            | field::ANDROID_GAME_INTERVENTION_LIST
            | field::ANDROID_SYSTEM_PROPERTY
            | field::FRAME_TIMELINE_EVENT
            | field::GRAPHICS_FRAME_EVENT
    )
}

/// The state of Android's data sources between packets.
#[derive(Debug, Default)]
pub(super) struct Android {
    frames: Frames,
    buffers: Buffers,
}

impl Android {
    /// Parses a packet.
    pub(super) fn parse(&mut self, cx: &mut Context, ts: i64, number: u32, bytes: &[u8]) {
        match number {
            field::FRAME_TIMELINE_EVENT => self.frames.parse(cx, ts, bytes),
            field::GRAPHICS_FRAME_EVENT => self.buffers.parse(cx, ts, bytes),
            number => parse(cx, ts, number, bytes),
        }
    }
}

fn parse(cx: &mut Context, ts: i64, number: u32, bytes: &[u8]) {
    match number {
        field::PACKAGES_LIST => packages::parse(cx, bytes),
        field::USER_LIST => lists::users(cx, bytes),
        field::ANDROID_AFLAGS => lists::flags(cx, ts, bytes),
        field::ANDROID_GAME_INTERVENTION_LIST => lists::games(cx, bytes),
        field::ANDROID_SYSTEM_PROPERTY => properties::parse(cx, ts, bytes),
        _ => {}
    }
}
