//! Questions to many traces, answered by several processes: Ballista's scheduler and executors,
//! with scans of traces that travel between them.

mod codec;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::extension::{SessionConfigExt, SessionStateExt};
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use datafusion::execution::SessionState;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use url::Url;

use crate::engine::{Options, session};
use crate::error::SqlError;
use crate::fleet::{Fleet, Importer, TraceFile};
use codec::{LogicalCodec, PhysicalCodec, Scopes};

/// The port of schedulers.
pub const PORT: u16 = 50050;
/// Plans name all files, so that they can be long.
const MESSAGE: u32 = 256 << 20;
/// A question is split in so many parts at least, so that not much is lost with an executor.
const PARTS: usize = 16;
/// Executors say each second that they are there, and are given up after this time.
const SILENCE_SECONDS: u64 = 10;

fn failed(error: impl std::fmt::Display) -> SqlError {
    SqlError::new(error.to_string())
}

fn with_limits(config: SessionConfig) -> SessionConfig {
    session::config(config, &Options::default())
        .with_ballista_grpc_client_max_message_size(MESSAGE as usize)
}

/// Returns a session that knows our functions.
fn state(config: SessionConfig) -> datafusion::common::Result<SessionState> {
    let runtime = session::runtime(&Options::default())?;
    Ok(session::context(session::state(config, runtime)).state())
}

/// Returns host and port of an address such as `df://localhost:50050`.
fn address(text: &str) -> Result<(String, u16), SqlError> {
    let wrong = || {
        SqlError::new(format!(
            "'{text}' is no address such as df://localhost:{PORT}"
        ))
    };
    let url = Url::parse(text).map_err(|_| wrong())?;
    match (url.scheme(), url.host_str()) {
        ("df", Some(host)) => Ok((host.to_owned(), url.port().unwrap_or(PORT))),
        _ => Err(wrong()),
    }
}

/// Returns a fleet whose questions a scheduler's executors answer.
pub fn connect(
    scheduler: &str,
    options: &Options,
    files: Vec<TraceFile>,
    importer: Arc<Importer>,
) -> Result<Fleet, SqlError> {
    let (host, port) = address(scheduler)?;
    let scopes = Scopes::new(importer.clone());
    let config = with_limits(SessionConfig::new_with_ballista())
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

/// Schedules questions until the process is ended. `listening` is told the address.
pub async fn schedule(
    bind: SocketAddr,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), SqlError> {
    let listener = tokio::net::TcpListener::bind(bind)
        .await
        .map_err(|e| SqlError::new(format!("cannot listen on {bind}: {e}")))?;
    let bound = listener.local_addr().map_err(failed)?;
    let scopes = Scopes::new(Arc::new(Importer::new(0)));
    let config = SchedulerConfig {
        external_host: bound.ip().to_string(),
        bind_host: bound.ip().to_string(),
        bind_port: bound.port(),
        scheduling_policy: TaskSchedulingPolicy::PushStaged,
        grpc_server_max_decoding_message_size: MESSAGE,
        grpc_server_max_encoding_message_size: MESSAGE,
        grpc_client_max_message_size: MESSAGE,
        executor_timeout_seconds: SILENCE_SECONDS,
        expire_dead_executor_interval_seconds: 1,
        override_config_producer: Some(Arc::new(
            || with_limits(SessionConfig::new_with_ballista()),
        )),
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
    listening(bound);
    start_grpc_service_with_listener(listener, scheduler)
        .await
        .map_err(failed)
}

/// The way in which a process executes tasks of a scheduler.
#[derive(Debug, Clone)]
pub struct ExecutorOptions {
    /// The scheduler, such as `df://localhost:50050`.
    pub scheduler: String,
    /// The address to be reached at.
    pub bind: std::net::IpAddr,
    /// The name or address that others reach this one by, if it is another than `bind`.
    pub external: Option<String>,
    /// Tasks at a time; 0 for one per processor.
    pub threads: usize,
    /// The memory of queries, and of the traces that are in it at a time, each.
    pub memory: u64,
    /// The folder for results between the parts of a plan.
    pub folder: PathBuf,
}

/// Returns a port that is free now.
fn free_port(ip: std::net::IpAddr) -> Result<u16, SqlError> {
    let listener = TcpListener::bind((ip, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(|e| SqlError::new(format!("cannot listen on {ip}: {e}")))?;
    Ok(listener.port())
}

/// Executes parts of questions until the process is ended.
pub async fn execute(options: ExecutorOptions) -> Result<(), SqlError> {
    let (scheduler_host, scheduler_port) = address(&options.scheduler)?;
    let importer = Arc::new(Importer::new(options.memory));
    let scopes = Scopes::new(importer);
    let known = state(with_limits(SessionConfig::new_with_ballista()))?;
    let registry = BallistaFunctionRegistry::from(&known);
    let config = ExecutorProcessConfig {
        bind_host: options.bind.to_string(),
        external_host: Some(options.external.unwrap_or_else(|| options.bind.to_string())),
        port: free_port(options.bind)?,
        grpc_port: free_port(options.bind)?,
        scheduler_host,
        scheduler_port,
        scheduler_connect_timeout_seconds: 60,
        vcores: options.threads,
        task_scheduling_policy: TaskSchedulingPolicy::PushStaged,
        work_dir: Some(options.folder.to_string_lossy().into_owned()),
        memory_pool_size: Some(options.memory),
        grpc_max_decoding_message_size: MESSAGE,
        grpc_max_encoding_message_size: MESSAGE,
        executor_heartbeat_interval_seconds: 1,
        override_function_registry: Some(Arc::new(registry)),
        override_config_producer: Some(Arc::new(
            || with_limits(SessionConfig::new_with_ballista()),
        )),
        override_logical_codec: Some(LogicalCodec::new(scopes.clone())),
        override_physical_codec: Some(PhysicalCodec::new(scopes)),
        ..ExecutorProcessConfig::default()
    };
    start_executor_process(Arc::new(config))
        .await
        .map_err(failed)
}
