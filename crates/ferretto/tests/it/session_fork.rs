//! Forked children do not share the sessions of their parent.

use std::time::Duration;

use ferretto::session::{Backend, RecordingConfig, Session, SessionError};
use ferretto_shm::testing::run_in_child;

const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn a_child_cannot_use_its_parents_session_and_does_not_hang() {
    ferretto_testing::own_process!();
    let options = ferretto::Options::new().backends(ferretto::Backends::IN_PROCESS);
    options.wait(LIMIT).init().unwrap();
    let session = Session::open(Backend::InProcess).unwrap();
    session.set_up(RecordingConfig::new());
    session.start(LIMIT).wait().unwrap();
    let mut inherited = Some(session);
    let child = run_in_child(|| {
        let session = inherited.take().unwrap();
        let error = session.stop(LIMIT).wait().unwrap_err();
        assert!(
            matches!(error, SessionError::Disconnected { .. }),
            "{error:?}"
        );
        drop(session);
        // The child can open its own session.
        let session = Session::open(Backend::InProcess).unwrap();
        session.set_up(RecordingConfig::new());
        session.start(LIMIT).wait().unwrap();
        session.stop(LIMIT).wait().unwrap();
        assert!(!session.read(LIMIT).wait().unwrap().is_empty());
    });
    assert!(child.unwrap().wait());
    // The parent's session goes on.
    let session = inherited.unwrap();
    session.flush(LIMIT).wait().unwrap();
    session.stop(LIMIT).wait().unwrap();
}
