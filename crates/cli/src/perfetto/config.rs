//! Builds the config for the service from the options.

use std::path::PathBuf;

use anyhow::{Result, bail};
use ferretto_proto::trace_attributes::Attribute;
use ferretto_proto::trace_attributes::attribute::Value;
use ferretto_proto::trace_config::{StatsdLogging, StatsdMetadata};
use ferretto_proto::{Message, MessageField, TraceConfig};
use rustix::rand::{GetRandomFlags, getrandom};

use super::args::{Config, Encoding, Options};
use super::light;
use crate::config::decode;
use ferretto_text::config::{self as config_text, Unknown};

/// The message for a config that cannot be used.
const INVALID: &str = "The trace config is invalid, bailing out.";

/// Builds the config, and checks and completes it as upstream does.
pub(super) fn build(options: &Options) -> Result<TraceConfig> {
    let mut config = match &options.config {
        Some(Config::Test) => light::test_config().map_err(anyhow::Error::msg)?,
        Some(Config::File { name, bytes }) => parse(name, bytes, options.encoding)?,
        None => match light::config(&options.light) {
            Ok(config) => config,
            Err(message) => bail!("{message}\n{INVALID}"),
        },
    };
    check(&config, options)?;
    complete(&mut config, options)?;
    Ok(config)
}

fn parse(name: &str, bytes: &[u8], encoding: Encoding) -> Result<TraceConfig> {
    let unknown = match encoding {
        Encoding::Text => Unknown::Refuse,
        Encoding::LossyText => Unknown::Drop,
        Encoding::Binary => {
            return match TraceConfig::decode_from_slice(bytes) {
                Ok(config) => Ok(config),
                Err(_) if is_printable(bytes) => bail!(
                    "{INVALID}\nLooks like you are passing a textual config but I'm expecting a \
                     proto-encoded binary config.\nTry adding --txt to the cmdline."
                ),
                Err(_) => bail!("{INVALID}"),
            };
        }
    };
    match config_text::read(name, bytes, unknown) {
        Ok(parsed) => decode(&parsed),
        Err(errors) => bail!("{errors}\n{INVALID}"),
    }
}

fn is_printable(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace() || *byte == 0x0b)
}

fn check(config: &TraceConfig, options: &Options) -> Result<()> {
    let delay = &config.cmd_trace_start_delay;
    if delay.is_set() && delay.min_delay_ms.is_some() != delay.max_delay_ms.is_some() {
        bail!("cmd_trace_start_delay field is only partially specified.");
    }
    if let Some(path) = output_path(config) {
        if options.out.is_some() {
            bail!("Can't pass --out or --upload if output_path is set in the trace config");
        }
        if path.exists() {
            let path = path.display();
            bail!(
                "The output_path must not exist, the service cannot overwrite existing files for \
                 security reasons. Remove {path} or use a different path."
            );
        }
    }
    if config.incident_report_config.is_set() {
        bail!("Unexpected IncidentReportConfig without --dropbox / --upload.");
    }
    if config.android_report_config.is_set() {
        bail!("Unexpected AndroidReportConfig without --dropbox / --upload.");
    }
    let streams = config.write_into_file.unwrap_or(false);
    // Triggers have no output, and with output_path the service creates the file.
    if !config.activate_triggers.is_empty() || (streams && output_path(config).is_some()) {
        return Ok(());
    }
    if options.out.is_none() {
        bail!("Either --out or --upload is required");
    }
    if options.detach.is_some() && !streams {
        bail!("TraceConfig's write_into_file must be true when using --detach");
    }
    Ok(())
}

/// Returns the file that the service creates itself.
pub(super) fn output_path(config: &TraceConfig) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;

    let path = config.output_path.clone().filter(|path| !path.is_empty())?;
    Some(std::ffi::OsString::from_vec(path).into())
}

fn complete(config: &mut TraceConfig, options: &Options) -> Result<()> {
    let is_zero = |half: Option<i64>| half.unwrap_or(0) == 0;
    if is_zero(config.trace_uuid_lsb) && is_zero(config.trace_uuid_msb) {
        let (msb, lsb) = uuid()?;
        config.trace_uuid_msb = Some(msb);
        config.trace_uuid_lsb = Some(options.ids.subscription.unwrap_or(lsb));
    }
    config.statsd_metadata = MessageField::some(StatsdMetadata {
        triggering_alert_id: options.ids.alert,
        triggering_config_id: options.ids.config,
        triggering_config_uid: options.ids.config_uid.map(|uid| uid as i32),
        triggering_subscription_id: options.ids.subscription,
        ..Default::default()
    });
    config.statsd_logging = Some(StatsdLogging::STATSD_LOGGING_DISABLED);
    config.enable_extra_guardrails = Some(false);
    if !options.attributes.is_empty() {
        let attributes = config.trace_attributes.get_or_insert_default();
        attributes
            .attribute
            .extend(options.attributes.iter().map(|(key, value)| Attribute {
                key: Some(key.as_str().into()),
                value: Some(Value::StringValue(value.as_str().into())),
                ..Default::default()
            }));
    }
    Ok(())
}

/// Returns the halves of a random UUID of version 4.
fn uuid() -> Result<(i64, i64)> {
    let (mut msb, mut lsb) = ([0; 8], [0; 8]);
    getrandom(&mut msb, GetRandomFlags::empty())?;
    getrandom(&mut lsb, GetRandomFlags::empty())?;
    let msb = i64::from_be_bytes(msb) & !0xf000 | 0x4000;
    let lsb = (u64::from_be_bytes(lsb) & !(0b11 << 62) | 0b10 << 62) as i64;
    Ok((msb, lsb))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(bytes: &[u8], encoding: Encoding) -> Result<TraceConfig> {
        let config = Config::File {
            name: "cfg".into(),
            bytes: bytes.to_vec(),
        };
        build(&Options {
            config: Some(config),
            encoding,
            out: Some("out".into()),
            attributes: vec![("a".into(), "b".into())],
            ..Default::default()
        })
    }

    #[test]
    fn cli_004_text_without_txt_is_refused_with_a_hint() {
        let message = with(b"buffers { size_kb: 4 }", Encoding::Binary)
            .unwrap_err()
            .to_string();
        assert!(message.contains("The trace config is invalid, bailing out."));
        assert!(
            message.contains("Try adding --txt to the cmdline."),
            "{message}"
        );
        let message = with(&[0xff, 0xfe, 0x00], Encoding::Binary)
            .unwrap_err()
            .to_string();
        assert_eq!(message, INVALID);
    }

    #[test]
    fn the_config_is_completed_as_upstream_does() {
        let config = with(b"duration_ms: 5", Encoding::Text).unwrap();
        assert_eq!(config.duration_ms, Some(5));
        assert_ne!(config.trace_uuid_msb, Some(0));
        assert_eq!(config.trace_uuid_msb.unwrap() as u64 >> 12 & 0xf, 4);
        assert!(config.statsd_metadata.is_set());
        assert_eq!(config.enable_extra_guardrails, Some(false));
        let attribute = &config.trace_attributes.attribute[0];
        assert_eq!(attribute.key.as_deref(), Some(&b"a"[..]));
    }

    #[test]
    fn a_uuid_in_the_config_is_kept() {
        let config = with(b"trace_uuid_msb: 7", Encoding::Text).unwrap();
        assert_eq!(
            (config.trace_uuid_msb, config.trace_uuid_lsb),
            (Some(7), None)
        );
    }

    #[test]
    fn cli_002_output_path_excludes_out() {
        let message = with(b"output_path: \"/x\"", Encoding::Text)
            .unwrap_err()
            .to_string();
        assert!(
            message.starts_with("Can't pass --out or --upload if output_path"),
            "{message}"
        );
    }

    #[test]
    fn cli_002_half_a_start_delay_is_refused() {
        let text = b"cmd_trace_start_delay { min_delay_ms: 1 }";
        let message = with(text, Encoding::Text).unwrap_err().to_string();
        assert_eq!(
            message,
            "cmd_trace_start_delay field is only partially specified."
        );
    }
}
