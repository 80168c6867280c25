//! The tables for SQL, as a tool and as resources.

use std::process::Command;

use ferretto_mcp::{Answer, Resource};
use ferretto_tables::schema::{TableId, reference};
use serde_json::json;

use crate::errors::message;
use crate::query::{check_installed, program};

const TABLES: &str = "ferretto://tables";
const MODULES: &str = "ferretto://modules";

/// Returns the tables, or the columns of one.
pub(super) fn answer(table: Option<&str>) -> Result<Answer, String> {
    let joined = |lines: &[&str]| {
        let lines: Vec<_> = lines.iter().map(|line| line.trim()).collect();
        lines.join(" ")
    };
    let Some(name) = table else {
        let tables = TableId::ALL.iter().map(|id| id.spec()).map(|spec| {
            json!({ "table": spec.name, "columns": spec.columns.len(), "meaning": joined(spec.doc) })
        });
        let head = json!({
            "hint": "Views of the same names have the usual columns, such as utid; modules are \
                     included with INCLUDE PERFETTO MODULE name. Read the resource ferretto://modules for their names.",
        });
        return Ok(Answer::new(head, tables.collect()));
    };
    let Some(id) = TableId::by_name(name) else {
        let near = TableId::ALL.iter().map(|id| id.spec().name);
        let near = near.max_by_key(|known| (strsim::jaro(known, name) * 1000.0) as u32);
        return Err(format!(
            "there is no table {name} in the reference; the nearest is {}",
            near.unwrap_or_default()
        ));
    };
    let spec = id.spec();
    let columns = spec.columns.iter().map(|column| {
        use ferretto_tables::ColumnKind;
        let kind = match column.kind {
            ColumnKind::F64 => "real",
            ColumnKind::Text => "text",
            _ => "integer",
        };
        json!({
            "column": column.name,
            "type": kind,
            "nullable": column.is_nullable,
            "meaning": joined(column.doc),
        })
    });
    let head = json!({ "table": spec.name, "meaning": joined(spec.doc) });
    Ok(Answer::new(head, columns.collect()))
}

pub(super) fn resources() -> Vec<Resource> {
    let resource = |uri: &str, name: &str, description: &str| Resource {
        uri: uri.to_owned(),
        name: name.to_owned(),
        description: description.to_owned(),
        mime: "text/markdown",
    };
    vec![
        resource(
            TABLES,
            "tables",
            "The tables of a trace with their columns, for SQL.",
        ),
        resource(MODULES, "modules", "The modules that SQL can include."),
    ]
}

/// Returns the text of a resource.
pub(super) fn read(uri: &str) -> Option<Result<String, String>> {
    match uri {
        TABLES => Some(Ok(reference())),
        MODULES => Some(modules()),
        _ => None,
    }
}

fn modules() -> Result<String, String> {
    check_installed().map_err(|error| message(&error))?;
    let output = Command::new(program()).arg("--modules").output();
    let output = output.map_err(|error| format!("cannot run ferretto-query: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}
