//! Requests to file systems. They end with separate events, which name the request (IRP).

use std::collections::BTreeMap;

use ferretto_proto::fields::{
    etw_trace_event as event, file_io_create_etw_event as create,
    file_io_dir_enum_etw_event as dir_enum, file_io_info_etw_event as info,
    file_io_op_end_etw_event as end, file_io_path_operation_etw_event as path,
    file_io_read_write_etw_event as read_write, file_io_simple_op_etw_event as simple,
};

use super::Kind::{InfoClass, Pointer, Text, Uint};
use super::{Context, Message, Named, args_of};
use crate::schema::ArgValue;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::lane::Nesting;
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, TrackSpec};

const TRACK: &str = "etw_fileio";

/// The fields with events of requests.
pub(super) const EVENTS: [u32; 7] = [
    event::FILE_IO_CREATE,
    event::FILE_IO_DIR_ENUM,
    event::FILE_IO_INFO,
    event::FILE_IO_READ_WRITE,
    event::FILE_IO_SIMPLE_OP,
    event::FILE_IO_OP_END,
    event::FILE_IO_PATH_OPERATION,
];

/// The maximum number of requests that have not ended. If there are more, all end.
const MAX_OPEN: usize = 1 << 16;

/// The name of an event without a request, and of an end without a begin.
const END: &str = "EndOperation";

/// The operations by their opcodes, from 64.
const OPERATIONS: [&str; 23] = [
    "CreateFile",
    "Cleanup",
    "Close",
    "ReadFile",
    "WriteFile",
    "SetInformation",
    "DeleteFile",
    "RenameFile",
    "DirectoryEnumeration",
    "Flush",
    "QueryFileInformation",
    "FilesystemControlEvent",
    END,
    "DirectoryNotification",
    "",
    "DeletePath",
    "RenamePath",
    "",
    "",
    "FltRead",
    " FltWrite",
    "FltSetInfo",
    "FltQueryInfo",
];

/// The classes of information of files, from 1.
const INFO_CLASSES: [&str; 81] = [
    "FileDirectoryInformation",
    "FileFullDirectoryInformation",
    "FileBothDirectoryInformation",
    "FileBasicInformation",
    "FileStandardInformation",
    "FileInternalInformation",
    "FileEaInformation",
    "FileAccessInformation",
    "FileNameInformation",
    "FileRenameInformation",
    "FileLinkInformation",
    "FileNamesInformation",
    "FileDispositionInformation",
    "FilePositionInformation",
    "FileFullEaInformation",
    "FileModeInformation",
    "FileAlignmentInformation",
    "FileAllInformation",
    "FileAllocationInformation",
    "FileEndOfFileInformation",
    "FileAlternateNameInformation",
    "FileStreamInformation",
    "FilePipeInformation",
    "FilePipeLocalInformation",
    "FilePipeRemoteInformation",
    "FileMailslotQueryInformation",
    "FileMailslotSetInformation",
    "FileCompressionInformation",
    "FileObjectIdInformation",
    "FileCompletionInformation",
    "FileMoveClusterInformation",
    "FileQuotaInformation",
    "FileReparsePointInformation",
    "FileNetworkOpenInformation",
    "FileAttributeTagInformation",
    "FileTrackingInformation",
    "FileIdBothDirectoryInformation",
    "FileIdFullDirectoryInformation",
    "FileValidDataLengthInformation",
    "FileShortNameInformation",
    "FileIoCompletionNotificationInformation",
    "FileIoStatusBlockRangeInformation",
    "FileIoPriorityHintInformation",
    "FileSfioReserveInformation",
    "FileSfioVolumeInformation",
    "FileHardLinkInformation",
    "FileProcessIdsUsingFileInformation",
    "FileNormalizedNameInformation",
    "FileNetworkPhysicalNameInformation",
    "FileIdGlobalTxDirectoryInformation",
    "FileIsRemoteDeviceInformation",
    "FileUnusedInformation",
    "FileNumaNodeInformation",
    "FileStandardLinkInformation",
    "FileRemoteProtocolInformation",
    "FileRenameInformationBypassAccessCheck",
    "FileLinkInformationBypassAccessCheck",
    "FileVolumeNameInformation",
    "FileIdInformation",
    "FileIdExtdDirectoryInformation",
    "FileReplaceCompletionInformation",
    "FileHardLinkFullIdInformation",
    "FileIdExtdBothDirectoryInformation",
    "FileDispositionInformationEx",
    "FileRenameInformationEx",
    "FileRenameInformationExBypassAccessCheck",
    "FileDesiredStorageClassInformation",
    "FileStatInformation",
    "FileMemoryPartitionInformation",
    "FileStatLxInformation",
    "FileCaseSensitiveInformation",
    "FileLinkInformationEx",
    "FileLinkInformationExBypassAccessCheck",
    "FileStorageReserveIdInformation",
    "FileCaseSensitiveInformationForceAccessCheck",
    "FileKnownFolderInformation",
    "FileStatBasicInformation",
    "FileId64ExtdDirectoryInformation",
    "FileId64ExtdBothDirectoryInformation",
    "FileIdAllExtdDirectoryInformation",
    "FileIdAllExtdBothDirectoryInformation",
];

const CREATE_ARGS: [Named; 7] = [
    (create::IRP_PTR, "I/O Request Packet", Pointer),
    (create::FILE_OBJECT, "File Object", Pointer),
    (create::TTID, "Thread ID", Uint),
    (create::CREATE_OPTIONS, "Create Options", Pointer),
    (create::FILE_ATTRIBUTES, "File Attributes", Pointer),
    (create::SHARE_ACCESS, "Share Access", Pointer),
    (create::OPEN_PATH, "Open Path", Text),
];

const DIR_ENUM_ARGS: [Named; 7] = [
    (dir_enum::IRP_PTR, "I/O Request Packet", Pointer),
    (dir_enum::FILE_OBJECT, "File Object", Pointer),
    (dir_enum::FILE_KEY, "File Key", Pointer),
    (dir_enum::TTID, "Thread ID", Uint),
    (dir_enum::INFO_CLASS, "Info Class", InfoClass),
    (dir_enum::FILE_INDEX, "File Index", Uint),
    (dir_enum::FILE_NAME, "Enumeration Path", Text),
];

const INFO_ARGS: [Named; 5] = [
    (info::IRP_PTR, "I/O Request Packet", Pointer),
    (info::FILE_OBJECT, "File Object", Pointer),
    (info::FILE_KEY, "File Key", Pointer),
    (info::TTID, "Thread ID", Uint),
    (info::INFO_CLASS, "Info Class", InfoClass),
];

const READ_WRITE_ARGS: [Named; 7] = [
    (read_write::IRP_PTR, "I/O Request Packet", Pointer),
    (read_write::OFFSET, "Offset", Uint),
    (read_write::FILE_OBJECT, "File Object", Pointer),
    (read_write::FILE_KEY, "File Key", Pointer),
    (read_write::TTID, "Thread ID", Uint),
    (read_write::IO_SIZE, "I/O Size", Uint),
    (read_write::IO_FLAGS, "I/O Flags", Pointer),
];

const SIMPLE_ARGS: [Named; 4] = [
    (simple::IRP_PTR, "I/O Request Packet", Pointer),
    (simple::FILE_OBJECT, "File Object", Pointer),
    (simple::FILE_KEY, "File Key", Pointer),
    (simple::TTID, "Thread ID", Uint),
];

const PATH_ARGS: [Named; 7] = [
    (path::IRP_PTR, "I/O Request Packet", Pointer),
    (path::FILE_OBJECT, "File Object", Pointer),
    (path::FILE_KEY, "File Key", Pointer),
    (path::EXTRA_INFO, "Extra Info", Uint),
    (path::TTID, "Thread ID", Uint),
    (path::INFO_CLASS, "Info Class", InfoClass),
    (path::FILE_NAME, "File Name", Text),
];

const END_ARGS: [Named; 2] = [
    (end::EXTRA_INFO, "Extra Info", Uint),
    (end::NT_STATUS, "NT Status", Pointer),
];

/// Returns a class of information as an argument: its name, or its number if it is unknown.
pub(super) fn info_class(cx: &mut Context, class: u32) -> ArgValue {
    let index = (class as usize).wrapping_sub(1);
    match INFO_CLASSES.get(index) {
        Some(name) => ArgValue::Text(cx.store.strings.intern(name)),
        None => ArgValue::Uint(class.into()),
    }
}

/// Returns the name of the argument `extra_info` of a class of information.
fn extra_name(class: u32) -> &'static str {
    match class {
        13 => "Disposition",
        19 | 20 => "File Size",
        _ => "Extra Info",
    }
}

/// A request that has not ended.
#[derive(Debug)]
struct Open {
    ts: i64,
    utid: u32,
    track: u32,
    name: StringId,
}

/// The requests that have not ended.
#[derive(Debug, Default)]
pub(super) struct FileIo {
    /// By machine and request.
    open: BTreeMap<(u32, u64), Open>,
}

impl FileIo {
    /// Parses an event of the field `kind`.
    pub(super) fn parse(&mut self, cx: &mut Context, ts: i64, tid: i64, kind: u32, body: &[u8]) {
        let body = Message::<10>::read(body);
        let utid = cx.processes.thread(&mut cx.store, tid);
        if kind == event::FILE_IO_OP_END {
            let request = body.has(end::IRP_PTR).then(|| body.uint(end::IRP_PTR));
            let mut args = args_of(cx, &body, &END_ARGS);
            match request {
                Some(request) if self.end(cx, ts, request, &mut args) => {}
                Some(_) => {
                    args.text(&mut cx.store, "Missing Event", "Start");
                    add(cx, ts, utid, END, &mut args);
                }
                None => add(cx, ts, utid, END, &mut args),
            }
            return;
        }
        let (args, opcode, other): (&[Named], u32, &str) = match kind {
            event::FILE_IO_CREATE => (&CREATE_ARGS, 0, "CreateFile"),
            event::FILE_IO_DIR_ENUM => (&DIR_ENUM_ARGS, dir_enum::OPCODE, "DirEnum"),
            event::FILE_IO_INFO => (&INFO_ARGS, info::OPCODE, "Info"),
            event::FILE_IO_READ_WRITE => (&READ_WRITE_ARGS, read_write::OPCODE, "ReadOrWrite"),
            event::FILE_IO_SIMPLE_OP => (&SIMPLE_ARGS, simple::OPCODE, "SimpleOp"),
            _ => (&PATH_ARGS, path::OPCODE, "PathOperation"),
        };
        // The request is the second field of reads and writes, and the first one of others.
        let request = match kind {
            event::FILE_IO_READ_WRITE => read_write::IRP_PTR,
            _ => create::IRP_PTR,
        };
        let index = (body.u32(opcode) as usize).wrapping_sub(64);
        let known = OPERATIONS.get(index).filter(|name| !name.is_empty());
        let name = known.copied().unwrap_or(other);
        let mut args = args_of(cx, &body, args);
        if kind == event::FILE_IO_INFO && body.has(info::EXTRA_INFO) {
            let value = ArgValue::Uint(body.uint(info::EXTRA_INFO));
            let name = extra_name(body.u32(info::INFO_CLASS));
            args.put(&mut cx.store, name, value);
        }
        if body.has(request) {
            self.begin(cx, (ts, utid), body.uint(request), name, &mut args);
        } else {
            add(cx, ts, utid, name, &mut args);
        }
    }

    fn begin(
        &mut self,
        cx: &mut Context,
        (ts, utid): (i64, u32),
        request: u64,
        name: &str,
        args: &mut ArgSet,
    ) {
        // The request is used again: the end of the first one is missing.
        self.end_without_event(cx, request);
        if self.open.len() >= MAX_OPEN {
            self.finish(cx);
        }
        let dimensions = [Dimension::Utid(utid)];
        let group = cx.lanes.group(&cx.store, TRACK, &dimensions);
        let lane = cx
            .lanes
            .begin(group, request.cast_signed(), Nesting::Nested);
        let track = cx.lanes.track(&mut cx.store, lane, |_| {
            (TrackSpec::slices(TRACK, &[]), dimensions.to_vec())
        });
        let name = cx.store.strings.intern(name);
        let start = SliceStart {
            ts,
            track,
            category: StringId::NULL,
            name,
        };
        cx.slices.begin(&mut cx.store, start, args);
        let open = Open {
            ts,
            utid,
            track,
            name,
        };
        self.open.insert((cx.store.machine, request), open);
    }

    /// Ends a request. Returns false if it did not begin.
    fn end(&mut self, cx: &mut Context, ts: i64, request: u64, args: &mut ArgSet) -> bool {
        let Some(open) = self.open.remove(&(cx.store.machine, request)) else {
            return false;
        };
        let dimensions = [Dimension::Utid(open.utid)];
        let group = cx.lanes.group(&cx.store, TRACK, &dimensions);
        cx.lanes.end(group, request.cast_signed());
        let which = (StringId::NULL, open.name);
        cx.slices.end(&mut cx.store, ts, open.track, which, args);
        true
    }

    /// Ends a request at its begin.
    fn end_without_event(&mut self, cx: &mut Context, request: u64) {
        let open = self.open.get(&(cx.store.machine, request));
        if let Some(ts) = open.map(|open| open.ts) {
            let mut args = ArgSet::default();
            args.text(&mut cx.store, "Missing Event", "End");
            self.end(cx, ts, request, &mut args);
        }
    }

    /// Ends all requests at their begins.
    pub(super) fn finish(&mut self, cx: &mut Context) {
        let current = cx.store.machine;
        while let Some((machine, request)) = self.open.keys().next().copied() {
            cx.store.set_machine(machine);
            self.end_without_event(cx, request);
        }
        cx.store.set_machine(current);
    }
}

/// Adds an event that has no begin or no end.
fn add(cx: &mut Context, ts: i64, utid: u32, name: &str, args: &mut ArgSet) {
    let dimensions = [Dimension::Utid(utid)];
    let group = cx.lanes.group(&cx.store, TRACK, &dimensions);
    let lane = cx.lanes.scoped(group, ts, 0);
    let track = cx.lanes.track(&mut cx.store, lane, |_| {
        (TrackSpec::slices(TRACK, &[]), dimensions.to_vec())
    });
    let start = SliceStart {
        ts,
        track,
        category: StringId::NULL,
        name: cx.store.strings.intern(name),
    };
    cx.slices.complete(&mut cx.store, start, 0, args);
}
