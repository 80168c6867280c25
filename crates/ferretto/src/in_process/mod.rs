//! The tracing service inside this process: recordings without a daemon, sockets or files.
//!
//! The service is the one that also runs in `traced`, as a thread of this process. Producers and
//! consumers reach it by passing their requests over, and the memory that events are written to is
//! memory of this process.
//!
//! # What to know
//!
//! - [`InProcess::shared`] is the service of this process; [`InProcess::new`] makes more, each with
//!   sessions and buffers of its own, which know nothing of each other.
//! - The thread, named `ferretto-svc`, starts when the first producer or consumer connects. While
//!   nobody asks for anything it sleeps. Trace files are written by threads of their own, named
//!   `trace-file`.
//! - Packets carry the true user id and process id of this process. (Upstream says 0 for both, so
//!   that such traces cannot be told apart or merged.)
//! - Shared memory is private to the process: after a fork the child has a copy of it, and what the
//!   child writes there never reaches its parent. A forked child has a shared service of its own,
//!   made when it is asked for; services made with [`InProcess::new`] stay with the parent, and
//!   cannot be connected to any more.
//! - The service makes no difference between who asks: all of its clients are this process.
//!
//! # What it costs
//!
//! The thread that records hands full chunks over under a lock, and wakes the service's thread only
//! when the first of a batch is full, and when half of the memory is (1 MiB, unless the options say
//! otherwise): a few times per megabyte. The service copies each chunk once, into the session's
//! buffer. Without sessions it has no memory to speak of.
//!
//! # Limits
//!
//! Buffers end with the process: sessions that write into files should be stopped
//! before.
//!
//! Built as it is for this crate, the service knows neither compression nor regular expressions nor
//! priorities, and says so to configs that ask for them; programs that want them enable the
//! features of `ferretto-service`. The priority of its thread is never changed. There are no
//! relays, and traces do not tell the time zone. The time stamp counter is among the clocks only
//! with feature `tsc`.

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

/// The time chunks wait for others, if nothing else is wanted.
const COMMIT_BATCH: Duration = Duration::from_millis(5);
/// Size of a producer's memory, if nothing else is wanted, in bytes.
const MEMORY_SIZE: u32 = 1024 * 1024;

/// A tracing service in this process. Cheap to clone; all clones mean the same service.
///
/// It ends, and completes its files, when all of them and all links to it are gone. Give it to
/// [`Producer::through`](ferretto_client::Producer::through) and
/// [`Consumer::connect_through`](ferretto_client::Consumer::connect_through).
#[derive(Clone, Debug)]
pub struct InProcess {
    which: Which,
    machine_id: u32,
}

#[derive(Clone, Debug)]
enum Which {
    /// The one that everyone in the process shares: in a forked child another one than in its
    /// parent.
    Shared,
    Own(Arc<Door>),
}

static SHARED: PerProcess<Arc<Door>> = PerProcess::new();

/// The state that all who can reach the service share.
#[derive(Debug)]
struct Door {
    forks: u32,
    /// The queue that the thread takes its work from, once there is one.
    inbox: Mutex<Option<Arc<Inbox>>>,
    last_client: AtomicU64,
}

impl InProcess {
    /// A service of its own. Its thread starts with the first connection.
    pub fn new() -> Self {
        Self {
            which: Which::Own(Arc::default()),
            machine_id: 0,
        }
    }

    /// The service that everyone in this process shares. In a forked child this value means the
    /// child's own.
    pub fn shared() -> Self {
        Self {
            which: Which::Shared,
            machine_id: 0,
        }
    }

    /// The same service, to which producers that connect through the result seem to be on another
    /// machine. Their packets carry the number, and only sessions that want this machine, or all
    /// machines (`trace_all_machines`), record them. 0 is the machine of the service.
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

    /// Tells the service of a new client, and returns the client's end.
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
        // The threads that pass chunks on have to be woken, on CPUs that the program could use
        // itself.
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
    /// The way to the service, which is started if it does not run.
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
