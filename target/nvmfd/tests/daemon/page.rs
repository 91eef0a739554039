//! The page with live charts, drawn by a real browser without a screen.

use crate::common::{Daemon, host, own_address};
use std::path::Path;
use std::process::Command;

const A: &str = "nqn.2026-11.io.nvmfd:a";
const BROWSERS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"];

/// What the browser makes of a page after some of its seconds; `None` where there is no browser.
fn drawn(url: &str, folder: &Path) -> Option<String> {
    let there = |name: &&&str| {
        let asked = Command::new(name).arg("--version").output();
        asked.is_ok_and(|output| output.status.success())
    };
    let Some(browser) = BROWSERS.iter().find(there) else {
        eprintln!("not run: there is no {}", BROWSERS.join(" and no "));
        return None;
    };
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .arg(format!("--user-data-dir={}", folder.display()))
        // Whatever is not on this machine is not there.
        .arg("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.*")
        .args(["--virtual-time-budget=6000", "--dump-dom", url])
        .output()
        .unwrap();
    let dom = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(dom)
}

#[test]
fn a_browser_shows_hosts_disks_and_lines_that_move() {
    let address = own_address().replace("4420", "9420");
    let daemon = Daemon::start(&format!(
        "[metrics]\naddress = \"{address}\"\n[[subsystem]]\nnqn = \"{A}\"\n\
         allow_any_host = true\nnamespace = [{{ ram = \"1MiB\" }}]\n"
    ));
    let mut host = host(&daemon.address, A);
    let dom = std::thread::scope(|scope| {
        let browser = scope.spawn(|| drawn(&format!("http://{address}/"), &daemon.path("browser")));
        while !browser.is_finished() {
            host.fill_blocks(0, 8, 1);
            host.read_blocks(0, 8);
        }
        browser.join().unwrap()
    });
    let Some(dom) = dom else { return };
    assert!(dom.contains("All listeners are up, no disk has failed a command."), "{dom}");
    for table in ["connections", "namespaces", "listeners", "cores"] {
        let rows = dom.split(&format!("<table id=\"{table}\">")).nth(1);
        let rows = rows.and_then(|rest| rest.split("</table>").next()).unwrap_or_default();
        assert!(rows.matches("<td").count() >= 3, "{table}: {dom}");
    }
    assert!(dom.contains(&format!("<td>{A}</td>")), "{dom}");
    // Three points at least in each of the six lines, and those of the throughput are not all zero.
    let lines: Vec<&str> = dom.split(" points=\"").skip(1).collect();
    let lines = lines.iter().map(|rest| rest.split('"').next().unwrap());
    let lines: Vec<Vec<&str>> = lines.map(|line| line.split(' ').collect()).collect();
    assert_eq!(lines.len(), 6, "{dom}");
    assert!(lines.iter().all(|points| points.len() >= 3), "{lines:?}");
    assert!(lines[0].iter().any(|point| !point.ends_with(",98.0")), "{lines:?}");
}
