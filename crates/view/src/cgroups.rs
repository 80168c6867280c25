//! The control groups of processes: containers, pods and units of systemd.

use ferretto_format::cgroup::Group;
use ferretto_tables::schema::ArgValue;
use ferretto_tables::{StringPool, Tables};
use rustc_hash::FxHashMap;

/// Returns the control group of a process.
pub(crate) fn group_of<'a>(
    tables: &Tables,
    strings: &'a StringPool,
    upid: u32,
) -> Option<Group<'a>> {
    let set = tables.process.arg_set_id().get(upid)?;
    let path = tables.args.set(set).find_map(|arg| match arg.value {
        ArgValue::Text(text) if strings.text(arg.key) == "cgroup.path" => Some(text),
        _ => None,
    })?;
    Some(Group::new(strings.text(path)))
}

/// Returns the container and pod, or else the unit, with complete identifiers.
pub(crate) fn owner(group: &Group<'_>) -> Option<String> {
    let Some(container) = group.container else {
        return group.unit.map(str::to_owned);
    };
    let owner = format!(
        "{} {}",
        container.engine.unwrap_or("container"),
        container.id
    );
    Some(match group.pod {
        Some(pod) => format!("{owner}, pod {pod}"),
        None => owner,
    })
}

/// Returns the name of the row of a container or of a unit with several processes, by the number of
/// processes of the group.
pub(crate) fn title(group: &Group<'_>, processes: usize) -> Option<String> {
    let Some(container) = group.container else {
        let unit = group.unit.filter(|unit| is_program(unit))?;
        return (processes > 1).then(|| unit.to_owned());
    };
    let engine = container.engine.unwrap_or("container");
    Some(format!("{engine} {}", container.short_id()))
}

/// Returns true for a unit of one program: a service or the scope of an application, but no
/// session, service manager or slice.
fn is_program(unit: &str) -> bool {
    let is_service = unit.ends_with(".service") && !unit.starts_with("user@");
    let is_application =
        unit.ends_with(".scope") && !unit.starts_with("session-") && unit != "init.scope";
    is_service || is_application
}

/// Counts the processes of each group, by machine and owner.
pub(crate) fn sizes(tables: &Tables, strings: &StringPool) -> FxHashMap<(u32, String), usize> {
    let mut sizes = FxHashMap::default();
    for upid in 0..tables.process.len() {
        if let Some(group) = group_of(tables, strings, upid) {
            let key = (
                tables.process.machine_id().get(upid),
                group.owner.to_owned(),
            );
            *sizes.entry(key).or_default() += 1;
        }
    }
    sizes
}
