//! Tests of async functions with `#[ferretto::trace]`.
#![cfg(feature = "macros")]

use std::future::{Future, poll_fn};
use std::num::ParseIntError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use ferretto::trace;
use ferretto_testing::sdk::events::{Decoded, Recorder};

/// A future that is pending once.
async fn pause() {
    let mut is_ready = false;
    poll_fn(move |_| {
        if std::mem::replace(&mut is_ready, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

#[trace(args)]
async fn tracked(id: u32) -> u32 {
    ferretto::instant!("app", "before");
    pause().await;
    ferretto::instant!("app", "after");
    id + 1
}

#[trace(polls, args(text))]
async fn polled(text: String) -> Result<u32, ParseIntError> {
    pause().await;
    let number: u32 = text.parse()?;
    pause().await;
    Ok(number)
}

struct Server(u32);

impl Server {
    #[trace(polls)]
    async fn serve(&mut self, by: &u32) -> &mut u32 {
        pause().await;
        self.0 += by;
        &mut self.0
    }

    #[trace]
    async fn panics(&self) -> impl Sized + use<> {
        pause().await;
        assert_eq!(self.0, 2, "on purpose");
    }
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Checks that futures of traced functions stay `Send`.
fn check<F: Future + Send>(future: F) -> F {
    future
}

/// Returns the first letters of the events on a track.
fn of(decoded: &Decoded, track: u64) -> Vec<&str> {
    let events = decoded.events.iter();
    let here = events.filter(|event| decoded.track(event) == track);
    here.map(|event| if event.kind == 2 { "end" } else { &event.name })
        .collect()
}

// One test, since a process has one connection.
#[test]
fn calls_of_async_functions_are_slices() {
    ferretto_testing::own_process!();
    let mut recorder = Recorder::new();
    let decoded = recorder.record(None, || {
        let (mut one, mut two) = (pin!(check(tracked(1))), pin!(check(tracked(2))));
        assert!(poll(one.as_mut()).is_pending());
        assert!(poll(two.as_mut()).is_pending());
        assert_eq!(poll(one.as_mut()), Poll::Ready(2));
        // The second future is dropped.
    });
    let lines = [
        "B ferretto tracked id=u1",
        "I app before",
        "B ferretto tracked id=u2",
        "I app before",
        "I app after",
        "E",
        "E",
    ];
    assert_eq!(decoded.lines(), lines);
    let [one, two] = [0, 2].map(|index: usize| decoded.events[index].track.unwrap());
    assert_ne!(one, two);
    assert_eq!(
        (of(&decoded, one), of(&decoded, two)),
        (vec!["tracked", "end"], vec!["tracked", "end"])
    );
    assert_eq!(decoded.tracks[&one].name, "tracked");
    assert_eq!(decoded.tracks[&one].parent, decoded.tracks[&two].parent);

    let decoded = recorder.record(None, || {
        let mut server = Server(1);
        let mut future = pin!(check(server.serve(&2)));
        assert!(poll(future.as_mut()).is_pending());
        assert_eq!(poll(future.as_mut()), Poll::Ready(&mut 3));
        let mut future = pin!(polled("x".to_owned()));
        assert!(poll(future.as_mut()).is_pending());
        assert!(matches!(poll(future), Poll::Ready(Err(_))));
    });
    let lines = [
        "B ferretto serve",
        "E",
        "B ferretto serve",
        "E",
        "B ferretto polled text=\"x\"",
        "E",
        "B ferretto polled",
        "E",
    ];
    assert_eq!(decoded.lines(), lines);
    let flows: Vec<_> = [0, 2, 4, 6]
        .map(|index: usize| decoded.events[index].flows[0])
        .into();
    assert!(flows[0] == flows[1] && flows[2] == flows[3] && flows[0] != flows[2]);

    let decoded = recorder.record(None, || {
        let server = Server(1);
        let mut future = Box::pin(server.panics());
        assert!(poll(future.as_mut()).is_pending());
        let panicked = catch_unwind(AssertUnwindSafe(|| poll(future.as_mut()).is_ready()));
        panicked.unwrap_err();
    });
    assert_eq!(decoded.lines(), ["B ferretto panics", "E"]);
}
