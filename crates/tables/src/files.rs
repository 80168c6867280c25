//! The files that a trace consists of: archives and compressed files contain others.

use std::fmt;
use std::io::{self, Cursor, Read};

use ferretto_format::budget::Budget;
use ferretto_trace::{Damage, ReadError, Unpacking};

use crate::formats::{self, FileError, Format, HEAD_BYTES};
use crate::import::{
    Context, Importer, Source, begin_file, choose_trace_clock, end_file, guess_uuid, read_packets,
};
use crate::options::Options;
use crate::schema::TraceFileRow;
use crate::stats::Stat;
use crate::store::Store;
use crate::strings::StringId;
use crate::trace::{Continue, ImportError};
use crate::trackers::clock::ClockId;

/// Archives in archives beyond this depth are refused.
const MAX_DEPTH: usize = 8;
/// Bytes read at a time from files without packets.
const READ_BYTES: usize = 1 << 18;

/// An import of a file and of all those in it.
pub(crate) struct FileImport<'a> {
    importer: Importer,
    options: &'a Options,
    progress: &'a mut dyn FnMut(u64) -> Continue,
    /// Files with content of their own.
    files: Vec<ReadFile>,
    remarks: Vec<String>,
    /// True if the tables take more than allowed.
    is_over: bool,
}

/// A file that was read.
#[derive(Debug)]
struct ReadFile {
    /// `trace_file.id`
    row: u32,
    bytes: u64,
}

impl fmt::Debug for FileImport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileImport")
            .field("files", &self.files)
            .field("remarks", &self.remarks)
            .field("is_over", &self.is_over)
            .finish_non_exhaustive()
    }
}

impl<'a> FileImport<'a> {
    /// Returns an import of which nothing was read.
    pub(crate) fn new(options: &'a Options, progress: &'a mut dyn FnMut(u64) -> Continue) -> Self {
        let budget = Budget::new(options.memory.min(1 << 30));
        let store = Store::new(options.tables);
        Self {
            importer: Importer::new(store, &budget, options.memory, options.full_sort),
            options,
            progress,
            files: Vec::new(),
            remarks: Vec::new(),
            is_over: false,
        }
    }

    /// Reads a file and those in it.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or if it is no trace.
    pub(crate) fn read(
        &mut self,
        mut source: Source<'_>,
        name: Option<&str>,
        parent_id: Option<u32>,
        depth: usize,
    ) -> Result<(), ImportError> {
        if self.is_over {
            return Ok(());
        }
        let file = || name.map(str::to_owned);
        let head = read_head(&mut source).map_err(|error| broken(&error.to_string(), name))?;
        if depth == 0 {
            guess_uuid(&mut self.importer.context, &head);
        }
        let format = match Format::detect(&head) {
            Some(format) => format,
            None if head.is_empty() => Format::Proto,
            None => return Err(ImportError::UnknownFormat { file: file() }),
        };
        let source: Source<'_> = Box::new(Cursor::new(head).chain(source));
        let store = &mut self.importer.context.store;
        let order = store.tables.trace_file.len();
        let row = TraceFileRow {
            parent_id,
            name: name.map_or(StringId::NULL, |name| store.strings.intern(name)),
            size: 0,
            trace_type: store.strings.intern(format.as_str()),
            processing_order: Some(order.into()),
            is_container: format.is_container(),
        };
        let row = store.tables.trace_file.push(row);
        if depth > MAX_DEPTH {
            return Err(broken("too many archives in archives", name));
        }
        match format {
            Format::Gzip | Format::Zstd => {
                let unpacked = Box::new(Unpacking::new(source, self.options.limits));
                return self.read(unpacked, name, Some(row), depth + 1);
            }
            Format::Tar | Format::Zip => {
                return self.archive(format, source, name, row, depth);
            }
            _ => {}
        }
        self.importer.start_file(row);
        begin_file(&mut self.importer.context, format.as_str());
        if let Some(id) = format.clock() {
            let clock = ClockId::of_machine(0, id);
            choose_trace_clock(&mut self.importer.context, clock);
        }
        let bytes = match formats::reader(format) {
            None => self.packets(source)?,
            Some(reader) => self.other(reader, source, name)?,
        };
        let store = &mut self.importer.context.store;
        store.tables.trace_file.size.set(row, bytes as i64);
        self.files.push(ReadFile { row, bytes });
        Ok(())
    }

    /// Parses all that waits, and returns what was filled, and what is missing, in sentences.
    pub(crate) fn finish(mut self) -> (Context, Vec<String>) {
        let (mut context, is_over) = self.importer.finish();
        for file in &self.files {
            context.store.trace_file = file.row;
            end_file(&mut context, file.bytes);
        }
        if is_over {
            self.remarks.push(format!(
                "the tables take more than the {} bytes allowed; the rest of the file is left out",
                self.options.memory
            ));
        }
        (context, self.remarks)
    }

    fn archive(
        &mut self,
        format: Format,
        mut source: Source<'_>,
        name: Option<&str>,
        row: u32,
        depth: usize,
    ) -> Result<(), ImportError> {
        let members = formats::members(format, &mut source, self.options.memory as u64);
        let members = members.map_err(|error| broken(&error.to_string(), name))?;
        if !self.importer.sort_fully() {
            return Err(broken("an archive behind packets", name));
        }
        for member in members {
            self.read(member.open(), Some(&member.name), Some(row), depth + 1)?;
        }
        Ok(())
    }

    /// Reads packets, and returns the number of bytes.
    fn packets(&mut self, source: Source<'_>) -> Result<u64, ImportError> {
        let Self {
            importer, options, ..
        } = self;
        let (mut total, mut is_cancelled, mut is_over) = (0, false, false);
        let each = |batch, bytes| {
            total = bytes;
            importer.batch(batch);
            is_cancelled = (self.progress)(bytes) == Continue::No;
            is_over = importer.is_over();
            !is_cancelled && !is_over
        };
        let damage = read_packets(source, options.limits, options.threads, each)?;
        if is_cancelled {
            return Err(ImportError::Cancelled);
        }
        self.is_over = is_over;
        let remarks = note(&mut self.importer.context.store, &damage);
        self.remarks.extend(remarks);
        Ok(total)
    }

    /// Reads a file without packets, and returns the number of bytes.
    fn other(
        &mut self,
        mut reader: Box<dyn formats::FileReader>,
        mut source: Source<'_>,
        name: Option<&str>,
    ) -> Result<u64, ImportError> {
        let failed = |FileError(reason)| broken(&reason, name);
        let (mut total, mut buffer) = (0, vec![0; READ_BYTES]);
        loop {
            let count = match source.read(&mut buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    let offset = total;
                    return Err(ReadError::Io { offset, source }.into());
                }
            };
            if count == 0 {
                break;
            }
            total += count as u64;
            reader
                .push(&mut self.importer, &buffer[..count])
                .map_err(failed)?;
            if (self.progress)(total) == Continue::No {
                return Err(ImportError::Cancelled);
            }
            self.is_over = self.importer.is_over();
            if self.is_over {
                return Ok(total);
            }
        }
        reader.finish(&mut self.importer).map_err(failed)?;
        Ok(total)
    }
}

fn broken(reason: &str, file: Option<&str>) -> ImportError {
    ImportError::Parse {
        reason: reason.to_owned(),
        file: file.map(str::to_owned),
    }
}

fn read_head(source: &mut Source<'_>) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    source.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Counts what could not be read, and returns it in sentences.
fn note(store: &mut Store, damage: &Damage) -> Vec<String> {
    let sentences = damage.sentences();
    if let Some(end) = damage.end()
        && !sentences.is_empty()
    {
        store.log_at(Stat::tokenizer_skipped_packets, end);
    }
    sentences
}
