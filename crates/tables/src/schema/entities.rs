//! Tables of threads, processes, CPUs, machines and other objects.

use crate::strings::StringId;
use crate::table::table;

table! {
    /// Threads. A thread has one row for its lifetime; a tid may be reused by several rows.
    ThreadRow, ThreadTable = "thread" {
        /// The thread id of the kernel.
        tid: i64,
        /// The name.
        name: StringId,
        /// The time at which it was created, in nanoseconds.
        start_ts: Option<i64>,
        /// The time at which it ended, in nanoseconds.
        end_ts: Option<i64>,
        /// Its process: `process.id`.
        upid: Option<u32>,
        /// 1 for the main thread of its process; NULL while the process is unknown.
        is_main_thread: Option<bool>,
        /// 1 for the idle task of a CPU.
        is_idle: bool,
        /// The machine: `machine.id`.
        machine_id: u32,
        /// Further values: `args.arg_set_id`.
        arg_set_id: Option<u32>,
    }
}

table! {
    /// Processes. A process has one row for its lifetime; a pid may be reused by several rows.
    ProcessRow, ProcessTable = "process" {
        /// The process id of the kernel.
        pid: i64,
        /// The name.
        name: StringId,
        /// The time at which it was created, in nanoseconds.
        start_ts: Option<i64>,
        /// The time at which it ended, in nanoseconds.
        end_ts: Option<i64>,
        /// The process that created it: `process.id`.
        parent_upid: Option<u32>,
        /// The user id.
        uid: Option<u32>,
        /// The app id in Android's user id.
        android_appid: Option<u32>,
        /// The user id in Android's user id.
        android_user_id: Option<u32>,
        /// The command line.
        cmdline: StringId,
        /// Further values: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The machine: `machine.id`.
        machine_id: u32,
    }
}

table! {
    /// CPUs. Each machine has rows for all CPU numbers that it may have.
    CpuRow, CpuTable = "cpu" {
        /// The number in the kernel; NULL for a CPU that does not occur.
        cpu: Option<u32>,
        /// The id of the group of equal CPUs.
        cluster_id: u32,
        /// The name of the processor.
        processor: StringId,
        /// The machine: `machine.id`.
        machine_id: u32,
        /// The relative performance.
        capacity: Option<u32>,
        /// Further values: `args.arg_set_id`.
        arg_set_id: Option<u32>,
    }
}

table! {
    /// Frequencies supported by CPUs.
    CpuFreqRow, CpuFreqTable = "cpu_freq" {
        /// The CPU: `cpu.id`.
        ucpu: u32,
        /// The frequency in kHz.
        freq: u32,
    }
}

table! {
    /// Machines.
    MachineRow, MachineTable = "machine" {
        /// The machine id in the trace; 0 is the recording machine.
        raw_id: i64,
        /// The name.
        name: StringId,
        /// The name of the operating system.
        sysname: StringId,
        /// The release of the operating system.
        release: StringId,
        /// The version of the operating system.
        version: StringId,
        /// The architecture.
        arch: StringId,
        /// The number of CPUs.
        num_cpus: Option<u32>,
        /// The build fingerprint of Android.
        android_build_fingerprint: StringId,
        /// The manufacturer of an Android device.
        android_device_manufacturer: StringId,
        /// The SDK version of Android.
        android_sdk_version: Option<i64>,
        /// The memory in bytes.
        system_ram_bytes: Option<i64>,
        /// The memory in gigabytes, rounded.
        system_ram_gb: Option<i64>,
    }
}

table! {
    /// GPUs.
    GpuRow, GpuTable = "gpu" {
        /// The number on its machine.
        gpu: u32,
        /// The machine: `machine.id`.
        machine_id: u32,
        /// The name.
        name: StringId,
        /// The vendor.
        vendor: StringId,
        /// The model.
        model: StringId,
        /// The architecture.
        architecture: StringId,
        /// The uuid from the vendor's driver.
        uuid: StringId,
        /// The address on the PCI bus.
        pci_bdf: StringId,
        /// Further values: `args.arg_set_id`.
        arg_set_id: Option<u32>,
    }
}

table! {
    /// Names of interrupts.
    InterruptMappingRow, InterruptMappingTable = "linux_interrupt_mapping" {
        /// The number of the interrupt.
        irq_id: u32,
        /// The name.
        name: StringId,
        /// The machine: `machine.id`.
        machine_id: u32,
    }
}

table! {
    /// Users of an Android device.
    AndroidUserListRow, AndroidUserListTable = "android_user_list" {
        /// The type.
        type_ as "type": StringId,
        /// The number.
        android_user_id: i64,
    }
}

table! {
    /// Flags of Android.
    AndroidAflagsRow, AndroidAflagsTable = "android_aflags" {
        /// The time in nanoseconds.
        ts: i64,
        /// The package.
        package: StringId,
        /// The name.
        name: StringId,
        /// The namespace.
        flag_namespace: StringId,
        /// The container, such as `system`.
        container: StringId,
        /// The value.
        value: StringId,
        /// The value after the next boot.
        staged_value: StringId,
        /// `read-only` or `read-write`.
        permission: StringId,
        /// The source of the value: `default`, `server` or `local`.
        value_picked_from: StringId,
        /// The storage of the value.
        storage_backend: StringId,
        /// The type: `boolean` or `integer`.
        type_ as "type": StringId,
    }
}

table! {
    /// Modes of games.
    AndroidGameInterventionListRow, AndroidGameInterventionListTable =
        "android_game_intervention_list" {
        /// The package.
        package_name: StringId,
        /// The user of its processes.
        uid: i64,
        /// The mode: 1 for standard, 2 for performance and 3 for battery.
        current_mode: i64,
        /// 1 if it has a standard mode.
        standard_mode_supported: bool,
        /// The factor of the resolution in this mode.
        standard_mode_downscale: Option<f64>,
        /// 1 if it uses ANGLE in this mode.
        standard_mode_use_angle: Option<bool>,
        /// The limit of frames per second in this mode.
        standard_mode_fps: Option<f64>,
        /// 1 if it has a performance mode.
        perf_mode_supported: bool,
        /// The factor of the resolution in this mode.
        perf_mode_downscale: Option<f64>,
        /// 1 if it uses ANGLE in this mode.
        perf_mode_use_angle: Option<bool>,
        /// The limit of frames per second in this mode.
        perf_mode_fps: Option<f64>,
        /// 1 if it has a battery mode.
        battery_mode_supported: bool,
        /// The factor of the resolution in this mode.
        battery_mode_downscale: Option<f64>,
        /// 1 if it uses ANGLE in this mode.
        battery_mode_use_angle: Option<bool>,
        /// The limit of frames per second in this mode.
        battery_mode_fps: Option<f64>,
    }
}
