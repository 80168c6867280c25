//! Other machines: which of them may connect, how often, and under which names.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ferretto_ipc::machine::Machine;
use ferretto_ipc::socket::{PeerHost, Socket};

/// The number of connections that any machine may have.
const FEW: usize = 16;
/// The name of the host in configs.
const HOST_NAME: &[u8] = b"host";
/// The largest length of a machine's name, as of producers' names.
const MAX_NAME: usize = 4096;

/// A machine that may connect: an address, a network, or a virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedHost {
    /// All addresses that share this many bits with this one.
    Network(IpAddr, u8),
    /// The context id of a virtual machine.
    Vsock(u32),
}

/// The reason why a text does not name a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not an address such as 10.0.0.1, a network such as 10.0.0.0/8, or vsock://CID")]
pub struct NoSuchHost(String);

impl FromStr for AllowedHost {
    type Err = NoSuchHost;

    fn from_str(text: &str) -> Result<Self, NoSuchHost> {
        let no_such = || NoSuchHost(text.to_owned());
        if let Some(cid) = text.strip_prefix("vsock://") {
            return Ok(Self::Vsock(cid.parse().map_err(|_| no_such())?));
        }
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| no_such())?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().map_err(|_| no_such())?,
            None => all,
        };
        if bits > all {
            return Err(no_such());
        }
        Ok(Self::Network(address, bits))
    }
}

impl AllowedHost {
    fn includes(&self, ip: Option<IpAddr>, peer: PeerHost) -> bool {
        match (*self, ip, peer) {
            (Self::Network(IpAddr::V4(network), bits), Some(IpAddr::V4(ip)), _) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                (network.to_bits() ^ ip.to_bits()) & mask == 0
            }
            (Self::Network(IpAddr::V6(network), bits), Some(IpAddr::V6(ip)), _) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                (network.to_bits() ^ ip.to_bits()) & mask == 0
            }
            (Self::Vsock(cid), None, PeerHost::Vsock(peer)) => cid == peer,
            _ => false,
        }
    }
}

/// The reason why another machine is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteRefusal {
    /// The machine may not connect.
    NotAllowed,
    /// The machine has too many connections.
    TooMany,
    /// The machine claims the name of the host.
    CalledHost,
    /// The name of the machine is too long.
    LongName,
    /// The machine claims to be one that is connected from another address.
    OtherMachine,
    /// The machine claims to be this one.
    OwnBoot,
    /// The certificate is not for the name that the machine claims.
    OtherName,
}

impl fmt::Display for RemoteRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAllowed => "it may not connect",
            Self::TooMany => "it has as many connections as it may",
            Self::CalledHost => "it calls itself \"host\", which is this machine",
            Self::LongName => "its name has more than 4096 bytes",
            Self::OtherMachine => "it says it is a machine that is connected from another address",
            Self::OwnBoot => {
                "it has the boot id of this machine; in a container, set FERRETTO_MACHINE_ID"
            }
            Self::OtherName => {
                "its certificate is not for the name that it gives itself (PERFETTO_MACHINE_NAME)"
            }
        })
    }
}

/// A connection from another machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RemoteClient {
    pub(crate) host: PeerHost,
    /// True if the connection is from this machine.
    is_from_here: bool,
    /// The machine that it claims to be.
    machine: Option<u32>,
}

/// The connections of other machines.
#[derive(Debug, Default)]
pub(crate) struct Remotes {
    allowed: Vec<AllowedHost>,
    /// The ids that only this machine may claim.
    own_ids: Vec<u32>,
    connections: HashMap<PeerHost, usize>,
    /// The connected machines with their address and the number of connections.
    machines: HashMap<u32, (PeerHost, usize)>,
}

impl Remotes {
    /// Allows only these machines to connect, or all if there are none.
    pub(crate) fn allow(&mut self, allowed: Vec<AllowedHost>) {
        self.allowed = allowed;
    }

    /// Counts a connection of another machine, unless it is refused. `most` is the limit of all
    /// machines together.
    pub(crate) fn admit(
        &mut self,
        socket: &Socket,
        most: usize,
    ) -> Result<Option<RemoteClient>, (PeerHost, RemoteRefusal)> {
        let Some(host) = socket.peer_host() else {
            return Ok(None);
        };
        let ip = socket.peer_ip();
        let is_allowed = |allowed: &AllowedHost| allowed.includes(ip, host);
        if !self.allowed.is_empty() && !self.allowed.iter().any(is_allowed) {
            return Err((host, RemoteRefusal::NotAllowed));
        }
        // An equal share among the present machines and one more.
        let hosts = self.connections.len() + usize::from(!self.connections.contains_key(&host));
        let share = (most / (hosts + 1)).max(FEW);
        let count = self.connections.entry(host).or_default();
        if *count >= share {
            return Err((host, RemoteRefusal::TooMany));
        }
        *count += 1;
        if self.own_ids.is_empty() {
            self.own_ids = Machine::ids_of_boot();
        }
        Ok(Some(RemoteClient {
            host,
            is_from_here: socket.is_from_here(),
            machine: None,
        }))
    }

    /// Sets the machine of a connection, unless it may not claim that machine.
    pub(crate) fn identify(
        &mut self,
        client: &mut RemoteClient,
        machine: u32,
        name: &[u8],
    ) -> Result<(), RemoteRefusal> {
        if name.len() > MAX_NAME {
            return Err(RemoteRefusal::LongName);
        }
        if is_like_host(name) {
            return Err(RemoteRefusal::CalledHost);
        }
        if self.own_ids.contains(&machine) && !client.is_from_here {
            return Err(RemoteRefusal::OwnBoot);
        }
        // The connection has not claimed a machine.
        if machine == 0 || client.machine.is_some() {
            return Ok(());
        }
        let (from, count) = self.machines.entry(machine).or_insert((client.host, 0));
        if *from != client.host {
            return Err(RemoteRefusal::OtherMachine);
        }
        *count += 1;
        client.machine = Some(machine);
        Ok(())
    }

    /// Removes a connection from the counts. Call this when it ends.
    pub(crate) fn release(&mut self, client: RemoteClient) {
        if let Some(count) = self.connections.get_mut(&client.host) {
            *count -= 1;
            if *count == 0 {
                self.connections.remove(&client.host);
            }
        }
        if let Some(machine) = client.machine
            && let Some((_, count)) = self.machines.get_mut(&machine)
        {
            *count -= 1;
            if *count == 0 {
                self.machines.remove(&machine);
            }
        }
    }
}

/// Returns true if people could read a name as that of the host: in any case, with white space or
/// control characters.
fn is_like_host(name: &[u8]) -> bool {
    let is_shown = |byte: &u8| byte.is_ascii_graphic() || !byte.is_ascii();
    let shown = name.iter().copied().filter(is_shown);
    shown
        .map(|byte| byte.to_ascii_lowercase())
        .eq(HOST_NAME.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn includes(allowed: &str, ip: &str) -> bool {
        let ip: IpAddr = ip.parse().unwrap();
        let allowed: AllowedHost = allowed.parse().unwrap();
        allowed.includes(Some(ip), PeerHost::of_ip(ip))
    }

    #[test]
    fn networks_include_their_addresses() {
        assert!(includes("10.0.0.1", "10.0.0.1"));
        assert!(!includes("10.0.0.1", "10.0.0.2"));
        assert!(includes("10.0.0.0/8", "10.255.3.4"));
        assert!(!includes("10.0.0.0/8", "11.0.0.1"));
        assert!(includes("0.0.0.0/0", "1.2.3.4"));
        assert!(!includes("0.0.0.0/0", "fd00::1"));
        assert!(includes("fd00::/16", "fd00:1::7"));
        assert!(!includes("fd00::/16", "fd01::7"));
        assert!(includes("::/0", "fd00::1"));
        for wrong in [
            "",
            "10.0.0.1/33",
            "fd00::/129",
            "host",
            "vsock://x",
            "1.2.3.4/",
        ] {
            assert!(wrong.parse::<AllowedHost>().is_err(), "{wrong}");
        }
        let vsock: AllowedHost = "vsock://7".parse().unwrap();
        assert!(vsock.includes(None, PeerHost::Vsock(7)));
        assert!(!vsock.includes(None, PeerHost::Vsock(8)));
    }

    #[test]
    fn a_machine_can_connect_from_only_one_address() {
        let client = |last| RemoteClient {
            host: PeerHost::of_ip(IpAddr::from([10, 0, 0, last])),
            is_from_here: false,
            machine: None,
        };
        let mut remotes = Remotes {
            own_ids: vec![77, 78],
            ..Remotes::default()
        };
        let (mut one, mut same, mut other) = (client(1), client(1), client(2));
        assert_eq!(remotes.identify(&mut one, 7, b"a"), Ok(()));
        assert_eq!(remotes.identify(&mut same, 7, b"a"), Ok(()));
        let refused = remotes.identify(&mut other, 7, b"a");
        assert_eq!(refused, Err(RemoteRefusal::OtherMachine));
        assert_eq!(remotes.identify(&mut other, 8, b"a"), Ok(()));
        remotes.release(one);
        let mut moved = client(3);
        assert!(remotes.identify(&mut moved, 7, b"a").is_err());
        remotes.release(same);
        assert_eq!(remotes.identify(&mut moved, 7, b"a"), Ok(()));
        for name in ["host", "HOST", " host\n", "host\0", "ho st"] {
            let refused = remotes.identify(&mut client(4), 9, name.as_bytes());
            assert_eq!(refused, Err(RemoteRefusal::CalledHost), "{name:?}");
        }
        assert_eq!(remotes.identify(&mut client(4), 9, b"hosts"), Ok(()));
        let refused = remotes.identify(&mut client(5), 10, &[b'a'; 4097]);
        assert_eq!(refused, Err(RemoteRefusal::LongName));
        let refused = remotes.identify(&mut client(5), 78, b"a");
        assert_eq!(refused, Err(RemoteRefusal::OwnBoot));
        let mut local = RemoteClient {
            is_from_here: true,
            ..client(6)
        };
        assert_eq!(remotes.identify(&mut local, 78, b"a"), Ok(()));
    }
}
