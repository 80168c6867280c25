//! Properties of the system: `AndroidSystemProperty`.

use ferretto_proto::fields::android_system_property::{self, property_value as of};
use ferretto_wire::Fields;

use super::super::context::Context;
use super::super::ftrace::{add_named, device_state};
use crate::trackers::track::Dimension;

/// Reads an `AndroidSystemProperty`.
pub(super) fn parse(cx: &mut Context, ts: i64, bytes: &[u8]) {
    let fields = Fields::new(bytes).map_while(Result::ok);
    for value in fields.filter(|field| field.number == android_system_property::VALUES) {
        let value = value.as_bytes().unwrap_or_default();
        let text = |number| Fields::find(number, value).and_then(|field| field.as_str_lossy());
        let name = text(of::NAME).unwrap_or_default();
        let value = text(of::VALUE).unwrap_or_default();
        if let Some(name) = name.strip_prefix("debug.tracing.") {
            property(cx, ts, name, &value);
        }
    }
}

/// Adds a value of a property. Programs that write with atrace use the same tracks.
fn property(cx: &mut Context, ts: i64, name: &str, value: &str) {
    if name == "device_state" {
        let state = cx.store.strings.intern(value);
        device_state(cx, ts, state);
        return;
    }
    let Ok(value) = value.parse::<i32>().map(f64::from) else {
        return;
    };
    let shown = match name {
        "screen_state" => return add_named(cx, ts, "screen_state", &[], "ScreenState", value),
        "mcc" | "mnc" | "desktop_mode_visible_tasks" => name,
        "battery_status" => "BatteryStatus",
        "plug_type" => "PlugType",
        name if name.starts_with("battery_stats.") => {
            let key = cx.store.strings.intern(name);
            let dimensions = [Dimension::Text("counter_key", key)];
            return add_named(cx, ts, "battery_stats", &dimensions, name, value);
        }
        _ => return,
    };
    let key = cx.store.strings.intern(&format!("debug.tracing.{name}"));
    let dimensions = [Dimension::Text("sysprop_name", key)];
    add_named(cx, ts, "sysprop_counter", &dimensions, shown, value);
}
