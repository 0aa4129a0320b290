//! `silicide devices`: the devices that models can run on.

use crate::error::Error;
use crate::terminal::Printer;
use clap::Args;
use comfy_table::{Table, presets};
use indicatif::HumanBytes;
use serde_json::{Value, json};
use silicide::Device;
use silicide::hal::{DeviceInfo, MatrixShape};

/// List the devices that models can run on
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  silicide devices
  silicide run smollm2 --device vulkan:0")]
pub(crate) struct Devices {
    /// Print JSON, with all limits and features
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl Devices {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let listing = Device::list();
        let missing: Vec<String> = listing.missing.iter().map(ToString::to_string).collect();
        let best = best(&listing.devices);
        let output = if self.json {
            let devices: Vec<Value> = listing.devices.iter().map(describe).collect();
            serde_json::to_string_pretty(&json!({ "devices": devices, "best": best, "missing": missing }))?
                + "\n"
        } else {
            let mut text = format!("{}\n", table(&listing.devices));
            text.push_str(&format!("--device best takes {best}\n"));
            for why in &missing {
                text.push_str(&format!("not available: {why}\n"));
            }
            text
        };
        Ok(Printer::stdout().print(&output)?)
    }
}

/// Returns the device that `best` takes: the first GPU that is not emulated, else the CPU.
pub(crate) fn best(devices: &[DeviceInfo]) -> &str {
    devices.iter().find(|info| info.is_gpu() && !info.software).map_or("cpu", |info| &info.id)
}

fn table(devices: &[DeviceInfo]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["device", "kind", "memory", "free", "name", "features"]);
    for info in devices {
        let memory =
            [info.memory.total, info.memory.available].map(|bytes| HumanBytes(bytes as u64).to_string());
        let [total, free] = memory;
        table.add_row([
            info.id.clone(),
            kind(info).to_owned(),
            total,
            free,
            info.name.clone(),
            features(info),
        ]);
    }
    table
}

fn kind(info: &DeviceInfo) -> &'static str {
    match (info.is_gpu(), info.software, info.features.unified_memory) {
        (false, ..) => "cpu",
        (true, true, _) => "emulated gpu",
        (true, false, true) => "integrated gpu",
        (true, false, false) => "gpu",
    }
}

/// Returns the device's features for kernels, in words.
fn features(info: &DeviceInfo) -> String {
    let features = &info.features;
    let (smallest, largest) = features.subgroup_size;
    let subgroups = match smallest == largest {
        true => format!("subgroups of {largest}"),
        false => format!("subgroups of {smallest} to {largest}"),
    };
    let isa = info.isa.map(|isa| format!("{isa}, {} threads", info.threads));
    let words = [
        isa,
        features.f16.then(|| "f16".to_owned()),
        features.integer_dot.then(|| "integer dot".to_owned()),
        features.subgroups.then_some(subgroups),
        features.host_import.then(|| "reads files in place".to_owned()),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn describe(info: &DeviceInfo) -> Value {
    let (limits, features) = (&info.limits, &info.features);
    json!({
        "id": info.id,
        "backend": info.backend.name(),
        "kind": kind(info),
        "name": info.name,
        "driver": info.driver,
        "software": info.software,
        "isa": info.isa.map(|isa| isa.to_string()),
        "threads": info.threads,
        "memory": { "total": info.memory.total, "available": info.memory.available },
        "limits": {
            "max_block": limits.max_block,
            "max_binding": limits.max_binding,
            "binding_alignment": limits.binding_alignment,
            "max_param_bytes": limits.max_param_bytes,
            "max_bindings": limits.max_bindings,
            "max_grid": limits.max_grid,
            "max_workgroup": limits.max_workgroup,
            "max_workgroup_bytes": limits.max_workgroup_bytes,
        },
        "features": {
            "f16": features.f16,
            "storage_16": features.storage_16,
            "storage_8": features.storage_8,
            "int_16": features.int_16,
            "int_64": features.int_64,
            "integer_dot": features.integer_dot,
            "subgroups": features.subgroups,
            "subgroup_size": [features.subgroup_size.0, features.subgroup_size.1],
            "required_subgroup_size": [features.required_subgroup_size.0, features.required_subgroup_size.1],
            "unified_memory": features.unified_memory,
            "host_import": features.host_import,
            "bf16": features.bf16,
            "matrices": features.matrices.iter().map(MatrixShape::name).collect::<Vec<_>>(),
            "timestamps": features.timestamps,
        },
    })
}
