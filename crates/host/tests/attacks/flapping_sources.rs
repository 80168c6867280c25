//! A producer with a long name that registers and unregisters the honest session's data source
//! again and again: its consumer is notified each time.

use ferretto_ipc::port::producer::{Port, Request};
use ferretto_proto::{
    DataSourceDescriptor, InitializeConnectionRequest, RegisterDataSourceRequest,
    UnregisterDataSourceRequest,
};

use crate::common::Client;
use crate::frame::{Attack, Target};
use crate::honest::DATA_SOURCE;

pub(crate) const ATTACK: Attack = Attack::by_nobody(run);

/// The longest allowed name.
const NAME: usize = 4096;
const ROUND: usize = 200;

fn run(target: &Target) {
    let socket = target.producer_socket().expect("a connection");
    let mut producer = Client::<Port>::bind(socket);
    let request = Request::InitializeConnection(InitializeConnectionRequest {
        producer_name: Some(vec![b'n'; NAME]),
        ..Default::default()
    });
    assert!(producer.call(&request).result.is_ok());
    producer.open_commands();
    let offer = Request::RegisterDataSource(RegisterDataSourceRequest {
        data_source_descriptor: DataSourceDescriptor {
            name: Some(DATA_SOURCE.into()),
            ..Default::default()
        }
        .into(),
        ..Default::default()
    });
    let take_back = Request::UnregisterDataSource(UnregisterDataSourceRequest {
        data_source_name: Some(DATA_SOURCE.into()),
        ..Default::default()
    });
    loop {
        for _ in 0..ROUND {
            producer.0.invoke(&offer, None, false).unwrap();
            producer.0.invoke(&take_back, None, false).unwrap();
        }
        producer.call(&Request::Sync(Default::default()));
        if !target.goes_on() {
            return;
        }
    }
}
