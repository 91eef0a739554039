//! `demo`: the daemon and a userspace host on this machine, in a few seconds.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use linux_host::run_quiet;
use serde_json::Value;

use crate::linux::{self, Machine, Target};
use crate::native::{Folder, Programs, SUBNQN, Serving, check_free, own_address};

#[derive(Args)]
pub(crate) struct DemoArgs {
    /// Address to serve at.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), conflicts_with = "vm")]
    address: IpAddr,
    /// In the end go on serving, at this machine's own address too, until Enter is pressed.
    #[arg(long, conflicts_with = "vm")]
    serve: bool,
    /// With a real Linux host in a virtual machine instead.
    #[arg(long)]
    vm: bool,
    /// Kind of virtual machine.
    #[arg(long, value_enum, requires = "vm")]
    machine: Option<Machine>,
    /// Kernel of a QEMU machine: `distro`, `newest`, or the beginning of a version.
    #[arg(long, requires = "vm")]
    kernel: Option<String>,
    /// Whom the Linux host talks to.
    #[arg(long, value_enum, requires = "vm")]
    target: Option<Target>,
    /// A daemon that is built already, for the virtual machine.
    #[arg(long, value_name = "FILE", requires = "vm")]
    daemon: Option<PathBuf>,
}

/// Bytes that are written and read back on the namespace in memory, and on the file.
const RAM_MIB: u32 = 256;
const FILE_MIB: u32 = 64;

/// What is measured: mode, block size, depth.
const BENCHES: [(&str, &str, u32); 4] = [
    ("randread", "4KiB", 1),
    ("randread", "4KiB", 32),
    ("randwrite", "4KiB", 32),
    ("read", "128KiB", 8),
];

/// `cargo xtask demo`
pub(crate) fn run(args: DemoArgs) -> Result<bool> {
    if args.vm {
        return linux::demo(&linux::DemoArgs::new(
            args.machine,
            args.kernel,
            args.target,
            args.daemon,
        ));
    }
    check_free(args.address)?;
    let own = own_address();
    let programs = Programs::build()?;
    let began = Instant::now();
    let folder = Folder::new("demo")?;
    let beside = own.filter(|_| args.serve);
    if let Some(own) = beside {
        check_free(own)?;
    }
    let listeners: Vec<IpAddr> = [Some(args.address), beside].into_iter().flatten().collect();
    let mut serving =
        Serving::start(&programs.daemon, folder.path(), &config(&listeners, &folder)?)?;
    println!("\nnvmfd serves {SUBNQN} at {} (soft-roce, no privilege needed)", args.address);

    let host = |words: &[&str]| -> Result<()> {
        println!("\n$ nvmf-host --address {} {}", args.address, words.join(" "));
        let out = run_quiet(command(&programs.host, args.address).args(words))?;
        print!("{out}");
        Ok(())
    };
    let verify = |nsid: &str, mib: u32| {
        let size = format!("{mib}MiB");
        host(&["verify", "--nsid", nsid, "--size", &size, "--queues", "2"])
    };
    let steps = || -> Result<()> {
        host(&["discover"])?;
        host(&["list-ns"])?;
        host(&["connect-test"])?;
        verify("1", RAM_MIB)?;
        verify("2", FILE_MIB)?;
        println!("\nhalf a second each, namespace in memory, one core for the host");
        println!("{:<22} {:>10} {:>9} {:>9} {:>9}", "", "IOPS", "MB/s", "p50 us", "p99 us");
        for (mode, block, depth) in BENCHES {
            measure(&programs.host, args.address, folder.path(), mode, block, depth)?;
        }
        Ok(())
    };
    steps().map_err(|error| serving.explain(error))?;
    println!("\nthe demo took {:.1} s after the build", began.elapsed().as_secs_f64());
    next_steps(own, beside.is_some(), &programs.daemon);
    if args.serve {
        println!("\nserving; press Enter to end");
        std::io::stdin().read_line(&mut String::new())?;
    }
    drop(serving);
    Ok(true)
}

fn command(host: &Path, address: IpAddr) -> Command {
    let mut command = Command::new(host);
    command.args(["--provider", "soft", "--nqn", SUBNQN, "--address", &address.to_string()]);
    command
}

fn config(listeners: &[IpAddr], folder: &Folder) -> Result<String> {
    let mut text = String::new();
    for address in listeners {
        let address = match address {
            IpAddr::V4(v4) => v4.to_string(),
            IpAddr::V6(v6) => format!("[{v6}]"),
        };
        text += &format!("[[listener]]\naddress = \"{address}\"\nprovider = \"soft\"\n");
    }
    let file = folder.path().join("disk.img");
    let file = file.to_str().context("the build folder's path is not UTF-8")?;
    text += &format!(
        "[[subsystem]]\nnqn = \"{SUBNQN}\"\nallow_any_host = true\n\
         [[subsystem.namespace]]\nram = \"{RAM_MIB}MiB\"\n\
         [[subsystem.namespace]]\npath = {file:?}\nsize = \"{FILE_MIB}MiB\"\n"
    );
    Ok(text)
}

fn measure(
    host: &Path,
    address: IpAddr,
    folder: &Path,
    mode: &str,
    block: &str,
    depth: u32,
) -> Result<()> {
    let json = folder.join("bench.json");
    run_quiet(
        command(host, address)
            .args(["bench", "--time", "0.5", "--ramp", "0.1", "--mode", mode])
            .args(["--block-size", block, "--depth", &depth.to_string(), "--json"])
            .arg(&json),
    )?;
    let figures: Value = serde_json::from_str(&fs::read_to_string(&json)?)?;
    let direction = if figures["read"].is_object() { "read" } else { "write" };
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let latency = &figures[direction]["latency_us"];
    if latency.is_null() {
        bail!("the measurement has no latencies: {figures}");
    }
    let name = format!("{mode} {block} depth {depth}");
    println!(
        "{name:<22} {:>10.0} {:>9.0} {:>9.0} {:>9.0}",
        number(&figures["iops"]),
        number(&figures["mb_per_s"]),
        number(&latency["p50"]),
        number(&latency["p99"]),
    );
    Ok(())
}

/// What to do next, with a Linux host.
fn next_steps(own: Option<IpAddr>, serving: bool, daemon: &Path) {
    let address = own.map_or_else(|| "ADDRESS".to_owned(), |address| address.to_string());
    println!("\nNext: a Linux host. On this machine, reached at {address}:");
    if serving {
        println!("  (nvmfd is serving there now)");
    } else {
        println!("  cargo xtask demo --serve        or, with a configuration of your own:");
        println!("  {} serve --config config/nvmfd.toml", daemon.display());
    }
    println!("and on the Linux host, as root:");
    println!("  modprobe nvme-rdma");
    println!(
        "  modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0   # without an RDMA card"
    );
    println!("  nvme discover -t rdma -a {address} -s 4420");
    println!("  nvme connect -t rdma -a {address} -s 4420 -n {SUBNQN}");
    println!("  nvme list");
    println!("  nvme disconnect -n {SUBNQN}");
}
