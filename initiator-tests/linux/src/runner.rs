//! Running cases: which share a machine, what a verdict is, what is kept.
//!
//! Cases with the same setup run in one machine, one after the other. A failed
//! case, and a machine that dies or goes silent, ends that machine; those still
//! to come get a new one. What a failed case left behind, and what any case wrote
//! to `$OUT/keep`, is moved to `linux/<machine>-<target>/<case>@<topology>/` below
//! the build folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::case::{self, Case, MachineKind, Setup};
use crate::command::run_quiet;
use crate::kernel::Kernel;
use crate::machine::{Boot, Event, Machine};
use crate::subject::{Provider, TargetKind};

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The machine and its kernel.
    pub boot: Boot,
    /// The target.
    pub target: TargetKind,
    /// The daemon's RDMA provider.
    pub provider: Provider,
    /// The daemon's program; needed for [`TargetKind::Nvmfd`].
    pub daemon: Option<PathBuf>,
    /// Test programs for the cases that call them; see [`programs`].
    pub programs: Vec<PathBuf>,
    /// Names of cases (`name` or `name@topology`); empty means all.
    pub cases: Vec<String>,
    /// Only cases marked `core`.
    pub core: bool,
    /// Folder of this package, with `cases/` and `guest/`.
    pub package: PathBuf,
    /// Build folder, below which work folders and kept logs go.
    pub build: PathBuf,
    /// Further environment variables of the guest's scripts; values without spaces.
    pub variables: Vec<(String, String)>,
}

/// What came of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passed.
    Passed,
    /// It does not apply here, and why.
    Skipped(String),
    /// It failed, and the first word on why.
    Failed(String),
}

/// One line of a report.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// `case@topology`.
    pub name: String,
    /// What came of it.
    pub verdict: Verdict,
    /// Seconds on the guest's clock; 0 when not known.
    pub seconds: f64,
    /// Where its output is kept, when it failed or wrote something to be kept.
    pub kept: Option<PathBuf>,
}

/// All results of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// In the order they ended.
    pub results: Vec<CaseResult>,
    /// Machines that died at their start, so that others were started: the last words of each.
    pub stumbles: Vec<String>,
}

impl Report {
    /// Numbers of passed, failed and skipped cases.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |wanted: fn(&Verdict) -> bool| {
            self.results.iter().filter(|r| wanted(&r.verdict)).count()
        };
        (
            count(|v| matches!(v, Verdict::Passed)),
            count(|v| matches!(v, Verdict::Failed(_))),
            count(|v| matches!(v, Verdict::Skipped(_))),
        )
    }
}

/// Machines that may die before their first case begins, one after the other: emulated processors
/// now and then stumble over a kernel that patches itself at its start.
const BOOT_TRIES: usize = 3;
/// How long a machine may take to come up. Emulated ones need about ten
/// seconds on a processor of their own.
const BOOT_LIMIT: Duration = Duration::from_secs(180);
/// How much longer than its own bound a case may be silent: the guest ends it
/// itself, so this is only reached by a machine that is stuck.
const GRACE: Duration = Duration::from_secs(60);

/// The time bound of a case in a kind of machine. What a header says is for an
/// emulated machine with its processors to itself; bounds are there to end what
/// is stuck, not to fail what is slow, so a busy one gets three times that.
fn bound(case: &Case, options: &Options) -> u64 {
    match options.boot.kind() {
        MachineKind::Qemu => case.seconds * 3,
        MachineKind::Uml => case.seconds,
    }
}

/// Runs the chosen cases; `each` is called with every result as it comes.
///
/// # Errors
/// When a name matches no case or a machine cannot be started at all. Failed
/// cases are results, not errors.
pub fn run(options: &Options, mut each: impl FnMut(&CaseResult)) -> Result<Report> {
    let groups = plan(options)?;
    let mut report = Report::default();
    for (setup, cases) in groups {
        let mut rest = cases.as_slice();
        let mut tries = BOOT_TRIES;
        while !rest.is_empty() {
            tries -= 1;
            let (results, stumble) = in_one_machine(options, &setup, rest, tries > 0, &mut each)?;
            match stumble {
                Some(why) => report.stumbles.push(why),
                None => tries = BOOT_TRIES,
            }
            rest = &rest[results.len().min(rest.len())..];
            report.results.extend(results);
        }
    }
    Ok(report)
}

/// Names of the test programs that the chosen cases call.
///
/// # Errors
/// When a name matches no case or a case cannot be read.
pub fn programs(options: &Options) -> Result<BTreeSet<String>> {
    let groups = plan(options)?;
    Ok(groups.into_values().flatten().flat_map(|case| case.programs).collect())
}

/// The chosen cases, grouped by the setup they need.
fn plan(options: &Options) -> Result<BTreeMap<Setup, Vec<Case>>> {
    let all = case::all(&options.package.join("cases"))?;
    for wanted in &options.cases {
        let name = wanted.split('@').next().unwrap_or(wanted);
        if !all.iter().any(|case| case.name == name) {
            bail!("no case is named {name}; --list shows all");
        }
    }
    let mut groups: BTreeMap<Setup, Vec<Case>> = BTreeMap::new();
    for case in all.iter().filter(|case| case.core || !options.core) {
        for setup in case.setups(options.boot.kind(), options.target, options.provider) {
            let full = format!("{}@{}", case.name, setup.topology);
            let wanted = options.cases.is_empty()
                || options.cases.iter().any(|w| *w == case.name || *w == full);
            if wanted {
                groups.entry(setup).or_default().push(case.clone());
            }
        }
    }
    Ok(groups)
}

/// Runs as many of `cases` as one machine survives; the results are those of the
/// first cases, in order. A machine that did not get as far as the first case gives
/// none, and its last words, where `again` says that another may try; without, that
/// case fails.
fn in_one_machine(
    options: &Options,
    setup: &Setup,
    cases: &[Case],
    again: bool,
    each: &mut impl FnMut(&CaseResult),
) -> Result<(Vec<CaseResult>, Option<String>)> {
    let work = WorkFolder::new(options, setup)?;
    let plan: String =
        cases.iter().map(|case| format!("{} {}\n", case.name, bound(case, options))).collect();
    fs::write(work.0.join("plan"), plan)?;
    let mut machine = Machine::start(&options.boot, setup, &work.0)?;
    let mut results = Vec::new();
    let mut running: Option<&Case> = None;
    let mut limit = BOOT_LIMIT;
    let died = loop {
        match machine.next(limit) {
            Event::Line(line) => {
                let mut words = line.splitn(5, ' ');
                match words.next() {
                    Some("begin") => {
                        running = cases.get(results.len());
                        limit =
                            Duration::from_secs(running.map_or(60, |c| bound(c, options))) + GRACE;
                    }
                    Some("end") => {
                        let name = words.next().unwrap_or_default();
                        let verdict = words.next().unwrap_or_default();
                        let seconds = words.next().and_then(|s| s.parse().ok()).unwrap_or(0.0);
                        let why = words.next().unwrap_or_default().to_owned();
                        running = None;
                        limit = GRACE;
                        let verdict = match verdict {
                            "passed" => Verdict::Passed,
                            "skipped" => Verdict::Skipped(why),
                            _ => Verdict::Failed(why),
                        };
                        let result = work.judge(options, setup, name, verdict, seconds);
                        each(&result);
                        results.push(result);
                    }
                    Some("broken") => break Some(line),
                    Some("down") => break None,
                    _ => {}
                }
            }
            Event::Ended => break Some("the machine ended without a word".to_owned()),
            Event::Silent => {
                break Some(format!("the machine was silent for {} s", limit.as_secs()));
            }
        }
    };
    drop(machine);
    if let Some(why) = died {
        let console = fs::read(work.0.join("console.log")).unwrap_or_default();
        let console = String::from_utf8_lossy(&console);
        let last = console.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("");
        let why = format!("{why}; console: {last}");
        if again && results.is_empty() && running.is_none() {
            return Ok((results, Some(why)));
        }
        let name = match running.or_else(|| cases.get(results.len())) {
            Some(case) => &case.name,
            None => return Ok((results, None)),
        };
        let result = work.judge(options, setup, name, Verdict::Failed(why), 0.0);
        each(&result);
        results.push(result);
    }
    Ok((results, None))
}

/// Boots one machine with `script` as its only case and returns the folder
/// content the script left in `$OUT` as text of its `output` file.
///
/// # Errors
/// When the machine cannot be started or the script fails.
pub fn run_script(options: &Options, setup: &Setup, script: &Path) -> Result<String> {
    let case = Case::read(script)?;
    let work = WorkFolder::new(options, setup)?;
    fs::copy(script, work.0.join("cases").join(format!("{}.sh", case.name)))?;
    fs::write(work.0.join("plan"), format!("{} {}\n", case.name, case.seconds))?;
    let mut machine = Machine::start(&options.boot, setup, &work.0)?;
    let until = Instant::now() + BOOT_LIMIT + Duration::from_secs(case.seconds) + GRACE;
    let failed = loop {
        match machine.next(until.saturating_duration_since(Instant::now())) {
            Event::Line(line) if line.starts_with("end ") => {
                let passed = line.split(' ').nth(2) == Some("passed");
                break (!passed).then_some(line);
            }
            Event::Line(line) if line.starts_with("broken") => break Some(line),
            Event::Line(_) => {}
            Event::Ended => break Some("the machine ended without a word".to_owned()),
            Event::Silent => break Some("the machine did not end in time".to_owned()),
        }
    };
    drop(machine);
    if let Some(why) = failed {
        let result = work.judge(options, setup, &case.name, Verdict::Failed(why.clone()), 0.0);
        let kept = result.kept.unwrap_or_default();
        bail!("{}: {why}\nlogs: {}", case.name, kept.display());
    }
    let output = work.0.join("out").join(&case.name).join("output");
    fs::read_to_string(&output).with_context(|| format!("cannot read {}", output.display()))
}

/// The folder that one machine works in; removed when done.
struct WorkFolder(PathBuf);

impl WorkFolder {
    fn new(options: &Options, setup: &Setup) -> Result<Self> {
        let base = options.build.join("linux");
        fs::create_dir_all(&base)?;
        let base = base.canonicalize()?;
        let path = (0..)
            .map(|n| base.join(format!("work-{}-{n}", std::process::id())))
            .find(|path| !path.exists())
            .context("a free name")?;
        let work = Self(path);
        for folder in ["bin", "out"] {
            fs::create_dir_all(work.0.join(folder))?;
        }
        // Of the documentation, what is to be typed is run, and so are the scripts that prepare a kernel.
        for folder in ["guest", "cases", "../../docs", "../../README.md", "../../kernel-setup"] {
            run_quiet(
                std::process::Command::new("cp")
                    .arg("-rL")
                    .arg(options.package.join(folder))
                    .arg(&work.0),
            )?;
        }
        run_quiet(
            std::process::Command::new("chmod").arg("755").arg(work.0.join("guest/boot-uml.sh")),
        )?;
        if options.target == TargetKind::Nvmfd || options.daemon.is_some() {
            let daemon = options.daemon.as_ref().context("no daemon program given")?;
            fs::copy(daemon, work.0.join("bin/nvmfd"))
                .with_context(|| format!("cannot copy {}", daemon.display()))?;
        }
        for program in &options.programs {
            let name = program.file_name().context("a program has a name")?;
            fs::copy(program, work.0.join("bin").join(name))
                .with_context(|| format!("cannot copy {}", program.display()))?;
        }
        let mut environment = format!(
            "export MACHINE={} TARGET={} PROVIDER={} TOPOLOGY={}\n",
            options.boot.kind().name(),
            options.target.name(),
            options.provider.name(),
            setup.topology,
        );
        for (name, value) in &options.variables {
            environment += &format!("export {name}={value}\n");
        }
        fs::write(work.0.join("environment"), environment)?;
        Ok(work)
    }

    /// Makes a result; what is to be kept of a case's leavings is moved to where it is kept.
    fn judge(
        &self,
        options: &Options,
        setup: &Setup,
        name: &str,
        verdict: Verdict,
        seconds: f64,
    ) -> CaseResult {
        let full = format!("{name}@{}", setup.topology);
        let kept = options
            .build
            .join("linux")
            .join(format!("{}-{}", options.boot.label(), options.target.name()))
            .join(&full);
        // Leftovers of an earlier run would mislead; a missing folder is fine.
        let _ = fs::remove_dir_all(&kept);
        let failed = matches!(verdict, Verdict::Failed(_));
        let from = self.0.join("out").join(name);
        let mut files = files_of(&from.join("keep"));
        if failed {
            files.extend(files_of(&from));
            files.extend(
                ["console.log", "machine.err", "out/topology.log", "out/outside.err"]
                    .map(|file| self.0.join(file)),
            );
        }
        let keep = !files.is_empty() && fs::create_dir_all(&kept).is_ok();
        for file in files.iter().filter(|_| keep) {
            if let Some(base) = file.file_name() {
                let _ = fs::copy(file, kept.join(base));
            }
        }
        CaseResult { name: full, verdict, seconds, kept: keep.then_some(kept) }
    }
}

/// The files of a folder, none when there is no such folder.
fn files_of(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The machine for a kernel choice; see [`Kernel::get`].
impl Boot {
    /// QEMU with the kernel that `choice` names.
    ///
    /// # Errors
    /// As [`Kernel::get`].
    pub fn qemu(choice: &str) -> Result<Self> {
        Ok(Self::Qemu(Kernel::get(choice)?))
    }
}
