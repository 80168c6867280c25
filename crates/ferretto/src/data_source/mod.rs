//! Data sources of one's own.

mod context;
mod handle;
mod instance;
mod options;
mod registered;

use ferretto_engine::{Completion, FlushFlags};

pub use context::TraceContext;
pub use handle::DataSourceHandle;
pub use instance::Instance;
pub use options::{DataSourceOptions, register_data_source};

pub(crate) use context::flush_thread;

/// Reacts to recordings that want this data source, and defines the state of threads for it.
///
/// ```
/// use ferretto::{DataSource, DataSourceHandle, Instance, register_data_source};
///
/// struct Temperatures;
///
/// impl DataSource for Temperatures {
///     type Instance = ();
///     type Thread = ();
///
///     fn setup(&self, _: &ferretto::proto::DataSourceConfig) {}
/// }
///
/// let temperatures = register_data_source("com.example.temperatures", Temperatures)?;
/// temperatures.trace(|context| {
///     context.new_packet().nested(900, |message| message.string(1, "21 degrees"));
/// });
/// # Ok::<(), ferretto::RegisterError>(())
/// ```
///
/// The methods `setup` to `clear_incremental_state` are called on ferretto's background thread,
/// which must not be held up; for each instance in the order of its life. If one panics, tracing
/// goes on.
pub trait DataSource: Sized + Send + Sync + 'static {
    /// The data that belongs to an instance. It is dropped when the instance has stopped and nobody
    /// holds it any more.
    type Instance: Send + Sync + 'static;

    /// The state each thread keeps for each instance, to be had from [`TraceContext::state`]: for
    /// example what it need not repeat because it wrote it before.
    type Thread: Default + 'static;

    /// A recording is being prepared. Nothing is recorded yet.
    fn setup(&self, config: &crate::proto::DataSourceConfig) -> Self::Instance;

    /// The recording starts. Trace points record already.
    fn start(&self, _instance: &Instance<Self>) {}

    /// The recording is to end. Trace points go on recording until `completion` is dropped, which
    /// may be later and on another thread; it should be within five seconds. Writers made with
    /// [`Instance::create_writer`] should be flushed before that.
    fn stop(&self, _instance: &Instance<Self>, completion: Completion) {
        completion.complete();
    }

    /// Hands over buffered data: writers made with [`Instance::create_writer`] should be flushed
    /// before `completion` is dropped, which may be later and on another thread. The service
    /// fetches the data of the writers of [`DataSourceHandle::trace`] by itself.
    fn flush(&self, _instance: &Instance<Self>, _flags: FlushFlags, completion: Completion) {
        completion.complete();
    }

    /// Packets from now on must make sense without those before. The state of threads is cleared by
    /// [`clear_thread`](Self::clear_thread).
    fn clear_incremental_state(&self, _instance: &Instance<Self>) {}

    /// Makes a thread's state for an instance, on that thread.
    fn thread(&self, _instance: &Instance<Self>) -> Self::Thread {
        Self::Thread::default()
    }

    /// Clears a thread's state, on that thread, before its next packet: that must make sense
    /// without those before. Returns whether it did; otherwise the thread gets a new one from
    /// [`thread`](Self::thread).
    fn clear_thread(&self, _thread: &mut Self::Thread) -> bool {
        false
    }

    /// Returns whether an instance of [startup tracing](crate::StartupTracing) fits the request of
    /// a service. By default, if the configs are the same apart from fields that only services
    /// know.
    fn can_adopt(
        &self,
        startup: &crate::proto::DataSourceConfig,
        config: &crate::proto::DataSourceConfig,
    ) -> bool {
        ferretto_engine::is_same_config(startup, config)
    }
}
