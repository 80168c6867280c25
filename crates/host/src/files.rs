//! Trace files, each written by a thread of its own, so that a slow disk or a
//! full pipe holds up nothing else.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Instant;

use ferretto_service::{Event, FileId};
use mio::Waker;
use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

/// The largest single write, so that a failing disk is noticed early.
const MAX_WRITE: usize = 1024 * 1024;

/// The output files of all sessions.
#[derive(Debug)]
pub(crate) struct Files {
    open: HashMap<FileId, Sender<Job>>,
    events: Receiver<Event>,
    reporter: Reporter,
    /// How many events are still to come.
    pending: usize,
}

/// What a file's thread is asked to do.
#[derive(Debug)]
enum Job {
    Write(Vec<u8>),
    Sync,
}

/// How a file's thread reports back.
#[derive(Debug, Clone)]
struct Reporter {
    events: Sender<Event>,
    waker: Arc<Waker>,
}

impl Reporter {
    fn report(&self, event: Event) {
        // Without a reactor there is nobody to report to.
        if self.events.send(event).is_ok() {
            let _ = self.waker.wake();
        }
    }

    fn failed(&self, file: FileId, error: &io::Error) {
        self.report(Event::FileFailed {
            file,
            error: error.to_string(),
        });
    }
}

impl Files {
    /// No files. `waker` is called when [`next_event`](Self::next_event) has
    /// something.
    pub(crate) fn new(waker: Arc<Waker>) -> Self {
        let (sender, events) = mpsc::channel();
        Self {
            open: HashMap::new(),
            events,
            reporter: Reporter {
                events: sender,
                waker,
            },
            pending: 0,
        }
    }

    /// Creates a file that must not exist yet.
    pub(crate) fn create(&mut self, file: FileId, path: Vec<u8>) {
        self.pending += 1;
        let path = PathBuf::from(OsString::from_vec(path));
        self.spawn(file, move |reporter| match create_file(&path) {
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
    pub(crate) fn adopt(&mut self, file: FileId, fd: OwnedFd) {
        self.spawn(file, move |_| Some(fd));
    }

    /// Appends to a file.
    pub(crate) fn write(&mut self, file: FileId, bytes: Vec<u8>) {
        self.pending += 1;
        self.send(file, Job::Write(bytes));
    }

    /// Brings a file's data to the medium.
    pub(crate) fn sync(&mut self, file: FileId) {
        self.send(file, Job::Sync);
    }

    /// Closes a file after what was asked for before.
    pub(crate) fn close(&mut self, file: FileId) {
        if let Some(jobs) = self.open.remove(&file) {
            // The thread may have ended already, with the file.
            let _ = jobs.send(Job::Sync);
        }
    }

    /// What threads reported since.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        let event = self.events.try_recv().ok()?;
        self.pending = self.pending.saturating_sub(1);
        Some(event)
    }

    /// Waits for what threads are still to report, until `deadline`.
    pub(crate) fn wait_for_event(&mut self, deadline: Instant) -> Option<Event> {
        if self.pending == 0 {
            return None;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let event = self.events.recv_timeout(left).ok()?;
        self.pending = self.pending.saturating_sub(1);
        Some(event)
    }

    /// Closes everything and waits until it is written, or `deadline`.
    pub(crate) fn finish(mut self, deadline: Instant) {
        for (_, jobs) in self.open.drain() {
            let _ = jobs.send(Job::Sync);
        }
        // The channel ends when the last thread does.
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
        let sent = self
            .open
            .get(&file)
            .is_some_and(|jobs| jobs.send(job).is_ok());
        if !sent {
            self.reporter
                .failed(file, &io::Error::other("the file is not open"));
        }
    }

    fn spawn(
        &mut self,
        file: FileId,
        open: impl FnOnce(&Reporter) -> Option<OwnedFd> + Send + 'static,
    ) {
        let (jobs, queue) = mpsc::channel();
        let reporter = self.reporter.clone();
        let started = thread::Builder::new()
            .name("trace-file".to_owned())
            .spawn(move || {
                if let Some(fd) = open(&reporter) {
                    run(file, &fd, &queue, &reporter);
                }
            });
        match started {
            Ok(_) => {
                self.open.insert(file, jobs);
            }
            Err(error) => self.reporter.failed(file, &error),
        }
    }
}

fn create_file(path: &std::path::Path) -> io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    Ok(rustix::fs::open(path, flags, mode)?)
}

fn run(file: FileId, fd: &OwnedFd, queue: &Receiver<Job>, reporter: &Reporter) {
    for job in queue {
        match job {
            Job::Write(bytes) => match write_whole(fd, &bytes) {
                Ok(()) => {
                    reporter.report(Event::FileWritten {
                        file,
                        bytes: bytes.len() as u64,
                    });
                }
                Err(error) => reporter.failed(file, &error),
            },
            Job::Sync => {
                // Pipes and the like have no medium to sync to.
                let _ = rustix::fs::fdatasync(fd);
            }
        }
    }
}

/// Writes everything, or, where the file can be shortened again, nothing.
fn write_whole(fd: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    let start = end_of_file(fd);
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(fd, &rest[..rest.len().min(MAX_WRITE)]) {
            Ok(0) => return undo(fd, start, Errno::NOSPC),
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            // The descriptor is someone's non-blocking pipe.
            Err(Errno::AGAIN) => wait_writable(fd),
            Err(errno) => return undo(fd, start, errno),
        }
    }
    Ok(())
}

/// Where the next byte will be written, if the file is of the kind that can be
/// shortened.
fn end_of_file(fd: &OwnedFd) -> Option<u64> {
    let status = rustix::fs::fstat(fd).ok()?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return None;
    }
    if rustix::fs::fcntl_getfl(fd).ok()?.contains(OFlags::APPEND) {
        return u64::try_from(status.st_size).ok();
    }
    rustix::fs::seek(fd, SeekFrom::Current(0)).ok()
}

fn undo(fd: &OwnedFd, start: Option<u64>, errno: Errno) -> io::Result<()> {
    if let Some(start) = start {
        // The error that led here is the one worth reporting.
        let _ = rustix::fs::ftruncate(fd, start);
        let _ = rustix::fs::seek(fd, SeekFrom::Start(start));
    }
    Err(errno.into())
}

/// Returns when the descriptor takes more, or when there is an error to be
/// found by writing.
fn wait_writable(fd: &OwnedFd) {
    use rustix::event::{PollFd, PollFlags, poll};
    let _ = poll(&mut [PollFd::new(fd, PollFlags::OUT)], None);
}
