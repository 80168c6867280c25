//! Services that listen at an address.

use ferretto_ipc::address::AddressError;
use ferretto_ipc::client::Connection;
use ferretto_ipc::machine::Machine;
use ferretto_ipc::socket::Socket;
use ferretto_ipc::{Address, names};

use super::trust::Trust;
use super::{Connect, ConnectFailure, ConsumerPort, Link, ProducerPort};

/// The service at an address. Connects to its sockets any number of times.
///
/// Producers send no data to a service on this machine that belongs to a user other than root or
/// their own, unless that user is trusted ([`trusting`](Self::trusting),
/// [`SERVICE_USER_VARIABLE`](super::SERVICE_USER_VARIABLE)) or appointed by root as the account
/// `traced` or the owner of `/run/perfetto`.
#[derive(Clone, Debug, Default)]
pub struct AtAddress {
    producers: Option<Address>,
    consumers: Option<Address>,
    trusted: Vec<u32>,
}

impl AtAddress {
    /// Returns the service of this machine, or the one in the environment at the time of each
    /// attempt: `PERFETTO_PRODUCER_SOCK_NAME` and `PERFETTO_CONSUMER_SOCK_NAME`.
    pub fn from_environment() -> Self {
        Self::default()
    }

    /// Sets the address of the producer socket.
    #[must_use]
    pub fn producers_at(mut self, address: Address) -> Self {
        self.producers = Some(address);
        self
    }

    /// Sets the address of the consumer socket.
    #[must_use]
    pub fn consumers_at(mut self, address: Address) -> Self {
        self.consumers = Some(address);
        self
    }

    /// Trusts services of these users with the data of producers.
    #[must_use]
    pub fn trusting(mut self, users: &[u32]) -> Self {
        self.trusted.extend(users);
        self
    }

    /// Returns true if the environment names a service on this machine for producers. The parent
    /// process then intends to record this process with it.
    pub fn is_named_for_producers() -> bool {
        std::env::var_os(names::PRODUCER_SOCKET_VARIABLE).is_some()
            && matches!(
                names::producer_address(),
                Ok(Address::Path(_) | Address::Abstract(_))
            )
    }

    fn producer_address(&self) -> Result<Address, AddressError> {
        match &self.producers {
            Some(address) => Ok(address.clone()),
            None => names::producer_address(),
        }
    }

    fn consumer_address(&self) -> Result<Address, AddressError> {
        match &self.consumers {
            Some(address) => Ok(address.clone()),
            None => names::consumer_address(),
        }
    }
}

impl Connect<ProducerPort> for AtAddress {
    fn connect(&self) -> Result<Box<dyn Link<ProducerPort>>, ConnectFailure> {
        let address = self.producer_address()?;
        let socket = Socket::connect(&address)?;
        let mut trust = Trust::from_environment();
        trust.add(&self.trusted);
        trust.check(&address, &socket)?;
        if socket.is_unix() {
            return Ok(Box::new(Connection::new(socket)));
        }
        // The kernel of another machine cannot identify this process.
        let machine = Machine::this();
        let identity = machine.identity(std::process::id() as i32, ferretto_shm::user_id());
        Ok(Box::new(Connection::with_identity(socket, &identity)))
    }

    fn awaited(&self) -> Option<Address> {
        self.producer_address().ok()
    }
}

impl Connect<ConsumerPort> for AtAddress {
    fn connect(&self) -> Result<Box<dyn Link<ConsumerPort>>, ConnectFailure> {
        let socket = Socket::connect(&self.consumer_address()?)?;
        Ok(Box::new(Connection::new(socket)))
    }

    fn awaited(&self) -> Option<Address> {
        self.consumer_address().ok()
    }
}
