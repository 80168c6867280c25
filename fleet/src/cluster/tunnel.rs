//! Connections between peers that know the same secret: TLS whose keys follow from it.
//!
//! Each side proves to the other that it has its key, and the secret is never sent. Ballista's
//! clients cannot be given such connections, but a Unix socket to connect to: a tunnel, which
//! forwards what comes there.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::num::NonZeroU32;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net as unix;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ring::pbkdf2;
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error,
    PeerMisbehaved, ServerConfig, SignatureScheme,
};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The longest time of a handshake.
const PATIENCE: Duration = Duration::from_secs(10);
/// The connections without a finished handshake, beyond which new ones displace the oldest.
const UNFINISHED: usize = 256;
/// The rounds of the derivation of keys. A client can try secrets against the public key of a
/// server, and takes this long for each.
const ROUNDS: NonZeroU32 = NonZeroU32::new(100_000).expect("not zero");
/// The length of the seed of a key.
const SEED: usize = 32;
/// The bytes before the seed of an Ed25519 key in its PKCS#8 form (RFC 8410).
const PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// The name of every server: its key says who it is.
const NAME: &str = "ferretto-fleet";

/// Both ends of connections between peers with the same secret.
pub(super) struct Tunnels {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
    /// The names of the sockets that lead to servers, by the servers' addresses.
    sockets: Mutex<HashMap<(String, u16), String>>,
    /// The reason why the last server was refused or could not be reached.
    failure: Mutex<Option<String>>,
}

impl fmt::Debug for Tunnels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnels").finish_non_exhaustive()
    }
}

impl Tunnels {
    /// Returns the tunnels of peers with this secret.
    pub(super) fn new(secret: &str) -> Result<Arc<Self>, Error> {
        let mut seeds = [0; 2 * SEED];
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(
            algorithm,
            ROUNDS,
            NAME.as_bytes(),
            secret.as_bytes(),
            &mut seeds,
        );
        let (server, client) = seeds.split_at(SEED);
        let (server, client) = (key(server)?, key(client)?);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let known = |key: &CertifiedKey| {
            Arc::new(Known {
                key: key.cert[0].clone(),
                provider: provider.clone(),
            })
        };
        let versions = &[&rustls::version::TLS13];
        let connector = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)?
            .dangerous()
            .with_custom_certificate_verifier(known(&server))
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(
                client.clone(),
            )));
        let acceptor = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)?
            .with_client_cert_verifier(known(&client))
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(server)));
        Ok(Arc::new(Self {
            connector: Arc::new(connector).into(),
            acceptor: Arc::new(acceptor).into(),
            sockets: Mutex::default(),
            failure: Mutex::default(),
        }))
    }

    /// Returns the address of a socket that leads to a server, as gRPC's clients write it. Only
    /// this user's programs can use it.
    ///
    /// # Errors
    ///
    /// Fails if there is no runtime to serve the socket, or no socket.
    pub(super) fn address(self: &Arc<Self>, host: &str, port: u16) -> io::Result<String> {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        let server = (host.to_owned(), port);
        if let Some(name) = sockets.get(&server) {
            return Ok(name.clone());
        }
        let runtime = tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
        let mut random = [0; 16];
        ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut random)
            .map_err(io::Error::other)?;
        let name = format!("{NAME}-{:032x}", u128::from_ne_bytes(random));
        let address = unix::SocketAddr::from_abstract_name(&name)?;
        let listener = unix::UnixListener::bind_addr(&address)?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        runtime.spawn(self.clone().forward_all(listener, server.clone()));
        // A name in the abstract namespace begins with a zero.
        let address = format!("unix:\0{name}");
        sockets.insert(server, address.clone());
        Ok(address)
    }

    /// Returns the reason why the last server could not be used.
    pub(super) fn failure(&self) -> Option<String> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone()
    }

    async fn forward_all(self: Arc<Self>, listener: UnixListener, server: (String, u16)) {
        let own = rustix::process::geteuid().as_raw();
        loop {
            let Ok((client, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            if client.peer_cred().is_ok_and(|peer| peer.uid() == own) {
                let (tunnels, server) = (self.clone(), server.clone());
                tokio::spawn(async move { tunnels.forward(client, &server).await });
            }
        }
    }

    async fn forward(&self, mut client: UnixStream, server: &(String, u16)) {
        let reached = self.connect(server).await;
        let failure = reached.as_ref().err().cloned();
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
        if let Ok(mut server) = reached {
            // An end of either side ends both.
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        }
    }

    /// Connects to a server that knows the secret. An error is a sentence.
    async fn connect(
        &self,
        (host, port): &(String, u16),
    ) -> Result<tokio_rustls::client::TlsStream<TcpStream>, String> {
        let connected = within_patience(TcpStream::connect((host.as_str(), *port))).await;
        let stream =
            connected.map_err(|error| format!("cannot connect to {host}:{port}: {error}"))?;
        let proven = within_patience(async {
            stream.set_nodelay(true)?;
            let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
            self.connector.connect(name, stream).await
        });
        proven.await.map_err(|error| {
            format!(
                "{host}:{port} does not know the secret of the cluster (--secret-file): {error}"
            )
        })
    }
}

async fn within_patience<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(PATIENCE, work).await?
}

/// A server's connections with a finished handshake.
#[derive(Debug)]
pub(super) struct Handshakes {
    tunnels: Arc<Tunnels>,
    unfinished: JoinSet<io::Result<TlsStream<TcpStream>>>,
    /// Those that began, the oldest first.
    begun: VecDeque<AbortHandle>,
}

impl Handshakes {
    pub(super) fn new(tunnels: Arc<Tunnels>) -> Self {
        Self {
            tunnels,
            unfinished: JoinSet::new(),
            begun: VecDeque::new(),
        }
    }

    /// Returns the next client that has proven to know the secret.
    pub(super) async fn next(&mut self, listener: &TcpListener) -> TlsStream<TcpStream> {
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => self.begin(stream),
                    // The kernel's errors are about single connections, or pass.
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                },
                Some(done) = self.unfinished.join_next(), if !self.unfinished.is_empty() => {
                    if let Ok(Ok(stream)) = done {
                        return stream;
                    }
                }
            }
        }
    }

    fn begin(&mut self, stream: TcpStream) {
        let acceptor = self.tunnels.acceptor.clone();
        let handle = self.unfinished.spawn(async move {
            stream.set_nodelay(true)?;
            within_patience(acceptor.accept(stream)).await
        });
        self.begun.retain(|handle| !handle.is_finished());
        self.begun.push_back(handle);
        if self.begun.len() > UNFINISHED
            && let Some(oldest) = self.begun.pop_front()
        {
            oldest.abort();
        }
    }
}

/// Returns the key with this seed, as a raw public key (RFC 7250) and a private one.
fn key(seed: &[u8]) -> Result<Arc<CertifiedKey>, Error> {
    let private = PrivatePkcs8KeyDer::from([&PKCS8, seed].concat());
    let key = rustls::crypto::ring::sign::any_eddsa_type(&private)?;
    let public = key
        .public_key()
        .ok_or_else(|| Error::General("a key without a public part".into()))?;
    let public = CertificateDer::from(public.to_vec());
    Ok(Arc::new(CertifiedKey::new(vec![public], key)))
}

/// Admits the peer with one key.
#[derive(Debug)]
struct Known {
    key: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl Known {
    fn check(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        if *shown == self.key {
            return Ok(());
        }
        Err(CertificateError::UnknownIssuer.into())
    }

    /// Checks that a peer has the private key of what it has shown.
    fn check_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature_with_raw_key(
            message,
            &SubjectPublicKeyInfoDer::from(shown.as_ref()),
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

/// Connections are of TLS 1.3 only.
fn too_old() -> Result<HandshakeSignatureValid, Error> {
    Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into())
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(shown).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        too_old()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Known {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(shown).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        too_old()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
