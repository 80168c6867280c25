//! A trace in columns.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use ferretto_format::budget::Budget;
use ferretto_trace::{Damage, ReadError};

use crate::import::{Importer, Source, describe_file, read_packets};
use crate::options::Options;
use crate::schema::{Tables, TraceFileRow};
use crate::stats::{Stat, StatsTracker};
use crate::store::Store;
use crate::strings::{StringId, StringPool};
use crate::table::Table;

/// A trace in columns.
#[derive(Debug)]
pub struct Trace {
    tables: Tables,
    strings: StringPool,
    stats: StatsTracker,
    remarks: Vec<String>,
}

/// The progress of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The bytes that were read.
    pub bytes: u64,
    /// The size of the file, if it is known.
    pub of: Option<u64>,
}

/// Why a trace cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The answer of the system.
        source: io::Error,
    },
    /// The file cannot be read.
    #[error("cannot import the trace")]
    Read(#[from] ReadError),
    /// The import was ended.
    #[error("the import was cancelled")]
    Cancelled,
}

/// The answer to a report of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continue {
    /// The rest of the file.
    Yes,
    /// Nothing: the import ends with [`ImportError::Cancelled`].
    No,
}

impl Trace {
    /// Imports a file, and reports progress now and then.
    ///
    /// A file that is damaged gives what is readable, and [`remarks`](Self::remarks) say what is
    /// missing.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or if it is no trace.
    pub fn open(
        path: impl AsRef<Path>,
        options: &Options,
        progress: impl FnMut(Progress) -> Continue,
    ) -> Result<Self, ImportError> {
        let path = path.as_ref();
        let open = |source| ImportError::Open {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(open)?;
        let size = file.metadata().ok().map(|data| data.len());
        Self::import(Box::new(file), size, options, progress)
    }

    /// Imports a trace from any reader.
    ///
    /// # Errors
    ///
    /// If reading fails, or if it is no trace.
    pub fn read(input: impl Read + Send, options: &Options) -> Result<Self, ImportError> {
        Self::import(Box::new(input), None, options, |_| Continue::Yes)
    }

    fn import(
        mut source: Source<'_>,
        size: Option<u64>,
        options: &Options,
        mut progress: impl FnMut(Progress) -> Continue,
    ) -> Result<Self, ImportError> {
        let head = read_head(&mut source).map_err(|source| ReadError::Io { offset: 0, source })?;
        let source: Source<'_> = Box::new(Cursor::new(head.clone()).chain(source));
        let mut store = Store::new(options.tables);
        let trace_type = store.strings.intern("proto");
        store.tables.trace_file.push(TraceFileRow {
            parent_id: None,
            name: StringId::NULL,
            size: 0,
            trace_type,
            processing_order: Some(0),
            is_container: false,
        });
        let budget = Budget::new(options.memory.min(1 << 30));
        let mut importer = Importer::new(store, &budget, options.full_sort);
        let (mut is_cancelled, mut is_over) = (false, false);
        let mut total = 0;
        let each = |batch, bytes| {
            total = bytes;
            importer.batch(batch);
            let report = Progress { bytes, of: size };
            is_cancelled = progress(report) == Continue::No;
            is_over = importer.memory() > options.memory;
            !is_cancelled && !is_over
        };
        let damage = read_packets(source, options.limits, options.threads, each)?;
        if is_cancelled {
            return Err(ImportError::Cancelled);
        }
        let mut context = importer.finish();
        describe_file(&mut context, "proto", total, &head);
        let store = &mut context.store;
        store.tables.trace_file.size.set(0, total as i64);
        let mut remarks = note(store, &damage);
        if is_over {
            remarks.push(format!(
                "the tables take more than the {} bytes allowed; the rest of the file is left out",
                options.memory
            ));
        }
        store
            .stats
            .finish(&mut store.tables.stats, &mut store.strings);
        store.tables.shrink();
        store.strings.shrink();
        let Store {
            tables,
            strings,
            stats,
            ..
        } = context.store;
        Ok(Self {
            tables,
            strings,
            stats,
            remarks,
        })
    }

    /// Returns the tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Returns the table with this name.
    pub fn table(&self, name: &str) -> Option<&dyn Table> {
        self.tables.by_name(name)
    }

    /// Returns the texts that columns refer to.
    pub fn strings(&self) -> &StringPool {
        &self.strings
    }

    /// Returns a number of the table `stats`, of the first machine.
    pub fn stat(&self, stat: Stat) -> i64 {
        self.stats.get(stat, None).unwrap_or(0)
    }

    /// Returns what is missing, one sentence each.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Returns the memory that tables and texts take, in bytes.
    pub fn memory(&self) -> usize {
        self.tables.memory() + self.strings.memory()
    }
}

/// The bytes at the beginning of a file that tell its format, and name it if nothing else does.
const HEAD_BYTES: u64 = 4096;

fn read_head(source: &mut Source<'_>) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    source.take(HEAD_BYTES).read_to_end(&mut head)?;
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
