//! Imported traces.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use crate::derived::SchedLog;
use crate::error::ImportError;
use crate::files::{FileImport, Row};
use crate::import::Source;
use crate::options::Options;
use crate::progress::{Continue, Progress};
use crate::saved::{Array, Pages};
use crate::schema::Tables;
use crate::stats::{Stat, StatsTracker};
use crate::store::{DiskRequest, Loss, MissingSwitches, Store};
use crate::strings::StringPool;
use crate::table::Table;
use crate::trackers::flow::FlowEnds;
use ferretto_format::health::Health;

/// An imported trace.
#[derive(Debug)]
pub struct Trace {
    pub(crate) tables: Tables,
    pub(crate) strings: StringPool,
    pub(crate) stats: StatsTracker,
    /// The log from which some tables are computed.
    pub(crate) log: Arc<SchedLog>,
    pub(crate) remarks: Vec<String>,
    pub(crate) exceeds_memory: bool,
    pub(crate) losses: Vec<Loss>,
    pub(crate) disk_requests: Array<DiskRequest>,
    pub(crate) missing_switches: Vec<MissingSwitches>,
    pub(crate) flow_ends: FlowEnds,
    /// The file of a saved trace.
    pub(crate) saved: Option<Arc<Pages>>,
}

impl Trace {
    /// Imports a file, and reports progress repeatedly.
    ///
    /// For a damaged file, the result contains its readable part, and [`remarks`](Self::remarks)
    /// describe the missing data.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or is not a trace.
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
    /// Fails if reading fails, or the input is not a trace.
    pub fn read(input: impl Read + Send, options: &Options) -> Result<Self, ImportError> {
        Self::import(Box::new(input), None, options, |_| Continue::Yes)
    }

    fn import(
        source: Source<'_>,
        size: Option<u64>,
        options: &Options,
        mut progress: impl FnMut(Progress) -> Continue,
    ) -> Result<Self, ImportError> {
        let mut report = |bytes| progress(Progress { bytes, of: size });
        let mut files = FileImport::new(options, &mut report);
        files.read(source, None, Row::In(None), 0)?;
        let (context, remarks, exceeds_memory) = files.finish();
        let mut store = context.store;
        let flow_ends = context.flows.into_ends(&store.strings);
        store.store_args();
        store.store_callsites();
        store.finish_losses();
        store.store_switches();
        let missing_switches = store.missing_switches();
        store
            .stats
            .finish(&mut store.tables.stats, &mut store.strings);
        store.tables.shrink();
        store
            .sched
            .seal(&store.tables, &mut store.strings, store.wanted);
        store.strings.shrink();
        let Store {
            mut tables,
            strings,
            stats,
            sched,
            wanted,
            losses,
            disk_requests,
            ..
        } = store;
        let log = Arc::new(sched);
        tables.attach(&log, wanted);
        Ok(Self {
            tables,
            strings,
            stats,
            log,
            remarks,
            exceeds_memory,
            losses,
            disk_requests: disk_requests.into(),
            missing_switches,
            flow_ends,
            saved: None,
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

    /// Returns a value of the table `stats` for the first machine.
    pub fn stat(&self, stat: Stat) -> i64 {
        self.stats.get(stat, None).unwrap_or(0)
    }

    /// Returns the data of the file that the tables leave out.
    pub fn health(&self) -> Health {
        self.stats.health()
    }

    /// Returns sentences about missing data.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Returns true if the tables exceed [`Options::memory`]: the rest of the file was not
    /// imported.
    pub fn exceeds_memory(&self) -> bool {
        self.exceeds_memory
    }

    /// Returns the requests to disks, in the order of their ends: at most a million.
    pub fn disk_requests(&self) -> &[DiskRequest] {
        &self.disk_requests
    }

    /// Returns the losses of data, in the order of the file.
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// Returns the CPUs on which the kernel left out switches of threads without a report.
    pub fn missing_switches(&self) -> &[MissingSwitches] {
        &self.missing_switches
    }

    /// Returns the ends of flows that the trace does not connect, if
    /// [`is_part`](Options::is_part) is set.
    pub fn flow_ends(&self) -> &FlowEnds {
        &self.flow_ends
    }

    /// Returns the memory of tables and texts in bytes. Computed tables count after their first
    /// use.
    pub fn memory(&self) -> usize {
        self.tables.memory() + self.strings.memory() + self.log.memory()
    }

    /// Returns the maximum memory in bytes, with all tables and columns computed.
    pub fn max_memory(&self) -> usize {
        self.tables.max_memory() + self.strings.memory() + self.log.memory()
    }
}
