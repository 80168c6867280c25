//! Files named by a config and created by the service, with rights that the consumer may not have.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use crate::command::OutputPath;
use crate::session::EnableError;
use crate::{Peer, ServiceOptions};

/// Checks that this consumer may create the file `path`, and returns where to create it.
pub(super) fn resolve(
    path: &[u8],
    peer: &Peer,
    options: &ServiceOptions,
) -> Result<OutputPath, EnableError> {
    let path = Path::new(OsStr::from_bytes(path));
    let refuse = |why: String| Err(EnableError::OutputPath(path.display().to_string(), why));
    let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !path.is_absolute() || path.file_name().is_none() || !path.components().skip(1).all(is_name)
    {
        return refuse("it must be the absolute path of a file, without \"..\"".to_owned());
    }
    let is_local = peer.machine_id == 0 && peer.can_share_memory;
    if is_local && (peer.uid == 0 || peer.uid == options.uid) {
        return Ok(OutputPath {
            folder: None,
            path: path.to_owned(),
            owner: None,
        });
    }
    let inside = options.output_folders.iter().find_map(|folder| {
        let rest = path.strip_prefix(folder).ok()?;
        (rest != Path::new("")).then(|| (folder.clone(), rest.to_owned()))
    });
    let Some((folder, path)) = inside else {
        return refuse(refusal(peer, is_local, &options.output_folders));
    };
    Ok(OutputPath {
        folder: Some(folder),
        path,
        owner: is_local.then_some(peer.uid),
    })
}

fn refusal(peer: &Peer, is_local: bool, folders: &[PathBuf]) -> String {
    let user = if is_local {
        format!("user {}", peer.uid)
    } else {
        "users of other machines".to_owned()
    };
    let hint = "leave output_path out and hand a file over instead, as perfetto -o does";
    if folders.is_empty() {
        return format!(
            "the service creates no files for {user} (traced --output-folder allows it); {hint}"
        );
    }
    let folders: Vec<String> = folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    format!(
        "the service creates files for {user} only below {}; {hint}",
        folders.join(" and ")
    )
}
