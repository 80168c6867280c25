//! Commands to flash storage (UFS).

use ferretto_proto::fields::ufshcd_command_ftrace_event as field;

use super::{Context, Head, add_named};
use crate::import::message::Message;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, TrackSpec};

/// The commands by SCSI opcode.
const COMMANDS: [(u32, &str); 27] = [
    (0, "TEST UNIT READY"),
    (3, "REQUEST SENSE"),
    (4, "FORMAT UNIT"),
    (8, "READ (6)"),
    (10, "WRITE (6)"),
    (18, "INQUIRY"),
    (27, "START STOP UNIT"),
    (29, "SEND DIAGNOSTIC"),
    (37, "READ CAPACITY (10)"),
    (40, "READ (10)"),
    (42, "WRITE (10)"),
    (47, "VERIFY"),
    (52, "PRE-FETCH (10)"),
    (53, "SYNCHRONIZE CACHE (10)"),
    (59, "WRITE BUFFER"),
    (60, "READ BUFFER"),
    (66, "UNMAP"),
    (85, "MODE SELECT (10)"),
    (90, "MODE SENSE (10)"),
    (136, "READ (16)"),
    (138, "WRITE (16)"),
    (144, "PRE-FETCH (16)"),
    (145, "SYNCHRONIZE CACHE (16)"),
    (158, "READ CAPACITY (16)"),
    (160, "REPORT LUNS"),
    (162, "SECURITY PROTOCOL IN"),
    (181, "SECURITY PROTOCOL OUT"),
];

/// Parses a `ufshcd_command`.
pub(super) fn command(cx: &mut Context, head: &Head<'_>, body: &[u8]) {
    let body = Message::<11>::read(body);
    let is_sent = body.u32(field::STR_T) == 0;
    let waiting = match body.u32(field::DOORBELL) {
        0 => u32::from(body.u32(field::STR_T) != 1),
        doorbell => doorbell.count_ones(),
    };
    let name = "io.ufs.command.count";
    add_named(cx, head.ts, "ufs_command_count", &[], name, waiting.into());
    let tag = body.u32(field::TAG);
    let label = format!("io.ufs.command.tag[{tag:03}]");
    let label = cx.store.strings.intern(&label);
    let dimensions = [Dimension::Int("ufs_tag", tag.into())];
    let spec = TrackSpec::slices("ufs_command_tag", &dimensions).named(label);
    let track = cx.tracks.intern(&mut cx.store, spec);
    let mut args = ArgSet::default();
    if !is_sent {
        let any = (StringId::NULL, StringId::NULL);
        cx.slices.end(&mut cx.store, head.ts, track, any, &mut args);
        return;
    }
    let code = body.u32(field::OPCODE);
    let known = COMMANDS.iter().find(|(known, _)| *known == code);
    let mut name = known.map_or("UNDEFINED", |(_, name)| name).to_owned();
    let group = body.u32(field::GROUP_ID);
    if group > 0 {
        name += &format!(" (GID={group:#x})");
    }
    let start = SliceStart {
        ts: head.ts,
        track,
        category: StringId::NULL,
        name: cx.store.strings.intern(&name),
    };
    cx.slices.begin(&mut cx.store, start, &mut args);
}
