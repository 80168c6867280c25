//! Packets that are looked at where they are written, instead of being recorded.
//!
//! A recording whose data source config names an interceptor (`interceptor_config`) gets nothing
//! from this process for that data source: each packet is passed to the [`Interceptor`], on the
//! thread that writes it. There is one to begin with, `console`, which prints events as they
//! happen; [`register_interceptor`] adds others.
//!
//! If a config names an interceptor that nobody registered, its data is recorded as usual. Packets
//! that programs in C write by address are not seen by interceptors, nor recorded for such a
//! config.
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

/// Numbers of the sequences of packets that interceptors see.
static NEXT_SEQUENCE: AtomicU32 = AtomicU32::new(1);

/// Takes the packets of an instance of a data source. One is made for each instance.
pub trait Interceptor: Send + Sync + Sized + 'static {
    /// The state kept for each writer, that is, for each thread.
    type Writer: Send + 'static;

    /// A recording begins. Called on the background thread.
    fn set_up(config: &DataSourceConfig) -> Self;

    /// A thread begins to write.
    fn new_writer(&self) -> Self::Writer;

    /// A packet: an encoded `TracePacket`, whole. Its `trusted_packet_sequence_id` tells writers
    /// apart. Called on the thread that wrote it, at its end and inside the trace point: trace
    /// points in here do nothing, and the thread waits.
    fn packet(&self, writer: &mut Self::Writer, packet: &[u8]);
}

/// Makes an interceptor known under a name, for configs to choose. The first one of a name counts.
pub fn register_interceptor<I: Interceptor>(name: &str) {
    ferretto_engine::register_interceptor(name, factory::<I>());
}

/// Makes the interceptor `console` known unless another one has that name, as
/// [`init`](crate::init()) does. For programs that take part in recordings in other ways, such as
/// those in C.
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
