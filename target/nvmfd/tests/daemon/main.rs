//! The daemon as a process, on loopback addresses: what operators, monitoring, other doctors and
//! whoever reaches its socket make of it.

mod book;
mod common;
mod crowd;
mod disks;
mod hardship;
mod monitoring;
mod operate;
mod page;
mod pages;
mod peer;
mod refusals;
mod socket_fuzz;
