//! A service for other machines, and relays. All end with the test.

pub mod recording;
pub mod throughput;
pub mod upstream;

use std::os::fd::BorrowedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferretto_client::Address;
use ferretto_host::{Host, HostOptions, RelayEndpoints};
use ferretto_ipc::machine::Machine;
use ferretto_proto::fields::trace_packet::REMOTE_CLOCK_SYNC;
use ferretto_proto::{Message as _, RemoteClockSync};
use ferretto_relay::{NoticeSink, Relay, RelayOptions};
use ferretto_wire::Fields;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::client::{LIMIT, unique_address};

/// A service with an address for other machines.
pub struct World {
    pub remote: Address,
    pub consumers: Address,
    stopper: ferretto_host::Stopper,
    thread: Option<JoinHandle<()>>,
}

impl World {
    pub fn start() -> Self {
        Self::start_at(&any_port())
    }

    /// Starts the service; `None` if it cannot listen at `remote`.
    pub fn try_start(remote: &Address) -> Option<Self> {
        Self::bind(remote, |_| {}).ok()
    }

    pub fn start_at(remote: &Address) -> Self {
        Self::start_with(remote, |_| {})
    }

    pub fn start_with(remote: &Address, change: impl FnOnce(&mut HostOptions)) -> Self {
        Self::bind(remote, change).unwrap()
    }

    fn bind(
        remote: &Address,
        change: impl FnOnce(&mut HostOptions),
    ) -> Result<Self, ferretto_host::HostError> {
        let consumers = unique_address("consumer");
        let mut options = HostOptions::at(vec![remote.clone()], consumers.clone());
        options.relays = RelayEndpoints::Everywhere;
        change(&mut options);
        let host = Host::bind(options)?;
        let mut remote = remote.clone();
        if let (Address::Tcp { port, .. }, Some(chosen)) = (&mut remote, host.producer_port()) {
            *port = chosen;
        }
        let stopper = host.stopper();
        let thread = std::thread::spawn(move || host.run().unwrap());
        Ok(Self {
            remote,
            consumers,
            stopper,
            thread: Some(thread),
        })
    }
}

/// Returns the address of any free port.
pub fn any_port() -> Address {
    Address::Tcp {
        host: "127.0.0.1".to_owned(),
        port: 0,
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Returns the identity of a test machine.
pub fn machine(name: &str) -> Machine {
    Machine {
        id_hint: format!("id of {name}").into_bytes(),
        name: name.as_bytes().to_vec(),
    }
}

pub struct TestRelay {
    pub address: Address,
    stopper: ferretto_relay::Stopper,
    thread: Option<JoinHandle<()>>,
    notices: Mutex<Receiver<String>>,
}

impl TestRelay {
    pub fn start(host: &Address, machine: Machine) -> Self {
        Self::start_at(unique_address("relay"), host, machine)
    }

    pub fn start_at(listen: Address, host: &Address, machine: Machine) -> Self {
        Self::start_with(RelayOptions {
            machine,
            ..RelayOptions::new(listen, host.clone())
        })
    }

    pub fn start_with(mut options: RelayOptions) -> Self {
        let (sink, notices) = mpsc::channel();
        options.notices = NoticeSink::new(move |notice| {
            let _ = sink.send(notice.to_string());
        });
        let relay = Relay::bind(options).unwrap();
        let address = relay.address().clone();
        let stopper = relay.stopper();
        let thread = std::thread::spawn(move || relay.run().unwrap());
        Self {
            address,
            stopper,
            thread: Some(thread),
            notices: Mutex::new(notices),
        }
    }

    /// Waits for a matching notice, and returns it.
    pub fn notice(&self, wanted: impl Fn(&str) -> bool) -> String {
        let notices = self.notices.lock().unwrap();
        loop {
            let notice = notices.recv_timeout(LIMIT).unwrap();
            if wanted(&notice) {
                return notice;
            }
        }
    }

    /// Waits until the relay is connected to the host.
    pub fn wait_connected(&self) {
        self.notice(|notice| notice.starts_with("connected to"));
    }
}

impl Drop for TestRelay {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

pub fn read(consumer: &mut ferretto_client::Consumer) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let take = |packet: &[u8]| {
        packets.push(packet.to_vec());
        Ok::<(), std::convert::Infallible>(())
    };
    consumer.read_buffers(LIMIT, take).unwrap();
    packets
}

pub fn number(packet: &[u8], field: u32) -> Option<u64> {
    Fields::find(field, packet)?.as_u64()
}

/// Connects to an abstract socket.
pub fn stream(address: &Address) -> UnixStream {
    let Address::Abstract(name) = address else {
        panic!("{address:?}")
    };
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
}

pub fn wait_readable(fd: BorrowedFd<'_>) {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let patience = Timespec {
        tv_sec: LIMIT.as_secs() as i64,
        tv_nsec: 0,
    };
    assert_eq!(poll(&mut fds, Some(&patience)).unwrap(), 1);
}

/// Repeats `attempt` until it returns a value.
pub fn wait_until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(result) = attempt() {
            return result;
        }
        assert!(Instant::now() < end, "timed out");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the offsets of the boot time clock in all clock snapshots of a trace.
pub fn boottime_offsets(packets: &[Vec<u8>]) -> Vec<i64> {
    let mut offsets = Vec::new();
    for packet in packets {
        let Some(sync) = Fields::find(REMOTE_CLOCK_SYNC, packet) else {
            continue;
        };
        let sync = RemoteClockSync::decode_from_slice(sync.as_bytes().unwrap()).unwrap();
        for exchange in &sync.synced_clocks {
            let boottime = |snapshot: &ferretto_proto::ClockSnapshot| {
                let clocks = snapshot.clocks.iter();
                let mut clocks = clocks.filter(|clock| clock.clock_id == Some(6));
                clocks.next().and_then(|clock| clock.timestamp).unwrap() as i64
            };
            offsets.push(boottime(&exchange.client_clocks) - boottime(&exchange.host_clocks));
        }
    }
    offsets
}
