//! Kernels as one C++ file: each in a namespace of its own, under its own name and line numbers in messages, followed
//! by a function that launches it.

use crate::entry::arguments;
use silicide_hal::WgslKernel;
use silicide_hal::wgsl::{Msl, MslTarget, msl_for};
use std::fmt::Write;

/// A kernel in MSL.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// What messages call it.
    pub name: String,
    /// Its text and what the host must know.
    pub msl: Msl,
    /// Words of its parameters.
    pub words: u32,
}

impl Kernel {
    /// A kernel for one device: written by hand where the device takes that, or translated.
    pub fn new(
        name: impl Into<String>,
        program: &WgslKernel,
        target: &MslTarget,
    ) -> silicide_hal::Result<Kernel> {
        let msl = msl_for(program, target)?;
        Ok(Kernel { name: name.into(), msl, words: program.words })
    }
}

/// The name of the function that launches kernel `i` of a unit.
pub(crate) fn launcher(i: usize) -> String {
    format!("launch_{i}")
}

/// The C++ file of some kernels, or what is wrong with the parameters of one.
pub(crate) fn unit(kernels: &[Kernel]) -> Result<String, String> {
    let mut text = "#include <metal_stdlib>\n".to_owned();
    for (i, kernel) in kernels.iter().enumerate() {
        let Kernel { name, msl, words } = kernel;
        let arguments = arguments(msl).map_err(|what| format!("{name}: {what}"))?;
        let file = name.replace(['"', '\\', '\n'], " ");
        // Headers are included once, outside of the namespace; their lines stay, so that lines keep their numbers.
        // And `threadgroup` means nothing to this compiler, except where it is the name of an attribute.
        let body = msl.source.replace("#include", "//").replace("[[threadgroup(", "[[memory(");
        let mut memory = String::new();
        let mut spoil = String::new();
        for (piece, bytes) in msl.threadgroup_bytes.iter().enumerate() {
            // Writing to a string can't fail.
            let _ =
                writeln!(memory, "alignas(16) static thread_local unsigned char memory_{piece}[{bytes}];");
            let _ = write!(spoil, "__builtin_memset(memory_{piece}, 0xff, {bytes}); ");
        }
        let [x, y, z] = msl.workgroup;
        let _ = write!(
            text,
            "namespace kernel_{i} {{
#line 1 \"{file}\"
{body}
#line 1 \"the call of {file}\"
constexpr unsigned long PARAMS = {params};
{memory}static void spoil() {{ {spoil}}}
static void body() {{
    emulation::Place here = emulation::here();
    void* const* buffers = emulation::launch->buffers;
    (void)buffers;
    {entry}({arguments});
}}
}}  // namespace kernel_{i}
extern \"C\" const char* {launcher}(const emulation::Launch* launch) {{
    return emulation::run(launch, uint3({x}u, {y}u, {z}u), kernel_{i}::body, kernel_{i}::spoil);
}}
",
            params = words * 4,
            entry = msl.entry,
            launcher = launcher(i),
        );
    }
    Ok(text)
}
