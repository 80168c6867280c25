//! TLS between machines: both sides prove by a certificate of one authority who they are.
//!
//! A folder holds all that a machine needs: `ca.pem`, the authority that everybody trusts,
//! `cert.pem`, the machine's own certificate, and `key.pem`, its key. [`Authority`] makes such
//! folders, [`Tls`] reads one, and [`install_from_environment`] has the whole process use the one
//! that `FERRETTO_TLS` names.

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

/// The file of the authority, in the folder of a machine.
pub const AUTHORITY_FILE: &str = "ca.pem";
/// The file of the machine's own certificate.
pub const CERTIFICATE_FILE: &str = "cert.pem";
/// The file of its key.
pub const KEY_FILE: &str = "key.pem";

/// The certificates of one machine, to connect and to be connected to with.
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
    /// If a file is missing or malformed, or the CPU is too old.
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
        // Connections live as long as programs do.
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
    match read.is_empty() {
        true => Err(failed("it holds no certificate".to_owned())),
        false => Ok(read),
    }
}

/// Returns the name that the certificate of the listener at an address has to have.
fn name_of(address: &Address) -> io::Result<ServerName<'static>> {
    let name = match address {
        Address::Tcp { host, .. } => host.clone(),
        Address::Vsock { cid, .. } => format!("vsock-{cid}"),
        Address::Path(_) | Address::Abstract(_) => "localhost".to_owned(),
    };
    ServerName::try_from(name.clone())
        .map_err(|_| io::Error::other(format!("no certificate can be for the name \"{name}\"")))
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

/// Has all connections of this process with other machines encrypted, as `FERRETTO_TLS` says; to be
/// called before anything connects. Returns false if the variable is not set.
///
/// # Errors
///
/// If the folder it names cannot be used.
pub fn install_from_environment() -> Result<bool, TlsError> {
    let Some(folder) = std::env::var_os(TLS_VARIABLE).filter(|folder| !folder.is_empty()) else {
        return Ok(false);
    };
    set_process_security(Arc::new(Tls::from_folder(Path::new(&folder))?));
    Ok(true)
}
