//! The machine at the other end of a connection.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use rustix::net::{getpeername, getsockname};

use super::Socket;
use super::vsock::vsock_peer;

/// The address of another machine, as reported by the kernel. Only the network part of an IPv6
/// address counts, since a machine chooses the rest freely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PeerHost {
    /// An IP address.
    Ip(IpAddr),
    /// The context id of a virtual machine, or of its host.
    Vsock(u32),
}

/// The context id of connections within a machine.
const VSOCK_LOCAL: u32 = 1;

impl PeerHost {
    /// Returns the peer with an IP address.
    pub fn of_ip(address: IpAddr) -> Self {
        const NETWORK: u128 = !(u64::MAX as u128);
        Self::Ip(match address.to_canonical() {
            IpAddr::V6(v6) if !v6.is_loopback() => {
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & NETWORK))
            }
            address => address,
        })
    }
}

impl fmt::Display for PeerHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V6(v6)) if !v6.is_loopback() => write!(f, "{v6}/64"),
            Self::Ip(address) => address.fmt(f),
            Self::Vsock(cid) => write!(f, "vsock://{cid}"),
        }
    }
}

impl Socket {
    /// Returns the full IP address of the other machine; `None` if sockets of this kind are local,
    /// or the connection is gone.
    pub fn peer_ip(&self) -> Option<IpAddr> {
        if self.is_unix {
            return None;
        }
        let address = getpeername(&self.fd).ok()??;
        Some(SocketAddr::try_from(address).ok()?.ip().to_canonical())
    }

    /// Returns the machine at the other end; `None` if sockets of this kind are local, or the
    /// connection is gone.
    pub fn peer_host(&self) -> Option<PeerHost> {
        if self.is_unix {
            return None;
        }
        let vsock = || vsock_peer(std::os::fd::AsFd::as_fd(&self.fd)).map(PeerHost::Vsock);
        self.peer_ip().map(PeerHost::of_ip).or_else(vsock)
    }

    /// Returns true if the other end is on this machine, as far as addresses tell: local sockets,
    /// loopback, or the address at which this end was reached.
    pub fn is_from_here(&self) -> bool {
        match self.peer_host() {
            None => self.is_unix,
            Some(PeerHost::Vsock(cid)) => cid == VSOCK_LOCAL,
            Some(PeerHost::Ip(_)) => {
                let own = getsockname(&self.fd).ok();
                let own = own.and_then(|own| SocketAddr::try_from(own).ok());
                let own = own.map(|own| own.ip().to_canonical());
                let peer = self.peer_ip();
                peer.is_some_and(|peer| peer.is_loopback()) || (peer.is_some() && peer == own)
            }
        }
    }
}
