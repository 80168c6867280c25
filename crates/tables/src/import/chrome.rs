//! Metadata of Chrome.

use ferretto_proto::fields::{
    background_tracing_metadata as background, chrome_metadata_packet as field,
};
use ferretto_wire::Fields;

use super::context::Context;
use super::message::Message;
use super::reflect::base64;
use crate::trackers::metadata::{Fact, FactScope};

/// The metadata of the instances of Chrome in a trace.
#[derive(Debug, Default)]
pub(crate) struct Chrome {
    /// The number of instances.
    instances: u8,
}

impl Chrome {
    /// Reads a `ChromeMetadataPacket`, in the order of the file. The entries of an instance have
    /// its letter.
    pub(super) fn metadata(&mut self, cx: &mut Context, bytes: &[u8]) {
        let letter = char::from(b'a' + self.instances);
        self.instances = (self.instances + 1) % 26;
        let message = Message::<9>::read(bytes);
        let key = |name: &str| format!("cr-{letter}-{name}");
        for (number, name) in [
            (field::APP_VERSION, "product-version"),
            (field::OS_NAME, "os-name"),
            (field::APP_PACKAGE_NAME, "package-name"),
            (field::ENABLED_CATEGORIES, "enabled_categories"),
        ] {
            if message.has(number) {
                let text = cx.store.strings.intern_bytes(message.bytes(number));
                set(cx, &key(name), Fact::Text(text));
            }
        }
        for (number, name) in [
            (field::CHROME_VERSION_CODE, "playstore_version_code"),
            (field::CHANNEL, "channel"),
        ] {
            if message.has(number) {
                set(cx, &key(name), Fact::Int(message.int(number)));
            }
        }
        let trials = trials(bytes);
        if !trials.is_empty() {
            let text = cx.store.strings.intern(&trials);
            set(cx, &key("field_trial_hashes"), Fact::Text(text));
        }
        if message.has(field::BACKGROUND_TRACING_METADATA) {
            let bytes = message.bytes(field::BACKGROUND_TRACING_METADATA);
            let text = cx.store.strings.intern(&base64(bytes));
            set(cx, "cr-background_tracing_metadata", Fact::Text(text));
            let scenario = Message::<4>::read(bytes);
            if scenario.has(background::SCENARIO_NAME_HASH) {
                let hash = scenario.int(background::SCENARIO_NAME_HASH);
                set(cx, "cr-scenario_name_hash", Fact::Int(hash));
            }
        }
    }
}

/// Returns the hashes of field trials, two in a line.
fn trials(bytes: &[u8]) -> String {
    /// The maximum number of field trials.
    const MAX: usize = 1 << 12;
    let mut text = String::new();
    let fields = Fields::new(bytes).map_while(Result::ok);
    let fields = fields.filter(|part| part.number == field::FIELD_TRIAL_HASHES);
    for (index, part) in fields.take(MAX).enumerate() {
        use field::finch_hash as of;
        if index > 0 && index % 2 == 0 {
            text.push('\n');
        }
        let hash = Message::<3>::read(part.as_bytes().unwrap_or_default());
        let (name, group) = (hash.u32(of::NAME), hash.u32(of::GROUP));
        text += &format!("{{ name: {name}, group: {group} }} ");
    }
    text
}

fn set(cx: &mut Context, name: &str, fact: Fact) {
    cx.metadata.set(&mut cx.store, name, fact, FactScope::Trace);
}
