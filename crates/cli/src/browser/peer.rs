//! The user at the other end of a loopback connection.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};

/// Returns the user whose socket is connected to this one; `None` if unknown.
pub(crate) fn user(stream: &TcpStream) -> Option<u32> {
    let (theirs, ours) = (stream.peer_addr().ok()?, stream.local_addr().ok()?);
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .find_map(|table| find(&fs::read_to_string(table).ok()?, theirs, ours))
}

/// Finds the user of the socket that is bound to `local` and connected to `remote`.
fn find(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let found = (words.next()?, words.next()?);
        // State, queues, timer, retransmissions.
        let user = words.nth(4)?;
        (address(found.0)? == local && address(found.1)? == remote)
            .then(|| user.parse().ok())
            .flatten()
    })
}

/// Formats an address as the kernel does: words of four bytes in the machine's order.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let host = host.get(host.len().checked_sub(8)?..)?;
    // The last word of an IPv6 socket's address contains the IPv4 address.
    let host = u32::from_str_radix(host, 16).ok()?.to_ne_bytes();
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(host)), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_of_this_program_is_this_user_s() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(user(&stream), Some(own));
    }
}
