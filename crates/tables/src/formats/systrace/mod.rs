//! Kernel events as text, and HTML pages that contain them.

mod parse;

use ferretto_foreign::systrace::{Content, Line as Event, LineReader};

pub(super) use self::parse::SystraceEvents;
use super::{FileError, FileReader};
use crate::import::{Batch, Importer, Line, LineKind, file_time};
use crate::stats::Stat;
use crate::trackers::process::{ProcessNameSource, ThreadNameSource};

/// The reader of kernel events as text.
#[derive(Debug, Default)]
pub(super) struct SystraceFile {
    reader: LineReader,
    has_started: bool,
    lines: Events,
}

/// A batch of events for the importer.
#[derive(Debug, Default)]
struct Events {
    batch: Batch,
    lines: Vec<Line>,
}

impl FileReader for SystraceFile {
    fn push(&mut self, importer: &mut Importer, bytes: &[u8]) -> Result<(), FileError> {
        if !self.has_started {
            self.has_started = true;
            let cx = &mut importer.context;
            cx.processes.set_idle_task(&mut cx.store);
        }
        let lines = &mut self.lines;
        self.reader
            .push(bytes, |content| lines.take(importer, content));
        self.lines.hand_over(importer);
        Ok(())
    }

    fn finish(&mut self, importer: &mut Importer) -> Result<(), FileError> {
        let lines = &mut self.lines;
        self.reader.finish(|content| lines.take(importer, content));
        self.lines.hand_over(importer);
        if self.reader.is_empty_page() {
            return Err(FileError(
                "the HTML page contains no trace; open the page's data in another format"
                    .to_owned(),
            ));
        }
        Ok(())
    }
}

impl Events {
    fn take(&mut self, importer: &mut Importer, content: Content<'_>) {
        let cx = &mut importer.context;
        match content {
            Content::Event(text) => {
                let Some(event) = Event::parse(text) else {
                    cx.store.stats.add(Stat::systrace_parse_failure, 1);
                    return;
                };
                let Some(ts) = file_time(cx, event.ts) else {
                    return;
                };
                if self.batch.is_full_for(text.len()) {
                    self.hand_over(importer);
                }
                self.batch.push(text.as_bytes(), 0);
                self.lines.push(Line {
                    ts,
                    kind: LineKind::Systrace,
                    rank: i64::MAX,
                });
            }
            Content::Process { pid, parent, name } => {
                let parent = cx.processes.process(&mut cx.store, parent.into());
                let upid = cx.processes.process(&mut cx.store, pid.into());
                cx.processes.set_parent(&mut cx.store, upid, parent, None);
                let name = cx.store.strings.intern(name);
                let source = ProcessNameSource::System;
                cx.processes.name_process(&mut cx.store, upid, name, source);
            }
            Content::Thread { pid, tid, name } => {
                let (tid, pid) = (tid.into(), pid.into());
                let utid = cx.processes.thread_in_process(&mut cx.store, tid, pid);
                let name = cx.store.strings.intern(name);
                let source = ThreadNameSource::Other;
                cx.processes.name_thread(&mut cx.store, utid, name, source);
            }
            Content::NoProcess => cx.store.stats.add(Stat::systrace_parse_failure, 1),
        }
    }

    fn hand_over(&mut self, importer: &mut Importer) {
        if !self.batch.is_empty() {
            importer.lines(std::mem::take(&mut self.batch), &self.lines);
            self.lines.clear();
        }
    }
}
