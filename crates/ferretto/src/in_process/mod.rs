//! The tracing service inside this process: recordings without a daemon, sockets or files.
//!
//! The service is the same as in `traced`, on a thread of this process. Producers and consumers
//! exchange requests with it directly, and events are written into memory of this process.
//!
//! # Behaviour
//!
//! - [`InProcess::shared`] is the service of this process. [`InProcess::new`] creates further
//!   services, each with its own sessions and buffers.
//! - The thread, named `ferretto-svc`, starts when the first producer or consumer connects, and
//!   sleeps while there are no requests. Separate threads, named `trace-file`, write trace files.
//! - Packets carry the real user id and process id of this process. (Upstream writes 0 for both, so
//!   that such traces cannot be distinguished or merged.)
//! - Shared memory is private to the process: a forked child has a copy of it, and its writes never
//!   reach the parent. A forked child has its own shared service, created on demand. Services
//!   created with [`InProcess::new`] stay with the parent, and the child cannot connect to them.
//! - The service does not check the identity of its clients: all of them are this process.
//!
//! # Cost
//!
//! The recording thread passes full chunks on under a lock. It wakes the service's thread only for
//! the first chunk of a batch, and when half of the memory (1 MiB by default) is full: a few times
//! per megabyte. The service copies each chunk once, into the session's buffer. Without sessions it
//! uses hardly any memory.
//!
//! # Limits
//!
//! The buffers are lost when the process ends: stop sessions that write into files before that.
//!
//! In the configuration of this crate, the service supports no compression, regular expressions or
//! priorities, and reports this for configs that ask for them. Programs that need them enable the
//! features of `ferretto-service`. The priority of its thread is never changed. Relays are not
//! supported, and traces do not contain the time zone. The time stamp counter is among the clocks
//! only with the feature `tsc`.

mod driver;
mod inbox;
mod link;
mod mailbox;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ferretto_client::ProducerOptions;
use ferretto_client::transport::{Connect, ConnectFailure, ConsumerPort, Link, ProducerPort};
use ferretto_service::driver::service_options;
use ferretto_service::{ClientId, ServiceOptions};
use ferretto_shm::fork::{self, PerProcess};

use self::driver::Driver;
use self::inbox::{Inbox, Input};
use self::link::{LocalLink, LocalPort};
use self::mailbox::{Mailbox, MailboxRef};

/// The default delay of commits.
const COMMIT_BATCH: Duration = Duration::from_millis(5);
/// The default size of a producer's memory, in bytes.
const MEMORY_SIZE: u32 = 1024 * 1024;

/// A tracing service in this process. Cheap to clone; all clones refer to the same service.
///
/// The service ends, and completes its files, when all clones and all links to it are dropped. Pass
/// it to [`Producer::through`](ferretto_client::Producer::through) and
/// [`Consumer::connect_through`](ferretto_client::Consumer::connect_through).
#[derive(Clone, Debug)]
pub struct InProcess {
    which: Which,
    machine_id: u32,
}

#[derive(Clone, Debug)]
enum Which {
    /// The process's shared service. A forked child has another one than its parent.
    Shared,
    Own(Arc<Door>),
}

static SHARED: PerProcess<Arc<Door>> = PerProcess::new();

/// The state shared by all handles of the service.
#[derive(Debug)]
struct Door {
    forks: u32,
    /// The queue of the service's thread, once it has started.
    inbox: Mutex<Option<Arc<Inbox>>>,
    last_client: AtomicU64,
}

impl InProcess {
    /// Creates a separate service. Its thread starts with the first connection.
    pub fn new() -> Self {
        Self {
            which: Which::Own(Arc::default()),
            machine_id: 0,
        }
    }

    /// Returns the shared service of this process. In a forked child, the value refers to the
    /// child's own service.
    pub fn shared() -> Self {
        Self {
            which: Which::Shared,
            machine_id: 0,
        }
    }

    /// Returns the same service for producers that appear to be on another machine. Their packets
    /// carry the machine id, and only sessions that select this machine, or all machines
    /// (`trace_all_machines`), record them. 0 is the machine of the service.
    #[must_use]
    pub fn on_machine(&self, machine_id: u32) -> Self {
        Self {
            machine_id,
            ..self.clone()
        }
    }

    fn door(&self) -> Arc<Door> {
        let door = match &self.which {
            Which::Shared => SHARED.get_or_init(Arc::default),
            Which::Own(door) => door,
        };
        Arc::clone(door)
    }

    /// Connects a new client. Returns the client's end of the link.
    fn enter<P: LocalPort>(
        &self,
        introduce: impl FnOnce(ClientId, MailboxRef<P>) -> Input,
    ) -> Result<Box<dyn Link<P>>, ConnectFailure> {
        let door = self.door();
        let inbox = door.open()?;
        let client = ClientId(door.last_client.fetch_add(1, Ordering::Relaxed) + 1);
        let mailbox = Arc::new(Mailbox::new()?);
        if !inbox.push(introduce(client, Arc::clone(&mailbox))) {
            let error = "the tracing service of this process has ended";
            return Err(io::Error::other(error).into());
        }
        Ok(Box::new(LocalLink::new(client, door, inbox, mailbox)))
    }
}

impl Default for InProcess {
    fn default() -> Self {
        Self::new()
    }
}

impl Connect<ProducerPort> for InProcess {
    fn connect(&self) -> Result<Box<dyn Link<ProducerPort>>, ConnectFailure> {
        let machine_id = self.machine_id;
        self.enter(|client, mailbox| Input::Producer(client, mailbox, machine_id))
    }

    fn advise(&self, producer: &mut ProducerOptions) {
        // Waking the threads that pass chunks on costs CPU time of the program.
        if producer.commit_batch.is_zero() {
            producer.commit_batch = COMMIT_BATCH;
        }
        if producer.memory_size_hint == 0 {
            producer.memory_size_hint = MEMORY_SIZE;
        }
    }
}

impl Connect<ConsumerPort> for InProcess {
    fn connect(&self) -> Result<Box<dyn Link<ConsumerPort>>, ConnectFailure> {
        self.enter(Input::Consumer)
    }
}

impl Door {
    /// Returns the inbox of the service. Starts the service if it does not run.
    fn open(&self) -> io::Result<Arc<Inbox>> {
        fork::watch()?;
        if self.forks != fork::forks() {
            let error = "the tracing service is one of the parent process";
            return Err(io::Error::other(error));
        }
        let mut open = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inbox) = open.as_ref().filter(|inbox| !inbox.is_dead()) {
            return Ok(Arc::clone(inbox));
        }
        let inbox = Arc::new(Inbox::new()?);
        let options = ServiceOptions {
            scrape_by_default: true,
            ..service_options()
        };
        let driver = Driver::new(Arc::clone(&inbox), options)?;
        thread::Builder::new()
            .name("ferretto-svc".to_owned())
            .spawn(move || driver.run())?;
        *open = Some(Arc::clone(&inbox));
        Ok(inbox)
    }
}

impl Default for Door {
    fn default() -> Self {
        Self {
            forks: fork::forks(),
            inbox: Mutex::default(),
            last_client: AtomicU64::new(0),
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let open = self.inbox.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(inbox) = open {
            inbox.abandon();
        }
    }
}
