//! Queries over many traces, run by several processes: Ballista's scheduler and executors, which
//! exchange scans of traces.

mod access;
mod codec;
mod tunnel;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_flight::flight_service_server::FlightServiceServer;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::error::BallistaError;
use ballista_core::extension::{SessionConfigExt, SessionStateExt};
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::protobuf::scheduler_grpc_server::SchedulerGrpcServer;
use ballista_executor::ArrowFlightServerProvider;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_executor::flight_service::BallistaFlightService;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::create_scheduler;
use datafusion::execution::SessionState;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use tokio::net::TcpListener;
use tonic::transport::Server;
use url::Url;

use crate::engine::{Options, session};
use crate::error::SqlError;
use crate::fleet::{Fleet, Importer, TraceFile};
pub use access::Access;
use codec::{LogicalCodec, PhysicalCodec, Scopes};

/// The default port of schedulers.
pub const PORT: u16 = 50050;
/// The largest size of a message. Plans contain the paths of all files and can be long.
const MESSAGE: u32 = 256 << 20;
/// The smallest number of parts of a query. With many parts, little work is lost if an executor
/// fails.
const PARTS: usize = 16;
/// The time for which the results of a task are kept, and between two searches for older ones.
const KEPT_SECONDS: u64 = 6 * 3600;
const CLEANING_SECONDS: u64 = 600;
/// The time without a heartbeat after which an executor counts as failed.
const SILENCE_SECONDS: u64 = 10;

fn failed(error: impl std::fmt::Display) -> SqlError {
    SqlError::new(error.to_string())
}

fn with_limits(config: SessionConfig, access: &Access) -> SessionConfig {
    session::config(config, &Options::default())
        .with_ballista_grpc_client_max_message_size(MESSAGE as usize)
        .with_ballista_override_create_grpc_client_endpoint(access.endpoint())
}

/// Returns a session with our functions.
fn state(config: SessionConfig) -> datafusion::common::Result<SessionState> {
    let runtime = session::runtime(&Options::default())?;
    Ok(session::context(session::state(config, runtime)).state())
}

/// Parses an address such as `df://localhost:50050` to host and port.
fn address(text: &str) -> Result<(String, u16), SqlError> {
    let wrong = || {
        SqlError::new(format!(
            "'{text}' is not an address such as df://localhost:{PORT}"
        ))
    };
    let url = Url::parse(text).map_err(|_| wrong())?;
    match (url.scheme(), url.host_str()) {
        ("df", Some(host)) => Ok((host.to_owned(), url.port().unwrap_or(PORT))),
        _ => Err(wrong()),
    }
}

/// Returns a fleet whose queries run on a scheduler's executors.
pub fn connect(
    scheduler: &str,
    access: &Access,
    options: &Options,
    files: Vec<TraceFile>,
    importer: Arc<Importer>,
) -> Result<Fleet, SqlError> {
    let (host, port) = address(scheduler)?;
    let scopes = Scopes::new(importer.clone());
    let config = with_limits(SessionConfig::new_with_ballista(), access)
        .with_target_partitions(PARTS.max(files.len().div_ceil(64)))
        .with_ballista_logical_extension_codec(LogicalCodec::new(scopes.clone()))
        .with_ballista_physical_extension_codec(PhysicalCodec::new(scopes));
    let state = session::state(config, session::runtime(options)?);
    let mut fleet = Fleet::with_state(state, files, importer)?;
    let functions: Vec<_> = fleet
        .context
        .state()
        .scalar_functions()
        .values()
        .cloned()
        .collect();
    let state = fleet.context.state();
    let state = state.upgrade_for_ballista(format!("http://{host}:{port}"))?;
    fleet.context = SessionContext::new_with_state(state);
    for function in functions {
        fleet.context.register_udf(function.as_ref().clone());
    }
    Ok(fleet)
}

/// Schedules queries until the process ends. Calls `listening` with the bound address.
///
/// Executors ask for work, and have no server besides that of their results: this one and that are
/// our own, so that all connections are checked.
pub async fn schedule(
    bind: SocketAddr,
    access: &Access,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), SqlError> {
    access.check_bind(bind.ip())?;
    let listener = TcpListener::bind(bind)
        .await
        .map_err(|e| SqlError::new(format!("cannot listen on {bind}: {e}")))?;
    let bound = listener.local_addr().map_err(failed)?;
    let scopes = Scopes::new(Arc::new(Importer::new(0)));
    let producer = access.clone();
    let config = SchedulerConfig {
        external_host: bound.ip().to_string(),
        bind_host: bound.ip().to_string(),
        bind_port: bound.port(),
        scheduling_policy: TaskSchedulingPolicy::PullStaged,
        grpc_server_max_decoding_message_size: MESSAGE,
        grpc_server_max_encoding_message_size: MESSAGE,
        grpc_client_max_message_size: MESSAGE,
        executor_timeout_seconds: SILENCE_SECONDS,
        expire_dead_executor_interval_seconds: 1,
        override_config_producer: Some(Arc::new(move || {
            with_limits(SessionConfig::new_with_ballista(), &producer)
        })),
        override_create_grpc_client_endpoint: Some(access.endpoint()),
        override_session_builder: Some(Arc::new(state)),
        override_logical_codec: Some(LogicalCodec::new(scopes.clone())),
        override_physical_codec: Some(PhysicalCodec::new(scopes)),
        ..SchedulerConfig::default()
    };
    let cluster = BallistaCluster::new_from_config(&config)
        .await
        .map_err(failed)?;
    let scheduler =
        create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, Arc::new(config));
    let scheduler = scheduler.await.map_err(failed)?;
    let service = SchedulerGrpcServer::new(scheduler)
        .max_encoding_message_size(MESSAGE as usize)
        .max_decoding_message_size(MESSAGE as usize);
    listening(bound);
    Server::builder()
        .add_service(service)
        .serve_with_incoming(access.incoming(listener))
        .await
        .map_err(failed)
}

/// Options of an executor.
#[derive(Debug, Clone)]
pub struct ExecutorOptions {
    /// The address of the scheduler, such as `df://localhost:50050`.
    pub scheduler: String,
    /// The address to listen on.
    pub bind: std::net::IpAddr,
    /// The name or address of this process for others, if it is not `bind`.
    pub external: Option<String>,
    /// The number of concurrent tasks; 0 for one per processor.
    pub threads: usize,
    /// The peers that may fetch results.
    pub access: Access,
    /// The memory limit of queries, and, separately, of imported traces, in bytes.
    pub memory: u64,
    /// The bytes of temporary files of a query.
    pub max_spill: u64,
    /// The folder for intermediate results and temporary files.
    pub folder: PathBuf,
}

/// Returns the server of an executor's results.
fn results(listener: TcpListener, access: Access) -> Arc<ArrowFlightServerProvider> {
    // It is started once.
    let listener = Mutex::new(Some(listener));
    Arc::new(move |folder, _, mut shutdown, _| {
        let listener = listener
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let access = access.clone();
        tokio::spawn(async move {
            let Some(listener) = listener else {
                return Ok(());
            };
            let service = FlightServiceServer::new(BallistaFlightService::new(folder))
                .max_decoding_message_size(MESSAGE as usize)
                .max_encoding_message_size(MESSAGE as usize);
            Server::builder()
                .add_service(service)
                .serve_with_incoming_shutdown(access.incoming(listener), shutdown.recv())
                .await
                .map_err(BallistaError::TonicError)
        })
    })
}

/// Executes parts of queries until the process ends.
pub async fn execute(options: ExecutorOptions) -> Result<(), SqlError> {
    let (scheduler_host, scheduler_port) = address(&options.scheduler)?;
    let importer = Arc::new(Importer::new(options.memory));
    let scopes = Scopes::new(importer);
    let access = options.access;
    access.check_bind(options.bind)?;
    let listener = TcpListener::bind((options.bind, 0))
        .await
        .map_err(|e| SqlError::new(format!("cannot listen on {}: {e}", options.bind)))?;
    let port = listener.local_addr().map_err(failed)?.port();
    let state = state(with_limits(SessionConfig::new_with_ballista(), &access))?;
    let registry = BallistaFunctionRegistry::from(&state);
    let (folder, max_spill) = (options.folder.clone(), options.max_spill);
    let producer = access.clone();
    let config = ExecutorProcessConfig {
        bind_host: options.bind.to_string(),
        external_host: Some(options.external.unwrap_or_else(|| options.bind.to_string())),
        port,
        // Nothing listens there: only pushed tasks need it.
        grpc_port: port,
        scheduler_host,
        scheduler_port,
        scheduler_connect_timeout_seconds: 60,
        vcores: options.threads,
        task_scheduling_policy: TaskSchedulingPolicy::PullStaged,
        work_dir: Some(options.folder.to_string_lossy().into_owned()),
        memory_pool_size: Some(options.memory),
        grpc_max_decoding_message_size: MESSAGE,
        grpc_max_encoding_message_size: MESSAGE,
        executor_heartbeat_interval_seconds: 1,
        job_data_ttl_seconds: KEPT_SECONDS,
        job_data_clean_up_interval_seconds: CLEANING_SECONDS,
        override_arrow_flight_service: Some(results(listener, access.clone())),
        override_create_grpc_client_endpoint: Some(access.endpoint()),
        override_runtime_producer: Some(Arc::new(move |_| {
            RuntimeEnvBuilder::new()
                .with_temp_file_path(folder.clone())
                .with_max_temp_directory_size(max_spill)
                .build_arc()
        })),
        override_function_registry: Some(Arc::new(registry)),
        override_config_producer: Some(Arc::new(move || {
            with_limits(SessionConfig::new_with_ballista(), &producer)
        })),
        override_logical_codec: Some(LogicalCodec::new(scopes.clone())),
        override_physical_codec: Some(PhysicalCodec::new(scopes)),
        ..ExecutorProcessConfig::default()
    };
    start_executor_process(Arc::new(config))
        .await
        .map_err(|error| SqlError::new(access.explain(error.to_string())))
}
