//! Servers.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::inbox::{Inbox, News};
use crate::reactor::{Listener, Reactor};
use crate::site::{Limits, Permission, Site};

/// The number of connections that wait to be accepted. During a flood, the kernel makes further
/// ones wait for a second.
const BACKLOG: i32 = 4096;

/// A handle that sends events.
#[derive(Clone)]
pub struct Handle(Arc<Inbox>);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl Handle {
    /// Sends an event with a number to the clients of all event streams that do not know it.
    pub fn event(&self, name: &'static str, number: u64) {
        self.0.send(News::Event(name, number));
    }
}

/// A server that does not run yet.
pub struct Server {
    limits: Limits,
    permission: Permission,
    listeners: Vec<Listener>,
    inbox: Arc<Inbox>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Server");
        shown.field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Server {
    /// Returns a server for TCP connections from peers with permission.
    ///
    /// # Errors
    ///
    /// Fails if the process has no descriptors left.
    pub fn new(limits: Limits, permission: Permission) -> io::Result<Self> {
        let inbox = Inbox::new()?;
        Ok(Self {
            limits,
            permission,
            listeners: Vec::new(),
            inbox: Arc::new(inbox),
        })
    }

    /// Adds a listener.
    ///
    /// # Errors
    ///
    /// Fails if the socket does not listen.
    pub fn listen(&mut self, listener: TcpListener) -> io::Result<()> {
        prepare(&listener)?;
        self.listeners.push(Listener::Tcp(listener));
        Ok(())
    }

    /// Adds a listener for sessions without HTTP.
    ///
    /// # Errors
    ///
    /// Fails if the socket does not listen.
    pub fn listen_for_sessions(&mut self, listener: UnixListener) -> io::Result<()> {
        prepare(&listener)?;
        self.listeners.push(Listener::Unix(listener));
        Ok(())
    }

    /// Returns a handle that sends events.
    pub fn handle(&self) -> Handle {
        Handle(self.inbox.clone())
    }

    /// Starts to serve.
    ///
    /// # Errors
    ///
    /// Fails if no thread can be started.
    pub fn start(self, name: &str, site: impl Site) -> io::Result<Running> {
        let inbox = self.inbox.clone();
        let reactor = Reactor::new(
            self.limits,
            self.permission,
            self.listeners,
            self.inbox,
            Arc::new(site),
        )?;
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || reactor.run())?;
        let thread = Some(thread);
        Ok(Running { inbox, thread })
    }
}

fn prepare(listener: &impl AsFd) -> io::Result<()> {
    rustix::net::listen(listener, BACKLOG)?;
    rustix::io::ioctl_fionbio(listener, true)?;
    Ok(())
}

/// A server that runs until this is dropped.
pub struct Running {
    inbox: Arc<Inbox>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

impl Running {
    /// Ends the server after clients have received the replies that are under way.
    pub fn finish(self) {
        self.inbox.send(News::Finish);
        self.wait();
    }

    /// Waits until the server ends, which it does not do by itself.
    pub fn wait(mut self) {
        if let Some(thread) = self.thread.take() {
            // The panic has printed its message.
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.inbox.send(News::Stop);
            let _ = thread.join();
        }
    }
}
