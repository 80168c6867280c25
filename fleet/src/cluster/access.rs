//! The access to a cluster: for peers that know its secret, or else for programs of this user.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ballista_core::extension::EndpointOverrideFn;
use ferretto_http::{Peer, Peers, Users};
use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::Endpoint;
use tonic::transport::server::Connected;

use super::tunnel::{Handshakes, Tunnels};
use crate::error::SqlError;

/// A client's words for a connection that ends or has no HTTP.
const ENDED: [&str; 3] = ["transport error", "h2 protocol error", "connection closed"];

/// The shortest and the longest secret.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=256;
/// The time between two signs of life on a connection without other messages.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// The peers that may use a cluster.
#[derive(Debug, Clone)]
pub struct Access(Option<Arc<Tunnels>>);

impl Access {
    /// Returns the access with the secret in a file; without a file, that of this user.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, if others may read it, or if the secret is too short, too
    /// long or has other characters than those of ASCII.
    pub fn of(secret: Option<&Path>) -> Result<Self, SqlError> {
        let Some(path) = secret else {
            return Ok(Self(None));
        };
        let failed = |why: String| SqlError::new(format!("{}: {why}", path.display()));
        let file = File::open(path).map_err(|e| failed(format!("cannot read the secret: {e}")))?;
        let found = file
            .metadata()
            .map_err(|e| failed(format!("cannot read the secret: {e}")))?;
        if found.mode() & 0o077 != 0 {
            return Err(failed(
                "others may read or write the secret: change its permissions with chmod 600".into(),
            ));
        }
        let mut text = String::new();
        file.take(1 << 16)
            .read_to_string(&mut text)
            .map_err(|e| failed(format!("cannot read the secret: {e}")))?;
        let text = text.trim();
        if !LENGTHS.contains(&text.len()) || !text.bytes().all(|c| c.is_ascii_graphic()) {
            return Err(failed(format!(
                "a secret is one word of {} to {} ASCII characters, such as the output of \
                 'openssl rand -hex 32'",
                LENGTHS.start(),
                LENGTHS.end()
            )));
        }
        let tunnels = Tunnels::new(text).map_err(|e| failed(e.to_string()))?;
        Ok(Self(Some(tunnels)))
    }

    /// Returns true if peers prove to know a secret.
    pub fn has_secret(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the message of an error of a query or of an executor, with the reason if a peer
    /// could not be used.
    pub fn explain(&self, error: String) -> String {
        match self.0.as_ref().map(|tunnels| tunnels.failure()) {
            Some(Some(failure)) => failure,
            None if ENDED.iter().any(|words| error.contains(words)) => {
                format!("{error}\n(a cluster with a secret needs --secret-file)")
            }
            _ => error,
        }
    }

    /// Checks an address to listen on.
    pub(super) fn check_bind(&self, address: IpAddr) -> Result<(), SqlError> {
        if self.0.is_some() || address.is_loopback() {
            return Ok(());
        }
        Err(SqlError::new(format!(
            "listening on {address} needs --secret-file: everyone who reaches it could read all \
             files that the executors can read"
        )))
    }

    /// Returns a function that lets clients connect to peers that know the secret.
    pub(super) fn endpoint(&self) -> EndpointOverrideFn {
        let tunnels = self.0.clone();
        Arc::new(move |endpoint| {
            let Some(tunnels) = &tunnels else {
                return Ok(endpoint);
            };
            let uri = endpoint.uri();
            let (Some(host), Some(port)) = (uri.host(), uri.port_u16()) else {
                return Err(format!("{uri} has no host and port").into());
            };
            // In URIs, addresses of IPv6 have brackets.
            let host = host.trim_matches(['[', ']']);
            let endpoint = Endpoint::from_shared(tunnels.address(host, port)?)?;
            Ok(endpoint
                .http2_keep_alive_interval(KEEP_ALIVE)
                .keep_alive_timeout(KEEP_ALIVE)
                .keep_alive_while_idle(true))
        })
    }

    /// Returns the connections of a listener: of clients that know the secret, or without one, of
    /// this user's programs and root's.
    pub(super) fn incoming(
        &self,
        listener: TcpListener,
    ) -> impl Stream<Item = io::Result<Connection>> + use<> {
        let clients = match &self.0 {
            Some(tunnels) => Clients::WithSecret(Handshakes::new(tunnels.clone())),
            None => Clients::OfUser(Peers::new(), Users::own()),
        };
        futures::stream::unfold((listener, clients), |(listener, mut clients)| async move {
            let connection = match &mut clients {
                Clients::WithSecret(handshakes) => {
                    Connection(Box::new(handshakes.next(&listener).await))
                }
                Clients::OfUser(peers, users) => {
                    Connection(Box::new(next_of_user(&listener, peers, users).await))
                }
            };
            Some((Ok(connection), (listener, clients)))
        })
    }
}

/// The clients that a server admits.
enum Clients {
    WithSecret(Handshakes),
    OfUser(Peers, Users),
}

async fn next_of_user(listener: &TcpListener, peers: &Peers, users: &Users) -> TcpStream {
    loop {
        // The kernel's errors are about single connections, or pass.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let Ok(stream) = stream.into_std() else {
            continue;
        };
        if is_own(&stream, peers, users)
            && let Ok(stream) = TcpStream::from_std(stream)
        {
            let _ = stream.set_nodelay(true);
            return stream;
        }
    }
}

/// Returns true for a connection of this user's programs.
fn is_own(stream: &std::net::TcpStream, peers: &Peers, users: &Users) -> bool {
    match peers.of(&[stream]).first() {
        Some(Some(Peer::User(user))) => users.contain(*user),
        _ => false,
    }
}

trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// A connection of an admitted client, encrypted or not.
pub(super) struct Connection(Box<dyn Bytes>);

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
