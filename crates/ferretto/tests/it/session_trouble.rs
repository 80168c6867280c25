//! Sessions whose service is absent, silent, lost, or forbidden: every call fails with the reason.

use std::future::Future;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use ferretto::Address;
use ferretto::session::{Backend, Call, RecordingConfig, Session, SessionError, SessionEvent};
use ferretto_testing::sdk::{LIMIT, Service};

/// A time limit that is expected to pass.
const SHORT: Duration = Duration::from_millis(20);

type Outcome = Result<(), SessionError>;
type Wait = Box<dyn FnOnce() -> Outcome>;

/// Makes every kind of call.
fn calls(session: &Session, limit: Duration) -> Vec<(&'static str, Wait)> {
    fn wait<T: 'static>(call: Call<T>) -> Wait {
        Box::new(|| call.wait().map(drop))
    }
    vec![
        ("start", wait(session.start(limit))),
        ("flush", wait(session.flush(limit))),
        ("stats", wait(session.stats(limit))),
        ("service_state", wait(session.service_state(limit))),
        ("capabilities", wait(session.capabilities(limit))),
        ("clone", wait(session.clone_named("some", limit))),
        (
            "change",
            wait(session.change_config(RecordingConfig::new(), limit)),
        ),
        ("read", wait(session.read(limit))),
        ("read_into", wait(session.read_into(Vec::new(), limit))),
        ("stop", wait(session.stop(limit))),
        ("end", wait(session.wait_for_end(limit))),
    ]
}

fn assert_disconnected(name: &str, result: Outcome) {
    match result {
        Err(SessionError::Disconnected { reason }) => assert!(!reason.is_empty(), "{name}"),
        other => panic!("{name}: {other:?}"),
    }
}

/// Creates a listener that accepts no connection.
fn silent(name: &str) -> (UnixListener, Backend) {
    let name = format!("ferretto-silent-{}-{name}", std::process::id()).into_bytes();
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let listener = UnixListener::bind_addr(&address).unwrap();
    (listener, Backend::At(Address::Abstract(name)))
}

#[test]
fn sdk_024_without_a_service_every_call_fails() {
    ferretto_testing::own_process!();
    let nowhere = Address::Abstract(format!("ferretto-nowhere-{}", std::process::id()).into());
    let session = Session::open(Backend::At(nowhere)).unwrap();
    session.set_up(RecordingConfig::new());
    // Calls made before the absence is known, and after.
    for _ in 0..2 {
        for (name, wait) in calls(&session, LIMIT) {
            assert_disconnected(name, wait());
        }
    }
    let event = session.next_event(LIMIT).wait().unwrap();
    assert!(matches!(&event, SessionEvent::Disconnected { reason } if !reason.is_empty()));
    assert_disconnected("event", session.next_event(LIMIT).wait().map(drop));
}

#[test]
fn sdk_024_a_silent_service_is_waited_for_no_longer_than_the_limit() {
    ferretto_testing::own_process!();
    let (_listener, backend) = silent("limit");
    let session = Session::open(backend).unwrap();
    session.set_up(RecordingConfig::new());
    for (name, wait) in calls(&session, SHORT) {
        let error = wait().unwrap_err();
        assert!(
            matches!(error, SessionError::TimedOut { .. }),
            "{name}: {error:?}"
        );
    }
    // Futures time out, too: the session's thread keeps the time.
    let error = block_on(session.service_state(SHORT)).unwrap_err();
    assert!(matches!(error, SessionError::TimedOut { .. }), "{error:?}");
    let error = block_on(session.next_event(SHORT)).unwrap_err();
    assert!(matches!(error, SessionError::TimedOut { .. }), "{error:?}");
}

#[test]
fn sdk_024_a_service_lost_before_it_answers_fails_what_waits() {
    ferretto_testing::own_process!();
    let (listener, backend) = silent("lost");
    let session = Session::open(backend).unwrap();
    session.set_up(RecordingConfig::new());
    let calls = calls(&session, LIMIT);
    let event = session.next_event(LIMIT);
    drop(listener.accept().unwrap());
    for (name, wait) in calls {
        assert_disconnected(name, wait());
    }
    let event = event.wait().unwrap();
    assert!(matches!(event, SessionEvent::Disconnected { .. }));
}

#[test]
fn sdk_024_a_service_lost_while_it_works_fails_what_waits() {
    ferretto_testing::own_process!();
    let service = Service::start();
    let session = Session::open(Backend::At(service.consumers.clone())).unwrap();
    session.set_up(RecordingConfig::new());
    session.start(LIMIT).wait().unwrap();
    let end = session.wait_for_end(LIMIT);
    drop(service);
    assert_disconnected("end", end.wait());
    for (name, wait) in calls(&session, LIMIT) {
        assert_disconnected(name, wait());
    }
    // Earlier events still arrive, then the disconnection.
    let mut events = Vec::new();
    while let Ok(event) = session.next_event(LIMIT).wait() {
        events.push(event);
    }
    assert!(events.contains(&SessionEvent::AllStarted), "{events:?}");
    let last = events.pop().unwrap();
    assert!(
        matches!(last, SessionEvent::Disconnected { .. }),
        "{last:?}"
    );
}

#[test]
fn sessions_may_be_dropped_at_any_stage() {
    ferretto_testing::own_process!();
    let service = Service::start();
    let (_listener, silent) = silent("drop");
    let open = || Session::open(Backend::At(service.consumers.clone())).unwrap();
    let mut calls = Vec::new();

    let session = Session::open(silent).unwrap();
    calls.push(session.start(LIMIT));
    drop(session);
    let session = open();
    calls.push(session.start(LIMIT));
    session.set_up(RecordingConfig::new());
    calls.push(session.start(LIMIT));
    drop(session);
    let session = open();
    session.set_up(RecordingConfig::new().unique_name("dropped"));
    session.start(LIMIT).wait().unwrap();
    calls.push(session.wait_for_end(LIMIT));
    drop(session);
    // Calls that can no longer be answered fail.
    for call in calls {
        call.wait().unwrap_err();
    }
    // The recording has ended: its name is free once the service has noticed.
    let session = open();
    let started = (0..1000).find_map(|_| {
        session.set_up(RecordingConfig::new().unique_name("dropped"));
        session.start(LIMIT).wait().ok()
    });
    started.unwrap();
    session.stop(LIMIT).wait().unwrap();
    drop(session);
    let session = open();
    let state = session.service_state(LIMIT).wait().unwrap();
    assert_eq!(state.num_sessions, Some(0));
}

/// Wakes a thread.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A minimal executor.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn calls_are_futures_of_any_executor() {
    ferretto_testing::own_process!();
    let service = Service::start();
    let session = Session::open(Backend::At(service.consumers.clone())).unwrap();
    let trace = block_on(async {
        session.set_up(RecordingConfig::new());
        session.start(LIMIT).await?;
        session.flush(LIMIT).await?;
        // Dropping a polled future is harmless.
        let mut given_up = Box::pin(session.wait_for_end(LIMIT));
        let polled = std::future::poll_fn(|context| {
            Poll::Ready(given_up.as_mut().poll(context).is_pending())
        });
        assert!(polled.await);
        drop(given_up);
        session.stop(LIMIT).await?;
        session.read(LIMIT).await
    });
    assert!(!trace.unwrap().is_empty());
}

#[test]
fn sessions_and_calls_are_send() {
    ferretto_testing::own_process!();
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Session>();
    is_shared::<Call<Vec<u8>>>();
    is_shared::<SessionError>();
}

#[test]
fn many_threads_use_one_session() {
    ferretto_testing::own_process!();
    let service = Service::start();
    let session = Session::open(Backend::At(service.consumers.clone())).unwrap();
    session.set_up(RecordingConfig::new());
    session.start(LIMIT).wait().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let stats = session.stats(LIMIT);
                    let read = session.read(LIMIT);
                    let flush = session.flush(LIMIT);
                    // An abandoned call; the other calls are still answered.
                    drop(session.service_state(LIMIT));
                    flush.wait().unwrap();
                    read.wait().unwrap();
                    stats.wait().unwrap();
                }
            });
        }
    });
    session.stop(LIMIT).wait().unwrap();
}
