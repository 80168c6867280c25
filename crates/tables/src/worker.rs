//! A thread that processes jobs in sequence.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// A thread that processes jobs in sequence and returns them.
#[derive(Debug)]
pub(crate) struct Worker<T> {
    jobs: Option<SyncSender<T>>,
    done: Receiver<T>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Worker<T> {
    /// Starts a thread that calls `process` for each job. `capacity` limits the jobs that wait to
    /// be processed, and those that wait to be received.
    pub(crate) fn start(capacity: usize, mut process: impl FnMut(&mut T) + Send + 'static) -> Self {
        let (sender, jobs) = sync_channel::<T>(capacity);
        let (finished, done) = sync_channel(capacity);
        let thread = std::thread::spawn(move || {
            for mut job in jobs {
                process(&mut job);
                if finished.send(job).is_err() {
                    break;
                }
            }
        });
        Self {
            jobs: Some(sender),
            done,
            thread: Some(thread),
        }
    }

    /// Sends a job. Blocks while the maximum number of jobs waits.
    pub(crate) fn send(&mut self, job: T) {
        let is_sent = self.jobs.as_ref().map(|jobs| jobs.send(job));
        if !matches!(is_sent, Some(Ok(()))) {
            self.fail();
        }
    }

    /// Receives the next processed job. There must be one that was sent and not received.
    pub(crate) fn receive(&mut self) -> T {
        match self.done.recv() {
            Ok(job) => job,
            Err(_) => self.fail(),
        }
    }

    /// Ends the thread and reports its panic.
    fn fail(&mut self) -> ! {
        self.jobs = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            _ => unreachable!("the thread ends when the sender is dropped"),
        }
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.jobs = None;
        // The thread may wait for space in the channel of processed jobs.
        while self.done.recv().is_ok() {}
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
