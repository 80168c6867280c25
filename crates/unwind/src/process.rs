//! A process whose threads are sampled.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cache::Cache;
use crate::error::UnwindError;
use crate::files::Target;
use crate::frame::Frame;
use crate::maps::{self, Map};
use crate::memory::Pages;
use crate::sample::{MAX_FRAMES, Mode, StackCopy};
use crate::space::Space;
use crate::walk::{self, Walk};

/// The number of times that the maps may be read again in a burst because of unknown addresses;
/// afterwards once in each [`REFILL`].
const BURST: u32 = 8;
const REFILL: Duration = Duration::from_millis(100);

/// The state of a process to unwind. One thread unwinds its samples.
pub struct Process {
    /// The maps file; `None` if the process is gone.
    maps: Option<File>,
    memory: Option<Arc<File>>,
    space: Space,
    pages: Pages,
    walk: Walk,
    stale: bool,
    reads: Reads,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").finish_non_exhaustive()
    }
}

impl Process {
    /// The largest number of frames of a callstack.
    pub const MAX_FRAMES: usize = MAX_FRAMES;

    /// Creates the state of a process. `maps` and `memory` are `/proc/PID/maps` and
    /// `/proc/PID/mem`. Both belong to the program that the process ran when they were opened, and
    /// are empty after it exits or executes another. Maps read before by
    /// [`read_ahead`](Self::read_ahead) stay valid; files are then found only if this program sees
    /// them under the same name.
    #[must_use]
    pub fn new(pid: u32, maps: File, memory: File) -> Self {
        Self::with_roots(pid, maps, memory, Vec::new())
    }

    /// Like [`new`](Self::new), but also looks for files in each of `roots`, the possible root
    /// folders of the process. They are found there after the process has ended, too.
    #[must_use]
    pub fn with_roots(pid: u32, maps: File, memory: File, roots: Vec<Arc<OwnedFd>>) -> Self {
        let memory = Arc::new(memory);
        let target = Target {
            pid,
            memory: Some(Arc::clone(&memory)),
            roots,
        };
        Self {
            maps: Some(maps),
            memory: Some(memory),
            ..Self::with_space(Space::new(target))
        }
    }

    /// Creates the state of a process that has ended or executed another program, at the time when
    /// it had these `code` maps. Looks for files by their names in each of `roots`, the possible
    /// root folders of the process, and uses only the mapped files themselves.
    #[must_use]
    pub fn gone(pid: u32, code: Vec<Map>, roots: Vec<Arc<OwnedFd>>) -> Self {
        let mut space = Space::new(Target {
            pid,
            memory: None,
            roots,
        });
        let mut maps = Vec::with_capacity(code.len());
        for map in code {
            maps::put(&mut maps, map);
        }
        space.set(maps);
        Self {
            stale: false,
            ..Self::with_space(space)
        }
    }

    fn with_space(space: Space) -> Self {
        Self {
            maps: None,
            memory: None,
            space,
            pages: Pages::default(),
            walk: Walk::default(),
            stale: true,
            reads: Reads::default(),
        }
    }

    /// Forgets all maps and files. They are read again when needed.
    pub fn clear(&mut self) {
        self.space.forget();
        self.stale = self.maps.is_some();
    }

    /// Reads the maps now instead of with the first sample, since the process may end before that
    /// is unwound. Returns false if the process has no maps any more.
    pub fn read_ahead(&mut self) -> bool {
        self.stale = false;
        self.read_maps();
        !self.space.is_empty()
    }

    /// Handles an unmapping of code: reads the maps now, and allows one more read when a sample has
    /// unknown code.
    pub fn unmapped(&mut self) {
        self.read_ahead();
        self.reads.grant();
    }

    /// Adds a new map, so that it is known even if the process ends before its maps are read again.
    pub fn mapped(&mut self, map: Map) {
        if !self.stale && map.start < map.end {
            self.space.add(map);
        }
    }

    /// Appends the frames of a sample, innermost first. If the walk ends before the outermost
    /// frame, the last frame represents the error, and the frames before it are valid.
    ///
    /// # Errors
    /// Returns why the callstack is incomplete.
    pub fn unwind(
        &mut self,
        cache: &Cache,
        sample: &StackCopy<'_>,
        mode: Mode,
        frames: &mut Vec<Frame>,
    ) -> Result<(), UnwindError> {
        let first = frames.len();
        if std::mem::take(&mut self.stale) {
            self.read_maps();
        }
        let mut may_read = true;
        let result = loop {
            let mut walker = walk::Walker {
                space: &mut self.space,
                walk: &mut self.walk,
                maps: self.maps.as_ref(),
                memory: self.memory.as_deref(),
                pages: &mut self.pages,
                cache,
                frames,
                may_read,
            };
            match walker.run(sample, mode) {
                // The code is newer than the maps.
                walk::Outcome::Unmapped if may_read => {
                    may_read = false;
                    if self.reads.take(Instant::now()) {
                        self.read_maps();
                    }
                    frames.truncate(first);
                }
                walk::Outcome::Unmapped => break Err(UnwindError::InvalidMap),
                walk::Outcome::Ended(result) => break result,
            }
        };
        if let Err(error) = result {
            frames.push(Frame::error(error));
        }
        result
    }

    /// Reads the maps. Those of a process that is gone are empty; then the old ones stay valid.
    fn read_maps(&mut self) {
        let Some(maps) = &self.maps else {
            return;
        };
        match maps::read(maps) {
            Ok(maps) if !maps.is_empty() => self.space.set(maps),
            _ => {}
        }
    }
}

/// Limits the rate at which maps are read.
struct Reads {
    left: u32,
    since: Instant,
}

impl Default for Reads {
    fn default() -> Self {
        Self {
            left: BURST,
            since: Instant::now(),
        }
    }
}

impl Reads {
    fn grant(&mut self) {
        self.left = (self.left + 1).min(BURST);
    }

    fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.since);
        let gained = passed.as_nanos() / REFILL.as_nanos();
        if gained > 0 {
            let gained = u32::try_from(gained).unwrap_or(BURST);
            self.left = self.left.saturating_add(gained).min(BURST);
            self.since = now;
        }
        self.left > 0 && {
            self.left -= 1;
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perf_035_maps_are_not_read_for_each_sample() {
        let mut reads = Reads::default();
        let start = reads.since;
        let granted = |reads: &mut Reads, after: u32| {
            let now = start + REFILL * after;
            (0..100).filter(|_| reads.take(now)).count()
        };
        assert_eq!(granted(&mut reads, 0), 8);
        assert_eq!(granted(&mut reads, 0), 0);
        assert_eq!(granted(&mut reads, 1), 1);
        assert_eq!(granted(&mut reads, 4), 3);
        assert_eq!(granted(&mut reads, 1000), 8);
        reads.grant();
        assert_eq!(granted(&mut reads, 1000), 1);
    }
}
