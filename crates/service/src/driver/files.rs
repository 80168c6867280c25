//! Trace files, each written by its own thread, so that a slow disk or a full pipe delays no other
//! work.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use ferretto_ipc::PassedFd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags, SeekFrom};
use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};

use super::output_file;
use crate::{Event, FileId, OutputPath};

/// The largest single write, so that a failing disk is noticed early.
const MAX_WRITE: usize = 1024 * 1024;
/// The number of bytes copied between files at a time.
const COPY_BLOCK: usize = 256 * 1024;
/// The number of bytes that a writable pipe takes without blocking.
const PIPE_WRITE: usize = 4096;

/// More than the service has in transit to a file at any time.
const HELD_PER_FILE: u64 = 4 << 20;

/// The output files of all sessions.
#[derive(Debug)]
pub struct Files {
    open: HashMap<FileId, OpenFile>,
    /// The time for which a pipe may block its thread after the file should be closed.
    patience: Duration,
    events: Receiver<Event>,
    reporter: Reporter,
    /// The number of events to come.
    pending: usize,
}

/// The driver's handle of a file's thread.
#[derive(Debug)]
struct OpenFile {
    jobs: Sender<Job>,
    /// Closed to make a blocked thread finish.
    alive: Option<OwnedFd>,
}

/// A request to a file's thread.
#[derive(Debug)]
enum Job {
    Write(Vec<u8>),
    Sync,
    /// Send the content up to here to another thread.
    Lend(Sender<io::Result<Original>>),
    /// Append the content that the other file's thread sends.
    Copy(Receiver<io::Result<Original>>),
}

/// A file to copy up to its current size, even if it is still written.
#[derive(Debug)]
struct Original {
    fd: OwnedFd,
    size: u64,
}

/// The channel on which a file's thread reports.
#[derive(Clone)]
struct Reporter {
    events: Sender<Event>,
    notify: Arc<dyn Fn() + Send + Sync>,
}

impl Reporter {
    fn report(&self, event: Event) {
        // Without a driver, reports are dropped.
        if self.events.send(event).is_ok() {
            (self.notify)();
        }
    }

    fn failed(&self, file: FileId, error: &io::Error) {
        self.report(Event::FileFailed {
            file,
            error: error.to_string(),
        });
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").finish_non_exhaustive()
    }
}

impl Files {
    /// Creates a set of no files. `notify` is called, on other threads, when
    /// [`next_event`](Self::next_event) has an event. A pipe may block its thread for `patience`
    /// after it should be closed.
    pub fn new(notify: impl Fn() + Send + Sync + 'static, patience: Duration) -> Self {
        let (sender, events) = mpsc::channel();
        Self {
            open: HashMap::new(),
            patience,
            events,
            reporter: Reporter {
                events: sender,
                notify: Arc::new(notify),
            },
            pending: 0,
        }
    }

    /// Creates a file that must not exist yet.
    pub fn create(&mut self, file: FileId, path: OutputPath) {
        self.pending += 1;
        self.spawn(file, move |reporter| match output_file::create(&path) {
            Ok(fd) => {
                reporter.report(Event::FileOpened { file });
                Some(fd)
            }
            Err(error) => {
                reporter.failed(file, &error);
                None
            }
        });
    }

    /// Takes a descriptor as the file.
    pub fn adopt(&mut self, file: FileId, fd: PassedFd) {
        // The thread may block, so that its descriptor can be an ordinary one.
        self.spawn(file, move |_| Some(fd.into_fd()));
    }

    /// Copies the content of `from` up to now to `fd`, and uses that as the file.
    pub fn copy(&mut self, from: FileId, file: FileId, fd: PassedFd) {
        let (sender, original) = mpsc::channel();
        if let Some(open) = self.open.get(&from) {
            // If that fails, the other end of the channel notices.
            let _ = open.jobs.send(Job::Lend(sender));
        }
        self.adopt(file, fd);
        self.pending += 1;
        self.send(file, Job::Copy(original));
    }

    /// Appends to a file.
    pub fn write(&mut self, file: FileId, bytes: Vec<u8>) {
        self.pending += 1;
        self.send(file, Job::Write(bytes));
    }

    /// Writes a file's data to the disk.
    pub fn sync(&mut self, file: FileId) {
        self.send(file, Job::Sync);
    }

    /// Returns the largest memory of pending writes, in bytes.
    pub fn memory_needed(&self) -> u64 {
        self.open.len() as u64 * HELD_PER_FILE
    }

    /// Closes a file after its pending jobs.
    pub fn close(&mut self, file: FileId) {
        if let Some(open) = self.open.remove(&file) {
            // The thread may have ended with the file.
            let _ = open.jobs.send(Job::Sync);
        }
    }

    /// Returns the next report of a thread, if there is one.
    pub fn next_event(&mut self) -> Option<Event> {
        let event = self.events.try_recv().ok()?;
        self.pending = self.pending.saturating_sub(1);
        Some(event)
    }

    /// Limits the time for which pipes may still block.
    pub fn hurry(&mut self) {
        for open in self.open.values_mut() {
            open.alive = None;
        }
    }

    /// Waits for the next report of a thread until `deadline`.
    pub fn wait_for_event(&mut self, deadline: Instant) -> Option<Event> {
        if self.pending == 0 {
            return None;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let event = self.events.recv_timeout(left).ok()?;
        self.pending = self.pending.saturating_sub(1);
        Some(event)
    }

    /// Closes all files, and waits until they are written or for `deadline`.
    pub fn finish(mut self, deadline: Instant) {
        for (_, open) in self.open.drain() {
            let _ = open.jobs.send(Job::Sync);
        }
        // The channel ends with the last thread.
        drop(self.reporter);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => return,
            }
        }
    }

    fn send(&self, file: FileId, job: Job) {
        let open = self.open.get(&file);
        if open.is_none_or(|open| open.jobs.send(job).is_err()) {
            self.reporter.failed(file, &not_open());
        }
    }

    fn spawn(
        &mut self,
        file: FileId,
        open: impl FnOnce(&Reporter) -> Option<OwnedFd> + Send + 'static,
    ) {
        let (alive, ended) = match pipe_with(PipeFlags::CLOEXEC) {
            Ok((ended, alive)) => (alive, ended),
            Err(errno) => return self.reporter.failed(file, &errno.into()),
        };
        let (jobs, queue) = mpsc::channel();
        let (reporter, patience) = (self.reporter.clone(), self.patience);
        let work = move || {
            if let Some(fd) = open(&reporter) {
                let writer = FileWriter {
                    fd,
                    ended,
                    patience,
                };
                run(file, &writer, &queue, &reporter);
            }
        };
        match thread::Builder::new()
            .name("trace-file".to_owned())
            .spawn(work)
        {
            Ok(_) => {
                self.open.insert(
                    file,
                    OpenFile {
                        jobs,
                        alive: Some(alive),
                    },
                );
            }
            Err(error) => self.reporter.failed(file, &error),
        }
    }
}

fn not_open() -> io::Error {
    io::Error::other("the file is not open")
}

fn lacks_data() -> io::Error {
    io::Error::other("the file to copy could not be written")
}

fn run(file: FileId, writer: &FileWriter, queue: &Receiver<Job>, reporter: &Reporter) {
    let mut broken = false;
    for job in queue {
        match job {
            // Data after a gap is of no use, even if there is space again.
            Job::Write(_) if broken => reporter.failed(file, &not_open()),
            Job::Write(bytes) => match writer.write_whole(&bytes) {
                Ok(()) => {
                    let bytes = bytes.len() as u64;
                    reporter.report(Event::FileWritten { file, bytes });
                }
                Err(error) => {
                    broken = true;
                    reporter.failed(file, &error);
                }
            },
            Job::Sync => {
                // Pipes and the like cannot be synced.
                let _ = rustix::fs::fdatasync(&writer.fd);
            }
            Job::Lend(to) => {
                // The copy would go on with data after the gap.
                let original = if broken {
                    Err(lacks_data())
                } else {
                    writer.original()
                };
                let _ = to.send(original);
            }
            Job::Copy(original) => {
                let original = original.recv();
                let original = original.unwrap_or_else(|_| Err(not_open()));
                match original.and_then(|original| writer.copy(&original)) {
                    Ok(bytes) => reporter.report(Event::FileWritten { file, bytes }),
                    Err(error) => {
                        broken = true;
                        reporter.failed(file, &error);
                    }
                }
            }
        }
    }
}

/// One file, in its thread.
struct FileWriter {
    fd: OwnedFd,
    /// Signals that the file is to be closed.
    ended: OwnedFd,
    patience: Duration,
}

impl FileWriter {
    /// Writes all bytes. If that fails and the file can be truncated, writes none.
    fn write_whole(&self, bytes: &[u8]) -> io::Result<()> {
        let start = self.position();
        // The number of bytes that a writable pipe takes without blocking.
        let at_once = if start.is_some() {
            MAX_WRITE
        } else {
            PIPE_WRITE
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            if start.is_none() {
                self.wait_until_writable()?;
            }
            match rustix::io::write(&self.fd, &rest[..rest.len().min(at_once)]) {
                Ok(0) => return self.undo(start, Errno::NOSPC),
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return self.undo(start, errno),
            }
        }
        Ok(())
    }

    /// Returns the content so far, if the file can be read.
    fn original(&self) -> io::Result<Original> {
        let size = self.position().ok_or(Errno::SPIPE)?;
        let fd = self.fd.try_clone()?;
        Ok(Original { fd, size })
    }

    /// Appends the content of another file, and returns its size.
    fn copy(&self, original: &Original) -> io::Result<u64> {
        let mut block = vec![0; COPY_BLOCK];
        let mut at = 0;
        while at < original.size {
            let left = usize::try_from(original.size - at).unwrap_or(COPY_BLOCK);
            let wanted = &mut block[..left.min(COPY_BLOCK)];
            let read = retry_on_intr(|| rustix::io::pread(&original.fd, &mut *wanted, at))?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.write_whole(&wanted[..read])?;
            at += read as u64;
        }
        Ok(at)
    }

    /// Returns the offset of the next write, if the file can be truncated.
    fn position(&self) -> Option<u64> {
        let status = rustix::fs::fstat(&self.fd).ok()?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return None;
        }
        if rustix::fs::fcntl_getfl(&self.fd)
            .ok()?
            .contains(OFlags::APPEND)
        {
            return u64::try_from(status.st_size).ok();
        }
        rustix::fs::seek(&self.fd, SeekFrom::Current(0)).ok()
    }

    fn undo(&self, start: Option<u64>, errno: Errno) -> io::Result<()> {
        if let Some(start) = start {
            // The first error is the one to report.
            let _ = rustix::fs::ftruncate(&self.fd, start);
            let _ = rustix::fs::seek(&self.fd, SeekFrom::Start(start));
        }
        Err(errno.into())
    }

    /// Waits until a pipe takes more bytes: during its session without limit, afterwards for the
    /// patience.
    fn wait_until_writable(&self) -> io::Result<()> {
        let writable = || PollFd::new(&self.fd, PollFlags::OUT);
        let mut fds = [writable(), PollFd::new(&self.ended, PollFlags::empty())];
        retry_on_intr(|| poll(&mut fds, None))?;
        if !fds[0].revents().is_empty() {
            return Ok(());
        }
        let patience = Timespec::try_from(self.patience).ok();
        match retry_on_intr(|| poll(&mut [writable()], patience.as_ref()))? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with some content that can be read but not written.
    fn unwritable() -> OwnedFd {
        let mut write = tempfile();
        std::io::Write::write_all(&mut write, b"the beginning").unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&write));
        std::fs::File::open(path).unwrap().into()
    }

    fn tempfile() -> std::fs::File {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        rustix::fs::memfd_create("file", flags).unwrap().into()
    }

    #[test]
    fn a_file_that_lacks_a_write_is_not_copied() {
        let mut files = Files::new(|| (), Duration::ZERO);
        let [from, copy] = [FileId(1), FileId(2)];
        files.adopt(from, PassedFd::from(unwritable()));
        files.write(from, b"the rest".to_vec());
        let out = tempfile();
        files.copy(from, copy, PassedFd::from(OwnedFd::from(out)));
        let deadline = Instant::now() + Duration::from_secs(30);
        for expected in [from, copy] {
            match files.wait_for_event(deadline) {
                Some(Event::FileFailed { file, .. }) => assert_eq!(file, expected),
                other => panic!("{other:?}"),
            }
        }
    }
}
