//! Encodes scans of many traces for other processes: the files, the statements of the definitions,
//! and the plan for each trace.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use ballista_core::serde::{BallistaLogicalExtensionCodec, BallistaPhysicalExtensionCodec};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, TableReference, exec_datafusion_err, exec_err, not_impl_err};
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Extension, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::bytes::{
    logical_plan_from_bytes_with_extension_codec, logical_plan_to_bytes_with_extension_codec,
};
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use serde_json::{Value, json};

use crate::fleet::{FleetTypes, Importer, Scope, Subject, TraceFile, TracesExec, TracesTable};
use crate::node::table_as;

/// The first bytes of scans. Ballista decodes everything else.
const MAGIC: &[u8] = b"ferretto traces 1\0";
/// The number of scopes that are cached for later tasks.
const KEPT: usize = 16;

/// A cache of scopes, and the importer of the process.
#[derive(Debug)]
pub(super) struct Scopes {
    importer: Arc<Importer>,
    kept: Mutex<VecDeque<(String, Arc<Scope>)>>,
}

impl Scopes {
    pub(super) fn new(importer: Arc<Importer>) -> Arc<Self> {
        Arc::new(Self {
            importer,
            kept: Mutex::default(),
        })
    }

    /// Returns the cached or new scope of a header, without files.
    fn of(&self, header: &Value) -> Result<Arc<Scope>> {
        let key = json!([header["definitions"], header["types"]]).to_string();
        let mut kept = self
            .kept
            .lock()
            .map_err(|_| exec_datafusion_err!("poisoned"))?;
        if let Some((_, scope)) = kept.iter().find(|(known, _)| *known == key) {
            return Ok(scope.clone());
        }
        let scope = Arc::new(self.make(header, Vec::new())?);
        kept.push_front((key, scope.clone()));
        kept.truncate(KEPT);
        Ok(scope)
    }

    fn make(&self, header: &Value, files: Vec<TraceFile>) -> Result<Scope> {
        let definitions = list(&header["definitions"])
            .map(|text| text.as_str().unwrap_or_default().to_owned())
            .collect();
        let types = header["types"].as_object().into_iter().flatten();
        let types: HashMap<String, DataType> = types
            .map(|(key, name)| {
                let data_type = match name.as_str() {
                    Some("integer") => DataType::Int64,
                    Some("real") => DataType::Float64,
                    _ => DataType::Utf8,
                };
                (key.clone(), data_type)
            })
            .collect();
        let types = Arc::new(FleetTypes::known(types));
        Ok(Scope::new(
            files,
            self.importer.clone(),
            types,
            definitions,
        )?)
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn files_to_json(files: &[TraceFile]) -> Value {
    files
        .iter()
        .map(|f| json!([f.id, f.path, f.size]))
        .collect()
}

fn files_from_json(value: &Value) -> Vec<TraceFile> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    list(value)
        .map(|f| TraceFile {
            id: text(&f[0]),
            path: text(&f[1]),
            size: f[2].as_u64().unwrap_or(0),
        })
        .collect()
}

fn header(scope: &Scope) -> Value {
    let types: serde_json::Map<String, Value> = scope
        .types
        .found()
        .into_iter()
        .map(|(key, data_type)| {
            let name = match data_type {
                DataType::Int64 => "integer",
                DataType::Float64 => "real",
                _ => "text",
            };
            (key, json!(name))
        })
        .collect();
    json!({ "definitions": scope.definitions(), "types": types })
}

/// Encodes a header and a plan.
fn put(header: &Value, plan: &[u8], to: &mut Vec<u8>) {
    let header = header.to_string();
    to.extend_from_slice(MAGIC);
    to.extend_from_slice(&(header.len() as u64).to_le_bytes());
    to.extend_from_slice(header.as_bytes());
    to.extend_from_slice(plan);
}

/// Decodes a header and a plan. Returns `None` if the bytes are not a scan of traces.
fn take(bytes: &[u8]) -> Option<Result<(Value, &[u8])>> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let read = || {
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (header, plan) = rest.split_at_checked(length)?;
        Some((serde_json::from_slice(header).ok()?, plan))
    };
    Some(read().ok_or_else(|| exec_datafusion_err!("a scan of traces is truncated")))
}

/// The codec of plans whose tables belong to one scope, and are encoded as their names.
#[derive(Debug)]
struct ScopeCodec(Arc<Scope>);

impl LogicalExtensionCodec for ScopeCodec {
    fn try_decode(&self, _: &[u8], _: &[LogicalPlan], _: &TaskContext) -> Result<Extension> {
        not_impl_err!("a plan for one trace has an unknown operator")
    }

    fn try_encode(&self, node: &Extension, _: &mut Vec<u8>) -> Result<()> {
        not_impl_err!("{} cannot be sent to other processes", node.node.name())
    }

    fn try_decode_table_provider(
        &self,
        buffer: &[u8],
        _: &TableReference,
        schema: SchemaRef,
        _: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        let name = String::from_utf8_lossy(buffer).into_owned();
        let table = TracesTable::decoded(self.0.clone(), Subject::Named(name), schema);
        Ok(Arc::new(table))
    }

    fn try_encode_table_provider(
        &self,
        table: &TableReference,
        node: Arc<dyn TableProvider>,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        match traces(&node).map(TracesTable::subject) {
            Some(Subject::Named(name)) => buffer.extend_from_slice(name.as_bytes()),
            _ => return not_impl_err!("the table {table} cannot be sent to other processes"),
        }
        Ok(())
    }
}

fn traces(provider: &Arc<dyn TableProvider>) -> Option<&TracesTable> {
    table_as(provider.as_ref())
}

fn encode(scope: &Arc<Scope>, plan: &LogicalPlan) -> Result<Vec<u8>> {
    let codec = ScopeCodec(scope.clone());
    Ok(logical_plan_to_bytes_with_extension_codec(plan, &codec)?.to_vec())
}

fn decode(scope: &Arc<Scope>, plan: &[u8]) -> Result<LogicalPlan> {
    let context = scope.registry()?.task_ctx();
    logical_plan_from_bytes_with_extension_codec(plan, &context, &ScopeCodec(scope.clone()))
}

/// The codec of tables of many traces, between a client and a scheduler.
#[derive(Debug)]
pub(super) struct LogicalCodec {
    scopes: Arc<Scopes>,
    other: BallistaLogicalExtensionCodec,
}

impl LogicalCodec {
    pub(super) fn new(scopes: Arc<Scopes>) -> Arc<Self> {
        let other = BallistaLogicalExtensionCodec::default();
        Arc::new(Self { scopes, other })
    }
}

impl LogicalExtensionCodec for LogicalCodec {
    fn try_decode(
        &self,
        buffer: &[u8],
        inputs: &[LogicalPlan],
        context: &TaskContext,
    ) -> Result<Extension> {
        self.other.try_decode(buffer, inputs, context)
    }

    fn try_encode(&self, node: &Extension, buffer: &mut Vec<u8>) -> Result<()> {
        self.other.try_encode(node, buffer)
    }

    fn try_decode_table_provider(
        &self,
        buffer: &[u8],
        table: &TableReference,
        schema: SchemaRef,
        context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        let Some(read) = take(buffer) else {
            let other = &self.other;
            return other.try_decode_table_provider(buffer, table, schema, context);
        };
        let (header, plan) = read?;
        let files = files_from_json(&header["files"]);
        let scope = Arc::new(self.scopes.make(&header, files)?);
        let subject = match header["named"].as_str() {
            Some(name) => Subject::Named(name.to_owned()),
            None => Subject::Lifted(Box::new(decode(&scope, plan)?)),
        };
        Ok(Arc::new(TracesTable::decoded(scope, subject, schema)))
    }

    fn try_encode_table_provider(
        &self,
        name: &TableReference,
        node: Arc<dyn TableProvider>,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        let Some(table) = traces(&node) else {
            return self.other.try_encode_table_provider(name, node, buffer);
        };
        let scope = table.scope();
        let plan = match table.subject() {
            Subject::Named(_) => Vec::new(),
            Subject::Lifted(plan) => encode(scope, plan)?,
        };
        // Planning finds the types of arguments, so the header comes after the plan.
        let mut header = header(scope);
        header["files"] = files_to_json(&scope.files);
        if let Subject::Named(name) = table.subject() {
            header["named"] = json!(name);
        }
        put(&header, &plan, buffer);
        Ok(())
    }

    fn try_decode_file_format(
        &self,
        buffer: &[u8],
        context: &TaskContext,
    ) -> Result<Arc<dyn FileFormatFactory>> {
        self.other.try_decode_file_format(buffer, context)
    }

    fn try_encode_file_format(
        &self,
        buffer: &mut Vec<u8>,
        node: Arc<dyn FileFormatFactory>,
    ) -> Result<()> {
        self.other.try_encode_file_format(buffer, node)
    }
}

/// The codec of scans of many traces, between a scheduler and executors.
#[derive(Debug)]
pub(super) struct PhysicalCodec {
    scopes: Arc<Scopes>,
    other: BallistaPhysicalExtensionCodec,
}

impl PhysicalCodec {
    pub(super) fn new(scopes: Arc<Scopes>) -> Arc<Self> {
        let other = BallistaPhysicalExtensionCodec::default();
        Arc::new(Self { scopes, other })
    }
}

impl PhysicalExtensionCodec for PhysicalCodec {
    fn try_decode(
        &self,
        buffer: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(read) = take(buffer) else {
            return self.other.try_decode(buffer, inputs, context, converter);
        };
        let (header, plan) = read?;
        let scope = self.scopes.of(&header)?;
        let plan = decode(&scope, plan)?;
        let fields = plan.schema().fields().iter();
        let fields = fields.map(|f| Field::new(f.name(), f.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let [input] = inputs else {
            return exec_err!("a scan of traces has one list of files");
        };
        Ok(Arc::new(TracesExec::new(
            scope,
            plan,
            schema,
            input.clone(),
        )))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buffer: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let any: &dyn std::any::Any = node.as_ref();
        let Some(scan) = any.downcast_ref::<TracesExec>() else {
            return self.other.try_encode(node, buffer, converter);
        };
        let plan = encode(scan.scope(), scan.plan())?;
        put(&header(scan.scope()), &plan, buffer);
        Ok(())
    }
}
