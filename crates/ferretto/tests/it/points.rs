//! Tests of the trace points of data sources, on several threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use ferretto::proto::trace_config::IncrementalStateConfig;
use ferretto::proto::{DataSourceConfig, TraceConfig};
use ferretto::{DataSource, Instance};
use ferretto_client::Consumer;
use ferretto_testing::sdk::noted::{Ends, Note, Noted, texts, wait_for, write};
use ferretto_testing::sdk::{LIMIT, Service, config, source, start, stop};

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| {
        let service = Service::start();
        let options = ferretto::Options::new().address(service.producers.clone());
        options.wait(LIMIT).init().unwrap();
        service
    })
}

fn consumer() -> Consumer {
    Consumer::connect(&service().consumers, LIMIT).unwrap()
}

fn known((noted, ends): (Noted, Ends), name: &str) -> (ferretto::DataSourceHandle<Noted>, Ends) {
    service();
    let handle = noted.register(name);
    assert!(ferretto::flush(LIMIT));
    (handle, ends)
}

#[test]
fn sdk_017_trace_points_inside_others_are_dropped() {
    ferretto_testing::own_process!();
    let name = "test.nested";
    let (handle, _ends) = known(Noted::new(), name);
    let mut consumer = consumer();
    let both = config(vec![source(name, None), source("track_event", None)]);
    start(&mut consumer, both);
    handle.trace(|_| {
        write(&handle, "inside another");
        ferretto::instant!("nested", "inside another");
    });
    ferretto::instant!(
        "nested",
        "with an argument",
        inside = {
            // Arguments are evaluated before the event begins.
            write(&handle, "in an argument");
            1
        }
    );
    // A trace point that panics leaves no state behind.
    let early = catch_unwind(AssertUnwindSafe(|| {
        handle.trace(|_| std::panic::resume_unwind(Box::new(())));
    }));
    assert!(early.is_err());
    write(&handle, "afterwards");
    assert!(ferretto::flush(LIMIT));
    let packets = stop(&mut consumer);
    assert_eq!(texts(&packets), ["in an argument", "afterwards"]);
    let events = packets
        .iter()
        .filter(|packet| ferretto_wire::Fields::find(11, packet).is_some());
    assert_eq!(events.count(), 1);
}

/// A data source whose threads report when they drop their state.
struct Telling(std::sync::Mutex<Sender<&'static str>>);

#[derive(Default)]
struct Kept(Option<Sender<&'static str>>);

impl Drop for Kept {
    fn drop(&mut self) {
        // Trace points here are harmless, recorded or not: inside a trace point, and while a
        // thread ends.
        ferretto::instant!("telling", "while dropped");
        if let Some(sender) = &self.0 {
            let _ = sender.send("dropped");
        }
    }
}

impl DataSource for Telling {
    type Instance = ();
    type Thread = Kept;

    fn setup(&self, _: &DataSourceConfig) {}

    fn thread(&self, _: &Instance<Self>) -> Kept {
        Kept(Some(self.0.lock().unwrap().clone()))
    }
}

#[test]
fn sdk_018_threads_give_up_what_they_keep_of_a_recording_that_has_stopped() {
    ferretto_testing::own_process!();
    let (sender, receiver) = channel();
    let telling = Telling(std::sync::Mutex::new(sender));
    service();
    let handle = ferretto::register_data_source("test.telling", telling).unwrap();
    assert!(ferretto::flush(LIMIT));
    let (mut first, mut second) = (consumer(), consumer());
    start(&mut first, config(vec![source("test.telling", None)]));
    start(&mut second, config(vec![source("track_event", None)]));
    handle.trace(|context| {
        context.state();
    });
    stop(&mut first);
    assert!(receiver.try_recv().is_err());
    // Any trace point suffices.
    ferretto::instant!("telling", "of another kind");
    assert_eq!(receiver.try_recv(), Ok("dropped"));
    first.free_buffers(LIMIT).unwrap();

    // A thread that ends commits its packets.
    start(&mut first, config(vec![source("test.telling", None)]));
    std::thread::spawn(move || {
        handle.trace(|context| {
            context
                .new_packet()
                .nested(900, |message| message.string(1, "from a short life"));
        });
    })
    .join()
    .unwrap();
    assert_eq!(receiver.recv_timeout(LIMIT), Ok("dropped"));
    assert!(ferretto::flush(LIMIT));
    assert_eq!(texts(&stop(&mut first)), ["from a short life"]);
    let events = stop(&mut second);
    let text = String::from_utf8_lossy(&events.concat()).into_owned();
    assert!(text.contains("of another kind"));
}

/// Runs a trace point, clears the state, and returns the thread's state at the next trace point.
fn cleared(noted: (Noted, Ends), name: &str) -> u32 {
    let (handle, Ends { notes, .. }) = known(noted, name);
    let mut consumer = consumer();
    let mut config = config(vec![source(name, None)]);
    config.incremental_state_config = IncrementalStateConfig {
        clear_period_ms: Some(100),
        ..Default::default()
    }
    .into();
    start(&mut consumer, config);
    // The number of clears before and after does not matter; only the next trace point counts.
    write(&handle, "1");
    wait_for(&notes, &Note::Clear(0));
    // The background thread clears the state before it reports that.
    let mut kept = 0;
    handle.trace(|context| kept = *context.state());
    stop(&mut consumer);
    kept
}

#[test]
fn sdk_019_what_threads_keep_is_cleared() {
    ferretto_testing::own_process!();
    assert_eq!(cleared(Noted::new(), "test.cleared"), 0);
    let (noted, ends) = Noted::new();
    assert_eq!(cleared((noted.keeping(), ends), "test.kept"), 1);
}

#[test]
fn trace_points_can_access_their_instance() {
    ferretto_testing::own_process!();
    let name = "test.known";
    let (handle, Ends { notes, .. }) = known(Noted::new(), name);
    let mut consumer = consumer();
    start(
        &mut consumer,
        TraceConfig {
            unique_session_name: Some(b"known".to_vec()),
            ..config(vec![source(name, None)])
        },
    );
    let mut instance = None;
    handle.trace(|context| instance = context.instance());
    let instance = instance.unwrap();
    assert_eq!(instance.config().name.as_deref(), Some(name.as_bytes()));
    assert_eq!(instance.backend(), ferretto::BackendKind::System);
    stop(&mut consumer);
    // The instance exists as long as it is held, but its writers write nowhere.
    assert!(notes.try_iter().all(|note| note != Note::Dropped));
    drop(instance);
    wait_for(&notes, &Note::Dropped);
}
