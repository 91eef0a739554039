//! The nvmfd daemon.

fn main() {}
