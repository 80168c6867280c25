//! Clients that violate the protocol.

use ferretto::in_process::InProcess;
use ferretto_client::ExhaustedPolicy;
use ferretto_client::transport::{
    Connect, Link, LinkEvent, LinkReply, ProducerPort, producer::Request,
};
use ferretto_proto::commit_data_request::{ChunkToPatch, ChunksToMove, chunk_to_patch};
use ferretto_proto::{
    CommitDataRequest, GetAsyncCommandRequest, InitializeConnectionRequest,
    RegisterTraceWriterRequest, SyncRequest,
};
use rustix::event::{PollFd, PollFlags, poll};

use super::world::*;

fn link(service: &InProcess) -> Box<dyn Link<ProducerPort>> {
    service.connect().unwrap()
}

fn next(link: &mut dyn Link<ProducerPort>) -> LinkEvent<ProducerPort> {
    loop {
        if let Some(event) = link.poll_event() {
            return event;
        }
        let fd = link.as_fd();
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).unwrap();
        link.process();
    }
}

fn reply_to(link: &mut dyn Link<ProducerPort>, id: u64) -> LinkReply<ProducerPort> {
    loop {
        match next(link) {
            LinkEvent::Reply(reply) if reply.request_id == id => return reply,
            LinkEvent::Disconnected(reason) => panic!("{reason}"),
            _ => {}
        }
    }
}

fn works(service: &InProcess) {
    let _recorder = Recorder::start(service, ExhaustedPolicy::Drop, |writer| {
        write(writer, 1, 10);
    });
    let mut consumer = consumer(service);
    start(&mut consumer, config(64));
    stop(&mut consumer);
    assert_eq!(numbers(&read(&mut consumer)), [1]);
}

fn hello() -> Request {
    Request::InitializeConnection(InitializeConnectionRequest {
        producer_name: Some(b"hostile".to_vec()),
        ..Default::default()
    })
}

fn absurd_commit() -> Request {
    let extreme = [0, 1, u32::MAX];
    let moves = extreme.map(|value| ChunksToMove {
        page: Some(value),
        chunk: Some(value),
        target_buffer: Some(value),
        data: (value == 1).then(|| vec![0xff; 70_000]),
        ..Default::default()
    });
    let patches = extreme.map(|value| ChunkToPatch {
        target_buffer: Some(value),
        writer_id: Some(value),
        chunk_id: Some(value),
        patches: vec![chunk_to_patch::Patch {
            offset: Some(value),
            data: Some(vec![0; 3]),
            ..Default::default()
        }],
        ..Default::default()
    });
    Request::CommitData(CommitDataRequest {
        chunks_to_move: moves.to_vec(),
        chunks_to_patch: patches.to_vec(),
        flush_request_id: Some(u64::MAX),
        ..Default::default()
    })
}

#[test]
fn invalid_commits_do_not_affect_other_clients() {
    let service = InProcess::new();
    let mut hostile = link(&service);
    // Before and after a welcome.
    hostile.invoke(absurd_commit(), None, true).unwrap();
    let id = hostile.invoke(hello(), None, true).unwrap();
    assert!(reply_to(&mut *hostile, id).result.is_ok());
    let absurd = Request::RegisterTraceWriter(RegisterTraceWriterRequest {
        trace_writer_id: Some(u32::MAX),
        target_buffer: Some(u32::MAX),
        ..Default::default()
    });
    hostile.invoke(absurd, None, false).unwrap();
    let id = hostile.invoke(absurd_commit(), None, true).unwrap();
    reply_to(&mut *hostile, id);
    let again = hostile.invoke(hello(), None, true).unwrap();
    assert!(reply_to(&mut *hostile, again).result.is_err());
    works(&service);
}

#[test]
fn unexpected_descriptors_are_closed() {
    let service = InProcess::new();
    let mut link = link(&service);
    let (mut reader, writer) = std::io::pipe().unwrap();
    let attachment = ferretto_client::transport::Attachment::Descriptor(writer.into());
    let id = link.invoke(hello(), Some(attachment), true).unwrap();
    assert!(reply_to(&mut *link, id).result.is_ok());
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut rest).unwrap();
    assert!(rest.is_empty());
}

#[test]
fn a_client_that_takes_no_replies_is_disconnected() {
    let service = InProcess::new();
    let mut silent = link(&service);
    silent.invoke(hello(), None, true).unwrap();
    let commands = Request::GetAsyncCommand(GetAsyncCommandRequest::default());
    silent.invoke(commands, None, true).unwrap();
    // More than the queues in both directions hold.
    for _ in 0..200_000 {
        let sync = Request::Sync(SyncRequest::default());
        if silent.invoke(sync, None, true).is_err() {
            break;
        }
    }
    let (mut open, mut answered) = (0, 0);
    loop {
        match next(&mut *silent) {
            LinkEvent::Disconnected(_) => break,
            LinkEvent::Reply(reply) if reply.result.is_ok() => answered += 1,
            LinkEvent::Reply(_) => open += 1,
            LinkEvent::Bound | LinkEvent::BindFailed => {}
        }
    }
    assert!(answered < 200_000 && open > 0, "{answered} {open}");
    assert!(silent.is_closed());
    works(&service);
}

#[test]
fn requests_made_before_the_end_still_arrive() {
    let service = InProcess::new();
    let mut consumer = consumer(&service);
    let trigger = ferretto_proto::trace_config::TriggerConfig {
        trigger_mode: Some(ferretto_proto::trace_config::trigger_config::TriggerMode::STOP_TRACING),
        triggers: vec![ferretto_proto::trace_config::trigger_config::Trigger {
            name: Some(b"last words".to_vec()),
            ..Default::default()
        }],
        trigger_timeout_ms: Some(60_000),
        ..Default::default()
    };
    let config = ferretto_proto::TraceConfig {
        trigger_config: trigger.into(),
        ..config(64)
    };
    consumer.enable_tracing(config, None).unwrap();
    consumer.query_service_state(LIMIT).unwrap();
    let mut producer = link(&service);
    producer.invoke(hello(), None, false).unwrap();
    let fire = Request::ActivateTriggers(ferretto_proto::ActivateTriggersRequest {
        trigger_names: vec![b"last words".to_vec()],
        ..Default::default()
    });
    producer.invoke(fire, None, false).unwrap();
    drop(producer);
    wait_for_end(&mut consumer);
}
