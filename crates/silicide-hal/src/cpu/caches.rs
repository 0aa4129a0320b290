//! The size of a core's L2 cache: from CPUID on x86-64, from the system elsewhere, or a usual size.

/// Bytes assumed where neither the processor nor the system reports a size.
const USUAL: usize = 1 << 20;
/// Plausible sizes; others count as not reported.
const SANE: std::ops::RangeInclusive<usize> = 64 << 10..=256 << 20;

/// Returns the bytes of a core's L2 cache.
pub(crate) fn l2_bytes() -> usize {
    from_processor().or_else(from_system).filter(|bytes| SANE.contains(bytes)).unwrap_or(USUAL)
}

/// Reads the cache tables of CPUID: leaf 4 on Intel, leaf 0x8000001d of the same form on AMD.
#[cfg(target_arch = "x86_64")]
fn from_processor() -> Option<usize> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let tables = [(0, 4), (0x8000_0000, 0x8000_001d)];
    let tables = tables.into_iter().filter(|&(first, table)| __cpuid(first).eax >= table);
    let mut caches = tables.flat_map(|(_, table)| (0..8).map(move |i| __cpuid_count(table, i)));
    let cache = caches.find(|cache| {
        let (kind, level) = (cache.eax & 31, cache.eax >> 5 & 7);
        kind != 0 && level == 2
    })?;
    let ways = (cache.ebx >> 22) as usize + 1;
    let partitions = (cache.ebx >> 12 & 0x3ff) as usize + 1;
    let line = (cache.ebx & 0xfff) as usize + 1;
    Some(ways * partitions * line * (cache.ecx as usize + 1))
}

#[cfg(not(target_arch = "x86_64"))]
fn from_processor() -> Option<usize> {
    None
}

/// Reads the caches of the first processor from sysfs.
#[cfg(not(target_os = "macos"))]
fn from_system() -> Option<usize> {
    let read = |i: usize, what: &str| {
        std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{i}/{what}")).ok()
    };
    (0..8)
        .find(|&i| read(i, "level").is_some_and(|level| level.trim() == "2"))
        .and_then(|i| parse(&read(i, "size")?))
}

/// Returns a size such as `2048K`.
#[cfg(not(target_os = "macos"))]
fn parse(size: &str) -> Option<usize> {
    let size = size.trim();
    let (number, unit) = match size.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => (size.strip_suffix('M')?, 1 << 20),
    };
    number.parse::<usize>().ok()?.checked_mul(unit)
}

#[cfg(target_os = "macos")]
fn from_system() -> Option<usize> {
    let (mut value, mut bytes) = (0u64, size_of::<u64>());
    // SAFETY: the name is a C string, `value` has `bytes` bytes, and nothing is set.
    let status = unsafe {
        libc::sysctlbyname(
            c"hw.l2cachesize".as_ptr(),
            (&raw mut value).cast(),
            &mut bytes,
            std::ptr::null_mut(),
            0,
        )
    };
    (status == 0).then_some(value as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_an_l2_cache_of_a_plausible_size() {
        assert!(SANE.contains(&l2_bytes()));
    }

    #[cfg(not(target_os = "macos"))]
    #[test]
    fn sizes_have_units() {
        assert_eq!(parse("2048K\n"), Some(2 << 20));
        assert_eq!(parse("1M"), Some(1 << 20));
        assert_eq!(parse("12"), None);
        assert_eq!(parse("99999999999999999999K"), None);
    }
}
