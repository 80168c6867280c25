//! Errors, and their messages for operators.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rustls::{AlertDescription, CertificateError, Error};

/// The reason why certificates cannot be used or created.
#[derive(Debug)]
pub enum TlsError {
    /// A file cannot be read or written, or is malformed.
    File(PathBuf, String),
    /// A certificate cannot have this name.
    Name(String),
    /// The CPU lacks instructions that the encryption needs.
    OldCpu,
    /// Creating a certificate failed.
    Issue(String),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, reason) => write!(f, "{}: {reason}", path.display()),
            Self::Name(name) => write!(f, "a certificate cannot have the name \"{name}\""),
            Self::OldCpu => f.write_str(
                "TLS needs a CPU with AES, PCLMULQDQ, ADX and AVX2 instructions, which this one lacks",
            ),
            Self::Issue(reason) => write!(f, "cannot create a certificate: {reason}"),
        }
    }
}

impl std::error::Error for TlsError {}

/// Describes for an operator why a connection failed.
pub(crate) fn reason(error: &Error) -> String {
    use AlertDescription as Alert;
    match error {
        Error::InvalidMessage(_) => "the other side does not speak TLS; give it certificates \
             (FERRETTO_TLS), or remove those of this side"
            .to_owned(),
        Error::NoCertificatesPresented => "the other side has no certificate".to_owned(),
        Error::InvalidCertificate(certificate) => of_certificate(certificate),
        Error::AlertReceived(Alert::CertificateExpired) => {
            "the other side refused the certificate of this side: it has expired".to_owned()
        }
        Error::AlertReceived(Alert::UnknownCA | Alert::DecryptError) => {
            "the other side refused the certificate of this side: another authority issued it"
                .to_owned()
        }
        Error::AlertReceived(Alert::CertificateRequired) => {
            "the other side requires a certificate of this side".to_owned()
        }
        Error::AlertReceived(
            Alert::BadCertificate | Alert::CertificateUnknown | Alert::UnsupportedCertificate,
        ) => "the other side refused the certificate of this side".to_owned(),
        other => format!("TLS failed: {other}"),
    }
}

fn of_certificate(error: &CertificateError) -> String {
    use CertificateError as Reason;
    let reason = match error {
        Reason::Expired | Reason::ExpiredContext { .. } => "has expired".to_owned(),
        Reason::NotValidYet | Reason::NotValidYetContext { .. } => {
            "is not valid yet; check the clocks of both machines".to_owned()
        }
        Reason::UnknownIssuer | Reason::BadSignature => {
            "was not issued by the authority in ca.pem".to_owned()
        }
        Reason::NotValidForName | Reason::NotValidForNameContext { .. } => {
            format!("is for another name: {error}")
        }
        other => format!("is not valid: {other}"),
    };
    format!("the certificate of the other side {reason}")
}

pub(crate) fn io_error(error: &Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason(error))
}
