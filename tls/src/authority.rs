//! Creation of certificates.

use std::fs;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use graviola::hashing::{Hash as _, Sha256};
use graviola::signing::ecdsa::{P256, SigningKey};
use pem::Pem;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyUsagePurpose, SanType, SerialNumber, SignatureAlgorithm,
};
use time::OffsetDateTime;

use crate::error::TlsError;
use crate::{AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE};

/// The file with the authority's key, which stays on the machine that issues certificates.
const AUTHORITY_KEY_FILE: &str = "ca-key.pem";
/// The name of the authority.
const NAME: &str = "Ferretto relay authority";
/// The lifetime of an authority: ten years.
const LIFETIME: Duration = Duration::from_secs(3650 * 24 * 3600);
/// The largest difference of machines' clocks to allow for.
const SLACK: Duration = Duration::from_secs(24 * 3600);
const CERTIFICATE_LABEL: &str = "CERTIFICATE";
const KEY_LABEL: &str = "PRIVATE KEY";

/// A certificate authority in a folder. Machines with its certificates trust each other.
#[derive(Debug)]
pub struct Authority {
    folder: PathBuf,
    key: Key,
}

impl Authority {
    /// Opens the authority in a folder, or creates one there.
    ///
    /// # Errors
    ///
    /// Fails if the files in the folder are not an authority's, or cannot be written.
    pub fn open(folder: &Path) -> Result<Self, TlsError> {
        if !graviola::util::is_cpu_supported() {
            return Err(TlsError::OldCpu);
        }
        let (certificate, key) = (folder.join(AUTHORITY_FILE), folder.join(AUTHORITY_KEY_FILE));
        let folder = folder.to_owned();
        if key.exists() || certificate.exists() {
            let failed = |reason: String| TlsError::File(key.clone(), reason);
            let text = fs::read(&key).map_err(|error| failed(error.to_string()))?;
            let parsed = pem::parse(text).map_err(|error| failed(error.to_string()))?;
            let key = SigningKey::from_pkcs8_der(parsed.contents())
                .map_err(|error| failed(format!("not the key of an authority: {error:?}")))?;
            return Ok(Self {
                folder,
                key: Key::new(key)?,
            });
        }
        create_folder(&folder)?;
        let signing = Key::generate()?;
        let params = authority_params(&signing)?;
        let made = params.self_signed(&signing).map_err(issue)?;
        write(&key, &signing.pem()?, 0o600)?;
        write(&certificate, &to_pem(CERTIFICATE_LABEL, made.der()), 0o644)?;
        Ok(Self {
            folder,
            key: signing,
        })
    }

    /// Creates the folder of a machine with a certificate for these names and addresses, valid
    /// until `until`. The folder is called like the first name and replaces an existing one.
    /// Returns its path.
    ///
    /// # Errors
    ///
    /// Fails if a name is invalid or the files cannot be written.
    pub fn issue(&self, names: &[String], until: SystemTime) -> Result<PathBuf, TlsError> {
        let first = names.first().ok_or_else(|| TlsError::Name(String::new()))?;
        if first.contains('/') || first.starts_with('.') {
            return Err(TlsError::Name(first.clone()));
        }
        let key = Key::generate()?;
        let begin = SystemTime::now().min(until) - SLACK;
        let mut params = params(first, &key, (begin, until))?;
        for name in names {
            params.subject_alt_names.push(alternative(name)?);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        let issuer = Issuer::new(authority_params(&self.key)?, &self.key);
        let made = params.signed_by(&key, &issuer).map_err(issue)?;
        let folder = self.folder.join(first);
        create_folder(&folder)?;
        let authority = self.folder.join(AUTHORITY_FILE);
        let text = fs::read_to_string(&authority)
            .map_err(|error| TlsError::File(authority, error.to_string()))?;
        write(&folder.join(AUTHORITY_FILE), &text, 0o644)?;
        write(&folder.join(KEY_FILE), &key.pem()?, 0o600)?;
        let made = to_pem(CERTIFICATE_LABEL, made.der());
        write(&folder.join(CERTIFICATE_FILE), &made, 0o644)?;
        Ok(folder)
    }
}

fn alternative(name: &str) -> Result<SanType, TlsError> {
    if let Ok(ip) = name.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok(SanType::IpAddress(ip));
    }
    let no_name = || TlsError::Name(name.to_owned());
    rustls::pki_types::DnsName::try_from(name).map_err(|_| no_name())?;
    Ok(SanType::DnsName(name.try_into().map_err(|_| no_name())?))
}

fn authority_params(key: &Key) -> Result<CertificateParams, TlsError> {
    let now = SystemTime::now();
    let mut params = params(NAME, key, (now - SLACK, now + LIFETIME))?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Ok(params)
}

fn params(
    name: &str,
    key: &Key,
    (begin, end): (SystemTime, SystemTime),
) -> Result<CertificateParams, TlsError> {
    let mut distinguished_name = DistinguishedName::new();
    distinguished_name.push(DnType::CommonName, name);
    let mut serial = [0; 16];
    graviola::random::fill(&mut serial).map_err(|error| TlsError::Issue(format!("{error:?}")))?;
    // Serial numbers are positive.
    serial[0] &= 0x7f;
    let mut params = CertificateParams::default();
    params.not_before = OffsetDateTime::from(begin);
    params.not_after = OffsetDateTime::from(end);
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.distinguished_name = distinguished_name;
    params.key_identifier_method = KeyIdMethod::PreSpecified(key.identifier());
    Ok(params)
}

/// A P-256 key.
struct Key {
    signing: SigningKey<P256>,
    public: Vec<u8>,
}

impl Key {
    fn generate() -> Result<Self, TlsError> {
        let key = SigningKey::generate();
        Self::new(key.map_err(|error| TlsError::Issue(format!("{error:?}")))?)
    }

    fn new(signing: SigningKey<P256>) -> Result<Self, TlsError> {
        let public = signing.private_key.public_key_uncompressed().to_vec();
        Ok(Self { signing, public })
    }

    fn identifier(&self) -> Vec<u8> {
        Sha256::hash(&self.public).as_ref()[..20].to_vec()
    }

    fn pem(&self) -> Result<String, TlsError> {
        let mut space = [0; 256];
        let der = self.signing.to_pkcs8_der(&mut space);
        let der = der.map_err(|error| TlsError::Issue(format!("{error:?}")))?;
        Ok(to_pem(KEY_LABEL, der))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

impl rcgen::PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

impl rcgen::SigningKey for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let mut space = [0; 128];
        let signed = self.signing.sign_asn1::<Sha256>(&[message], &mut space);
        signed
            .map(<[u8]>::to_vec)
            .map_err(|_| rcgen::Error::RemoteKeyError)
    }
}

fn issue(error: rcgen::Error) -> TlsError {
    TlsError::Issue(error.to_string())
}

fn to_pem(label: &str, der: &[u8]) -> String {
    pem::encode(&Pem::new(label, der))
}

fn create_folder(folder: &Path) -> Result<(), TlsError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| TlsError::File(folder.to_owned(), error.to_string()))
}

/// Replaces a file with one of this mode.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), TlsError> {
    let failed = |error: std::io::Error| TlsError::File(path.to_owned(), error.to_string());
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(mode).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(failed)
}
