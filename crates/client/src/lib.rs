//! Producer and consumer endpoints of the tracing service.
//!
//! The main types:
//!
//! - [`Producer`] registers data sources with a service, and creates writers for the shared memory.
//!   If the service is absent, exits or sends malformed messages, the producer reconnects with
//!   growing pauses. Packets written meanwhile are discarded without blocking.
//! - [`Consumer`] controls a recording and reads it. Every call has a time limit. It is built on
//!   [`Recording`], a state machine without I/O, for programs with their own event loop.
//!
//! [`Daemon`] is the producer of a daemon with data sources, [`Timer`] their periodic work, and
//! [`PacketSink`] the destination of their packets.
//!
//! Both connect over sockets, or through any other [`transport`]. [`destination`] are the files
//! into which recordings are written.
//!
//! Neither starts threads. The owner drives a producer from a poll loop or a thread; its
//! [`ProducerHandle`] and all writers can be used from any thread.
#![forbid(unsafe_code)]

mod consumer;
mod daemon;
pub mod destination;
pub mod machine;
mod options;
mod packet_sink;
mod producer;
pub mod recording;
mod timer;
pub mod transport;
mod wake;

pub use consumer::{Consumer, ConsumerEvent};
pub use daemon::{Daemon, DaemonOptions, Notice, NoticeHandler, Stopper};
pub use ferretto_ipc::Address;
pub use ferretto_ipc::port::consumer as consumer_port;
pub use ferretto_shm::{
    ChunkSink, Deliver, ExhaustedPolicy, FlushCallback, Packet, RawRange, TraceWriter,
    WriteByAddress,
};
pub use options::{Pauses, ProducerOptions, Scraping};
pub use packet_sink::PacketSink;
pub use producer::{Event, InstanceId, LostReason, Producer, ProducerHandle, WriterFactory};
pub use recording::{CallError, ClonedSession, PacketTooLarge, ReadError, Recording, SessionEnd};
pub use timer::Timer;
