//! Descriptions of fields outside the schema that are installed on this machine.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use ferretto_service::ExtensionDescriptor;

use crate::notice::{Notice, NoticeSink};

/// The paths at which upstream's `traced` looks for them on Android.
const INSTALLED: [&str; 2] = [
    "/etc/tracing_descriptors.gz",
    "/vendor/etc/tracing_descriptors.gz",
];

/// The size limit: every trace begins with these descriptions.
const MAX_BYTES: u64 = 4 << 20;

/// Returns the installed extensions. Upstream looks for the files on Android only; where they
/// exist, they are used here.
pub(crate) fn installed(notices: &NoticeSink) -> Vec<ExtensionDescriptor> {
    let files = INSTALLED.iter().map(Path::new);
    files.filter_map(|path| load(path, notices)).collect()
}

fn load(path: &Path, notices: &NoticeSink) -> Option<ExtensionDescriptor> {
    match read(path) {
        Ok(bytes) => Some(ExtensionDescriptor {
            name: path.to_string_lossy().into_owned(),
            bytes,
            gzipped: true,
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            let path = path.to_owned();
            notices.report(&Notice::ExtensionDescriptor { path, error });
            None
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {MAX_BYTES} bytes"),
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn readable_files_are_loaded_and_errors_are_reported() {
        let remarks = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&remarks);
        let notices = NoticeSink::new(move |notice| sink.lock().unwrap().push(notice.to_string()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.gz");
        assert_eq!(load(&path, &notices), None);
        std::fs::write(&path, b"bytes").unwrap();
        let loaded = load(&path, &notices).unwrap();
        assert_eq!(loaded.name, path.to_str().unwrap());
        assert_eq!((&*loaded.bytes, loaded.gzipped), (&b"bytes"[..], true));
        assert!(remarks.lock().unwrap().is_empty());
        std::fs::write(&path, vec![0; (4 << 20) + 1]).unwrap();
        assert_eq!(load(&path, &notices), None);
        let remarks = remarks.lock().unwrap();
        assert!(
            remarks[0].ends_with("it is larger than 4194304 bytes"),
            "{remarks:?}"
        );
    }
}
