//! A producer and a consumer that behave correctly, and the times that they wait for the service.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferretto_ipc::port::{consumer, producer};
use ferretto_proto::ObserveEventsRequest;
use ferretto_proto::observable_events::Type;

use crate::common::{Client, enable};
use crate::service::Service;

/// The data source of the honest producer.
pub(crate) const DATA_SOURCE: &str = "honest";
/// The pause between two requests of each client: the attackers should keep the service busy.
const PAUSE: Duration = Duration::from_millis(2);

/// The durations of requests, in ascending order.
#[derive(Default)]
pub(crate) struct Latencies {
    pub(crate) producer: Vec<Duration>,
    pub(crate) consumer: Vec<Duration>,
}

impl Latencies {
    pub(crate) fn worst(&self) -> Duration {
        let last = [self.producer.last(), self.consumer.last()];
        last.into_iter()
            .flatten()
            .max()
            .copied()
            .unwrap_or_default()
    }
}

type Times = Arc<Mutex<Vec<Duration>>>;

/// Returns the time for which this thread has waited for a CPU; zero if the kernel does not count
/// it.
fn waited_for_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = text.split(' ').nth(1).and_then(|text| text.parse().ok());
    Duration::from_nanos(waited.unwrap_or(0))
}

/// The two clients, each on a thread.
pub(crate) struct Honest {
    over: Arc<AtomicBool>,
    times: [Times; 2],
    threads: Vec<JoinHandle<()>>,
}

impl Honest {
    /// Starts both clients, with a session.
    pub(crate) fn start(service: &Service) -> Self {
        let mut producer = Client::<producer::Port>::bind(service.producer_socket());
        producer.initialize(DATA_SOURCE);
        producer.register(DATA_SOURCE);
        producer.open_commands();
        let mut consumer = Client::<consumer::Port>::bind(service.consumer_socket());
        let session = enable(DATA_SOURCE, |_| {});
        consumer.0.invoke(&session, None, true).unwrap();
        let observe = consumer::Request::ObserveEvents(ObserveEventsRequest {
            events_to_observe: vec![Type::TYPE_DATA_SOURCES_INSTANCES],
            ..Default::default()
        });
        consumer.0.invoke(&observe, None, true).unwrap();

        let mut honest = Self {
            over: Arc::default(),
            times: [Times::default(), Times::default()],
            threads: Vec::new(),
        };
        honest.go_on(0, move || {
            let sync = producer::Request::Sync(Default::default());
            assert!(producer.call(&sync).result.is_ok());
        });
        honest.go_on(1, move || {
            let query = consumer::Request::QueryCapabilities(Default::default());
            assert!(consumer.call(&query).result.is_ok());
            let read = consumer::Request::ReadBuffers(Default::default());
            let id = consumer.0.invoke(&read, None, true).unwrap();
            loop {
                let reply = consumer.reply();
                if reply.request_id == id && !reply.has_more {
                    break assert!(reply.result.is_ok());
                }
            }
        });
        honest
    }

    /// Makes the same request again and again.
    fn go_on(&mut self, who: usize, mut request: impl FnMut() + Send + 'static) {
        let (over, times) = (Arc::clone(&self.over), Arc::clone(&self.times[who]));
        let run = move || {
            while !over.load(Ordering::Relaxed) {
                let (begin, waited) = (Instant::now(), waited_for_cpu());
                request();
                // The client itself may have to wait for a CPU.
                let own = waited_for_cpu().saturating_sub(waited);
                times
                    .lock()
                    .unwrap()
                    .push(begin.elapsed().saturating_sub(own));
                std::thread::sleep(PAUSE);
            }
        };
        self.threads.push(std::thread::spawn(run));
    }

    /// Lets the clients run for a while, in which each is served at least once.
    pub(crate) fn serve_for(&self, time: Duration) {
        let count = |times: &Times| times.lock().unwrap().len();
        let before = self.times.each_ref().map(count);
        std::thread::sleep(time);
        while self
            .times
            .each_ref()
            .map(count)
            .iter()
            .zip(before)
            .any(|(now, before)| *now == before)
        {
            assert!(self.threads.iter().all(|thread| !thread.is_finished()));
            std::thread::sleep(PAUSE);
        }
    }

    /// Takes the durations of requests since the last call.
    pub(crate) fn take_latencies(&self) -> Latencies {
        let [producer, consumer] = self.times.each_ref().map(|times| {
            let mut times = std::mem::take(&mut *times.lock().unwrap());
            times.sort_unstable();
            times
        });
        Latencies { producer, consumer }
    }

    /// Ends both, and asserts that no request was refused.
    pub(crate) fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}
