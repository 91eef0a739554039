//! What this machine has, and what it ran out of: what the configuration cannot know by itself.

use crate::config::{self, Config};
use std::io;
use std::path::Path;

/// What the configuration at `path` asks of the machine and does not get.
pub(crate) fn problems(path: &Path, config: &Config) -> Vec<String> {
    // Without sysfs there is no telling, and pinning fails with a warning.
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let missing = missing_cpus(&config.tuning.cpus, online.trim());
    let told = missing.map(|what| {
        // Only a file that has something wrong is read again for the place.
        let text = config::read(path).unwrap_or_default();
        let place = config::place_of(&text, "tuning", "cpus");
        let place = place.map_or_else(String::new, |(line, column)| format!(":{line}:{column}"));
        format!("{}{place}: tuning.cpus: {what}", path.display())
    });
    told.into_iter().collect()
}

/// Which of `cpus` are not among those that are online, a list as "0-3,8".
fn missing_cpus(cpus: &[usize], online: &str) -> Option<String> {
    let there = cpu_list(online);
    let missing: Vec<String> =
        cpus.iter().filter(|cpu| !there.contains(cpu)).map(ToString::to_string).collect();
    let told = !missing.is_empty() && !there.is_empty();
    told.then(|| format!("there is no CPU {} here: {online} are", missing.join(", ")))
}

/// The CPUs of a list as the kernel writes it, "0-3,8".
pub(crate) fn cpu_list(text: &str) -> Vec<usize> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        // No machine has more; a longer range is no list of CPUs.
        let last = last.parse::<usize>().ok()?.min(1 << 16);
        Some(first.parse::<usize>().ok()?..=last)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// What to do about an error that says that a limit of the process was reached, if it says so.
pub(crate) fn limit_hint(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    let mut next = Some(error);
    while let Some(error) = next {
        let system = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        if system == Some(libc::EMFILE) {
            return Some("raise the limit of open files (ulimit -n, LimitNOFILE of a service)");
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_are_not_there_are_named() {
        let missing = |cpus: &[usize]| missing_cpus(cpus, "0-3,8");
        assert_eq!(missing(&[]), None);
        assert_eq!(missing(&[0, 3, 8]), None);
        let said = missing(&[2, 4, 9]);
        assert_eq!(said.as_deref(), Some("there is no CPU 4, 9 here: 0-3,8 are"));
        assert_eq!(missing_cpus(&[7], ""), None, "no telling");
    }

    #[test]
    fn a_process_without_descriptors_left_is_told_which_limit_to_raise() {
        let full = || io::Error::from_raw_os_error(libc::EMFILE);
        let chain =
            backing::OpenError::System { path: "/srv/a".into(), doing: "open it", source: full() };
        assert!(limit_hint(&chain).is_some_and(|hint| hint.contains("LimitNOFILE")));
        assert!(limit_hint(&full()).is_some());
        assert_eq!(limit_hint(&io::Error::from_raw_os_error(libc::EIO)), None);
    }
}
