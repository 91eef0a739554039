//! What a process has, as the kernel counts it.

use std::fs::{read_dir, read_to_string};
use std::time::Duration;

/// A running process, by its id.
#[derive(Debug, Clone, Copy)]
pub struct Process(pub u32);

impl Process {
    /// Bytes of memory that are resident.
    pub fn memory(self) -> usize {
        let text = read_to_string(format!("/proc/{}/status", self.0)).expect("a process");
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        let kib = line.split_whitespace().next().expect("KiB");
        kib.parse::<usize>().expect("a number") << 10
    }

    /// Descriptors that are open.
    pub fn open_files(self) -> usize {
        read_dir(format!("/proc/{}/fd", self.0)).expect("a process").count()
    }

    /// Processor time of all its threads.
    pub fn processor_time(self) -> Duration {
        let threads = read_dir(format!("/proc/{}/task", self.0)).expect("a process");
        let id = |name: std::ffi::OsString| name.to_string_lossy().parse().expect("a thread's id");
        threads.map(|thread| self.time_of(id(thread.expect("a thread").file_name()))).sum()
    }

    /// Processor time of its first thread.
    pub fn first_thread_time(self) -> Duration {
        self.time_of(self.0)
    }

    fn time_of(self, thread: u32) -> Duration {
        let path = format!("/proc/{}/task/{thread}/schedstat", self.0);
        let text = read_to_string(path).expect("a thread");
        let ns = text.split_whitespace().next().expect("a time");
        Duration::from_nanos(ns.parse().expect("a number"))
    }
}
