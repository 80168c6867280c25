//! Interceptors: code of the program that receives packets as they are written.
//!
//! If a data source config names an interceptor (`interceptor_config`), this process records
//! nothing for that data source. Each packet is passed to the [`Interceptor`] instead, on the
//! thread that writes it. The interceptor `console`, which prints events as they happen, is built
//! in; [`register_interceptor`] adds others.
//!
//! If a config names an unknown interceptor, its data is recorded as usual. Packets that C programs
//! write directly into shared memory are not passed to interceptors, and are not recorded for such
//! a config.
//!
//! ```
//! use ferretto::interceptor::{Interceptor, register_interceptor};
//! use ferretto::proto::DataSourceConfig;
//!
//! /// Counts packets by thread.
//! struct Counter;
//!
//! impl Interceptor for Counter {
//!     type Writer = u32;
//!
//!     fn set_up(_config: &DataSourceConfig) -> Self {
//!         Counter
//!     }
//!
//!     fn new_writer(&self) -> u32 {
//!         0
//!     }
//!
//!     fn packet(&self, count: &mut u32, _packet: &[u8]) {
//!         *count += 1;
//!     }
//! }
//!
//! register_interceptor::<Counter>("counter");
//! ```

mod console;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ferretto_client::{TraceWriter, WriterFactory};
use ferretto_engine::InterceptorFactory;
use ferretto_proto::DataSourceConfig;

use self::console::Console;

/// The next packet sequence id that interceptors see.
static NEXT_SEQUENCE: AtomicU32 = AtomicU32::new(1);

/// Receives the packets of one instance of a data source.
pub trait Interceptor: Send + Sync + Sized + 'static {
    /// The state of one writer, that is, of one thread.
    type Writer: Send + 'static;

    /// Creates an interceptor when a recording starts. Called on the background thread.
    fn set_up(config: &DataSourceConfig) -> Self;

    /// Creates the state of a writer when a thread writes its first packet.
    fn new_writer(&self) -> Self::Writer;

    /// Receives a packet, a complete encoded `TracePacket`. Its `trusted_packet_sequence_id`
    /// identifies the writer. Called on the writing thread, inside the trace point: the thread
    /// waits, and trace points within this method have no effect.
    fn packet(&self, writer: &mut Self::Writer, packet: &[u8]);
}

/// Registers an interceptor under a name that configs can use. Later registrations of the same name
/// have no effect.
pub fn register_interceptor<I: Interceptor>(name: &str) {
    ferretto_engine::register_interceptor(name, factory::<I>());
}

/// Registers the interceptor `console` unless the name is taken, as [`init`](crate::init()) does.
/// For programs that are set up in other ways, such as those in C.
pub fn provide_console() {
    ferretto_engine::provide_interceptor("console", factory::<Console>());
}

fn factory<I: Interceptor>() -> InterceptorFactory {
    Arc::new(|config| {
        let instance = Arc::new(I::set_up(config));
        WriterFactory::new(move || writer(Arc::clone(&instance)))
    })
}

fn writer<I: Interceptor>(instance: Arc<I>) -> TraceWriter {
    let mut state = instance.new_writer();
    let sequence = NEXT_SEQUENCE.fetch_add(1, Ordering::Relaxed);
    let deliver = move |packet: &[u8]| instance.packet(&mut state, packet);
    TraceWriter::local(sequence, Box::new(deliver))
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}
