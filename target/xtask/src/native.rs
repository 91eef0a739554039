//! The daemon and the userspace host, natively on this machine: no root, no virtual machine, no
//! RDMA device.

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use linux_host::{capture, run_quiet};

use crate::{build, setup};

/// The subsystem that the daemon serves.
pub(crate) const SUBNQN: &str = "nqn.2026-11.io.nvmfd:demo";
/// The port of NVMe over RDMA.
const NVME_PORT: u16 = 4420;
/// The UDP port of RoCEv2.
const ROCE_PORT: u16 = 4791;
/// How long the daemon may take to be ready, and to end.
const READY_WITHIN: Duration = Duration::from_secs(5);
/// Lines of the log that are shown of a daemon that has ended.
const LAST_WORDS: usize = 20;
const STOP_WITHIN: Duration = Duration::from_secs(12);

/// Both programs.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) daemon: PathBuf,
    pub(crate) host: PathBuf,
}

impl Programs {
    /// Those of a folder, or both built.
    pub(crate) fn given_or_built(folder: Option<&Path>) -> Result<Programs> {
        match folder {
            Some(folder) => {
                Ok(Programs { daemon: folder.join("nvmfd"), host: folder.join("nvmf-host") })
            }
            None => Programs::build(),
        }
    }

    /// Builds both, with verbs where that can be done.
    pub(crate) fn build() -> Result<Programs> {
        let mut cargo = build::cargo()?;
        cargo.args(["build", "--release", "-p", "nvmfd", "-p", "nvmf-host"]);
        let with = match verbs() {
            Ok(()) => "with verbs",
            Err(why) => {
                println!("building without the verbs feature, which is not needed here: {why:#}");
                cargo.arg("--no-default-features");
                "without verbs"
            }
        };
        println!("building nvmfd and nvmf-host, {with}: the first time that takes minutes");
        let began = Instant::now();
        if !cargo.status()?.success() {
            bail!("nvmfd or nvmf-host does not build");
        }
        println!("built in {:.0} s", began.elapsed().as_secs_f64());
        let release = build::output()?.join("release");
        Ok(Programs { daemon: release.join("nvmfd"), host: release.join("nvmf-host") })
    }
}

/// Whether the verbs feature can be built, having installed what that needs where this is allowed.
fn verbs() -> Result<()> {
    let libraries =
        capture(Command::new("pkg-config").args(["--exists", "libibverbs", "librdmacm"]));
    let headers = ["/usr/include/infiniband/verbs.h", "/usr/include/rdma/rdma_cma.h"];
    let there = libraries.is_ok_and(|found| found.success)
        || headers.iter().all(|header| Path::new(header).exists());
    if there && (std::env::var_os("LIBCLANG_PATH").is_some() || build::libclang()?.is_some()) {
        return Ok(());
    }
    setup::building()
}

/// Refuses an address whose RoCE port is taken.
pub(crate) fn check_free(address: IpAddr) -> Result<()> {
    match UdpSocket::bind(SocketAddr::new(address, ROCE_PORT)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => bail!(
            "UDP port {ROCE_PORT} of {address}, which RDMA service {NVME_PORT} would be reached \
             through, is taken: by another nvmfd, or by the kernel's soft-RoCE (rdma_rxe). End \
             that, or choose another address: --address 127.0.0.99"
        ),
        Err(error) => bail!("UDP port {ROCE_PORT} of {address} cannot be used: {error}"),
    }
}

/// Two polling threads need two processors to themselves.
pub(crate) fn warn_if_busy() {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or_default();
    if load > 0.5 {
        println!("this machine is busy (load {load}): the figures will be worse than it can do");
    }
}

/// The address that others reach this machine by, if it has one.
pub(crate) fn own_address() -> Option<IpAddr> {
    // Nothing is sent: connecting a UDP socket only looks up the route.
    let probe = UdpSocket::bind("0.0.0.0:0").ok()?;
    probe.connect("192.0.2.1:9").ok()?;
    let address = probe.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// A folder that is removed in the end.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// A new folder below the build output, which is on a disk and not in memory.
    pub(crate) fn new(name: &str) -> Result<Folder> {
        let path = build::output()?.join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Left behind at worst.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running daemon; asked to end when this is dropped.
#[derive(Debug)]
pub(crate) struct Serving {
    child: Child,
    log: PathBuf,
}

impl Serving {
    /// Starts the daemon and waits until it listens.
    pub(crate) fn start(daemon: &Path, folder: &Path, config: &str) -> Result<Serving> {
        let file = folder.join("nvmfd.toml");
        fs::write(&file, config)?;
        let mut command = Command::new(daemon);
        command.args(["serve", "--config"]).arg(&file);
        Serving::of(command, folder)
    }

    /// Starts a daemon by this command, waits until it listens, and keeps its log in the folder.
    pub(crate) fn of(mut command: Command, folder: &Path) -> Result<Serving> {
        let log = folder.join("nvmfd.log");
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log)?)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let mut serving = Serving { child, log };
        let began = Instant::now();
        while began.elapsed() < READY_WITHIN {
            if serving.log()?.contains("ready addresses=") {
                return Ok(serving);
            }
            if let Some(status) = serving.child.try_wait()? {
                bail!("the daemon ended with {status}:\n{}", serving.log()?);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("the daemon is not ready within 5 s:\n{}", serving.log()?)
    }

    /// What it wrote so far.
    pub(crate) fn log(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.log)?)
    }

    /// Why something failed: where the daemon has ended, that and its last words.
    pub(crate) fn explain(&mut self, error: anyhow::Error) -> anyhow::Error {
        let Ok(Some(status)) = self.child.try_wait() else { return error };
        let log = self.log().unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n");
        error.context(format!("the daemon ended with {status}; its last words:\n{last}"))
    }

    /// Whether it ends with success, having been asked to.
    pub(crate) fn ends_well(mut self) -> Result<bool> {
        let began = Instant::now();
        while began.elapsed() < STOP_WITHIN {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.success());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(false)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let pid = self.child.id().to_string();
        let asked = run_quiet(Command::new("kill").args(["-TERM", &pid])).is_ok();
        let began = Instant::now();
        while asked && began.elapsed() < STOP_WITHIN {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // It had its chance, or is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
