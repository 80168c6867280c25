//! A data source of one's own: packets of a type that the program defines, with state that each
//! thread keeps.
//!
//! Run it under a recording that asks for it, for example with a file `config.pbtx` that says
//! `buffers { size_kb: 1024 } data_sources { config { name: "com.example.rounds" } }`:
//!
//!     ferretto record -c config.pbtx -- cargo run --example data_source

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ferretto::proto::DataSourceConfig;
use ferretto::{Completion, DataSource, DataSourceOptions, ExhaustedPolicy, Instance};

/// Reports rounds as they are counted. The recording decides when it begins and ends.
struct Rounds {
    /// The program is told of recordings that end, and ends them when it has come to a good place.
    ends: Mutex<Sender<Completion>>,
}

/// The state each thread keeps for each recording. It is made anew when packets must make sense
/// without those before.
#[derive(Default)]
struct Described {
    is_described: bool,
}

impl DataSource for Rounds {
    /// The name that the recording gives itself.
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
        // If the program has ended, this drops the completion, and the recording ends at once.
        let _ = ends.send(completion);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// The field of TracePacket for tests, and a text in it. A real data source has a field number
    /// of its own.
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
        // Here is a good place to end.
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
