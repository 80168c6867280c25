//! The tracing service and the data sources that a recording uses: those of the system, or its own.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ferretto_client::transport::SERVICE_USER_VARIABLE;
use ferretto_client::{DaemonOptions, Notice};
use ferretto_heapprofd::Live;
use ferretto_host::{Host, HostOptions, Notice as HostNotice, NoticeSink, Stopper};
use ferretto_ipc::address::Address;
use ferretto_ipc::names;
use ferretto_perf::Profiler;
use ferretto_perf::event::Scope;
use ferretto_priority::{Priority, ThreadBoost};
use ferretto_probes::Probes;

use crate::errors::without_numbers;
use crate::preload;
use crate::private_folder::PrivateFolder;

/// The timeout of the registration of this process's data sources.
const READY_TIMEOUT: Duration = Duration::from_secs(5);

/// The priority of the thread that empties the kernel's buffers of events: nine times the share of
/// the CPU of others.
const AHEAD: Priority = Priority::Normal(10);

/// The longest time that an unread pipe may delay the end of the service.
const FILE_PATIENCE: Duration = Duration::from_secs(1);

/// The address that the session connects to.
#[derive(Debug)]
pub(crate) enum Backend {
    System(Address),
    Own(Box<Own>),
}

/// A service and data sources in threads of this process.
#[derive(Debug)]
pub(crate) struct Own {
    // Dropped in this order: producers before the service, and the folder last.
    profiler: Option<(ferretto_client::Stopper, JoinHandle<Result<()>>)>,
    heap: Option<(ferretto_client::Stopper, JoinHandle<Result<()>>)>,
    /// The environment variables for recording a command's heap.
    heap_variables: Vec<(&'static str, OsString)>,
    probes: Option<(ferretto_client::Stopper, JoinHandle<Result<()>>)>,
    host: Option<(Stopper, JoinHandle<Result<()>>)>,
    folder: PrivateFolder,
    /// The address that producers connect to.
    pub(crate) producer: Address,
    /// The address that consumers connect to.
    pub(crate) consumer: Address,
}

impl Backend {
    /// Uses the running service of this machine.
    pub(crate) fn system() -> Result<Self> {
        Ok(Self::System(
            names::consumer_address().context("cannot determine the address of the service")?,
        ))
    }

    /// Starts service and data sources; see [`Own::private`].
    pub(crate) fn own(
        report: impl Fn(&str, &str) + Send + Sync + 'static,
        waiting: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self> {
        let own = Own::private(report, waiting)?;
        Ok(Self::Own(Box::new(own)))
    }

    /// The address that consumers connect to.
    pub(crate) fn consumer(&self) -> Address {
        match self {
            Self::System(address) => address.clone(),
            Self::Own(own) => own.consumer.clone(),
        }
    }

    /// Returns the variables that a recorded command needs in its environment to find the service.
    pub(crate) fn variables(&self) -> Vec<(&'static str, OsString)> {
        match self {
            Self::System(_) => Vec::new(),
            Self::Own(own) => own.variables(),
        }
    }

    /// Stops the started threads.
    pub(crate) fn stop(&mut self) -> Result<()> {
        match self {
            Self::System(_) => Ok(()),
            Self::Own(own) => own.stop(),
        }
    }
}

impl Own {
    /// Starts service and data sources on sockets that only this user can reach. Returns once the
    /// data sources are registered. Another thread calls `report` with a message for each data
    /// source that could not be set up, and `waiting` with one if data sources delay the end of the
    /// recording.
    pub(crate) fn private(
        report: impl Fn(&str, &str) + Send + Sync + 'static,
        waiting: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self> {
        let folder = PrivateFolder::create()?;
        let mut host = HostOptions::in_folder(folder.path());
        host.only_user = Some(rustix::process::geteuid().as_raw());
        host.notices = NoticeSink::new(move |notice| {
            if let HostNotice::Waiting(_) = notice {
                waiting(&notice.to_string());
            }
        });
        // A second signal also ends the wait for pipes.
        host.limits.file_patience = FILE_PATIENCE;
        Self::start(host, folder, report)
    }

    /// Starts service and data sources on the sockets in the environment, or private ones; with
    /// `system`, on the system's sockets.
    pub(crate) fn from_environment(
        system: bool,
        report: impl Fn(&str, &str) + Send + Sync + 'static,
    ) -> Result<Self> {
        let folder = PrivateFolder::create()?;
        let mut host = HostOptions::in_folder(folder.path());
        let named = |variable| system || std::env::var_os(variable).is_some();
        if named(names::PRODUCER_SOCKET_VARIABLE) {
            host.producers =
                names::producer_addresses().context("cannot determine the producer socket")?;
        }
        if named(names::CONSUMER_SOCKET_VARIABLE) {
            host.consumer =
                names::consumer_address().context("cannot determine the consumer socket")?;
        }
        let report = Arc::new(report);
        let of_probes = Arc::clone(&report);
        let mut own = Self::start(host, folder, move |source, text| of_probes(source, text))?;
        // As in upstream, even if not needed yet: a later consumer may need it.
        own.run_profiler(None, move |notice| match notice {
            Notice::Failed { source, reason } => report(source, reason),
            Notice::Remark { source, text } => report(source, text),
            _ => {}
        })?;
        Ok(own)
    }

    /// The variables that a command needs in its environment to find the service.
    pub(crate) fn variables(&self) -> Vec<(&'static str, OsString)> {
        let address = self.producer.to_string().into();
        let user = rustix::process::geteuid().as_raw();
        let service = [
            (names::PRODUCER_SOCKET_VARIABLE, address),
            // The command may run programs as other users.
            (SERVICE_USER_VARIABLE, user.to_string().into()),
        ];
        service
            .into_iter()
            .chain(self.heap_variables.clone())
            .collect()
    }

    fn start(
        mut options: HostOptions,
        folder: PrivateFolder,
        report: impl Fn(&str, &str) + Send + Sync + 'static,
    ) -> Result<Self> {
        // The data sources are threads of this process. On a busy machine, they may answer late.
        options.service.trusted_pid = i32::try_from(std::process::id()).ok();
        let consumer = options.consumer.clone();
        let producer = options.producers.first().cloned();
        let producer = producer.context("there is no socket for producers")?;
        let host = Host::bind(options).context("cannot start the tracing service")?;
        let stopper = host.stopper();
        let thread = spawn("ferretto-service", move || Ok(host.run()?))?;
        let mut own = Self {
            profiler: None,
            heap: None,
            heap_variables: Vec::new(),
            probes: None,
            host: Some((stopper, thread)),
            folder,
            producer,
            consumer,
        };
        own.start_probes(report)?;
        Ok(own)
    }

    fn start_probes(&mut self, report: impl Fn(&str, &str) + Send + Sync + 'static) -> Result<()> {
        let (ready, is_ready) = mpsc::channel();
        let options = self.daemon_options(ready, move |notice| {
            if let Notice::Failed { source, reason } = notice {
                report(source, reason);
            }
        });
        let probes = Probes::new(options).context("cannot set up the data sources")?;
        let stopper = probes.stopper();
        let thread = spawn("ferretto-probes", move || {
            go_ahead();
            probes.run();
            Ok(())
        })?;
        self.probes = Some((stopper, thread));
        if is_ready.recv_timeout(READY_TIMEOUT).is_err() {
            self.stop()?;
            bail!("the data sources of this process did not start");
        }
        Ok(())
    }

    /// Starts the profiler for `scope`. Returns once its data sources are registered. Another
    /// thread calls `report` with messages for the user.
    pub(crate) fn start_profiler(
        &mut self,
        scope: Option<Scope>,
        report: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Arc<ProfilerStarts>> {
        let starts = Arc::new(ProfilerStarts::of("callstacks"));
        let noted = Arc::clone(&starts);
        self.run_profiler(scope, move |notice| noted.note(notice, &report))?;
        Ok(starts)
    }

    /// Starts the heap profiler for a command or, with `socket`, for programs that use that socket.
    /// Returns once its data source is registered. Another thread calls `report` with messages for
    /// the user.
    pub(crate) fn start_heap(
        &mut self,
        socket: Option<PathBuf>,
        report: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<(Arc<ProfilerStarts>, Arc<Live>)> {
        let starts = Arc::new(ProfilerStarts::of("the heap"));
        let noted = Arc::clone(&starts);
        let live = Arc::new(Live::default());
        let (ready, is_ready) = mpsc::channel();
        let is_private = socket.is_none();
        let socket = socket.unwrap_or_else(|| self.folder.path().join("heap"));
        let options = ferretto_heapprofd::Options {
            daemon: self.daemon_options(ready, move |notice| noted.note(notice, &report)),
            socket: Some(socket.clone()),
            live: Some(Arc::clone(&live)),
        };
        let profiler = ferretto_heapprofd::Profiler::new(options)
            .context("cannot set up the heap profiler")?;
        let stopper = profiler.stopper();
        let thread = spawn("heapprofd", move || {
            profiler.run();
            Ok(())
        })?;
        self.heap = Some((stopper, thread));
        if is_private {
            let library = self.folder.path().join(preload::NAME);
            preload::write(&library)?;
            self.heap_variables = preload::variables(&library, &socket);
        }
        if is_ready.recv_timeout(READY_TIMEOUT).is_err() {
            bail!("the heap profiler of this process did not start");
        }
        Ok((starts, live))
    }

    /// Returns the options of data sources of this process. `ready` gets a message when they are
    /// first registered.
    fn daemon_options(
        &self,
        ready: mpsc::Sender<()>,
        on_notice: impl Fn(&Notice) + Send + Sync + 'static,
    ) -> DaemonOptions {
        DaemonOptions {
            address: Some(self.producer.clone()),
            on_notice: Some(Arc::new(on_notice)),
            on_ready: Some(Arc::new(move || {
                // The receiver is gone after the first message.
                let _ = ready.send(());
            })),
            ..DaemonOptions::default()
        }
    }

    fn run_profiler(
        &mut self,
        scope: Option<Scope>,
        on_notice: impl Fn(&Notice) + Send + Sync + 'static,
    ) -> Result<()> {
        let (ready, is_ready) = mpsc::channel();
        let options = ferretto_perf::Options {
            daemon: self.daemon_options(ready, on_notice),
            scope,
            write_names: true,
            ..Default::default()
        };
        let profiler = Profiler::new(options).context("cannot set up the profiler")?;
        let stopper = profiler.stopper();
        let thread = spawn("ferretto-perf", move || {
            profiler.run();
            Ok(())
        })?;
        self.profiler = Some((stopper, thread));
        if is_ready.recv_timeout(READY_TIMEOUT).is_err() {
            bail!("the profiler of this process did not start");
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        let mut result = Ok(());
        if let Some((stopper, thread)) = self.profiler.take() {
            stopper.stop();
            result = join(thread).context("the profiler failed");
        }
        if let Some((stopper, thread)) = self.heap.take() {
            stopper.stop();
            result = result.and(join(thread).context("the heap profiler failed"));
        }
        if let Some((stopper, thread)) = self.probes.take() {
            stopper.stop();
            result = result.and(join(thread).context("the data sources failed"));
        }
        if let Some((stopper, thread)) = self.host.take() {
            stopper.stop();
            result = result.and(join(thread).context("the tracing service failed"));
        }
        result
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // Callers that handle errors have called `stop` already.
        let _ = self.stop();
    }
}

/// The error of a data source that would record nothing.
#[derive(Debug)]
pub(crate) struct NotProfiled {
    what: &'static str,
    reason: String,
}

impl fmt::Display for NotProfiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be recorded: {}", self.what, self.reason)
    }
}

impl std::error::Error for NotProfiled {}

/// Counts the started data sources of the profiler.
#[derive(Debug, Default)]
pub(crate) struct ProfilerStarts {
    what: &'static str,
    /// The number of started data sources, and why others failed.
    done: Mutex<(usize, Vec<String>)>,
    changed: Condvar,
}

impl ProfilerStarts {
    fn of(what: &'static str) -> Self {
        Self {
            what,
            ..Self::default()
        }
    }

    fn note(&self, notice: &Notice, report: &impl Fn(&str)) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        match notice {
            Notice::Started { .. } => done.0 += 1,
            Notice::Failed { reason, .. } => done.1.push(without_numbers(reason)),
            Notice::Remark { text, .. } => report(&without_numbers(text)),
            _ => return,
        }
        self.changed.notify_all();
    }

    /// Waits until `sources` data sources have started or failed, and returns the reasons of
    /// failures.
    ///
    /// # Errors
    ///
    /// Fails if all of them failed or timed out.
    pub(crate) fn wait(&self, sources: usize) -> Result<Vec<String>> {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = |done: &mut (usize, Vec<String>)| done.0 + done.1.len() < sources;
        let waited = self
            .changed
            .wait_timeout_while(done, READY_TIMEOUT, waiting);
        let (done, late) = waited.unwrap_or_else(PoisonError::into_inner);
        match (done.0, done.1.first()) {
            (0, Some(reason)) => Err(NotProfiled {
                what: self.what,
                reason: reason.clone(),
            }
            .into()),
            _ if late.timed_out() => bail!("the profiler did not start in time"),
            _ => Ok(done.1.clone()),
        }
    }
}

fn spawn(
    name: &str,
    run: impl FnOnce() -> Result<()> + Send + 'static,
) -> Result<JoinHandle<Result<()>>> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .context("cannot start a thread")
}

/// Raises the priority of the thread that empties the kernel's buffers of events, where this is
/// allowed. On a busy machine, it would otherwise wait for a CPU until they overflow.
fn go_ahead() {
    // Without the permission it records as well, but loses more.
    let _ = ThreadBoost::new().set(Some(AHEAD));
}

fn join(thread: JoinHandle<Result<()>>) -> Result<()> {
    match thread.join() {
        Ok(result) => result,
        Err(_) => bail!("it crashed; please report this"),
    }
}
