//! `linux`, `uml-kernel`, `bench linux` and `demo --vm`: the machines.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use linux_host::case::{self, Setup};
use linux_host::machine::Boot;
use linux_host::{
    CaseResult, Options, Provider as ProviderKind, Report, TargetKind, Verdict, bench as figures,
    nvme_cli, uml,
};

use crate::{build, setup};

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Machine {
    /// QEMU with a stock distribution kernel.
    Qemu,
    /// User-Mode Linux: needs `cargo xtask uml-kernel` once, or UML_KERNEL=FILE.
    Uml,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Target {
    /// The daemon.
    Nvmfd,
    /// The kernel's own target, as a reference.
    Nvmet,
}

impl Target {
    fn kind(self) -> TargetKind {
        match self {
            Self::Nvmfd => TargetKind::Nvmfd,
            Self::Nvmet => TargetKind::Nvmet,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Provider {
    /// RDMA devices through libibverbs; the daemon runs in the machine.
    Verbs,
    /// The daemon's own RoCEv2 endpoint; the daemon runs outside of the machine.
    Soft,
}

impl Provider {
    fn kind(self) -> ProviderKind {
        match self {
            Self::Verbs => ProviderKind::Verbs,
            Self::Soft => ProviderKind::Soft,
        }
    }
}

#[derive(Args)]
pub(crate) struct MachineArgs {
    /// Kind of machine.
    #[arg(long, value_enum, default_value = "qemu")]
    machine: Machine,
    /// Kernel of a QEMU machine: `distro`, `newest`, or the beginning of a version.
    #[arg(long, default_value = "distro")]
    kernel: String,
}

impl MachineArgs {
    fn boot(&self) -> Result<Boot> {
        match self.machine {
            Machine::Qemu => Boot::qemu(&self.kernel),
            Machine::Uml => Ok(Boot::Uml(uml::find()?.context(
                "there is no User-Mode Linux kernel: run `cargo xtask uml-kernel` (about seven \
                 processor-minutes), or set UML_KERNEL",
            )?)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NvmeCli {
    /// What is installed here.
    Distro,
    /// The newest that any suite of the distribution's archive has.
    Newest,
}

#[derive(Args)]
pub(crate) struct LinuxArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// How the daemon reaches RDMA.
    #[arg(long, value_enum, default_value = "verbs")]
    provider: Provider,
    /// Whom the host talks to.
    #[arg(long, value_enum, default_value = "nvmfd")]
    target: Target,
    /// A daemon that is built already.
    #[arg(long, value_name = "FILE")]
    daemon: Option<PathBuf>,
    /// A folder with the test programs that some cases call, built already.
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// The host's nvme-cli.
    #[arg(long, value_enum, default_value = "distro")]
    nvme_cli: NvmeCli,
    /// Only the core subset.
    #[arg(long)]
    core: bool,
    /// List the cases and stop.
    #[arg(long)]
    list: bool,
    /// Cases to run, as NAME or NAME@TOPOLOGY; all without.
    cases: Vec<String>,
}

/// Folder of the package with cases and guest scripts.
fn package() -> Result<PathBuf> {
    Ok(build::root()?.join("initiator-tests/linux"))
}

/// `cargo xtask linux`
pub(crate) fn linux(args: &LinuxArgs) -> Result<bool> {
    if args.list {
        return list();
    }
    let target = args.target.kind();
    let provider = args.provider.kind();
    if (target, provider) == (TargetKind::Nvmet, ProviderKind::Soft) {
        bail!("the kernel's target has no provider of its own: --provider soft is for nvmfd");
    }
    let boot = args.machine.boot()?;
    let nvme_cli = match args.nvme_cli {
        NvmeCli::Distro => None,
        NvmeCli::Newest => Some(nvme_cli::newest()?),
    };
    let built = Built { daemon: args.daemon.clone(), programs: args.programs.clone(), nvme_cli };
    let report = run_cases(boot, target, provider, built, &args.cases, args.core)?;
    let (passed, failed, skipped) = report.counts();
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(failed == 0)
}

/// What need not be built first.
#[derive(Default)]
pub(crate) struct Built {
    /// The daemon.
    pub(crate) daemon: Option<PathBuf>,
    /// The folder of the test programs.
    pub(crate) programs: Option<PathBuf>,
    /// The program that hosts run as `nvme`, instead of the system's.
    pub(crate) nvme_cli: Option<PathBuf>,
}

/// Runs cases and prints a line for each.
pub(crate) fn run_cases(
    boot: Boot,
    target: TargetKind,
    provider: ProviderKind,
    built: Built,
    cases: &[String],
    core: bool,
) -> Result<Report> {
    let daemon = match (target, built.daemon) {
        (TargetKind::Nvmfd, None) => Some(build::daemon()?),
        (_, given) => given,
    };
    let mut options =
        Options { provider, cases: cases.to_vec(), core, ..script_options(boot, target, daemon)? };
    let needed = linux_host::programs(&options)?;
    options.programs = match built.programs {
        Some(folder) => needed.iter().map(|name| folder.join(name)).collect(),
        None => build::test_programs(&needed)?,
    };
    options.programs.extend(built.nvme_cli);
    println!("{} against {} ({})", options.boot.label(), target.name(), provider.name());
    let began = Instant::now();
    let report = linux_host::run(&options, print_result)?;
    for why in &report.stumbles {
        println!("  a machine did not come up, and another was started: {why}");
    }
    println!("  {:.0} s", began.elapsed().as_secs_f64());
    Ok(report)
}

fn print_result(result: &CaseResult) {
    let CaseResult { name, verdict, seconds, kept } = result;
    match verdict {
        Verdict::Passed => println!("  passed  {name:<32} {seconds:>6.1} s"),
        Verdict::Skipped(why) => println!("  skipped {name:<32} {why}"),
        Verdict::Failed(why) => println!("  FAILED  {name:<32} {seconds:>6.1} s  {why}"),
    }
    match (verdict, kept) {
        (Verdict::Failed(_), Some(kept)) => println!("          logs: {}", kept.display()),
        (_, Some(kept)) => println!("          kept: {}", kept.display()),
        (_, None) => {}
    }
}

fn list() -> Result<bool> {
    for case in case::all(&package()?.join("cases"))? {
        println!(
            "{:<24} {}{}\n{:24} on {}; topologies {}; targets {}; providers {}",
            case.name,
            case.summary,
            if case.core { " [core]" } else { "" },
            "",
            case.machines.join(", "),
            case.topologies.join(", "),
            case.targets.join(", "),
            case.providers.join(", "),
        );
    }
    Ok(true)
}

/// `cargo xtask uml-kernel`
pub(crate) fn uml_kernel() -> Result<bool> {
    setup::uml()?;
    println!("building the User-Mode Linux kernel: about seven processor-minutes");
    let kernel = uml::build(&package()?.join("uml.config"))?;
    println!("{}", kernel.display());
    Ok(true)
}

#[derive(Args)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Rounds; each measures both targets once.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Both ends on one device, or on two with a wire between them.
    #[arg(long, default_value = "loop")]
    topology: String,
    /// A daemon that is built already.
    #[arg(long, value_name = "FILE")]
    daemon: Option<PathBuf>,
    /// Measure only one target.
    #[arg(long, value_enum)]
    only: Option<Target>,
    /// Write the figures to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// `cargo xtask bench linux`
pub(crate) fn bench(args: &BenchArgs) -> Result<bool> {
    let targets = match args.only {
        None => vec![TargetKind::Nvmfd, TargetKind::Nvmet],
        Some(target) => vec![target.kind()],
    };
    let daemon = match &args.daemon {
        Some(given) => Some(given.clone()),
        None if targets.contains(&TargetKind::Nvmfd) => Some(build::daemon()?),
        None => None,
    };
    let options = script_options(args.machine.boot()?, targets[0], daemon)?;
    println!(
        "{}: {} rounds of {} s each, 4 KiB and 128 KiB reads",
        options.boot.label(),
        args.rounds,
        args.seconds
    );
    let plan = figures::Plan {
        rounds: args.rounds,
        seconds: args.seconds,
        topology: args.topology.clone(),
        targets,
    };
    let table = figures::run(options, &plan)?;
    print!("{table}");
    if let Some(path) = &args.json {
        fs::write(path, table.to_json())?;
    }
    Ok(true)
}

fn script_options(boot: Boot, target: TargetKind, daemon: Option<PathBuf>) -> Result<Options> {
    Ok(Options {
        boot,
        target,
        provider: ProviderKind::Verbs,
        daemon,
        programs: Vec::new(),
        cases: Vec::new(),
        core: false,
        package: package()?,
        build: build::output()?,
        variables: Vec::new(),
    })
}

/// What the demo in a machine is to be like.
pub(crate) struct DemoArgs {
    machine: MachineArgs,
    target: Target,
    daemon: Option<PathBuf>,
}

impl DemoArgs {
    /// With the defaults for what was not asked for: QEMU, the distribution's kernel, the daemon.
    pub(crate) fn new(
        machine: Option<Machine>,
        kernel: Option<String>,
        target: Option<Target>,
        daemon: Option<PathBuf>,
    ) -> Self {
        let machine = MachineArgs {
            machine: machine.unwrap_or(Machine::Qemu),
            kernel: kernel.unwrap_or_else(|| "distro".to_owned()),
        };
        Self { machine, target: target.unwrap_or(Target::Nvmfd), daemon }
    }
}

/// `cargo xtask demo --vm`
pub(crate) fn demo(args: &DemoArgs) -> Result<bool> {
    setup::run()?;
    let target = args.target.kind();
    let daemon = match (target, &args.daemon) {
        (TargetKind::Nvmfd, None) => Some(build::daemon()?),
        (_, given) => given.clone(),
    };
    let options = script_options(args.machine.boot()?, target, daemon)?;
    println!("booting {} ...", options.boot.label());
    let setup = Setup::default();
    let script = options.package.join("scripts/demo.sh");
    print!("{}", linux_host::run_script(&options, &setup, &script)?);
    Ok(true)
}
