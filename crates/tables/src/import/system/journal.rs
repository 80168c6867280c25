//! Lines of the journal of systemd.

use ferretto_proto::fields::systemd_journald_event as field;

use crate::import::context::Context;
use crate::import::message::Message;
use crate::schema::{ArgValue, LogsRow, TableId};
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;

/// Reads a `SystemdJournaldEvent`.
pub(super) fn parse(cx: &mut Context, ts: i64, bytes: &[u8]) {
    let line = Message::<22>::read(bytes);
    let mut is_line = true;
    let numbers = [
        (field::NUM_FAILED, Stat::systemd_journal_num_failed),
        (field::NUM_TOTAL, Stat::systemd_journal_num_total),
    ];
    for (field, stat) in numbers {
        if line.has(field) {
            cx.store.stats.set(stat, line.int(field));
            is_line = false;
        }
    }
    if !is_line {
        return;
    }
    let pid = i64::from(line.u32(field::PID));
    let tid = if line.has(field::TID) {
        line.u32(field::TID).into()
    } else {
        pid
    };
    let utid = (pid != 0).then(|| cx.processes.thread_in_process(&mut cx.store, tid, pid));
    if !cx.store.wants(TableId::logs) {
        return;
    }
    let mut args = ArgSet::default();
    if line.has(field::UID) {
        args.int(&mut cx.store, "uid", line.u32(field::UID).into());
    }
    let text = |cx: &mut Context, field| {
        if line.has(field) {
            cx.store.strings.intern_bytes(line.bytes(field))
        } else {
            StringId::NULL
        }
    };
    let facts = [
        ("comm", field::COMM),
        ("systemd_unit", field::SYSTEMD_UNIT),
        ("hostname", field::HOSTNAME),
        ("transport", field::TRANSPORT),
    ];
    for (key, field) in facts {
        let value = text(cx, field);
        if !value.is_null() {
            args.put(&mut cx.store, key, ArgValue::Text(value));
        }
    }
    let row = LogsRow {
        ts,
        utid,
        prio: line.u32(field::PRIO),
        log_source: cx.store.strings.intern("systemd_journald"),
        tag: text(cx, field::TAG),
        msg: text(cx, field::MESSAGE).or(StringId::EMPTY),
        arg_set_id: args.finish(&mut cx.store),
    };
    cx.store.tables.logs.push(row);
}
