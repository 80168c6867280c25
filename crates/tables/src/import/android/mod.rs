//! Lists and counters that probes of Android write.

mod deltas;
mod lists;
mod packages;
mod properties;

use ferretto_proto::fields::trace_packet as field;

pub(super) use self::deltas::Deltas;
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
    )
}

/// Parses a packet.
pub(super) fn parse(cx: &mut Context, ts: i64, number: u32, bytes: &[u8]) {
    match number {
        field::PACKAGES_LIST => packages::parse(cx, bytes),
        field::USER_LIST => lists::users(cx, bytes),
        field::ANDROID_AFLAGS => lists::flags(cx, ts, bytes),
        field::ANDROID_GAME_INTERVENTION_LIST => lists::games(cx, bytes),
        field::ANDROID_SYSTEM_PROPERTY => properties::parse(cx, ts, bytes),
        _ => {}
    }
}
