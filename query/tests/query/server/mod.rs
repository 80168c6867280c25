//! The server of the trace processor's protocol.

mod client;
mod http;
mod requests;
mod stream;
mod websocket;

use std::net::SocketAddr;
use std::time::Duration;

use ferretto_query::Options;
use ferretto_query::rpc::{Processor, Server, ServerOptions};

use self::client::{decode, number, post, query, request, text};

/// Starts a server in this process.
fn server() -> SocketAddr {
    server_with_patience(Duration::from_secs(60))
}

/// Starts a server in which requests wait at most so long for those before them.
fn server_with_patience(patience: Duration) -> SocketAddr {
    let import = ferretto_tables::Options::default();
    let processor = Processor::new(Options::default(), import, Vec::new()).expect("processor");
    let options = ServerOptions {
        address: "127.0.0.1".to_owned(),
        port: 0,
        origins: Vec::new(),
    };
    let server = Server::bind(&options, processor).expect("a port");
    let server = server.with_patience(patience);
    let address = server.addresses()[0];
    std::thread::spawn(move || server.run());
    address
}
