//! TLS between machines: both sides authenticate with a certificate of one authority.
//!
//! The folder of a machine holds `ca.pem`, the certificate of the authority, `cert.pem`, the
//! machine's own certificate, and `key.pem`, its key. [`Authority`] creates such folders, [`Tls`]
//! reads one, and [`install_from_environment`] makes the whole process use the one in
//! `FERRETTO_TLS`.

mod authority;
mod error;
mod layer;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use ferretto_ipc::Address;
use ferretto_ipc::socket::{Layer, Security, TLS_VARIABLE, set_process_security};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

pub use authority::Authority;
pub use error::TlsError;
use layer::TlsLayer;

/// The file with the authority's certificate, in the folder of a machine.
pub const AUTHORITY_FILE: &str = "ca.pem";
/// The file with the machine's own certificate.
pub const CERTIFICATE_FILE: &str = "cert.pem";
/// The file with the machine's key.
pub const KEY_FILE: &str = "key.pem";

/// The certificates of one machine, for outgoing and incoming connections.
#[derive(Clone)]
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Tls {
    /// Reads the folder of a machine.
    ///
    /// # Errors
    ///
    /// Fails if a file is missing or malformed, or the CPU lacks instructions.
    pub fn from_folder(folder: &Path) -> Result<Self, TlsError> {
        if !graviola::util::is_cpu_supported() {
            return Err(TlsError::OldCpu);
        }
        let file = |name: &str| folder.join(name);
        let authority = certificates(&file(AUTHORITY_FILE))?;
        let own = certificates(&file(CERTIFICATE_FILE))?;
        let key_file = file(KEY_FILE);
        let key = PrivateKeyDer::from_pem_file(&key_file)
            .map_err(|error| TlsError::File(key_file.clone(), error.to_string()))?;
        let mut roots = RootCertStore::empty();
        for certificate in authority {
            roots
                .add(certificate)
                .map_err(|error| TlsError::File(file(AUTHORITY_FILE), error::reason(&error)))?;
        }
        let provider = provider();
        let roots = Arc::new(roots);
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| TlsError::File(file(AUTHORITY_FILE), error.to_string()))?;
        let unfit = |error: rustls::Error| TlsError::File(key_file.clone(), error::reason(&error));
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unfit)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(own.clone(), key.clone_key())
            .map_err(unfit)?;
        // Connections last as long as programs, so sessions are not resumed.
        server.send_tls13_tickets = 0;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unfit)?
            .with_root_certificates(roots)
            .with_client_auth_cert(own, key)
            .map_err(unfit)?;
        Ok(Self {
            client: Arc::new(client),
            server: Arc::new(server),
        })
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls_graviola::default_provider())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |reason: String| TlsError::File(file.to_owned(), reason);
    let read = CertificateDer::pem_file_iter(file).map_err(|error| failed(error.to_string()))?;
    let read: Result<Vec<_>, _> = read.collect();
    let read = read.map_err(|error| failed(error.to_string()))?;
    if read.is_empty() {
        Err(failed("the file has no certificate".to_owned()))
    } else {
        Ok(read)
    }
}

/// Returns the name that the certificate of the listener at an address must have.
fn name_of(address: &Address) -> io::Result<ServerName<'static>> {
    let name = match address {
        Address::Tcp { host, .. } => host.clone(),
        Address::Vsock { cid, .. } => format!("vsock-{cid}"),
        Address::Path(_) | Address::Abstract(_) => "localhost".to_owned(),
    };
    ServerName::try_from(name.clone())
        .map_err(|_| io::Error::other(format!("a certificate cannot have the name \"{name}\"")))
}

impl Security for Tls {
    fn connecting(&self, to: &Address) -> io::Result<Box<dyn Layer>> {
        let connection = ClientConnection::new(Arc::clone(&self.client), name_of(to)?);
        let connection = connection.map_err(|error| io::Error::other(error::reason(&error)))?;
        Ok(Box::new(TlsLayer::new(connection.into())))
    }

    fn accepting(&self) -> io::Result<Box<dyn Layer>> {
        let connection = ServerConnection::new(Arc::clone(&self.server));
        let connection = connection.map_err(|error| io::Error::other(error::reason(&error)))?;
        Ok(Box::new(TlsLayer::new(connection.into())))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// Encrypts all connections of this process with other machines, with the folder in `FERRETTO_TLS`.
/// Call it before the first connection. Returns false if the variable is not set.
///
/// # Errors
///
/// Fails if the folder cannot be used.
pub fn install_from_environment() -> Result<bool, TlsError> {
    let Some(folder) = std::env::var_os(TLS_VARIABLE).filter(|folder| !folder.is_empty()) else {
        return Ok(false);
    };
    set_process_security(Arc::new(Tls::from_folder(Path::new(&folder))?));
    Ok(true)
}
