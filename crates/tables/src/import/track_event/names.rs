//! Names of threads and processes in descriptors.

use ferretto_proto::fields::{process_descriptor, thread_descriptor};
use ferretto_wire::Fields;

use super::super::context::Context;
use crate::schema::ArgValue;
use crate::strings::StringId;
use crate::trackers::process::{ProcessNameSource, ThreadNameSource};

/// Parses a `ThreadDescriptor`.
pub(super) fn name_thread(cx: &mut Context, bytes: &[u8]) {
    use thread_descriptor as of;
    let (mut pid, mut tid, mut name) = (0, 0, StringId::NULL);
    for part in Fields::new(bytes).map_while(Result::ok) {
        match part.number {
            of::PID => pid = part.as_i64().unwrap_or(0),
            of::TID => tid = part.as_i64().unwrap_or(0),
            of::THREAD_NAME => {
                let text = part.as_bytes().unwrap_or_default();
                if !text.is_empty() {
                    name = cx.store.strings.intern_bytes(text);
                }
            }
            _ => {}
        }
    }
    let pid = i64::from(pid as i32);
    let utid = cx.processes.thread_in_process(&mut cx.store, tid, pid);
    let source = ThreadNameSource::TrackDescriptor;
    cx.processes.name_thread(&mut cx.store, utid, name, source);
}

/// Parses a `ProcessDescriptor`.
pub(super) fn name_process(cx: &mut Context, bytes: &[u8]) {
    use process_descriptor as of;
    let pid = Fields::find(of::PID, bytes).and_then(|pid| pid.as_u32());
    let upid = cx.processes.process(&mut cx.store, pid.unwrap_or(0).into());
    let mut labels = 0;
    for part in Fields::new(bytes).map_while(Result::ok) {
        let text = part.as_bytes().unwrap_or_default();
        match part.number {
            of::PROCESS_NAME if !text.is_empty() => {
                let name = cx.store.strings.intern_bytes(text);
                let source = ProcessNameSource::TrackDescriptor;
                cx.processes.name_process(&mut cx.store, upid, name, source);
            }
            of::START_TIMESTAMP_NS => {
                let start = part.as_i64().unwrap_or(0);
                if start > 0 {
                    cx.processes.set_start(&mut cx.store, upid, start);
                }
            }
            of::PROCESS_LABELS if labels < 1 << 10 => {
                let strings = &mut cx.store.strings;
                let flat = strings.intern("chrome.process_label");
                let key = strings.intern(&format!("chrome.process_label[{labels}]"));
                let label = ArgValue::Text(strings.intern_bytes(text));
                cx.processes.process_args(upid).add(flat, key, label);
                labels += 1;
            }
            _ => {}
        }
    }
}
