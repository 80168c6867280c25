//! A host on sockets in a temporary folder, and blocking clients.
#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod fuse;
pub(crate) mod passing;

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::Duration;

use ferretto_host::{Host, HostOptions, NoticeSink, Stopper};
use ferretto_ipc::Address;
use ferretto_ipc::client::{Connection, DisconnectReason, Event, Reply};
use ferretto_ipc::frame;
use ferretto_ipc::port::{Port, consumer, producer};
use ferretto_ipc::socket::{Received, Socket};
use ferretto_proto::{
    DataSourceConfig, DataSourceDescriptor, EnableTracingRequest, InitializeConnectionRequest,
    MessageField, RegisterDataSourceRequest, TraceConfig, trace_config,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A test that waits longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running host.
pub(crate) struct TestHost {
    folder: tempfile::TempDir,
    stopper: Stopper,
    thread: Option<JoinHandle<std::io::Result<()>>>,
    notices: Mutex<Receiver<String>>,
    pub(crate) port: Option<u16>,
}

impl TestHost {
    pub(crate) fn start() -> Self {
        Self::start_with(|_| {})
    }

    pub(crate) fn start_with(change: impl FnOnce(&mut HostOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = HostOptions::in_folder(folder.path());
        let (sink, notices) = mpsc::channel();
        options.notices = NoticeSink::new(move |notice| {
            let _ = sink.send(notice.to_string());
        });
        change(&mut options);
        let host = Host::bind(options).unwrap();
        let (stopper, port) = (host.stopper(), host.producer_port());
        let thread = std::thread::spawn(move || host.run());
        Self {
            folder,
            stopper,
            thread: Some(thread),
            notices: Mutex::new(notices),
            port,
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn producer_path(&self) -> PathBuf {
        self.folder().join("producer.sock")
    }

    pub(crate) fn consumer_path(&self) -> PathBuf {
        self.folder().join("consumer.sock")
    }

    pub(crate) fn producer_socket(&self) -> Socket {
        Socket::connect(&Address::Path(self.producer_path())).unwrap()
    }

    pub(crate) fn consumer_socket(&self) -> Socket {
        Socket::connect(&Address::Path(self.consumer_path())).unwrap()
    }

    pub(crate) fn producer(&self) -> Client<producer::Port> {
        Client::bind(self.producer_socket())
    }

    pub(crate) fn consumer(&self) -> Client<consumer::Port> {
        Client::bind(self.consumer_socket())
    }

    /// Waits for the next notice.
    pub(crate) fn notice(&self) -> String {
        self.notices.lock().unwrap().recv_timeout(PATIENCE).unwrap()
    }

    pub(crate) fn try_notice(&self) -> Option<String> {
        self.notices.lock().unwrap().try_recv().ok()
    }

    /// Checks that the host still serves both sockets.
    pub(crate) fn assert_alive(&self) {
        let mut producer = self.producer();
        producer.initialize("alive");
        let reply = producer.call(&producer::Request::Sync(Default::default()));
        assert!(reply.result.is_ok());
        let mut consumer = self.consumer();
        let reply = consumer.call(&consumer::Request::QueryCapabilities(Default::default()));
        assert!(reply.result.is_ok());
    }

    pub(crate) fn stop(mut self) {
        self.join();
    }

    /// Ends the host and checks its remains, before its folder is removed.
    pub(crate) fn stop_after(mut self, check: impl FnOnce() -> bool) {
        // A connection made now is served after the earlier ones.
        self.assert_alive();
        self.join();
        assert!(check());
    }

    fn join(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for TestHost {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.join();
        }
    }
}

pub(crate) fn wait(fd: impl AsFd, flags: PollFlags) {
    let mut fds = [PollFd::new(&fd, flags)];
    let patience = Timespec {
        tv_sec: PATIENCE.as_secs() as i64,
        tv_nsec: 0,
    };
    assert_ne!(
        poll(&mut fds, Some(&patience)).unwrap(),
        0,
        "nothing happened for {PATIENCE:?}"
    );
}

/// A client that blocks until answers arrive.
pub(crate) struct Client<P: Port>(pub(crate) Connection<P>);

impl<P: Port> Client<P> {
    pub(crate) fn bind(socket: Socket) -> Self {
        Self::bound(Connection::new(socket))
    }

    pub(crate) fn bound(connection: Connection<P>) -> Self {
        let mut client = Self(connection);
        assert!(matches!(client.event(), Event::Bound));
        client
    }

    /// Waits for the next event.
    pub(crate) fn event(&mut self) -> Event<P> {
        loop {
            if let Some(event) = self.0.poll_event() {
                return event;
            }
            let write = if self.0.wants_write() {
                PollFlags::OUT
            } else {
                PollFlags::empty()
            };
            wait(&self.0, PollFlags::IN | write);
            self.0.process();
        }
    }

    /// Waits for the next reply.
    pub(crate) fn reply(&mut self) -> Reply<P> {
        match self.event() {
            Event::Reply(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    /// Calls a method and returns its reply; replies to earlier calls are dropped.
    pub(crate) fn call(&mut self, request: &P::Request) -> Reply<P> {
        let id = self.0.invoke(request, None, true).unwrap();
        loop {
            let reply = self.reply();
            if reply.request_id == id {
                return reply;
            }
        }
    }

    pub(crate) fn disconnect_reason(&mut self) -> DisconnectReason {
        loop {
            if let Event::Disconnected(reason) = self.event() {
                return reason;
            }
        }
    }
}

impl Client<producer::Port> {
    pub(crate) fn initialize(&mut self, name: &str) {
        let request = producer::Request::InitializeConnection(InitializeConnectionRequest {
            producer_name: Some(name.into()),
            ..Default::default()
        });
        assert!(self.call(&request).result.is_ok());
    }

    pub(crate) fn register(&mut self, data_source: &str) {
        let descriptor = DataSourceDescriptor {
            name: Some(data_source.into()),
            ..Default::default()
        };
        let request = producer::Request::RegisterDataSource(RegisterDataSourceRequest {
            data_source_descriptor: MessageField::some(descriptor),
            ..Default::default()
        });
        assert!(self.call(&request).result.is_ok());
    }

    pub(crate) fn open_commands(&mut self) {
        let request = producer::Request::GetAsyncCommand(Default::default());
        self.0.invoke(&request, None, true).unwrap();
    }
}

/// Returns a request for a session with one small buffer and one data source.
pub(crate) fn enable(
    data_source: &str,
    change: impl FnOnce(&mut TraceConfig),
) -> consumer::Request {
    let mut config = TraceConfig::default();
    config.buffers.push(trace_config::BufferConfig {
        size_kb: Some(64),
        ..Default::default()
    });
    let source = DataSourceConfig {
        name: Some(data_source.into()),
        ..Default::default()
    };
    config.data_sources.push(trace_config::DataSource {
        config: MessageField::some(source),
        ..Default::default()
    });
    change(&mut config);
    consumer::Request::EnableTracing(EnableTracingRequest {
        trace_config: MessageField::some(config),
        ..Default::default()
    })
}

/// Sends bytes unchanged, waiting for space. Returns true if the other side took all.
pub(crate) fn send_raw(socket: &Socket, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        wait(socket, PollFlags::OUT);
        let flags = rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT;
        match rustix::net::send(socket, bytes, flags) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(rustix::io::Errno::AGAIN) => {}
            Err(_) => return false,
        }
    }
    true
}

/// Returns the payload of the next frame; `None` if the other side has closed.
pub(crate) fn read_frame(socket: &Socket) -> Option<Vec<u8>> {
    let header = read_exact(socket, 4)?;
    let size = u32::from_le_bytes(header.try_into().unwrap());
    read_exact(socket, size as usize)
}

fn read_exact(socket: &Socket, size: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; size];
    let mut filled = 0;
    while filled < size {
        wait(socket, PollFlags::IN);
        match socket.receive(&mut bytes[filled..]) {
            Ok(Received::Data { len, .. }) => filled += len,
            Ok(Received::WouldBlock) => {}
            Ok(Received::Closed) | Err(_) => return None,
        }
    }
    Some(bytes)
}

/// Reads until the other side closes.
pub(crate) fn wait_closed(socket: &Socket) {
    while read_frame(socket).is_some() {}
}

pub(crate) fn bind_frame(name: &str) -> Vec<u8> {
    frame::bind_service(1, name)
}
