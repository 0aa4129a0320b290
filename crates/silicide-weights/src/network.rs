//! Which file systems are remote: there a file can be shortened or lost under a mapping.

use std::path::Path;

/// Returns whether `path` lies on a network file system, or on one that a user process serves (FUSE). `false` where the system
/// does not tell.
pub(crate) fn is_remote(path: &Path) -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        // The type is 32 bits wide; some platforms sign-extend it.
        rustix::fs::statfs(path).is_ok_and(|stat| is_remote_magic(stat.f_type as u32))
    }
    #[cfg(target_vendor = "apple")]
    {
        /// Set for file systems that are stored on this machine.
        const MNT_LOCAL: u32 = 0x1000;
        rustix::fs::statfs(path).is_ok_and(|stat| stat.f_flags & MNT_LOCAL == 0)
    }
    #[cfg(windows)]
    {
        is_share(path)
    }
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple", windows)))]
    {
        let _ = path;
        false
    }
}

/// Returns whether `f_type` of `statfs` is that of a remote or user-space file system.
#[cfg(any(target_os = "linux", target_os = "android", test))]
fn is_remote_magic(magic: u32) -> bool {
    const REMOTE: [u32; 18] = [
        0x0000_6969, // NFS
        0x0000_517b, // SMB
        0xfe53_4d42, // SMB 2 and 3
        0xff53_4d42, // CIFS
        0x6573_5546, // FUSE: sshfs, rclone, cloud drives
        0x0102_1997, // 9P: virtual machines, WSL
        0x00c3_6400, // Ceph
        0x5346_414f, // AFS
        0x6b41_4653, // kAFS
        0x7375_7245, // Coda
        0x0000_564c, // NCP
        0x0bd0_0bd0, // Lustre
        0x4750_4653, // GPFS
        0x1983_0326, // BeeGFS
        0x2003_0528, // OrangeFS, PVFS2
        0x0116_1970, // GFS2
        0x7461_636f, // OCFS2
        0x786f_4256, // VirtualBox shared folders
    ];
    REMOTE.contains(&magic)
}

/// Returns whether a path names a share of another machine, such as `\\server\share\model.gguf`.
#[cfg(any(windows, test))]
fn is_share(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text.starts_with(r"\\?\UNC\")
        || text.starts_with(r"\\") && !text.starts_with(r"\\?\") && !text.starts_with(r"\\.\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_file_systems_are_told_by_their_magic_number() {
        for remote in [0x6969, 0x517b, 0xfe53_4d42, 0xff53_4d42, 0x6573_5546, 0x0102_1997, 0x00c3_6400] {
            assert!(is_remote_magic(remote), "{remote:#x}");
        }
        // ext4, xfs, btrfs, tmpfs, overlayfs, zfs, f2fs, exfat, squashfs.
        for local in [
            0xef53,
            0x5846_5342,
            0x9123_683e,
            0x0102_1994,
            0x794c_7630,
            0x2fc1_2fc1,
            0xf2f5_2010,
            0x2011_bab0,
            0x7371_7368,
        ] {
            assert!(!is_remote_magic(local), "{local:#x}");
        }
    }

    #[test]
    fn shares_of_windows_are_told_by_their_path() {
        assert!(is_share(Path::new(r"\\server\models\a.gguf")) && is_share(Path::new(r"\\?\UNC\server\a")));
        assert!(!is_share(Path::new(r"C:\models\a.gguf")) && !is_share(Path::new(r"\\?\C:\a.gguf")));
    }

    #[test]
    fn temporary_files_and_paths_that_do_not_exist_are_local() {
        assert!(!is_remote(Path::new("/does/not/exist")));
    }
}
