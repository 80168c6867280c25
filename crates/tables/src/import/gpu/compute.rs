//! Compute kernels, and the parameters of their launches.

use ferretto_proto::fields::gpu_render_stage_event::{
    compute_kernel_launch as launched, dim3, extra_compute_arg as arg,
};
use ferretto_proto::fields::{
    interned_compute_arg_name as arg_name, interned_compute_kernel as kernel_of, interned_data,
};
use ferretto_wire::Fields;

use crate::import::context::{Context, EventState};
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::trackers::args::ArgSet;

/// The tables of kernels and of argument names: extensions of `InternedData`.
const KERNELS: u32 = 1000;
const ARG_NAMES: u32 = 1001;

/// Adds the properties of an interned kernel.
pub(super) fn kernel(cx: &mut Context, iid: u64, state: EventState<'_>, args: &mut ArgSet) {
    let Some(bytes) = state.message(KERNELS, iid) else {
        return;
    };
    let message = Message::<5>::read(bytes);
    for (number, key) in [
        (kernel_of::NAME, "kernel_name"),
        (kernel_of::DEMANGLED_NAME, "kernel_demangled_name"),
        (kernel_of::ARCH, "arch"),
    ] {
        if message.has(number) {
            let text = cx.store.strings.intern_bytes(message.bytes(number));
            args.put(&mut cx.store, key, ArgValue::Text(text));
        }
    }
    add_all(cx, bytes, kernel_of::ARGS, state, args);
}

/// Adds the parameters of a `ComputeKernelLaunch`.
pub(super) fn launch(cx: &mut Context, bytes: &[u8], state: EventState<'_>, args: &mut ArgSet) {
    const GRID: [&str; 3] = [
        "launch.grid_size.x",
        "launch.grid_size.y",
        "launch.grid_size.z",
    ];
    const WORKGROUP: [&str; 3] = [
        "launch.workgroup_size.x",
        "launch.workgroup_size.y",
        "launch.workgroup_size.z",
    ];
    let message = Message::<3>::read(bytes);
    for (number, keys) in [
        (launched::GRID_SIZE, GRID),
        (launched::WORKGROUP_SIZE, WORKGROUP),
    ] {
        let size = Message::<4>::read(message.bytes(number));
        for (axis, key) in [dim3::X, dim3::Y, dim3::Z].into_iter().zip(keys) {
            if size.has(axis) {
                let value = ArgValue::Uint(size.u32(axis).into());
                args.put(&mut cx.store, key, value);
            }
        }
    }
    add_all(cx, bytes, launched::ARGS, state, args);
}

/// Adds all `ExtraComputeArg`s in a field of a message.
fn add_all(cx: &mut Context, bytes: &[u8], number: u32, state: EventState<'_>, args: &mut ArgSet) {
    let fields = Fields::new(bytes).map_while(Result::ok);
    for part in fields.filter(|part| part.number == number) {
        add(cx, part.as_bytes().unwrap_or_default(), state, args);
    }
}

fn add(cx: &mut Context, bytes: &[u8], state: EventState<'_>, args: &mut ArgSet) {
    use interned_data::DEBUG_ANNOTATION_STRING_VALUES;
    let message = Message::<8>::read(bytes);
    let key = if message.has(arg::NAME_IID) {
        let entry = state.message(ARG_NAMES, message.uint(arg::NAME_IID));
        let name = Message::<3>::read(entry.unwrap_or_default());
        name.has(arg_name::NAME).then(|| name.bytes(arg_name::NAME))
    } else {
        message.has(arg::NAME).then(|| message.bytes(arg::NAME))
    };
    let Some(key) = key else { return };
    let value = if message.has(arg::INT_VALUE) {
        ArgValue::Int(message.int(arg::INT_VALUE))
    } else if message.has(arg::UINT_VALUE) {
        ArgValue::Uint(message.uint(arg::UINT_VALUE))
    } else if message.has(arg::DOUBLE_VALUE) {
        ArgValue::Real(f64::from_bits(message.uint(arg::DOUBLE_VALUE)))
    } else if message.has(arg::STRING_VALUE_IID) {
        let iid = message.uint(arg::STRING_VALUE_IID);
        match state.text(DEBUG_ANNOTATION_STRING_VALUES, iid) {
            Some(text) => ArgValue::Text(text),
            None => return,
        }
    } else if message.has(arg::STRING_VALUE) {
        ArgValue::Text(
            cx.store
                .strings
                .intern_bytes(message.bytes(arg::STRING_VALUE)),
        )
    } else {
        return;
    };
    let key = cx.store.strings.intern_bytes(key);
    args.add(key, key, value);
}
