//! `container`: the image of `config/Containerfile`, made and tried out with Buildah.
//!
//! The file's first stage compiles, which takes minutes and a registry: a folder with programs that
//! are built already stands for it. Every line of the second is run, on the Debian of the cache in
//! place of the one that would be fetched. What comes of it serves a host on this machine, as the image
//! says.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use linux_host::run_quiet;
use serde_json::Value;

use crate::native::{Folder, Programs, SUBNQN, Serving};
use crate::{build, debian, setup};

/// Where the daemon of the image listens: nobody else's address.
const ADDRESS: &str = "127.0.0.97";
/// The user of the image.
const UID: u32 = 4420;

#[derive(Args)]
pub(crate) struct ContainerArgs {
    /// A folder with nvmfd and nvmf-host that are built already.
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
}

/// `cargo xtask container`
pub(crate) fn run(args: &ContainerArgs) -> Result<bool> {
    if !setup::is_root()? {
        bail!("only root can make the image here; podman build does it for everyone");
    }
    let programs = Programs::given_or_built(args.programs.as_deref())?;
    try_out(&programs, &prepare()?)?;
    Ok(true)
}

/// For `cargo xtask test`: the same, where it can be done.
pub(crate) fn test() -> Result<Option<bool>> {
    if !setup::is_root()? {
        println!("not root: the container image is NOT made and tried out");
        return Ok(None);
    }
    match prepare() {
        Ok(folder) => try_out(&Programs::build()?, &folder)?,
        Err(why) => {
            println!("the container image is NOT made and tried out: {why:#}");
            return Ok(None);
        }
    }
    Ok(Some(true))
}

/// A folder with the image that the file's second stage begins with, where programs can be run in it.
fn prepare() -> Result<Folder> {
    setup::images()?;
    let base = debian::fresh()?;
    let folder = Folder::new("container")?;
    let buildah = Buildah(folder.path());
    buildah.image_of(&base)?;
    buildah.quiet(&["from", "--pull-never", "--name=plain", &base_image()])?;
    buildah.quiet(&["run", "plain", "--", "true"])?;
    Ok(folder)
}

fn try_out(programs: &Programs, folder: &Folder) -> Result<()> {
    let buildah = Buildah(folder.path());
    buildah.build(programs)?;
    buildah.quiet(&[
        "from",
        "--pull-never",
        "--security-opt=seccomp=unconfined",
        "--name=it",
        "nvmfd",
    ])?;
    print!("{}", buildah.quiet(&["run", "it", "--", "nvmfd", "--version"])?);

    let config = folder.path().join("nvmfd.toml");
    fs::write(
        &config,
        format!(
            "listener = [{{ address = \"{ADDRESS}:4420\", provider = \"soft\" }}]\n\
             [[subsystem]]\nnqn = \"{SUBNQN}\"\nallow_any_host = true\n\
             namespace = [{{ path = \"/var/lib/nvmfd/disk.img\", size = \"64MiB\" }}]\n"
        ),
    )?;
    let volume = format!("--volume={}:/etc/nvmfd/nvmfd.toml:ro", config.display());
    let mut serve = buildah.command();
    serve.args(["run", &volume, "it", "--"]).args(buildah.words_of_the_image()?);
    let serving = Serving::of(serve, folder.path())?;
    let verified = run_quiet(
        Command::new(&programs.host)
            .args(["--provider", "soft", "--address", ADDRESS, "--nqn", SUBNQN])
            .args(["verify", "--size", "16MiB"]),
    )?;
    print!("{verified}");

    let status = buildah.quiet(&["run", "it", "--", "nvmfd", "status", "--json"])?;
    let status: Value = serde_json::from_str(&status)?;
    let pid = status["pid"].as_u64().context("the status names no process")?;
    let uid = fs::metadata(format!("/proc/{pid}"))?.uid();
    ensure!(uid == UID, "the daemon runs as user {uid}, and not as {UID}");
    run_quiet(Command::new("kill").args(["-TERM", &pid.to_string()]))?;
    ensure!(serving.ends_well()?, "the daemon does not end well when asked to");
    println!("an image that serves, as user {UID}, and ends when asked to");
    Ok(())
}

/// The image that the file's second stage begins with.
fn base_image() -> String {
    format!("docker.io/library/debian:{}-slim", debian::SUITE)
}

/// Buildah with images of its own in this folder, without a daemon or namespaces of its own.
struct Buildah<'a>(&'a Path);

impl Buildah<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new("buildah");
        command
            .env("BUILDAH_ISOLATION", "chroot")
            // Layers as copies: works on whatever file system there is.
            .args(["--storage-driver", "vfs", "--root"])
            .arg(self.0.join("storage"))
            .arg("--runroot")
            .arg(self.0.join("run"));
        command
    }

    fn quiet(&self, words: &[&str]) -> Result<String> {
        run_quiet(self.command().args(words))
    }

    /// Makes an image of the fresh system, by the name that the file begins with.
    fn image_of(&self, base: &Path) -> Result<()> {
        self.quiet(&["from", "--name=base", "scratch"])?;
        run_quiet(self.command().args(["add", "--quiet", "base"]).arg(base).arg("/"))?;
        self.quiet(&["commit", "--quiet", "--rm", "base", &base_image()]).map(drop)
    }

    fn build(&self, programs: &Programs) -> Result<()> {
        let stage = self.0.join("stage");
        let release = stage.join("build/release");
        fs::create_dir_all(&release)?;
        for (program, name) in [(&programs.daemon, "nvmfd"), (&programs.host, "nvmf-host")] {
            run_quiet(Command::new("strip").arg("-o").arg(release.join(name)).arg(program))?;
        }
        let root = build::root()?;
        run_quiet(
            self.command()
                .args(["build", "--quiet", "--pull-never", "--format=docker", "--tag=nvmfd"])
                .arg(format!("--build-context=build={}", stage.display()))
                .arg("--file")
                .arg(root.join("config/Containerfile"))
                .arg(&root),
        )
        .map(drop)
    }

    /// What is run in the image when nothing else is said.
    fn words_of_the_image(&self) -> Result<Vec<String>> {
        let said: Value = serde_json::from_str(&self.quiet(&["inspect", "it"])?)?;
        let image = &said["OCIv1"]["config"];
        let words = [&image["Entrypoint"], &image["Cmd"]].into_iter().filter_map(Value::as_array);
        let words =
            words.flatten().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
        ensure!(!words.is_empty(), "the image says not what is to be run: {image}");
        Ok(words)
    }
}
