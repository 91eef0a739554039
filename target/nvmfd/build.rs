//! Tells the program which commit it was built from.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=NVMFD_COMMIT");
    println!("cargo::rerun-if-changed=../../.git/logs/HEAD");
    let commit = std::env::var("NVMFD_COMMIT").ok().or_else(|| {
        let git = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
        let text = String::from_utf8(git.stdout).ok()?;
        git.status.success().then(|| text.trim().to_owned())
    });
    println!("cargo::rustc-env=NVMFD_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}
