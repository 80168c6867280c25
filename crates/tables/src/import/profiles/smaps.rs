//! Memory maps of processes: `SmapsPacket`.

use ferretto_proto::fields::{packed_smaps, smaps_entry, smaps_packet};
use ferretto_wire::Fields;

use super::super::context::Context;
use crate::schema::{ProfilerSmapsRow, TableId};
use crate::stats::Stat;
use crate::strings::StringId;

/// Reads a `SmapsPacket`.
pub(super) fn parse(cx: &mut Context, ts: i64, bytes: &[u8]) {
    let find = |number| Fields::find(number, bytes);
    let pid = find(smaps_packet::PID)
        .and_then(|pid| pid.as_u32())
        .unwrap_or(0);
    let upid = cx.processes.process(&mut cx.store, pid.into());
    if !cx.store.wants(TableId::profiler_smaps) {
        return;
    }
    if let Some(packed) = find(smaps_packet::PACKED_ENTRIES) {
        return parse_packed(cx, ts, upid, packed.as_bytes().unwrap_or_default());
    }
    let fields = Fields::new(bytes).map_while(Result::ok);
    for entry in fields.filter(|field| field.number == smaps_packet::ENTRIES) {
        parse_entry(cx, ts, upid, entry.as_bytes().unwrap_or_default());
    }
}

/// The path of a mapping, without the suffix of deleted files.
#[derive(Debug, Clone, Copy)]
struct Path {
    path: StringId,
    trimmed: StringId,
    is_deleted: bool,
}

fn path(cx: &mut Context, path: &[u8]) -> Path {
    let trimmed = path.strip_suffix(b" (deleted)");
    Path {
        path: cx.store.strings.intern_bytes(path),
        trimmed: cx.store.strings.intern_bytes(trimmed.unwrap_or(path)),
        is_deleted: trimmed.is_some(),
    }
}

fn row(ts: i64, upid: u32, of: Path) -> ProfilerSmapsRow {
    ProfilerSmapsRow {
        upid,
        ts,
        path: of.path,
        path_trimmed: of.trimmed,
        aggregate_count: 1,
        is_deleted: of.is_deleted,
        size_kb: 0,
        private_dirty_kb: 0,
        swap_kb: 0,
        file_name: StringId::NULL,
        start_address: 0,
        module_timestamp: 0,
        module_debugid: StringId::NULL,
        module_debug_path: StringId::NULL,
        protection_flags: 0,
        private_clean_resident_kb: 0,
        shared_dirty_resident_kb: 0,
        shared_clean_resident_kb: 0,
        locked_kb: 0,
        proportional_resident_kb: 0,
        rss_kb: 0,
        anonymous_kb: 0,
        pss_dirty_kb: 0,
        swap_pss_kb: 0,
    }
}

fn parse_entry(cx: &mut Context, ts: i64, upid: u32, entry: &[u8]) {
    use smaps_entry as of;
    let name = Fields::find(of::PATH, entry).and_then(|name| name.as_bytes());
    let name = path(cx, name.unwrap_or_default());
    let mut row = row(ts, upid, name);
    for field in Fields::new(entry).map_while(Result::ok) {
        let number = field.as_u64().unwrap_or(0) as i64;
        let mut text = || {
            cx.store
                .strings
                .intern_bytes(field.as_bytes().unwrap_or_default())
        };
        match field.number {
            of::SIZE_KB => row.size_kb = number,
            of::PRIVATE_DIRTY_KB => row.private_dirty_kb = number,
            of::SWAP_KB => row.swap_kb = number,
            of::FILE_NAME => row.file_name = text(),
            of::START_ADDRESS => row.start_address = number,
            of::MODULE_TIMESTAMP => row.module_timestamp = number,
            of::MODULE_DEBUGID => row.module_debugid = text(),
            of::MODULE_DEBUG_PATH => row.module_debug_path = text(),
            of::PROTECTION_FLAGS => row.protection_flags = number,
            of::PRIVATE_CLEAN_RESIDENT_KB => row.private_clean_resident_kb = number,
            of::SHARED_DIRTY_RESIDENT_KB => row.shared_dirty_resident_kb = number,
            of::SHARED_CLEAN_RESIDENT_KB => row.shared_clean_resident_kb = number,
            of::LOCKED_KB => row.locked_kb = number,
            of::PROPORTIONAL_RESIDENT_KB => row.proportional_resident_kb = number,
            _ => {}
        }
    }
    cx.store.tables.profiler_smaps.push(row);
}

/// Reads a `PackedSmaps`, with one list for each column. Missing lists are 0.
fn parse_packed(cx: &mut Context, ts: i64, upid: u32, packed: &[u8]) {
    use packed_smaps as of;
    let mut paths = Vec::new();
    let mut lists = <[Vec<u64>; 16]>::default();
    for field in Fields::new(packed).map_while(Result::ok) {
        match field.number {
            of::STRING_TABLE => paths.push(path(cx, field.as_bytes().unwrap_or_default())),
            number => {
                if let Some(list) = lists.get_mut(number as usize) {
                    list.extend(field.as_varints());
                }
            }
        }
    }
    let is_aggregated = !lists[of::AGGREGATE_COUNT as usize].is_empty();
    let needed = if is_aggregated {
        of::AGGREGATE_COUNT
    } else {
        of::NAME_ID
    };
    let rows = lists[needed as usize].len();
    let mut is_damaged = lists[of::SIZE_KB as usize..]
        .iter()
        .any(|list| !list.is_empty() && list.len() != rows);
    is_damaged |= is_aggregated && rows != paths.len();
    for index in 0..rows {
        let value = |list: u32| {
            let list = &lists[list as usize];
            if list.is_empty() {
                Some(0)
            } else {
                list.get(index).map(|value| *value as i64)
            }
        };
        let name = if is_aggregated {
            index
        } else {
            lists[of::NAME_ID as usize][index] as usize
        };
        let next = paths.get(name).and_then(|name| {
            Some(ProfilerSmapsRow {
                aggregate_count: if is_aggregated {
                    value(of::AGGREGATE_COUNT)? as u32
                } else {
                    1
                },
                size_kb: value(of::SIZE_KB)?,
                rss_kb: value(of::RSS_KB)?,
                anonymous_kb: value(of::ANONYMOUS_KB)?,
                swap_kb: value(of::SWAP_KB)?,
                shared_clean_resident_kb: value(of::SHARED_CLEAN_KB)?,
                shared_dirty_resident_kb: value(of::SHARED_DIRTY_KB)?,
                private_clean_resident_kb: value(of::PRIVATE_CLEAN_KB)?,
                private_dirty_kb: value(of::PRIVATE_DIRTY_KB)?,
                locked_kb: value(of::LOCKED_KB)?,
                proportional_resident_kb: value(of::PSS_KB)?,
                pss_dirty_kb: value(of::PSS_DIRTY_KB)?,
                swap_pss_kb: value(of::SWAP_PSS_KB)?,
                ..row(ts, upid, *name)
            })
        });
        let Some(next) = next else {
            is_damaged = true;
            break;
        };
        cx.store.tables.profiler_smaps.push(next);
    }
    if is_damaged {
        cx.store.stats.add(Stat::smaps_parser_errors, 1);
    }
}
