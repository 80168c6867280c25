//! The access to a cluster: for peers that know its secret, or else for programs of this user.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::{IpAddr, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use ballista_core::extension::EndpointOverrideFn;
use ferretto_http::{Peer, Peers, Users, is_same};
use futures::Stream;
use tokio::net::TcpListener;
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::error::SqlError;

/// The shortest and the longest secret.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=256;
/// The beginning of the header with the secret. The clients of gRPC that Ballista creates have no
/// other header that can be chosen.
const AGENT: &str = "ferretto-fleet/";

/// The peers that may use a cluster.
#[derive(Clone)]
pub struct Access(Option<Arc<str>>);

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.0 {
            Some(_) => "secret",
            None => "own user",
        };
        f.debug_tuple("Access").field(&kind).finish()
    }
}

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
        Ok(Self(Some(text.into())))
    }

    /// Returns true if peers prove to know a secret.
    pub fn has_secret(&self) -> bool {
        self.0.is_some()
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

    /// Returns a function that lets connections to peers send the secret.
    pub(super) fn endpoint(&self) -> EndpointOverrideFn {
        let agent = self.0.as_ref().map(|secret| format!("{AGENT}{secret}"));
        Arc::new(move |endpoint| match &agent {
            Some(agent) => Ok(endpoint.user_agent(agent.as_str())?),
            None => Ok(endpoint),
        })
    }

    /// Returns the connections of a listener. Without a secret, they are those of this user's
    /// programs and of root's.
    pub(super) fn incoming(
        &self,
        listener: TcpListener,
    ) -> impl Stream<Item = io::Result<tokio::net::TcpStream>> + use<> {
        let users = self
            .0
            .is_none()
            .then(|| Arc::new((Peers::new(), Users::own())));
        futures::stream::unfold((listener, users), |(listener, users)| async move {
            loop {
                // The kernel's errors are about single connections, or pass.
                let Ok((stream, _)) = listener.accept().await else {
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                    continue;
                };
                let Ok(stream) = stream.into_std() else {
                    continue;
                };
                let is_admitted = match &users {
                    Some(users) => is_own(&stream, &users.0, &users.1),
                    None => true,
                };
                if is_admitted && let Ok(stream) = tokio::net::TcpStream::from_std(stream) {
                    let _ = stream.set_nodelay(true);
                    return Some((Ok(stream), (listener, users)));
                }
            }
        })
    }
}

/// Returns true for a connection of this user's programs.
fn is_own(stream: &TcpStream, peers: &Peers, users: &Users) -> bool {
    match peers.of(&[stream]).first() {
        Some(Some(Peer::User(user))) => users.contain(*user),
        _ => false,
    }
}

impl Interceptor for Access {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let Some(secret) = &self.0 else {
            return Ok(request);
        };
        let agent = request.metadata().get("user-agent");
        let agent = agent.and_then(|agent| agent.to_str().ok());
        let shown = agent.and_then(|agent| agent.strip_prefix(AGENT)?.split(' ').next());
        if shown.is_some_and(|shown| is_same(shown, secret)) {
            return Ok(request);
        }
        Err(Status::unauthenticated(
            "the peer does not know the secret of the cluster (--secret-file)",
        ))
    }
}
