//! Connects to the host on a thread of its own, since resolving a name or reaching a machine that
//! is gone can block.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use ferretto_client::transport::WakeFd;
use ferretto_ipc::Address;
use ferretto_ipc::socket::{ConnectError, Security, Socket};

/// The outcome of a connection attempt.
#[derive(Debug)]
pub(crate) struct Dialled {
    /// The number passed to [`Dialler::dial`].
    pub(crate) number: u64,
    pub(crate) result: Result<Socket, ConnectError>,
}

/// Connects to one address. After a drop, the thread ends with its current attempt.
#[derive(Debug)]
pub(crate) struct Dialler {
    wanted: Sender<u64>,
    results: Receiver<Dialled>,
    wake: Arc<WakeFd>,
}

impl Dialler {
    pub(crate) fn new(address: Address, security: Option<Arc<dyn Security>>) -> io::Result<Self> {
        let (wanted, requests) = mpsc::channel();
        let (finished, results) = mpsc::channel();
        let wake = Arc::new(WakeFd::new()?);
        let waker = Arc::clone(&wake);
        std::thread::Builder::new()
            .name("relay-dial".to_owned())
            .spawn(move || {
                let connect = || Socket::connect_with(&address, security.as_deref());
                dial(&address, connect, &requests, &finished, &waker);
            })?;
        Ok(Self {
            wanted,
            results,
            wake,
        })
    }

    /// Requests a connection.
    pub(crate) fn dial(&self, number: u64) {
        // Sending fails only once the thread has ended.
        let _ = self.wanted.send(number);
    }

    /// Returns the outcome of an attempt, if one has ended.
    pub(crate) fn next(&self) -> Option<Dialled> {
        self.results.try_recv().ok()
    }

    /// Returns the descriptor that becomes readable when an attempt has ended.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd as _;
        self.wake.as_fd()
    }

    /// Clears the wake-up. Call it before [`next`](Self::next).
    pub(crate) fn woke(&self) {
        self.wake.clear();
    }
}

fn dial(
    address: &Address,
    connect: impl Fn() -> Result<Socket, ConnectError>,
    requests: &Receiver<u64>,
    finished: &Sender<Dialled>,
    wake: &WakeFd,
) {
    while let Ok(number) = requests.recv() {
        let result = connect();
        // The failure holds for all requests that arrived during the attempt.
        let failed = result.is_err();
        let first = Dialled { number, result };
        if finished.send(first).is_err() {
            return;
        }
        if failed {
            while let Ok(number) = requests.try_recv() {
                let source = io::Error::from(io::ErrorKind::HostUnreachable);
                let address = address.clone();
                let result = Err(ConnectError { address, source });
                let _ = finished.send(Dialled { number, result });
            }
        }
        wake.wake();
    }
}
