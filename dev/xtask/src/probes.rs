//! Stack probes of an x86-64 program: no function may run a probe loop that can destroy a live register.
//!
//! A function with a frame larger than a page touches every page of it in order, so that the guard page below the stack
//! is not jumped over. Up to 32 KiB the compiler writes one store for each page. Beyond that it writes a loop:
//!
//! ```text
//! lea  -0x30000(%rsp),%r11      or:  mov %rsp,%r11;  sub $0x30000,%r11
//! sub  $0x1000,%rsp
//! movq $0x0,(%rsp)
//! cmp  %r11,%rsp
//! jne  the sub
//! ```
//!
//! LLVM 22 takes `r11` without looking whether it is in use. At the entry of a function it is not. But shrink-wrapping
//! may move the frame's set-up behind the first branches, and there `r11` may hold a value. A program of ten lines shows
//! it in safe Rust: a function that loads eight numbers from a slice, returns early if the last one is 77, then makes an
//! uninitialised local array of 64 KiB, hands it to `black_box`, and returns the weighted sum of the eight. It is right at
//! opt-level 1, and wrong at 2 and 3: one of the eight lived in `r11`.
//!
//! This command disassembles programs and fails on
//!
//! - a loop that is not at the entry, in any function of any crate;
//! - any loop, so a frame of 32 KiB or more, in a function of the project's crates. Whether such a loop stays at the entry
//!   is the optimiser's choice; kernels keep their panels in a workspace instead (`NativeKernel::with_workspace`).
//!
//! Loops at the entry of functions of std and of other crates are fine, and are counted.
//!
//! The same listing shows lane operations (`silicide_gemm::isa`) that were not inlined into their kernels: functions named
//! `compiled`. A closure passed to `map` or `from_fn` of an array is compiled without the instruction set of its kernel, so the
//! optimiser may leave a call per vector in the inner loop. That once made a product 2.9 times slower. The command fails on
//! any such function.
//!
//! A program without names of functions, such as the shipped one, is checked by its unwind tables, which tell where functions
//! begin but not in which crate. So only the first rule holds there, and a program with names has to prove the second.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// A part of the names of all the project's functions.
const OURS: &str = "silicide";
/// Parts of the names of lane operations that stand alone.
const LANE_OPERATION: [&str; 2] = ["silicide_gemm::isa::", "::compiled"];
/// The section of code. Its label takes the place of functions in a program without names.
const SECTION: &str = ".text";

/// A probe loop.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Probe {
    /// The function, demangled.
    function: String,
    /// Bytes of the frame, if the loop's set-up says so.
    frame: Option<u64>,
    /// Whether nothing but the prologue comes before it.
    at_entry: bool,
}

impl Probe {
    fn is_ours(&self) -> bool {
        self.function.contains(OURS)
    }

    /// Whether the program must not have it.
    fn is_wrong(&self) -> bool {
        !self.at_entry || self.is_ours()
    }
}

/// Checks programs; prints what is wrong and a summary of each.
pub(crate) fn check(programs: &[PathBuf]) -> Result<(), String> {
    let (mut wrong, mut calls) = (0, 0);
    for program in programs {
        let Scan { probes, outlined, instructions, named } = scan(program)?;
        for function in &outlined {
            println!(
                "{function}\n    lane operation that is not inlined; use a loop instead of a closure where it is called"
            );
        }
        for probe in probes.iter().filter(|probe| probe.is_wrong()) {
            let place = if probe.at_entry { "at its entry" } else { "NOT at its entry: r11 may be in use" };
            let frame = probe.frame.map_or("of unknown size".to_owned(), |bytes| format!("of {bytes} bytes"));
            println!("{}\n    frame {frame}, probe loop {place}", probe.function);
        }
        calls += outlined.len();
        let (count, moved) = (probes.len(), probes.iter().filter(|probe| !probe.at_entry).count());
        let ours = probes.iter().filter(|probe| probe.is_ours()).count();
        println!(
            "{}{}: {instructions} instructions, {count} functions with a probe loop, {ours} of the project, {moved} not at the entry",
            program.display(),
            if named { "" } else { " (without names)" }
        );
        wrong += probes.iter().filter(|probe| probe.is_wrong()).count();
    }
    match wrong {
        0 if calls == 0 => Ok(()),
        0 => Err(format!("{calls} lane operations are called instead of inlined")),
        count => Err(format!(
            "{count} functions have a frame of 32 KiB or more that they must not have; \
             put large local arrays into a workspace or on the heap. Names: cargo build --profile profiling"
        )),
    }
}

/// The result for one program.
#[derive(Debug, PartialEq, Eq)]
struct Scan {
    probes: Vec<Probe>,
    /// Lane operations that are functions of their own.
    outlined: Vec<String>,
    instructions: usize,
    /// Whether functions have names.
    named: bool,
}

/// Finds the probe loops of a program.
fn scan(program: &Path) -> Result<Scan, String> {
    if !program.is_file() {
        return Err(format!("{} is not a file; build it first", program.display()));
    }
    let entries = entries(program)?;
    let mut child = Command::new("objdump")
        .args(["--disassemble", "--demangle", "--no-show-raw-insn"])
        .arg(program)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(no_objdump)?;
    let output = child.stdout.take().ok_or("objdump gives no output")?;
    let mut scanner = Scanner { entries, ..Scanner::default() };
    let mut known = false;
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| format!("{}: {error}", program.display()))?;
        known |= line.contains("file format elf64-x86-64");
        scanner.line(&line);
    }
    let status = child.wait().map_err(|error| format!("objdump: {error}"))?;
    ended(program, status)?;
    if !known {
        return Err(format!("{} is no program for x86-64 in ELF format", program.display()));
    }
    let known = scanner.entries.len();
    let scan = scanner.finish();
    if scan.instructions == 0 {
        return Err(format!("objdump shows no code of {}", program.display()));
    }
    if !scan.named && known == 0 {
        return Err(format!("{} has neither names of functions nor unwind tables", program.display()));
    }
    Ok(scan)
}

/// The error of an objdump that does not start.
fn no_objdump(error: std::io::Error) -> String {
    format!("objdump can't be run ({error}); install binutils (Debian, Ubuntu: apt install binutils)")
}

/// Fails unless objdump succeeded. What it printed before it failed is not the whole program.
fn ended(program: &Path, status: ExitStatus) -> Result<(), String> {
    match status.success() {
        true => Ok(()),
        false => Err(format!("objdump failed on {}: {status}", program.display())),
    }
}

/// Returns the addresses at which functions begin, by the unwind tables of a program.
fn entries(program: &Path) -> Result<HashSet<u64>, String> {
    let output = Command::new("objdump").arg("--dwarf=frames").arg(program).output();
    let output = output.map_err(no_objdump)?;
    ended(program, output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(entry).collect())
}

/// The first address of a line such as `00000018 ... FDE cie=00000000 pc=00000000003e5330..00000000003e5352`.
fn entry(line: &str) -> Option<u64> {
    let (_, range) = line.split_once(" FDE ")?.1.split_once("pc=")?;
    u64::from_str_radix(range.split_once("..")?.0, 16).ok()
}

/// Reads a listing line by line.
#[derive(Default)]
struct Scanner {
    function: String,
    /// Whether only instructions of a prologue were seen in the function.
    prologue: bool,
    /// The size in the last instruction that set `r11` from `rsp`.
    frame: Option<u64>,
    /// The last three instructions, newest last.
    last: [Instruction; 3],
    found: Vec<Probe>,
    outlined: Vec<String>,
    instructions: usize,
    /// Whether the code here has no names of functions.
    here_unnamed: bool,
    /// Whether any code had none.
    unnamed: bool,
    /// Where functions without names begin.
    entries: HashSet<u64>,
}

/// Mnemonic and operands, without comments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Instruction {
    name: String,
    operands: String,
}

impl Instruction {
    fn is(&self, name: &str, operands: &str) -> bool {
        self.name == name && self.operands == operands
    }

    /// Whether it may stand before a loop at the entry: it saves registers, aligns, probes or prepares.
    fn is_of_prologue(&self) -> bool {
        let Instruction { name, operands } = self;
        match name.as_str() {
            "endbr64" => true,
            name if name.starts_with("push") || name.starts_with("nop") => true,
            "mov" => matches!(operands.as_str(), "%rsp,%rbp" | "%rsp,%r11"),
            "and" => operands.ends_with(",%rsp"),
            "sub" => operands.ends_with(",%rsp") || operands.ends_with(",%r11"),
            "lea" => operands.ends_with("(%rsp),%r11"),
            "movq" => operands == "$0x0,(%rsp)",
            _ => false,
        }
    }

    /// The bytes of a frame that it puts into `r11`.
    fn frame(&self) -> Option<u64> {
        let number = match self.name.as_str() {
            "sub" => self.operands.strip_prefix("$0x")?.strip_suffix(",%r11")?,
            "lea" => self.operands.strip_prefix("-0x")?.strip_suffix("(%rsp),%r11")?,
            _ => return None,
        };
        u64::from_str_radix(number, 16).ok()
    }
}

impl Scanner {
    fn line(&mut self, line: &str) {
        if let Some(function) = function_name(line) {
            self.here_unnamed = function == SECTION;
            self.unnamed |= self.here_unnamed;
            self.begin(function.to_owned());
        } else if let Some((address, instruction)) = instruction(line) {
            if self.here_unnamed && self.entries.contains(&address) {
                self.begin(format!("function at {address:#x}"));
            }
            self.instruction(instruction);
        }
    }

    fn begin(&mut self, function: String) {
        if LANE_OPERATION.iter().all(|part| function.contains(part)) {
            self.outlined.push(function.clone());
        }
        (self.function, self.prologue, self.frame) = (function, true, None);
        self.last = Default::default();
    }

    fn instruction(&mut self, instruction: Instruction) {
        self.instructions += 1;
        let [first, second, third] = &self.last;
        let probes = first.is("sub", "$0x1000,%rsp")
            && (second.is("movq", "$0x0,(%rsp)") || second.is("orq", "$0x0,(%rsp)"))
            && third.is("cmp", "%r11,%rsp");
        if probes && instruction.name == "jne" {
            // The comparison was the first that is of no prologue, if the loop is at the entry.
            let probe = Probe { function: self.function.clone(), frame: self.frame, at_entry: self.prologue };
            self.found.push(probe);
        }
        // Only the code before the newest instruction counts: the loop's own must not.
        let own = third.is("cmp", "%r11,%rsp");
        let [_, second, third] = std::mem::take(&mut self.last);
        if !own && !third.name.is_empty() {
            self.prologue &= third.is_of_prologue();
        }
        self.frame = instruction.frame().or(self.frame);
        self.last = [second, third, instruction];
    }

    fn finish(self) -> Scan {
        Scan {
            probes: self.found,
            outlined: self.outlined,
            instructions: self.instructions,
            named: !self.unnamed,
        }
    }
}

/// The function that begins at a line such as `0000000000001140 <main>:`.
fn function_name(line: &str) -> Option<&str> {
    let (address, rest) = line.split_once(" <")?;
    let hexadecimal = !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit());
    rest.strip_suffix(">:").filter(|_| hexadecimal)
}

/// The address and the instruction of a line such as `    1140:\tsub    $0x8,%rsp`.
fn instruction(line: &str) -> Option<(u64, Instruction)> {
    let (address, rest) = line.strip_prefix(' ')?.split_once(':')?;
    let address = u64::from_str_radix(address.trim(), 16).ok()?;
    let text = rest.split(['#', '<']).next().unwrap_or_default().trim();
    let (name, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    Some((address, Instruction { name: name.to_owned(), operands: operands.trim().to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_objdump_cannot_read_is_an_error() {
        let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        for failed in [entries(&text).err(), scan(&text).err()] {
            assert!(
                failed.as_ref().is_some_and(|failed| failed.starts_with("objdump failed on")),
                "{failed:?}"
            );
        }
    }

    fn scanned(listing: &str) -> Scan {
        let mut scanner = Scanner::default();
        listing.lines().for_each(|line| scanner.line(line));
        scanner.finish()
    }

    fn probes(listing: &str) -> Vec<Probe> {
        scanned(listing).probes
    }

    fn probe(function: &str, frame: u64, at_entry: bool) -> Probe {
        Probe { function: function.to_owned(), frame: Some(frame), at_entry }
    }

    const AT_ENTRY: &str = "
prog:     file format elf64-x86-64

0000000000001000 <core::fmt::large>:
    1000:\tpush   %rbp
    1001:\tmov    %rsp,%rbp
    1004:\tpush   %r15
    1006:\tand    $0xffffffffffffffc0,%rsp
    100a:\tlea    -0x60000(%rsp),%r11
    1012:\tsub    $0x1000,%rsp
    1019:\tmovq   $0x0,(%rsp)
    1021:\tcmp    %r11,%rsp
    1024:\tjne    1012 <core::fmt::large+0x12>
    1026:\tsub    $0x680,%rsp
    102d:\tret

0000000000002000 <core::fmt::small>:
    2000:\tsub    $0x1000,%rsp
    2007:\tmovq   $0x0,(%rsp)
    200f:\tsub    $0x800,%rsp
    2016:\tret
";

    const BEHIND_A_BRANCH: &str = "
0000000000003000 <silicide_ops::matmul::cpu::MANY::avx512>:
    3000:\tpush   %rbp
    3001:\tmov    0x28(%rdi),%r11d
    3005:\tcmp    $0x4d,%r11
    3009:\tje     3050 <silicide_ops::matmul::cpu::MANY::avx512+0x50>
    300b:\tmov    %rsp,%r11
    300e:\tsub    $0x30000,%r11
    3015:\tsub    $0x1000,%rsp
    301c:\tmovq   $0x0,(%rsp)
    3024:\tcmp    %r11,%rsp
    3027:\tjne    3015 <silicide_ops::matmul::cpu::MANY::avx512+0x15>
    3029:\tmov    %r11d,%r8d        # the limit, not what was loaded
    302c:\tret
";

    #[test]
    fn a_loop_at_the_entry_of_a_foreign_function_is_found_and_fine() {
        let probes = probes(AT_ENTRY);
        assert_eq!(probes, [probe("core::fmt::large", 0x60000, true)]);
        assert!(!probes[0].is_wrong());
    }

    #[test]
    fn a_loop_behind_a_branch_is_wrong() {
        let probes = probes(BEHIND_A_BRANCH);
        assert_eq!(probes, [probe("silicide_ops::matmul::cpu::MANY::avx512", 0x30000, false)]);
        assert!(probes[0].is_wrong());
    }

    #[test]
    fn a_foreign_loop_behind_a_branch_is_wrong_too() {
        let probes = probes(&BEHIND_A_BRANCH.replace("silicide_ops::matmul::cpu", "other"));
        assert!(!probes[0].is_ours() && probes[0].is_wrong());
    }

    #[test]
    fn a_loop_at_the_entry_of_our_own_function_is_wrong() {
        let probes = probes(&AT_ENTRY.replace("core::fmt::large", "<silicide_ops::A as B>::f"));
        assert_eq!(probes, [probe("<silicide_ops::A as B>::f", 0x60000, true)]);
        assert!(probes[0].is_wrong());
    }

    #[test]
    fn functions_without_names_begin_where_the_unwind_tables_say() {
        let table =
            "00000018 0000000000000010 0000001c FDE cie=00000000 pc=0000000000003000..000000000000302d";
        assert_eq!((entry(table), entry("   DW_CFA_nop")), (Some(0x3000), None));
        let text = [AT_ENTRY, BEHIND_A_BRANCH].concat().replace("<core::fmt::large>:", "<.text>:");
        let unnamed = |line: &&str| function_name(line).is_none_or(|name| name == ".text");
        let listing = text.lines().filter(unnamed).collect::<Vec<_>>().join("\n");
        let scan_with = |entries: &[u64]| {
            let mut scanner = Scanner { entries: entries.iter().copied().collect(), ..Scanner::default() };
            listing.lines().for_each(|line| scanner.line(line));
            scanner.finish()
        };
        let scan = scan_with(&[0x1000, 0x2000, 0x3000]);
        assert!(!scan.named && scan.instructions > 10);
        let wrong: Vec<bool> = scan.probes.iter().map(Probe::is_wrong).collect();
        assert_eq!(wrong, [false, true], "at the entry, behind a branch");
        // Without tables, nothing but the first function is known to begin.
        assert!(scan_with(&[]).probes[1].is_wrong());
        assert!(scanned(AT_ENTRY).named);
    }

    #[test]
    fn listings_of_several_functions_are_told_apart() {
        let probes = probes(&[AT_ENTRY, BEHIND_A_BRANCH, AT_ENTRY].concat());
        assert_eq!(probes.iter().map(|probe| probe.at_entry).collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn a_lane_operation_that_is_a_function_is_found() {
        let name = "<silicide_gemm::isa::avx2::Avx2 as silicide_gemm::isa::FloatLanes>::f16_floats::compiled";
        let listing = format!(
            "0000000000001000 <{name}>:\n    1000:\tret\n\n0000000000001010 <silicide_gemm::isa::run>:\n"
        );
        assert_eq!(scanned(&listing).outlined, [name]);
    }

    #[test]
    fn a_file_that_is_not_a_program_is_an_error_that_names_it() {
        let error = check(&[PathBuf::from("no/such/program")]).unwrap_err();
        assert!(error.contains("is not a file"), "{error}");
    }
}
