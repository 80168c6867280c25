//! Custom data sources.

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

/// A custom data source: reacts to recordings and defines the state of threads.
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
/// The methods from `setup` to `clear_incremental_state` are called on ferretto's background
/// thread, which they must not block; for each instance in the order of its life cycle. If one
/// panics, tracing goes on.
pub trait DataSource: Sized + Send + Sync + 'static {
    /// The data of an instance. It is dropped when the instance has stopped and is no longer in
    /// use.
    type Instance: Send + Sync + 'static;

    /// The state of a thread for an instance, available from [`TraceContext::state`]: for example
    /// the strings that it has already written.
    type Thread: Default + 'static;

    /// Called when a recording is set up. Nothing is recorded yet.
    fn setup(&self, config: &crate::proto::DataSourceConfig) -> Self::Instance;

    /// Called when the recording starts. Trace points already record.
    fn start(&self, _instance: &Instance<Self>) {}

    /// Called when the recording is about to stop. Trace points continue to record until
    /// `completion` is dropped, which may happen later and on another thread, but should happen
    /// within five seconds. Writers created with [`Instance::create_writer`] should be flushed
    /// before that.
    fn stop(&self, _instance: &Instance<Self>, completion: Completion) {
        completion.complete();
    }

    /// Called to flush buffered data: writers created with [`Instance::create_writer`] should be
    /// flushed before `completion` is dropped, which may happen later and on another thread. The
    /// service itself reads the data of the writers of [`DataSourceHandle::trace`].
    fn flush(&self, _instance: &Instance<Self>, _flags: FlushFlags, completion: Completion) {
        completion.complete();
    }

    /// Called when further packets must not depend on previous ones. The state of threads is
    /// cleared by [`clear_thread`](Self::clear_thread).
    fn clear_incremental_state(&self, _instance: &Instance<Self>) {}

    /// Creates a thread's state for an instance, on that thread.
    fn thread(&self, _instance: &Instance<Self>) -> Self::Thread {
        Self::Thread::default()
    }

    /// Clears a thread's state, on that thread, before its next packet, which must not depend on
    /// previous ones. Returns true if the state was cleared; otherwise the thread gets a new state
    /// from [`thread`](Self::thread).
    fn clear_thread(&self, _thread: &mut Self::Thread) -> bool {
        false
    }

    /// Returns true if an instance of [startup tracing](crate::StartupTracing) matches the request
    /// of a service. By default, the configs must be equal except for fields that only services
    /// set.
    fn can_adopt(
        &self,
        startup: &crate::proto::DataSourceConfig,
        config: &crate::proto::DataSourceConfig,
    ) -> bool {
        ferretto_engine::is_same_config(startup, config)
    }
}
