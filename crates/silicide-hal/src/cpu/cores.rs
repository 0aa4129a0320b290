//! The number of threads that a device has by default: one for each core that suits kernels.
//!
//! Threads claim tiles until none is left, and a group of commands ends with its slowest tile. So a default thread has a core of its own, and
//! all cores are about equally fast:
//!
//! 1. CPUs that the affinity mask of the process excludes are left out (`proc/self/status`).
//! 2. CPUs of efficiency cores are left out: those that `sys/devices/cpu_atom` lists beside `cpu_core` (Intel), and those whose
//!    `cpu_capacity` is below half of the largest (Arm).
//! 3. Hyper-threads of one core count once (`topology/thread_siblings_list`).
//! 4. Of NUMA nodes, the one with the most cores counts. Memory is not placed by node, and threads of two nodes would share
//!    words that they spin on across the interconnect.
//! 5. The CPU quotas of control groups are an upper bound (`cpu.max` and version 1's `cpu.cfs_quota_us`, here and in each group above).
//!
//! Linux reports all of it in files; a file that is missing or malformed changes nothing. Other systems have the number of the standard
//! library. Files are read below a root folder, so that tests describe machines that are not here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A core's `cpu_capacity` is at least this part of the largest, or it is an efficiency core.
const FAST_PART: f64 = 0.5;

/// Returns the default number of threads on this machine.
pub(crate) fn default_threads() -> usize {
    let system = std::thread::available_parallelism().map_or(1, |count| count.get());
    let cores = if cfg!(target_os = "linux") { suitable_cores(Path::new("/")) } else { None };
    cores.map_or(system, |cores| cores.min(system))
}

/// Returns the number of threads that suit the machine that the files below `root` describe; `None` if they list no CPUs.
fn suitable_cores(root: &Path) -> Option<usize> {
    let cpus = Cpus { root, folder: root.join("sys/devices/system/cpu") };
    let online = cpus.list("sys/devices/system/cpu/online")?;
    let allowed = cpus.allowed();
    let usable: BTreeSet<usize> =
        online.into_iter().filter(|cpu| allowed.as_ref().is_none_or(|set| set.contains(cpu))).collect();
    let fast = cpus.fast(usable);
    let cores = |node: &BTreeSet<usize>| -> usize {
        let firsts: BTreeSet<usize> =
            node.intersection(&fast).map(|&cpu| cpus.first_sibling(cpu, &fast)).collect();
        firsts.len()
    };
    let of_nodes = cpus.nodes().iter().map(cores).max().filter(|&count| count > 0);
    let count = of_nodes.unwrap_or_else(|| cores(&fast));
    let quota = quota(root).unwrap_or(usize::MAX);
    (count > 0).then(|| count.min(quota).max(1))
}

/// The files that describe CPUs.
struct Cpus<'a> {
    root: &'a Path,
    folder: PathBuf,
}

impl Cpus<'_> {
    /// Reads a list of numbers such as `0-3,8`.
    fn list(&self, path: &str) -> Option<BTreeSet<usize>> {
        parse_list(&std::fs::read_to_string(self.root.join(path)).ok()?)
    }

    /// Returns the CPUs that the process may run on.
    fn allowed(&self) -> Option<BTreeSet<usize>> {
        let status = std::fs::read_to_string(self.root.join("proc/self/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        parse_list(line)
    }

    /// Returns the CPUs of `usable` that are no efficiency cores; all of them if they are all alike.
    fn fast(&self, usable: BTreeSet<usize>) -> BTreeSet<usize> {
        let both = (self.list("sys/devices/cpu_core/cpus"), self.list("sys/devices/cpu_atom/cpus"));
        let fast: BTreeSet<usize> = match both {
            (Some(performance), Some(_)) => usable.intersection(&performance).copied().collect(),
            _ => {
                let capacity = |cpu: usize| self.number(cpu, "cpu_capacity").unwrap_or(0);
                let most = usable.iter().map(|&cpu| capacity(cpu)).max().unwrap_or(0);
                let is_fast = |cpu: &usize| capacity(*cpu) as f64 >= FAST_PART * most as f64;
                usable.iter().copied().filter(is_fast).collect()
            }
        };
        // A process may be bound to efficiency cores alone.
        if fast.is_empty() { usable } else { fast }
    }

    /// Returns the first hyper-thread of `cpu`'s core that is in `among`.
    fn first_sibling(&self, cpu: usize, among: &BTreeSet<usize>) -> usize {
        let path = self.folder.join(format!("cpu{cpu}/topology/thread_siblings_list"));
        let siblings =
            std::fs::read_to_string(path).ok().and_then(|text| parse_list(&text)).unwrap_or_default();
        siblings.intersection(among).next().copied().unwrap_or(cpu)
    }

    /// Returns the CPUs of each NUMA node.
    fn nodes(&self) -> Vec<BTreeSet<usize>> {
        let nodes = self.list("sys/devices/system/node/online").unwrap_or_default();
        nodes
            .iter()
            .filter_map(|node| self.list(&format!("sys/devices/system/node/node{node}/cpulist")))
            .collect()
    }

    fn number(&self, cpu: usize, file: &str) -> Option<u32> {
        std::fs::read_to_string(self.folder.join(format!("cpu{cpu}/{file}"))).ok()?.trim().parse().ok()
    }
}

/// Returns the whole CPUs that the quotas of control groups leave, at least one; `None` without a quota.
fn quota(root: &Path) -> Option<usize> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let of_line = |line: &str| -> Option<usize> {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, group) = (parts.next()?, parts.next()?);
        let group = Path::new(group.trim_start_matches('/'));
        let (mount, read): (&str, fn(&Path) -> Option<f64>) = match controllers {
            "" => ("sys/fs/cgroup", quota_of_v2),
            _ if controllers.split(',').any(|name| name == "cpu") => ("sys/fs/cgroup/cpu", quota_of_v1),
            _ => return None,
        };
        let mount = root.join(mount);
        // A container sees its own group at the root of the mount, and the last of these is that root.
        let quotas = group.ancestors().filter_map(|group| read(&mount.join(group)));
        quotas.min_by(f64::total_cmp).map(|quota| (quota as usize).max(1))
    };
    groups.lines().filter_map(of_line).min()
}

/// Reads `cpu.max`: quota and period in microseconds, or `max`.
fn quota_of_v2(group: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(group.join("cpu.max")).ok()?;
    let mut words = text.split_whitespace();
    part(words.next()?, words.next()?)
}

/// Reads `cpu.cfs_quota_us`, -1 without a quota, and `cpu.cfs_period_us`.
fn quota_of_v1(group: &Path) -> Option<f64> {
    let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    part(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?)
}

/// Returns the ratio of two times that are above zero.
fn part(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// Returns the numbers of a list such as `0-3,8`; `None` if it is empty, malformed, or has numbers that no machine has.
fn parse_list(text: &str) -> Option<BTreeSet<usize>> {
    const MOST: usize = 1 << 16;
    let mut numbers = BTreeSet::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of files that describe a machine; removed at the end.
    struct Machine(PathBuf);

    impl Machine {
        /// CPUs 0 to `cpus`, each a core.
        fn new(name: &str, cpus: usize) -> Machine {
            let machine =
                Machine(std::env::temp_dir().join(format!("silicide-cores-{name}-{}", std::process::id())));
            let _ = std::fs::remove_dir_all(&machine.0);
            machine.file("sys/devices/system/cpu/online", &format!("0-{}\n", cpus - 1))
        }

        fn file(self, path: &str, text: &str) -> Machine {
            let path = self.0.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
            self
        }

        /// Files of some CPUs.
        fn each(
            mut self,
            cpus: std::ops::Range<usize>,
            file: &str,
            text: impl Fn(usize) -> String,
        ) -> Machine {
            for cpu in cpus {
                self = self.file(&format!("sys/devices/system/cpu/cpu{cpu}/{file}"), &text(cpu));
            }
            self
        }

        fn threads(&self) -> Option<usize> {
            suitable_cores(&self.0)
        }

        /// Six performance cores of two hyper-threads, then eight efficiency cores.
        fn intel_hybrid(name: &str) -> Machine {
            Machine::new(name, 20)
                .file("sys/devices/cpu_core/cpus", "0-11\n")
                .file("sys/devices/cpu_atom/cpus", "12-19\n")
                .each(0..12, SIBLINGS, |cpu| format!("{}-{}\n", cpu & !1, cpu | 1))
                .each(12..20, SIBLINGS, |cpu| format!("{cpu}\n"))
                .file("sys/devices/system/node/online", "0\n")
                .file("sys/devices/system/node/node0/cpulist", "0-19\n")
        }

        /// Two nodes of 24 cores, whose second hyper-threads are the CPUs from 48 on.
        fn server(name: &str) -> Machine {
            Machine::new(name, 96)
                .each(0..96, SIBLINGS, |cpu| format!("{},{}\n", cpu % 48, cpu % 48 + 48))
                .file("sys/devices/system/node/online", "0-1\n")
                .file("sys/devices/system/node/node0/cpulist", "0-23,48-71\n")
                .file("sys/devices/system/node/node1/cpulist", "24-47,72-95\n")
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const SIBLINGS: &str = "topology/thread_siblings_list";

    #[test]
    fn an_intel_hybrid_has_a_thread_for_each_performance_core() {
        assert_eq!(Machine::intel_hybrid("hybrid").threads(), Some(6));
    }

    #[test]
    fn affinity_to_efficiency_cores_alone_uses_them() {
        let machine = Machine::intel_hybrid("atoms").file("proc/self/status", "Cpus_allowed_list:\t14-17\n");
        assert_eq!(machine.threads(), Some(4));
    }

    #[test]
    fn affinity_to_one_hyper_thread_of_each_core_counts_these() {
        let status = "Name:\tx\nCpus_allowed:\tfff\nCpus_allowed_list:\t1,3,5\n";
        assert_eq!(Machine::intel_hybrid("odd").file("proc/self/status", status).threads(), Some(3));
    }

    #[test]
    fn a_server_has_a_thread_for_each_core_of_one_node() {
        assert_eq!(Machine::server("server").threads(), Some(24));
        let bound =
            Machine::server("bound").file("proc/self/status", "Cpus_allowed_list:\t0-3,24-47,72-95\n");
        assert_eq!(bound.threads(), Some(24), "the second node has more cores that are allowed");
    }

    #[test]
    fn an_arm_machine_leaves_out_its_little_cores() {
        // Four little cores, three middle ones, a prime one.
        let capacity = |cpu| {
            if cpu < 4 {
                "325\n"
            } else if cpu < 7 {
                "828\n"
            } else {
                "1024\n"
            }
            .to_owned()
        };
        let machine = Machine::new("arm", 8).each(0..8, "cpu_capacity", capacity);
        assert_eq!(machine.threads(), Some(4));
    }

    #[test]
    fn quotas_of_control_groups_are_an_upper_bound() {
        let v2 = |name| Machine::server(name).file("proc/self/cgroup", "0::/a/b\n");
        assert_eq!(v2("max").file("sys/fs/cgroup/a/b/cpu.max", "max 100000\n").threads(), Some(24));
        assert_eq!(v2("own").file("sys/fs/cgroup/a/b/cpu.max", "350000 100000\n").threads(), Some(3));
        assert_eq!(v2("above").file("sys/fs/cgroup/a/cpu.max", "200000 100000\n").threads(), Some(2));
        assert_eq!(v2("part").file("sys/fs/cgroup/cpu.max", "50000 100000\n").threads(), Some(1));
        let v1 = Machine::server("v1").file("proc/self/cgroup", "3:memory:/x\n2:cpu,cpuacct:/x\n");
        let v1 = v1.file("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
        assert_eq!(v1.file("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "400000\n").threads(), Some(4));
    }

    #[test]
    fn cores_that_report_nothing_more_count_as_they_are() {
        assert_eq!(Machine::new("plain", 5).threads(), Some(5));
        assert_eq!(suitable_cores(Path::new("/nothing/here")), None);
    }

    #[test]
    fn malformed_files_change_nothing() {
        let broken = Machine::new("broken", 4)
            .file("proc/self/status", "Cpus_allowed_list:\t3-1\n")
            .file("proc/self/cgroup", "::\n0::/../..\nx\n")
            .file("sys/devices/cpu_core/cpus", "\n")
            .file("sys/devices/cpu_atom/cpus", "nonsense")
            .file("sys/devices/system/node/online", "0-99999999999\n")
            .each(0..4, SIBLINGS, |_| ",,-".to_owned())
            .each(0..4, "cpu_capacity", |_| "-1".to_owned());
        assert_eq!(broken.threads(), Some(4));
    }

    #[test]
    fn this_machine_has_between_one_thread_and_those_that_the_system_reports() {
        let system = std::thread::available_parallelism().map_or(1, |count| count.get());
        assert!((1..=system).contains(&default_threads()));
    }

    #[test]
    fn lists_are_numbers_and_ranges() {
        assert_eq!(parse_list("0-2,7\n"), Some(BTreeSet::from([0, 1, 2, 7])));
        assert_eq!(parse_list("\n"), None);
        assert_eq!(parse_list("70000"), None);
    }
}
