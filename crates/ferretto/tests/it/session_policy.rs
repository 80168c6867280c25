//! Test of the policy that decides which sessions may connect.

use std::sync::mpsc;
use std::time::Duration;

use ferretto::session::{
    Backend, BackendKind, RecordingConfig, Session, SessionError, SessionEvent, set_policy,
};
use ferretto_testing::sdk::{LIMIT, Service};

// One test, since the policy is process-wide.
#[test]
fn sdk_031_a_refusal_looks_like_a_lost_connection() {
    ferretto_testing::own_process!();
    let service = Service::start();
    let open = || {
        let session = Session::open(Backend::At(service.consumers.clone())).unwrap();
        session.set_up(RecordingConfig::new());
        session
    };
    let (sender, asked) = mpsc::channel();
    set_policy(move |request| sender.send(request).unwrap());

    // Refused later, on another thread.
    let session = open();
    let start = session.start(LIMIT);
    let request = asked.recv_timeout(LIMIT).unwrap();
    assert_eq!(request.backend(), BackendKind::System);
    std::thread::spawn(|| request.refuse()).join().unwrap();
    let error = start.wait().unwrap_err();
    assert!(
        matches!(error, SessionError::Disconnected { .. }),
        "{error:?}"
    );
    let event = session.next_event(LIMIT).wait().unwrap();
    assert!(matches!(event, SessionEvent::Disconnected { .. }));

    // Dropped, which is a refusal.
    let session = open();
    drop(asked.recv_timeout(LIMIT).unwrap());
    let error = session.start(LIMIT).wait().unwrap_err();
    assert!(
        matches!(error, SessionError::Disconnected { .. }),
        "{error:?}"
    );

    // Undecided: calls still time out, and the session can be dropped.
    let session = open();
    let request = asked.recv_timeout(LIMIT).unwrap();
    let error = session.start(Duration::from_millis(1)).wait().unwrap_err();
    assert!(matches!(error, SessionError::TimedOut { .. }), "{error:?}");
    drop(session);
    drop(request);

    // Allowed.
    let session = open();
    let start = session.start(LIMIT);
    asked.recv_timeout(LIMIT).unwrap().allow();
    start.wait().unwrap();
    session.stop(LIMIT).wait().unwrap();
}
