//! Relays and services with certificates, and peers without valid ones.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use ferretto_client::{Address, Consumer, Event, ExhaustedPolicy};
use ferretto_host::{HostOptions, NoticeSink};
use ferretto_ipc::socket::Security;
use ferretto_relay::RelayOptions;
use ferretto_testing::client::{
    LIMIT, Recorder, config, next_event, producer_at, texts, unique_address, write_text,
};
use ferretto_tls::{Authority, Tls};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tempfile::TempDir;

use ferretto_testing::relay::{TestRelay, World, any_port, machine};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// An authority in a temporary folder.
struct Issuer(TempDir, Authority);

impl Issuer {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let authority = Authority::open(folder.path()).unwrap();
        Self(folder, authority)
    }

    fn issue(&self, names: &[&str]) -> Arc<dyn Security> {
        self.issue_until(names, SystemTime::now() + DAY)
    }

    fn issue_until(&self, names: &[&str], until: SystemTime) -> Arc<dyn Security> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let folder = self.1.issue(&names, until).unwrap();
        Arc::new(Tls::from_folder(&folder).unwrap())
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.path().join("ca.pem")
    }
}

/// A service for other machines with optional TLS, and its notices.
struct Secured {
    world: World,
    notices: Mutex<Receiver<String>>,
}

impl Secured {
    fn start(security: Option<Arc<dyn Security>>) -> Self {
        let (sender, notices) = mpsc::channel();
        let world = World::start_with(&any_port(), |options: &mut HostOptions| {
            options.security = security;
            options.notices = NoticeSink::new(move |notice| {
                let _ = sender.send(notice.to_string());
            });
        });
        Self {
            world,
            notices: Mutex::new(notices),
        }
    }

    fn expect(&self, part: &str) {
        let notices = self.notices.lock().unwrap();
        let end = Instant::now() + LIMIT;
        let mut seen = Vec::new();
        while let Ok(notice) = notices.recv_timeout(end.saturating_duration_since(Instant::now())) {
            if notice.contains(part) {
                return;
            }
            seen.push(notice);
        }
        panic!("{part:?} is not among {seen:?}");
    }

    fn port(&self) -> u16 {
        let Address::Tcp { port, .. } = &self.world.remote else {
            panic!()
        };
        *port
    }
}

fn relay(host: &Address, name: &str, security: Option<Arc<dyn Security>>) -> TestRelay {
    TestRelay::start_with(RelayOptions {
        machine: machine(name),
        security,
        ..RelayOptions::new(unique_address("relay"), host.clone())
    })
}

#[test]
fn a_relay_with_a_certificate_forwards_all_data() {
    let issuer = Issuer::new();
    let host = Secured::start(Some(issuer.issue(&["host", "127.0.0.1"])));
    let relay = relay(&host.world.remote, "guest", Some(issuer.issue(&["guest"])));
    relay.wait_connected();
    let expected = |index: usize| format!("{index} {}", "x".repeat(index * 7 % 9000)).into_bytes();
    let mut producer = producer_at(&relay.address);
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    let policy = ExhaustedPolicy::StallThenAbort;
    let recorder = Recorder::start(producer, policy, move |writer| {
        for index in 0..3000 {
            write_text(writer, &expected(index));
        }
    });
    let (sender, seen) = mpsc::channel();
    assert!(recorder.handle.sync(move || sender.send(()).unwrap()));
    recorder.handle.wake();
    seen.recv_timeout(LIMIT).unwrap();
    let mut consumer = Consumer::connect(&host.world.consumers, LIMIT).unwrap();
    consumer.enable_tracing(config(32 << 10), None).unwrap();
    consumer.flush(LIMIT).unwrap();
    consumer.disable_tracing(LIMIT).unwrap();
    let found = texts(&ferretto_testing::relay::read(&mut consumer));
    assert!(found.into_iter().eq((0..3000).map(expected)));
}

#[test]
fn a_certificate_of_another_authority_is_refused_by_both_sides() {
    let (issuer, other) = (Issuer::new(), Issuer::new());
    let host = Secured::start(Some(issuer.issue(&["127.0.0.1"])));
    let relay = relay(&host.world.remote, "guest", Some(other.issue(&["guest"])));
    relay.notice(|notice| notice.contains("was not issued by the authority in ca.pem"));
    host.expect("the other side refused the certificate of this side");
}

#[test]
fn an_expired_certificate_is_refused() {
    let issuer = Issuer::new();
    let host = Secured::start(Some(issuer.issue(&["127.0.0.1"])));
    let expired = issuer.issue_until(&["guest"], SystemTime::now() - DAY);
    // The host may refuse while the guest still sends, so that sending fails. The guest reports the
    // reason all the same.
    for _ in 0..8 {
        let guest = relay(&host.world.remote, "guest", Some(expired.clone()));
        guest.notice(|notice| {
            assert!(!notice.contains("Broken pipe"), "{notice}");
            notice.contains("refused the certificate of this side: it has expired")
        });
    }
    host.expect("the certificate of the other side has expired");
    // The certificate of a host expires, too.
    let expired = issuer.issue_until(&["127.0.0.1"], SystemTime::now() - DAY);
    let host = Secured::start(Some(expired));
    let guest = relay(&host.world.remote, "guest", Some(issuer.issue(&["guest"])));
    guest.notice(|notice| notice.contains("the certificate of the other side has expired"));
}

#[test]
fn a_host_under_another_name_is_refused() {
    let issuer = Issuer::new();
    let host = Secured::start(Some(issuer.issue(&["elsewhere", "10.9.8.7"])));
    let relay = relay(&host.world.remote, "guest", Some(issuer.issue(&["guest"])));
    relay.notice(|notice| notice.contains("the certificate of the other side is for another name"));
}

#[test]
fn a_machine_that_claims_another_name_is_refused() {
    let issuer = Issuer::new();
    let host = Secured::start(Some(issuer.issue(&["127.0.0.1"])));
    let _relay = relay(&host.world.remote, "other", Some(issuer.issue(&["guest"])));
    host.expect("its certificate is not for the name that it gives itself");
}

#[test]
fn clients_without_a_certificate_are_refused() {
    let issuer = Issuer::new();
    let host = Secured::start(Some(issuer.issue(&["127.0.0.1"])));
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(issuer.file()).unwrap() {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls_graviola::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "127.0.0.1".try_into().unwrap();
    let mut connection = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut socket = TcpStream::connect(("127.0.0.1", host.port())).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let mut stream = rustls::Stream::new(&mut connection, &mut socket);
    let _ = stream.write_all(b"\x04\0\0\0");
    assert!(stream.read(&mut [0; 16]).is_err());
    host.expect("the other side has no certificate");
}

#[test]
fn plaintext_is_refused_where_tls_is_expected() {
    let issuer = Issuer::new();
    let host = Secured::start(Some(issuer.issue(&["127.0.0.1"])));
    let relay = relay(&host.world.remote, "guest", None);
    host.expect("the other side does not speak TLS");
    relay.notice(|notice| notice.contains("it speaks TLS") || notice.contains("closed"));
}

#[test]
fn tls_is_refused_where_plaintext_is_expected() {
    let issuer = Issuer::new();
    let host = Secured::start(None);
    let relay = relay(&host.world.remote, "guest", Some(issuer.issue(&["guest"])));
    host.expect("it speaks TLS, and this side was given no certificate");
    relay.notice(|notice| notice.contains("closed the connection instead of speaking TLS"));
}

#[test]
fn keys_are_private_to_their_owner_and_an_authority_can_be_reopened() {
    use std::os::unix::fs::MetadataExt as _;

    let folder = TempDir::new().unwrap();
    let until = SystemTime::now() + DAY;
    for name in ["one", "two"] {
        let authority = Authority::open(folder.path()).unwrap();
        let made = authority.issue(&[name.to_owned()], until).unwrap();
        let mode = |file: &Path| std::fs::metadata(file).unwrap().mode() & 0o777;
        assert_eq!(mode(&made.join("key.pem")), 0o600);
        assert_eq!(mode(&made), 0o700);
    }
    let ca = |path: &str| std::fs::read(folder.path().join(path)).unwrap();
    assert_eq!(ca("ca.pem"), ca("one/ca.pem"));
    assert_eq!(ca("ca.pem"), ca("two/ca.pem"));
    let authority = Authority::open(folder.path()).unwrap();
    for wrong in ["", "../up", "two words", ".hidden"] {
        let refused = authority.issue(&[wrong.to_owned()], until).unwrap_err();
        assert!(
            refused
                .to_string()
                .starts_with("a certificate cannot have the name")
        );
    }
    let missing = Tls::from_folder(&folder.path().join("nobody")).unwrap_err();
    assert!(missing.to_string().contains("nobody/ca.pem"), "{missing}");
}

#[test]
fn unfinished_handshakes_do_not_affect_others() {
    let issuer = Issuer::new();
    let host = Secured::start(Some(issuer.issue(&["127.0.0.1"])));
    let half: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut socket = TcpStream::connect(("127.0.0.1", host.port())).unwrap();
            socket.write_all(&[0x16, 3, 1, 2, 0, 1]).unwrap();
            socket
        })
        .collect();
    let relay = relay(&host.world.remote, "guest", Some(issuer.issue(&["guest"])));
    relay.wait_connected();
    drop(half);
}
