//! A ring on one region, driven one operation at a time or many at once, and places to put files.
#![allow(dead_code, unreachable_pub)] // each test binary uses its part

use backing::{
    Backing, BackingId, BackingSpec, BlockIo, IoDone, IoError, IoOp, IoRequest, Ring, RingConfig,
};
use region::{Pages, Region, Span};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub const NOW: Duration = Duration::ZERO;
pub const DISK: BackingId = BackingId(0);
pub const REGION_LEN: usize = 8 << 20;

/// A ring with one backing, id 0.
pub struct Rig {
    pub ring: Ring,
    pub region: Arc<Region>,
    pub backing: Arc<Backing>,
    next_tag: u64,
}

impl Rig {
    pub fn new(spec: &BackingSpec) -> Rig {
        Rig::with(spec, RingConfig::default())
    }

    pub fn with(spec: &BackingSpec, config: RingConfig) -> Rig {
        let backing = Backing::open(spec).unwrap();
        let region = Arc::new(Region::map(REGION_LEN, Pages::Normal).unwrap());
        let mut ring = Ring::new(config, Arc::clone(&region)).unwrap();
        ring.add(DISK, Arc::clone(&backing));
        Rig { ring, region, backing, next_tag: 1000 }
    }

    /// Takes an operation without waiting; returns its tag.
    pub fn submit(&mut self, op: IoOp, offset: u64, len: u64, buffer: Span) -> u64 {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.ring.submit(NOW, IoRequest { backing: DISK, op, offset, len, buffer, tag });
        tag
    }

    /// Everything that is in flight, finished.
    pub fn finish(&mut self) -> Vec<IoDone> {
        finish(&mut self.ring)
    }

    /// One operation, to its end.
    pub fn run(&mut self, op: IoOp, offset: u64, len: u64, buffer: Span) -> Result<(), IoError> {
        let tag = self.submit(op, offset, len, buffer);
        let done = self.finish();
        assert_eq!(done.len(), 1);
        assert_eq!(done[0].tag, tag);
        done[0].result
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.write_with(offset, bytes, false)
    }

    pub fn write_with(&mut self, offset: u64, bytes: &[u8], fua: bool) -> Result<(), IoError> {
        let span = Span::new(4096, bytes.len() as u32);
        self.region.write(span, bytes);
        self.run(IoOp::Write { fua }, offset, bytes.len() as u64, span)
    }

    /// Reads into a buffer that held something else before.
    pub fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, IoError> {
        let span = Span::new(2 << 20, len);
        self.region.fill(span, 0xee);
        self.run(IoOp::Read, offset, len.into(), span)?;
        let mut out = vec![0; len as usize];
        self.region.read(span, &mut out);
        Ok(out)
    }

    pub fn command(&mut self, op: IoOp, offset: u64, len: u64) -> Result<(), IoError> {
        self.run(op, offset, len, Span::new(0, 0))
    }
}

/// Flushes and polls until nothing is in flight; at most a minute.
pub fn finish<B: BlockIo>(io: &mut B) -> Vec<IoDone> {
    let start = Instant::now();
    let mut out = Vec::new();
    while io.in_flight() > 0 {
        io.flush(start.elapsed());
        io.poll(start.elapsed(), &mut out);
        assert!(start.elapsed() < Duration::from_secs(60), "operations do not end");
    }
    out
}

/// A folder on the machine's disk (the build output's file system), removed at the end.
pub fn disk_folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Whether devices and mounts can be made here; says so where not.
pub fn is_root() -> bool {
    let root = Command::new("id").arg("-u").output().is_ok_and(|out| out.stdout == b"0\n");
    if !root || !Path::new("/dev/loop-control").exists() {
        eprintln!("needs root and loop devices: nothing was tried");
        return false;
    }
    true
}

pub fn must(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output().unwrap();
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}

/// A loop device over a file, detached on drop. One at a time: finding a free device and
/// detaching one are not safe against each other.
pub struct Loop {
    pub path: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

static LOOP_TURN: Mutex<()> = Mutex::new(());

impl Loop {
    pub fn new(file: &Path, len: u64, sector: u32) -> Loop {
        let turn = LOOP_TURN.lock().unwrap_or_else(PoisonError::into_inner);
        std::fs::File::create(file).unwrap().set_len(len).unwrap();
        let sector = sector.to_string();
        let path =
            must("losetup", &["-f", "--show", "--sector-size", &sector, file.to_str().unwrap()]);
        Loop { path: path.into(), _turn: turn }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // The mark stays with the device's number, for whoever uses it next.
        let _ = Command::new("blockdev").arg("--setrw").arg(&self.path).status();
        let _ = Command::new("losetup").arg("-d").arg(&self.path).status();
    }
}

/// A mounted file system, unmounted on drop.
pub struct Mount {
    pub path: PathBuf,
}

impl Mount {
    pub fn tmpfs(path: &Path, size: &str) -> Mount {
        std::fs::create_dir_all(path).unwrap();
        let options = format!("size={size}");
        must("mount", &["-t", "tmpfs", "-o", &options, "none", path.to_str().unwrap()]);
        Mount { path: path.to_owned() }
    }

    pub fn device(device: &Path, path: &Path) -> Mount {
        std::fs::create_dir_all(path).unwrap();
        must("mount", &[device.to_str().unwrap(), path.to_str().unwrap()]);
        Mount { path: path.to_owned() }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // The kernel may take a moment to let go of a ring's files.
        for _ in 0..100 {
            let tried = Command::new("umount").arg(&self.path).output();
            if tried.is_ok_and(|out| out.status.success()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A small generator (xorshift64*), the same everywhere for one seed.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n
    }
}
