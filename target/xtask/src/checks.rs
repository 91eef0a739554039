//! `prepush`, `test`, `tidy` and `sim`: steps that are run whatever came of
//! those before, and a sum at the end.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use linux_host::machine::Boot;

use linux_host::{CaseResult, Provider, TargetKind, Verdict, uml};

use crate::{build, container, cost, deb, deny, linux, setup, smoke, tidy, units};

#[derive(Args)]
pub(crate) struct SimArgs {
    /// Options of the simulator, passed on: `--seeds N`, `--start S`, `--seed S`, `--jobs J`,
    /// `--steps N`, `--fault NAME`, `--trace`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

#[derive(Args)]
pub(crate) struct LossArgs {
    /// Seeds to run.
    #[arg(long, default_value_t = LOSS_SEEDS)]
    seeds: u64,
}

/// Seeds of the simulator that `cargo xtask test` runs.
const TEST_SEEDS: u64 = 1000;
/// Seeds of soft-RoCE's simulated loss: seconds, once it is built.
const LOSS_SEEDS: u64 = 2000;
/// A User-Mode Linux kernel that is missing is built in a test run only when
/// the run is younger than this: it takes about five minutes on two processors.
const UML_BUILD_BEFORE: Duration = Duration::from_secs(40 * 60);

/// What came of one step.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// One line for each check that failed, where the step knows which.
    pub(crate) failures: Vec<String>,
}

impl From<bool> for Outcome {
    fn from(success: bool) -> Self {
        Self { passed: success.into(), failed: (!success).into(), failures: Vec::new() }
    }
}

/// The sum of a run.
#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
    /// One line for each check that failed, and for each step that cannot tell which.
    failures: Vec<String>,
}

impl Tally {
    /// Runs one step; one that cannot be run counts as one failure.
    fn step(&mut self, name: &str, step: impl FnOnce() -> Result<Outcome>) {
        println!("== {name}");
        let began = Instant::now();
        let Outcome { passed, failed, failures } = step().unwrap_or_else(|error| {
            println!("error: {error:#}");
            Outcome { passed: 0, failed: 1, failures: vec![format!("{error:#}")] }
        });
        let seconds = began.elapsed().as_secs();
        println!("-- {name}: {passed} passed, {failed} failed, {seconds} s");
        self.passed += passed;
        self.failed += failed;
        if failed > 0 && failures.is_empty() {
            self.failures.push(format!("{name}: {failed} failed"));
        }
        self.failures.extend(failures.iter().map(|failure| format!("{name}: {failure}")));
    }

    /// Prints what failed and the sum, which is the last line.
    fn finish(&self) -> bool {
        for failure in &self.failures {
            println!("FAILED {failure}");
        }
        println!("{} passed, {} failed", self.passed, self.failed);
        self.failed == 0
    }

    fn static_checks(&mut self) {
        self.step("cargo fmt", || cargo_step(&["fmt", "--all", "--check"]));
        self.step("cargo clippy", || {
            cargo_step(&[
                "clippy",
                "--quiet",
                "--workspace",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ])
        });
        self.step("tidy", || {
            let failures = offences()?;
            let failed = u64::try_from(failures.len())?;
            Ok(Outcome { passed: u64::from(failed == 0), failed, failures })
        });
        self.step("unit tests", units::run);
    }

    /// All or the core cases in one kind of machine, with each provider.
    fn linux(&mut self, name: &str, core: bool, boot: impl Fn() -> Result<Boot>) {
        for provider in [Provider::Verbs, Provider::Soft] {
            self.step(name, || {
                let built = linux::Built::default();
                let report =
                    linux::run_cases(boot()?, TargetKind::Nvmfd, provider, built, &[], core)?;
                let (passed, failed, _) = report.counts();
                Ok(Outcome {
                    passed: u64::try_from(passed)?,
                    failed: u64::try_from(failed)?,
                    failures: report.results.iter().filter_map(failed_case).collect(),
                })
            });
        }
    }
}

/// `cargo xtask tidy`
pub(crate) fn tidy() -> Result<bool> {
    let found = offences()?;
    if found.is_empty() {
        println!("tidy");
    }
    Ok(found.is_empty())
}

/// Prints what is untidy, and returns it.
fn offences() -> Result<Vec<String>> {
    let found = tidy::check(&build::root()?, &metadata()?)?;
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    lines.iter().for_each(|line| println!("{line}"));
    Ok(lines)
}

/// `cargo xtask prepush`
pub(crate) fn prepush() -> Result<bool> {
    let mut tally = Tally::default();
    tally.static_checks();
    Ok(tally.finish())
}

/// `cargo xtask sim`
pub(crate) fn sim(args: &SimArgs) -> Result<bool> {
    run_sim(&args.options)
}

/// `cargo xtask loss`
pub(crate) fn loss(args: &LossArgs) -> Result<bool> {
    run_loss(args.seeds)
}

/// `cargo xtask test`
pub(crate) fn test() -> Result<bool> {
    let began = Instant::now();
    setup::run()?;
    let mut tally = Tally::default();
    tally.static_checks();
    tally.step("benchmarks work", || {
        let failures = smoke::run()?;
        let failed = failures.len() as u64;
        Ok(Outcome { passed: smoke::COUNT - failed, failed, failures })
    });
    tally.step("dependencies", || Ok(deny::run()?.into()));
    tally
        .step("simulator", || Ok(run_sim(&["--seeds".to_owned(), TEST_SEEDS.to_string()])?.into()));
    tally.step("instructions a command", || Ok(cost::run(&cost::CostArgs::default())?.into()));
    tally.step("soft-RoCE, a tenth of the packets lost", || Ok(run_loss(LOSS_SEEDS)?.into()));
    tally.step("Debian package", || Ok(deb::test()?.map_or_else(Outcome::default, Outcome::from)));
    tally.step("container image", || {
        Ok(container::test()?.map_or_else(Outcome::default, Outcome::from))
    });
    tally.step("many hosts of an optimised daemon", || Ok(run_crowds()?.into()));
    // Under emulation each of the other cases takes minutes: they are run with User-Mode Linux.
    tally.linux("Linux host, distribution's kernel", true, || Boot::qemu("distro"));
    tally.linux("Linux host, newest kernel", true, || Boot::qemu("newest"));
    if uml::find()?.is_some() || began.elapsed() < UML_BUILD_BEFORE {
        tally.linux("Linux host, User-Mode Linux", false, || {
            if uml::find()?.is_none() {
                linux::uml_kernel()?;
            }
            Ok(Boot::Uml(uml::find()?.context("just built")?))
        });
    } else {
        println!(
            "no User-Mode Linux kernel, and no time left to build one: its cases are left out"
        );
    }
    println!("{} minutes in all", began.elapsed().as_secs() / 60);
    Ok(tally.finish())
}

fn run_sim(args: &[String]) -> Result<bool> {
    let status = build::cargo()?
        .args(["run", "--quiet", "--profile", "sim", "-p", "sim"])
        .args(["--bin", "sim", "--"])
        .args(args)
        .status()?;
    Ok(status.success())
}

/// Hosts that idle, and hosts that come and go, more of them than in the unit tests and at the daemon
/// that users get: that of the unit tests is not optimised.
fn run_crowds() -> Result<bool> {
    let status = build::cargo()?
        .env("NVMFD_PROGRAM", build::daemon()?)
        .envs([("CROWD_HOSTS", "100"), ("CHURN_HOSTS", "64"), ("CHURN_ROUNDS", "20")])
        .env("CHURN_REST", "11")
        .args(["test", "--quiet", "--profile", "sim", "-p", "conformance"])
        .args(["--test", "crowd", "--test", "churn"])
        .status()?;
    Ok(status.success())
}

/// soft-RoCE's engine between two ends that lose a tenth of the packets.
fn run_loss(seeds: u64) -> Result<bool> {
    let status = build::cargo()?
        .env("SOFT_ROCE_SEEDS", seeds.to_string())
        .args(["test", "--quiet", "--profile", "sim", "-p", "soft-roce", "--lib"])
        .arg("everything_arrives_with_a_tenth_lost")
        .status()?;
    Ok(status.success())
}

fn cargo_step(args: &[&str]) -> Result<Outcome> {
    Ok(build::cargo()?.args(args).status()?.success().into())
}

/// The line of a case that failed.
fn failed_case(result: &CaseResult) -> Option<String> {
    match &result.verdict {
        Verdict::Failed(why) => Some(format!("{}: {}", result.name, why.replace('\n', "; "))),
        Verdict::Passed | Verdict::Skipped(_) => None,
    }
}

fn metadata() -> Result<String> {
    linux_host::run_quiet(build::cargo()?.args(["metadata", "--format-version", "1", "--no-deps"]))
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Tally};

    #[test]
    fn a_step_that_cannot_be_run_is_a_failure_and_later_steps_still_run() {
        let mut tally = Tally::default();
        tally.step("broken", || anyhow::bail!("no"));
        tally.step("fine", || Ok(Outcome { passed: 5, ..Outcome::default() }));
        assert_eq!((tally.passed, tally.failed), (5, 1));
        assert_eq!(tally.failures, ["broken: no"]);
        assert!(!tally.finish());
    }
}
