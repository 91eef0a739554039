//! The real Linux host against a target, in a machine of its own.
//!
//! Owns: fetching kernels, booting machines (QEMU with a stock Debian kernel,
//! or User-Mode Linux), running the case scripts of `cases/` in them, judging
//! and keeping what they leave behind. In: [`Options`]. Out: a [`Report`] with
//! one verdict per case. Never touches the system's own apt lists, never needs
//! RDMA hardware or libraries to build, and never changes the machine it runs
//! on: a guest's root file system is this machine's root, read-only, under an
//! overlay that dies with the guest.
//!
//! The daemon's own RoCEv2 endpoint is tested outside of the machine: the daemon
//! runs beside it, in a network namespace, with a tap interface between the two.
//!
//! Two targets can be put under test: the daemon, and the kernel's own target.
//! The second is the reference: a case that fails on both is the harness's
//! fault, a case that fails on the daemon alone is the daemon's.

pub mod apt;
pub mod bench;
pub mod cache;
pub mod case;
mod command;
mod cpio;
pub mod kernel;
pub mod machine;
pub mod nvme_cli;
mod outside;
mod runner;
mod subject;
pub mod uml;

pub use command::{Output, capture, run_quiet};
pub use runner::{CaseResult, Options, Report, Verdict, programs, run, run_script};
pub use subject::{Provider, TargetKind};
