//! One tracefs instance and the data sources that share it.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

use super::bundle::{Batch, Bundler, ClockSnapshot};
use super::claim::Undo;
use super::config::FtraceOptions;
use super::error::SetupError;
use super::kernel_state::{KernelError, Taken, TraceClock, read_buffer_pages};
use super::kprobes;
use super::own_instance::OwnInstance;
use super::page::{Page, ParseStatus, ParsedPage};
use super::selection::{EventKey, KPROBE_GROUP, KRETPROBE_GROUP};
use super::source::{Source, enable, set_trigger, trigger};
use super::stats::{Sample, preserve_packet};
use super::symbols;
use super::syscalls::Wanted;
use super::tracefs::Tracefs;
use super::translator::Translator;
use super::watermark::Watermark;
use crate::PacketSink;
use crate::clock::boottime_ns;

/// The bytes of pages to read before parsing: few enough to stay in the cache.
const BATCH: usize = 128 << 10;

/// The bytes of pages to read from one CPU before moving on to the next.
pub(crate) const TICK: usize = 1 << 20;

/// Returns the number of pages of this size to read before parsing.
pub(super) fn batch_pages(page_size: usize) -> usize {
    (BATCH / page_size).max(1)
}

/// Logs how to undo the changes for an event, apart from enabling it.
fn note_made(taken: &mut Taken, (group, name): &EventKey) {
    if group == KPROBE_GROUP || group == KRETPROBE_GROUP {
        taken.note(Undo::Append("kprobe_events", &format!("-:{group}/{name}")));
        let file = format!("events/{group}/{name}/enable");
        taken.note(Undo::Write(&file, "0"));
    }
    if let Some((file, text)) = trigger(group, name) {
        taken.note(Undo::Append(file, &format!("!{text}")));
    }
}

/// Memory used while reading, shared by all instances.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pages: Vec<u8>,
    bundler: Bundler,
}

/// A tracefs instance in use.
#[derive(Debug)]
pub(crate) struct Instance {
    fs: Tracefs,
    translator: Translator,
    taken: Taken,
    watermark: Watermark,
    page_size: usize,
    cpus: Vec<u32>,
    readers: Vec<(u32, File)>,
    enabled: BTreeMap<EventKey, usize>,
    syscall_filter: String,
    exclusive: bool,
    sources: Vec<Source>,
    /// Set if the instance was created for this use, and is removed with it.
    own: Option<OwnInstance>,
}

impl Instance {
    /// Takes the instance over for its first data source.
    pub(crate) fn open(fs: Tracefs, options: &FtraceOptions) -> Result<Self, KernelError> {
        let taken = Taken::take(&fs, options)?;
        Ok(Self {
            translator: Translator::new(&fs),
            page_size: fs.page_size(),
            cpus: fs.cpus(),
            watermark: Watermark::new(&fs),
            taken,
            fs,
            readers: Vec::new(),
            enabled: BTreeMap::new(),
            syscall_filter: "0".to_owned(),
            exclusive: false,
            sources: Vec::new(),
            own: None,
        })
    }

    /// Takes over an instance that was created for this use.
    pub(crate) fn open_own(
        fs: Tracefs,
        own: OwnInstance,
        options: &FtraceOptions,
    ) -> Result<Self, KernelError> {
        let mut instance = Self::open(fs, options)?;
        instance.own = Some(own);
        Ok(instance)
    }

    pub(crate) fn is_unused(&self) -> bool {
        self.sources.is_empty()
    }

    pub(crate) fn sources(&mut self) -> &mut [Source] {
        &mut self.sources
    }

    pub(crate) fn has(&self, id: u64) -> bool {
        self.sources.iter().any(|source| source.id == id)
    }

    /// Returns the shortest drain period of the running data sources, in milliseconds.
    pub(crate) fn drain_period_ms(&self) -> Option<u32> {
        let running = self.sources.iter().filter(|source| source.started);
        let woken = self.watermark.is_set();
        running.map(|source| source.options.period_ms(woken)).min()
    }

    /// Returns the descriptors that become readable when a buffer fills up to the requested level.
    pub(crate) fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let readers = self.readers.iter().filter(|_| self.watermark.is_set());
        readers.map(|(_, file)| file.as_fd())
    }

    /// Makes the kernel wake us at the lowest requested fill level of the running data sources.
    fn set_watermark(&mut self) -> Result<(), KernelError> {
        let running = self.sources.iter().filter(|source| source.started);
        let wanted = running.filter_map(|source| source.options.drain_buffer_percent);
        let readers = self.readers.iter().map(|(_, file)| file.as_fd());
        self.watermark.set(wanted.min(), readers)
    }

    /// Adds a data source: enables its events without recording yet.
    pub(crate) fn add(
        &mut self,
        id: u64,
        options: FtraceOptions,
        symbols: symbols::Wanted,
        sink: Box<dyn PacketSink>,
    ) -> Result<(), SetupError> {
        if !self.sources.is_empty() {
            if options.exclusive.is_used() {
                return Err(SetupError::NotAlone);
            }
            if self.exclusive {
                return Err(SetupError::ExclusiveActive);
            }
        }
        self.exclusive = options.exclusive.is_used();
        self.taken.set_exclusive(&options.exclusive)?;
        if let Some(graph) = &options.function_graph {
            self.taken.set_function_graph(graph)?;
        }
        let already = |key: &EventKey| self.enabled.contains_key(key);
        let result = enable(&options, &self.fs, &mut self.translator, symbols, already);
        for key in &result.events {
            note_made(&mut self.taken, key);
            *self.enabled.entry(key.clone()).or_insert(0) += 1;
        }
        self.sources.push(Source {
            id,
            options,
            plan: result.plan,
            enabled: result.events,
            cpus: BTreeMap::new(),
            metadata: Default::default(),
            errors: Default::default(),
            report: result.report,
            at_start: Sample::default(),
            started: false,
            flushed: false,
            sink,
        });
        self.update_syscall_filter();
        Ok(())
    }

    /// Starts recording for a data source.
    pub(crate) fn start(&mut self, id: u64) -> Result<(), KernelError> {
        let Some(index) = self.sources.iter().position(|source| source.id == id) else {
            return Ok(());
        };
        if self.readers.is_empty() {
            for &cpu in &self.cpus {
                // If a CPU cannot be opened, only its events are missing.
                if let Ok(file) = self.fs.open_raw(cpu) {
                    self.readers.push((cpu, file));
                }
            }
        }
        let turned_on = if self.sources.iter().any(|source| source.started) {
            Ok(())
        } else {
            self.taken.turn_on()
        };
        let sample = self.sample();
        let source = &mut self.sources[index];
        source.started = true;
        source.at_start = sample;
        source.sample_symbols();
        if source.options.preserve_buffer {
            source.sink.write_packet(&preserve_packet());
        }
        let watermark = self.set_watermark();
        turned_on.and(watermark)
    }

    /// Removes a data source after reading its remaining events.
    pub(crate) fn remove(&mut self, id: u64, scratch: &mut Scratch) {
        if self
            .sources
            .iter()
            .any(|source| source.id == id && source.started)
        {
            self.drain(scratch);
        }
        let Some(index) = self.sources.iter().position(|source| source.id == id) else {
            return;
        };
        let mut source = self.sources.remove(index);
        if source.started && !source.flushed {
            self.write_stats_of(&mut source);
        }
        source.sink.flush();
        for key in &source.enabled {
            self.release_event(key);
        }
        self.update_syscall_filter();
        if !self.sources.iter().any(|source| source.started) {
            self.taken.turn_off();
            self.readers.clear();
        }
        // The remaining sources were notified at their start if no level can be set.
        let _ = self.set_watermark();
        if source.options.exclusive.is_used() {
            self.taken.restore_exclusive();
            self.exclusive = false;
        }
    }

    fn release_event(&mut self, key: &EventKey) {
        let Some(users) = self.enabled.get_mut(key) else {
            return;
        };
        *users -= 1;
        if *users > 0 {
            return;
        }
        self.enabled.remove(key);
        if key.0 != "ftrace" {
            let _ = self.fs.enable_event(&key.0, &key.1, false);
            set_trigger(&self.fs, key, false);
        }
        kprobes::remove(&self.fs, &key.0, &key.1);
    }

    /// Restores the instance.
    pub(crate) fn close(mut self) {
        let left: Vec<EventKey> = self.enabled.keys().cloned().collect();
        for key in left {
            self.enabled.insert(key.clone(), 1);
            self.release_event(&key);
        }
        self.readers.clear();
        self.watermark.clear();
        self.taken.give_back();
    }

    fn update_syscall_filter(&mut self) {
        let all = self.sources.iter().map(Source::wanted_syscalls);
        let filter = all.fold(Wanted::None, Wanted::union).filter();
        if filter == self.syscall_filter {
            return;
        }
        for event in ["sys_enter", "sys_exit"] {
            // If rejected, more system calls are recorded than requested.
            let _ = self
                .fs
                .write(&format!("events/raw_syscalls/{event}/filter"), &filter);
        }
        self.syscall_filter = filter;
    }

    /// Reads up to `max_bytes` of pages from each CPU. Returns true if any CPU has more.
    pub(crate) fn read(&mut self, max_bytes: usize, scratch: &mut Scratch) -> bool {
        if !self.sources.iter().any(|source| source.started) {
            return false;
        }
        let max_pages = max_bytes.div_ceil(self.page_size);
        let batch = batch_pages(self.page_size) * self.page_size;
        scratch.pages.resize(batch, 0);
        let clock = self.clock_snapshot();
        let mut more = false;
        for index in 0..self.readers.len() {
            more |= self.read_cpu(index, max_pages, clock, scratch);
        }
        more
    }

    fn read_cpu(
        &mut self,
        index: usize,
        max_pages: usize,
        clock: Option<ClockSnapshot>,
        scratch: &mut Scratch,
    ) -> bool {
        let mut total = 0;
        while total < max_pages {
            let wanted = batch_pages(self.page_size).min(max_pages - total);
            let (cpu, file) = &self.readers[index];
            let limit = &mut scratch.pages[..wanted * self.page_size];
            let commit_size = self.translator.commit_size();
            let partial = if total == 0 {
                Partial::First
            } else {
                Partial::Last
            };
            let read = read_pages(file, limit, self.page_size, commit_size, partial);
            let batch = Batch {
                cpu: *cpu,
                pages: &read.pages,
                clock,
            };
            for source in self.sources.iter_mut().filter(|source| source.started) {
                source.errors.extend(read.error);
                if !read.pages.is_empty() {
                    let state = source.cpus.entry(*cpu).or_default();
                    let (metadata, errors) = (&mut source.metadata, &mut source.errors);
                    let sink = source.sink.as_mut();
                    scratch
                        .bundler
                        .process(&source.plan, &batch, state, metadata, errors, sink);
                }
            }
            total += read.pages.len();
            if read.pages.len() < wanted {
                return false;
            }
        }
        true
    }

    /// Reads everything that was in the buffers at the start of the call.
    pub(crate) fn drain(&mut self, scratch: &mut Scratch) {
        let pages = self.taken.buffer_pages.max(read_buffer_pages(&self.fs));
        self.read(pages * rustix::param::page_size(), scratch);
    }

    /// Writes the stats packets of the running data sources among `ids` and flushes their writers.
    pub(crate) fn finish_flush(&mut self, ids: &[u64]) {
        let mut sources = std::mem::take(&mut self.sources);
        for source in sources
            .iter_mut()
            .filter(|s| s.started && ids.contains(&s.id))
        {
            self.write_stats_of(source);
            source.sink.flush();
            source.flushed = true;
        }
        self.sources = sources;
    }

    fn write_stats_of(&self, source: &mut Source) {
        let mut now = self.sample();
        now.symbols = source.at_start.symbols;
        source
            .sink
            .write_packet(&source.at_start.start_packet(&source.report));
        source.sink.write_packet(&now.end_packet(&source.errors));
    }

    fn sample(&self) -> Sample {
        let mut sample = Sample::take(&self.fs, &self.cpus);
        sample.buffer_pages = read_buffer_pages(&self.fs);
        sample.configured_pages = self.taken.buffer_pages;
        if self
            .sources
            .iter()
            .any(|source| !source.options.kprobes.is_empty())
        {
            sample.kprobes = kprobes::profile(&self.fs);
        }
        sample
    }

    fn clock_snapshot(&self) -> Option<ClockSnapshot> {
        if self.taken.clock == TraceClock::Boot {
            return None;
        }
        let boot_ns = boottime_ns() as i64;
        let first = self.cpus.first().copied().unwrap_or(0);
        let ftrace_ns = (self.fs.cpu_stats(first).now_ts * 1e9) as i64;
        Some(ClockSnapshot {
            clock: self.taken.clock as u32,
            ftrace_ns,
            boot_ns,
        })
    }
}

impl Source {
    fn sample_symbols(&mut self) {
        if let Some(symbols) = &self.plan.symbols {
            self.at_start.symbols = (symbols.len() as u32, (symbols.memory() / 1024) as u32);
        }
    }
}

/// The result of [`read_pages`].
pub(super) struct PagesRead<'a> {
    pub(super) pages: Vec<ParsedPage<'a>>,
    pub(super) error: Option<ParseStatus>,
}

/// The pages that may be less than half full without being the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Partial {
    /// None: such a page shows that the reader has caught up with the kernel.
    Last,
    /// The first page, which may be the rest of a page read before.
    First,
    /// All: the buffer ends where nothing more can be read.
    Any,
}

/// Reads pages until `buffer` is full or the reader has caught up with the kernel.
pub(super) fn read_pages<'a>(
    file: &File,
    buffer: &'a mut [u8],
    page_size: usize,
    commit_size: usize,
    partial: Partial,
) -> PagesRead<'a> {
    let mut pages = Vec::with_capacity(buffer.len() / page_size.max(1));
    for page in buffer.chunks_exact_mut(page_size) {
        let result = rustix::io::retry_on_intr(|| rustix::io::read(file, &mut *page));
        match result {
            Err(error) => {
                return PagesRead {
                    pages,
                    error: read_error(error),
                };
            }
            Ok(0) => break,
            Ok(length) if length != page_size => {
                return PagesRead {
                    pages,
                    error: Some(ParseStatus::PartialPageRead),
                };
            }
            Ok(_) => {}
        }
        let page = Page::parse(page, commit_size);
        let filled = page.map_or(0, |page| page.payload.len());
        pages.push(page);
        let may_be_partial = match partial {
            Partial::Last => false,
            Partial::First => pages.len() == 1,
            Partial::Any => true,
        };
        if filled < page_size / 2 && !may_be_partial {
            break;
        }
    }
    PagesRead { pages, error: None }
}

/// Returns the status for a read error. No data, and busy or offline CPUs are not errors.
fn read_error(error: Errno) -> Option<ParseStatus> {
    match error {
        Errno::AGAIN | Errno::NOMEM | Errno::BUSY | Errno::NODEV => None,
        _ => Some(ParseStatus::UnexpectedReadError),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    /// Returns a page whose payload has that many bytes.
    fn page(size: u64) -> Vec<u8> {
        let mut page = vec![0; 4096];
        page[8..16].copy_from_slice(&size.to_le_bytes());
        page
    }

    fn read(content: &[u8], partial: Partial) -> (usize, Option<ParseStatus>) {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(content).expect("written");
        file.rewind().expect("rewound");
        let mut buffer = [0; 4 * 4096];
        let read = read_pages(&file, &mut buffer, 4096, 8, partial);
        (read.pages.len(), read.error)
    }

    #[test]
    fn probes_037_normal_read_errors_are_not_reported() {
        for normal in [Errno::AGAIN, Errno::NODEV, Errno::NOMEM, Errno::BUSY] {
            assert_eq!(read_error(normal), None);
        }
        assert_eq!(
            read_error(Errno::IO),
            Some(ParseStatus::UnexpectedReadError)
        );
        assert_eq!(
            read(&[page(4000), vec![0; 100]].concat(), Partial::First),
            (1, Some(ParseStatus::PartialPageRead))
        );
        assert_eq!(read(&[], Partial::First), (0, None));
    }

    #[test]
    fn reading_ends_with_a_page_less_than_half_full() {
        let pages = [page(100), page(4000), page(100), page(4000)].concat();
        assert_eq!(read(&pages, Partial::First), (3, None));
        assert_eq!(read(&pages, Partial::Last), (1, None));
        assert_eq!(read(&pages, Partial::Any), (4, None));
    }
}
