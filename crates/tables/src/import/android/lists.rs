//! Lists of users, flags and modes of games.

use ferretto_proto::fields::{
    android_aflags, android_aflags::flag, android_game_intervention_list as games,
    android_user_list, android_user_list::user_info,
};
use ferretto_wire::Fields;

use super::super::context::Context;
use crate::schema::{
    AndroidAflagsRow, AndroidGameInterventionListRow, AndroidUserListRow, ArgValue,
};
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;

/// The maximum number of users.
const MAX_USERS: u32 = 1 << 12;

/// Returns the messages in a field.
fn messages(number: u32, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let fields = Fields::new(bytes).map_while(Result::ok);
    let fields = fields.filter(move |field| field.number == number);
    fields.filter_map(|field| field.as_bytes())
}

fn text(cx: &mut Context, number: u32, bytes: &[u8]) -> Option<StringId> {
    let text = Fields::find(number, bytes).and_then(|field| field.as_bytes())?;
    Some(cx.store.strings.intern_bytes(text))
}

fn number(number: u32, bytes: &[u8]) -> u64 {
    let field = Fields::find(number, bytes);
    field.and_then(|field| field.as_u64()).unwrap_or(0)
}

/// Reads an `AndroidUserList`. Lists repeat users.
pub(super) fn users(cx: &mut Context, bytes: &[u8]) {
    for user in messages(android_user_list::USERS, bytes) {
        let android_user_id = i64::from(number(user_info::UID, user) as i32);
        let type_ = text(cx, user_info::TYPE, user).unwrap_or(StringId::NULL);
        let table = &mut cx.store.tables.android_user_list;
        let known = (0..table.len()).find(|row| table.android_user_id.get(*row) == android_user_id);
        match known {
            Some(row) => table.type_.set(row, type_),
            None if table.len() < MAX_USERS => {
                table.push(AndroidUserListRow {
                    type_,
                    android_user_id,
                });
            }
            None => {}
        }
    }
}

/// Reads an `AndroidGameInterventionList`.
pub(super) fn games(cx: &mut Context, bytes: &[u8]) {
    let stats = [
        (games::READ_ERROR, Stat::game_intervention_has_read_errors),
        (games::PARSE_ERROR, Stat::game_intervention_has_parse_errors),
    ];
    for (field, stat) in stats {
        if number(field, bytes) != 0 {
            cx.store.stats.add(stat, 1);
        }
    }
    for game in messages(games::GAME_PACKAGES, bytes) {
        use games::{game_mode_info as mode_of, game_package_info as of};
        let mut modes = [None; 3];
        for mode in messages(of::GAME_MODE_INFO, game) {
            let float = |number| {
                let field = Fields::find(number, mode);
                field.and_then(|field| field.as_f64()).unwrap_or(0.0)
            };
            let index = (number(mode_of::MODE, mode) as usize).wrapping_sub(1);
            if let Some(known) = modes.get_mut(index) {
                let angle = number(mode_of::USE_ANGLE, mode) != 0;
                *known = Some((
                    float(mode_of::RESOLUTION_DOWNSCALE),
                    angle,
                    float(mode_of::FPS),
                ));
            }
        }
        let [standard, performance, battery] = modes;
        let row = AndroidGameInterventionListRow {
            package_name: text(cx, of::NAME, game).unwrap_or(StringId::NULL),
            uid: number(of::UID, game) as i64,
            current_mode: number(of::CURRENT_MODE, game) as i64,
            standard_mode_supported: standard.is_some(),
            standard_mode_downscale: standard.map(|mode| mode.0),
            standard_mode_use_angle: standard.map(|mode| mode.1),
            standard_mode_fps: standard.map(|mode| mode.2),
            perf_mode_supported: performance.is_some(),
            perf_mode_downscale: performance.map(|mode| mode.0),
            perf_mode_use_angle: performance.map(|mode| mode.1),
            perf_mode_fps: performance.map(|mode| mode.2),
            battery_mode_supported: battery.is_some(),
            battery_mode_downscale: battery.map(|mode| mode.0),
            battery_mode_use_angle: battery.map(|mode| mode.1),
            battery_mode_fps: battery.map(|mode| mode.2),
        };
        cx.store.tables.android_game_intervention_list.push(row);
    }
}

/// Reads an `AndroidAflags`.
pub(super) fn flags(cx: &mut Context, ts: i64, bytes: &[u8]) {
    if let Some(error) = text(cx, android_aflags::ERROR, bytes) {
        let mut args = ArgSet::default();
        args.put(&mut cx.store, "error", ArgValue::Text(error));
        cx.store.log(Stat::android_aflags_errors, Some(ts), args);
        return;
    }
    for of in messages(android_aflags::FLAGS, bytes) {
        let mut named = |field, names: &[&str]| {
            let name = names.get(number(field, of) as usize);
            cx.store.strings.intern(name.unwrap_or(&"unspecified"))
        };
        let permission = named(
            flag::PERMISSION,
            &["unspecified", "read-only", "read-write"],
        );
        let sources = ["unspecified", "default", "server", "local"];
        let value_picked_from = named(flag::VALUE_PICKED_FROM, &sources);
        let backends = ["unspecified", "none", "aconfigd", "device_config"];
        let storage_backend = named(flag::STORAGE_BACKEND, &backends);
        let type_ = named(flag::TYPE, &["unspecified", "boolean", "integer"]);
        let mut text_of = |field| text(cx, field, of).unwrap_or(StringId::NULL);
        let row = AndroidAflagsRow {
            ts,
            package: text_of(flag::PKG),
            name: text_of(flag::NAME),
            flag_namespace: text_of(flag::FLAG_NAMESPACE),
            container: text_of(flag::CONTAINER),
            value: text_of(flag::VALUE),
            staged_value: text_of(flag::STAGED_VALUE),
            permission,
            value_picked_from,
            storage_backend,
            type_,
        };
        cx.store.tables.android_aflags.push(row);
    }
}
