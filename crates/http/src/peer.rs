//! The user at the other end of a loopback connection.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use rustix::process::geteuid;

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A program of this user of the machine.
    User(u32),
    /// A program of the machine, whose user the kernel does not show.
    Unknown,
    /// A program of another machine.
    Remote,
}

/// Users of the machine.
#[derive(Debug, Clone)]
pub struct Users(Vec<u32>);

impl Users {
    /// Returns the user of this process, root, which can read its files anyway, and the user who
    /// called `sudo`, whose browser it is.
    pub fn own() -> Self {
        let own = geteuid().as_raw();
        let caller = std::env::var("SUDO_UID").ok();
        let caller = caller.filter(|_| own == 0).and_then(|it| it.parse().ok());
        Self([0, own].into_iter().chain(caller).collect())
    }

    /// Returns true if the user is one of these.
    pub fn contain(&self, user: u32) -> bool {
        self.0.contains(&user)
    }
}

/// A source of the users of connections.
#[derive(Debug)]
pub struct Peers(Source);

impl Default for Peers {
    fn default() -> Self {
        Self::new()
    }
}

impl Peers {
    /// Returns a source that works, as a connection of this process shows.
    pub fn new() -> Self {
        Self(Source::new())
    }

    /// Returns the other ends of connections; `None` for those that have ended.
    pub fn of(&self, streams: &[&TcpStream]) -> Vec<Option<Peer>> {
        self.0.of(streams)
    }
}

#[derive(Debug)]
enum Source {
    /// Questions to the kernel about one connection.
    Diagnosis(OwnedFd),
    /// The kernel's list of all connections, whose cost is its length.
    Table,
    /// None that works on this machine.
    Unknown,
}

impl Source {
    fn new() -> Self {
        let Ok((_client, probe)) = connection() else {
            return Self::Unknown;
        };
        let own = geteuid().as_raw();
        let flags = SocketFlags::CLOEXEC;
        let diagnosis = socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            flags,
            Some(netlink::SOCK_DIAG),
        );
        let found = |peers: &Self| peers.of(&[&probe]) == [Some(Peer::User(own))];
        let first = diagnosis.ok().map(Self::Diagnosis);
        let sources = first.into_iter().chain([Self::Table]);
        let mut working = sources.filter(found);
        working.next().unwrap_or(Self::Unknown)
    }

    /// Returns the other ends of connections; `None` for those that have ended. The list of all
    /// connections is read at most once.
    fn of(&self, streams: &[&TcpStream]) -> Vec<Option<Peer>> {
        let mut table = None;
        let peer = |stream: &&TcpStream| {
            let (theirs, ours) = (stream.peer_addr().ok()?, stream.local_addr().ok()?);
            let (theirs, ours) = (canonical(theirs), canonical(ours));
            if !theirs.ip().is_loopback() {
                return Some(Peer::Remote);
            }
            match self {
                Self::Diagnosis(socket) => ask(socket, theirs, ours).map(Peer::User),
                Self::Table => {
                    let table = table.get_or_insert_with(Self::read_table);
                    find(table, theirs, ours).map(Peer::User)
                }
                Self::Unknown => Some(Peer::Unknown),
            }
        };
        streams.iter().map(peer).collect()
    }

    fn read_table() -> String {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
        let read = |table| fs::read_to_string(table).unwrap_or_default();
        tables.map(read).concat()
    }
}

/// Returns both ends of a connection.
fn connection() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let own = client.local_addr()?;
    // Another program may have been faster.
    loop {
        let (stream, peer) = listener.accept()?;
        if peer == own {
            return Ok((client, stream));
        }
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The type of messages about sockets by their family.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
/// The lengths of the headers of netlink messages, of requests, and of replies up to the inode.
const HEADER: usize = 16;
const REQUEST: usize = 56;
const REPLY: usize = HEADER + 72;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;

/// Asks the kernel for the user of the socket that is bound to `local` and connected to `remote`.
/// Returns `None` if no program has it open.
fn ask(socket: &OwnedFd, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let mut request = Vec::with_capacity(HEADER + REQUEST);
    request.extend(((HEADER + REQUEST) as u32).to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and port.
    request.extend([0; 8]);
    let family = if local.is_ipv4() { AF_INET } else { AF_INET6 };
    request.extend([family, IPPROTO_TCP, 0, 0]);
    // All states.
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(local.port().to_be_bytes());
    request.extend(remote.port().to_be_bytes());
    for address in [local, remote] {
        let mut bytes = [0; 16];
        match address.ip() {
            IpAddr::V4(ip) => bytes[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => bytes.copy_from_slice(&ip.octets()),
        }
        request.extend(bytes);
    }
    // Any interface, and no cookie.
    request.extend([0; 4]);
    request.extend([0xff; 8]);
    send(socket, &request, SendFlags::empty()).ok()?;
    let mut reply = [0; 1024];
    let mut length = 0;
    // The kernel replies before the call above returns. Earlier replies may be there if memory was
    // short, so the last one counts.
    while let Ok((received, _)) = recv(socket, &mut reply, RecvFlags::DONTWAIT) {
        length = received;
    }
    let reply = reply.get(..length)?;
    let kind = reply.get(4..6)?;
    if kind != SOCK_DIAG_BY_FAMILY.to_ne_bytes() || length < REPLY {
        return None;
    }
    let number = |from: usize| {
        let bytes: [u8; 4] = reply.get(from..from + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(bytes))
    };
    let (user, inode) = (number(REPLY - 8)?, number(REPLY - 4)?);
    // A socket that its program has closed has no inode, and seems to be root's.
    (inode != 0).then_some(user)
}

/// Finds the user of the socket that is bound to `local` and connected to `remote`.
fn find(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    table.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let found = (words.next()?, words.next()?);
        // State, queues, timer, retransmissions.
        let user = words.nth(4)?;
        let inode = words.nth(1)?;
        let is_it = address(found.0)? == local && address(found.1)? == remote;
        (is_it && inode != "0").then(|| user.parse().ok()).flatten()
    })
}

/// Parses an address as the kernel prints it: words of four bytes in the machine's order.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let word = u32::from_str_radix(host.get(8 * at..8 * at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let ip = match host.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                *four = word(at)?;
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(canonical(SocketAddr::new(ip, port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(address: &str) -> Option<(TcpStream, TcpStream)> {
        let listener = TcpListener::bind((address, 0)).ok()?;
        let client = TcpStream::connect(listener.local_addr().ok()?).ok()?;
        let (stream, _) = listener.accept().ok()?;
        Some((client, stream))
    }

    #[test]
    fn both_sources_know_the_user_of_open_connections_only() {
        let own = Some(Peer::User(geteuid().as_raw()));
        for host in ["127.0.0.1", "::1"] {
            let Some((client, stream)) = both(host) else {
                println!("skipped: this machine has no {host}");
                continue;
            };
            let mut sources = vec![Source::Table];
            match Source::new() {
                Source::Table => println!("skipped: the kernel has no socket diagnosis"),
                found => sources.push(found),
            }
            for source in &sources {
                assert_eq!(source.of(&[&stream, &stream]), [own, own], "{source:?}");
            }
            // A closed socket has no user, and is not root's.
            drop(client);
            for source in &sources {
                assert_eq!(source.of(&[&stream]), [None], "{source:?}");
            }
        }
    }
}
