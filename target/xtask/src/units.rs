//! The unit tests: every test program of the workspace, several at a time.
//!
//! `cargo test` runs one program after the other, and much of what they do is to wait: for timers, for
//! disks, for a daemon. Cargo builds them here and says where they are. No two of them use the same
//! addresses or files.
//!
//! Examples in documentation are not compiled: there are none, and looking for them in every crate
//! takes longer than half of the tests.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::build;
use crate::checks::Outcome;

/// Programs at a time. Each runs as many of its tests at a time as there are processors.
const AT_ONCE: usize = 2;
/// The program that takes longest begins first, so that it is not the last one alone in the end.
const LONGEST: &str = "nvmfd-daemon";
/// Programs that took longer are named.
const SLOW: Duration = Duration::from_secs(10);

/// Builds all test programs and runs them. The output of one that fails is printed; that of all is
/// kept in files beside them.
pub(crate) fn run() -> Result<Outcome> {
    let logs = build::output()?.join("unit-tests");
    fs::create_dir_all(&logs)?;
    let mut programs = build_all()?;
    programs.sort_by_key(|program| program.name == LONGEST); // the last is taken first
    let (programs, sum) = (Mutex::new(programs), Mutex::new(Outcome::default()));
    let next = || programs.lock().expect("nobody panics with it").pop();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(program) = next() {
                    let began = Instant::now();
                    let ended = program.run(&logs.join(format!("{}.log", program.name)));
                    sum.lock().expect("nobody panics with it").add(&program, ended);
                    if began.elapsed() > SLOW {
                        println!("{}: {} s", program.name, began.elapsed().as_secs());
                    }
                }
            });
        }
    });
    Ok(sum.into_inner()?)
}

/// A test program.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    /// Package and target.
    name: String,
    file: PathBuf,
    /// Where cargo would run it.
    folder: PathBuf,
}

impl Program {
    /// What it said, and whether it says that all is well.
    fn run(&self, log: &PathBuf) -> Result<(String, bool)> {
        let output = fs::File::create(log)?;
        let status = Command::new(&self.file)
            .arg("--quiet")
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .stdin(Stdio::null())
            .stderr(output.try_clone()?)
            .stdout(output)
            .status()
            .with_context(|| format!("cannot start {}", self.file.display()))?;
        let said = fs::read(log)?;
        Ok((String::from_utf8_lossy(&said).into_owned(), status.success()))
    }
}

impl Outcome {
    fn add(&mut self, program: &Program, ended: Result<(String, bool)>) {
        let (said, well) = ended.unwrap_or_else(|error| (format!("{error:#}"), false));
        let failures: Vec<&str> =
            said.lines().filter_map(|line| line.strip_suffix(" --- FAILED")).collect();
        let counts = said.lines().rev().find_map(test_result);
        let (passed, failed) = counts.unwrap_or_default();
        self.passed += passed;
        self.failed += failed;
        self.failures.extend(failures.iter().map(|test| format!("{}: {test}", program.name)));
        if !well {
            println!("{}:\n{said}", program.name);
        }
        // One that is killed has no result line, or an old one.
        if !well && failed == 0 {
            self.failed += 1;
            self.failures.push(format!("{}: ended before its tests did", program.name));
        }
    }
}

/// Builds them.
fn build_all() -> Result<Vec<Program>> {
    let output = build::cargo()?
        .args(["test", "--quiet", "--workspace", "--no-run"])
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("the tests do not build");
    }
    let programs: Vec<Program> =
        String::from_utf8(output.stdout)?.lines().filter_map(test_program).collect();
    if programs.is_empty() {
        bail!("cargo named no test program");
    }
    Ok(programs)
}

/// The program that a message of cargo is about, if it is one with tests.
fn test_program(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    let file = message["executable"].as_str()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?.to_owned();
    let package = folder.file_name()?.to_string_lossy().into_owned();
    let name = format!("{package}-{}", message["target"]["name"].as_str()?);
    Some(Program { name, file: file.into(), folder })
}

/// The counts in a result line of a test program.
fn test_result(line: &str) -> Option<(u64, u64)> {
    let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let count = |word: &str| {
        counts
            .split("; ")
            .find_map(|part| part.strip_suffix(word))
            .and_then(|number| number.trim().parse().ok())
    };
    Some((count(" passed")?, count(" failed")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Program {
        Program { name: "a-b".to_owned(), file: "/a/b-1".into(), folder: "/a".into() }
    }

    #[test]
    fn result_lines_are_counted_whether_ok_or_not() {
        let ok = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out";
        assert_eq!(test_result(ok), Some((12, 0)));
        let bad = "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured";
        assert_eq!(test_result(bad), Some((3, 2)));
        assert_eq!(test_result("test a::b ... ok"), None);
    }

    #[test]
    fn failures_are_named_and_a_program_that_was_killed_is_one() {
        let mut sum = Outcome::default();
        let bad = "c::d --- FAILED\n\ntest result: FAILED. 3 passed; 1 failed; 0 ignored\n";
        sum.add(&program(), Ok((bad.to_owned(), false)));
        sum.add(&program(), Ok(("running 9 tests\n..".to_owned(), false)));
        sum.add(&program(), Ok(("\ntest result: ok. 5 passed; 0 failed\n".to_owned(), true)));
        assert_eq!((sum.passed, sum.failed), (8, 2));
        assert_eq!(sum.failures, ["a-b: c::d", "a-b: ended before its tests did"]);
    }

    #[test]
    fn test_programs_are_told_from_what_else_cargo_builds() {
        let message = |test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","executable":"/a/b-1","profile":{{"test":{test}}},
                    "manifest_path":"/a/Cargo.toml","target":{{"name":"b"}}}}"#
            )
        };
        assert_eq!(test_program(&message(true)), Some(program()));
        assert_eq!(test_program(&message(false)), None);
        assert_eq!(test_program("warning: cargo says something else"), None);
    }
}
