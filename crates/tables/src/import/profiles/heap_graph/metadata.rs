//! The reasons of heap graphs: `ArtProcessMetadata`.

use ferretto_format::sample::MAX_FRAMES;
use ferretto_proto::fields::{art_process_metadata as of, java_frame, java_stack};
use ferretto_wire::Fields;

use super::super::super::context::Context;
use crate::schema::{
    HeapGraphJavaOomeDetailsRow, HeapGraphRow, HeapGraphThreadCallsiteRow, PackageListRow,
};
use crate::strings::StringId;
use crate::trackers::process::ProcessNameSource;
use crate::trackers::stack_profile::SourceFrame;

/// The state of the packets about processes.
#[derive(Debug, Default)]
pub(in super::super) struct ProcessMetadata {
    mapping: Option<u32>,
}

/// Returns the name of a method without its type and its parameters.
fn method_name(text: &[u8]) -> &[u8] {
    let name = text.split(|byte| *byte == b'(').next().unwrap_or_default();
    name.rsplit(|byte| *byte == b' ').next().unwrap_or_default()
}

impl ProcessMetadata {
    /// Reads an `ArtProcessMetadata`.
    pub(in super::super) fn parse(&mut self, cx: &mut Context, ts: i64, bytes: &[u8]) {
        let find = |number| Fields::find(number, bytes);
        let number = |field| find(field).and_then(|field| field.as_u64());
        let text = |field| find(field).and_then(|field| field.as_bytes());
        let pid = number(of::PID).unwrap_or(0) as u32;
        let upid = cx.processes.process(&mut cx.store, pid.into());
        if let Some(name) = text(of::PROCESS_NAME) {
            let name = cx.store.strings.intern_bytes(name);
            let source = ProcessNameSource::TrackDescriptor;
            cx.processes.name_process(&mut cx.store, upid, name, source);
        }
        let uid = number(of::UID).map(|uid| uid as u32);
        if let Some(uid) = uid {
            cx.processes.set_uid(&mut cx.store, upid, uid);
        }
        if let (Some(name), Some(uid)) = (text(of::PACKAGE_NAME), uid) {
            let name = cx.store.strings.intern_bytes(name);
            cx.store.add_package(PackageListRow {
                package_name: name,
                uid: uid.into(),
                debuggable: false,
                profileable_from_shell: false,
                version_code: 0,
            });
        }
        let failed = number(of::OOM_ALLOCATION_SIZE);
        let dump_reason = match failed {
            Some(_) => cx.store.strings.intern("OOME"),
            None => StringId::NULL,
        };
        let heap_graph_id = cx.store.tables.heap_graph.push(HeapGraphRow {
            ts,
            upid,
            dump_reason,
            heap_size: None,
        });
        let Some(size) = failed else {
            return;
        };
        let message = text(of::OOM_ERROR_MSG);
        let message = message.map(|text| cx.store.strings.intern_bytes(text));
        let bytes_of = |field| number(field).unwrap_or(0) as i64;
        let details = &mut cx.store.tables.heap_graph_java_oome_details;
        details.push(HeapGraphJavaOomeDetailsRow {
            heap_graph_id,
            allocation_size_bytes: size as i64,
            total_bytes_free: bytes_of(of::OOM_TOTAL_BYTES_FREE),
            free_bytes_until_oom: bytes_of(of::OOM_FREE_BYTES_UNTIL_OOM),
            error_msg: message.unwrap_or(StringId::NULL),
        });
        if let Some(stack) = text(of::OOM_THREAD_JAVA_STACK) {
            let callsite_id = self.callstack(cx, stack);
            let utid = cx
                .processes
                .thread_in_process(&mut cx.store, pid.into(), pid.into());
            let table = &mut cx.store.tables.heap_graph_thread_callsite;
            table.push(HeapGraphThreadCallsiteRow {
                heap_graph_id,
                utid,
                callsite_id,
            });
        }
    }

    /// Reads a `JavaStack`, with the innermost frame first.
    fn callstack(&mut self, cx: &mut Context, bytes: &[u8]) -> Option<u32> {
        let all = Fields::new(bytes).map_while(Result::ok);
        let all = all
            .filter(|field| field.number == java_stack::FRAMES)
            .take(MAX_FRAMES);
        let mut frames = Vec::new();
        for frame in all {
            let frame = frame.as_bytes().unwrap_or_default();
            let text = |number| Fields::find(number, frame).and_then(|field| field.as_bytes());
            let Some(name) = text(java_frame::METHOD_NAME) else {
                continue;
            };
            let line = Fields::find(java_frame::LINE_NUMBER, frame);
            let strings = &mut cx.store.strings;
            let file = text(java_frame::SOURCE_FILE);
            let source = SourceFrame {
                function: strings.intern_bytes(method_name(name)),
                file: file.map_or(StringId::NULL, |file| strings.intern_bytes(file)),
                line: line.and_then(|line| line.as_u32()),
            };
            let mapping = *self.mapping.get_or_insert_with(|| {
                let name = cx.store.strings.intern("art_process_metadata");
                cx.stacks.add_source_mapping(&mut cx.store, name)
            });
            frames.push(cx.stacks.source_frame(&mut cx.store, mapping, source));
        }
        cx.store.callstack(frames.into_iter().rev())
    }
}
