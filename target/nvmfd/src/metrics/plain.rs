//! The text format of Prometheus from before OpenMetrics, for whoever does not ask for the latter.
//!
//! They differ in little: there a counter's family is named as its samples are, units are not told
//! of, and nothing marks the end.

use std::collections::BTreeSet;

/// The media type of the text.
pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// OpenMetrics, told in that format.
pub(super) fn plain(text: &str) -> String {
    let counter = |line: &str| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        (kind == "counter").then(|| name.to_owned())
    };
    let counters: BTreeSet<String> = text.lines().filter_map(counter).collect();
    let mut plain = String::with_capacity(text.len());
    for line in text.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let about = ["# HELP ", "# TYPE "].into_iter().find(|about| line.starts_with(about));
        let family = about.and_then(|about| line[about.len()..].split_once(' '));
        match (about, family) {
            (Some(about), Some((name, rest))) if counters.contains(name) => {
                plain.extend([about, name, "_total ", rest]);
            }
            _ => plain.push_str(line),
        }
        plain.push('\n');
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_of_counters_are_named_as_their_samples_are() {
        let text = "# HELP a_bytes What it # moved\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\n\
                    a_bytes_total{x=\"# EOF\"} 1\n# HELP b Now\n# TYPE b gauge\nb 2.0\n# EOF\n";
        let expected = "# HELP a_bytes_total What it # moved\n# TYPE a_bytes_total counter\n\
                        a_bytes_total{x=\"# EOF\"} 1\n# HELP b Now\n# TYPE b gauge\nb 2.0\n";
        assert_eq!(plain(text), expected);
    }
}
