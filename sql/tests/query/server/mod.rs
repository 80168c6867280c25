//! The server of the trace processor's protocol.

mod client;
mod http;
mod requests;
mod stream;
mod websocket;

use std::net::SocketAddr;

use ferretto_query::Options;
use ferretto_query::rpc::{Processor, Server, ServerOptions};

use self::client::{decode, number, post, query, request, text};

/// Starts a server in this process.
fn server() -> SocketAddr {
    let import = ferretto_tables::Options::default();
    let processor = Processor::new(Options::default(), import, Vec::new()).expect("processor");
    let options = ServerOptions {
        address: "127.0.0.1".to_owned(),
        port: 0,
        origins: Vec::new(),
    };
    let server = Server::bind(&options, processor).expect("a port");
    let address = server.addresses()[0];
    std::thread::spawn(move || server.run());
    address
}
