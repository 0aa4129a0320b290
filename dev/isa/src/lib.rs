//! `cargo xtask isa`: what a GPU's compiler makes of our kernels, on a machine without that GPU.
//!
//! Mesa's RADV compiles for a Radeon that is not there if `RADV_FORCE_FAMILY` names one. `VK_KHR_pipeline_executable_properties`
//! then returns registers, spills, occupancy and the assembly. Each family needs a process of its own, because the driver
//! reads the variable once.
//!
//! | file | what |
//! |---|---|
//! | `kernels.rs` | the kernels that language models launch, as the device prefers them |
//! | `vulkan.rs` | the device that only compiles |
//! | `listing.rs` | assembly: loops, and instructions by kind |
//! | `row.rs` | the figures of one kernel, a line of a baseline |
//! | `baseline.rs` | baselines, one for each version of Mesa; growth and spills |
//! | `report.rs` | `docs/gpu-kernels.md` |

mod baseline;
mod kernels;
mod listing;
mod report;
mod row;
mod vulkan;

use row::Row;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A GPU that kernels are compiled for.
struct Family {
    /// The name in tables.
    name: &'static str,
    /// What RADV calls it, by version of Mesa.
    radv: &'static [&'static str],
}

const FAMILIES: [Family; 3] = [
    Family { name: "RDNA3", radv: &["gfx1100", "navi31"] },
    Family { name: "RDNA2", radv: &["navi21"] },
    Family { name: "GCN5", radv: &["vega10"] },
];

/// Options of the command.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Writes the baseline and the document.
    pub write: bool,
    /// A directory for the assembly of each kernel, and its loops.
    pub listings: Option<PathBuf>,
    /// Only opens the device. For the processes that [`run`] starts.
    pub probe: bool,
    /// Only kernels whose name contains this; prints them, and compares nothing.
    pub only: Option<String>,
    /// The file that describes another RADV to Vulkan's loader. The system's by default.
    pub driver: Option<PathBuf>,
}

/// Compiles all kernels for all families, and compares them with the baseline of this version of Mesa.
pub fn run(root: &Path, options: &Options) -> Result<(), String> {
    let driver = options.driver.clone().map_or_else(radv, Ok)?;
    let children: Result<Vec<_>, String> =
        FAMILIES.iter().map(|family| Ok((family, start(family, &driver, options)?))).collect();
    let (mut rows, mut mesa) = (Vec::new(), String::new());
    for (family, child) in children? {
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("{} did not compile", family.name));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let (first, rest) = text.split_once('\n').ok_or("a family has no output")?;
        mesa = first.to_owned();
        rows.extend(row::parse(rest)?);
    }
    if options.only.is_some() {
        print!("{}", row::text(&rows));
        return Ok(());
    }
    if options.write {
        // The document has the figures of the system's driver.
        return baseline::write(root, &mesa, &rows, options.driver.is_none());
    }
    baseline::check(root, &mesa, &rows)
}

/// Starts this program again for one family. Its output is the version of Mesa, then rows.
fn start(family: &Family, driver: &Path, options: &Options) -> Result<std::process::Child, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["isa", "--family", family.name]).stdout(Stdio::piped());
    if let Some(listings) = &options.listings {
        command.arg("--listings").arg(listings);
    }
    if let Some(only) = &options.only {
        command.arg("--only").arg(only);
    }
    command.envs([("VK_ICD_FILENAMES", driver), ("VK_DRIVER_FILES", driver)]);
    command.env("RADV_FORCE_FAMILY", known_name(family, driver)?).env("MESA_SHADER_CACHE_DISABLE", "true");
    command.spawn().map_err(|error| error.to_string())
}

/// Returns the name of a family that this RADV accepts. It ends the process for another.
fn known_name(family: &Family, driver: &Path) -> Result<&'static str, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let is_known = |name: &&&str| {
        let mut command = Command::new(&program);
        command.args(["isa", "--probe", "--family", family.name]).stderr(Stdio::null());
        command.envs([("VK_ICD_FILENAMES", driver), ("VK_DRIVER_FILES", driver)]);
        command.env("RADV_FORCE_FAMILY", name).status().is_ok_and(|status| status.success())
    };
    let known = family.radv.iter().find(is_known).copied();
    known.ok_or_else(|| format!("RADV opens no {} under the names {:?}", family.name, family.radv))
}

/// Compiles all kernels for one family, in a process that [`run`] started, and prints their rows.
pub fn run_family(name: &str, options: &Options) -> Result<(), String> {
    let device = vulkan::Device::open()?;
    if options.probe {
        return Ok(());
    }
    println!("{}", device.mesa);
    for kernel in kernels::all(options.only.as_deref())? {
        let built = device.compile(&kernel)?;
        let Some(assembly) = built.assembly.as_deref() else {
            return Err(format!("{}: the driver returned no assembly", kernel.name));
        };
        if let Some(folder) = &options.listings {
            let file = folder.join(format!("{}.{}.txt", kernel.name.replace('/', "-"), name));
            let loops = listing::read(assembly, name, built.subgroup).loops();
            for (file, text) in [(file.with_extension("loops.txt"), loops.as_str()), (file, assembly)] {
                std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
            }
        }
        print!("{}", Row::of(name, &kernel, &built, assembly).line());
    }
    Ok(())
}

/// Returns the file that describes RADV to Vulkan's loader.
fn radv() -> Result<PathBuf, String> {
    let folder = Path::new("/usr/share/vulkan/icd.d");
    let files = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    files.sort();
    let is_radv = |file: &&PathBuf| {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with("radeon_icd") && name.ends_with(".json") && !name.contains("i686")
    };
    let found = files.iter().find(is_radv).cloned();
    found.ok_or_else(|| "RADV is not installed; it is in Debian's package mesa-vulkan-drivers".to_owned())
}
