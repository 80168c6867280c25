//! The files of a trace. Archives and compressed files contain other files.

use std::fmt;
use std::io::{self, BufWriter, Cursor, Read, Seek};

use ferretto_format::budget::Budget;
use ferretto_format::decompression::{DecompressionBudget, DecompressionLimit};
use ferretto_trace::{Damage, ReadError, TraceReader, Unpacking};

use crate::error::ImportError;
use crate::formats::{self, FileError, Format, HEAD_BYTES, Member};
use crate::import::{
    Batch, Context, FileMachines, Importer, Source, begin_file, choose_trace_clock, end_file,
    guess_uuid, read_packets,
};
use crate::manifest::Manifest;
use crate::options::Options;
use crate::progress::Continue;
use crate::schema::TraceFileRow;
use crate::stats::Stat;
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::clock::{ClockId, TRACE_FILE};

/// The maximum depth of nested archives.
const MAX_DEPTH: usize = 8;
/// The maximum size of a manifest in bytes.
const MAX_MANIFEST: u64 = 64 << 20;
/// The number of bytes that are read together from files without packets.
const READ_BYTES: usize = 1 << 18;

/// An import of a file and all files in it.
pub(crate) struct FileImport<'a> {
    importer: Importer,
    options: &'a Options,
    progress: &'a mut dyn FnMut(u64) -> Continue,
    /// The files that are not containers.
    files: Vec<ReadFile>,
    remarks: Vec<String>,
    /// Set if the tables exceed the memory limit.
    is_over: bool,
    /// The manifest, if there is one.
    manifest: Option<Manifest>,
    /// The number of imported files, including containers.
    read: i64,
    /// The data that the file may be decompressed to, with all files in it.
    decompression: DecompressionBudget,
}

/// The row of `trace_file` for a file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Row {
    /// An existing row.
    Known(u32),
    /// A new row for a file that is contained in the file of this row.
    In(Option<u32>),
}

/// An imported file.
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
    /// Creates an import.
    pub(crate) fn new(options: &'a Options, progress: &'a mut dyn FnMut(u64) -> Continue) -> Self {
        let budget = Budget::new(options.memory.min(1 << 30));
        let store = Store::new(options);
        Self {
            importer: Importer::new(store, &budget, options),
            options,
            progress,
            files: Vec::new(),
            remarks: Vec::new(),
            is_over: false,
            manifest: None,
            read: 0,
            decompression: options.limits.decompression_budget(),
        }
    }

    /// Reads a file and the files in it.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or is not a trace.
    pub(crate) fn read(
        &mut self,
        mut source: Source<'_>,
        name: Option<&str>,
        row: Row,
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
            None => {
                let file = file();
                let readers = [
                    (
                        &b"SQLite format 3\0"[..],
                        "sqlite3 and libraries for SQLite",
                    ),
                    (b"ARROW1", "libraries for Arrow"),
                    (b"PAR1", "libraries for Parquet"),
                ];
                let reader = readers.iter().find(|(magic, _)| head.starts_with(magic));
                return Err(match reader {
                    Some((_, reader)) => ImportError::Tables { reader, file },
                    None => ImportError::UnknownFormat { file },
                });
            }
        };
        let source: Source<'_> = Box::new(Cursor::new(head).chain(source));
        let row = match row {
            Row::Known(row) => row,
            Row::In(parent) => self.add_row(parent, name),
        };
        let store = &mut self.importer.context.store;
        let trace_type = store.strings.intern(format.as_str());
        let table = &mut store.tables.trace_file;
        table.trace_type.set(row, trace_type);
        table.processing_order.set(row, Some(self.read));
        table.is_container.set(row, format.is_container());
        self.read += 1;
        if depth > MAX_DEPTH {
            return Err(broken("archives are nested too deeply", name));
        }
        match format {
            Format::Gzip | Format::Zstd => {
                let (limits, budget) = (self.options.limits, self.decompression.clone());
                // The bytes of the outermost file are those that were read.
                let source: Source<'_> = match depth {
                    0 => Box::new(Counted {
                        source,
                        budget: budget.clone(),
                    }),
                    _ => source,
                };
                let unpacked = Box::new(Unpacking::inside(source, limits, budget));
                self.file_machines(name, false)?;
                return self.read(unpacked, name, Row::In(Some(row)), depth + 1);
            }
            Format::Tar | Format::Zip => {
                self.file_machines(name, false)?;
                return self.archive(format, source, name, row, depth);
            }
            Format::Manifest => return self.manifest(source, name, row),
            _ => {}
        }
        let machines = self.file_machines(name, true)?;
        let (machine, has_own_clock) = (machines.machine, machines.has_own_clock);
        self.importer.start_file(row, machines);
        begin_file(&mut self.importer.context, format.as_str());
        let own = ClockId {
            file: row,
            ..ClockId::of_machine(machine, TRACE_FILE)
        };
        let clock = match formats::clock(format) {
            Some(TRACE_FILE) => Some(own),
            Some(_) if has_own_clock => Some(own),
            clock => clock.map(|id| ClockId::of_machine(machine, id)),
        };
        let context = &mut self.importer.context;
        context.clocks.set_file_clock(clock);
        if let Some(clock) = clock {
            choose_trace_clock(context, clock);
        } else if has_own_clock {
            context.clocks.set_default(own);
        }
        let bytes = match formats::reader(format) {
            None if format == Format::PerfData => self.converted(source, name)?,
            None => self.packets(source, name, depth > 0)?,
            Some(reader) => self.other(reader, source, name)?,
        };
        let store = &mut self.importer.context.store;
        store.tables.trace_file.size.set(row, bytes as i64);
        self.files.push(ReadFile { row, bytes });
        Ok(())
    }

    /// Parses all waiting events. Returns the result, sentences about missing data, and true if the
    /// tables exceed the memory limit.
    pub(crate) fn finish(mut self) -> (Context, Vec<String>, bool) {
        let (mut context, is_over) = self.importer.finish();
        for file in &self.files {
            context.store.trace_file = file.row;
            end_file(&mut context, file.bytes);
        }
        if is_over {
            self.remarks.push(format!(
                "the tables take more than the limit of {} bytes; the rest of the file was not imported",
                self.options.memory
            ));
        }
        (context, self.remarks, is_over)
    }

    fn archive(
        &mut self,
        format: Format,
        source: Source<'_>,
        name: Option<&str>,
        row: u32,
        depth: usize,
    ) -> Result<(), ImportError> {
        let budget = self.decompression.clone();
        let mut source: Source<'_> = match depth {
            0 => Box::new(Counted {
                source,
                budget: budget.clone(),
            }),
            _ => source,
        };
        let allowed = self.options.memory as u64;
        let members = formats::members(format, &mut source, allowed, &budget);
        let members = members.map_err(|error| broken(&error.to_string(), name))?;
        if !self.importer.sort_fully() {
            return Err(broken("an archive follows packets", name));
        }
        let rows: Vec<(u8, Member, u32)> = members
            .into_iter()
            .map(|(rank, member)| {
                let row = self.add_row(Some(row), Some(&member.name));
                (rank, member, row)
            })
            .collect();
        let mut members = rows;
        members.sort_by(|one, other| {
            let key = |(rank, member, row): &(u8, Member, u32)| (*rank, member.name.clone(), *row);
            key(one).cmp(&key(other))
        });
        for (_, member, row) in members {
            self.read(
                member.open(&self.decompression.clone()),
                Some(&member.name),
                Row::Known(row),
                depth + 1,
            )?;
        }
        Ok(())
    }

    fn add_row(&mut self, parent_id: Option<u32>, name: Option<&str>) -> u32 {
        let store = &mut self.importer.context.store;
        let row = TraceFileRow {
            parent_id,
            name: name.map_or(StringId::NULL, |name| store.strings.intern(name)),
            size: 0,
            trace_type: store.strings.intern("unknown"),
            processing_order: None,
            is_container: false,
        };
        store.tables.trace_file.push(row)
    }

    /// Reads a manifest, which applies to the files after it.
    fn manifest(
        &mut self,
        source: Source<'_>,
        name: Option<&str>,
        row: u32,
    ) -> Result<(), ImportError> {
        let failed = |rule: String| broken(&rule, name);
        if !self.files.is_empty() {
            let rule = "perfetto_manifest file must be the first trace file in the input";
            return Err(broken(rule, name));
        }
        if self.manifest.is_some() {
            let rule = "multiple perfetto_manifest files in archive";
            return Err(broken(rule, name));
        }
        let mut text = Vec::new();
        let read = source.take(MAX_MANIFEST).read_to_end(&mut text);
        read.map_err(|error| failed(error.to_string()))?;
        let store = &mut self.importer.context.store;
        store.tables.trace_file.size.set(row, text.len() as i64);
        store.trace_file = row;
        begin_file(&mut self.importer.context, Format::Manifest.as_str());
        end_file(&mut self.importer.context, text.len() as u64);
        let manifest = Manifest::parse(&text).map_err(failed)?;
        manifest.apply(&mut self.importer).map_err(failed)?;
        self.manifest = Some(manifest);
        Ok(())
    }

    /// Returns the machines and clocks of a file.
    fn file_machines(
        &mut self,
        name: Option<&str>,
        is_trace: bool,
    ) -> Result<FileMachines, ImportError> {
        let manifest = self.manifest.as_ref();
        let entry = name.and_then(|name| manifest?.entry(name));
        if let Some(entry) = entry
            && !is_trace
            && (entry.clocks.is_some() || entry.base_machine().is_some())
        {
            let rule = format!(
                "perfetto_manifest: overrides are not supported for trace files which are \
                 themselves archives or perfetto_manifest files: {}",
                entry.path
            );
            return Err(broken(&rule, name));
        }
        if manifest.is_none() || !is_trace {
            return Ok(FileMachines::default());
        }
        let machine = entry.and_then(|entry| entry.base_machine());
        let machine = self.importer.machine_row(machine);
        let Some(entry) = entry else {
            return Ok(FileMachines {
                machine,
                ..FileMachines::default()
            });
        };
        let importer = &mut self.importer;
        let machines = entry.machines.iter();
        let machines = machines.map(|(id, name)| (*id, importer.machine_row(Some(name))));
        let machines: Vec<_> = machines.collect();
        let clocks = entry.clocks.as_ref();
        Ok(FileMachines {
            machine,
            has_one_machine: entry.machine.is_some() && machines.is_empty(),
            has_own_clock: clocks.is_some_and(|clocks| clocks.clock.is_none()),
            machines: (!machines.is_empty()).then_some(machines),
        })
    }

    /// Reads packets. Returns the number of bytes.
    fn packets(
        &mut self,
        source: Source<'_>,
        name: Option<&str>,
        is_inside: bool,
    ) -> Result<u64, ImportError> {
        let Self {
            importer,
            options,
            decompression,
            ..
        } = self;
        let (mut total, mut is_cancelled, mut is_over) = (0, false, false);
        let mut broken_rule = None;
        let each = |batch: &mut Batch, bytes| {
            total = bytes;
            importer.batch(batch);
            is_cancelled = (self.progress)(bytes) == Continue::No;
            is_over = importer.is_over();
            broken_rule = importer.broken();
            !is_cancelled && !is_over && broken_rule.is_none()
        };
        let reader = if is_inside {
            TraceReader::inside(source, options.limits, decompression.clone())
        } else {
            TraceReader::with_limits(source, options.limits)
        };
        let damage = read_packets(reader, options.threads, each)?;
        if is_cancelled {
            return Err(ImportError::Cancelled);
        }
        if let Some(rule) = broken_rule {
            return Err(broken(&rule, name));
        }
        self.is_over = is_over;
        let remarks = note(&mut self.importer.context.store, &damage);
        self.remarks.extend(remarks);
        Ok(total)
    }

    /// Converts a file to packets, and reads these. Returns the number of bytes of the file.
    fn converted(
        &mut self,
        mut source: Source<'_>,
        name: Option<&str>,
    ) -> Result<u64, ImportError> {
        let failed = |error: io::Error| broken(&error.to_string(), name);
        // The end of the file describes its beginning.
        let mut copy = tempfile::tempfile().map_err(failed)?;
        let bytes = io::copy(&mut source, &mut copy).map_err(failed)?;
        let options = ferretto_foreign::Options {
            reads_files: self.options.reads_files,
            decompressed: self.options.limits.decompressed_bytes(),
            ..ferretto_foreign::Options::default()
        };
        let mut packets = BufWriter::new(tempfile::tempfile().map_err(failed)?);
        let report = ferretto_foreign::import(&mut copy, &options, &mut packets)
            .map_err(|error| broken(&error.to_string(), name))?;
        let mut packets = packets.into_inner().map_err(|error| failed(error.into()))?;
        packets.rewind().map_err(failed)?;
        if report.is_damaged {
            let losses = report.losses.iter();
            let losses = losses.map(|(what, count)| format!("not imported: {count} {what}"));
            self.remarks.extend(losses);
        }
        self.packets(Box::new(packets), name, false)?;
        Ok(bytes)
    }

    /// Reads a file without packets. Returns the number of bytes.
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
                Err(source) if let Some(limit) = DecompressionLimit::of(&source) => {
                    let remark = "the file is read up to byte";
                    self.remarks
                        .push(format!("{remark} {total}; the rest is skipped"));
                    self.remarks.push(limit.to_string());
                    return Ok(total);
                }
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

/// The bytes of a file, which count as read.
struct Counted<'a> {
    source: Source<'a>,
    budget: DecompressionBudget,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.budget.add_read(count as u64);
        Ok(count)
    }
}

fn read_head(source: &mut Source<'_>) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    source.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Counts damage to the file, and describes it in sentences.
fn note(store: &mut Store, damage: &Damage) -> Vec<String> {
    let sentences = damage.sentences();
    if let Some(end) = damage.end()
        && !sentences.is_empty()
    {
        store.log_at(Stat::tokenizer_skipped_packets, end);
    }
    sentences
}
