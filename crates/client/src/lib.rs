//! Producer and consumer endpoints of the tracing service.
//!
//! The two types to know:
//!
//! - [`Producer`] offers data sources to a service and gives their instances writers for the memory
//!   it shares with it. It survives anything the service does: one that is absent, dies or sends
//!   malformed messages is tried again with growing pauses, and packets written meanwhile are
//!   discarded without waiting.
//! - [`Consumer`] controls a recording and reads it. Every call has a time limit. Beneath it is a
//!   [`Recording`], a state machine without input and output, for owners with a loop of their own.
//!
//! [`Daemon`] is the producer of a program that is nothing but data sources.
//!
//! Both reach the service over sockets, or through any other [`transport`].
//!
//! Neither starts threads. A producer is driven by its owner, from a poll loop or a thread of its
//! own; its [`ProducerHandle`] and all writers may be used from any thread.
#![forbid(unsafe_code)]

mod consumer;
mod daemon;
pub mod machine;
mod options;
mod producer;
pub mod recording;
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
pub use producer::{Event, InstanceId, LostReason, Producer, ProducerHandle, WriterFactory};
pub use recording::{CallError, ClonedSession, PacketTooLarge, ReadError, Recording, SessionEnd};
