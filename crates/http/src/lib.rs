//! The HTTP server of pages and programs on the same machine: HTTP/1.1, event streams, WebSocket,
//! and the same sessions over Unix sockets.
//!
//! - [`Server`] listens. One thread reads all connections, and a fixed number of threads answers.
//! - [`Site`] judges requests by their heads, and answers them.
//! - [`Client`] tells a handler that its client is gone.
//! - [`Limits`] and [`Budget`] bound connections, times and memory.
//! - [`Peer`] is the user of a connection, [`Peers`] finds it, [`Ticket`] an address that is of use
//!   only once.
#![forbid(unsafe_code)]

mod budget;
mod connection;
mod head;
mod inbox;
mod peer;
mod reactor;
mod reply;
mod response;
mod secret;
mod server;
mod site;
mod websocket;
mod workers;

pub use budget::{Budget, Buffer, OverBudget};
pub use head::Head;
pub use peer::{Peer, Peers, Users};
pub use reply::{Client, Length, Reply, Sender};
pub use response::Response;
pub use secret::{Ticket, is_same, random_name};
pub use server::{Handle, Running, Server};
pub use site::{After, Events, Limits, Permission, Request, Session, Site};
