//! `RelayPort`: the interface by which a relay describes its machine and clocks.

use ferretto_proto::UnknownFields;
use ferretto_wire::encode;

/// The field of [`InitRelayResponse`] with the interval of clock comparisons that a host of this
/// project requests, in milliseconds. Upstream's hosts request none, and need half a minute between
/// two comparisons.
const COMPARE_EVERY_MS: u32 = 15_501;

/// The field of [`InitRelayRequest`] by which a relay of this project announces that it follows
/// such a request.
const MAY_BE_ASKED: u32 = 15_503;

/// Announces in a request that the relay compares clocks as often as the host requests.
pub fn offer_comparisons(request: &mut InitRelayRequest) {
    let offer = encode(|message| message.varint(MAY_BE_ASKED, 1));
    request.unknown_fields = UnknownFields::decode_from_slice(&offer).unwrap_or_default();
}

/// Returns true if a relay compares clocks as often as the host requests.
pub fn may_be_asked(request: &InitRelayRequest) -> bool {
    let mut fields = request.unknown_fields.iter();
    fields.any(|field| field.number == MAY_BE_ASKED)
}

/// Returns a reply to `InitRelay` that requests clock comparisons at this interval.
pub fn compare_clocks_every(milliseconds: u64) -> InitRelayResponse {
    let wish = encode(|message| message.varint(COMPARE_EVERY_MS, milliseconds));
    InitRelayResponse {
        unknown_fields: UnknownFields::decode_from_slice(&wish).unwrap_or_default(),
    }
}

/// Returns the interval of clock comparisons that the host requests, in milliseconds, if there is
/// one.
pub fn wanted_interval(reply: &InitRelayResponse) -> Option<u64> {
    let mut fields = reply.unknown_fields.iter();
    let wish = fields.find(|field| field.number == COMPARE_EVERY_MS)?;
    match wish.value? {
        ferretto_wire::Value::Varint(milliseconds) => Some(milliseconds),
        _ => None,
    }
}

define_port! {
    "RelayPort" {
        /// Describes the machine.
        InitRelay(InitRelayRequest) -> InitRelayResponse;
        /// One half of a clock exchange.
        SyncClock(SyncClockRequest) -> SyncClockResponse;
    }
}
