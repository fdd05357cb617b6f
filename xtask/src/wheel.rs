//! `cargo xtask wheel`: builds the wheel of the Python package, checks it, and uses it in a fresh environment.

use crate::dist::glibc;
use crate::{Result, output, python, root, run, target};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of `cargo xtask wheel`.
#[derive(clap::Args)]
pub struct Options {
    /// Also build the source distribution, and a wheel from it (a whole release build).
    #[arg(long)]
    sdist: bool,
}

/// The largest wheel, in bytes.
const MAX_BYTES: u64 = 15 << 20;

/// The tool that builds wheels, and where.
pub struct Maturin<'a> {
    /// An interpreter with maturin.
    pub python: &'a Path,
    /// The folder of wheels and source distributions.
    pub out: &'a Path,
    /// A list of the crates, which the wheel contains.
    pub components: Option<&'a Path>,
    /// Variables of the build.
    pub environment: &'a [(String, String)],
}

impl Maturin<'_> {
    /// Builds the wheel.
    pub fn wheel(&self) -> Result<PathBuf> {
        let mut command = self.command();
        command.args(["build", "--release", "--locked"]);
        let policy = format!("manylinux_{}", glibc::NEWEST.to_string().replace('.', "_"));
        command.args(["--compatibility", &policy]);
        if let Some(list) = self.components {
            command.arg("--sbom-include").arg(list);
        }
        self.built(command, ".whl")
    }

    /// Builds the source distribution.
    pub fn sdist(&self) -> Result<PathBuf> {
        let mut command = self.command();
        command.arg("sdist");
        self.built(command, ".tar.gz")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.python);
        command.current_dir(root().join("python"));
        command.envs(self.environment.iter().cloned());
        command.args(["-m", "maturin"]);
        command
    }

    /// Runs maturin in place of earlier files with this ending, and returns the file that it wrote.
    fn built(&self, mut command: Command, ending: &str) -> Result<PathBuf> {
        let files = || -> Result<Vec<PathBuf>> {
            let entries =
                std::fs::read_dir(self.out).map_err(|error| path_error(self.out, &error))?;
            let files = entries.flatten().map(|entry| entry.path());
            Ok(files
                .filter(|path| path.to_string_lossy().ends_with(ending))
                .collect())
        };
        std::fs::create_dir_all(self.out).map_err(|error| path_error(self.out, &error))?;
        for old in files()? {
            std::fs::remove_file(&old).map_err(|error| path_error(&old, &error))?;
        }
        run(command.arg("--out").arg(self.out))?;
        match files()?.as_slice() {
            [file] => Ok(file.clone()),
            found => Err(format!(
                "maturin: expected one {ending} file, found {found:?}"
            )),
        }
    }
}

/// The time of all files in what is distributed: `SOURCE_DATE_EPOCH`, or the time of the last commit.
pub fn source_date() -> Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => {
            let mut command = Command::new("git");
            output(
                command
                    .current_dir(root())
                    .args(["log", "-1", "--format=%ct"]),
            )?
        }
    };
    let text = text.trim();
    text.parse()
        .map_err(|_| format!("SOURCE_DATE_EPOCH: expected seconds since 1970, found '{text}'"))
}

/// Builds and checks the wheel.
pub fn wheel(options: &Options) -> Result<()> {
    let tools = python::for_wheels()?;
    // The folder of the command's release build, so that no crate is compiled twice.
    let target = std::path::absolute(target()).map_err(|error| path_error(&target(), &error))?;
    let environment = [
        ("CARGO_TARGET_DIR".to_owned(), target.display().to_string()),
        ("SOURCE_DATE_EPOCH".to_owned(), source_date()?.to_string()),
    ];
    let maturin = Maturin {
        python: &tools,
        out: &target.join("wheels"),
        components: None,
        environment: &environment,
    };
    check(&tools, &maturin.wheel()?)?;
    // `pip install ./python`, as the pages have it.
    let folder = target.join("python-fresh");
    let installed = python::create(&folder)?;
    let mut install = python::pip_install(&installed);
    install
        .env("CARGO_TARGET_DIR", &target)
        .env("MATURIN_NO_INSTALL_RUST", "1");
    run(install.arg("./python"))?;
    use_installed(&installed)?;
    if options.sdist {
        let sdist = maturin.sdist()?;
        let mut install = python::pip_install(&python::create(&folder)?);
        install.env("CARGO_TARGET_DIR", target.join("sdist"));
        run(install.env("MATURIN_NO_INSTALL_RUST", "1").arg(&sdist))?;
        use_installed(&installed)?;
    }
    Ok(())
}

/// Checks the stable ABI, contents, size and version of glibc of a wheel.
pub fn check(tools: &Path, wheel: &Path) -> Result<()> {
    let tool = |name: &str| {
        let mut command = Command::new(tools);
        command.args(["-m", name]);
        command
    };
    run(tool("abi3audit").arg("--strict").arg(wheel))?;
    run(tool("check_wheel_contents").arg(wheel))?;
    let bytes = std::fs::metadata(wheel)
        .map_err(|error| path_error(wheel, &error))?
        .len();
    if bytes > MAX_BYTES {
        return Err(format!(
            "{}: expected at most {MAX_BYTES} bytes, found {bytes}",
            wheel.display()
        ));
    }
    let needed = glibc::check("_tenon.abi3.so", &extension_module(wheel)?, glibc::NEWEST)?;
    println!(
        "{}: {:.1} MB, glibc {needed}",
        wheel.display(),
        bytes as f64 / 1e6
    );
    Ok(())
}

/// The bytes of the extension module in a wheel.
fn extension_module(wheel: &Path) -> Result<Vec<u8>> {
    let error = |error: &dyn std::fmt::Display| format!("{}: {error}", wheel.display());
    let file = std::fs::File::open(wheel).map_err(|e| error(&e))?;
    let mut archive = zip::ZipArchive::new(file).map_err(|e| error(&e))?;
    let mut member = archive
        .by_name("tenon/_tenon.abi3.so")
        .map_err(|e| error(&e))?;
    let mut bytes = Vec::new();
    member.read_to_end(&mut bytes).map_err(|e| error(&e))?;
    Ok(bytes)
}

/// Runs the command, a model without NumPy, and the README's example with it, in a fresh environment.
fn use_installed(installed: &Path) -> Result<()> {
    let version = output(Command::new(installed.with_file_name("tenon")).arg("--version"))?;
    let expected = format!("tenon {}", env!("CARGO_PKG_VERSION"));
    if !version.starts_with(&expected) {
        return Err(format!(
            "tenon --version: expected {expected}, found {version}"
        ));
    }
    let folder = target().join("python-fresh/example");
    std::fs::create_dir_all(&folder).map_err(|error| path_error(&folder, &error))?;
    let use_package = || {
        let mut command = Command::new(installed);
        command
            .current_dir(&folder)
            .args(["-X", "dev", "-W", "error"]);
        command.arg(root().join("xtask/python/installed_package.py"));
        command.arg(root().join("models/digits/digits.onnx"));
        command.arg(root().join("README.md"));
        command
    };
    run(&mut use_package())?;
    let mut make = Command::new(python::for_tests()?);
    make.current_dir(&folder);
    make.arg(root().join("xtask/python/example_model.py"));
    run(&mut make)?;
    run(python::pip_install(installed).arg("numpy"))?;
    run(&mut use_package())
}

fn path_error(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
