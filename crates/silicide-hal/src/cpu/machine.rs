//! Name of the processor and size of memory, as the system reports them. A value that is missing or malformed has a
//! fallback, and is never an error.

use crate::Memory;

/// Returns the product name of the processor, or the architecture's name.
pub(crate) fn processor_name() -> String {
    from_system().filter(|name| !name.is_empty()).unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Returns total and available memory in bytes; zeros where the system reports none.
pub(crate) fn memory() -> Memory {
    std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| parse_meminfo(&text)).unwrap_or_else(pages)
}

/// Returns the bytes of this process that are resident; 0 where the system does not report them.
pub fn resident_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    field(&status, "VmRSS:").unwrap_or(0)
}

/// Returns the value of a line of `/proc`, which counts in KiB, in bytes.
fn field(text: &str, name: &str) -> Option<usize> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    let kib: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(not(target_os = "macos"))]
fn from_system() -> Option<String> {
    parse_cpuinfo(&std::fs::read_to_string("/proc/cpuinfo").ok()?)
}

#[cfg(target_os = "macos")]
fn from_system() -> Option<String> {
    let mut text = [0u8; 256];
    let mut bytes = text.len();
    // SAFETY: the name is a C string, the buffer is as long as `bytes` says, and nothing is set.
    let status = unsafe {
        libc::sysctlbyname(
            c"machdep.cpu.brand_string".as_ptr(),
            text.as_mut_ptr().cast(),
            &mut bytes,
            std::ptr::null_mut(),
            0,
        )
    };
    let name = std::ffi::CStr::from_bytes_until_nul(&text).ok()?.to_str().ok()?;
    (status == 0).then(|| name.trim().to_owned())
}

/// Returns the first `model name` of `/proc/cpuinfo` (x86; other architectures have none there).
#[cfg(not(target_os = "macos"))]
fn parse_cpuinfo(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// `MemTotal` and `MemAvailable` of `/proc/meminfo`.
fn parse_meminfo(text: &str) -> Option<Memory> {
    let total = field(text, "MemTotal:")?;
    Some(Memory { total, available: field(text, "MemAvailable:").unwrap_or(total) })
}

#[cfg(unix)]
fn pages() -> Memory {
    // SAFETY: `sysconf` has no preconditions; it returns -1 for a name that the system lacks, which `try_from` below refuses.
    let (count, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    let total = usize::try_from(count).unwrap_or(0).saturating_mul(usize::try_from(size).unwrap_or(0));
    Memory { total, available: total }
}

#[cfg(not(unix))]
fn pages() -> Memory {
    Memory::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_counts_kibibytes() {
        let text = "MemTotal:       100 kB\nMemFree:  7 kB\nMemAvailable:    60 kB\n";
        assert_eq!(parse_meminfo(text), Some(Memory { total: 102_400, available: 61_440 }));
        assert_eq!(
            parse_meminfo("MemTotal: 1 kB\n"),
            Some(Memory { total: 1024, available: 1024 }),
            "old kernels do not report MemAvailable"
        );
        assert_eq!(parse_meminfo("nonsense"), None);
    }

    #[cfg(not(target_os = "macos"))]
    #[test]
    fn cpuinfo_names_the_model() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\nprocessor\t: 1\nmodel name\t: Other\n";
        assert_eq!(parse_cpuinfo(text).as_deref(), Some("Some CPU @ 3 GHz"));
        assert_eq!(parse_cpuinfo("CPU implementer : 0x41\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn resident_memory_grows_with_pages_that_are_written() {
        let before = resident_memory();
        let bytes = std::hint::black_box(vec![1u8; 256 << 20]);
        assert!(resident_memory() >= before + bytes.len() / 2, "{before} bytes before");
    }

    #[test]
    fn this_machine_has_a_name_and_memory() {
        assert!(!processor_name().is_empty());
        let memory = memory();
        assert!(memory.total >= memory.available && memory.available > 0);
    }
}
