//! The web UI's recording page, which reaches the consumer socket through a bridge that forwards
//! bytes.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use crate::common::{TestHost, enable};
use ferretto_ipc::frame::{Frame, Message};
use ferretto_ipc::port::{Method as _, consumer};
use ferretto_proto::clone_session_request::Selector;
use ferretto_proto::{CloneSessionRequest, FlushRequest, ReadBuffersRequest};
use ferretto_wire::encode;

/// Forwards the bytes of any number of connections, in pieces other than frames.
struct Bridge {
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl Bridge {
    fn start(host: &TestHost, connections: usize) -> Self {
        let path = host.folder().join("bridge.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let target = host.consumer_path();
        let thread = thread::spawn(move || {
            let copies: Vec<_> = (0..connections)
                .flat_map(|_| {
                    let (page, _) = listener.accept().unwrap();
                    let service = UnixStream::connect(&target).unwrap();
                    let back = (service.try_clone().unwrap(), page.try_clone().unwrap());
                    [copy(page, service, 3), copy(back.0, back.1, 1000)]
                })
                .collect();
            for copy in copies {
                copy.join().unwrap();
            }
        });
        Self {
            path,
            thread: Some(thread),
        }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take().filter(|_| !thread::panicking()) {
            thread.join().unwrap();
        }
    }
}

fn copy(mut from: UnixStream, mut to: UnixStream, piece: usize) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = vec![0; piece];
        while let Ok(size @ 1..) = from.read(&mut buffer) {
            if to.write_all(&buffer[..size]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    })
}

/// A client as strict as the page: everything but an expected, successful reply is an error.
struct Page {
    stream: UnixStream,
    next_id: u64,
    service: u32,
    methods: HashMap<Vec<u8>, u32>,
    /// The open requests, with true for those with several replies.
    open: HashMap<u64, consumer::Method>,
}

impl Page {
    fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        let patience = Some(std::time::Duration::from_secs(30));
        stream.set_read_timeout(patience).unwrap();
        let mut page = Self {
            stream,
            next_id: 1,
            service: 0,
            methods: HashMap::new(),
            open: HashMap::new(),
        };
        let id = page.send(3, &encode(|bind| bind.bytes(1, b"ConsumerPort")));
        assert_eq!(id, 1);
        // Exactly one frame, before all others.
        let bytes = page.read();
        let frame = Frame::decode(&bytes).unwrap();
        let Message::BindServiceReply {
            success: true,
            service_id,
            methods,
        } = frame.message
        else {
            panic!("{frame:?}")
        };
        page.service = service_id;
        for (id, name) in methods {
            page.methods.insert(name.to_vec(), id);
        }
        page
    }

    /// Sends a frame with one message; the page omits all optional fields.
    fn send(&mut self, field: u32, message: &[u8]) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let payload = encode(|frame| {
            frame.varint(2, id);
            frame.bytes(field, message);
        });
        let size = u32::try_from(payload.len()).unwrap().to_le_bytes();
        self.stream
            .write_all(&[&size[..], &payload].concat())
            .unwrap();
        id
    }

    fn read(&mut self) -> Vec<u8> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).unwrap();
        let mut payload = vec![0; u32::from_le_bytes(size) as usize];
        self.stream.read_exact(&mut payload).unwrap();
        payload
    }

    /// Calls a method, without `drop_reply`.
    fn invoke(&mut self, request: &consumer::Request) -> u64 {
        let method = self.methods[request.method_name().as_bytes()];
        let mut arguments = Vec::new();
        request.encode(&mut arguments);
        let service = self.service;
        let call = encode(|call| {
            call.varint(1, service.into());
            call.varint(2, method.into());
            call.bytes(3, &arguments);
        });
        let id = self.send(5, &call);
        self.open.insert(id, request.method());
        id
    }

    /// Returns the next reply, and true if others follow.
    fn reply(&mut self) -> (u64, consumer::Reply, bool) {
        let bytes = self.read();
        let frame = Frame::decode(&bytes).unwrap();
        let Message::InvokeMethodReply {
            success: true,
            has_more,
            reply,
        } = frame.message
        else {
            panic!("{frame:?}")
        };
        let id = frame.request_id;
        let method = self.open[&id];
        assert!(method.is_stream() || !has_more, "{method:?}");
        if !has_more {
            self.open.remove(&id);
        }
        (
            id,
            consumer::Reply::decode(method, reply).unwrap(),
            has_more,
        )
    }

    /// Calls a method, and waits for all of its replies; other calls stay open.
    fn call(&mut self, request: &consumer::Request) -> Vec<consumer::Reply> {
        let id = self.invoke(request);
        let mut replies = Vec::new();
        loop {
            let (of, reply, has_more) = self.reply();
            assert_eq!(of, id, "{reply:?}");
            replies.push(reply);
            if !has_more {
                return replies;
            }
        }
    }

    /// Returns the packets of the session, or of its clone.
    fn trace(&mut self) -> usize {
        let replies = self.call(&consumer::Request::ReadBuffers(
            ReadBuffersRequest::default(),
        ));
        let slices = replies.into_iter().flat_map(|reply| match reply {
            consumer::Reply::ReadBuffers(reply) => reply.slices,
            other => panic!("{other:?}"),
        });
        let ends = slices.filter(|slice| slice.last_slice_for_packet == Some(true));
        ends.count()
    }
}

#[test]
fn ipc_066_the_recording_page_works_through_a_bridge_of_bytes() {
    ferretto_testing::own_process!();
    let host = TestHost::start();
    let mut producer = host.producer();
    producer.initialize("traced");
    producer.register("test");
    let bridge = Bridge::start(&host, 2);
    let mut page = Page::connect(&bridge.path);
    let state = page.call(&consumer::Request::QueryServiceState(Default::default()));
    let consumer::Reply::QueryServiceState(state) = &state[0] else {
        panic!("{state:?}")
    };
    assert_eq!(state.service_state.data_sources.len(), 1);

    // Without a duration, the session runs until it is stopped, which sends the answer. Here no
    // producer would confirm a flush, so none is requested.
    let session = enable("other", |config| {
        config.unique_session_name = Some(b"page".to_vec());
    });
    let enabled = page.invoke(&session);
    page.call(&consumer::Request::GetTraceStats(Default::default()));

    let mut second = Page::connect(&bridge.path);
    let clone = consumer::Request::CloneSession(CloneSessionRequest {
        selector: Some(Selector::UniqueSessionName(b"page".to_vec())),
        ..Default::default()
    });
    let cloned = second.call(&clone);
    let consumer::Reply::CloneSession(cloned) = &cloned[0] else {
        panic!("{cloned:?}")
    };
    assert_eq!(cloned.success, Some(true), "{cloned:?}");
    assert!(second.trace() > 0);
    drop(second);

    let flush = FlushRequest {
        timeout_ms: Some(10_000),
        flags: Some(0x22),
        ..Default::default()
    };
    page.call(&consumer::Request::Flush(flush));
    let disable = page.invoke(&consumer::Request::DisableTracing(Default::default()));
    let mut ended = Vec::new();
    for _ in 0..2 {
        let (id, reply, _) = page.reply();
        if let consumer::Reply::EnableTracing(reply) = &reply {
            assert!(reply.error.as_deref().unwrap_or_default().is_empty());
        }
        ended.push(id);
    }
    ended.sort_unstable();
    assert_eq!(ended, [enabled, disable]);
    assert!(page.trace() > 0);
    page.call(&consumer::Request::FreeBuffers(Default::default()));
    assert!(page.open.is_empty());
}
