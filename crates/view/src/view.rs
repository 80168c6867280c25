//! A trace prepared for viewing.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ferretto_tables::saved::{Reader, Writer};
use ferretto_tables::{Continue, ImportError, Options, Progress, Trace};
use ferretto_why::Prepared;

use crate::extents::Extent;
use crate::flows::Flows;
use crate::lanes::{Lanes, Times};
use crate::loads::Loads;
use crate::nodes::{Content, Node};
use crate::profile::Profiles;
use crate::scene::{Scene, times};

/// A trace prepared for viewing: its tables, its nodes, and its levels of detail.
#[derive(Debug)]
pub struct View {
    trace: Trace,
    name: String,
    /// The times of the first and of the last event.
    bounds: Range<i64>,
    scene: Scene,
    profiles: Profiles,
    /// The ends of arrows, computed on first use.
    flows: OnceLock<Arc<Flows>>,
    /// The states and events that explain times, prepared on first use.
    prepared: OnceLock<Arc<Prepared>>,
    first: FirstPicture,
    /// The index from which columns are read when they are needed, if there is one.
    index: Option<Indexed>,
    /// The number of bytes of the index that were read to open it.
    opened: u64,
}

/// The index of a trace.
#[derive(Debug, Clone)]
pub struct Indexed {
    pub(crate) index: PathBuf,
    /// The open index, which remains readable if another program replaces it.
    pub(crate) file: Arc<File>,
    pub(crate) trace: PathBuf,
    pub(crate) options: Options,
}

impl Indexed {
    /// Removes the index, which is damaged, and imports the trace.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be read.
    pub fn import_again(&self) -> Result<View, ImportError> {
        // If another program has removed or replaced it, the damaged one is gone as well.
        let _ = fs::remove_file(&self.index);
        View::open(&self.trace, &self.options, |_| Continue::Yes)
    }
}

/// The computed parts of a first picture, which depend only on the trace.
#[derive(Debug, Default)]
pub(crate) struct FirstPicture {
    pub(crate) overview: OnceLock<Vec<u8>>,
    /// The extents of all nodes.
    pub(crate) extents: OnceLock<Vec<Extent>>,
    /// Coarse rows of the nodes that are likely in sight.
    pub(crate) tiles: OnceLock<Vec<u8>>,
    /// The time that the threads of each process ran.
    pub(crate) loads: OnceLock<Loads>,
}

impl View {
    /// Imports a trace and prepares it.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or is not a trace.
    pub fn open(
        path: &Path,
        options: &Options,
        progress: impl FnMut(Progress) -> Continue,
    ) -> Result<Self, ImportError> {
        let trace = Trace::open(path, options, progress)?;
        let name = path.file_name().unwrap_or(path.as_os_str());
        Ok(Self::new(trace, &name.to_string_lossy(), options.threads))
    }

    /// Prepares a trace.
    pub fn new(trace: Trace, name: &str, threads: usize) -> Self {
        let bounds = trace.tables().trace_bounds.row(0);
        let bounds = bounds.map_or(0..0, |bounds| bounds.start_ts..bounds.end_ts);
        Self {
            scene: Scene::new(&trace, &bounds, threads),
            profiles: Profiles::new(&trace),
            trace,
            name: name.to_owned(),
            bounds,
            flows: OnceLock::new(),
            prepared: OnceLock::new(),
            first: FirstPicture::default(),
            index: None,
            opened: 0,
        }
    }

    /// Writes the view to an index.
    pub(crate) fn save(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        writer.bytes(self.name.as_bytes())?;
        writer.signed(self.bounds.start);
        writer.signed(self.bounds.end);
        // These take the longest to be computed.
        self.prepare();
        for part in [&self.first.overview, &self.first.tiles] {
            writer.bytes(part.get().map_or(&[], Vec::as_slice))?;
        }
        writer.bytes(
            &self
                .extents()
                .iter()
                .flat_map(|extent| extent.to_bytes())
                .collect::<Vec<u8>>(),
        )?;
        self.loads().save(writer)?;
        self.trace.save(writer)?;
        self.scene.save(self, writer)
    }

    /// Reads a view from an index. Columns and levels of detail are read when they are needed.
    pub(crate) fn load(reader: &mut Reader, of: Indexed) -> io::Result<Self> {
        let name = String::from_utf8(reader.bytes()?).map_err(io::Error::other)?;
        let bounds = reader.signed()?..reader.signed()?;
        let first = FirstPicture::default();
        for part in [&first.overview, &first.tiles] {
            let computed = reader.bytes()?;
            if !computed.is_empty() {
                // It is not set yet.
                let _ = part.set(computed);
            }
        }
        // It is not set yet.
        let _ = first.extents.set(Extent::all_of(&reader.bytes()?));
        // It is not set yet.
        let _ = first.loads.set(Loads::load(reader)?);
        let trace = Trace::load(reader)?;
        let scene = Scene::load(reader)?;
        Ok(Self {
            scene,
            profiles: Profiles::new(&trace),
            opened: trace.bytes_read(),
            trace,
            name,
            bounds,
            flows: OnceLock::new(),
            prepared: OnceLock::new(),
            first,
            index: Some(of),
        })
    }

    /// Returns the trace.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.scene.nodes().len()
    }

    /// Returns the length of the trace in nanoseconds.
    pub fn duration(&self) -> i64 {
        self.bounds.end.saturating_sub(self.bounds.start)
    }

    /// Converts a time of the page to one of the trace.
    pub(crate) fn absolute(&self, time: f64) -> i64 {
        self.bounds.start.saturating_add(time as i64)
    }

    /// Converts a time of the trace to one of the page.
    pub(crate) fn relative(&self, ts: i64) -> f64 {
        ts.saturating_sub(self.bounds.start) as f64
    }

    /// Returns the name of the file.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the times of the first and of the last event.
    pub(crate) fn bounds(&self) -> Range<i64> {
        self.bounds.clone()
    }

    /// Returns the nodes, their lanes and counters.
    pub(crate) fn scene(&self) -> &Scene {
        &self.scene
    }

    /// Returns a node; `None` if there is no such node.
    pub(crate) fn node(&self, node: u32) -> Option<&Node> {
        self.scene.node(node)
    }

    /// Returns the nodes with events among these and their descendants, in order. Without a list,
    /// returns all nodes with events.
    pub(crate) fn with_events(&self, nodes: Option<&[u32]>) -> Vec<u32> {
        self.scene.with_events(nodes)
    }

    /// Returns the lanes of nodes with this content, and the times of their rows.
    pub(crate) fn lanes(&self, content: &Content) -> Option<(&Lanes, Times<'_>)> {
        let lanes = self.scene.lanes(content)?;
        let times = times(self.trace.tables(), self.bounds.end, content)?;
        Some((lanes, times))
    }

    /// Returns the profiles.
    pub(crate) fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    /// Returns the ends of arrows.
    pub(crate) fn flows(&self) -> &Flows {
        let flow = &self.trace.tables().flow;
        self.flows.get_or_init(|| Arc::new(Flows::new(flow)))
    }

    /// Returns the states and events that explain times.
    pub(crate) fn prepared(&self) -> &Arc<Prepared> {
        self.prepared
            .get_or_init(|| Arc::new(Prepared::new(&self.trace)))
    }

    /// Returns the computed parts of the first picture.
    pub(crate) fn first_picture(&self) -> &FirstPicture {
        &self.first
    }

    /// Returns true if columns are read from an index when they are needed.
    pub(crate) fn is_indexed(&self) -> bool {
        self.index.is_some()
    }

    /// Returns the number of bytes that were read of the index since it was opened.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.trace.bytes_read() - self.opened
    }

    /// Opens the index again: the same view, without the parts that were read of it. Returns `None`
    /// if there is no index, or if it cannot be opened.
    pub(crate) fn open_again(&self) -> Option<Self> {
        let of = self.index.as_ref()?;
        let mut reader = Reader::open(of.file.try_clone().ok()?).ok()?;
        // That of which it is the index, which was compared when it was opened first.
        reader.bytes().ok()?;
        let again = Self::load(&mut reader, of.clone()).ok()?;
        let (flows, prepared) = (self.flows.clone(), self.prepared.clone());
        Some(Self {
            flows,
            prepared,
            ..again
        })
    }

    /// Runs code that reads the view.
    ///
    /// # Errors
    ///
    /// Fails if a part of its index turned out to be damaged.
    pub fn intact<R>(&self, read: impl FnOnce() -> R) -> Result<R, Box<Indexed>> {
        match &self.index {
            None => Ok(read()),
            Some(of) => self.trace.intact(read).ok_or_else(|| Box::new(of.clone())),
        }
    }

    /// Returns the memory of the levels of detail, without the tables, in bytes.
    pub fn memory(&self) -> usize {
        self.scene.memory() + self.first.loads.get().map_or(0, Loads::memory)
    }
}
