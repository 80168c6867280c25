//! Properties of GPUs.

use ferretto_proto::fields::gpu_info::{GPUS, gpu as field};
use ferretto_text::amount::hex;
use ferretto_wire::Fields;

use crate::import::context::Context;
use crate::import::message::Message;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;

/// Reads a `GpuInfo`, whose GPUs are in the order of their numbers.
pub(super) fn read(cx: &mut Context, bytes: &[u8]) {
    /// The maximum number of GPUs of a machine.
    const MAX: usize = 256;
    let parts = Fields::new(bytes).map_while(Result::ok);
    let gpus = parts.filter(|part| part.number == GPUS).take(MAX);
    for (number, part) in gpus.enumerate() {
        let bytes = part.as_bytes().unwrap_or_default();
        let gpu = Message::<8>::read(bytes);
        let row = cx.gpus.intern(&mut cx.store, number as u32);
        let mut text = |number| match gpu.bytes(number) {
            [] => None,
            text => Some(cx.store.strings.intern_bytes(text)),
        };
        let known = [
            text(field::NAME),
            text(field::VENDOR),
            text(field::MODEL),
            text(field::ARCHITECTURE),
            text(field::PCI_BDF),
        ];
        let uuid = uuid(cx, gpu.bytes(field::UUID));
        let table = &mut cx.store.tables.gpu;
        let columns = [
            &mut table.name,
            &mut table.vendor,
            &mut table.model,
            &mut table.architecture,
            &mut table.pci_bdf,
        ];
        for (column, text) in columns.into_iter().zip(known) {
            if let Some(text) = text {
                column.set(row, text);
            }
        }
        if let Some(uuid) = uuid {
            table.uuid.set(row, uuid);
        }
        let set = further(cx, bytes).finish(&mut cx.store);
        if set.is_some() {
            cx.store.tables.gpu.arg_set_id.set(row, set);
        }
    }
}

/// Returns a uuid in hexadecimal digits, if there is one.
fn uuid(cx: &mut Context, bytes: &[u8]) -> Option<StringId> {
    (!bytes.is_empty()).then(|| cx.store.strings.intern(&hex(bytes)))
}

/// Collects the properties that only the vendor defines.
fn further(cx: &mut Context, gpu: &[u8]) -> ArgSet {
    use field::key_value as pair;
    let mut args = ArgSet::default();
    for part in Fields::new(gpu).map_while(Result::ok) {
        if part.number != field::EXTRA_INFO {
            continue;
        }
        let part = Message::<3>::read(part.as_bytes().unwrap_or_default());
        if part.has(pair::KEY) && part.has(pair::VALUE) {
            let key = cx.store.strings.intern_bytes(part.bytes(pair::KEY));
            let value = cx.store.strings.intern_bytes(part.bytes(pair::VALUE));
            args.add(key, key, crate::schema::ArgValue::Text(value));
        }
    }
    args
}
