//! Resolution of events to the kernel's numbers.

use std::ffi::CString;

use ferretto_proto::perf_events::{Counter, RawEvent, Timebase, Tracepoint, timebase};
use ferretto_proto::{FollowerEvent, UnknownFields, fields, follower_event};

use super::event::{Event, EventKind, Modifiers};
use super::plan::unknown_value;
use super::{ConfigError, Kernel, pmu, tracepoint};

/// An event as the config specifies it.
enum Asked<'a> {
    Counter(Counter),
    Tracepoint(&'a Tracepoint),
    Raw(&'a RawEvent),
}

/// Resolves the events of one config.
pub(super) struct Resolver<'a> {
    pub(super) kernel: &'a Kernel,
    /// Notices for the user.
    pub(super) notices: Vec<String>,
}

impl Resolver<'_> {
    pub(super) fn timebase(&mut self, timebase: &Timebase) -> Result<Event, ConfigError> {
        let asked = match &timebase.event {
            None => Asked::Counter(Counter::SW_CPU_CLOCK),
            Some(timebase::Event::Counter(counter)) => Asked::Counter(*counter),
            Some(timebase::Event::Tracepoint(tracepoint)) => Asked::Tracepoint(tracepoint),
            Some(timebase::Event::RawEvent(raw)) => Asked::Raw(raw),
        };
        let number = fields::perf_events::timebase::COUNTER;
        refuse_unknown_counter("timebase", number, &timebase.unknown_fields)?;
        Ok(Event {
            name: timebase.name.clone().unwrap_or_default(),
            modifiers: Modifiers::new(&timebase.modifiers),
            ..self.event("timebase", asked)?
        })
    }

    pub(super) fn follower(
        &mut self,
        index: usize,
        follower: &FollowerEvent,
    ) -> Result<Event, ConfigError> {
        let asked = match &follower.event {
            None => Asked::Counter(Counter::SW_CPU_CLOCK),
            Some(follower_event::Event::Counter(counter)) => Asked::Counter(*counter),
            Some(follower_event::Event::Tracepoint(tracepoint)) => Asked::Tracepoint(tracepoint),
            Some(follower_event::Event::RawEvent(raw)) => Asked::Raw(raw),
        };
        let field = format!("followers[{index}]");
        let number = fields::follower_event::COUNTER;
        refuse_unknown_counter(&field, number, &follower.unknown_fields)?;
        Ok(Event {
            name: follower.name.clone().unwrap_or_default(),
            modifiers: Modifiers::new(&follower.modifiers),
            ..self.event(&field, asked)?
        })
    }

    fn event(&mut self, field: &str, asked: Asked<'_>) -> Result<Event, ConfigError> {
        match asked {
            Asked::Counter(counter) => {
                Event::counter(counter).ok_or_else(|| ConfigError::UnknownCounter {
                    field: field.to_owned(),
                    value: counter as u64,
                })
            }
            Asked::Tracepoint(tracepoint) => self.tracepoint(field, tracepoint),
            Asked::Raw(raw) => self.raw(field, raw),
        }
    }

    fn tracepoint(&self, field: &str, asked: &Tracepoint) -> Result<Event, ConfigError> {
        let bytes = asked.name.clone().unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let field = field.to_owned();
        let Some((group, name)) = tracepoint::split(&text) else {
            return Err(ConfigError::BadTracepointName { field, name: text });
        };
        let Ok(filter) = CString::new(asked.filter.clone().unwrap_or_default()) else {
            return Err(ConfigError::BadFilter { field });
        };
        let id = tracepoint::id(self.kernel, group, name).map_err(|reason| {
            ConfigError::NoSuchTracepoint {
                field,
                name: format!("{group}:{name}"),
                group: group.to_owned(),
                reason,
            }
        })?;
        Ok(Event {
            name: Vec::new(),
            kind: EventKind::Tracepoint {
                name: bytes,
                filter,
            },
            modifiers: Modifiers::default(),
            r#type: Event::TRACEPOINT,
            config: id.into(),
            config1: 0,
            config2: 0,
            cpus: None,
        })
    }

    fn raw(&mut self, field: &str, asked: &RawEvent) -> Result<Event, ConfigError> {
        let name = asked.pmu_name.as_deref().unwrap_or_default();
        let mut event = Event {
            name: Vec::new(),
            kind: EventKind::Raw,
            modifiers: Modifiers::default(),
            r#type: 0,
            config: asked.config.unwrap_or(0),
            config1: asked.config1.unwrap_or(0),
            config2: asked.config2.unwrap_or(0),
            cpus: None,
        };
        match asked.r#type {
            Some(_) if !name.is_empty() => {
                return Err(ConfigError::TypeAndPmuName {
                    field: field.to_owned(),
                });
            }
            Some(r#type) => event.r#type = r#type,
            None => self.by_pmu(field, &String::from_utf8_lossy(name), &mut event)?,
        }
        Ok(event)
    }

    fn by_pmu(&mut self, field: &str, name: &str, event: &mut Event) -> Result<(), ConfigError> {
        let pmu = pmu::find(self.kernel, name).map_err(|reason| ConfigError::NoSuchPmu {
            field: field.to_owned(),
            name: name.to_owned(),
            reason,
            directory: pmu::directory(self.kernel),
        })?;
        event.r#type = pmu.r#type;
        event.cpus = pmu.cpus;
        if let Some(meaning) = pmu.meaning {
            let words = [event.config, event.config1, event.config2];
            for ((word, bits), name_of_word) in words
                .iter()
                .zip(meaning)
                .zip(["config", "config1", "config2"])
            {
                if word & !bits != 0 {
                    self.notices.push(format!(
                        "{field}.raw_event.{name_of_word}: the bits {:#x} mean nothing to {name}, see {}",
                        word & !bits,
                        pmu::directory(self.kernel).join(name).join("format").display(),
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Rejects a counter that is not in the schema. Such values are among the unknown fields.
fn refuse_unknown_counter(
    field: &str,
    number: u32,
    unknown: &UnknownFields,
) -> Result<(), ConfigError> {
    match unknown_value(unknown, number) {
        Some(value) => Err(ConfigError::UnknownCounter {
            field: field.to_owned(),
            value,
        }),
        None => Ok(()),
    }
}
