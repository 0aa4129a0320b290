//! Every WGSL program that the kernels of any case would launch, on an imagined GPU with every feature and on one with
//! none, translated to SPIR-V for that GPU and to MSL. What `spirv-val` says about the former counts; versions of it that
//! are too old for matrices of subgroups are not asked about those.

use comfy_table::{CellAlignment, Table, presets};
use conformance::reference::{full_gpu, plain_gpu};
use conformance::{Call, Effort, layouts, programs};
use rustc_hash::FxHashSet;
use silicide_core::DeviceInfo;
use silicide_hal::wgsl::{MSL_VERSION, MslTarget, SpirvTarget, to_msl, to_spirv};
use silicide_hal::{Program, WgslKernel};
use silicide_ops::Case;
use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

/// A program and the GPU it is for.
pub(crate) struct Shader {
    pub(crate) kernel: &'static str,
    pub(crate) gpu: &'static str,
    pub(crate) target: SpirvTarget,
    pub(crate) program: WgslKernel,
}

/// The sizes of a compiled shader.
struct Sizes {
    kernel: &'static str,
    variant: String,
    spirv_words: usize,
    msl_bytes: usize,
}

/// Translates and validates everything, and prints sizes.
pub(crate) fn check(stat: bool) -> Result<(), String> {
    let validator = validator()?;
    let shaders = gather(&silicide_ops::all())?;
    let (mut sizes, mut failures) = (Vec::new(), Vec::new());
    let unknown = shaders.iter().filter(|shader| !validator.knows(&shader.program)).count();
    for shader in &shaders {
        match shader.translate(validator.knows(&shader.program)) {
            Ok(size) => sizes.push(size),
            Err(message) => {
                failures.push(format!("FAILED {} on a {} GPU: {message}", shader.kernel, shader.gpu))
            }
        }
    }
    println!("{}", if stat { by_variant(&sizes) } else { by_kernel(&sizes) });
    let unvalidated = match (unknown, validator) {
        (0, _) => String::new(),
        (_, Validator::Missing) => ", not validated: spirv-val is not installed".to_owned(),
        _ => format!(", {unknown} not validated: spirv-val is too old for their matrices"),
    };
    println!("{} programs, {} failures{unvalidated}", shaders.len(), failures.len());
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// What spirv-val can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Validator {
    Missing,
    /// From before it knew matrices of subgroups.
    Old,
    Full,
}

/// The first version with SPV_KHR_cooperative_matrix.
const KNOWS_MATRICES: (u32, u32) = (2023, 4);

impl Validator {
    /// Whether a program can be validated.
    fn knows(self, program: &WgslKernel) -> bool {
        match self {
            Validator::Missing => false,
            Validator::Old => !program.source().contains("enable wgpu_cooperative_matrix;"),
            Validator::Full => true,
        }
    }

    /// By what it says about its version: `SPIRV-Tools v2023.1 ...`.
    fn of(said: &str) -> Validator {
        let numbers = said.split_once(" v").map_or("", |(_, rest)| rest);
        let mut numbers = numbers.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse().ok());
        match (numbers.next(), numbers.next()) {
            (Some(year), Some(number)) if (year, number) < KNOWS_MATRICES => Validator::Old,
            _ => Validator::Full,
        }
    }
}

/// The validator of this machine. It must be there in continuous integration.
fn validator() -> Result<Validator, String> {
    match Command::new("spirv-val").arg("--version").output() {
        Ok(output) => Ok(Validator::of(&String::from_utf8_lossy(&output.stdout))),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(format!("spirv-val: {error}")),
        Err(_) if std::env::var_os("CI").is_some() => {
            Err("spirv-val is not installed; it is in the package spirv-tools".to_owned())
        }
        Err(_) => Ok(Validator::Missing),
    }
}

/// The difference of a program from others of its kernel: its texts and constants.
pub(crate) fn variant(program: &WgslKernel) -> String {
    let constants = program.constants().iter().map(|(name, value)| format!(" {name}={value}"));
    let parts = program.parts().iter().map(|part| part.snippet.name).collect::<Vec<_>>();
    format!("{}{}", parts.join("+"), constants.collect::<String>())
}

/// Every program that a GPU would run in any case, with the name of its kernel, once.
pub(crate) fn programs_on(
    info: &DeviceInfo,
    ops: &[(&'static str, Vec<Case>)],
) -> Result<Vec<(&'static str, WgslKernel)>, String> {
    let (mut known, mut found) = (FxHashSet::default(), Vec::new());
    for (op, cases) in ops {
        for case in cases {
            let call = Call::of(case).map_err(|what| format!("{op}, case {:?}: {what}", case.label))?;
            for layout in layouts(&call, Effort::Full) {
                for (kernel, program) in programs(&layout.place(&call), info) {
                    if let Program::Wgsl(program) = program
                        && known.insert(program.clone())
                    {
                        found.push((kernel, program));
                    }
                }
            }
        }
    }
    Ok(found)
}

/// Every program once for each imagined GPU that needs it.
pub(crate) fn gather(ops: &[(&'static str, Vec<Case>)]) -> Result<Vec<Shader>, String> {
    let mut shaders = Vec::new();
    for (info, target) in gpus() {
        let gpu = if info.features.subgroups { "full" } else { "plain" };
        let found = programs_on(&info, ops)?.into_iter();
        shaders.extend(found.map(|(kernel, program)| Shader { kernel, gpu, target, program }));
    }
    Ok(shaders)
}

fn gpus() -> [(DeviceInfo, SpirvTarget); 2] {
    let plain = SpirvTarget {
        version: (1, 5),
        f16: false,
        int_8: false,
        int_16: false,
        int_64: false,
        f16_subnormals: false,
        f16_rounding: false,
        integer_dot: false,
        subgroups: false,
        cooperative_matrix: false,
    };
    [(full_gpu(), SpirvTarget::full()), (plain_gpu(), plain)]
}

impl Shader {
    /// The GPU, the snippets and the constants: the difference from others of its kernel.
    pub(crate) fn variant(&self) -> String {
        format!("{}: {}", self.gpu, variant(&self.program))
    }

    /// The SPIR-V for its GPU.
    pub(crate) fn spirv(&self) -> Result<Vec<u32>, String> {
        to_spirv(&self.program, &self.target).map_err(|error| error.to_string())
    }

    /// The translation to MSL, for a device with the same features.
    pub(crate) fn msl(&self) -> Result<String, String> {
        let metal = MslTarget { language: MSL_VERSION, simdgroup_matrix: self.target.cooperative_matrix };
        let msl = to_msl(&self.program, &metal).map_err(|error| error.to_string())?;
        Ok(msl.source)
    }

    fn translate(&self, validator: bool) -> Result<Sizes, String> {
        let words = self.spirv()?;
        if validator {
            validate(&words)?;
        }
        let msl = self.msl()?;
        Ok(Sizes {
            kernel: self.kernel,
            variant: self.variant(),
            spirv_words: words.len(),
            msl_bytes: msl.len(),
        })
    }
}

/// Runs spirv-val on a module.
fn validate(words: &[u32]) -> Result<(), String> {
    spirv_tool("spirv-val", &["--target-env", "vulkan1.3", "-"], words).map(|_| ())
}

/// Runs a program of SPIRV-Tools with a module as its input, and returns what it prints.
pub(crate) fn spirv_tool(tool: &str, arguments: &[&str], words: &[u32]) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{tool}: {error}");
    let mut child = Command::new(tool)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    if let Some(mut stdin) = child.stdin.take() {
        // The tools read all input before they print anything, so this does not block for ever.
        stdin.write_all(&bytes).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("{tool}: {}", String::from_utf8_lossy(&said).trim()))
}

fn by_variant(sizes: &[Sizes]) -> Table {
    let mut table = plain(&["kernel", "variant", "SPIR-V words", "MSL bytes"], 2);
    for size in sizes {
        table.add_row([
            size.kernel,
            &size.variant,
            &size.spirv_words.to_string(),
            &size.msl_bytes.to_string(),
        ]);
    }
    table
}

fn by_kernel(sizes: &[Sizes]) -> Table {
    let mut table = plain(&["kernel", "programs", "SPIR-V words, most", "MSL bytes, most"], 1);
    let mut kernels: Vec<&str> = sizes.iter().map(|size| size.kernel).collect();
    kernels.sort_unstable();
    kernels.dedup();
    for kernel in kernels {
        let own = || sizes.iter().filter(|size| size.kernel == kernel);
        let words = own().map(|size| size.spirv_words).max().unwrap_or(0);
        let bytes = own().map(|size| size.msl_bytes).max().unwrap_or(0);
        let row = [own().count(), words, bytes].map(|count| count.to_string());
        table.add_row([&[kernel.to_owned()], &row[..]].concat());
    }
    table
}

/// A table with numbers from column `numbers` on.
fn plain(header: &[&str], numbers: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header(header);
    for column in table.column_iter_mut().skip(numbers) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_hal::{Part, Snippet};

    static GOOD: Snippet = Snippet {
        name: "good",
        text: "
struct Params { at: u32, value: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(1)
fn main() { y[p.at] = p.value; }",
    };
    static HALF: Snippet = Snippet {
        name: "half",
        text: "
enable f16;
struct Params { at: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> y: array<f16>;
@compute @workgroup_size(1)
fn main() { y[p.at] = 1.0h; }",
    };

    fn shader(snippet: &'static Snippet, params: u32, full: bool) -> Shader {
        let [(_, most), (_, least)] = gpus();
        let program = WgslKernel::new("test", &[Part::plain(snippet)], 1, params);
        Shader { kernel: "test", gpu: "test", target: if full { most } else { least }, program }
    }

    #[test]
    fn a_good_shader_passes_everywhere() {
        for full in [true, false] {
            let sizes = shader(&GOOD, 1, full).translate(validator().unwrap() != Validator::Missing).unwrap();
            assert!(sizes.spirv_words > 20 && sizes.msl_bytes > 20);
        }
    }

    #[test]
    fn old_versions_of_spirv_val_are_detected() {
        assert_eq!(Validator::of("SPIRV-Tools v2023.1 unknown hash, 2023-02-15"), Validator::Old);
        assert_eq!(Validator::of("SPIRV-Tools v2022.4-dev"), Validator::Old);
        assert_eq!(Validator::of("SPIRV-Tools v2023.4.rc1 v2023.4.rc1-0-g89ca3aa5"), Validator::Full);
        assert_eq!(Validator::of("SPIRV-Tools v2026.4 unknown hash"), Validator::Full);
        static MATRIX: Snippet = Snippet { name: "matrix", text: "enable wgpu_cooperative_matrix;" };
        let [plain, matrix] =
            [&GOOD, &MATRIX].map(|text| WgslKernel::new("test", &[Part::plain(text)], 1, 1));
        assert!(
            Validator::Old.knows(&plain) && !Validator::Old.knows(&matrix) && Validator::Full.knows(&matrix)
        );
    }

    #[test]
    fn a_shader_that_needs_more_than_the_gpu_has_fails() {
        assert!(shader(&HALF, 0, true).translate(false).is_ok());
        assert!(shader(&HALF, 0, false).translate(false).is_err());
    }

    #[test]
    fn a_shader_that_counts_its_parameters_wrongly_fails() {
        assert!(shader(&GOOD, 2, true).translate(false).is_err());
    }

    #[test]
    fn invalid_modules_are_refused() {
        if validator().unwrap() != Validator::Missing {
            assert!(validate(&[0x0723_0203, 0x0001_0600, 0, 1, 0]).is_err());
        }
    }
}
