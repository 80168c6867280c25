//! Writing packets into shared memory from several threads at once, including the acquisition of
//! chunks. The service is a thread that frees committed chunks. Upstream has no benchmark of this
//! part alone.

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use ferretto_proto::fields::{test_event, trace_packet};
use ferretto_shm::{
    Arbiter, ArbiterOptions, ExhaustedPolicy, Outlet, Output, PageSize, Region, ServiceRegion,
};

use crate::{Group, Row};

const MEMORY_SIZE: usize = 1 << 20;
/// The number of packets per iteration, for all threads together.
const PACKETS: usize = 80_000;
const TEXT_SIZE: usize = 64;

/// The service's end of a producer's connection, reduced to chunks.
struct Freeing {
    arbiter: OnceLock<Arc<Arbiter>>,
    service: ServiceRegion,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_due: bool,
    is_over: bool,
}

impl Freeing {
    fn pump(&self) {
        let Some(arbiter) = self.arbiter.get() else {
            return;
        };
        loop {
            match arbiter.poll_output(Instant::now()) {
                Output::Commit(commit) => {
                    for chunk in commit.moves {
                        drop(self.service.try_read(chunk.page, chunk.chunk));
                    }
                    for callback in commit.callbacks {
                        callback();
                    }
                }
                Output::Register { .. } | Output::Unregister { .. } => {}
                Output::WaitUntil(_) | Output::Idle => return,
            }
        }
    }

    fn serve(&self) {
        loop {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            while !state.is_due && !state.is_over {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            if state.is_over {
                return;
            }
            state.is_due = false;
            drop(state);
            self.pump();
        }
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
    }
}

struct Wire(Arc<Freeing>);

impl Outlet for Wire {
    fn wake(&self) {
        self.0.set(|state| state.is_due = true);
    }

    fn flush_now(&self) {
        self.0.pump();
    }
}

struct Producer {
    freeing: Arc<Freeing>,
    arbiter: Arc<Arbiter>,
    service: Option<JoinHandle<()>>,
}

impl Producer {
    fn new() -> Self {
        let region = Arc::new(Region::create(MEMORY_SIZE).expect("shared memory"));
        let freeing = Arc::new(Freeing {
            arbiter: OnceLock::new(),
            service: ServiceRegion::new(Arc::clone(&region), PageSize::DEFAULT).expect("pages"),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let outlet = Box::new(Wire(Arc::clone(&freeing)));
        let options = ArbiterOptions::default();
        let arbiter =
            Arbiter::new(region, PageSize::DEFAULT, options, outlet).expect("pages in the region");
        let _ = freeing.arbiter.set(Arc::clone(&arbiter));
        let serving = Arc::clone(&freeing);
        Self {
            freeing,
            arbiter,
            service: Some(thread::spawn(move || serving.serve())),
        }
    }

    fn write(&self, threads: usize, packets: usize, text: &str) {
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut writer = self
                        .arbiter
                        .create_writer(1, ExhaustedPolicy::StallThenAbort);
                    for index in 0..packets {
                        let mut packet = writer.new_packet();
                        packet.varint(trace_packet::TIMESTAMP, index as u64);
                        packet.nested(trace_packet::FOR_TESTING, |event| {
                            event.string(test_event::STR, text);
                        });
                    }
                    writer.flush(None);
                });
            }
        });
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.freeing.set(|state| state.is_over = true);
        self.arbiter.close();
        if let Some(service) = self.service.take() {
            let _ = service.join();
        }
    }
}

pub(crate) fn one_thread() -> Group {
    write("TraceWriter/1", 1)
}

pub(crate) fn two_threads() -> Group {
    write("TraceWriter/2", 2)
}

pub(crate) fn eight_threads() -> Group {
    write("TraceWriter/8", 8)
}

fn write(name: &'static str, threads: usize) -> Group {
    let text = "x".repeat(TEXT_SIZE);
    let producer = Producer::new();
    let ours = Row::timed("ours", move || {
        producer.write(threads, PACKETS / threads, &text);
    });
    #[cfg(feature = "upstream")]
    let upstream = {
        let producer = crate::upstream::Producer::new(MEMORY_SIZE);
        Row::timed("upstream", move || {
            producer.write(threads, PACKETS / threads, TEXT_SIZE);
        })
    };
    Group {
        name,
        bar: None,
        bytes: Some((PACKETS * TEXT_SIZE) as u64),
        rows: vec![
            ours,
            #[cfg(feature = "upstream")]
            upstream,
        ],
    }
}
