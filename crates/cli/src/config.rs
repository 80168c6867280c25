//! Reading trace configs: binary, or the text form.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ferretto_proto::{Message, TraceConfig};
use rustix::rand::{GetRandomFlags, getrandom};

use ferretto_text::config::{self as config_text, Parsed, Unknown};

/// The largest config file in bytes. The service accepts much less: a frame has at most 128 KiB.
const MAX_BYTES: u64 = 64 << 20;

/// Reads a config file; `-` is standard input.
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
            "the file is too large for a config",
        ));
    }
    Ok(bytes)
}

/// Reads and decodes a text or binary config.
pub(crate) fn load(path: &Path) -> Result<TraceConfig> {
    let name = if path.as_os_str() == "-" {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    };
    let bytes = read(path).with_context(|| format!("cannot read the config {name}"))?;
    if bytes.is_empty() {
        bail!("the config {name} is empty");
    }
    decode(&config_text::load(&name, &bytes, Unknown::Refuse)?)
        .with_context(|| format!("cannot decode the config {name}"))
}

/// Decodes the parser's output. Prints warnings on standard error.
pub(crate) fn decode(parsed: &Parsed) -> Result<TraceConfig> {
    for warning in &parsed.warnings {
        eprintln!("{warning}");
    }
    Ok(TraceConfig::decode_from_slice(&parsed.bytes)?)
}

/// Returns the random delay before the start of the recording, within the limits of the config.
pub(crate) fn start_delay(config: &TraceConfig) -> Result<Duration> {
    let delay = &config.cmd_trace_start_delay;
    let (Some(min), Some(max)) = (delay.min_delay_ms, delay.max_delay_ms) else {
        return Ok(Duration::ZERO);
    };
    let mut random = [0; 8];
    getrandom(&mut random, GetRandomFlags::empty())?;
    let span = u64::from(max.saturating_sub(min)) + 1;
    Ok(Duration::from_millis(
        u64::from(min) + u64::from_le_bytes(random) % span,
    ))
}

#[cfg(test)]
mod tests {
    use ferretto_proto::trace_config::CmdTraceStartDelay;

    use super::*;

    #[test]
    fn the_delay_lies_between_its_limits() {
        let with = |min, max| TraceConfig {
            cmd_trace_start_delay: CmdTraceStartDelay {
                min_delay_ms: min,
                max_delay_ms: max,
                ..Default::default()
            }
            .into(),
            ..Default::default()
        };
        let of = |min, max| {
            start_delay(&with(Some(min), Some(max)))
                .unwrap()
                .as_millis()
        };
        assert_eq!(of(7, 7), 7);
        assert_eq!(of(9, 3), 9, "limits the wrong way round");
        assert!((0..100).map(|_| of(3, 5)).all(|ms| (3..=5).contains(&ms)));
        assert_eq!(start_delay(&with(None, Some(5))).unwrap(), Duration::ZERO);
    }
}
