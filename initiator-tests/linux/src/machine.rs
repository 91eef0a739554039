//! Booting a machine and listening to its agent.
//!
//! A machine is one process: QEMU or a User-Mode Linux kernel. Both see this
//! machine's root read-only and the work folder writable at its own path, and
//! tell events as lines that begin with `@@`. Dropping a [`Machine`] ends it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cache;
use crate::case::{MachineKind, Setup};
use crate::command::run_quiet;
use crate::cpio;
use crate::kernel::Kernel;
use crate::outside::{INTERFACE, LARGEST_MTU, Outside};

/// What to boot.
#[derive(Clone, Debug)]
pub enum Boot {
    /// QEMU with an unpacked distribution kernel.
    Qemu(Kernel),
    /// A User-Mode Linux kernel.
    Uml(PathBuf),
}

impl Boot {
    /// The kind of machine this gives.
    pub fn kind(&self) -> MachineKind {
        match self {
            Self::Qemu(_) => MachineKind::Qemu,
            Self::Uml(_) => MachineKind::Uml,
        }
    }

    /// A short name for reports and folders: `qemu-6.1.0-57-amd64`, `uml`.
    pub fn label(&self) -> String {
        match self {
            Self::Qemu(kernel) => format!("qemu-{}", kernel.release),
            Self::Uml(_) => "uml".to_owned(),
        }
    }
}

/// A line of the agent's, or the end of the machine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A line without its `@@ `.
    Line(String),
    /// The machine has ended.
    Ended,
    /// Nothing came in the time given.
    Silent,
}

/// A running machine.
#[derive(Debug)]
pub(crate) struct Machine {
    child: Child,
    lines: Receiver<String>,
    scratch: Option<PathBuf>,
    outside: Option<Outside>,
}

/// Memory of a guest. It is taken as it is used.
const MEMORY_MIB: u32 = 2560;
/// The kernel parameter of a host that does not join paths.
const NO_MULTIPATH: &str = "nvme_core.multipath=N";

impl Machine {
    /// Boots a machine over `work`, an existing folder with what
    /// [`crate::runner`] puts there. The kernel's console goes to
    /// `work/console.log`.
    pub(crate) fn start(boot: &Boot, setup: &Setup, work: &Path) -> Result<Self> {
        let outside = if setup.target_outside() { Some(Outside::start(work)?) } else { None };
        let (mut command, scratch) = match boot {
            Boot::Qemu(kernel) => (qemu(kernel, setup, work, outside.as_ref())?, None),
            Boot::Uml(kernel) => uml(kernel, setup, work, outside.as_ref())?,
        };
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(work.join("machine.err"))?)
            .spawn()
            .with_context(|| format!("cannot start {:?}", command.get_program()))?;
        let stdout = child.stdout.take().context("the machine's output")?;
        let (sender, lines) = channel();
        let console = (boot.kind() == MachineKind::Uml).then(|| work.join("console.log"));
        thread::spawn(move || {
            use std::io::Write;
            let mut console = console.and_then(|path| File::create(path).ok());
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                if let Some(event) = line.trim_end().strip_prefix("@@ ") {
                    if sender.send(event.to_owned()).is_err() {
                        return;
                    }
                } else if let Some(console) = &mut console {
                    // The log is a help for the reader, not a result.
                    let _ = writeln!(console, "{}", line.trim_end());
                }
            }
        });
        Ok(Self { child, lines, scratch, outside })
    }

    /// The next event, waiting at most `limit` for each line. Requests to the
    /// far end of the wire are passed on and are no events.
    pub(crate) fn next(&mut self, limit: Duration) -> Event {
        loop {
            match self.lines.recv_timeout(limit) {
                Ok(line) => match (line.strip_prefix("outside "), &mut self.outside) {
                    (Some(name), Some(outside)) => outside.ask(name),
                    _ => return Event::Line(line),
                },
                Err(RecvTimeoutError::Timeout) => return Event::Silent,
                Err(RecvTimeoutError::Disconnected) => return Event::Ended,
            }
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // After "down" the guest powers itself off; give it a moment, then end it.
        for _ in 0..20 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(scratch) = &self.scratch {
            let _ = fs::remove_dir_all(scratch);
        }
    }
}

/// A command that dies with the harness, however the harness dies; in the
/// network of the far end of its wire, if it has one.
fn tied(program: &str, outside: Option<&Outside>) -> Command {
    let mut words = outside.map(Outside::enter).unwrap_or_default();
    words.extend(["setpriv", "--pdeathsig", "KILL", "--", program].map(str::to_owned));
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

fn qemu(kernel: &Kernel, setup: &Setup, work: &Path, outside: Option<&Outside>) -> Result<Command> {
    let first_root = work.join("first-root.cpio");
    fs::write(&first_root, first_root_of(kernel, work)?)?;
    let kvm = kvm_works();
    let mut command = tied("qemu-system-x86_64", outside);
    command.args(["-machine", "pc", "-cpu", "max", "-nodefaults", "-no-user-config"]);
    command.args(["-display", "none", "-no-reboot"]);
    command.args(["-accel", if kvm { "kvm" } else { "tcg,thread=multi" }]);
    command.args(["-smp", &setup.cpus.to_string(), "-m", &MEMORY_MIB.to_string()]);
    command.arg("-kernel").arg(kernel.dir.join("vmlinux"));
    command.arg("-initrd").arg(&first_root);
    let mut line = format!(
        "console=ttyS0 quiet loglevel=5 panic=-1 mitigations=off nokaslr audit=0 \
         random.trust_cpu=on harness.work={} harness.modules={}",
        work.display(),
        kernel.dir.join("lib/modules").display(),
    );
    if !setup.multipath {
        line = format!("{line} {NO_MULTIPATH}");
    }
    if !kvm {
        line += &format!(" tsc_early_khz={} tsc=reliable no_timer_check", tsc_khz()?);
    }
    command.arg("-serial").arg(format!("file:{}", work.join("console.log").display()));
    command.args(["-chardev", "stdio,id=agent,signal=off", "-serial", "chardev:agent"]);
    let share = |path: &Path, tag: &str, readonly: &str| {
        format!(
            "local,path={},mount_tag={tag},security_model=none,multidevs=remap,readonly={readonly}",
            path.display()
        )
    };
    command.args(["-virtfs", &share(Path::new("/"), "outer", "on")]);
    command.args(["-virtfs", &share(work, "work", "off")]);
    if outside.is_some() {
        // Without the header that lets packets of a run pass unsegmented: a
        // device that takes part in RDMA must see them as a network card would.
        command
            .arg("-netdev")
            .arg(format!("tap,id=wire,ifname={INTERFACE},script=no,downscript=no,vnet_hdr=off"));
        command.args(["-device", &format!("virtio-net-pci,netdev=wire,host_mtu={LARGEST_MTU}")]);
    }
    if setup.nvme_disk {
        nvme_disk(&mut command, work)?;
        line = format!("{line} nvme.poll_queues=1");
    }
    command.args(["-append", &line]);
    Ok(command)
}

/// Namespaces of the machine's NVMe disk, from 1: MiB and bytes of a block.
const NVME_NAMESPACES: [(u64, u32); 4] = [(256, 512), (16, 512), (16, 4096), (1, 512)];

/// Gives the machine an NVMe disk of its own.
fn nvme_disk(command: &mut Command, work: &Path) -> Result<()> {
    command.args(["-device", "nvme,serial=harness,id=nvme"]);
    for (nsid, (mib, block)) in (1..).zip(NVME_NAMESPACES) {
        let disk = work.join(format!("nvme{nsid}.img"));
        File::create(&disk)?.set_len(mib << 20)?;
        let file = disk.display();
        command.arg("-drive").arg(format!(
            "file={file},if=none,id=disk{nsid},format=raw,cache=unsafe,discard=unmap"
        ));
        command.arg("-device").arg(format!(
            "nvme-ns,bus=nvme,drive=disk{nsid},nsid={nsid},logical_block_size={block},\
             physical_block_size={block}"
        ));
    }
    Ok(())
}

/// Seconds that a machine with hardware virtualisation stands still to show that it can be made.
const KVM_TRIAL: &str = "1";
/// The status with which `timeout` ends when it ended its program.
const TIMED_OUT: i32 = 124;

/// Modules with which the guest reaches this machine's root.
const FIRST_MODULES: [&str; 4] = ["virtio_pci", "9pnet_virtio", "9p", "overlay"];

/// The first root file system: busybox, the modules needed to mount the real
/// root, and guest/boot.sh.
fn first_root_of(kernel: &Kernel, work: &Path) -> Result<Vec<u8>> {
    let mut archive = cpio::Archive::default();
    for folder in ["bin", "modules"] {
        archive.folder(folder);
    }
    let busybox = ["/bin/busybox", "/usr/bin/busybox"]
        .iter()
        .find_map(|path| fs::read(path).ok())
        .context("no busybox here: install busybox-static")?;
    archive.file("bin/busybox", &busybox);
    let mut order = String::new();
    for file in kernel.load_order(&FIRST_MODULES)? {
        let name =
            file.file_name().and_then(|n| n.to_str()).context("a module has a name")?.to_owned();
        archive.file(&format!("modules/{name}"), &fs::read(&file)?);
        order += &name;
        order.push('\n');
    }
    archive.file("modules/order", order.as_bytes());
    archive.file("init", &fs::read(work.join("guest/boot.sh"))?);
    Ok(archive.finish())
}

/// Whether QEMU can run a machine on the processor itself. The device file alone says little where
/// machines are nested: there may be nobody behind it, or a hypervisor in software under which a
/// distribution's kernel does not boot; the processor then does not show that it can virtualise.
fn kvm_works() -> bool {
    let virtualises = fs::read_to_string("/proc/cpuinfo")
        .is_ok_and(|text| text.split_whitespace().any(|word| matches!(word, "vmx" | "svm")));
    let mut qemu = Command::new("timeout");
    qemu.args([KVM_TRIAL, "qemu-system-x86_64", "-accel", "kvm", "-machine", "pc"]);
    qemu.args(["-nodefaults", "-display", "none", "-monitor", "none", "-S"]);
    // A machine that can be made stands still until its time is over; QEMU ends at once otherwise.
    virtualises
        && Path::new("/dev/kvm").exists()
        && qemu
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.code() == Some(TIMED_OUT))
}

/// This processor's time-stamp rate in kHz, measured by a small C program that
/// is compiled into the cache.
fn tsc_khz() -> Result<String> {
    let program = cache::folder()?.join("tsc-khz");
    if !program.exists() {
        let source = cache::folder()?.join("tsc-khz.c");
        fs::write(&source, include_str!("tsc_khz.c"))?;
        let built = cache::folder()?.join(format!("tsc-khz.{}", std::process::id()));
        run_quiet(Command::new("cc").arg("-O").arg("-o").arg(&built).arg(&source))?;
        fs::rename(&built, &program)?;
    }
    Ok(run_quiet(&mut Command::new(program))?.trim().to_owned())
}

fn uml(
    kernel: &Path,
    setup: &Setup,
    work: &Path,
    outside: Option<&Outside>,
) -> Result<(Command, Option<PathBuf>)> {
    // The control socket's path must be short, so it is not below the work folder.
    let scratch = std::env::temp_dir().join(format!("nvmfd-uml-{}", std::process::id()));
    fs::create_dir_all(&scratch)?;
    let mut command = tied(kernel.to_str().context("the kernel's path is text")?, outside);
    // Guest memory is a file in TMPDIR: shared memory keeps it off the disk.
    command.env("TMPDIR", "/dev/shm");
    command.args([
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        "seccomp=on",
        "con0=fd:0,fd:1",
        "con=null",
        "quiet",
        "loglevel=4",
        "umid=guest",
        "null_blk.nr_devices=0",
        "brd.rd_nr=4",
        "brd.rd_size=524288",
    ]);
    if outside.is_some() {
        command.arg(format!(
            "vec0:transport=tap,ifname={INTERFACE},depth=128,gro=0,mtu={LARGEST_MTU}"
        ));
    }
    if !setup.multipath {
        command.arg(NO_MULTIPATH);
    }
    command.arg(format!("mem={MEMORY_MIB}M"));
    command.arg(format!("init={}", work.join("guest/boot-uml.sh").display()));
    command.arg(format!("uml_dir={}/", scratch.display()));
    command.arg(format!("harness.work={}", work.display()));
    Ok((command, Some(scratch)))
}
