//! A thread that processes jobs in sequence.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// A thread that processes jobs in sequence and returns them. If no thread can be started, jobs are
/// processed by the thread that sends them.
#[derive(Debug)]
pub(crate) struct Worker<T> {
    jobs: Option<SyncSender<T>>,
    done: Receiver<T>,
    thread: Option<JoinHandle<()>>,
    caller: Option<Caller<T>>,
}

type Process<T> = Box<dyn FnMut(&mut T) + Send>;

/// The jobs of a worker without a thread.
struct Caller<T> {
    process: Process<T>,
    done: VecDeque<T>,
}

impl<T> std::fmt::Debug for Caller<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Worker<T> {
    /// Starts a thread that calls `process` for each job. `capacity` limits the jobs that wait to
    /// be processed, and those that wait to be received.
    pub(crate) fn start(capacity: usize, process: impl FnMut(&mut T) + Send + 'static) -> Self {
        Self::start_with(Builder::new(), capacity, Box::new(process))
    }

    fn start_with(builder: Builder, capacity: usize, process: Process<T>) -> Self {
        let (sender, jobs) = sync_channel::<T>(capacity);
        let (finished, done) = sync_channel(capacity);
        // Outside of the thread's function, which is lost if the thread cannot be started.
        let process = Arc::new(Mutex::new(Some(process)));
        let taken = process.clone();
        let thread = builder.spawn(move || {
            let Some(mut process) = lock(&taken).take() else {
                return;
            };
            for mut job in jobs {
                process(&mut job);
                if finished.send(job).is_err() {
                    break;
                }
            }
        });
        let thread = thread.ok();
        let caller = match thread {
            Some(_) => None,
            None => lock(&process).take().map(|process| Caller {
                process,
                done: VecDeque::new(),
            }),
        };
        Self {
            jobs: Some(sender),
            done,
            thread,
            caller,
        }
    }

    /// Sends a job. Blocks while the maximum number of jobs waits.
    pub(crate) fn send(&mut self, mut job: T) {
        if let Some(caller) = &mut self.caller {
            (caller.process)(&mut job);
            caller.done.push_back(job);
            return;
        }
        let is_sent = self.jobs.as_ref().map(|jobs| jobs.send(job));
        if !matches!(is_sent, Some(Ok(()))) {
            self.fail();
        }
    }

    /// Receives the next processed job. There must be one that was sent and not received.
    pub(crate) fn receive(&mut self) -> T {
        if let Some(job) = self.caller.as_mut().and_then(|it| it.done.pop_front()) {
            return job;
        }
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

fn lock<T>(slot: &Mutex<T>) -> MutexGuard<'_, T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_processed_without_a_thread() {
        // No thread can have a stack of this size.
        let builder = Builder::new().stack_size(1 << 62);
        let mut worker = Worker::start_with(builder, 1, Box::new(|job: &mut u32| *job += 1));
        assert!(worker.caller.is_some());
        for job in 0..3 {
            worker.send(job);
        }
        assert_eq!([(); 3].map(|()| worker.receive()), [1, 2, 3]);
    }
}
