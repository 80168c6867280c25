//! Reports of simpleperf.

use ferretto_foreign::simpleperf::{File, Record, Records, Sample};
use rustc_hash::FxHashMap;

use super::samples::SampleRows;
use super::{FileError, FileReader};
use crate::import::{Context, Importer, file_time};
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::process::ThreadNameSource;
use crate::trackers::stack_profile::SourceFrame;

/// The reader of reports. Files, which samples refer to, follow them.
#[derive(Debug, Default)]
pub(super) struct SimpleperfFile {
    records: Records,
    files: FxHashMap<u32, Functions>,
    samples: Vec<Sample>,
    rows: SampleRows,
}

/// The functions of a file.
#[derive(Debug)]
struct Functions {
    mapping: u32,
    names: Vec<StringId>,
}

impl FileReader for SimpleperfFile {
    fn push(&mut self, importer: &mut Importer, bytes: &[u8]) -> Result<(), FileError> {
        let cx = &mut importer.context;
        self.records.push(bytes);
        while let Some(record) = self.records.next_record().map_err(FileError)? {
            match record {
                Record::Sample(sample) => self.samples.push(sample),
                Record::File(file) => {
                    self.files.insert(file.id, Functions::new(cx, &file));
                }
                Record::Thread(thread) if thread.tid != 0 && thread.pid != 0 => {
                    let (tid, pid) = (thread.tid.into(), thread.pid.into());
                    let utid = cx.processes.thread_in_process(&mut cx.store, tid, pid);
                    if let Some(name) = thread.name {
                        let name = cx.store.strings.intern_bytes(name);
                        let source = ThreadNameSource::Other;
                        cx.processes.name_thread(&mut cx.store, utid, name, source);
                    }
                }
                Record::Thread(_) | Record::Other => {}
            }
        }
        Ok(())
    }

    fn finish(&mut self, importer: &mut Importer) -> Result<(), FileError> {
        if !self.records.is_over() {
            let reason = "the end of simpleperf's report is missing: the file is cut";
            return Err(FileError(reason.to_owned()));
        }
        let cx = &mut importer.context;
        let mut samples = std::mem::take(&mut self.samples);
        samples.sort_by_key(|sample| sample.time);
        for sample in samples {
            if let Some(ts) = file_time(cx, sample.time.cast_signed()) {
                self.sample(cx, ts, &sample);
            }
        }
        Ok(())
    }
}

impl Functions {
    fn new(cx: &mut Context, file: &File<'_>) -> Self {
        let path = cx.store.strings.intern_bytes(file.path);
        let names = file.symbols.iter();
        Self {
            mapping: cx.stacks.add_source_mapping(&mut cx.store, path),
            names: names
                .map(|name| cx.store.strings.intern_bytes(name))
                .collect(),
        }
    }
}

impl SimpleperfFile {
    /// Adds a sample.
    fn sample(&mut self, cx: &mut Context, ts: i64, sample: &Sample) {
        let utid = cx.processes.thread(&mut cx.store, sample.tid.into());
        let mut frames = Vec::with_capacity(sample.frames.len());
        for frame in sample.frames.iter().rev() {
            let Some(file) = self.files.get(&frame.file) else {
                let stat = Stat::simpleperf_missing_file_mapping;
                cx.store.stats.add(stat, 1);
                return;
            };
            let name = frame
                .symbol
                .and_then(|index| file.names.get(index as usize));
            let source = SourceFrame {
                function: name.copied().unwrap_or(StringId::NULL),
                file: StringId::NULL,
                line: None,
            };
            let address = frame.address.cast_signed();
            frames.push(
                cx.stacks
                    .frame(&mut cx.store, file.mapping, address, source),
            );
        }
        let store = &mut cx.store;
        let Some(callsite) = store.callstack(frames) else {
            return;
        };
        let sampled = (ts, "simpleperf");
        self.rows.add(store, sampled, (None, utid), Some(callsite));
    }
}
