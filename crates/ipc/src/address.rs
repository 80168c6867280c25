//! The address of a tracing socket: filesystem path, abstract name, TCP or vsock.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;

/// The largest length of a UNIX socket's filesystem path, in bytes.
///
/// `sun_path` has 108 bytes; upstream reserves one for the terminating NUL, and refuses a string
/// that fills the rest.
pub const MAX_SOCKET_PATH: usize = 106;

/// The address of a listening or connecting socket.
///
/// The text alone determines the family, in upstream's order: `@name`, `vsock://cid:port`, a text
/// with a number after its last colon (`host:port`, `[v6]:port`), and otherwise a filesystem path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A socket file. A path longer than [`MAX_SOCKET_PATH`] fails when used.
    Path(PathBuf),
    /// A name in the abstract namespace, without the leading `@` and without NULs.
    Abstract(Vec<u8>),
    /// A TCP host (name or number, IPv6 without brackets) and port.
    Tcp {
        /// The name or numeric address; resolved when used.
        host: String,
        /// The port number.
        port: u16,
    },
    /// A virtual machine socket.
    Vsock {
        /// The context id; `u32::MAX` means any.
        cid: u32,
        /// The port number.
        port: u32,
    },
}

/// The reason why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// The text is empty.
    Empty,
    /// The text is `@` without a name.
    EmptyAbstractName,
    /// The text contains a NUL byte.
    NulByte,
    /// The text ends with a colon and a number, but is not `host:port` or `[host]:port`.
    MalformedTcp(String),
    /// The text after `vsock://` does not have two parts.
    MalformedVsock(String),
}

ferretto_wire::error_text! {
    AddressError {
        Self::Empty => "the socket name is empty",
        Self::EmptyAbstractName => "\"@\" is not followed by an abstract socket name",
        Self::NulByte => "the socket name contains a NUL byte",
        Self::MalformedTcp(text) =>
            "\"{text}\" is not of the form HOST:PORT or [HOST]:PORT with a port from 0 to 65535",
        Self::MalformedVsock(text) => "\"{text}\" is not of the form vsock://CID:PORT",
    }
}

impl Address {
    /// Parses an address given as bytes, as found in an environment variable.
    ///
    /// # Errors
    ///
    /// See [`AddressError`].
    pub fn parse(text: &[u8]) -> Result<Self, AddressError> {
        if text.is_empty() {
            return Err(AddressError::Empty);
        }
        if text.contains(&0) {
            return Err(AddressError::NulByte);
        }
        if let Some(name) = text.strip_prefix(b"@") {
            return match name {
                [] => Err(AddressError::EmptyAbstractName),
                name => Ok(Self::Abstract(name.to_vec())),
            };
        }
        if let Some(rest) = text.strip_prefix(b"vsock://") {
            return parse_vsock(rest).ok_or_else(|| AddressError::MalformedVsock(lossy(text)));
        }
        match text.iter().rposition(|&byte| byte == b':') {
            Some(colon) if is_integer(&text[colon + 1..]) => {
                parse_tcp(text, colon).ok_or_else(|| AddressError::MalformedTcp(lossy(text)))
            }
            _ => Ok(Self::Path(PathBuf::from(OsStr::from_bytes(text)))),
        }
    }

    /// Parses an address given as an operating system string.
    ///
    /// # Errors
    ///
    /// See [`AddressError`].
    pub fn from_os_str(text: &OsStr) -> Result<Self, AddressError> {
        Self::parse(text.as_bytes())
    }

    /// Parses a comma-separated list of addresses; empty items are dropped.
    ///
    /// Only a service parses its producer name as a list; clients use theirs as a whole.
    ///
    /// # Errors
    ///
    /// Returns the error of the first item that is not an address.
    pub fn parse_list(text: &[u8]) -> Result<Vec<Self>, AddressError> {
        text.split(|&byte| byte == b',')
            .filter(|item| !item.is_empty())
            .map(Self::parse)
            .collect()
    }

    /// Returns true if descriptors and peer credentials can be sent over this address.
    pub fn is_unix(&self) -> bool {
        matches!(self, Self::Path(_) | Self::Abstract(_))
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        Self::parse(text.as_bytes())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(out),
            Self::Abstract(name) => write!(out, "@{}", lossy(name)),
            Self::Tcp { host, port } if host.contains(':') => write!(out, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(out, "{host}:{port}"),
            Self::Vsock { cid, port } => write!(out, "vsock://{cid}:{port}"),
        }
    }
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// Returns true if the whole text is a decimal integer, by which the family is determined.
fn is_integer(text: &[u8]) -> bool {
    let digits = match text {
        [b'-' | b'+', rest @ ..] => rest,
        digits => digits,
    };
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn parse_tcp(text: &[u8], colon: usize) -> Option<Address> {
    let (host, port) = (&text[..colon], &text[colon + 1..]);
    let host = match host {
        [b'[', inner @ .., b']'] => inner,
        [b'[', ..] => return None,
        host if host.contains(&b':') => return None,
        host => host,
    };
    if host.is_empty() {
        return None;
    }
    Some(Address::Tcp {
        host: std::str::from_utf8(host).ok()?.to_owned(),
        port: std::str::from_utf8(port).ok()?.parse().ok()?,
    })
}

fn parse_vsock(text: &[u8]) -> Option<Address> {
    let mut parts = text.split(|&byte| byte == b':');
    let (cid, port) = (parts.next()?, parts.next()?);
    if parts.next().is_some() || cid.is_empty() || port.is_empty() {
        return None;
    }
    Some(Address::Vsock {
        cid: low_bits(cid),
        port: low_bits(port),
    })
}

/// Returns the low 32 bits of the result of C's `strtoul`, so that `-1` means "any", and text
/// without a number means 0.
fn low_bits(text: &[u8]) -> u32 {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        digits => (false, digits),
    };
    let mut value: u64 = 0;
    for digit in digits.iter().take_while(|byte| byte.is_ascii_digit()) {
        let next = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(u64::from(digit - b'0')));
        match next {
            Some(next) => value = next,
            None => return u32::MAX,
        }
    }
    let value = if negative {
        value.wrapping_neg()
    } else {
        value
    };
    value as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Address, AddressError> {
        text.parse()
    }

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp {
            host: host.to_owned(),
            port,
        }
    }

    #[test]
    fn ipc_024_the_family_follows_from_the_text() {
        assert_eq!(parse("@name"), Ok(Address::Abstract(b"name".to_vec())));
        assert_eq!(parse("@a:1"), Ok(Address::Abstract(b"a:1".to_vec())));
        assert_eq!(
            parse("vsock://2:3000"),
            Ok(Address::Vsock { cid: 2, port: 3000 })
        );
        assert_eq!(
            parse("vsock://-1:1"),
            Ok(Address::Vsock {
                cid: u32::MAX,
                port: 1
            })
        );
        assert_eq!(parse("127.0.0.1:32278"), Ok(tcp("127.0.0.1", 32278)));
        assert_eq!(parse("localhost:1"), Ok(tcp("localhost", 1)));
        assert_eq!(parse("[::1]:80"), Ok(tcp("::1", 80)));
        assert_eq!(parse("/tmp/sock"), Ok(Address::Path("/tmp/sock".into())));
        assert_eq!(parse("/tmp/a:b"), Ok(Address::Path("/tmp/a:b".into())));
        assert_eq!(parse("/tmp/a:1"), Ok(tcp("/tmp/a", 1)));
        assert_eq!(parse(""), Err(AddressError::Empty));
        assert_eq!(parse("@"), Err(AddressError::EmptyAbstractName));
    }

    #[test]
    fn malformed_numbers_are_errors_not_aborts() {
        for text in [
            ":80",
            "a:b:80",
            "[::1:80",
            "host:65536",
            "host:-1",
            "::1:80",
        ] {
            assert!(
                matches!(parse(text), Err(AddressError::MalformedTcp(_))),
                "{text}"
            );
        }
        for text in ["vsock://", "vsock://1", "vsock://1:", "vsock://1:2:3"] {
            assert!(
                matches!(parse(text), Err(AddressError::MalformedVsock(_))),
                "{text}"
            );
        }
        assert_eq!(
            parse("vsock://99999999999999999999999:x"),
            Ok(Address::Vsock {
                cid: u32::MAX,
                port: 0
            })
        );
    }

    #[test]
    fn ipc_026_lists_are_split_at_commas_and_empty_items_dropped() {
        assert_eq!(
            Address::parse_list(b",@a,,/tmp/b,"),
            Ok(vec![
                Address::Abstract(b"a".to_vec()),
                Address::Path("/tmp/b".into())
            ])
        );
        assert_eq!(Address::parse_list(b""), Ok(vec![]));
        // A client uses its value as a whole.
        assert_eq!(
            parse("/tmp/a,/tmp/b"),
            Ok(Address::Path("/tmp/a,/tmp/b".into()))
        );
    }

    #[test]
    fn addresses_print_as_they_are_written() {
        for text in ["@name", "vsock://2:3", "h:1", "[::1]:2", "/run/x.sock"] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
    }
}
