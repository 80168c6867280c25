//! A request without its body.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A request without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The method, for example `GET`.
    pub method: String,
    /// The path as it was sent.
    pub path: String,
    /// The part of the target after the question mark.
    pub query: String,
    /// The host and port of the request.
    pub host: Option<String>,
    /// The origin of the page that sent the request, if the browser sends one.
    pub origin: Option<String>,
    /// The relation between the origin of the request and this server, if the browser sends it.
    pub site: Option<String>,
    /// The key and the version of a WebSocket handshake.
    pub websocket: (Option<String>, Option<String>),
    /// The number of bytes of the body.
    pub length: usize,
    /// True if the client sends the body only after it is told to go on.
    pub waits: bool,
    /// True if the connection stays open for more requests.
    pub keep: bool,
}

impl Head {
    /// Parses a request. Returns `None` if it is malformed or unsupported.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut lines = text.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if words.next().is_some() || !version.starts_with("HTTP/1.") || !target.starts_with('/') {
            return None;
        }
        // Other programs may take control characters for the end of a line.
        if target.contains(char::is_control) {
            return None;
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut head = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            host: None,
            origin: None,
            site: None,
            websocket: (None, None),
            length: 0,
            waits: false,
            keep: version == "HTTP/1.1",
        };
        let mut has_length = false;
        for line in lines.take_while(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':')?;
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                // With two hosts, neither can be trusted.
                "host" if head.host.is_some() => return None,
                "origin" if head.origin.is_some() => return None,
                "host" => head.host = Some(value.to_owned()),
                "origin" => head.origin = Some(value.to_owned()),
                "sec-fetch-site" => head.site = Some(value.to_owned()),
                "sec-websocket-key" => head.websocket.0 = Some(value.to_owned()),
                "sec-websocket-version" => head.websocket.1 = Some(value.to_owned()),
                // Another program could take the other length.
                "content-length" if has_length => return None,
                "content-length" => {
                    head.length = length(value)?;
                    has_length = true;
                }
                "expect" => head.waits = value.eq_ignore_ascii_case("100-continue"),
                "transfer-encoding" => return None,
                "connection" if value.eq_ignore_ascii_case("close") => head.keep = false,
                _ => {}
            }
        }
        Some(head)
    }

    /// Returns true if the host is this port of the loopback address under a local name. A page
    /// with a foreign name that resolves to this address is refused.
    pub fn is_for(&self, port: u16) -> bool {
        let host = self.host.as_deref().and_then(|host| host.rsplit_once(':'));
        host.is_some_and(|(name, shown)| {
            matches!(name, "127.0.0.1" | "localhost" | "[::1]") && shown == port.to_string()
        })
    }

    /// Returns true if the host is an address or `localhost`, with any port, and not a name that
    /// a page may have made resolve to this machine.
    pub fn is_for_this_machine(&self) -> bool {
        let host = self.host.as_deref().unwrap_or_default();
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let inner = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        match inner {
            Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
            None => name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok(),
        }
    }

    /// Returns the value of a parameter of the query.
    pub fn value(&self, name: &str) -> Option<String> {
        let pairs = self.query.split('&');
        let mut values = pairs.filter_map(|pair| pair.split_once('='));
        values
            .find(|(key, _)| *key == name)
            .map(|(_, value)| decoded(value))
    }

    /// Returns the value of a parameter of the query as a number.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.value(name)?.parse().ok()
    }
}

/// Parses a length, which consists of digits only.
fn length(text: &str) -> Option<usize> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Decodes the percent signs of a value.
fn decoded(value: &str) -> String {
    let bytes = value.as_bytes();
    let mut all = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let code = bytes.get(at + 1..at + 3).filter(|_| *byte == b'%');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(code) => {
                all.push(code);
                at += 3;
            }
            None => {
                all.push(if *byte == b'+' { b' ' } else { *byte });
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Generates almost valid requests.
    fn requests() -> impl Strategy<Value = Vec<u8>> {
        let parts = prop::sample::select(vec![
            "GET ",
            "/t/a",
            "?text=",
            "%4",
            "%zz",
            "+",
            "&",
            "=",
            " HTTP/1.1",
            " HTTP/2",
            "\r\n",
            "\r",
            "\n",
            "Host:",
            " 127.0.0.1:1",
            ":",
            "Origin: x",
            "Content-Length: ",
            "9",
            "-",
            "Transfer-Encoding: chunked",
            "Connection: close",
            "\0",
            "ü",
        ]);
        let bytes = vec(any::<u8>(), 0..3);
        vec((parts, bytes), 0..24).prop_map(|parts| {
            let both = |(text, bytes): (&str, Vec<u8>)| [text.as_bytes(), &bytes].concat();
            parts.into_iter().flat_map(both).collect()
        })
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_parsed_without_a_panic(bytes in requests()) {
            if let Some(head) = Head::parse(&bytes) {
                prop_assert!(head.path.starts_with('/') && !head.path.contains(['?', ' ', '\r', '\n']));
                prop_assert!(head.host.is_some() || !head.is_for(1));
                let _ = (head.value("text"), head.number("text"));
            }
        }

        #[test]
        fn values_of_queries_are_decoded(text in any::<String>(), port: u16) {
            let sent: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
            let request = format!("GET /a/b?x=1&text={sent} HTTP/1.1\r\nHOST: localhost:{port}\r\n\r\n");
            let head = Head::parse(request.as_bytes()).expect("a request");
            prop_assert_eq!(head.value("text"), Some(text));
            prop_assert!(head.is_for(port) && !head.is_for(port ^ 1));
        }
    }

    #[test]
    fn hosts_are_addresses_or_localhost() {
        for (host, is_for) in [
            ("127.0.0.1:9001", true),
            ("192.0.2.7", true),
            ("LOCALHOST:1", true),
            ("[::1]:9001", true),
            ("[::1]", true),
            ("evil.example:9001", false),
            ("127.0.0.1.evil.example:9001", false),
            ("localhost.evil.example", false),
            ("[evil.example]:1", false),
            ("", false),
        ] {
            let text = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let head = Head::parse(text.as_bytes()).expect("a request");
            assert_eq!(head.is_for_this_machine(), is_for, "{host}");
        }
    }

    #[test]
    fn requests_are_parsed() {
        let text = "GET /t/search?text=a%20b%2Bc+d&in=all HTTP/1.1\r\nHost: x:1\r\n\
                    Content-Length: 7\r\nSec-Fetch-Site: same-origin\r\n\r\n";
        let head = Head::parse(text.as_bytes()).expect("head");
        assert_eq!((head.path.as_str(), head.length), ("/t/search", 7));
        assert_eq!(head.value("text").as_deref(), Some("a b+c d"));
        assert_eq!(head.value("in").as_deref(), Some("all"));
        assert_eq!(head.host.as_deref(), Some("x:1"));
        assert!(head.keep);
        for wrong in [
            "GET / HTTP/2\r\n\r\n",
            "GET x HTTP/1.1\r\n\r\n",
            "GET /\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        ] {
            assert_eq!(Head::parse(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(Head::parse(b"GET /\xff HTTP/1.1\r\n\r\n"), None);
    }
}
