//! Counters in many small files under `/sys`.

use std::fs;
use std::path::{Path, PathBuf};

use ferretto_proto::fields::sys_stats as field;
use ferretto_wire::Encoder;

use crate::procfs::{number, words};

type Out<'a> = Encoder<'a, Vec<u8>>;

/// The number of ticks between readings of each kind; 0 for never.
#[derive(Debug)]
pub(super) struct Sysfs {
    pub(super) root: PathBuf,
    pub(super) devfreq: u32,
    pub(super) cpufreq: u32,
    pub(super) thermal: u32,
    pub(super) cpuidle: u32,
    pub(super) gpufreq: u32,
}

impl Sysfs {
    pub(super) fn sample(&self, is_due: impl Fn(u32) -> bool, out: &mut Out<'_>) {
        if is_due(self.devfreq) {
            self.write_devfreq(out);
        }
        if is_due(self.cpufreq) {
            for cpu in 0..self.cpu_count() {
                let file = self.cpu(cpu).join("cpufreq/scaling_cur_freq");
                out.varint(field::CPUFREQ_KHZ, read_number(&file).unwrap_or(0));
            }
        }
        if is_due(self.thermal) {
            self.write_thermal(out);
        }
        if is_due(self.cpuidle) {
            self.write_cpuidle(out);
        }
        if is_due(self.gpufreq)
            && let Some(mhz) = self.gpu_mhz()
        {
            out.varint(field::GPUFREQ_MHZ, mhz);
        }
    }

    fn cpu(&self, cpu: u32) -> PathBuf {
        self.root.join(format!("devices/system/cpu/cpu{cpu}"))
    }

    /// Returns one more than the highest CPU number.
    fn cpu_count(&self) -> u32 {
        let names = sorted(&self.root.join("devices/system/cpu"));
        let ids = names
            .iter()
            .filter_map(|name| name.strip_prefix("cpu")?.parse::<u32>().ok());
        ids.max().map_or(0, |last| last.saturating_add(1)).min(8192)
    }

    fn write_devfreq(&self, out: &mut Out<'_>) {
        use field::devfreq_value::{KEY, VALUE};
        let directory = self.root.join("class/devfreq");
        for name in sorted(&directory) {
            let Some(hz) = read_number(&directory.join(&name).join("cur_freq")) else {
                continue;
            };
            out.nested(field::DEVFREQ, |entry| {
                entry.string(KEY, &name);
                entry.varint(VALUE, hz);
            });
        }
    }

    fn write_thermal(&self, out: &mut Out<'_>) {
        use field::thermal_zone as zone;
        let directory = self.root.join("class/thermal");
        for name in sorted(&directory)
            .iter()
            .filter(|name| name.starts_with("thermal_zone"))
        {
            let path = directory.join(name);
            let Some(temp) = read(&path.join("temp")) else {
                continue;
            };
            let Ok(temp) = temp.parse::<i64>() else {
                continue;
            };
            out.nested(field::THERMAL_ZONE, |entry| {
                entry.string(zone::NAME, name);
                entry.int(zone::TEMP, temp);
                if let Some(kind) = read(&path.join("type")) {
                    entry.string(zone::TYPE, &kind);
                }
            });
        }
    }

    fn write_cpuidle(&self, out: &mut Out<'_>) {
        use field::{cpu_idle_state, cpu_idle_state_entry as state};
        for cpu in 0..self.cpu_count() {
            let directory = self.cpu(cpu).join("cpuidle");
            let states = sorted(&directory);
            let states = states.iter().filter(|name| name.starts_with("state"));
            let states: Vec<(String, u64)> = states
                .filter_map(|name| {
                    let path = directory.join(name);
                    Some((read(&path.join("name"))?, read_number(&path.join("time"))?))
                })
                .collect();
            if states.is_empty() {
                continue;
            }
            out.nested(field::CPUIDLE_STATE, |entry| {
                entry.varint(cpu_idle_state::CPU_ID, cpu.into());
                for (name, time_us) in &states {
                    entry.nested(cpu_idle_state::CPUIDLE_STATE_ENTRY, |entry| {
                        entry.string(state::STATE, name);
                        entry.varint(state::DURATION_US, *time_us);
                    });
                }
            });
        }
    }

    /// Returns the frequency of the first GPU whose driver reports it.
    fn gpu_mhz(&self) -> Option<u64> {
        let class = self.root.join("class");
        if let Some(hz) = read_number(&class.join("kgsl/kgsl-3d0/devfreq/cur_freq")) {
            return Some(hz / 1_000_000);
        }
        if let Some(mhz) = read_number(&class.join("drm/card0/gt_act_freq_mhz")) {
            return Some(mhz);
        }
        // Lines such as `1: 700Mhz *`, with a star on the current one.
        let levels = fs::read(class.join("drm/card0/device/pp_dpm_sclk")).ok()?;
        let mut lines = levels.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
        let current = lines.find(|line| line.ends_with(b"*"))?;
        words(current)
            .find(|word| word.ends_with(b"Mhz"))
            .and_then(number)
    }
}

fn read(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    Some(String::from_utf8_lossy(bytes.trim_ascii()).into_owned())
}

fn read_number(path: &Path) -> Option<u64> {
    number(read(path)?.as_bytes())
}

/// Returns the names in a directory, ascending.
fn sorted(path: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(path) else {
        return Vec::new();
    };
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}
