//! The control groups of processes: containers, pods and units of systemd.

use ferretto_format::cgroup::Group;
use ferretto_tables::schema::ArgValue;
use ferretto_tables::{StringPool, Tables};

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

/// Returns the name of the row of a container.
pub(crate) fn title(group: &Group<'_>) -> Option<String> {
    let container = group.container?;
    let engine = container.engine.unwrap_or("container");
    Some(format!("{engine} {}", container.short_id()))
}
