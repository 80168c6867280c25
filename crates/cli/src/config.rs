//! Reading trace configs: binary, or the text form.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use ferretto_proto::{Message, TraceConfig};

use crate::config_text::{self, Parsed, Unknown};

/// Largest config that is read, in bytes. The service takes much less: a config travels in one frame of 128 KiB.
const MAX_BYTES: u64 = 64 << 20;

/// Reads a config file whole; `-` is standard input.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        io::stdin()
            .lock()
            .take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)?;
    } else {
        fs::File::open(path)?
            .take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "it is larger than any config",
        ));
    }
    Ok(bytes)
}

/// Reads and decodes a config, text or binary, whichever it is.
pub(crate) fn load(path: &Path) -> Result<TraceConfig> {
    let name = match path.as_os_str() == "-" {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    };
    let bytes = read(path).with_context(|| format!("cannot read the config {name}"))?;
    if bytes.is_empty() {
        bail!("the config {name} is empty");
    }
    decode(&config_text::load(&name, &bytes, Unknown::Refuse)?)
        .with_context(|| format!("the config {name} cannot be decoded"))
}

/// Decodes what the parser made; what is probably not meant is said on standard error.
pub(crate) fn decode(parsed: &Parsed) -> Result<TraceConfig> {
    for warning in &parsed.warnings {
        anstream::eprintln!("{warning}");
    }
    Ok(TraceConfig::decode_from_slice(&parsed.bytes)?)
}
