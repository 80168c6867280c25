//! A custom data source: packets of a type that the program defines, with state for each thread.
//!
//! Run it under a recording with this data source, for example with a file `config.pbtx` that
//! contains `buffers { size_kb: 1024 } data_sources { config { name: "com.example.rounds" } }`:
//!
//!     ferretto record -c config.pbtx -- cargo run --example data_source

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ferretto::proto::DataSourceConfig;
use ferretto::{Completion, DataSource, DataSourceOptions, ExhaustedPolicy, Instance};

/// Reports rounds as they are counted. The recording decides when to start and stop.
struct Rounds {
    /// Receives the completions of stopping recordings, which the program drops at a suitable
    /// point.
    ends: Mutex<Sender<Completion>>,
}

/// The state of a thread for a recording. It is created again when packets must not depend on
/// previous ones.
#[derive(Default)]
struct Described {
    is_described: bool,
}

impl DataSource for Rounds {
    /// The name of the recording, from its config.
    type Instance = String;
    type Thread = Described;

    fn setup(&self, config: &DataSourceConfig) -> String {
        let name = config.legacy_config.as_deref().unwrap_or(b"rounds");
        String::from_utf8_lossy(name).into_owned()
    }

    fn start(&self, instance: &Instance<Self>) {
        println!("recording {} starts", instance.data());
    }

    fn stop(&self, instance: &Instance<Self>, completion: Completion) {
        println!("recording {} is to end", instance.data());
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        // If the program has ended, this drops the completion, and the recording stops at once.
        let _ = ends.send(completion);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// The field of TracePacket for tests, and a text in it. A real data source has its own field
    /// number.
    const FOR_TESTING: u32 = 900;
    const TEXT: u32 = 1;

    let (ends, ended) = channel();
    let rounds = DataSourceOptions::new("com.example.rounds")
        .policy(ExhaustedPolicy::StallThenDrop)
        .register(Rounds {
            ends: Mutex::new(ends),
        })?;
    ferretto::init()?;
    for round in 0..1000 {
        rounds.trace(|context| {
            if !std::mem::replace(&mut context.state().is_described, true) {
                context.new_packet().nested(FOR_TESTING, |message| {
                    message.string(TEXT, "what follows are rounds")
                });
            }
            let text = format!("round {round}");
            context
                .new_packet()
                .nested(FOR_TESTING, |message| message.string(TEXT, &text));
        });
        // A suitable point to stop.
        for completion in ended.try_iter() {
            rounds.trace(|context| context.flush(None));
            completion.complete();
        }
    }
    if !ferretto::flush(Duration::from_secs(1)) {
        println!("nobody records");
    }
    Ok(())
}
