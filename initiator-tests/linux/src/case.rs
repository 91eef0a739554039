//! Case scripts: what their headers declare.
//!
//! A case is one bash script in `cases/`, named by what it shows. Comment lines
//! that begin with `#:` declare, one key a line:
//!
//! - the first line without a known key: the summary (one line);
//! - `machines`: `qemu`, `uml` (default both);
//! - `topologies`: `veth` (two rxe devices with a real wire between them),
//!   `loop` (both ends on one rxe device), `siw` (iWARP; `uml` only); with the
//!   daemon's own RDMA endpoint `tap` (rxe in the machine, the daemon outside;
//!   a case for `veth` is one for `tap` too) and `routed` (as `tap`, with a
//!   router between that can damage the traffic); the case runs once per
//!   topology (default `veth`);
//! - `providers`: `verbs`, `soft` (default both);
//! - `targets`: `nvmfd`, `nvmet` (default both);
//! - `seconds`: the time bound inside an emulated machine (default 60);
//! - `cpus`: processors the machine must have (default 2; `uml` has one);
//! - `programs`: test programs of this repository that it calls from `$WORK/bin`;
//! - `disk`: `nvme` gives the machine an NVMe disk of QEMU's, with four namespaces and
//!   a queue to poll (`qemu` only);
//! - `multipath`: `off` lets the host keep its connections to one subsystem
//!   apart, each with disks of its own: as if it were several hosts;
//! - `core`: belongs to the subset run on further kernels.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::subject::{Provider, TargetKind};

/// Kinds of machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MachineKind {
    /// QEMU with a stock distribution kernel.
    Qemu,
    /// User-Mode Linux, a kernel as a process.
    Uml,
}

impl MachineKind {
    /// The name used on the command line and in case headers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qemu => "qemu",
            Self::Uml => "uml",
        }
    }
}

/// What a machine must be like before a case can run in it. Cases that need
/// the same share one machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setup {
    /// `veth`, `loop`, `siw`, `tap` or `routed`.
    pub topology: String,
    /// Processors.
    pub cpus: u32,
    /// An NVMe disk of the machine's own.
    pub nvme_disk: bool,
    /// The host joins its connections to one subsystem into one disk.
    pub multipath: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self { topology: "veth".to_owned(), cpus: 2, nvme_disk: false, multipath: true }
    }
}

impl Setup {
    /// Whether the target is outside of the machine.
    pub fn target_outside(&self) -> bool {
        matches!(self.topology.as_str(), "tap" | "routed")
    }
}

/// One case script.
#[derive(Clone, Debug)]
pub struct Case {
    /// File name without `.sh`.
    pub name: String,
    /// One line on what it shows.
    pub summary: String,
    /// The script.
    pub path: PathBuf,
    /// Machines it can run in.
    pub machines: Vec<String>,
    /// Topologies it runs on, each once.
    pub topologies: Vec<String>,
    /// Targets it makes sense for.
    pub targets: Vec<String>,
    /// RDMA providers of the daemon it makes sense for.
    pub providers: Vec<String>,
    /// Time bound in seconds.
    pub seconds: u64,
    /// Processors needed.
    pub cpus: u32,
    /// Needs an NVMe disk in the machine.
    pub nvme_disk: bool,
    /// Needs a host that joins paths.
    pub multipath: bool,
    /// Test programs of this repository that it calls.
    pub programs: Vec<String>,
    /// Part of the core subset.
    pub core: bool,
}

impl Case {
    /// Reads the header of one script.
    ///
    /// # Errors
    /// When the script cannot be read, has no summary, or declares a key or a
    /// number that is not known.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.file_stem().and_then(|s| s.to_str()).context("a case has a name")?;
        Self::parse(name, path, &text).with_context(|| format!("in {}", path.display()))
    }

    fn parse(name: &str, path: &Path, text: &str) -> Result<Self> {
        let mut case = Self {
            name: name.to_owned(),
            summary: String::new(),
            path: path.to_owned(),
            machines: words("qemu uml"),
            topologies: words("veth"),
            targets: words("nvmfd nvmet"),
            providers: words("verbs soft"),
            seconds: 60,
            cpus: 2,
            nvme_disk: false,
            multipath: true,
            programs: Vec::new(),
            core: false,
        };
        for line in text.lines().filter_map(|line| line.strip_prefix("#: ")) {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            match key {
                "machines" => case.machines = words(value),
                "topologies" => case.topologies = words(value),
                "targets" => case.targets = words(value),
                "providers" => case.providers = words(value),
                "seconds" => case.seconds = value.trim().parse()?,
                "cpus" => case.cpus = value.trim().parse()?,
                "disk" => case.nvme_disk = value.trim() == "nvme",
                "multipath" => case.multipath = value.trim() != "off",
                "programs" => case.programs = words(value),
                "core" => case.core = true,
                _ if case.summary.is_empty() => line.clone_into(&mut case.summary),
                other => bail!("unknown key {other}"),
            }
        }
        if case.summary.is_empty() {
            bail!("no summary line");
        }
        Ok(case)
    }

    /// The setups this case runs in on `machine` against `target` over
    /// `provider`; empty when it does not apply there.
    pub fn setups(
        &self,
        machine: MachineKind,
        target: TargetKind,
        provider: Provider,
    ) -> Vec<Setup> {
        let has = |list: &[String], name: &str| list.iter().any(|word| word == name);
        if !has(&self.machines, machine.name())
            || !has(&self.targets, target.name())
            || !has(&self.providers, provider.name())
        {
            return Vec::new();
        }
        let topologies: &[&str] = match (provider, machine) {
            (Provider::Verbs, MachineKind::Qemu) => &["veth", "loop"],
            (Provider::Verbs, MachineKind::Uml) => &["veth", "loop", "siw"],
            (Provider::Soft, _) => &["tap", "routed"],
        };
        topologies
            .iter()
            .filter(|topology| {
                has(&self.topologies, topology)
                    || (**topology == "tap" && has(&self.topologies, "veth"))
            })
            .map(|topology| Setup {
                topology: (*topology).to_owned(),
                cpus: if machine == MachineKind::Uml { 1 } else { self.cpus },
                nvme_disk: self.nvme_disk,
                multipath: self.multipath,
            })
            .collect()
    }
}

/// All cases of `dir`, by name.
///
/// # Errors
/// When the folder or a script in it cannot be read.
pub fn all(dir: &Path) -> Result<Vec<Case>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)
        .with_context(|| format!("cannot read {}", dir.display()))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "sh"))
        .collect();
    paths.sort();
    paths.iter().map(|path| Case::read(path)).collect()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{Case, MachineKind};
    use crate::subject::{Provider, TargetKind};
    use std::path::Path;

    fn parse(text: &str) -> anyhow::Result<Case> {
        Case::parse("x", Path::new("x.sh"), text)
    }

    #[test]
    fn header_keys_are_read_and_defaults_stand() {
        let case =
            parse("#: shows a thing\n#: topologies veth siw\n#: seconds 9\n#: core\n").unwrap();
        assert_eq!(case.summary, "shows a thing");
        assert_eq!((case.seconds, case.cpus, case.core), (9, 2, true));
        let on = |machine| case.setups(machine, TargetKind::Nvmet, Provider::Verbs).len();
        assert_eq!((on(MachineKind::Qemu), on(MachineKind::Uml)), (1, 2));
    }

    #[test]
    fn a_case_with_several_hosts_has_a_machine_of_its_own_kind() {
        let setup = |text: &str| {
            let case = parse(text).unwrap();
            case.setups(MachineKind::Uml, TargetKind::Nvmfd, Provider::Verbs).remove(0)
        };
        assert!(setup("#: shows a thing\n").multipath);
        assert!(!setup("#: shows a thing\n#: multipath off\n").multipath);
    }

    #[test]
    fn a_case_for_one_target_does_not_apply_to_the_other() {
        let case = parse("#: shows a thing\n#: targets nvmfd\n").unwrap();
        let against = |target| case.setups(MachineKind::Qemu, target, Provider::Verbs).len();
        assert_eq!((against(TargetKind::Nvmet), against(TargetKind::Nvmfd)), (0, 1));
    }

    #[test]
    fn a_target_outside_has_topologies_of_its_own() {
        let on = |text: &str, provider| -> Vec<String> {
            let setups = parse(text).unwrap().setups(MachineKind::Uml, TargetKind::Nvmfd, provider);
            setups.into_iter().map(|setup| setup.topology).collect()
        };
        assert_eq!(on("#: shows a thing\n", Provider::Soft), ["tap"]);
        let lossy = "#: shows a thing\n#: topologies routed\n";
        assert_eq!(on(lossy, Provider::Soft), ["routed"]);
        assert!(on(lossy, Provider::Verbs).is_empty());
        assert!(on("#: shows a thing\n#: topologies loop siw\n", Provider::Soft).is_empty());
        assert!(on("#: shows a thing\n#: providers verbs\n", Provider::Soft).is_empty());
    }

    #[test]
    fn unknown_keys_and_missing_summaries_are_refused() {
        assert!(parse("#: shows a thing\n#: second 9\n").is_err());
        assert!(parse("true\n").is_err());
    }
}
