//! Every kernel in the Metal Shading Language, as an Apple GPU, a GPU with every feature and one with none would have it,
//! translated and, where there is one, written by hand; checked by clang against the library in `dev/msl`.

use crate::shaders::{programs_on, variant};
use ::msl::{Clang, Kernel, NEWEST, OLDEST};
use conformance::reference::{full_gpu, plain_gpu};
use rustc_hash::FxHashSet;
use silicide_hal::wgsl::MslTarget;
use std::path::Path;
use std::time::Instant;

/// Checks everything. The texts of kernels go to `directory` too, if there is one.
pub(crate) fn check(directory: Option<&Path>) -> Result<(), String> {
    let begin = Instant::now();
    let clang = Clang::find()?;
    let ops = silicide_ops::all();
    let (mut known, mut kernels) = (FxHashSet::default(), Vec::new());
    for (gpu, info) in [("apple", ::msl::info()), ("full", full_gpu()), ("plain", plain_gpu())] {
        let translating = MslTarget { simdgroup_matrix: !info.features.matrices.is_empty(), ..OLDEST };
        for (kernel, program) in programs_on(&info, &ops)? {
            if known.insert(program.clone()) {
                let name = format!("{kernel} on {gpu}: {}", variant(&program));
                let as_on = |target| Kernel::new(&name, &program, target).map_err(|error| error.to_string());
                if program.msl().is_some() {
                    kernels.push(as_on(&NEWEST)?);
                }
                kernels.push(as_on(&translating)?);
            }
        }
    }
    if let Some(directory) = directory {
        write(directory, &kernels).map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    let failures = ::msl::check(&clang, &kernels);
    let seconds = begin.elapsed().as_secs_f64();
    println!("{} kernels in MSL, {} failures, {seconds:.1} s", kernels.len(), failures.len());
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// One file for each kernel, and a list of what is in which.
fn write(directory: &Path, kernels: &[Kernel]) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let mut list = String::new();
    for (i, kernel) in kernels.iter().enumerate() {
        list.push_str(&format!("{i:04}.metal  {}\n", kernel.name));
        std::fs::write(directory.join(format!("{i:04}.metal")), &kernel.msl.source)?;
    }
    std::fs::write(directory.join("list.txt"), list)
}
