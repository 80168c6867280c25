//! Names of threads and processes in descriptors.

use ferretto_proto::fields::{chrome_process_descriptor, process_descriptor, thread_descriptor};
use ferretto_wire::Fields;

use super::super::context::Context;
use crate::schema::ArgValue;
use crate::strings::StringId;
use crate::trackers::process::{ProcessNameSource, ThreadNameSource};

/// Parses a `ThreadDescriptor`. The thread may have another tid than the one in it.
pub(super) fn name_thread(cx: &mut Context, bytes: &[u8], own_tid: Option<i64>) {
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
    let tid = own_tid.unwrap_or(tid);
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

/// Parses a `ChromeProcessDescriptor` of the process of a `ProcessDescriptor`.
pub(super) fn describe_chrome(cx: &mut Context, process: &[u8], bytes: &[u8]) {
    use chrome_process_descriptor as of;
    let pid = Fields::find(process_descriptor::PID, process).and_then(|pid| pid.as_u32());
    let upid = cx.processes.process(&mut cx.store, pid.unwrap_or(0).into());
    let args = cx.processes.process_args(upid);
    for part in Fields::new(bytes).map_while(Result::ok) {
        match part.number {
            of::HOST_APP_PACKAGE_NAME => {
                let text = part.as_bytes().unwrap_or_default();
                let name = ArgValue::Text(cx.store.strings.intern_bytes(text));
                args.put(&mut cx.store, "chrome.host_app_package_name", name);
            }
            of::CRASH_TRACE_ID => {
                let id = ArgValue::Uint(part.as_u64().unwrap_or(0));
                args.put(&mut cx.store, "chrome.crash_trace_id", id);
            }
            _ => {}
        }
    }
}
