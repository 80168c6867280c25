//! Sessions that request a higher priority of the service, on a real kernel.

use crate::common::{TestHost, enable};
use ferretto_ipc::port::consumer::{Reply, Request};
use ferretto_proto::PriorityBoostConfig;
use ferretto_proto::enable_tracing_response::State;
use ferretto_proto::priority_boost_config::BoostPolicy;

/// Returns the nice values of this process's threads.
fn nice_values() -> Vec<i64> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let stats = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let nice = stats.filter_map(|stat| {
        let fields = stat.rsplit_once(") ")?.1.to_owned();
        fields.split(' ').nth(16)?.parse().ok()
    });
    nice.collect()
}

fn boosted(nice: u32) -> Request {
    enable("nobody", |config| {
        config.priority_boost = PriorityBoostConfig {
            policy: Some(BoostPolicy::POLICY_SCHED_OTHER),
            priority: Some(nice),
            ..Default::default()
        }
        .into();
    })
}

#[test]
fn service_022_row_29_the_kernel_decides_about_priorities() {
    ferretto_testing::own_process!();
    let host = TestHost::start();
    let mut consumer = host.consumer();
    let before = nice_values();
    consumer.0.invoke(&boosted(11), None, true).unwrap();
    // Replies come in order, so that earlier requests have been carried out.
    let request = Request::QueryCapabilities(Default::default());
    let id = consumer.0.invoke(&request, None, true).unwrap();
    let reply = consumer.reply();
    if reply.request_id != id {
        let Ok(Reply::EnableTracing(refused)) = reply.result else {
            panic!("{reply:?}")
        };
        assert_eq!(refused.state, Some(State::Disabled(true)));
        assert_eq!(
            String::from_utf8(refused.error.unwrap()).unwrap(),
            "Failed to boost priority: setpriority(-11) failed (errno: 13, Permission denied)"
        );
        assert_eq!(nice_values(), before);
        println!("skipped: priorities may not be raised here");
        return;
    }
    assert_eq!(nice_values().iter().filter(|nice| **nice == -11).count(), 1);
    consumer.call(&Request::FreeBuffers(Default::default()));
    assert_eq!(nice_values(), before);
}
